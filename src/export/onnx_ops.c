/* onnx_ops.c - the ONNX form of each op of an inference graph. */
#include "onnx_graph.h"

#include <string.h>

typedef const char *name;

/* Where axis `axis` of [N,H,W,C] lies in [N,C,H,W]. */
static int64_t image_axis(int64_t axis)
{
    static const int64_t places[4] = {0, 2, 3, 1};
    return places[axis];
}

/* Nodes that move or choose whole axes, too, take the layout that is at hand. */
static name at_hand(vvi_exporter *e, const vv_node *x, bool image)
{
    return image ? vvi_image(e, x) : vvi_natural(e, x);
}

static bool give(vvi_value *v, bool image, name made)
{
    if (image)
        v->image = made;
    else
        v->name = made;
    return made != NULL;
}

static name times(vvi_exporter *e, name x, double factor)
{
    return vvi_op2(e, "Mul", x, vvi_number(e, factor));
}

/* ---- element-wise ---- */

static name leaky_relu(vvi_exporter *e, name x, double slope)
{
    name made = vvi_op1(e, "LeakyRelu", x);
    vvi_onnx_float(e->onnx, "alpha", slope);
    return made;
}

static name gelu(vvi_exporter *e, name x, const char *form)
{
    name made = vvi_op1(e, "Gelu", x);
    vvi_onnx_string(e->onnx, "approximate", form);
    return made;
}

static name unary(vvi_exporter *e, const vv_attr *attr, name x)
{
    static const char *const plain[VV_UNARY_COUNT] = {
        [VV_UNARY_NEG] = "Neg",         [VV_UNARY_EXP] = "Exp",
        [VV_UNARY_LOG] = "Log",         [VV_UNARY_SQRT] = "Sqrt",
        [VV_UNARY_ABS] = "Abs",         [VV_UNARY_RECIPROCAL] = "Reciprocal",
        [VV_UNARY_SIGN] = "Sign",       [VV_UNARY_RELU] = "Relu",
        [VV_UNARY_SIGMOID] = "Sigmoid", [VV_UNARY_TANH] = "Tanh",
        [VV_UNARY_HARDSWISH] = "HardSwish", [VV_UNARY_SOFTPLUS] = "Softplus",
    };
    double a = attr->unary.a, b = attr->unary.b;
    switch (attr->unary.kind) {
    case VV_UNARY_RSQRT:
        return vvi_op1(e, "Reciprocal", vvi_op1(e, "Sqrt", x));
    case VV_UNARY_SQUARE:
        return vvi_op2(e, "Mul", x, x);
    case VV_UNARY_LEAKY_RELU:
        return leaky_relu(e, x, a);
    case VV_UNARY_GELU:
        return gelu(e, x, "none");
    case VV_UNARY_GELU_TANH:
        return gelu(e, x, "tanh");
    case VV_UNARY_SILU:
        return vvi_op2(e, "Mul", x, vvi_op1(e, "Sigmoid", x));
    case VV_UNARY_CLAMP:
        return vvi_op2(e, "Min", vvi_op2(e, "Max", x, vvi_number(e, a)), vvi_number(e, b));
    case VV_UNARY_AFFINE:
        x = a == 1.0 ? x : times(e, x, a);
        return b == 0.0 ? vvi_op1(e, "Identity", x) : vvi_op2(e, "Add", x, vvi_number(e, b));
    case VV_UNARY_POW:
        return vvi_op2(e, "Pow", x, vvi_number(e, a));
    default:
        return plain[attr->unary.kind] ? vvi_op1(e, plain[attr->unary.kind], x) : NULL;
    }
}

/* Element-wise nodes take the layout that is at hand. */
static bool emit_unary(vvi_exporter *e, vvi_value *v)
{
    const vv_node *x = vv_node_operand(v->node, 0);
    const bool image = vvi_is_image(e, x);
    return give(v, image, unary(e, vv_node_attr(v->node), at_hand(e, x, image)));
}

static bool emit_binary(vvi_exporter *e, vvi_value *v)
{
    static const char *const ops[VV_BINARY_COUNT] = {
        [VV_BINARY_ADD] = "Add",     [VV_BINARY_SUB] = "Sub",   [VV_BINARY_MUL] = "Mul",
        [VV_BINARY_DIV] = "Div",     [VV_BINARY_MAX] = "Max",   [VV_BINARY_MIN] = "Min",
        [VV_BINARY_EQUAL] = "Equal", [VV_BINARY_LESS] = "Less",
        [VV_BINARY_GREATER_EQUAL] = "GreaterOrEqual",
    };
    const char *op = ops[vv_node_attr(v->node)->binary.kind];
    vv_node *a = vv_node_operand(v->node, 0), *b = vv_node_operand(v->node, 1);
    if (!op)
        return false;
    if (vvi_is_image(e, a) || vvi_is_image(e, b)) {
        name x = vvi_beside_image(e, a), y = vvi_beside_image(e, b);
        if (x && y) {
            v->image = vvi_op2(e, op, x, y);
            return true;
        }
    }
    v->name = vvi_op2(e, op, vvi_natural(e, a), vvi_natural(e, b));
    return true;
}

