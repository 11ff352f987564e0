"""Reads a file that `test_safetensors_zstd PATH` wrote, and writes it again with the format's own
library and the texts it came with: unchanged, and with one number changed.

    python3 make_resaved.py PATH

Needs torch and safetensors."""
import sys

from safetensors import safe_open
from safetensors.torch import save_file

with safe_open(sys.argv[1], framework="pt") as file:
    tensors = {name: file.get_tensor(name) for name in file.keys()}
    texts = file.metadata()
save_file(tensors, "resaved.safetensors", metadata=texts)
tensors["scalar"] = tensors["scalar"] + 1
save_file(tensors, "resaved_changed.safetensors", metadata=texts)
