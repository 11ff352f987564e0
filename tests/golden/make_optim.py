#!/usr/bin/env python3
"""make_optim.py - writes optim_golden.h: 20 steps of each optimizer.

sgd, adam, adamw, radam and rmsprop come from PyTorch in f32; the decoupled ones, the schedule-free
ones (their trained weights y) and muon from their formulas in f64. The learning rate falls from step to step, so that decay tied to it shows.

    python3 tests/golden/make_optim.py > tests/golden/optim_golden.h
"""
import math
import textwrap

import torch

COUNT, STEPS = 7, 20
FACTORS = [1.0 - t / 40.0 for t in range(STEPS)]


def data():
    gen = torch.Generator().manual_seed(20)
    start = torch.randn(COUNT, generator=gen)
    grads = torch.randn(STEPS, COUNT, generator=gen)
    grads[3, 2] = 0.0
    return start, grads


def torch_run(make, lr):
    start, grads = data()
    w = torch.nn.Parameter(start.clone())
    opt = make([w], lr)
    rows = []
    for t in range(STEPS):
        for group in opt.param_groups:
            group["lr"] = lr * FACTORS[t]
        w.grad = grads[t].clone()
        opt.step()
        rows.append(w.detach().double().tolist())
    return rows


def sgdw_run(lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    start, grads = data()
    w, v, rows = start.double(), None, []
    for t in range(STEPS):
        g, rate = grads[t].double(), lr * FACTORS[t]
        step = g
        if momentum:
            v = g.clone() if v is None else momentum * v + (1 - dampening) * g
            step = g + momentum * v if nesterov else v
        w = w * (1 - rate / lr * weight_decay) - rate * step
        rows.append(w.tolist())
    return rows


def adamw_run(lr, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=1e-5, amsgrad=False):
    start, grads = data()
    w = start.double()
    m, v, top, rows = torch.zeros_like(w), torch.zeros_like(w), torch.zeros_like(w), []
    for t in range(STEPS):
        g, rate, n = grads[t].double(), lr * FACTORS[t], t + 1
        w = w * (1 - rate / lr * weight_decay)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        top = torch.maximum(top, v)
        root = (top if amsgrad else v).sqrt() / math.sqrt(1 - beta2**n) + eps
        w = w - rate / (1 - beta1**n) * m / root
        rows.append(w.tolist())
    return rows


def schedule_free_run(lr, beta1=0.9, beta2=None, eps=1e-8, weight_decay=0.0, r=0.0, power=2.0):
    """arXiv 2405.15682, algorithm 1, with y, x and z kept apart; beta2 None: SGD."""
    start, grads = data()
    y = start.double()
    x, z, v, total, largest, rows = y.clone(), y.clone(), torch.zeros_like(y), 0.0, 0.0, []
    for t in range(STEPS):
        g, rate, n = grads[t].double(), lr * FACTORS[t], t + 1
        largest = max(largest, rate)
        weight = n**r * largest**power
        total += weight
        share = weight / total
        if beta2 is not None:
            v = beta2 * v + (1 - beta2) * g * g
            g = g / ((v / (1 - beta2**n)).sqrt() + eps)
        z = z - rate * (g + weight_decay * y)
        x = (1 - share) * x + share * z
        y = beta1 * x + (1 - beta1) * z
        rows.append(y.tolist())
    return rows


def cases():
    sgd = torch.optim.SGD
    adam, adamw = torch.optim.Adam, torch.optim.AdamW
    yield "sgd", "lr=0.1", torch_run(lambda p, lr: sgd(p, lr), 0.1)
    yield "sgd", "lr=0.1,momentum=0.9,weight_decay=0.1", torch_run(
        lambda p, lr: sgd(p, lr, momentum=0.9, weight_decay=0.1), 0.1)
    yield "sgd", "lr=0.05,momentum=0.8,dampening=0.3", torch_run(
        lambda p, lr: sgd(p, lr, momentum=0.8, dampening=0.3), 0.05)
    yield "sgd", "lr=0.1,momentum=0.9,nesterov=true,weight_decay=0.05", torch_run(
        lambda p, lr: sgd(p, lr, momentum=0.9, nesterov=True, weight_decay=0.05), 0.1)
    yield "adam", "lr=0.01", torch_run(lambda p, lr: adam(p, lr), 0.01)
    yield "adam", "lr=0.02,beta1=0.8,beta2=0.95,eps=1e-6,weight_decay=0.1", torch_run(
        lambda p, lr: adam(p, lr, (0.8, 0.95), 1e-6, weight_decay=0.1), 0.02)
    yield "adam", "lr=0.02,beta2=0.9,amsgrad=true", torch_run(
        lambda p, lr: adam(p, lr, (0.9, 0.9), amsgrad=True), 0.02)
    yield "adamw", "lr=0.02", torch_run(lambda p, lr: adamw(p, lr), 0.02)
    yield "adamw", "lr=0.02,beta2=0.95,weight_decay=0.3", torch_run(
        lambda p, lr: adamw(p, lr, (0.9, 0.95), weight_decay=0.3), 0.02)
    yield "adamw", "lr=0.02,beta2=0.9,weight_decay=0.3,amsgrad=true", torch_run(
        lambda p, lr: adamw(p, lr, (0.9, 0.9), weight_decay=0.3, amsgrad=True), 0.02)
    yield "decoupled_sgdw", "lr=0.1,momentum=0.9,weight_decay=0.02", sgdw_run(
        0.1, 0.9, weight_decay=0.02)
    yield "decoupled_sgdw", "lr=0.1,momentum=0.9,dampening=0.4", sgdw_run(0.1, 0.9, 0.4)
    yield "decoupled_sgdw", "lr=0.1,momentum=0.9,weight_decay=0.02,nesterov=true", sgdw_run(
        0.1, 0.9, weight_decay=0.02, nesterov=True)
    yield "decoupled_sgdw", "lr=0.1,weight_decay=0.02", sgdw_run(0.1, weight_decay=0.02)
    yield "decoupled_adamw", "lr=0.02", adamw_run(0.02)
    yield "decoupled_adamw", "lr=0.02,weight_decay=0.02", adamw_run(0.02, weight_decay=0.02)
    yield "decoupled_adamw", "lr=0.02,beta2=0.9,weight_decay=0.02,amsgrad=true", adamw_run(
        0.02, beta2=0.9, weight_decay=0.02, amsgrad=True)


    radam, rmsprop = torch.optim.RAdam, torch.optim.RMSprop
    yield "radam", "lr=0.02", torch_run(lambda p, lr: radam(p, lr), 0.02)
    yield "radam", "lr=0.02,beta1=0.8,beta2=0.9,eps=1e-6,weight_decay=0.1", torch_run(
        lambda p, lr: radam(p, lr, (0.8, 0.9), 1e-6, 0.1), 0.02)
    yield "rmsprop", "lr=0.02", torch_run(lambda p, lr: rmsprop(p, lr), 0.02)
    yield "rmsprop", "lr=0.02,alpha=0.9,eps=1e-6,weight_decay=0.1,momentum=0.9", torch_run(
        lambda p, lr: rmsprop(p, lr, 0.9, 1e-6, 0.1, 0.9), 0.02)
    yield "rmsprop", "lr=0.02,alpha=0.9,momentum=0.5,centered=true", torch_run(
        lambda p, lr: rmsprop(p, lr, 0.9, momentum=0.5, centered=True), 0.02)
    yield "schedule_free_sgd", "lr=0.5", schedule_free_run(0.5)
    yield "schedule_free_sgd", "lr=0.1,momentum=0.8,weight_decay=0.1,r=1", schedule_free_run(
        0.1, 0.8, weight_decay=0.1, r=1.0)
    yield "schedule_free_sgd", "lr=0.1,weight_lr_power=0", schedule_free_run(0.1, power=0.0)
    yield "schedule_free_adamw", "lr=0.02", schedule_free_run(0.02, beta2=0.999)
    yield ("schedule_free_adamw", "lr=0.02,beta1=0.95,beta2=0.9,eps=1e-6,weight_decay=0.1",
           schedule_free_run(0.02, 0.95, 0.9, 1e-6, 0.1))


def print_row(values, digits, indent):
    text = "{" + ", ".join(f"{v:.{digits}g}" for v in values) + "},"
    print(textwrap.fill(text, 99, initial_indent=indent, subsequent_indent=indent + " "))


def main():
    start, grads = data()
    print("/* optim_golden.h - 20 steps of each optimizer, written by make_optim.py with PyTorch "
          f"{torch.__version__.split('+')[0]}. */")
    print("#ifndef OPTIM_GOLDEN_H\n#define OPTIM_GOLDEN_H\n")
    print(f"#define GOLDEN_COUNT {COUNT}\n#define GOLDEN_STEPS {STEPS}\n")
    print("/* Step t, from 0, runs at 1 - t / 40 of the initial learning rate. */")
    print("static const double golden_start[1][GOLDEN_COUNT] = {")
    print_row(start.tolist(), 9, "    ")
    print("};\nstatic const double golden_grad[GOLDEN_STEPS][GOLDEN_COUNT] = {")
    for values in grads.tolist():
        print_row(values, 9, "    ")
    print("};\n\ntypedef struct golden_case {")
    print("    const char *optimizer, *settings;")
    print("    double weight[GOLDEN_STEPS][GOLDEN_COUNT]; /* after each step */\n} golden_case;")
    print("static const golden_case golden_cases[] = {")
    for name, settings, rows in cases():
        print(f'    {{"{name}",\n     "{settings}",\n     {{')
        for values in rows:
            print_row(values, 8, "         ")
        print("     }},")
    print("};\n\n#endif")


main()
