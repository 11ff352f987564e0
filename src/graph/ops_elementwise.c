/* ops_elementwise.c - element-wise, random and constant ops: shape rules and gradients. */
#include "graph/node.h"

#include <math.h>
#include <string.h>

static const char *const unary_names[VV_UNARY_COUNT] = {
    [VV_UNARY_NEG] = "neg",
    [VV_UNARY_EXP] = "exp",
    [VV_UNARY_LOG] = "log",
    [VV_UNARY_SQRT] = "sqrt",
    [VV_UNARY_RSQRT] = "rsqrt",
    [VV_UNARY_RECIPROCAL] = "reciprocal",
    [VV_UNARY_SQUARE] = "square",
    [VV_UNARY_ABS] = "abs",
    [VV_UNARY_SIGN] = "sign",
    [VV_UNARY_RELU] = "relu",
    [VV_UNARY_LEAKY_RELU] = "leaky_relu",
    [VV_UNARY_GELU] = "gelu",
    [VV_UNARY_GELU_TANH] = "gelu_tanh",
    [VV_UNARY_SILU] = "silu",
    [VV_UNARY_SIGMOID] = "sigmoid",
    [VV_UNARY_TANH] = "tanh",
    [VV_UNARY_HARDSWISH] = "hardswish",
    [VV_UNARY_SOFTPLUS] = "softplus",
    [VV_UNARY_CLAMP] = "clamp",
    [VV_UNARY_AFFINE] = "affine",
    [VV_UNARY_POW] = "pow",
};

static const char *const binary_names[VV_BINARY_COUNT] = {
    [VV_BINARY_ADD] = "add",
    [VV_BINARY_SUB] = "sub",
    [VV_BINARY_MUL] = "mul",
    [VV_BINARY_DIV] = "div",
    [VV_BINARY_MAX] = "maximum",
    [VV_BINARY_MIN] = "minimum",
    [VV_BINARY_EQUAL] = "equal",
    [VV_BINARY_LESS] = "less",
    [VV_BINARY_GREATER_EQUAL] = "greater_equal",
};

static vv_attr no_attr(void)
{
    vv_attr attr;
    memset(&attr, 0, sizeof(attr));
    return attr;
}

/* ---- one operand ---- */

static vv_node *unary(vv_node *x, vv_unary kind, double a, double b)
{
    if (!x || !vvi_need_float(unary_names[kind], x))
        return NULL;
    vv_attr attr = no_attr();
    attr.unary.kind = kind;
    attr.unary.a = a;
    attr.unary.b = b;
    return vvi_node_new(x->graph, VV_OP_UNARY, &attr, x->out[0].dtype, x->out[0].ndim,
                        x->out[0].shape, &x, 1, 1);
}

vv_node *vv_neg(vv_node *x)
{
    return unary(x, VV_UNARY_NEG, 0.0, 0.0);
}
vv_node *vv_exp(vv_node *x)
{
    return unary(x, VV_UNARY_EXP, 0.0, 0.0);
}
vv_node *vv_log(vv_node *x)
{
    return unary(x, VV_UNARY_LOG, 0.0, 0.0);
}
vv_node *vv_sqrt(vv_node *x)
{
    return unary(x, VV_UNARY_SQRT, 0.0, 0.0);
}
vv_node *vv_rsqrt(vv_node *x)
{
    return unary(x, VV_UNARY_RSQRT, 0.0, 0.0);
}
vv_node *vv_reciprocal(vv_node *x)
{
    return unary(x, VV_UNARY_RECIPROCAL, 0.0, 0.0);
}
vv_node *vv_square(vv_node *x)
{
    return unary(x, VV_UNARY_SQUARE, 0.0, 0.0);
}
vv_node *vv_abs(vv_node *x)
{
    return unary(x, VV_UNARY_ABS, 0.0, 0.0);
}
vv_node *vv_sign(vv_node *x)
{
    return unary(x, VV_UNARY_SIGN, 0.0, 0.0);
}
vv_node *vv_relu(vv_node *x)
{
    return unary(x, VV_UNARY_RELU, 0.0, 0.0);
}
vv_node *vv_gelu(vv_node *x)
{
    return unary(x, VV_UNARY_GELU, 0.0, 0.0);
}
vv_node *vv_gelu_tanh(vv_node *x)
{
    return unary(x, VV_UNARY_GELU_TANH, 0.0, 0.0);
}
vv_node *vv_silu(vv_node *x)
{
    return unary(x, VV_UNARY_SILU, 0.0, 0.0);
}
vv_node *vv_sigmoid(vv_node *x)
{
    return unary(x, VV_UNARY_SIGMOID, 0.0, 0.0);
}
vv_node *vv_tanh(vv_node *x)
{
    return unary(x, VV_UNARY_TANH, 0.0, 0.0);
}
vv_node *vv_hardswish(vv_node *x)
{
    return unary(x, VV_UNARY_HARDSWISH, 0.0, 0.0);
}
vv_node *vv_softplus(vv_node *x)
{
    return unary(x, VV_UNARY_SOFTPLUS, 0.0, 0.0);
}

