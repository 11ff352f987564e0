/* ops_reduce.c - reductions, argmax, top-k and broadcasting: shape rules and gradients. */
#include "graph/node.h"

#include <vivace/memory.h>

#include <string.h>

static const char *const reduce_names[] = {
    [VV_REDUCE_SUM] = "sum",
    [VV_REDUCE_MEAN] = "mean",
    [VV_REDUCE_MAX] = "max",
    [VV_REDUCE_MIN] = "min",
};

/* Mask of the axes in the list (all if n is 0); false and an error if one is outside or twice. */
static bool axes_mask(const char *op, vv_node *x, const int *axes, int n, uint64_t *mask)
{
    *mask = 0;
    if (n <= 0 || !axes) {
        *mask = ((uint64_t)1 << x->out[0].ndim) - 1;
        return true;
    }
    for (int i = 0; i < n; i++) {
        const int axis = vvi_need_axis(op, x, axes[i]);
        if (axis < 0)
            return false;
        const uint64_t bit = (uint64_t)1 << axis;
        if (*mask & bit) {
            vvi_node_fail(x->graph, VV_EINVAL, "%s: axis %d is named twice", op, axis);
            return false;
        }
        *mask |= bit;
    }
    return true;
}

/* Which dtypes can be reduced: floats, and integers except for the mean. */
static bool need_reducible(vv_reduce kind, vv_node *x)
{
    const vv_dtype dtype = x->out[0].dtype;
    if (vv_dtype_is_float(dtype))
        return true;
    if (kind != VV_REDUCE_MEAN && (dtype == VV_I32 || dtype == VV_I64))
        return true;
    if (kind >= VV_REDUCE_MAX)
        return true;
    vvi_node_fail(x->graph, VV_ETYPE, "%s: not defined for %s; cast it first", reduce_names[kind],
                  vv_dtype_name(dtype));
    return false;
}

static vv_node *reduce(vv_node *x, vv_reduce kind, const int *axes, int n, bool keep_dims)
{
    uint64_t mask;
    if (!x || !need_reducible(kind, x) || !axes_mask(reduce_names[kind], x, axes, n, &mask))
        return NULL;
    int ndim = 0;
    int64_t shape[VV_MAX_DIMS];
    for (int d = 0; d < x->out[0].ndim; d++) {
        const bool reduced = mask >> d & 1;
        if (reduced && x->out[0].shape[d] == 0 && kind >= VV_REDUCE_MAX)
            return vvi_node_fail(x->graph, VV_ESHAPE, "%s: axis %d has no elements",
                                 reduce_names[kind], d);
        if (!reduced)
            shape[ndim++] = x->out[0].shape[d];
        else if (keep_dims)
            shape[ndim++] = 1;
    }
    vv_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.reduce.kind = kind;
    attr.reduce.axes = mask;
    return vvi_node_new(x->graph, VV_OP_REDUCE, &attr, x->out[0].dtype, ndim, shape, &x, 1, 1);
}

vv_node *vv_sum(vv_node *x, const int *axes, int n, bool keep_dims)
{
    return reduce(x, VV_REDUCE_SUM, axes, n, keep_dims);
}

vv_node *vv_mean(vv_node *x, const int *axes, int n, bool keep_dims)
{
    return reduce(x, VV_REDUCE_MEAN, axes, n, keep_dims);
}

vv_node *vv_max(vv_node *x, const int *axes, int n, bool keep_dims)
{
    return reduce(x, VV_REDUCE_MAX, axes, n, keep_dims);
}

vv_node *vv_min(vv_node *x, const int *axes, int n, bool keep_dims)
{
    return reduce(x, VV_REDUCE_MIN, axes, n, keep_dims);
}

vv_node *vv_sum_all(vv_node *x)
{
    return reduce(x, VV_REDUCE_SUM, NULL, 0, false);
}
vv_node *vv_mean_all(vv_node *x)
{
    return reduce(x, VV_REDUCE_MEAN, NULL, 0, false);
}

