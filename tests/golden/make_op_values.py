# make_op_values.py - writes op_values.h: what PyTorch computes in double for small inputs.
#
# Usage: python3 make_op_values.py > op_values.h      (needs torch; tests only read the header)
#
# Inputs are not stored: element i of operand j is pattern(i, j), the same formula as in
# test_op_values_b.c. Images and their results are NHWC here, NCHW inside PyTorch.
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
arrays, rows = [], []
DOUT = 9  # operand number of the given gradient


def pattern(count, operand):
    x = torch.arange(count, dtype=torch.int64)
    mixed = ((x * 7919 + operand * 104729 + 12345) * 2654435761) % 2**32
    return (mixed >> 24).to(torch.float64) / 64 - 2


def nchw(x):
    return x.permute(0, 3, 1, 2)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def store(values):
    flat = values.detach().reshape(-1).tolist()
    name = f"v{len(arrays)}"
    lines, line = [], "   "
    for v in flat:
        text = f" {v:.10g},"
        if len(line) + len(text) > 98:
            lines.append(line)
            line = "   "
        line += text
    lines.append(line)
    arrays.append(f"static const double {name}[{len(flat)}] = {{\n" + "\n".join(lines) + "\n};")
    return name, len(flat)


def braces(values):
    return "{" + ", ".join(str(v) for v in values) + "}"


def case(name, op, shapes, function, params=(), positive=(), constant=()):
    """positive: operands whose values are made positive; constant: those without a gradient."""
    operands = []
    for j, shape in enumerate(shapes):
        count = 1
        for n in shape:
            count *= n
        x = pattern(count, j).reshape(shape)
        if j in positive:
            x = x.abs() / 8 + 0.125
        operands.append(x if j in constant else x.requires_grad_())
    y = function(*operands)
    y.backward(pattern(y.numel(), DOUT).reshape(y.shape))
    out, count = store(y)
    grads = [store(x.grad)[0] if x.requires_grad else "NULL" for x in operands]
    rows.append(
        f'    {{"{name}", "{op}", {braces(params or (0,))}, {len(shapes)},\n'
        f"     {braces(len(s) for s in shapes)}, {braces(braces(s) for s in shapes)},\n"
        f"     {sum(1 << j for j in positive)}, {count}, {out}, {braces(grads)}}},")


def conv(name, x, w, bias, stride=(1, 1), pad=(0, 0), dilation=(1, 1), groups=1):
    shapes = [x, w] + ([(w[0],)] if bias else [])
    case(f"conv2d {name}", "conv2d", shapes,
         lambda a, b, c=None: nhwc(F.conv2d(nchw(a), b, c, stride, pad, dilation, groups)),
         (*stride, *pad, *dilation, groups, 0, 0))


def conv_transpose(name, x, w, bias, stride=(1, 1), pad=(0, 0), dilation=(1, 1), groups=1,
                   output_pad=(0, 0)):
    shapes = [x, w] + ([(w[1] * groups,)] if bias else [])
    case(f"conv_transpose2d {name}", "conv_transpose2d", shapes,
         lambda a, b, c=None: nhwc(F.conv_transpose2d(nchw(a), b, c, stride, pad, output_pad,
                                                      groups, dilation)),
         (*stride, *pad, *dilation, groups, *output_pad))


def pool(kind, name, x, kernel, stride, pad=(0, 0), ceil=False, include=False):
    def run(a):
        if kind == "max":
            return nhwc(F.max_pool2d(nchw(a), kernel, stride, pad, ceil_mode=ceil))
        return nhwc(F.avg_pool2d(nchw(a), kernel, stride, pad, ceil, include))
    case(f"{kind}_pool2d {name}", f"{kind}_pool2d", [x], run,
         (*kernel, *stride, *pad, int(ceil), int(include)))


conv("3x3", (2, 4, 5, 3), (4, 3, 3, 3), True, pad=(1, 1))
conv("3x3 stride 2, no bias", (1, 5, 6, 2), (3, 2, 3, 3), False, stride=(2, 2), pad=(1, 1))
conv("dilation 2", (1, 6, 6, 1), (2, 1, 3, 3), True, pad=(2, 2), dilation=(2, 2))
conv("groups 2", (1, 4, 4, 4), (6, 2, 3, 3), True, groups=2)
conv("depthwise 5x5", (1, 6, 5, 3), (3, 1, 5, 5), True, stride=(2, 2), pad=(2, 2), groups=3)
conv("1x1", (2, 3, 3, 5), (2, 5, 1, 1), False)
conv("7x7 stride 2", (1, 8, 9, 1), (2, 1, 7, 7), False, stride=(2, 2), pad=(3, 3))
conv("unequal axes", (1, 7, 6, 2), (2, 2, 2, 3), True, stride=(2, 1), pad=(1, 0), dilation=(1, 2))
conv_transpose("4x4 stride 2", (1, 3, 4, 2), (2, 3, 4, 4), True, stride=(2, 2), pad=(1, 1))
conv_transpose("output_pad", (2, 3, 3, 2), (2, 1, 3, 3), False, stride=(2, 2), pad=(1, 1),
               output_pad=(1, 1))
conv_transpose("groups 2", (1, 3, 3, 4), (4, 3, 3, 3), True, stride=(2, 1), groups=2)
conv_transpose("dilation 2", (1, 4, 3, 1), (1, 2, 3, 2), True, pad=(1, 1), dilation=(2, 2))

