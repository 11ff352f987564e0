/* ops_sequence.c - rotary position embedding and running sums: shape rules and gradients. */
#include "graph/node.h"

/* ---- rotary ---- */

static vv_node *rotary(vv_node *x, vv_node *frequencies, int64_t offset, bool inverse)
{
    vv_attr attr = {.raw = {0}};
    attr.rotary.offset = offset;
    attr.rotary.inverse = inverse;
    vv_node *const operands[2] = {x, frequencies};
    return vvi_node_new(x->graph, VV_OP_ROTARY, &attr, x->out[0].dtype, 4, x->out[0].shape,
                        operands, 2, 2);
}

vv_node *vv_rotary(vv_node *x, vv_node *frequencies, int64_t offset)
{
    static const char op[] = "rotary";
    if (!x || !frequencies || !vvi_need_float(op, x) || !vvi_need_dims(op, "x", x, 4))
        return NULL;
    const vvi_shape *f = &frequencies->out[0];
    const int64_t width = x->out[0].shape[3];
    char text[96];
    if (width % 2 != 0)
        return vvi_node_fail(x->graph, VV_ESHAPE,
                             "%s: heads of x are %lld wide, pairs need an even number", op,
                             (long long)width);
    if (f->ndim != 1 || f->shape[0] != width / 2)
        return vvi_node_fail(x->graph, VV_ESHAPE,
                             "%s: frequencies has shape %s, expected [%lld] for heads %lld wide",
                             op, vv_shape_text(f->ndim, f->shape, text, sizeof text),
                             (long long)(width / 2), (long long)width);
    if (f->dtype != VV_F32)
        return vvi_node_fail(x->graph, VV_ETYPE, "%s: frequencies is %s, must be f32", op,
                             vv_dtype_name(f->dtype));
    return rotary(x, frequencies, offset, false);
}

/* A turn's transpose is the turn back. */
void vvi_grad_rotary(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (dout[0] && need[0])
        din[0] = rotary(dout[0], node->in[1], node->attr.rotary.offset,
                        !node->attr.rotary.inverse);
}

/* ---- running sums ---- */

static vv_node *cumsum(vv_node *x, bool exclusive, bool reverse)
{
    vv_attr attr = {.raw = {0}};
    attr.cumsum.exclusive = exclusive;
    attr.cumsum.reverse = reverse;
    return vvi_node_new(x->graph, VV_OP_CUMSUM, &attr, x->out[0].dtype, x->out[0].ndim,
                        x->out[0].shape, &x, 1, 1);
}

vv_node *vv_cumsum(vv_node *x, bool exclusive)
{
    static const char op[] = "cumsum";
    if (!x)
        return NULL;
    const vv_dtype dtype = x->out[0].dtype;
    if (!vv_dtype_is_float(dtype) && dtype != VV_I32 && dtype != VV_I64)
        return vvi_node_fail(x->graph, VV_ETYPE, "%s: not defined for %s; cast it first", op,
                             vv_dtype_name(dtype));
    if (x->out[0].ndim < 1)
        return vvi_node_fail(x->graph, VV_ESHAPE, "%s: x has no axis to sum along", op);
    return cumsum(x, exclusive, false);
}

/* y_t sums x_s over s <= t, so dx_s sums dy_t over t >= s. */
void vvi_grad_cumsum(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (dout[0] && need[0])
        din[0] = cumsum(dout[0], node->attr.cumsum.exclusive, !node->attr.cumsum.reverse);
}
