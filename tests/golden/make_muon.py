#!/usr/bin/env python3
"""make_muon.py - writes muon_golden.h: weights after 1, 2 and 20 steps of muon, from its formulas in
f64 (K. Jordan et al., 2024), one matrix at a time. Start and gradients come from a counter that the
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


def orthogonal(g, steps):
    x = g / (g.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if tall else x


def run(lr=0.02, momentum=0.95, nesterov=True, ns_steps=5, weight_decay=0.0, normalise_every=0,
        aspect=True, matrices="hidden", adamw=False, fallback_lr=0.05, head_lr=0.0,
        fallback_momentum=0.85, fallback_decay=0.0, beta1=0.9, beta2=0.95, eps=1e-8):
    w = [tensor(1000 * j, s, 0.5) for j, s in enumerate(SHAPES)]
    v = [torch.zeros_like(p) for p in w]
    q = [torch.zeros_like(p) for p in w]
    head = max(j for j, s in enumerate(SHAPES) if len(s) >= 2)
    shown = []
    for t in range(STEPS):
        for j, shape in enumerate(SHAPES):
            g = tensor(100000 * (t + 1) + 1000 * j, shape, 1.0)
            is_matrix = {"filters": len(shape) >= 3, "hidden": len(shape) >= 2 and j != head,
                         "all": len(shape) >= 2}[matrices]
            if is_matrix:
                rate = lr * FACTORS[t]
                v[j] = momentum * v[j] + g
                d = g + momentum * v[j] if nesterov else v[j]
                d = orthogonal(d.reshape(shape[0], -1), ns_steps)
                if aspect:
                    d = d * math.sqrt(max(1.0, d.shape[0] / d.shape[1]))
                keep = 1.0 - rate * weight_decay
                if normalise_every and t % normalise_every == 0:
                    keep *= math.sqrt(shape[0]) / w[j].norm().item()
                w[j] = w[j] * keep - rate * d.reshape(shape)
                continue
            rate = (head_lr if j == head and head_lr else fallback_lr) * FACTORS[t]
            if adamw:
                v[j] = beta1 * v[j] + (1 - beta1) * g
                q[j] = beta2 * q[j] + (1 - beta2) * g * g
                root = (q[j] / (1 - beta2**(t + 1))).sqrt() + eps
                w[j] = w[j] * (1 - rate * fallback_decay) - rate * v[j] / (
                    1 - beta1**(t + 1)) / root
            else:
                d = g + fallback_decay * w[j]
                v[j] = fallback_momentum * v[j] + d
                w[j] = w[j] - rate * (d + fallback_momentum * v[j])
        if t + 1 in SHOWN:
            shown.append(torch.cat([p.flatten() for p in w]).tolist())
    return shown


def cases():
    yield "", run()
    yield ("lr=0.24,momentum=0.6,ns_steps=3,normalise_every=1,aspect_scale=false,"
           "fallback_lr=0.053,head_lr=0.67,fallback_weight_decay=0.01",
           run(0.24, 0.6, ns_steps=3, normalise_every=1, aspect=False, fallback_lr=0.053,
               head_lr=0.67, fallback_decay=0.01))
    yield ("matrices=all,nesterov=false,weight_decay=0.1,fallback=adamw,fallback_lr=0.01,"
           "fallback_weight_decay=0.1",
           run(nesterov=False, weight_decay=0.1, matrices="all", adamw=True, fallback_lr=0.01,
               fallback_decay=0.1))
    yield ("matrices=filters,normalise_every=4,fallback_momentum=0",
           run(matrices="filters", normalise_every=4, fallback_momentum=0.0))


def main():
    count = sum(math.prod(s) for s in SHAPES)
    print("/* muon_golden.h - weights after 1, 2 and 20 steps of muon, written by make_muon.py. */")
    print("#ifndef MUON_GOLDEN_H\n#define MUON_GOLDEN_H\n")
    print(f"#define MUON_COUNT {count}\n#define MUON_SHOWN {len(SHOWN)}\n")
    print(f"static const int muon_steps[MUON_SHOWN] = {{{', '.join(map(str, SHOWN))}}};")
    print("typedef struct muon_case {\n    const char *settings;")
    print("    double weights[MUON_SHOWN][MUON_COUNT];\n} muon_case;")
    print("static const muon_case muon_cases[] = {")
    for settings, shown in cases():
        print(f'    {{"{settings}",\n     {{')
        for row in shown:
            text = "{" + ", ".join(f"{x:.8g}" for x in row) + "},"
            print(textwrap.fill(text, 99, initial_indent=" " * 9, subsequent_indent=" " * 10))
        print("     }},")
    print("};\n\n#endif")


main()
