#!/usr/bin/env python3
"""Writes unicode_ranges.h: the code points of the general categories L (letters) and N (numbers), from Python's
own copy of the Unicode Character Database. Run: python3 unicode_classes.py >unicode_ranges.h"""
import unicodedata


def ranges(kind):
    first = None
    for c in range(0x110001):
        inside = c < 0x110000 and unicodedata.category(chr(c))[0] == kind
        if inside and first is None:
            first = c
        if not inside and first is not None:
            yield first, c - 1
            first = None


print("/* unicode_ranges.h - letters and numbers of Unicode %s, written by unicode_classes.py. */" % unicodedata.unidata_version)
print("#ifndef VVI_UNICODE_RANGES_H\n#define VVI_UNICODE_RANGES_H\n\n#include <stdint.h>\n")
print("/* First and last code point of each range. */")
for name, kind in (("letters", "L"), ("numbers", "N")):
    print("static const uint32_t %s[][2] = {" % name)
    line = "   "
    for first, last in ranges(kind):
        item = " {0x%x, 0x%x}," % (first, last)
        if len(line) + len(item) > 100:
            print(line)
            line = "   "
        line += item
    print(line + "\n};\n")
print("#endif")