vv_node *vv_leaky_relu(vv_node *x, double slope)
{
    return unary(x, VV_UNARY_LEAKY_RELU, slope, 0.0);
}

vv_node *vv_affine(vv_node *x, double scale, double shift)
{
    return unary(x, VV_UNARY_AFFINE, scale, shift);
}

vv_node *vv_pow(vv_node *x, double exponent)
{
    return unary(x, VV_UNARY_POW, exponent, 0.0);
}

/* A chain that fusion makes one pass; near 0 it is x, and it never leaves -cap..cap. */
vv_node *vv_softcap(vv_node *x, double cap)
{
    if (x && !(cap > 0.0 && isfinite(cap)))
        return vvi_node_fail(x->graph, VV_EINVAL, "softcap: the cap is %g, it must be above 0",
                             cap);
    return vv_affine(vv_tanh(vv_affine(x, 1.0 / cap, 0.0)), cap, 0.0);
}

vv_node *vv_clamp(vv_node *x, double lo, double hi)
{
    if (x && !(lo <= hi))
        return vvi_node_fail(x->graph, VV_EINVAL,
                             "clamp: the lower bound %g is not <= the upper %g", lo, hi);
    return unary(x, VV_UNARY_CLAMP, lo, hi);
}

static vv_node *new_cast(vv_node *x, vv_dtype dtype)
{
    return vvi_node_new(x->graph, VV_OP_CAST, NULL, dtype, x->out[0].ndim, x->out[0].shape, &x, 1,
                        1);
}

vv_node *vv_cast(vv_node *x, vv_dtype dtype)
{
    if (!x)
        return NULL;
    if ((int)dtype < 0 || dtype >= VV_DTYPE_COUNT)
        return vvi_node_fail(x->graph, VV_EINVAL, "cast: %d is not an element type", (int)dtype);
    return x->out[0].dtype == dtype ? x : new_cast(x, dtype);
}

/* A cast to the dtype it has: vvi_grad_cast gives such a node no gradient, and vv_cast never makes
   one. */
vv_node *vv_stop_gradient(vv_node *x)
{
    return x ? new_cast(x, x->out[0].dtype) : NULL;
}

/* ---- two and three operands ---- */

/* Gives both operands one dtype: a [] f32 scalar takes the other's. */
static bool match_dtypes(const char *op, vv_node **a, vv_node **b)
{
    const vvi_shape *sa = &(*a)->out[0], *sb = &(*b)->out[0];
    if (sa->dtype == sb->dtype)
        return true;
    if (sb->dtype == VV_F32 && sb->ndim == 0)
        return (*b = vv_cast(*b, sa->dtype)) != NULL;
    if (sa->dtype == VV_F32 && sa->ndim == 0)
        return (*a = vv_cast(*a, sb->dtype)) != NULL;
    vvi_node_fail((*a)->graph, VV_ETYPE, "%s: the operands are %s and %s; cast one with vv_cast",
                  op, vv_dtype_name(sa->dtype), vv_dtype_name(sb->dtype));
    return false;
}

static vv_node *fail_broadcast(const char *op, const vv_node *a, const vv_node *b)
{
    char ta[128], tb[128];
    return vvi_node_fail(a->graph, VV_ESHAPE, "%s: shapes %s and %s do not broadcast", op,
                         vv_shape_text(a->out[0].ndim, a->out[0].shape, ta, sizeof(ta)),
                         vv_shape_text(b->out[0].ndim, b->out[0].shape, tb, sizeof(tb)));
}

