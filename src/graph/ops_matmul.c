/* ops_matmul.c - matrix products: shape rules and gradients. */
#include "graph/node.h"

#include <string.h>

/* Whether two operands of `op` share a dtype; records the error if not. */
static bool need_same_dtype(const char *op, const char *what, const vv_node *a, const vv_node *b)
{
    if (a->out[0].dtype == b->out[0].dtype)
        return true;
    vvi_node_fail(a->graph, VV_ETYPE, "%s: x is %s but %s is %s; cast one with vv_cast", op,
                  vv_dtype_name(a->out[0].dtype), what, vv_dtype_name(b->out[0].dtype));
    return false;
}

static vv_node *fail_shapes(const char *why, const vv_node *a, const vv_node *b, bool trans_a,
                            bool trans_b)
{
    char ta[128], tb[128];
    return vvi_node_fail(a->graph, VV_ESHAPE, "matmul: %s%s and %s%s: %s",
                         vv_shape_text(a->out[0].ndim, a->out[0].shape, ta, sizeof(ta)),
                         trans_a ? " (transposed)" : "",
                         vv_shape_text(b->out[0].ndim, b->out[0].shape, tb, sizeof(tb)),
                         trans_b ? " (transposed)" : "", why);
}

/* Leading dimensions of the product: those of a and b before the last two, broadcast. */
static bool leading_shape(const vv_node *a, const vv_node *b, int *ndim, int64_t *shape)
{
    vv_node la = {0}, lb = {0}; /* only carry shapes */
    la.out[0] = a->out[0];
    lb.out[0] = b->out[0];
    la.out[0].ndim -= 2;
    lb.out[0].ndim -= 2;
    return vvi_broadcast_shape(ndim, shape, &la, &lb);
}

static vv_node *new_matmul(vv_node *a, vv_node *b, vv_node *bias, bool trans_a, bool trans_b)
{
    const vvi_shape *sa = &a->out[0], *sb = &b->out[0];
    const int64_t *da = sa->shape + sa->ndim - 2, *db = sb->shape + sb->ndim - 2;
    if (da[!trans_a] != db[trans_b])
        return fail_shapes("the inner dimensions differ", a, b, trans_a, trans_b);
    int ndim;
    int64_t shape[VV_MAX_DIMS];
    if (!leading_shape(a, b, &ndim, shape))
        return fail_shapes("the leading dimensions do not broadcast", a, b, trans_a, trans_b);
    shape[ndim++] = da[trans_a];
    shape[ndim++] = db[!trans_b];
    vv_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.matmul.trans_a = trans_a;
    attr.matmul.trans_b = trans_b;
    vv_node *const in[3] = {a, b, bias};
    return vvi_node_new(a->graph, VV_OP_MATMUL, &attr, sa->dtype, ndim, shape, in, bias ? 3 : 2, 2);
}

/* x [.., K] as [rows, K]. */
static vv_node *as_rows(vv_node *x)
{
    const vvi_shape *s = &x->out[0];
    int64_t rows = 1;
    for (int d = 0; d < s->ndim - 1; d++)
        rows *= s->shape[d];
    return vv_reshape(x, 2, (const int64_t[]){rows, s->shape[s->ndim - 1]});
}

/* [rows, N] with the leading dimensions of x. */
static vv_node *with_leading(vv_node *rows, const vv_node *x)
{
    if (!rows)
        return NULL;
    const vvi_shape *s = &x->out[0];
    int64_t shape[VV_MAX_DIMS];
    memcpy(shape, s->shape, sizeof(shape));
    shape[s->ndim - 1] = rows->out[0].shape[1];
    return vv_reshape(rows, s->ndim, shape);
}

vv_node *vv_matmul(vv_node *a, vv_node *b, bool trans_a, bool trans_b)
{
    if (!a || !b || !vvi_need_float("matmul", a) || !need_same_dtype("matmul", "the other", a, b))
        return NULL;
    if (a->out[0].ndim < 2 || b->out[0].ndim < 2)
        return fail_shapes("both need two dimensions or more; add one with vv_reshape", a, b,
                           trans_a, trans_b);
    /* A batch of matrices times one matrix is one product of all rows, forward and backward. */
    const vvi_shape *sa = &a->out[0];
    const bool one_product = sa->ndim > 2 && b->out[0].ndim == 2 && !trans_a &&
                             sa->shape[sa->ndim - 1] == b->out[0].shape[trans_b];
    if (!one_product)
        return new_matmul(a, b, NULL, trans_a, trans_b);
    vv_node *rows = as_rows(a);
    return rows ? with_leading(new_matmul(rows, b, NULL, false, trans_b), a) : NULL;
}

vv_node *vv_linear(vv_node *x, vv_node *weight, vv_node *bias)
{
    if (!x || !weight || !vvi_need_float("linear", x) ||
        !vvi_need_dims("linear", "weight", weight, 2) ||
        !need_same_dtype("linear", "the weight", x, weight))
        return NULL;
    const vvi_shape *s = &x->out[0], *w = &weight->out[0];
    char text[128];
    if (s->ndim < 1 || s->shape[s->ndim - 1] != w->shape[1])
        return vvi_node_fail(
            x->graph, VV_ESHAPE, "linear: x %s must end in %lld, the weight's inputs",
            vv_shape_text(s->ndim, s->shape, text, sizeof(text)), (long long)w->shape[1]);
    if (bias) {
        if (!vvi_need_dims("linear", "bias", bias, 1) ||
            !need_same_dtype("linear", "the bias", x, bias))
            return NULL;
        if (bias->out[0].shape[0] != w->shape[0])
            return vvi_node_fail(x->graph, VV_ESHAPE,
                                 "linear: bias has %lld elements, the weight %lld outputs",
                                 (long long)bias->out[0].shape[0], (long long)w->shape[0]);
    }
    vv_node *rows = as_rows(x);
    return rows ? with_leading(new_matmul(rows, weight, bias, false, true), x) : NULL;
}

/* With A' and B' the operands as used, Y = A' B': dA' = dY B'^T, dB' = A'^T dY. */
void vvi_grad_matmul(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    vv_node *a = node->in[0], *b = node->in[1], *dy = dout[0];
    const bool ta = node->attr.matmul.trans_a, tb = node->attr.matmul.trans_b;
    if (!dy)
        return;
    if (need[0]) {
        vv_node *da = ta ? vv_matmul(b, dy, tb, true) : vv_matmul(dy, b, false, !tb);
        din[0] = vvi_sum_to(da, a->out[0].ndim, a->out[0].shape);
    }
    if (need[1]) {
        vv_node *db = tb ? vv_matmul(dy, a, true, ta) : vv_matmul(a, dy, !ta, false);
        din[1] = vvi_sum_to(db, b->out[0].ndim, b->out[0].shape);
    }
    if (node->n_in > 2 && need[2] && node->in[2])
        din[2] = vvi_sum_to(dy, 1, node->in[2]->out[0].shape);
}
