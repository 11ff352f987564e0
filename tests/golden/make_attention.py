# make_attention.py - writes attention_golden.h: what PyTorch's scaled_dot_product_attention computes
# in double for small inputs, and its gradients.
#
# Usage: python3 make_attention.py > attention_golden.h     (needs torch; tests only read the header)
#
# Inputs are not stored: element i of operand j is pattern(i, j), as in make_op_values.py. Tensors are
# [N,T,H,D] here, [N,H,T,D] inside PyTorch. Every option is a mask or a bias made by hand here.
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
arrays, rows = [], []
DOUT = 9  # operand number of the given gradient
NEVER = float("-inf")


def pattern(shape, operand):
    count = 1
    for n in shape:
        count *= n
    x = torch.arange(count, dtype=torch.int64)
    mixed = ((x * 7919 + operand * 104729 + 12345) * 2654435761) % 2**32
    return ((mixed >> 24).to(torch.float64) / 64 - 2).reshape(shape)


def store(values):
    flat = values.detach().reshape(-1).tolist()
    name = f"attention_v{len(arrays)}"
    lines, line = [], "   "
    for v in flat:
        text = f" {v:.10g},"
        if len(line) + len(text) > 98:
            lines.append(line)
            line = "   "
        line += text
    lines.append(line)
    arrays.append(f"static const double {name}[{len(flat)}] = {{\n" + "\n".join(lines) + "\n};")
    return name


def case(name, shape, causal=False, window=0, scale=0.0, slopes=(), mask=(), documents=(),
         builtin=False):
    """shape: N, T, S, H, K, D. builtin: PyTorch's own is_causal instead of a mask."""
    n, t, s, h, k, d = shape
    leaves = [pattern((n, t, h, d), 0), pattern((n, s, k, d), 1), pattern((n, s, k, d), 2)]
    leaves = [x.requires_grad_() for x in leaves]
    q, key, v = [x.transpose(1, 2) for x in leaves]
    distance = (torch.arange(t)[:, None] + s - t) - torch.arange(s)[None, :]
    bias = torch.zeros(n, h, t, s)
    for i, slope in enumerate(slopes):
        bias[:, i] -= slope * distance.abs()
    if causal:
        bias = bias.masked_fill(distance < 0, NEVER)
    if window:
        bias = bias.masked_fill(distance.abs() >= window, NEVER)
    if mask:
        bias = bias.masked_fill(torch.tensor(mask)[:, None, None, :] == 0, NEVER)
    if documents:
        ids = torch.tensor(documents)
        bias = bias.masked_fill((ids[:, :, None] != ids[:, None, :])[:, None], NEVER)
    assert torch.isfinite(bias).any(-1).all(), "each query must see something here"
    y = F.scaled_dot_product_attention(
        q, key, v, attn_mask=None if builtin else bias, is_causal=builtin, scale=scale or None,
        enable_gqa=h != k).transpose(1, 2)
    y.backward(pattern(y.shape, DOUT))
    values = [store(y)] + [store(x.grad) for x in leaves]

    def braces(numbers):
        return "{" + ", ".join(str(x) for x in numbers) + "}" if numbers else "{0}"

    flat = [x for row in mask for x in row]
    ids = [x for row in documents for x in row]
    rows.append(
        f'    {{"{name}", {braces(shape)}, {int(causal or builtin)}, {window}, {scale}, '
        f"{braces(slopes)}, {len(slopes)}, {braces(flat)}, {len(flat)}, {braces(ids)}, {len(ids)}, "
        f"{values[0]}, {braces(values[1:])}}},")


case("plain", (2, 4, 4, 2, 2, 3))
case("causal, PyTorch's own", (1, 5, 5, 2, 2, 4), builtin=True)
case("scale", (1, 3, 4, 1, 1, 2), scale=0.25)
case("ALiBi", (1, 5, 5, 4, 4, 2), causal=True, slopes=(0.5, 0.25, 0.125, 0.0625))
case("padding", (2, 3, 5, 2, 2, 2), mask=((1, 1, 1, 0, 0), (0, 1, 0, 1, 1)))
case("grouped heads", (1, 4, 4, 4, 2, 3), causal=True)
case("window", (1, 7, 7, 1, 1, 3), causal=True, window=3)
case("documents", (1, 6, 6, 2, 2, 2), causal=True, documents=((1, 1, 2, 2, 2, 5),))
case("more keys", (1, 2, 5, 2, 1, 2), causal=True, slopes=(0.3, 0.7))

print("/* attention_golden.h - made by make_attention.py: attention as PyTorch computes it. */")
print("/* clang-format off */")
print("\n".join(arrays))
print("static const attention_golden attention_goldens[] = {\n" + "\n".join(rows) + "\n};")
