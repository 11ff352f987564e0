#!/usr/bin/env python3
"""read_tensorboard.py - reads the event files of a run with the real `tensorboard` package and compares
them with the run's own log: each number once, at its step, with its value; the recipe as a text.

    vivace train RECIPE --run-dir DIR loggers.tensorboard=on     (stop and repeat it at will)
    python3 read_tensorboard.py DIR [the logger's folder, if it is not DIR/tensorboard]
"""
import json
import math
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator


def as_float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def expected(run_dir):
    """{(name, step): value} of log.jsonl; what is logged during a batch has that batch's line."""
    out, during = {}, set()
    for line in open(run_dir + "/log.jsonl"):
        row = json.loads(line)
        if row["event"] == "batch":
            out["loss/train/total", row["batch"]] = row["loss"]
            if "grad_norm" in row:
                out["grad_norm", row["batch"]] = row["grad_norm"]
        if row["event"] == "eval":
            for name, value in row["metrics"].items():
                out["metrics/%s/%s" % (row["label"], name), row["batch"]] = value
        during.update(row.get("logged", {}))
    return out, during


def main():
    run_dir = sys.argv[1]
    folder = sys.argv[2] if len(sys.argv) > 2 else run_dir + "/tensorboard"
    events = event_accumulator.EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    want, during = expected(run_dir)
    got, bad = {}, 0
    for tag in events.Tags()["scalars"]:
        last = -1
        for scalar in events.Scalars(tag):
            if scalar.step <= last:
                print("%s: step %d comes after %d" % (tag, scalar.step, last))
                bad += 1
            last = scalar.step
            got[tag, scalar.step] = scalar.value
    for key, value in want.items():
        value = math.nan if value is None else as_float32(value)
        if key not in got:
            print("%s at step %d is missing" % key)
            bad += 1
        elif got[key] != value and not (math.isnan(value) and not math.isfinite(got[key])):
            print("%s at step %d: %r, expected %r" % (*key, got[key], value))
            bad += 1
    for key in got:
        if key not in want and key[0] not in during:
            print("%s at step %d was never logged" % key)
            bad += 1
    texts = events.Tags()["tensors"]
    recipe = [e for e in events.Tensors("recipe/text_summary" if "recipe/text_summary" in texts else "recipe")]
    lines = [line[4:] for line in recipe[0].tensor_proto.string_val[0].decode().splitlines()]
    if len(recipe) != 1 or lines != open(run_dir + "/recipe.yaml").read().splitlines():
        print("the recipe differs")
        bad += 1
    print("%d scalars under %d names, %d compared, %d bad" %
          (len(got), len(events.Tags()["scalars"]), len(want), bad))
    sys.exit(bad != 0)


main()
