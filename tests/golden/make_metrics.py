#!/usr/bin/env python3
"""make_metrics.py - writes metrics_golden.h: small data and what other implementations make of them.

PyTorch: cross-entropy, perplexity, squared error. torchmetrics: accuracies. scikit-learn: mIoU (from
jaccard_score), Dice (f1_score of each image and class), F1, Matthews. SciPy: Spearman.

    python3 tests/golden/make_metrics.py > tests/golden/metrics_golden.h
"""
import textwrap

import numpy as np
import sklearn.metrics as sk
import torch
import torchmetrics.functional as tm
from scipy.stats import spearmanr

IGNORE = -100
ROWS, CLASSES = 23, 7          # classification
IMAGES, SIDE, KINDS = 5, 4, 4  # segmentation
gen = torch.Generator().manual_seed(5)


def real(value):
    text = f"{value:.9g}"
    return text + ("f" if "." in text or "e" in text else ".0f")


def array(name, values, c_type="float"):
    flat = [v.item() for v in values.reshape(-1)]
    text = ", ".join(real(v) if c_type == "float" else str(v) for v in flat)
    body = textwrap.fill(text, 92, initial_indent="    ", subsequent_indent="    ")
    print(f"static const {c_type} {name}[] = {{\n{body},\n}};")


def number(name, value):
    print(f"static const double {name} = {float(value):.12g};")


def f32(tensor):
    """Quarters: exact in any text, and with ties."""
    return (tensor * 4).round() / 4


print("/* metrics_golden.h - written by make_metrics.py; do not edit. */")
print("#ifndef METRICS_GOLDEN_H\n#define METRICS_GOLDEN_H\n")
print("#include <stdint.h>\n")
print(f"enum {{ G_ROWS = {ROWS}, G_CLASSES = {CLASSES}, G_IMAGES = {IMAGES}, G_SIDE = {SIDE}, "
      f"G_KINDS = {KINDS} }};")

logits = torch.randn(ROWS, CLASSES, generator=gen)
target = torch.randint(0, CLASSES, (ROWS,), generator=gen)
near = torch.rand(ROWS, generator=gen) < 0.4  # else nothing would be right
target = torch.where(near, logits.argmax(1), target)
target[4] = target[20] = IGNORE
keep = target != IGNORE
array("g_logits", logits)
array("g_target", target, "int32_t")
for k in (1, 3, 5):
    number(f"g_top{k}", tm.accuracy(logits[keep], target[keep], task="multiclass", average="micro",
                                    num_classes=CLASSES, top_k=k))
nll = torch.nn.functional.cross_entropy(logits.double(), target, ignore_index=IGNORE)
number("g_nll", nll)
number("g_perplexity", torch.exp(nll))
number("g_matthews", sk.matthews_corrcoef(target[keep], logits[keep].argmax(1)))

two = torch.randn(ROWS, 2, generator=gen)
binary = torch.where(near, two.argmax(1), torch.randint(0, 2, (ROWS,), generator=gen))
binary[7] = IGNORE
keep = binary != IGNORE
array("g_two", two)
array("g_binary", binary, "int32_t")
number("g_f1", sk.f1_score(binary[keep], two[keep].argmax(1)))
number("g_matthews_two", sk.matthews_corrcoef(binary[keep], two[keep].argmax(1)))

# Segmentation [N,H,W,K]; class 3 is nowhere in image 0, class 2 nowhere at all.
pixels = torch.randn(IMAGES, SIDE, SIDE, KINDS, generator=gen)
pixels[..., 2] = -9.0
pixels[0, ..., 3] = -9.0
mask = torch.where(torch.rand(IMAGES, SIDE, SIDE, generator=gen) < 0.5, pixels.argmax(-1),
                   torch.randint(0, 2, (IMAGES, SIDE, SIDE), generator=gen))
mask[2, 0] = IGNORE
mask[4] = IGNORE  # a whole image without a class
array("g_pixels", pixels)
array("g_mask", mask, "int32_t")
guess = pixels.argmax(-1)
keep = mask != IGNORE
present = sorted(set(mask[keep].tolist()) | set(guess[keep].tolist()))
number("g_miou", sk.jaccard_score(mask[keep], guess[keep], labels=present, average="macro"))
images = []
for i in range(IMAGES):
    keep = mask[i] != IGNORE
    if keep.any():
        images.append([sk.f1_score(mask[i][keep] == k, guess[i][keep] == k, zero_division=1.0)
                       for k in range(1, KINDS)])
number("g_dice", np.mean(images))

score = f32(torch.randn(ROWS, generator=gen))
truth = f32(score + torch.randn(ROWS, generator=gen))
array("g_score", score)
array("g_truth", truth)
number("g_mse", torch.nn.functional.mse_loss(score.double(), truth.double()))
number("g_spearman", spearmanr(score.numpy(), truth.numpy()).statistic)
print("\n#endif")
