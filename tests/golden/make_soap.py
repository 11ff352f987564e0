#!/usr/bin/env python3
"""make_soap.py - writes soap_golden.h: weights after some steps of soap, from its algorithm in f64
(Vyas et al., arXiv 2409.11321): Adam in the eigenbasis of the averages of G G' and G' G. Start and
gradients come from a counter that the test has too.

    python3 tests/golden/make_soap.py > tests/golden/soap_golden.h
"""
import math
import textwrap

import numpy as np

SHAPES = [(5, 5), (3, 8), (8, 3), (2, 2, 2, 2), (4,)]
STEPS, SHOWN = 12, (1, 2, 5, 12)
FACTORS = [1.0 - t / 40.0 for t in range(STEPS)]
MASK = (1 << 64) - 1


def noise(i):
    x = (i + 1) * 0x9E3779B97F4A7C15 & MASK
    x ^= x >> 29
    x = x * 0xBF58476D1CE4E5B9 & MASK
    return (x >> 40) / 8388608.0 - 1.0


def array(base, shape, scale):
    return np.array([scale * noise(base + i) for i in range(math.prod(shape))]).reshape(shape[0], -1)


class Side:
    """One side's average and eigenvectors."""

    def __init__(self, n):
        self.mean, self.vectors = np.zeros((n, n)), None

    def add(self, gram, beta):
        self.mean = beta * self.mean + (1 - beta) * gram
        if self.vectors is None:
            self.vectors = np.linalg.eigh(self.mean)[1][:, ::-1]

    def renew(self):
        sizes = np.sum(self.vectors * (self.mean @ self.vectors), axis=0)
        order = np.argsort(-sizes, kind="stable")
        self.vectors = np.linalg.qr(self.mean @ self.vectors[:, order])[0]
        return order


def forth(x, left, right):
    x = left.vectors.T @ x if left else x
    return x @ right.vectors if right else x


def back(x, left, right):
    x = left.vectors @ x if left else x
    return x @ right.vectors.T if right else x


def run(lr=0.003, beta1=0.95, beta2=0.95, eps=1e-8, decay=0.01, frequency=10, max_size=1024):
    w = [array(1000 * j, s, 0.5) for j, s in enumerate(SHAPES)]
    m, v = [np.zeros_like(p) for p in w], [np.zeros_like(p) for p in w]
    sides = [[Side(n) if len(s) > 1 and n <= max_size else None for n in p.shape]
             for s, p in zip(SHAPES, w)]
    shown = []
    for t in range(STEPS):
        rate = lr * FACTORS[t]
        for j, shape in enumerate(SHAPES):
            g = array(100000 * (t + 1) + 1000 * j, shape, 1.0)
            left, right = sides[j]
            rotated = bool(left or right)
            if not rotated or t > 0:
                steps = t if rotated else t + 1
                turned = forth(g, left, right)
                m[j] = beta1 * m[j] + (1 - beta1) * turned
                v[j] = beta2 * v[j] + (1 - beta2) * turned**2
                if rotated:
                    step = m[j] / (np.sqrt(v[j]) + eps) * math.sqrt(1 - beta2**steps)
                else:
                    step = m[j] / (np.sqrt(v[j] / (1 - beta2**steps)) + eps)
                step = back(step / (1 - beta1**steps), left, right)
                w[j] = w[j] * (1 - rate * decay) - rate * step
            if left:
                left.add(g @ g.T, beta2)
            if right:
                right.add(g.T @ g, beta2)
            if rotated and t > 0 and t % frequency == 0:
                mean = back(m[j], left, right)
                if left:
                    v[j] = v[j][left.renew(), :]
                if right:
                    v[j] = v[j][:, right.renew()]
                m[j] = forth(mean, left, right)
        if t + 1 in SHOWN:
            shown.append(np.concatenate([p.ravel() for p in w]).tolist())
    return shown


def main():
    count = sum(math.prod(s) for s in SHAPES)
    print("/* soap_golden.h - weights after some steps of soap, written by make_soap.py. */")
    print("#ifndef SOAP_GOLDEN_H\n#define SOAP_GOLDEN_H\n")
    print(f"#define SOAP_COUNT {count}\n#define SOAP_SHOWN {len(SHOWN)}\n")
    print(f"static const int soap_steps[SOAP_SHOWN] = {{{', '.join(map(str, SHOWN))}}};")
    print("typedef struct soap_case {\n    const char *settings;")
    print("    double weights[SOAP_SHOWN][SOAP_COUNT];\n} soap_case;")
    print("static const soap_case soap_cases[] = {")
    for settings, shown in (
            ("max_size=5,frequency=3", run(max_size=5, frequency=3)),
            ("max_size=5,frequency=1,lr=0.05,beta1=0.8,beta2=0.9,weight_decay=0.5",
             run(0.05, 0.8, 0.9, decay=0.5, frequency=1, max_size=5))):
        print(f'    {{"{settings}",\n     {{')
        for row in shown:
            text = "{" + ", ".join(f"{x:.8g}" for x in row) + "},"
            print(textwrap.fill(text, 99, initial_indent=" " * 9, subsequent_indent=" " * 10))
        print("     }},")
    print("};\n\n#endif")


main()
