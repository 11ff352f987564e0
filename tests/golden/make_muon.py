#!/usr/bin/env python3
"""make_muon.py - writes muon_golden.h: weights after 1, 2 and 20 steps of muon and normuon, from
their formulas in f64 (K. Jordan et al., 2024; arXiv 2510.05491, 2505.16932, 2510.12402), one matrix
at a time. Start and gradients come from a counter that the
test has too.

    python3 tests/golden/make_muon.py > tests/golden/muon_golden.h
"""
import math
import textwrap

import torch

SHAPES = [(4, 3, 2, 2), (12, 4), (5,), (6, 6), (3, 5), (3,)]
STEPS, SHOWN = 20, (1, 2, 20)
FACTORS = [1.0 - t / 40.0 for t in range(STEPS)]
MASK = (1 << 64) - 1


def noise(i):
    x = (i + 1) * 0x9E3779B97F4A7C15 & MASK
    x ^= x >> 29
    x = x * 0xBF58476D1CE4E5B9 & MASK
    return (x >> 40) / 8388608.0 - 1.0


def tensor(base, shape, scale):
    count = math.prod(shape)
    return torch.tensor([scale * noise(base + i) for i in range(count)],
                        dtype=torch.float64).reshape(shape)


POLAR = [(8.15655, -22.48329, 15.87877), (4.04293, -2.80892, .50002), (3.89167, -2.77248, .50606),
         (3.28575, -2.36813, .46449), (2.34654, -1.70978, .42324)]


def orthogonal(g, steps, polar):
    x = g / (1.02 * g.norm() + 1e-6) if polar else g / (g.norm() + 1e-7)
    for i in range(steps):
        a, b, c = POLAR[min(i, 4)] if polar else (3.4445, -4.7750, 2.0315)
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def even_rows(d, squares, beta):
    """One number per row, per column of a wide matrix."""
    axis = 1 if d.shape[0] >= d.shape[1] else 0
    before = d.norm()
    squares.mul_(beta).add_((1 - beta) * (d * d).mean(axis))
    d = d / squares.clamp(min=1e-10).sqrt().unsqueeze(axis)
    return d * before / d.norm()


def directions(d, o, parts, squares):
    out = []
    for part, s in zip(d.chunk(parts), squares):
        part = orthogonal(part, o.get("ns_steps", 5), o.get("polar"))
        if o.get("even"):
            part = even_rows(part, s, o.get("row_beta", 0.95))
        if o.get("aspect", True):
            part = part * math.sqrt(max(1.0, part.shape[0] / part.shape[1]))
        out.append(part)
    return torch.cat(out)


def decayed(w, decay, towards, cautious):
    return torch.where(towards, w * (1 - decay), w) if cautious else w * (1 - decay)


