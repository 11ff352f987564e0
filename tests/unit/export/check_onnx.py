#!/usr/bin/env python3
"""check_onnx.py DIR NAME ... - checks exported models with onnx, and compares what onnxruntime computes
for DIR/NAME.input (raw, of the model's type, any number of rows) with DIR/NAME.output (raw f32). Exits 1 if
something differs."""
import sys

import numpy as np
import onnx
import onnxruntime

types = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int32)": np.int32}
folder, bad = sys.argv[1], 0
for name in sys.argv[2:]:
    path = f"{folder}/{name}.onnx"
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    sides = session.get_inputs()[0].shape[1:]
    x = np.fromfile(f"{folder}/{name}.input", types[session.get_inputs()[0].type]).reshape(-1, *sides)
    y = np.fromfile(f"{folder}/{name}.output", np.float32).reshape(len(x), -1)
    for rows in (len(x), 1):
        got = session.run(["output"], {"input": x[:rows]})[0].reshape(rows, -1)
        error = float(np.abs(got - y[:rows]).max())
        fine = error <= 1e-5 + 1e-4 * float(np.abs(y).max())
        bad += not fine
        print(f"# {name}: {rows} rows, largest difference {error:.2e}{'' if fine else ' IS TOO LARGE'}")
sys.exit(bad > 0)
