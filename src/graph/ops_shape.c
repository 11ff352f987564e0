/* ops_shape.c - ops that move elements without changing them: shape rules and gradients. */
#include "graph/node.h"

#include <string.h>

static vv_attr no_attr(void)
{
    vv_attr attr;
    memset(&attr, 0, sizeof(attr));
    return attr;
}

static const char *shape_of(const vv_node *x, char *buf, size_t buf_bytes)
{
    return vv_shape_text(x->out[0].ndim, x->out[0].shape, buf, buf_bytes);
}

/* ---- reshape and permute ---- */

/* Copies `shape` to `full` with its -1 filled in; the number of elements it then holds, or -1. */
static int64_t infer_shape(int64_t count, int ndim, const int64_t *shape, int64_t *full)
{
    int64_t known = 1;
    int hole = -1;
    for (int d = 0; d < ndim; d++) {
        full[d] = shape[d];
        if (shape[d] == -1 && hole < 0)
            hole = d;
        else if (shape[d] < 0 || __builtin_mul_overflow(known, shape[d], &known))
            return -1;
    }
    if (hole < 0)
        return known;
    if (known == 0 || count % known != 0)
        return -1;
    full[hole] = count / known;
    return count;
}

vv_node *vv_reshape(vv_node *x, int ndim, const int64_t *shape)
{
    if (!x)
        return NULL;
    if (ndim < 0 || ndim > VV_MAX_DIMS || (ndim > 0 && !shape))
        return vvi_node_fail(x->graph, VV_ESHAPE, "reshape: %d dimensions, 0..%d are possible",
                             ndim, VV_MAX_DIMS);
    int64_t full[VV_MAX_DIMS] = {0};
    const int64_t count = vv_node_count(x);
    if (infer_shape(count, ndim, shape, full) != count) {
        char from[128], to[128];
        return vvi_node_fail(x->graph, VV_ESHAPE,
                             "reshape: %s cannot become %s; the number of elements must stay, and "
                             "one dimension at most may be -1",
                             shape_of(x, from, sizeof(from)),
                             vv_shape_text(ndim, shape, to, sizeof(to)));
    }
    if (ndim == x->out[0].ndim && memcmp(full, x->out[0].shape, (size_t)ndim * sizeof(*full)) == 0)
        return x;
    return vvi_node_new(x->graph, VV_OP_RESHAPE, NULL, x->out[0].dtype, ndim, full, &x, 1, 1);
}

vv_node *vv_permute(vv_node *x, const int *order)
{
    if (!x)
        return NULL;
    const vvi_shape *s = &x->out[0];
    vv_attr attr = no_attr();
    int64_t shape[VV_MAX_DIMS];
    unsigned seen = 0;
    bool moves = false;
    for (int d = 0; d < s->ndim; d++) {
        const int axis = vvi_need_axis("permute", x, order[d]);
        if (axis < 0)
            return NULL;
        if (seen >> axis & 1)
            return vvi_node_fail(x->graph, VV_EINVAL, "permute: axis %d is named twice", axis);
        seen |= 1u << axis;
        moves = moves || axis != d;
        attr.permute.order[d] = axis;
        shape[d] = s->shape[axis];
    }
    if (!moves)
        return x;
    return vvi_node_new(x->graph, VV_OP_PERMUTE, &attr, s->dtype, s->ndim, shape, &x, 1, 1);
}

void vvi_grad_reshape(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (need[0] && dout[0])
        din[0] = vv_reshape(dout[0], node->in[0]->out[0].ndim, node->in[0]->out[0].shape);
}

void vvi_grad_permute(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!need[0] || !dout[0])
        return;
    int inverse[VV_MAX_DIMS] = {0};
    for (int d = 0; d < node->out[0].ndim; d++)
        inverse[node->attr.permute.order[d]] = d;
    din[0] = vv_permute(dout[0], inverse);
}

/* ---- slice ---- */