/* Which dtypes a kind takes: integers have no division, booleans only order. */
static bool need_arithmetic(vv_binary kind, vv_node *x)
{
    const vv_dtype dtype = x->out[0].dtype;
    const bool order = kind >= VV_BINARY_MAX;
    if (vv_dtype_is_float(dtype) || order || (dtype != VV_BOOL && kind != VV_BINARY_DIV))
        return true;
    vvi_node_fail(x->graph, VV_ETYPE, "%s: not defined for %s; cast to a float type first",
                  binary_names[kind], vv_dtype_name(dtype));
    return false;
}

static vv_node *binary(vv_node *a, vv_node *b, vv_binary kind)
{
    if (!a || !b || !match_dtypes(binary_names[kind], &a, &b) || !need_arithmetic(kind, a))
        return NULL;
    int ndim;
    int64_t shape[VV_MAX_DIMS];
    if (!vvi_broadcast_shape(&ndim, shape, a, b))
        return fail_broadcast(binary_names[kind], a, b);
    vv_attr attr = no_attr();
    attr.binary.kind = kind;
    const vv_dtype dtype = kind >= VV_BINARY_EQUAL ? VV_BOOL : a->out[0].dtype;
    vv_node *const in[2] = {a, b};
    return vvi_node_new(a->graph, VV_OP_BINARY, &attr, dtype, ndim, shape, in, 2, 2);
}

vv_node *vv_add(vv_node *a, vv_node *b)
{
    return binary(a, b, VV_BINARY_ADD);
}
vv_node *vv_sub(vv_node *a, vv_node *b)
{
    return binary(a, b, VV_BINARY_SUB);
}
vv_node *vv_mul(vv_node *a, vv_node *b)
{
    return binary(a, b, VV_BINARY_MUL);
}
vv_node *vv_div(vv_node *a, vv_node *b)
{
    return binary(a, b, VV_BINARY_DIV);
}
vv_node *vv_maximum(vv_node *a, vv_node *b)
{
    return binary(a, b, VV_BINARY_MAX);
}
vv_node *vv_minimum(vv_node *a, vv_node *b)
{
    return binary(a, b, VV_BINARY_MIN);
}
vv_node *vv_equal(vv_node *a, vv_node *b)
{
    return binary(a, b, VV_BINARY_EQUAL);
}
vv_node *vv_less(vv_node *a, vv_node *b)
{
    return binary(a, b, VV_BINARY_LESS);
}
vv_node *vv_greater_equal(vv_node *a, vv_node *b)
{
    return binary(a, b, VV_BINARY_GREATER_EQUAL);
}

vv_node *vv_where(vv_node *condition, vv_node *a, vv_node *b)
{
    if (!condition || !a || !b || !match_dtypes("where", &a, &b))
        return NULL;
    if (condition->out[0].dtype != VV_BOOL)
        return vvi_node_fail(a->graph, VV_ETYPE, "where: the condition is %s, it must be bool",
                             vv_dtype_name(condition->out[0].dtype));
    vv_node both = {0}; /* carries the shape of a and b to the second broadcast */
    if (!vvi_broadcast_shape(&both.out[0].ndim, both.out[0].shape, a, b))
        return fail_broadcast("where", a, b);
    both.graph = a->graph;
    int ndim;
    int64_t shape[VV_MAX_DIMS];
    if (!vvi_broadcast_shape(&ndim, shape, condition, &both))
        return fail_broadcast("where", condition, &both);
    vv_node *const in[3] = {condition, a, b};
    return vvi_node_new(a->graph, VV_OP_WHERE, NULL, a->out[0].dtype, ndim, shape, in, 3, 3);
}

vv_node *vv_lerp(vv_node *a, vv_node *b, vv_node *weight)
{
    return vv_add(a, vv_mul(weight, vv_sub(b, a)));
}

/* ---- random and constant ---- */

vv_node *vv_dropout(vv_node *x, double p)
{
    if (!x || !vvi_need_float("dropout", x))
        return NULL;
    if (!(p >= 0.0 && p <= 1.0))
        return vvi_node_fail(x->graph, VV_EINVAL, "dropout: p is %g, it must be within 0..1", p);
    if (p <= 0.0)
        return x;
    vv_attr attr = no_attr();
    attr.random.p = p;
    attr.random.id = vvi_graph_next_random(x->graph);
    return vvi_node_new(x->graph, VV_OP_DROPOUT, &attr, x->out[0].dtype, x->out[0].ndim,
                        x->out[0].shape, &x, 1, 1);
}

