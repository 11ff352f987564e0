"""Writes the small sets of MDS shards beside this file, which ../test_mds.c reads.

Version 2 is written by the package mosaicml-streaming (0.13), version 1 by the writer of
mosaicml 0.9 (composer.datasets.streaming), both with numpy and Pillow:

    python3 make_mds.py V2_FOLDER_OR_-  V1_FOLDER_OR_-

All numbers are formulas that the test knows too.
"""
import os
import shutil
import sys

import numpy as np


def token(sample, place):
    return (sample * 31 + place * 7) % 200


def write_v2(out):
    from PIL import Image
    from streaming import MDSWriter

    columns = {
        "tokens": "bytes",
        "label": "int",
        "text": "str",
        "short": "uint16",
        "score": "float32",
        "fixed": "ndarray:int16:2,3",
        "free": "ndarray",
        "image": "pil",
    }
    kinds = {"plain": None, "zstd": "zstd:7", "gz": "gz:6"}
    for name, compression in kinds.items():
        with MDSWriter(out=os.path.join(out, name), columns=columns, compression=compression,
                       size_limit=1600) as writer:
            for i in range(12):
                place = np.arange(8 + i % 3)
                pixels = ((np.arange(2 * 3 * 3) * 5 + i) % 256).astype(np.uint8).reshape(2, 3, 3)
                writer.write({
                    "tokens": np.array([token(i, p) for p in place], np.int64).tobytes(),
                    "label": i % 4 - 1,
                    "text": "Größe %d" % i * (1 + i % 2),
                    "short": np.uint16(65000 + i),
                    "score": np.float32(i / 4),
                    "fixed": (np.arange(6).reshape(2, 3) * 100 - i).astype(np.int16),
                    "free": np.array([[token(i, p) for p in range(5)]], np.uint32),
                    "image": Image.fromarray(pixels),
                })
    with MDSWriter(out=os.path.join(out, "numbers"), columns={"x": "ndarray:float32:4",
                                                              "y": "float64"}) as writer:
        for i in range(5):
            writer.write({"x": np.arange(4, dtype=np.float32) / 2 + i, "y": np.float64(i * 1.5)})


def write_v1(out):
    from composer.datasets.streaming import StreamingDatasetWriter

    for name, compression, long in (("v1", None, 0), ("v1_gz", "gz", 0), ("v1_wide", None, 300)):
        with StreamingDatasetWriter(dirname=os.path.join(out, name), fields=["tokens", "uid"],
                                    shard_size_limit=700, compression=compression) as writer:
            for i in range(10):
                place = np.arange(20 + i % 3)
                writer.write_sample({
                    "tokens": np.array([token(i, p) for p in place], np.int64).tobytes(),
                    "uid": b"%06d" % i + b"." * (long * (i % 2)),
                })
    with StreamingDatasetWriter(dirname=os.path.join(out, "v1_same"), fields=["x"]) as writer:
        for i in range(4):
            writer.write_sample({"x": bytes([i, i + 1, i + 2])})


if __name__ == "__main__":
    for write, folder in ((write_v2, sys.argv[1]), (write_v1, sys.argv[2])):
        if folder != "-":
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            write(folder)