static bool emit_where(vvi_exporter *e, vvi_value *v)
{
    name c = vvi_natural(e, vv_node_operand(v->node, 2));
    v->name = vvi_op2(e, "Where", vvi_natural(e, vv_node_operand(v->node, 0)),
                  vvi_natural(e, vv_node_operand(v->node, 1)));
    vvi_onnx_in(e->onnx, c);
    return true;
}

static bool emit_cast(vvi_exporter *e, vvi_value *v)
{
    int64_t to = vv_node_dtype(v->node) == VV_F32   ? 1
                 : vv_node_dtype(v->node) == VV_I32 ? 6
                 : vv_node_dtype(v->node) == VV_I64 ? 7
                                                    : 0;
    if (to == 0)
        return false;
    v->name = vvi_op1(e, "Cast", vvi_natural(e, vv_node_operand(v->node, 0)));
    vvi_onnx_int(e->onnx, "to", to);
    return true;
}

/* ---- shape ---- */

/* Sides as ONNX wants them: -1 for one that grows with the batch. */
static name target_shape(vvi_exporter *e, const vv_node *node)
{
    int64_t shape[VV_MAX_DIMS];
    int ndim = vv_node_ndim(node);
    bool free_side = false;
    for (int i = 0; i < ndim; i++) {
        shape[i] = vv_node_shape(node)[i];
        if (!free_side && shape[i] > 0 && shape[i] % e->rows == 0) {
            shape[i] = -1;
            free_side = true;
        }
    }
    return vvi_integers(e, shape, ndim);
}

static bool emit_reshape(vvi_exporter *e, vvi_value *v)
{
    name x = vvi_natural(e, vv_node_operand(v->node, 0));
    v->name = vvi_op2(e, "Reshape", x, target_shape(e, v->node));
    return true;
}

static bool emit_permute(vvi_exporter *e, vvi_value *v)
{
    static const int64_t channels_first[4] = {0, 3, 1, 2};
    const int64_t *order = vv_node_attr(v->node)->permute.order;
    const vv_node *x = vv_node_operand(v->node, 0);
    int ndim = vv_node_ndim(v->node);
    if (ndim == 4 && memcmp(order, channels_first, sizeof channels_first) == 0) {
        v->name = vvi_image(e, x);
        return true;
    }
    v->name = vvi_op1(e, "Transpose", vvi_natural(e, x));
    vvi_onnx_ints(e->onnx, "perm", order, ndim);
    return true;
}

/* Expand broadcasts both ways, so a side of 1 leaves the operand's. */
static bool emit_broadcast(vvi_exporter *e, vvi_value *v)
{
    const vv_node *x = vv_node_operand(v->node, 0);
    int64_t shape[VV_MAX_DIMS];
    int ndim = vv_node_ndim(v->node), lead = ndim - vv_node_ndim(x);
    for (int i = 0; i < ndim; i++) {
        shape[i] = vv_node_shape(v->node)[i];
        if (shape[i] % e->rows != 0)
            continue;
        if (i < lead || vv_node_shape(x)[i - lead] != shape[i])
            return false;
        shape[i] = 1;
    }
    v->name = vvi_op2(e, "Expand", vvi_natural(e, x), vvi_integers(e, shape, ndim));
    return true;
}

static bool emit_slice(vvi_exporter *e, vvi_value *v)
{
    const vv_attr *attr = vv_node_attr(v->node);
    const vv_node *x = vv_node_operand(v->node, 0);
    const bool image = vvi_is_image(e, x);
    const int64_t side = vv_node_shape(v->node)[attr->slice.axis];
    const int64_t axis = image ? image_axis(attr->slice.axis) : attr->slice.axis;
    const int64_t start = attr->slice.start, step = attr->slice.step;
    const int64_t stop = start + (side - 1) * step + 1;
    if (side % e->rows == 0)
        return false; /* how many there are would depend on the batch */
    name from = at_hand(e, x, image), first = vvi_integers(e, &start, 1);
    name last = vvi_integers(e, &stop, 1), which = vvi_integers(e, &axis, 1);
    name stride = vvi_integers(e, &step, 1), made = vvi_op2(e, "Slice", from, first);
    vvi_onnx_in(e->onnx, last);
    vvi_onnx_in(e->onnx, which);
    vvi_onnx_in(e->onnx, stride);
    return give(v, image, made);
}

