/* onnx_ops.c - the ONNX form of each op of an inference graph. */
#include "onnx_graph.h"

#include <math.h>
#include <string.h>

typedef const char *name;

static name op1(vvi_exporter *e, const char *op, name x)
{
    name made = vvi_onnx_name(e->onnx);
    vvi_onnx_node(e->onnx, op, made);
    vvi_onnx_in(e->onnx, x);
    return made;
}

static name op2(vvi_exporter *e, const char *op, name a, name b)
{
    name made = op1(e, op, a);
    vvi_onnx_in(e->onnx, b);
    return made;
}

static name times(vvi_exporter *e, name x, double factor)
{
    return op2(e, "Mul", x, vvi_number(e, factor));
}

/* ---- element-wise ---- */

static name leaky_relu(vvi_exporter *e, name x, double slope)
{
    name made = op1(e, "LeakyRelu", x);
    vvi_onnx_float(e->onnx, "alpha", slope);
    return made;
}

/* x / 2 * (1 + erf(x / sqrt 2)) */
static name gelu(vvi_exporter *e, name x)
{
    name erf = op1(e, "Erf", times(e, x, sqrt(0.5)));
    return op2(e, "Mul", times(e, x, 0.5), op2(e, "Add", erf, vvi_number(e, 1.0)));
}

/* x / 2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) */
static name gelu_tanh(vvi_exporter *e, name x)
{
    name cube = op2(e, "Mul", op2(e, "Mul", x, x), x);
    name inner = op2(e, "Add", x, times(e, cube, 0.044715));
    name bend = op1(e, "Tanh", times(e, inner, sqrt(2.0 / 3.14159265358979323846)));
    return op2(e, "Mul", times(e, x, 0.5), op2(e, "Add", bend, vvi_number(e, 1.0)));
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
        return op1(e, "Reciprocal", op1(e, "Sqrt", x));
    case VV_UNARY_SQUARE:
        return op2(e, "Mul", x, x);
    case VV_UNARY_LEAKY_RELU:
        return leaky_relu(e, x, a);
    case VV_UNARY_GELU:
        return gelu(e, x);
    case VV_UNARY_GELU_TANH:
        return gelu_tanh(e, x);
    case VV_UNARY_SILU:
        return op2(e, "Mul", x, op1(e, "Sigmoid", x));
    case VV_UNARY_CLAMP:
        return op2(e, "Min", op2(e, "Max", x, vvi_number(e, a)), vvi_number(e, b));
    case VV_UNARY_AFFINE:
        x = a == 1.0 ? x : times(e, x, a);
        return b == 0.0 ? op1(e, "Identity", x) : op2(e, "Add", x, vvi_number(e, b));
    case VV_UNARY_POW:
        return op2(e, "Pow", x, vvi_number(e, a));
    default:
        return plain[attr->unary.kind] ? op1(e, plain[attr->unary.kind], x) : NULL;
    }
}

/* Element-wise nodes take the layout that is at hand. */
static bool emit_unary(vvi_exporter *e, vvi_value *v)
{
    const vv_node *x = vv_node_operand(v->node, 0);
    bool image = vvi_is_image(e, x);
    name made = unary(e, vv_node_attr(v->node), image ? vvi_image(e, x) : vvi_natural(e, x));
    if (image)
        v->image = made;
    else
        v->name = made;
    return made != NULL;
}

/* A constant with a side for the batch's rows holds for one number of rows only. */
static bool is_of_batch(const vvi_exporter *e, const vv_node *node)
{
    return vvi_value_of(e, node)->constant && vv_node_ndim(node) > 0 &&
           vv_node_shape(node)[0] % e->rows == 0 && vv_node_shape(node)[0] > 0;
}

/* A channel vector beside [N,C,H,W] is [C,1,1]. */
static name as_image(vvi_exporter *e, vv_node *node)
{
    const vvi_value *v = vvi_value_of(e, node);
    if (vv_node_ndim(node) == 4)
        return vvi_image(e, node);
    if (!v->constant || vv_node_ndim(node) > 1)
        return NULL;
    if (vv_node_count(node) == 1)
        return vvi_natural(e, node);
    const vv_tensor *value = vvi_constant_value(e, node);
    if (!value)
        return NULL;
    const int64_t shape[3] = {value->count, 1, 1};
    name made = vvi_onnx_name(e->onnx);
    vvi_onnx_constant(e->onnx, made, value->dtype, 3, shape, value->data, false);
    return made;
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
    if (!op || is_of_batch(e, a) || is_of_batch(e, b))
        return false;
    if (vvi_is_image(e, a) || vvi_is_image(e, b)) {
        name x = as_image(e, a), y = as_image(e, b);
        if (x && y) {
            v->image = op2(e, op, x, y);
            return true;
        }
    }
    v->name = op2(e, op, vvi_natural(e, a), vvi_natural(e, b));
    return true;
}

