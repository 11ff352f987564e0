#!/usr/bin/env python3
"""make_autocast.py - how far PyTorch's bf16 autocast is from the exact step, tensor by tensor.

Reads step_mlp.safetensors and step_resnet9.safetensors (make_step_goldens.py), computes the same
step under torch.autocast("cpu", torch.bfloat16), and writes autocast_golden.h: for each parameter
|autocast - exact| / |exact| of its gradient, and the loss.

    python3 tests/golden/make_autocast.py
"""
import pathlib

import torch
from torch import nn

from make_step_goldens import mlp, resnet9

HERE = pathlib.Path(__file__).parent


def read(path):
    import json
    import struct
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    kinds = {"I64": torch.int64, "I32": torch.int32, "F32": torch.float32}
    return {name: torch.frombuffer(bytearray(data[slice(*t["data_offsets"])]),
                                   dtype=kinds[t["dtype"]]).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__"}


def errors(net, file):
    net.load_state_dict({name[7:]: t for name, t in file.items() if name.startswith("weight/")})
    x = file["input"]
    x = x.permute(0, 3, 1, 2) if x.dim() == 4 else x
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x), file["target"].long())
    loss.backward()
    rows = []
    for name, p in net.named_parameters():
        exact = file["grad/" + name].double()
        rows.append((name, ((p.grad.double() - exact).norm() / exact.norm()).item()))
    return abs(loss.item() - file["loss"].item()), rows


def main():
    torch.set_num_threads(1)
    out = ["/* autocast_golden.h - made by make_autocast.py with PyTorch %s; do not edit. */"
           % torch.__version__.split("+")[0],
           "#ifndef AUTOCAST_GOLDEN_H", "#define AUTOCAST_GOLDEN_H", "",
           "typedef struct autocast_error {", "    const char *name;",
           "    double error; /* |autocast - exact| / |exact| of the gradient */",
           "} autocast_error;", ""]
    for model, net in (("mlp", mlp()), ("resnet9", resnet9())):
        loss, rows = errors(net, read(HERE / ("step_%s.safetensors" % model)))
        out.append("static const double autocast_%s_loss = %.6e; /* |autocast - exact| */"
                   % (model, loss))
        out.append("static const autocast_error autocast_%s[] = {" % model)
        out += ['    {"%s", %.6e},' % row for row in rows]
        out += ["    {0}};", ""]
    out.append("#endif")
    (HERE / "autocast_golden.h").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
