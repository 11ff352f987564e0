#!/usr/bin/env python3
"""check_timm.py FOLDER SIDE - timm makes the model from FOLDER; compares its output for FOLDER/input (raw f32
[N,SIDE,SIDE,3]) with FOLDER/output (raw f32). Exits 1 if it differs."""
import sys

import numpy as np
import timm
import torch

folder, side = sys.argv[1], int(sys.argv[2])
model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
x = np.fromfile(f"{folder}/input", np.float32).reshape(-1, side, side, 3)
y = np.fromfile(f"{folder}/output", np.float32).reshape(len(x), -1)
with torch.no_grad():
    got = model(torch.from_numpy(x).permute(0, 3, 1, 2).contiguous()).numpy()
error, cfg = float(np.abs(got - y).max()), model.pretrained_cfg
fine = error <= 1e-5 + 1e-4 * float(np.abs(y).max()) and cfg["input_size"][1] == side and cfg["crop_pct"] == 0.8
print(f"# {folder}: largest difference {error:.2e}{'' if fine else ' IS TOO LARGE, or the config is wrong'}")
sys.exit(not fine)
