#!/usr/bin/env python3
"""make_photos.py - small JPEG and PNG files and what Pillow makes of them; sizes, hues and cuts.

Usage: make_photos.py > photo_golden.h    (made with Pillow 13)
"""
import io

from PIL import Image, ImageOps

WIDTH, HEIGHT = 61, 47
SEED = 4711


def pixels():
    """The bytes that photo_case.h makes too: gradients and noise from a linear congruence."""
    state, out = SEED, []
    for i in range(HEIGHT * WIDTH * 3):
        state = (state * 1103515245 + 12345) % 2**31
        y, x, c = i // (3 * WIDTH), i // 3 % WIDTH, i % 3
        out.append(((3 + c) * x + (5 - c) * y + (state >> 16) % 48) % 256)
    return bytes(out)


def checksum(data):
    """FNV-1a, 64 bits."""
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


def saved(im, kind, **options):
    out = io.BytesIO()
    im.save(out, kind, **options)
    return out.getvalue()


image = Image.frombytes("RGB", (WIDTH, HEIGHT), pixels())
grey = image.convert("L")
exif = Image.Exif()
exif[0x0112] = 6
alpha = Image.merge("RGBA", (*image.split(), grey))
files = [
    ("jpeg_420", saved(image, "JPEG", quality=90)),
    ("jpeg_444", saved(image, "JPEG", quality=60, subsampling=0)),
    ("jpeg_422_progressive", saved(image, "JPEG", quality=75, subsampling=1, progressive=True)),
    ("jpeg_grey", saved(grey, "JPEG", quality=80)),
    ("jpeg_cmyk", saved(image.convert("CMYK"), "JPEG", quality=80)),
    ("jpeg_turned", saved(image, "JPEG", quality=70, exif=exif)),
    ("png_rgb", saved(image, "PNG")),
    ("png_grey", saved(grey, "PNG")),
    ("png_rgba", saved(alpha, "PNG")),
    ("png_la", saved(alpha.convert("LA"), "PNG")),
    ("png_palette", saved(image.quantize(17), "PNG")),
    ("png_palette_2", saved(image.quantize(4), "PNG")),
    ("png_bits", saved(grey.point(lambda v: 255 * (v > 127), "1"), "PNG")),
]
for turn in range(2, 9):
    exif[0x0112] = turn
    files.append((f"png_turned_{turn}", saved(image.crop((0, 0, 7, 5)), "PNG", exif=exif)))

print("/* photo_golden.h - made by make_photos.py. */\n#ifndef PHOTO_GOLDEN_H\n#define PHOTO_GOLDEN_H\n")
print("#include <stdint.h>\n")
print(f"#define GOLDEN_WIDTH {WIDTH}\n#define GOLDEN_HEIGHT {HEIGHT}\n#define GOLDEN_SEED {SEED}\n")
rows = []
for name, data in files:
    print(f"static const uint8_t {name}[{len(data)}] = {{")
    for i in range(0, len(data), 24):
        print("    " + ",".join(str(b) for b in data[i:i + 24]) + ",")
    print("};")
    im = Image.open(io.BytesIO(data))
    stored = im.convert("L" if im.mode in ("L", "LA", "1") else "RGB")
    rgb, l = im.convert("RGB"), (stored.convert("RGB").convert("L"))
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    index = im.tobytes() if im.mode in ("P", "L") and "png" in name else b""
    if name == "png_bits":
        index = bytes(1 if v else 0 for v in im.convert("L").tobytes())
    rows.append((name, len(data), im.height, im.width, 1 if stored.mode == "L" else 3, stored.tobytes(),
                 rgb.tobytes(), l.tobytes(), turned, index))
print("\n/* Checksums of the pixels as stored, in RGB, grey, turned as EXIF says, as stored numbers (0 = none). */")
print("static const struct photo_file {\n    const char *name;\n    const uint8_t *data;\n    int bytes, "
      "height, width, channels;\n    uint64_t stored, rgb, grey, turned, index;\n    int turned_height;\n} "
      "photo_files[] = {")
for name, n, h, w, c, stored, rgb, l, turned, index in rows:
    sums = ", ".join(f"UINT64_C(0x{checksum(d):016x})" for d in (stored, rgb, l, turned.tobytes()))
    print(f'    {{"{name}", {name}, {n}, {h}, {w}, {c}, {sums},')
    print(f"     UINT64_C(0x{checksum(index) if index else 0:016x}), {turned.height}}},")
print("};\n")

names = ["NEAREST", "BILINEAR", "BICUBIC", "BOX"]
print("static const struct photo_size {\n    int channels, filter, height, width;\n    double box[4];\n    "
      "uint64_t checksum;\n    uint8_t first[4];\n} photo_sizes[] = {")
boxes = [(0, 0, WIDTH, HEIGHT), (3.25, 1.5, 58.75, 44.0), (10, 11, 40, 20), (0, 5, WIDTH, 30)]
for channels, im in ((3, image), (1, grey)):
    for f, name in enumerate(names):
        for w, h in ((20, 17), (61, 47), (61, 20), (30, 47), (90, 100), (7, 90), (1, 1), (128, 3)):
            for box in boxes:
                d = im.resize((w, h), getattr(Image.Resampling, name), box=box).tobytes()
                d4 = (d + bytes(4))[:4]
                print(f"    {{{channels}, {f}, {h}, {w}, {{{', '.join(map(str, box))}}}, "
                      f"UINT64_C(0x{checksum(d):016x}),\n     {{{', '.join(map(str, d4))}}}}},")
print("};\n")

print("static const struct photo_hue {\n    double turn;\n    uint64_t checksum;\n} photo_hues[] = {")
for turn in (0.0, 0.01, -0.07, 0.25, 0.5, -0.5):
    h, s, v = image.convert("HSV").split()
    h = h.point(lambda x: (x + int(turn * 255)) % 256)
    d = Image.merge("HSV", (h, s, v)).convert("RGB").tobytes()
    print(f"    {{{turn}, UINT64_C(0x{checksum(d):016x})}},")
print("};\n")

print("/* The shorter side made `resize`, the central height x width cut out, as torchvision does. */")
print("static const struct photo_cut {\n    int resize, height, width;\n    uint64_t checksum;\n} photo_cuts[] = {")
for resize, h, w in ((32, 28, 28), (40, 17, 33), (47, 20, 20), (70, 64, 64), (20, 20, 20)):
    big = image.resize((resize * WIDTH // HEIGHT, resize), Image.Resampling.BILINEAR)
    top, left = round((big.height - h) / 2), round((big.width - w) / 2)
    d = big.crop((left, top, left + w, top + h)).tobytes()
    print(f"    {{{resize}, {h}, {w}, UINT64_C(0x{checksum(d):016x})}},")
print("};\n\n#endif")
