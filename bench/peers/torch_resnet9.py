#!/usr/bin/env python3
"""torch_resnet9.py - training steps of the DAWNBench ResNet-9 in PyTorch, as JSON.

The same work as models/resnet9: batch of synthetic 32x32 images, forward, cross-entropy, backward,
SGD step with Nesterov momentum. Compare only numbers of one session on one idle machine.

    python3 bench/peers/torch_resnet9.py [--batch 512] [--steps 5] [--modes fp32,bf16] [--threads 2]
"""
import argparse
import json
import os
import statistics
import sys
import time

# glibc returns large blocks to the system after each step and PyTorch then pays for every page again;
# with these it keeps them, as our own slabs do. They must be set before the process starts.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}
MODES = ["fp32", "bf16", "fp32_compiled", "bf16_compiled"]


def with_tuned_malloc():
    if any(os.environ.get(key) != value for key, value in MALLOC.items()):
        os.environ.update(MALLOC)
        os.execv(sys.executable, [sys.executable, *sys.argv])


def make_net(torch):
    nn = torch.nn

    def unit(ins, outs, pool=False):
        parts = [nn.Conv2d(ins, outs, 3, padding=1, bias=False), nn.BatchNorm2d(outs), nn.ReLU()]
        return nn.Sequential(*parts, *([nn.MaxPool2d(2)] if pool else []))

    class Residual(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.units = nn.Sequential(unit(channels, channels), unit(channels, channels))

        def forward(self, x):
            return x + self.units(x)

    return nn.Sequential(
        unit(3, 64), unit(64, 128, True), Residual(128), unit(128, 256, True),
        unit(256, 512, True), Residual(512), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(512, 10))


def measure(torch, mode, batch, steps):
    """Samples per second: the median over the steps after two that warm up."""
    torch.manual_seed(0)
    net = make_net(torch).to(memory_format=torch.channels_last)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, nesterov=True)
    x = torch.randn(batch, 3, 32, 32).to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (batch,))
    half = mode.startswith("bf16")

    def loss_of(images, classes):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            return torch.nn.functional.cross_entropy(net(images).float(), classes)

    run = torch.compile(loss_of) if mode.endswith("_compiled") else loss_of

    def step():
        opt.zero_grad(set_to_none=True)
        loss = run(x, y)
        loss.backward()
        opt.step()
        return loss.item()

    for _ in range(2):
        step()
    seconds = []
    for _ in range(steps):
        begin = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - begin)
    return {"samples_per_second": round(batch / statistics.median(seconds), 1),
            "seconds_per_step": round(statistics.median(seconds), 4), "last_loss": round(loss, 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--modes", default=",".join(MODES),
                        help="comma-separated: " + ", ".join(MODES))
    args = parser.parse_args()
    modes = args.modes.split(",")
    for mode in modes:
        if mode not in MODES:
            parser.error(f"mode '{mode}' is not one of {', '.join(MODES)}")
    with_tuned_malloc()

    import torch
    torch.set_num_threads(args.threads)
    result = {"framework": "torch", "version": torch.__version__, "model": "resnet9",
              "batch": args.batch, "steps": args.steps, "threads": args.threads, "modes": {}}
    for mode in modes:
        try:
            result["modes"][mode] = measure(torch, mode, args.batch, args.steps)
        except Exception as error:  # a mode this PyTorch or machine cannot do is a result too
            lines = str(error).strip().splitlines() or [type(error).__name__]
            result["modes"][mode] = {"error": lines[0]}
    print(json.dumps(result))
    return 0 if any("error" not in m for m in result["modes"].values()) else 1


sys.exit(main())
