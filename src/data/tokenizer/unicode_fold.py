#!/usr/bin/env python3
"""Writes unicode_fold.h: what BERT's tokenizer needs of Unicode, from Python's own copy of the Character Database. Hangul
syllables are left to arithmetic, and ideographs for compatibility stay as they are. Run: python3 unicode_fold.py >unicode_fold.h"""
import unicodedata as u


def fold(c):
    """Decomposed, without combining marks, in small letters."""
    text = "".join(x for x in u.normalize("NFD", chr(c)) if u.category(x) != "Mn").lower()
    return "".join(x for x in u.normalize("NFD", text) if u.category(x) != "Mn")


def ranges(test):
    found, first = [], None
    for c in range(0x110001):
        inside = c < 0x110000 and test(c)
        if inside and first is None:
            first = c
        if not inside and first is not None:
            found.append((first, c - 1))
            first = None
    return found


def write(head, items):
    print(head)
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            print(line)
            line = "   "
        line += " " + item + ","
    print(line + "\n};\n")


print("/* unicode_fold.h - what BERT's tokenizer needs of Unicode %s, written by unicode_fold.py. */" % u.unidata_version)
print("#ifndef VVI_UNICODE_FOLD_H\n#define VVI_UNICODE_FOLD_H\n\n#include <stdint.h>\n")
print("/* First and last code point of each range: punctuation (beside ASCII's), what is left out (control,\n   format, private use), and combining marks. */")
for name, test in (("punctuation", lambda c: c > 127 and u.category(chr(c))[0] == "P"),
                   ("unseen", lambda c: u.category(chr(c)) in ("Cc", "Cf", "Co") and c not in (9, 10, 13)),
                   ("marks", lambda c: u.category(chr(c)) == "Mn")):
    write("static const uint32_t %s[][2] = {" % name, ["{0x%x, 0x%x}" % r for r in ranges(test)])

single, several = {}, []
for c in range(128, 0x110000):
    ideograph = 0xF900 <= c < 0xFB00 or 0x2F800 <= c < 0x2FA20
    if ideograph or 0xAC00 <= c < 0xD7A4 or 0xD800 <= c < 0xE000 or u.category(chr(c)) == "Mn":
        continue
    text = fold(c)
    if text == chr(c):
        continue
    if len(text) == 1:
        single[c] = ord(text)
    else:
        several.append((c, [ord(x) for x in text]))

runs, done = [], set()
for c in sorted(single):
    if c in done:
        continue
    best = None
    for step in (1, 2):
        last = c
        while last + step in single and last + step not in done and single[last + step] - last - step == single[c] - c:
            last += step
        if best is None or (last - c) // step > (best[1] - c) // best[2]:
            best = (c, last, step)
    done.update(range(best[0], best[1] + 1, best[2]))
    runs.append((best[0], best[1], best[2], single[c] - c))
print("/* Small letters without marks: every step-th code point from first to last becomes itself plus\n   delta. */")
write("static const struct {\n    uint32_t first, last, step;\n    int32_t delta;\n} folds[] = {", ["{0x%x, 0x%x, %d, %d}" % r for r in runs])
print("/* What becomes several; 0 = nothing more. */")
write("static const uint32_t long_folds[][5] = {", ["{0x%x, %s}" % (c, ", ".join("0x%x" % x for x in (t + [0, 0, 0, 0])[:4])) for c, t in several])
assert all(len(t) <= 4 for _, t in several)
print("#endif")
