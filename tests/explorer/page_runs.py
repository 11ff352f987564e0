"""page_runs.py - made-up runs for the tests of the Explorer's page, in the format that `vivace runs import` takes.

    page_runs.py COUNT FILE
"""
import json
import math
import random
import sys

METHODS = {  # what they do here: quality, time
    "blurpool": (0.006, 1.06), "label_smoothing": (0.004, 1.0), "mixup": (0.005, 1.02),
    "progressive_resizing": (-0.002, 0.7), "ema": (0.006, 1.04), "channels_last": (0.0, 0.9), "sam": (0.01, 1.9)}
HARDWARE = {"local": 0.2, "c7a.2xlarge": 0.41056, "c7i.xlarge": 0.1785}


def make_run(i, rng, small):
    """One run; every value follows from i and the state of rng."""
    model = ["resnet9", "mlp", "resnet20"][i % 3]
    methods = [m for m in METHODS if rng.random() < 0.3] if i % 7 else []
    hardware = rng.choice(list(HARDWARE))
    ratio = rng.choice([0.25, 0.36, 0.5, 0.75, 1, 1.5, 2])
    seconds = 60 * ratio * {"resnet9": 1, "mlp": 0.5, "resnet20": 2}[model]
    seconds *= math.prod(METHODS[m][1] for m in methods) * rng.uniform(0.95, 1.05)
    quality = min(0.99, 0.9 + 0.02 * math.log(1 + 2 * ratio) + sum(METHODS[m][0] for m in methods) -
                  (0.03 if model == "mlp" else 0) + rng.gauss(0, 0.002))
    status = "failed" if i % 97 == 5 else "interrupted" if i % 83 == 7 else "done"
    seed = 17 + i % 3
    name = "plain" if not methods else "mild" if len(methods) < 3 else "hot"
    started = 1.7e9 + 100 * i
    price = HARDWARE[hardware]
    times = [1.0] if small else [k / 6 for k in range(1, 7)]
    evals = [] if status == "failed" else [
        {"label": "eval", "metric": metric, "higher_is_better": metric == "accuracy", "epoch": k + 1,
         "batch": 100 * (k + 1), "sample": 25600 * (k + 1), "train_seconds": seconds * t,
         "wall_seconds": 1.05 * seconds * t, "value": value - (0.3 if metric == "accuracy" else -2) * (1 - t)}
        for metric, value in (("accuracy", quality), ("cross_entropy", 3 * (1 - quality)))
        for k, t in enumerate(times)]
    return {
        "id": "%s-s%d-%08x" % (name, seed, i), "name": name, "source": "vivace", "status": status,
        "dataset": "cifar10" if i % 10 == 9 else "fashion_mnist", "model": model,
        "optimizer": ["sgd", "adamw"][i % 2], "recipe": "model: %s\nseed: %d\n" % (model, seed),
        "scale_schedule_ratio": ratio, "seed": seed, "batch_size": 512, "max_duration": "%dep" % (32 * ratio),
        "parameters": 2400000, "precision": "bf16", "threads": 4, "cores": 8, "processor": "a processor",
        "hardware": hardware, "usd_per_hour": price, "price_kind": "on-demand", "price_region": "us-east-1",
        "price_date": "2025-05", "price_source": "a price list", "estimated": i % 31 == 3,
        "started": started, "seen": started + seconds, "ended": started + seconds, "progress": 1.0,
        "epochs": int(32 * ratio), "batches": int(3200 * ratio), "samples": int(1638400 * ratio),
        "train_seconds": seconds, "eval_seconds": 0.05 * seconds, "wall_seconds": 1.05 * seconds,
        "samples_per_second": 1638400 * ratio / seconds, "usd": seconds / 3600 * price, "loss": 0.3,
        "version": "0.1.0", "git_commit": "abc1234", "command": "vivace train %s.yaml seed=%d" % (name, seed),
        "methods": [{"name": m, "settings": {"strength": 0.1}} for m in methods],
        "settings": {"optimizer.lr": "%g" % (0.1 * (1 + i % 4))}, "evals": evals,
        "tags": ["kept"] if i % 50 == 0 else []}


def make_runs(count):
    """Many runs have one evaluation each, few have a curve."""
    rng = random.Random(7)
    return [make_run(i, rng, count > 1000) for i in range(count)]


def write_runs(runs, path):
    with open(path, "w") as file:
        json.dump({"format": "vivace-runs", "version": 1, "runs": runs}, file)


if __name__ == "__main__":
    write_runs(make_runs(int(sys.argv[1])), sys.argv[2])