static bool emit_concat(vvi_exporter *e, vvi_value *v)
{
    enum { MOST = 32 };
    name parts[MOST] = {NULL};
    bool image = false;
    const int count = vv_node_operand_count(v->node);
    const int64_t axis = vv_node_attr(v->node)->axis.axis;
    if (count > MOST)
        return false;
    for (int i = 0; i < count; i++)
        image = image || vvi_is_image(e, vv_node_operand(v->node, i));
    for (int i = 0; i < count; i++)
        parts[i] = at_hand(e, vv_node_operand(v->node, i), image);
    name made = vvi_op1(e, "Concat", parts[0]);
    for (int i = 1; i < count; i++)
        vvi_onnx_in(e->onnx, parts[i]);
    vvi_onnx_int(e->onnx, "axis", image ? image_axis(axis) : axis);
    return give(v, image, made);
}

static bool emit_pad(vvi_exporter *e, vvi_value *v)
{
    const vv_node *x = vv_node_operand(v->node, 0);
    const vv_attr *attr = vv_node_attr(v->node);
    const bool image = vvi_is_image(e, x);
    int64_t pads[2 * VV_MAX_DIMS];
    const int ndim = vv_node_ndim(v->node);
    for (int i = 0; i < ndim; i++) {
        const int64_t to = image ? image_axis(i) : i, before = attr->pad.before[i];
        pads[to] = before;
        pads[ndim + to] = vv_node_shape(v->node)[i] - vv_node_shape(x)[i] - before;
    }
    name from = at_hand(e, x, image), sides = vvi_integers(e, pads, 2 * ndim);
    name value = vvi_number(e, attr->pad.value), made = vvi_op2(e, "Pad", from, sides);
    vvi_onnx_in(e->onnx, value);
    return give(v, image, made);
}

static bool emit_gather(vvi_exporter *e, vvi_value *v)
{
    v->name = vvi_op2(e, "Gather", vvi_natural(e, vv_node_operand(v->node, 0)),
                  vvi_natural(e, vv_node_operand(v->node, 1)));
    vvi_onnx_int(e->onnx, "axis", vv_node_attr(v->node)->axis.axis);
    return true;
}

/* ---- reductions ---- */

static bool emit_reduce(vvi_exporter *e, vvi_value *v)
{
    static const char *const ops[] = {[VV_REDUCE_SUM] = "ReduceSum",
                                      [VV_REDUCE_MEAN] = "ReduceMean",
                                      [VV_REDUCE_MAX] = "ReduceMax",
                                      [VV_REDUCE_MIN] = "ReduceMin"};
    const vv_attr *attr = vv_node_attr(v->node);
    const vv_node *node = vv_node_operand(v->node, 0);
    const bool keep = vv_node_ndim(v->node) == vv_node_ndim(node);
    /* without its sides an image is [N,C] in either layout */
    const bool image = vvi_is_image(e, node) && (keep || attr->reduce.axes == 6);
    int64_t axes[VV_MAX_DIMS];
    int count = 0;
    for (int i = 0; i < vv_node_ndim(node); i++)
        if (attr->reduce.axes >> i & 1)
            axes[count++] = image ? image_axis(i) : i;
    name x = at_hand(e, node, image), list = vvi_integers(e, axes, count);
    name made = vvi_op2(e, ops[attr->reduce.kind], x, list);
    vvi_onnx_int(e->onnx, "keepdims", keep);
    return give(v, image && keep, made);
}

static bool emit_argmax(vvi_exporter *e, vvi_value *v)
{
    name wide = vvi_op1(e, "ArgMax", vvi_natural(e, vv_node_operand(v->node, 0)));
    vvi_onnx_int(e->onnx, "axis", vv_node_attr(v->node)->axis.axis);
    vvi_onnx_int(e->onnx, "keepdims", 0);
    v->name = vvi_op1(e, "Cast", wide);
    vvi_onnx_int(e->onnx, "to", 6);
    return true;
}

static bool emit_softmax(vvi_exporter *e, vvi_value *v)
{
    const vv_node *x = vv_node_operand(v->node, 0);
    const bool image = vvi_is_image(e, x);
    name made = vvi_op1(e, vv_node_attr(v->node)->softmax.log ? "LogSoftmax" : "Softmax",
                        at_hand(e, x, image));
    vvi_onnx_int(e->onnx, "axis", image ? 1 : -1);
    return give(v, image, made);
}

