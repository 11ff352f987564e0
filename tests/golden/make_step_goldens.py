#!/usr/bin/env python3
"""make_step_goldens.py - one training step of two models by PyTorch, as safetensors.

Each file holds the weights a step starts from ("weight/<name>", buffers too), its batch ("input"
[N,H,W,C], "target" [N]), and what must come out: "loss" (mean cross-entropy), "grad/<name>" of every
parameter, and "after/<name>" of every running statistic. Weights and inputs are f32; the step is
computed in f64 from them and stored as f32, so the numbers carry no rounding of PyTorch's kernels.

    python3 tests/golden/make_step_goldens.py    (writes step_mlp.safetensors, step_resnet9.safetensors)
"""
import collections
import json
import pathlib
import struct

import torch
from torch import nn

WIDTH = 8  # of ResNet-9: every layer of the real one, with an eighth of its channels


def mlp():
    return nn.Sequential(collections.OrderedDict([
        ("flatten", nn.Flatten()), ("fc1", nn.Linear(32, 16)), ("relu1", nn.ReLU()),
        ("fc2", nn.Linear(16, 16)), ("relu2", nn.ReLU()), ("out", nn.Linear(16, 5))]))


class Unit(nn.Sequential):
    def __init__(self, ins, outs, pool=False):
        super().__init__(collections.OrderedDict([
            ("conv", nn.Conv2d(ins, outs, 3, padding=1, bias=False)), ("bn", nn.BatchNorm2d(outs)),
            ("relu", nn.ReLU())] + ([("pool", nn.MaxPool2d(2))] if pool else [])))


class Residual(nn.Sequential):
    def __init__(self, channels):
        super().__init__(Unit(channels, channels), Unit(channels, channels))

    def forward(self, x):
        return x + super().forward(x)


def resnet9():
    w = WIDTH
    return nn.Sequential(collections.OrderedDict([
        ("prep", Unit(3, w)), ("layer1", Unit(w, 2 * w, True)), ("res1", Residual(2 * w)),
        ("layer2", Unit(2 * w, 4 * w, True)), ("layer3", Unit(4 * w, 8 * w, True)),
        ("res3", Residual(8 * w)), ("pool", nn.MaxPool2d(4)), ("flatten", nn.Flatten()),
        ("fc", nn.Linear(8 * w, 10))]))


def step(net, shape, classes):
    with torch.no_grad():
        for name, p in net.named_parameters():
            if ".bn." in name:  # away from 1 and 0, so that a mixed-up scale or shift shows
                p.add_(0.3 * torch.randn(p.shape))
    x = torch.randn(shape)
    y = torch.arange(shape[0]) * 3 % classes
    tensors = {"input": x, "target": y.to(torch.int32)}
    for name, value in net.state_dict().items():
        tensors["weight/" + name] = value.clone()
    net = net.double()
    loss = nn.functional.cross_entropy(net(x.double().permute(0, 3, 1, 2)), y)
    loss.backward()
    tensors["loss"] = loss.detach().float()
    for name, p in net.named_parameters():
        tensors["grad/" + name] = p.grad.float()
    for name, b in net.named_buffers():
        tensors["after/" + name] = b.float() if b.is_floating_point() else b
    return tensors


def write(path, tensors):
    header, data = {"__metadata__": {"made_by": "make_step_goldens.py"}}, b""
    kinds = {torch.int64: "I64", torch.int32: "I32", torch.float32: "F32"}
    # Wide elements first: every tensor then begins at a multiple of its element.
    for name, t in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        raw = t.contiguous().numpy().tobytes()
        header[name] = {"dtype": kinds[t.dtype], "shape": list(t.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    folder = pathlib.Path(__file__).resolve().parent
    torch.manual_seed(9)
    write(folder / "step_mlp.safetensors", step(mlp(), (6, 4, 4, 2), 5))
    write(folder / "step_resnet9.safetensors", step(resnet9(), (4, 32, 32, 3), 10))


main()