/* Whether a shape given by the caller can be a node's. */
static bool need_shape(const char *op, vv_graph *g, int ndim, const int64_t *shape)
{
    if (ndim < 0 || ndim > VV_MAX_DIMS || (ndim > 0 && !shape)) {
        vvi_node_fail(g, VV_ESHAPE, "%s: %d dimensions, 0..%d are possible", op, ndim, VV_MAX_DIMS);
        return false;
    }
    for (int d = 0; d < ndim; d++) {
        if (shape[d] < 0) {
            vvi_node_fail(g, VV_ESHAPE, "%s: dimension %d is %lld, it must not be negative", op, d,
                          (long long)shape[d]);
            return false;
        }
    }
    return true;
}

static vv_node *random_node(const char *op, vv_graph *g, int kind, int ndim, const int64_t *shape)
{
    if (!g || !need_shape(op, g, ndim, shape))
        return NULL;
    vv_attr attr = no_attr();
    attr.random.kind = kind;
    attr.random.id = vvi_graph_next_random(g);
    return vvi_node_new(g, VV_OP_RANDOM, &attr, VV_F32, ndim, shape, NULL, 0, 0);
}

vv_node *vv_random_uniform(vv_graph *g, int ndim, const int64_t *shape)
{
    return random_node("random_uniform", g, 0, ndim, shape);
}

vv_node *vv_random_normal(vv_graph *g, int ndim, const int64_t *shape)
{
    return random_node("random_normal", g, 1, ndim, shape);
}

/* Whether an element of the dtype can hold the value (floats round). */
static bool value_fits(vv_dtype dtype, double value)
{
    switch (dtype) {
    case VV_I32:
        return value >= INT32_MIN && value <= INT32_MAX;
    case VV_I64:
        return value >= -0x1p63 && value < 0x1p63;
    case VV_U8:
        return value >= 0.0 && value <= UINT8_MAX;
    default:
        return true;
    }
}

vv_node *vv_full(vv_graph *g, vv_dtype dtype, int ndim, const int64_t *shape, double value)
{
    if (!g)
        return NULL;
    if ((int)dtype < 0 || dtype >= VV_DTYPE_COUNT)
        return vvi_node_fail(g, VV_EINVAL, "full: %d is not an element type", (int)dtype);
    if (!value_fits(dtype, value))
        return vvi_node_fail(g, VV_EINVAL, "full: %g does not fit in %s", value,
                             vv_dtype_name(dtype));
    if (!need_shape("full", g, ndim, shape))
        return NULL;
    vv_attr attr = no_attr();
    attr.full.value = value;
    return vvi_node_new(g, VV_OP_FULL, &attr, dtype, ndim, shape, NULL, 0, 0);
}

vv_node *vv_zeros(vv_graph *g, vv_dtype dtype, int ndim, const int64_t *shape)
{
    return vv_full(g, dtype, ndim, shape, 0.0);
}

vv_node *vvi_constant_like(vv_node *x, double value)
{
    return x ? vv_full(x->graph, x->out[0].dtype, 0, NULL, value) : NULL;
}

/* ---- gradients ---- */

vv_node *vvi_sum_to(vv_node *x, int ndim, const int64_t *shape)
{
    if (!x)
        return NULL;
    const vvi_shape *from = &x->out[0];
    const int lead = from->ndim - ndim;
    uint64_t axes = 0;
    for (int d = 0; d < from->ndim; d++) {
        if (d < lead || (shape[d - lead] == 1 && from->shape[d] != 1))
            axes |= (uint64_t)1 << d;
    }
    if (axes == 0)
        return x;
    vv_attr attr = no_attr();
    attr.reduce.kind = VV_REDUCE_SUM;
    attr.reduce.axes = axes;
    return vvi_node_new(x->graph, VV_OP_REDUCE, &attr, from->dtype, ndim, shape, &x, 1, 1);
}

static vv_node *sum_like(vv_node *x, const vv_node *like)
{
    return vvi_sum_to(x, like->out[0].ndim, like->out[0].shape);
}