vv_node *vv_slice(vv_node *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    if (!x || (axis = vvi_need_axis("slice", x, axis)) < 0)
        return NULL;
    const vvi_shape *s = &x->out[0];
    const int64_t size = s->shape[axis];
    if (start < 0 || stop < start || stop > size || step < 1)
        return vvi_node_fail(x->graph, VV_EINVAL,
                             "slice: start %lld, stop %lld, step %lld on an axis of %lld elements; "
                             "need 0 <= start <= stop <= elements and step >= 1",
                             (long long)start, (long long)stop, (long long)step, (long long)size);
    if (start == 0 && stop == size && step == 1)
        return x;
    int64_t shape[VV_MAX_DIMS];
    memcpy(shape, s->shape, sizeof(shape));
    shape[axis] = stop > start ? (stop - start - 1) / step + 1 : 0;
    vv_attr attr = no_attr();
    attr.slice.axis = axis;
    attr.slice.start = start;
    attr.slice.step = step;
    return vvi_node_new(x->graph, VV_OP_SLICE, &attr, s->dtype, s->ndim, shape, &x, 1, 1);
}

/* Shared by SLICE and SLICE_GRAD, which are each other's gradient. */
static vv_node *slice_turned(vv_node *node, vv_node *dy, vv_op op)
{
    const vvi_shape *s = &node->in[0]->out[0];
    return vvi_node_new(node->graph, op, &node->attr, s->dtype, s->ndim, s->shape, &dy, 1, 1);
}

void vvi_grad_slice(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (need[0] && dout[0])
        din[0] = slice_turned(node, dout[0], VV_OP_SLICE_GRAD);
}

void vvi_grad_slice_grad(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (need[0] && dout[0])
        din[0] = slice_turned(node, dout[0], VV_OP_SLICE);
}

/* ---- concat and pad ---- */

/* Whether x joins `first` along the axis; records the error if not. */
static bool concat_fits(const vv_node *first, const vv_node *x, int axis)
{
    const vvi_shape *a = &first->out[0], *b = &x->out[0];
    if (a->dtype != b->dtype) {
        vvi_node_fail(first->graph, VV_ETYPE,
                      "concat: operands are %s and %s; cast one with vv_cast",
                      vv_dtype_name(a->dtype), vv_dtype_name(b->dtype));
        return false;
    }
    bool fits = a->ndim == b->ndim;
    for (int d = 0; fits && d < a->ndim; d++)
        fits = d == axis || a->shape[d] == b->shape[d];
    if (!fits) {
        char ta[128], tb[128];
        vvi_node_fail(first->graph, VV_ESHAPE, "concat: %s and %s differ outside axis %d",
                      shape_of(first, ta, sizeof(ta)), shape_of(x, tb, sizeof(tb)), axis);
    }
    return fits;
}

vv_node *vv_concat(vv_node *const *xs, int count, int axis)
{
    vv_node *first = NULL;
    for (int i = 0; xs && i < count; i++) {
        if (!xs[i])
            return NULL;
        first = xs[0];
    }
    if (!first) {
        vv_fail(VV_EINVAL, "concat: no operands");
        return NULL;
    }
    if ((axis = vvi_need_axis("concat", first, axis)) < 0)
        return NULL;
    int64_t shape[VV_MAX_DIMS];
    memcpy(shape, first->out[0].shape, sizeof(shape));
    for (int i = 1; i < count; i++) {
        if (!concat_fits(first, xs[i], axis))
            return NULL;
        if (__builtin_add_overflow(shape[axis], xs[i]->out[0].shape[axis], &shape[axis]))
            return vvi_node_fail(first->graph, VV_ESHAPE, "concat: axis %d would be too long",
                                 axis);
    }
    if (count == 1)
        return first;
    vv_attr attr = no_attr();
    attr.axis.axis = axis;
    return vvi_node_new(first->graph, VV_OP_CONCAT, &attr, first->out[0].dtype, first->out[0].ndim,
                        shape, xs, count, count);
}

void vvi_grad_concat(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    const int axis = (int)node->attr.axis.axis;
    int64_t start = 0;
    for (int i = 0; dout[0] && i < node->n_in; i++) {
        const int64_t size = node->in[i]->out[0].shape[axis];
        if (need[i])
            din[i] = vv_slice(dout[0], axis, start, start + size, 1);
        start += size;
    }
}