vv_node *vv_argmax(vv_node *x, int axis)
{
    if (!x || (axis = vvi_need_axis("argmax", x, axis)) < 0)
        return NULL;
    const vvi_shape *s = &x->out[0];
    if (s->shape[axis] == 0)
        return vvi_node_fail(x->graph, VV_ESHAPE, "argmax: axis %d has no elements", axis);
    if (s->shape[axis] > INT32_MAX)
        return vvi_node_fail(x->graph, VV_ESHAPE,
                             "argmax: axis %d has %lld elements, more than an "
                             "i32 index can count",
                             axis, (long long)s->shape[axis]);
    int64_t shape[VV_MAX_DIMS];
    int ndim = 0;
    for (int d = 0; d < s->ndim; d++) {
        if (d != axis)
            shape[ndim++] = s->shape[d];
    }
    vv_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.axis.axis = axis;
    return vvi_node_new(x->graph, VV_OP_ARGMAX, &attr, VV_I32, ndim, shape, &x, 1, 1);
}

vv_node *vv_topk(vv_node *x, int64_t k, vv_node **indices)
{
    if (indices)
        *indices = NULL;
    if (!x || vvi_need_axis("topk", x, -1) < 0)
        return NULL;
    const vvi_shape *s = &x->out[0];
    const int64_t last = s->shape[s->ndim - 1];
    if (k < 1 || k > last || last > INT32_MAX)
        return vvi_node_fail(x->graph, VV_EINVAL,
                             "topk: k is %lld, the last axis has %lld elements; k must be within 1 "
                             "and that",
                             (long long)k, (long long)last);
    int64_t shape[VV_MAX_DIMS];
    memcpy(shape, s->shape, sizeof(shape));
    shape[s->ndim - 1] = k;
    vv_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.topk.k = k;
    vv_node *node = vvi_node_new(x->graph, VV_OP_TOPK, &attr, s->dtype, s->ndim, shape, &x, 1, 1);
    if (!node)
        return NULL;
    vv_node *pick = vvi_node_add_out(node, VV_I32, s->ndim, shape);
    if (!pick)
        return NULL;
    if (indices)
        *indices = pick;
    return node;
}

vv_node *vv_largest(vv_node *x, vv_node *count)
{
    if (!x || !count || vvi_need_axis("largest", x, -1) < 0)
        return NULL;
    const vvi_shape *s = &x->out[0], *n = &count->out[0];
    char have[128], want[128];
    if (!vv_dtype_is_float(s->dtype) || n->dtype != VV_I32)
        return vvi_node_fail(x->graph, VV_ETYPE, "largest: x is %s and count %s; a float and i32 "
                             "are needed", vv_dtype_name(s->dtype), vv_dtype_name(n->dtype));
    if (n->ndim != s->ndim - 1 || memcmp(n->shape, s->shape, (size_t)n->ndim * sizeof(int64_t)))
        return vvi_node_fail(x->graph, VV_ESHAPE, "largest: count %s does not fit the rows of %s",
                             vv_shape_text(n->ndim, n->shape, want, sizeof want),
                             vv_shape_text(s->ndim, s->shape, have, sizeof have));
    vv_node *const in[2] = {x, count};
    return vvi_node_new(x->graph, VV_OP_LARGEST, NULL, VV_BOOL, s->ndim, s->shape, in, 2, 1);
}

vv_node *vv_broadcast_to(vv_node *x, int ndim, const int64_t *shape)
{
    if (!x)
        return NULL;
    const vvi_shape *s = &x->out[0];
    bool fits = ndim >= s->ndim && ndim <= VV_MAX_DIMS && (ndim == 0 || shape);
    bool same = fits && ndim == s->ndim;
    for (int d = 0; fits && d < ndim; d++) {
        const int own = d - (ndim - s->ndim);
        const int64_t size = own < 0 ? 1 : s->shape[own];
        fits = shape[d] >= 0 && (size == shape[d] || size == 1);
        same = same && size == shape[d];
    }
    if (!fits) {
        char from[128], to[128] = "that shape";
        if (ndim >= 0 && ndim <= VV_MAX_DIMS && (ndim == 0 || shape))
            vv_shape_text(ndim, shape, to, sizeof(to));
        return vvi_node_fail(x->graph, VV_ESHAPE, "broadcast_to: %s does not broadcast to %s",
                             vv_shape_text(s->ndim, s->shape, from, sizeof(from)), to);
    }
    if (same)
        return x;
    return vvi_node_new(x->graph, VV_OP_BROADCAST, NULL, s->dtype, ndim, shape, &x, 1, 1);
}