def run(lr=0.02, momentum=0.95, nesterov=True, weight_decay=0.0, normalise_every=0,
        matrices="hidden", adamw=False, fallback_lr=0.05, head_lr=0.0, fallback_momentum=0.85,
        fallback_decay=0.0, beta1=0.9, beta2=0.95, eps=1e-8, cautious=False, split=(), others=(),
        **o):
    w = [tensor(1000 * j, s, 0.5) for j, s in enumerate(SHAPES)]
    v = [torch.zeros_like(p) for p in w]
    q = [torch.zeros_like(p) for p in w]
    parts = [3 if j in split else 1 for j in range(len(w))]
    rows = [[torch.zeros(max(s[0] // n, math.prod(s) // s[0]), dtype=torch.float64)
             for _ in range(n)] for s, n in zip(SHAPES, parts)]
    head = max(j for j, s in enumerate(SHAPES) if len(s) >= 2)
    shown = []
    for t in range(STEPS):
        for j, shape in enumerate(SHAPES):
            g = tensor(100000 * (t + 1) + 1000 * j, shape, 1.0)
            is_matrix = {"filters": len(shape) >= 3, "hidden": len(shape) >= 2 and j != head,
                         "all": len(shape) >= 2}[matrices] and j not in others
            if is_matrix:
                rate = lr * FACTORS[t]
                v[j] = momentum * v[j] + g
                d = g + momentum * v[j] if nesterov else v[j]
                d = directions(d.reshape(shape[0], -1), o, parts[j], rows[j]).reshape(shape)
                if normalise_every and t % normalise_every == 0:
                    w[j] = w[j] * math.sqrt(shape[0]) / w[j].norm()
                w[j] = decayed(w[j], rate * weight_decay, d * w[j] >= 0, cautious) - rate * d
                continue
            rate = (head_lr if j == head and head_lr else fallback_lr) * FACTORS[t]
            if adamw:
                v[j] = beta1 * v[j] + (1 - beta1) * g
                q[j] = beta2 * q[j] + (1 - beta2) * g * g
                root = (q[j] / (1 - beta2**(t + 1))).sqrt() + eps
                w[j] = decayed(w[j], rate * fallback_decay, v[j] * w[j] > 0, cautious) - (
                    rate * v[j] / (1 - beta1**(t + 1)) / root)
            else:
                d = g + fallback_decay * w[j]
                v[j] = fallback_momentum * v[j] + d
                w[j] = w[j] - rate * (d + fallback_momentum * v[j])
        if t + 1 in SHOWN:
            shown.append(torch.cat([p.flatten() for p in w]).tolist())
    return shown


def cases():
    yield "muon", "", run()
    yield ("muon", "lr=0.24,momentum=0.6,ns_steps=3,normalise_every=1,aspect_scale=false,"
           "fallback_lr=0.053,head_lr=0.67,fallback_weight_decay=0.01",
           run(lr=0.24, momentum=0.6, ns_steps=3, normalise_every=1, aspect=False, fallback_lr=0.053,
               head_lr=0.67, fallback_decay=0.01))
    yield ("muon", "matrices=all,nesterov=false,weight_decay=0.1,fallback=adamw,fallback_lr=0.01,"
           "fallback_weight_decay=0.1",
           run(nesterov=False, weight_decay=0.1, matrices="all", adamw=True, fallback_lr=0.01,
               fallback_decay=0.1))
    yield ("muon", "matrices=filters,normalise_every=4,fallback_momentum=0",
           run(matrices="filters", normalise_every=4, fallback_momentum=0.0))

    yield ("muon", "iteration=polar_express,ns_steps=6,cautious=true,weight_decay=2,others=p3,"
           "fallback=adamw,fallback_lr=0.02,fallback_weight_decay=1",
           run(polar=True, ns_steps=6, cautious=True, weight_decay=2.0, others=(3,), adamw=True,
               fallback_lr=0.02, fallback_decay=1.0))
    yield ("muon", "split=p1", run(split=(1,)))
    yield ("normuon", "", run(even=True, adamw=True, fallback_lr=0.003))
    yield ("normuon", "row_beta=0.8,split=p1,matrices=all,weight_decay=0.5",
           run(even=True, row_beta=0.8, split=(1,), matrices="all", weight_decay=0.5, adamw=True,
               fallback_lr=0.003))


def main():
    count = sum(math.prod(s) for s in SHAPES)
    print("/* muon_golden.h - weights after 1, 2 and 20 steps of muon and normuon, written by make_muon.py. */")
    print("#ifndef MUON_GOLDEN_H\n#define MUON_GOLDEN_H\n")
    print(f"#define MUON_COUNT {count}\n#define MUON_SHOWN {len(SHOWN)}\n")
    print(f"static const int muon_steps[MUON_SHOWN] = {{{', '.join(map(str, SHOWN))}}};")
    print("typedef struct muon_case {\n    const char *name, *settings;")
    print("    double weights[MUON_SHOWN][MUON_COUNT];\n} muon_case;")
    print("static const muon_case muon_cases[] = {")
    for name, settings, shown in cases():
        print(f'    {{"{name}",\n     "{settings}",\n     {{')
        for row in shown:
            text = "{" + ", ".join(f"{x:.8g}" for x in row) + "},"
            print(textwrap.fill(text, 99, initial_indent=" " * 9, subsequent_indent=" " * 10))
        print("     }},")
    print("};\n\n#endif")


main()