pool("max", "2x2", (2, 4, 6, 2), (2, 2), (2, 2))
pool("max", "3x3 stride 2", (1, 7, 6, 3), (3, 3), (2, 2), (1, 1))
pool("max", "ceil", (1, 6, 5, 2), (2, 3), (3, 2), (1, 1), ceil=True)
pool("max", "ceil, last window starts in the padding", (1, 5, 3, 1), (2, 2), (2, 2), (1, 1), ceil=True)
pool("avg", "3x3", (1, 5, 6, 2), (3, 3), (2, 2), (1, 1))
pool("avg", "3x3 with padding counted", (1, 5, 6, 2), (3, 3), (2, 2), (1, 1), include=True)
pool("avg", "ceil", (1, 6, 6, 1), (3, 3), (2, 2), ceil=True)
pool("avg", "ceil with padding counted", (1, 6, 7, 1), (3, 2), (2, 3), (1, 1), ceil=True, include=True)
for kind, function in (("avg", F.adaptive_avg_pool2d), ("max", F.adaptive_max_pool2d)):
    for x, size in (((1, 7, 5, 2), (3, 2)), ((2, 3, 4, 2), (1, 1)), ((1, 3, 2, 1), (5, 3))):
        case(f"adaptive_{kind}_pool2d to {size[0]}x{size[1]}", f"adaptive_{kind}_pool2d", [x],
             lambda a, f=function, s=size: nhwc(f(nchw(a), s)), size)
for size in ((7, 6), (2, 3), (4, 5)):
    case(f"resize nearest to {size[0]}x{size[1]}", "resize", [(1, 4, 5, 2)],
         lambda a, s=size: nhwc(F.interpolate(nchw(a), s, mode="nearest")), (*size, 0))
    case(f"resize bilinear to {size[0]}x{size[1]}", "resize", [(1, 4, 5, 2)],
         lambda a, s=size: nhwc(F.interpolate(nchw(a), s, mode="bilinear", align_corners=False)),
         (*size, 1))

case("batch_norm", "batch_norm", [(2, 3, 2, 3), (3,), (3,)],
     lambda a, g, b: nhwc(F.batch_norm(nchw(a), None, None, g, b, True, 0.1, 1e-3)))
case("batch_norm of a matrix, no gamma", "batch_norm", [(6, 2)],
     lambda a: F.batch_norm(a, None, None, None, None, True, 0.1, 1e-3))
case("batch_norm_eval", "batch_norm_eval", [(2, 2, 2, 3), (3,), (3,), (3,), (3,)],
     lambda a, g, b, m, v: nhwc(F.batch_norm(nchw(a), m, v, g, b, False, 0.1, 1e-3)),
     positive=(4,), constant=(3, 4))
case("layer_norm", "layer_norm", [(2, 3, 5), (5,), (5,)],
     lambda a, g, b: F.layer_norm(a, (5,), g, b, 1e-3))
case("layer_norm, no gamma", "layer_norm", [(3, 4)], lambda a: F.layer_norm(a, (4,), None, None, 1e-3))
case("group_norm", "group_norm", [(2, 3, 2, 6), (6,), (6,)],
     lambda a, g, b: nhwc(F.group_norm(nchw(a), 2, g, b, 1e-3)), (2,))
case("instance norm", "group_norm", [(2, 3, 3, 2)],
     lambda a: nhwc(F.group_norm(nchw(a), 2, None, None, 1e-3)), (2,))

case("softmax", "softmax", [(3, 5)], lambda a: F.softmax(a, -1))
case("log_softmax", "log_softmax", [(3, 5)], lambda a: F.log_softmax(a, -1))
classes = torch.tensor([2, 0, -100, 4, 1])
case("cross_entropy", "cross_entropy", [(5, 5)],
     lambda a: F.cross_entropy(a, classes, reduction="none"))
case("cross_entropy, class weights", "cross_entropy_weighted", [(5, 5), (5,)],
     lambda a, w: F.cross_entropy(a, classes, w, reduction="none"), positive=(1,), constant=(1,))
case("cross_entropy, soft", "cross_entropy_soft", [(2, 3, 4), (2, 3, 4)],
     lambda a, t: F.cross_entropy(a.permute(0, 2, 1), t.permute(0, 2, 1), reduction="none"),
     positive=(1,))
case("cross_entropy, soft, class weights", "cross_entropy_soft", [(4, 3), (4, 3), (3,)],
     lambda a, t, w: F.cross_entropy(a, t, w, reduction="none"), positive=(1, 2), constant=(2,))
case("bce_with_logits", "bce_with_logits", [(3, 4), (3, 4)],
     lambda a, t: F.binary_cross_entropy_with_logits(a, t, reduction="none"), positive=(1,))
case("bce_with_logits, pos_weight", "bce_with_logits", [(3, 4), (3, 4), (4,)],
     lambda a, t, p: F.binary_cross_entropy_with_logits(a, t, pos_weight=p, reduction="none"),
     positive=(1, 2), constant=(2,))
case("squared_error", "squared_error", [(3, 4), (3, 4)],
     lambda a, t: F.mse_loss(a, t, reduction="none"))

print("/* op_values.h - made by make_op_values.py: results and gradients as PyTorch gives them. */")
print("/* clang-format off */")
print("\n".join(arrays))
print("static const op_value op_values[] = {\n" + "\n".join(rows) + "\n};")