/* ---- gradients ---- */

/* `r` (the reduction's result or its gradient) with the reduced axes of length 1. */
static vv_node *with_kept_dims(const vv_node *node, vv_node *r)
{
    int64_t shape[VV_MAX_DIMS];
    const vvi_shape *s = &node->in[0]->out[0];
    for (int d = 0; d < s->ndim; d++)
        shape[d] = node->attr.reduce.axes >> d & 1 ? 1 : s->shape[d];
    return vv_reshape(r, s->ndim, shape);
}

/* Extremes share the gradient evenly among equals, as PyTorch's amax does. */
void vvi_grad_reduce(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!need[0] || !dout[0])
        return;
    vv_node *x = node->in[0], *dy = with_kept_dims(node, dout[0]);
    const vvi_shape *s = &x->out[0];
    const int64_t reduced = vv_node_count(node) ? vv_node_count(x) / vv_node_count(node) : 0;
    switch ((vv_reduce)node->attr.reduce.kind) {
    case VV_REDUCE_MEAN:
        dy = vv_affine(dy, reduced ? 1.0 / (double)reduced : 0.0, 0.0);
        din[0] = vv_broadcast_to(dy, s->ndim, s->shape);
        return;
    case VV_REDUCE_SUM:
        din[0] = vv_broadcast_to(dy, s->ndim, s->shape);
        return;
    case VV_REDUCE_MAX:
    case VV_REDUCE_MIN: {
        vv_node *mask = vv_cast(vv_equal(x, with_kept_dims(node, node)), s->dtype);
        if (!mask || !dy)
            return;
        vv_node *equals = vvi_sum_to(mask, dy->out[0].ndim, dy->out[0].shape);
        din[0] = vv_mul(mask, vv_div(dy, equals));
        return;
    }
    }
}

void vvi_grad_broadcast(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (need[0] && dout[0])
        din[0] = vvi_sum_to(dout[0], node->in[0]->out[0].ndim, node->in[0]->out[0].shape);
}

/* i64 [rows,1] holding row * length: turns positions within rows into positions in all. */
static vv_node *row_offsets(vv_graph *g, int64_t rows, int64_t length)
{
    int64_t *offsets = NULL;
    const vv_status status = vv_alloc_array(&offsets, (size_t)rows, sizeof(*offsets));
    if (status != VV_OK)
        return vvi_node_fail(g, status, "topk: no memory for the offsets of %lld rows",
                             (long long)rows);
    for (int64_t i = 0; i < rows; i++)
        offsets[i] = i * length;
    vv_node *leaf = vv_data(g, VV_I64, 2, (const int64_t[]){rows, 1}, offsets);
    vv_dealloc(offsets);
    return leaf;
}

/* Scatters dy to the places the values came from: a gather gradient over all elements in a row. */
void vvi_grad_topk(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!need[0] || !dout[0])
        return;
    const vvi_shape *s = &node->in[0]->out[0], *out = &node->out[1];
    const int64_t count = vv_node_count(node->in[0]), k = node->attr.topk.k;
    const int64_t length = s->shape[s->ndim - 1], rows = count / length;
    vv_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.pick.index = 1;
    vv_node *index = vvi_node_new(node->graph, VV_OP_PICK, &attr, out->dtype, out->ndim, out->shape,
                                  &node, 1, 1);
    index = vv_reshape(index, 2, (const int64_t[]){rows, k});
    index = vv_add(vv_cast(index, VV_I64), row_offsets(node->graph, rows, length));
    vv_node *const in[2] = {
        vv_reshape(dout[0], 1, (const int64_t[]){rows * k}),
        vv_reshape(index, 1, (const int64_t[]){rows * k}),
    };
    memset(&attr, 0, sizeof(attr));
    vv_node *flat = vvi_node_new(node->graph, VV_OP_GATHER_GRAD, &attr, s->dtype, 1,
                                 (const int64_t[]){count}, in, 2, 2);
    din[0] = vv_reshape(flat, s->ndim, s->shape);
}