vv_node *vv_pad(vv_node *x, const int64_t *before, const int64_t *after, double value)
{
    if (!x)
        return NULL;
    const vvi_shape *s = &x->out[0];
    vv_attr attr = no_attr();
    int64_t shape[VV_MAX_DIMS];
    bool grows = false;
    for (int d = 0; d < s->ndim; d++) {
        if (before[d] < 0 || after[d] < 0)
            return vvi_node_fail(x->graph, VV_EINVAL,
                                 "pad: %lld before and %lld after axis %d; use vv_slice to cut",
                                 (long long)before[d], (long long)after[d], d);
        attr.pad.before[d] = before[d];
        if (__builtin_add_overflow(before[d], s->shape[d], &shape[d]) ||
            __builtin_add_overflow(shape[d], after[d], &shape[d]))
            return vvi_node_fail(x->graph, VV_ESHAPE, "pad: axis %d would be too long", d);
        grows = grows || shape[d] != s->shape[d];
    }
    if (!grows)
        return x;
    attr.pad.value = value;
    return vvi_node_new(x->graph, VV_OP_PAD, &attr, s->dtype, s->ndim, shape, &x, 1, 1);
}

void vvi_grad_pad(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!need[0] || !dout[0])
        return;
    const vvi_shape *s = &node->in[0]->out[0];
    din[0] = dout[0];
    for (int d = 0; d < s->ndim; d++) {
        const int64_t start = node->attr.pad.before[d];
        din[0] = vv_slice(din[0], d, start, start + s->shape[d], 1);
    }
}

/* ---- gather ---- */

static bool need_index(const char *op, vv_node *index)
{
    const vv_dtype dtype = index->out[0].dtype;
    if (dtype == VV_I32 || dtype == VV_I64)
        return true;
    vvi_node_fail(index->graph, VV_ETYPE, "%s: the index is %s, it must be i32 or i64", op,
                  vv_dtype_name(dtype));
    return false;
}

static vv_node *gather(const char *op, vv_node *x, vv_node *index, int axis)
{
    if ((axis = vvi_need_axis(op, x, axis)) < 0 || !need_index(op, index))
        return NULL;
    const vvi_shape *s = &x->out[0], *si = &index->out[0];
    const int ndim = s->ndim - 1 + si->ndim;
    if (ndim > VV_MAX_DIMS)
        return vvi_node_fail(x->graph, VV_ESHAPE,
                             "%s: the result would have %d dimensions, at most "
                             "%d are possible",
                             op, ndim, VV_MAX_DIMS);
    int64_t shape[VV_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < axis; d++)
        shape[n++] = s->shape[d];
    for (int d = 0; d < si->ndim; d++)
        shape[n++] = si->shape[d];
    for (int d = axis + 1; d < s->ndim; d++)
        shape[n++] = s->shape[d];
    vv_attr attr = no_attr();
    attr.axis.axis = axis;
    vv_node *const in[2] = {x, index};
    return vvi_node_new(x->graph, VV_OP_GATHER, &attr, s->dtype, ndim, shape, in, 2, 2);
}

vv_node *vv_gather(vv_node *x, vv_node *index, int axis)
{
    return x && index ? gather("gather", x, index, axis) : NULL;
}

vv_node *vv_embedding(vv_node *index, vv_node *table)
{
    if (!index || !table || !vvi_need_dims("embedding", "table", table, 2))
        return NULL;
    return gather("embedding", table, index, 0);
}

void vvi_grad_gather(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!need[0] || !dout[0])
        return;
    const vvi_shape *s = &node->in[0]->out[0];
    vv_node *const in[2] = {dout[0], node->in[1]};
    din[0] = vvi_node_new(node->graph, VV_OP_GATHER_GRAD, &node->attr, s->dtype, s->ndim, s->shape,
                          in, 2, 2);
}

vv_node *vv_one_hot(vv_node *index, int64_t classes)
{
    if (!index || !need_index("one_hot", index))
        return NULL;
    const vvi_shape *s = &index->out[0];
    if (classes < 1 || s->ndim >= VV_MAX_DIMS)
        return vvi_node_fail(index->graph, VV_EINVAL,
                             "one_hot: %lld classes for an index of %d dimensions; at least one "
                             "class and at most %d dimensions are possible",
                             (long long)classes, s->ndim, VV_MAX_DIMS - 1);
    int64_t shape[VV_MAX_DIMS];
    memcpy(shape, s->shape, sizeof(shape));
    shape[s->ndim] = classes;
    return vvi_node_new(index->graph, VV_OP_ONE_HOT, NULL, VV_F32, s->ndim + 1, shape, &index, 1,
                        1);
}
