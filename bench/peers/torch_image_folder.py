#!/usr/bin/env python3
"""torch_image_folder.py - how fast torchvision makes training samples of a folder of photographs.

Usage: torch_image_folder.py DIR [--size 224] [--scale 0.08] [--batch 64] [--batches 12] [--workers 0]

The same work as `vivace bench data data=image_folder data_settings=dir=DIR`: decode, random resized
crop, mirror, normalise, in random order. Prints one JSON object; CPU time is that of this process and
its workers. Needs PyTorch, torchvision and Pillow.
"""
import argparse
import json
import resource
import time

import torch
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("dir")
parser.add_argument("--size", type=int, default=224)
parser.add_argument("--scale", type=float, default=0.08)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--batches", type=int, default=12)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(args.seed)


def cpu_seconds():
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        use = resource.getrusage(who)
        total += use.ru_utime + use.ru_stime
    return total


class Staged(datasets.ImageFolder):
    """ImageFolder that adds up this process's time in decoding and in the transforms."""

    def __init__(self, root, transform):
        super().__init__(root)
        self.after, self.decode, self.change = transform, 0.0, 0.0

    def __getitem__(self, index):
        start = time.thread_time()
        image, label = super().__getitem__(index)
        image.load()
        middle = time.thread_time()
        image = self.after(image)
        self.decode += middle - start
        self.change += time.thread_time() - middle
        return image, label


data = Staged(args.dir, transforms.Compose([
    transforms.RandomResizedCrop(args.size, scale=(args.scale, 1.0)),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
]))


def endless():
    while True:
        yield from torch.utils.data.DataLoader(data, batch_size=args.batch, shuffle=True,
                                               num_workers=args.workers)


batches = endless()
next(batches)  # files are in memory, code is warm
data.decode = data.change = 0.0
start, cpu, samples = time.perf_counter(), cpu_seconds(), 0
for _ in range(args.batches):
    samples += len(next(batches)[1])
seconds = time.perf_counter() - start
batches.close()
cpu = cpu_seconds() - cpu
result = {"samples": samples, "workers": args.workers, "samples_per_second": samples / seconds,
          "samples_per_cpu_second": samples / cpu, "cpu_ms_per_sample": 1e3 * cpu / samples}
if args.workers == 0:
    result["stages_ms"] = {"read_and_decode": 1e3 * data.decode / samples,
                           "resample_and_copy": 1e3 * data.change / samples}
print(json.dumps(result))