static bool emit_layer_norm(vvi_exporter *e, vvi_value *v)
{
    vv_node *gamma = vv_node_operand(v->node, 1), *beta = vv_node_operand(v->node, 2);
    if (!gamma)
        return false;
    name shift = beta ? vvi_natural(e, beta) : NULL;
    v->name = vvi_op2(e, "LayerNormalization", vvi_natural(e, vv_node_operand(v->node, 0)),
                  vvi_natural(e, gamma));
    if (shift)
        vvi_onnx_in(e->onnx, shift);
    vvi_onnx_int(e->onnx, "axis", -1);
    vvi_onnx_float(e->onnx, "epsilon", vv_node_attr(v->node)->norm.eps);
    return true;
}

/* ---- products ---- */

static name swap_last(vvi_exporter *e, name x, int ndim)
{
    int64_t order[VV_MAX_DIMS];
    for (int i = 0; i < ndim; i++)
        order[i] = i;
    order[ndim - 2] = ndim - 1;
    order[ndim - 1] = ndim - 2;
    name made = vvi_op1(e, "Transpose", x);
    vvi_onnx_ints(e->onnx, "perm", order, ndim);
    return made;
}

static bool emit_matmul(vvi_exporter *e, vvi_value *v)
{
    const vv_attr *attr = vv_node_attr(v->node);
    const vv_node *a = vv_node_operand(v->node, 0), *b = vv_node_operand(v->node, 1);
    const vv_node *bias = vv_node_operand(v->node, 2);
    name x = vvi_natural(e, a), y = vvi_natural(e, b), z = bias ? vvi_natural(e, bias) : NULL;
    if (vv_node_ndim(a) == 2 && vv_node_ndim(b) == 2) {
        v->name = vvi_op2(e, "Gemm", x, y);
        if (z)
            vvi_onnx_in(e->onnx, z);
        vvi_onnx_int(e->onnx, "transA", attr->matmul.trans_a);
        vvi_onnx_int(e->onnx, "transB", attr->matmul.trans_b);
        return true;
    }
    if (attr->matmul.trans_a)
        x = swap_last(e, x, vv_node_ndim(a));
    if (attr->matmul.trans_b)
        y = swap_last(e, y, vv_node_ndim(b));
    v->name = vvi_op2(e, "MatMul", x, y);
    if (z)
        v->name = vvi_op2(e, "Add", v->name, z);
    return true;
}

bool vvi_emit(vvi_exporter *e, vvi_value *v)
{
    typedef bool (*emit_fn)(vvi_exporter *, vvi_value *);
    static const emit_fn forms[VV_OP_COUNT] = {
        [VV_OP_UNARY] = emit_unary,
        [VV_OP_BINARY] = emit_binary,
        [VV_OP_WHERE] = emit_where,
        [VV_OP_CAST] = emit_cast,
        [VV_OP_RESHAPE] = emit_reshape,
        [VV_OP_PERMUTE] = emit_permute,
        [VV_OP_BROADCAST] = emit_broadcast,
        [VV_OP_SLICE] = emit_slice,
        [VV_OP_CONCAT] = emit_concat,
        [VV_OP_PAD] = emit_pad,
        [VV_OP_GATHER] = emit_gather,
        [VV_OP_REDUCE] = emit_reduce,
        [VV_OP_ARGMAX] = emit_argmax,
        [VV_OP_SOFTMAX] = emit_softmax,
        [VV_OP_LAYER_NORM] = emit_layer_norm,
        [VV_OP_RMS_NORM] = vvi_emit_rms_norm,
        [VV_OP_ROTARY] = vvi_emit_rotary,
        [VV_OP_CUMSUM] = vvi_emit_cumsum,
        [VV_OP_MATMUL] = emit_matmul,
        [VV_OP_ATTENTION] = vvi_emit_attention,
        [VV_OP_RESIZE] = vvi_emit_resize,
        [VV_OP_GROUP_NORM] = vvi_emit_group_norm,
        [VV_OP_CONV2D_GRAD_DATA] = vvi_emit_conv_transpose,
        [VV_OP_CONV2D] = vvi_emit_conv,
        [VV_OP_POOL] = vvi_emit_pool,
        [VV_OP_ADAPTIVE_POOL] = vvi_emit_adaptive_pool,
    };
    emit_fn form = forms[vv_node_op(v->node)];
    return form && form(e, v);
}
