#!/usr/bin/env python3
"""make_image_ops.py - what Pillow makes of a small image, for test_image.c.

Usage: make_image_ops.py > image_golden.h    (made with Pillow 13)
"""
from PIL import Image, ImageEnhance, ImageOps

WIDTH, HEIGHT = 23, 19
SEED = 12345


def pixels():
    """The bytes that test_image.c makes too: gradients and noise from a linear congruence."""
    state, out = SEED, []
    for i in range(HEIGHT * WIDTH * 3):
        state = (state * 1103515245 + 12345) % 2**31
        y, x, c = i // (3 * WIDTH), i // 3 % WIDTH, i % 3
        out.append(min(255, 20 + 5 * y + (4 + c) * x + (state >> 16) % 60))
    return bytes(out)


def affine(image, a):
    return image.transform(image.size, Image.Transform.AFFINE, a, resample=Image.Resampling.BILINEAR)


def checksum(data):
    """FNV-1a, 64 bits."""
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


image = Image.frombytes("RGB", (WIDTH, HEIGHT), pixels())
grey = image.convert("L")
cases = []
for name, im in (("rgb", image), ("grey", grey)):
    def add(op, arg, result):
        cases.append((name, op, arg, result.tobytes()))

    add("autocontrast", 0, ImageOps.autocontrast(im))
    add("equalize", 0, ImageOps.equalize(im))
    for bits in (1, 3, 4, 8):
        add("posterize", bits, ImageOps.posterize(im, bits))
    for threshold in (0, 77, 256):
        add("solarize", threshold, ImageOps.solarize(im, threshold))
    for degrees in (-30, -7, 1, 13, 30, 90):
        add("rotate", degrees, im.rotate(degrees, resample=Image.Resampling.BILINEAR))
    for shear in (-0.3, -0.05, 0.11, 0.3):
        add("shear_x", shear, affine(im, (1, shear, 0, 0, 1, 0)))
        add("shear_y", shear, affine(im, (1, 0, 0, shear, 1, 0)))
    for shift in (-7, -1, 2, 6):
        add("translate_x", shift, affine(im, (1, 0, shift, 0, 1, 0)))
        add("translate_y", shift, affine(im, (1, 0, 0, 0, 1, shift)))
    for factor in (0.0, 0.1, 0.55, 1.0, 1.9, 7.3):
        if name == "rgb":
            add("color", factor, ImageEnhance.Color(im).enhance(factor))
        add("contrast", factor, ImageEnhance.Contrast(im).enhance(factor))
        add("brightness", factor, ImageEnhance.Brightness(im).enhance(factor))
        add("sharpness", factor, ImageEnhance.Sharpness(im).enhance(factor))

print("/* image_golden.h - checksums of Pillow's results; made by make_image_ops.py. */")
print("#ifndef IMAGE_GOLDEN_H\n#define IMAGE_GOLDEN_H\n\n#include <stdint.h>\n")
print("#define GOLDEN_WIDTH %d\n#define GOLDEN_HEIGHT %d\n#define GOLDEN_SEED %du\n" % (WIDTH, HEIGHT, SEED))
print("static const struct {\n    int channels;\n    const char *op;\n    double argument;")
print("    uint64_t checksum; /* FNV-1a */\n    uint8_t first[6]; /* bytes from the middle on */\n} image_golden[] = {")
for name, op, arg, data in cases:
    middle = len(data) // 2
    first = ", ".join(str(b) for b in data[middle:middle + 6])
    print('    {%d, "%s", %r, UINT64_C(0x%016x), {%s}},' % (3 if name == "rgb" else 1, op, arg, checksum(data), first))
print("};\n\n#endif")