bool vv_unary_grad_uses_y(vv_unary kind)
{
    switch (kind) {
    case VV_UNARY_EXP:
    case VV_UNARY_SQRT:
    case VV_UNARY_RSQRT:
    case VV_UNARY_RECIPROCAL:
    case VV_UNARY_RELU:
    case VV_UNARY_SIGMOID:
    case VV_UNARY_TANH:
        return true;
    default:
        return false;
    }
}

/* Linear kinds need no operand; the others go through UNARY_GRAD. */
void vvi_grad_unary(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!need[0] || !dout[0])
        return;
    const vv_unary kind = (vv_unary)node->attr.unary.kind;
    switch (kind) {
    case VV_UNARY_SIGN:
        return;
    case VV_UNARY_NEG:
        din[0] = vv_neg(dout[0]);
        return;
    case VV_UNARY_AFFINE:
        din[0] = vv_affine(dout[0], node->attr.unary.a, 0.0);
        return;
    default:
        break;
    }
    const vvi_shape *s = &node->out[0];
    vv_node *const in[2] = {dout[0], vv_unary_grad_uses_y(kind) ? node : node->in[0]};
    din[0] = vvi_node_new(node->graph, VV_OP_UNARY_GRAD, &node->attr, s->dtype, s->ndim, s->shape,
                          in, 2, 2);
}

/* Extremes of equal operands give half to each, as PyTorch does. */
static void grad_extreme(vv_node *node, vv_node *dy, const bool *need, vv_node **din)
{
    vv_node *a = node->in[0], *b = node->in[1];
    vv_node *share = vv_where(vv_equal(a, b), vv_affine(dy, 0.5, 0.0), dy);
    vv_node *zero = vvi_constant_like(dy, 0.0);
    const bool max = node->attr.binary.kind == VV_BINARY_MAX;
    if (need[0])
        din[0] = sum_like(vv_where(max ? vv_less(a, b) : vv_less(b, a), zero, share), a);
    if (need[1])
        din[1] = sum_like(vv_where(max ? vv_less(b, a) : vv_less(a, b), zero, share), b);
}

void vvi_grad_binary(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    vv_node *a = node->in[0], *b = node->in[1], *dy = dout[0];
    vv_node *da = NULL, *db = NULL;
    if (!dy)
        return;
    switch ((vv_binary)node->attr.binary.kind) {
    case VV_BINARY_ADD:
        da = db = dy;
        break;
    case VV_BINARY_SUB:
        da = dy;
        db = need[1] ? vv_neg(dy) : NULL;
        break;
    case VV_BINARY_MUL:
        da = need[0] ? vv_mul(dy, b) : NULL;
        db = need[1] ? vv_mul(dy, a) : NULL;
        break;
    case VV_BINARY_DIV: /* d(a/b)/db = -(a/b)/b */
        da = need[0] || need[1] ? vv_div(dy, b) : NULL;
        db = need[1] ? vv_neg(vv_mul(da, node)) : NULL;
        break;
    case VV_BINARY_MAX:
    case VV_BINARY_MIN:
        grad_extreme(node, dy, need, din);
        return;
    default:
        return;
    }
    if (need[0])
        din[0] = sum_like(da, a);
    if (need[1])
        din[1] = sum_like(db, b);
}

void vvi_grad_where(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!dout[0])
        return;
    vv_node *condition = node->in[0], *zero = vvi_constant_like(dout[0], 0.0);
    if (need[1])
        din[1] = sum_like(vv_where(condition, dout[0], zero), node->in[1]);
    if (need[2])
        din[2] = sum_like(vv_where(condition, zero, dout[0]), node->in[2]);
}

void vvi_grad_cast(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    const vv_dtype from = node->in[0]->out[0].dtype, to = node->out[0].dtype;
    if (need[0] && dout[0] && from != to && vv_dtype_is_float(from) && vv_dtype_is_float(to))
        din[0] = vv_cast(dout[0], from);
}

/* The same draws: the node's own id. */
void vvi_grad_dropout(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!need[0] || !dout[0])
        return;
    const vvi_shape *s = &node->out[0];
    din[0] = vvi_node_new(node->graph, VV_OP_DROPOUT, &node->attr, s->dtype, s->ndim, s->shape,
                          dout, 1, 1);
}