static bool emit_where(vvi_exporter *e, vvi_value *v)
{
    for (int i = 0; i < 3; i++)
        if (is_of_batch(e, vv_node_operand(v->node, i)))
            return false;
    name c = vvi_natural(e, vv_node_operand(v->node, 2));
    v->name = op2(e, "Where", vvi_natural(e, vv_node_operand(v->node, 0)),
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
    v->name = op1(e, "Cast", vvi_natural(e, vv_node_operand(v->node, 0)));
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
    v->name = op2(e, "Reshape", x, target_shape(e, v->node));
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
    v->name = op1(e, "Transpose", vvi_natural(e, x));
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
    v->name = op2(e, "Expand", vvi_natural(e, x), vvi_integers(e, shape, ndim));
    return true;
}

static bool emit_slice(vvi_exporter *e, vvi_value *v)
{
    const vv_attr *attr = vv_node_attr(v->node);
    const int64_t axis = attr->slice.axis, start = attr->slice.start, step = attr->slice.step;
    int64_t stop = start + (vv_node_shape(v->node)[axis] - 1) * step + 1;
    if (vv_node_shape(v->node)[axis] % e->rows == 0)
        return false; /* how many there are would depend on the batch */
    v->name = op2(e, "Slice", vvi_natural(e, vv_node_operand(v->node, 0)),
                  vvi_integers(e, &start, 1));
    vvi_onnx_in(e->onnx, vvi_integers(e, &stop, 1));
    vvi_onnx_in(e->onnx, vvi_integers(e, &axis, 1));
    vvi_onnx_in(e->onnx, vvi_integers(e, &step, 1));
    return true;
}

static bool emit_concat(vvi_exporter *e, vvi_value *v)
{
    enum { MOST = 32 };
    name parts[MOST];
    int count = vv_node_operand_count(v->node);
    if (count > MOST)
        return false;
    for (int i = 0; i < count; i++) {
        if (is_of_batch(e, vv_node_operand(v->node, i)))
            return false;
        parts[i] = vvi_natural(e, vv_node_operand(v->node, i));
    }
    v->name = op1(e, "Concat", parts[0]);
    for (int i = 1; i < count; i++)
        vvi_onnx_in(e->onnx, parts[i]);
    vvi_onnx_int(e->onnx, "axis", vv_node_attr(v->node)->axis.axis);
    return true;
}

static bool emit_pad(vvi_exporter *e, vvi_value *v)
{
    const vv_node *x = vv_node_operand(v->node, 0);
    const vv_attr *attr = vv_node_attr(v->node);
    int64_t pads[2 * VV_MAX_DIMS];
    int ndim = vv_node_ndim(v->node);
    for (int i = 0; i < ndim; i++) {
        pads[i] = attr->pad.before[i];
        pads[ndim + i] = vv_node_shape(v->node)[i] - vv_node_shape(x)[i] - pads[i];
    }
    v->name = op2(e, "Pad", vvi_natural(e, x), vvi_integers(e, pads, 2 * ndim));
    vvi_onnx_in(e->onnx, vvi_number(e, attr->pad.value));
    return true;
}

static bool emit_gather(vvi_exporter *e, vvi_value *v)
{
    v->name = op2(e, "Gather", vvi_natural(e, vv_node_operand(v->node, 0)),
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
    int64_t axes[VV_MAX_DIMS];
    int count = 0;
    for (int i = 0; i < vv_node_ndim(node); i++)
        if (attr->reduce.axes >> i & 1)
            axes[count++] = i;
    name x = vvi_natural(e, node);
    if (attr->reduce.kind == VV_REDUCE_SUM) { /* in this opset its axes alone are an operand */
        name list = vvi_integers(e, axes, count);
        v->name = op2(e, "ReduceSum", x, list);
    } else {
        v->name = op1(e, ops[attr->reduce.kind], x);
        vvi_onnx_ints(e->onnx, "axes", axes, count);
    }
    vvi_onnx_int(e->onnx, "keepdims", vv_node_ndim(v->node) == vv_node_ndim(node));
    return true;
}

static bool emit_argmax(vvi_exporter *e, vvi_value *v)
{
    name wide = op1(e, "ArgMax", vvi_natural(e, vv_node_operand(v->node, 0)));
    vvi_onnx_int(e->onnx, "axis", vv_node_attr(v->node)->axis.axis);
    vvi_onnx_int(e->onnx, "keepdims", 0);
    v->name = op1(e, "Cast", wide);
    vvi_onnx_int(e->onnx, "to", 6);
    return true;
}

static bool emit_softmax(vvi_exporter *e, vvi_value *v)
{
    v->name = op1(e, vv_node_attr(v->node)->softmax.log ? "LogSoftmax" : "Softmax",
                  vvi_natural(e, vv_node_operand(v->node, 0)));
    vvi_onnx_int(e->onnx, "axis", -1);
    return true;
}

static bool emit_layer_norm(vvi_exporter *e, vvi_value *v)
{
    vv_node *gamma = vv_node_operand(v->node, 1), *beta = vv_node_operand(v->node, 2);
    if (!gamma)
        return false;
    name shift = beta ? vvi_natural(e, beta) : NULL;
    v->name = op2(e, "LayerNormalization", vvi_natural(e, vv_node_operand(v->node, 0)),
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
    name made = op1(e, "Transpose", x);
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
        v->name = op2(e, "Gemm", x, y);
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
    v->name = op2(e, "MatMul", x, y);
    if (z)
        v->name = op2(e, "Add", v->name, z);
    return true;
}

static void add_window(vvi_exporter *e, const int64_t *kernel, const int64_t *stride,
                       const int64_t *pad)
{
    const int64_t pads[4] = {pad[0], pad[1], pad[0], pad[1]};
    vvi_onnx_ints(e->onnx, "kernel_shape", kernel, 2);
    vvi_onnx_ints(e->onnx, "strides", stride, 2);
    vvi_onnx_ints(e->onnx, "pads", pads, 4);
}

static bool emit_conv(vvi_exporter *e, vvi_value *v)
{
    const vv_attr *attr = vv_node_attr(v->node);
    const vv_node *w = vv_node_operand(v->node, 1), *bias = vv_node_operand(v->node, 2);
    name x = vvi_image(e, vv_node_operand(v->node, 0)), y = vvi_natural(e, w);
    name z = bias ? vvi_natural(e, bias) : NULL;
    v->image = op2(e, "Conv", x, y);
    if (z)
        vvi_onnx_in(e->onnx, z);
    add_window(e, vv_node_shape(w) + 2, attr->conv.stride, attr->conv.pad);
    vvi_onnx_ints(e->onnx, "dilations", attr->conv.dilation, 2);
    vvi_onnx_int(e->onnx, "group", attr->conv.groups);
    return true;
}

static bool emit_pool(vvi_exporter *e, vvi_value *v)
{
    const vv_attr *attr = vv_node_attr(v->node);
    const vv_node *node = vv_node_operand(v->node, 0);
    name x = vvi_image(e, node);
    bool ceil_mode = false;
    for (int i = 0; i < 2; i++) {
        int64_t padded = vv_node_shape(node)[1 + i] + 2 * attr->pool.pad[i];
        int64_t whole = (padded - attr->pool.kernel[i]) / attr->pool.stride[i] + 1;
        ceil_mode = ceil_mode || vv_node_shape(v->node)[1 + i] > whole;
    }
    v->image = op1(e, attr->pool.max ? "MaxPool" : "AveragePool", x);
    add_window(e, attr->pool.kernel, attr->pool.stride, attr->pool.pad);
    vvi_onnx_int(e->onnx, "ceil_mode", ceil_mode);
    if (!attr->pool.max)
        vvi_onnx_int(e->onnx, "count_include_pad", attr->pool.include_pad);
    return true;
}

/* The whole image, or windows that divide it. */
static bool emit_adaptive_pool(vvi_exporter *e, vvi_value *v)
{
    static const int64_t no_pad[2] = {0, 0};
    bool max = vv_node_attr(v->node)->adaptive_pool.max != 0;
    const vv_node *node = vv_node_operand(v->node, 0);
    const int64_t *in = vv_node_shape(node) + 1, *out = vv_node_shape(v->node) + 1;
    if (in[0] % out[0] || in[1] % out[1])
        return false;
    name x = vvi_image(e, node);
    if (out[0] == 1 && out[1] == 1) {
        v->image = op1(e, max ? "GlobalMaxPool" : "GlobalAveragePool", x);
        return true;
    }
    const int64_t window[2] = {in[0] / out[0], in[1] / out[1]};
    v->image = op1(e, max ? "MaxPool" : "AveragePool", x);
    add_window(e, window, window, no_pad);
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
        [VV_OP_CONV2D] = emit_conv,
        [VV_OP_POOL] = emit_pool,
        [VV_OP_ADAPTIVE_POOL] = emit_adaptive_pool,
    };
    emit_fn form = forms[vv_node_op(v->node)];
    return form && form(e, v);
}
