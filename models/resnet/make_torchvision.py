"""Names, shapes and logits of torchvision's ResNet-18 and ResNet-50 for test_resnet_torchvision.c.

    python3 make_torchvision.py > torchvision_golden.h

Weights are a formula of (name, index) that script and test share, loaded strictly into torchvision's
own networks. Needs torch and torchvision."""
import numpy as np
import torch
import torchvision


def draw(name, count):
    """Numbers in [-0.5, 0.5): FNV-1a of the name, then a hash of hash and index."""
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    i = np.arange(count, dtype=np.uint64)
    x = (i * 2654435761 & 0xFFFFFFFF) ^ np.uint64(h)
    x = x * 2246822519 & 0xFFFFFFFF
    x ^= x >> np.uint64(15)
    x = x * 3266489917 & 0xFFFFFFFF
    return (x >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5


def fill(name, tensor):
    u = draw(name, tensor.numel())
    if tensor.dim() >= 2:
        u = u * (4.0 / np.sqrt(tensor[0].numel()))
    elif name.endswith("weight"):
        u = 1.0 + 0.2 * u
    elif name.endswith("running_var"):
        u = 1.0 + 0.5 * u
    else:
        u = 0.2 * u
    return torch.tensor(u.astype(np.float32)).reshape(tensor.shape)


def run(depth, side):
    net = getattr(torchvision.models, f"resnet{depth}")(num_classes=10).eval()
    state = {}
    rows = []
    for name, tensor in net.state_dict().items():
        if name.endswith("num_batches_tracked"):
            state[name] = tensor
            continue
        state[name] = fill(name, tensor)
        rows.append((name, tuple(tensor.shape)))
    net.load_state_dict(state, strict=True)
    x = draw("input", side * side * 3).astype(np.float32).reshape(1, side, side, 3)
    with torch.no_grad():
        logits = net.double()(torch.tensor(x).double().permute(0, 3, 1, 2))[0]
    return rows, logits


print("/* torchvision_golden.h - made by make_torchvision.py: names and shapes of torchvision's ResNets in")
print(" * the order of its state, and logits of an image of 64 x 64 by weights that are a formula. */")
print("typedef struct tv_tensor {\n    const char *name;\n    int ndim;\n    int64_t shape[4];\n} tv_tensor;")
for depth in (18, 50):
    rows, logits = run(depth, 64)
    print(f"static const tv_tensor tv_resnet{depth}[] = {{")
    for name, shape in rows:
        print(f'    {{"{name}", {len(shape)}, {{{", ".join(map(str, shape))}}}}},')
    print("};")
    values = ", ".join(f"{v:.9g}" for v in logits.tolist())
    print(f"static const double tv_logits{depth}[] = {{\n    " + values.replace(", ", ",\n    ") + "};")
