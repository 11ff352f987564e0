/* ops_linear_loss.c - cross-entropy of a linear layer whose logits never exist at once. */
#include "graph/node.h"

static const char op_name[] = "linear_cross_entropy";

static bool check_matrix(const vv_node *x, const vv_node *weight)
{
    const vvi_shape *s = &x->out[0], *w = &weight->out[0];
    char a[96], b[96];
    if (s->ndim >= 1 && w->ndim == 2 && w->shape[0] >= 1 && s->shape[s->ndim - 1] == w->shape[1] &&
        s->dtype == w->dtype)
        return true;
    vvi_node_fail(x->graph, s->dtype == w->dtype ? VV_ESHAPE : VV_ETYPE,
                  "%s: x %s %s and weight %s %s do not fit; x must be [...,D] and the weight [V,D] "
                  "of the same type",
                  op_name, vv_dtype_name(s->dtype), vv_shape_text(s->ndim, s->shape, a, sizeof a),
                  vv_dtype_name(w->dtype), vv_shape_text(w->ndim, w->shape, b, sizeof b));
    return false;
}

static bool check_bias(const vv_node *weight, const vv_node *bias)
{
    const vvi_shape *w = &weight->out[0], *b = &bias->out[0];
    char text[96];
    if (b->ndim == 1 && b->shape[0] == w->shape[0] && b->dtype == w->dtype)
        return true;
    vvi_node_fail(weight->graph, VV_ESHAPE, "%s: bias is %s %s, expected %s [%lld]", op_name,
                  vv_dtype_name(b->dtype), vv_shape_text(b->ndim, b->shape, text, sizeof text),
                  vv_dtype_name(w->dtype), (long long)w->shape[0]);
    return false;
}

static bool check_target(const vv_node *x, const vv_node *target)
{
    const vvi_shape *s = &x->out[0], *t = &target->out[0];
    char have[96], want[96];
    bool fits = t->ndim == s->ndim - 1;
    for (int d = 0; fits && d < t->ndim; d++)
        fits = t->shape[d] == s->shape[d];
    if (fits && (t->dtype == VV_I32 || t->dtype == VV_I64))
        return true;
    vvi_node_fail(x->graph, fits ? VV_ETYPE : VV_ESHAPE,
                  "%s: target is %s %s, expected classes, i32 or i64 %s", op_name,
                  vv_dtype_name(t->dtype), vv_shape_text(t->ndim, t->shape, have, sizeof have),
                  vv_shape_text(s->ndim - 1, s->shape, want, sizeof want));
    return false;
}

vv_node *vv_linear_cross_entropy(vv_node *x, vv_node *weight, vv_node *bias, vv_node *target,
                                 const vv_entropy_opts *opts)
{
    vv_attr attr;
    if (!x || !weight || !target || !vvi_need_float(op_name, x) || !check_matrix(x, weight) ||
        (bias && !check_bias(weight, bias)) || !check_target(x, target) ||
        !vvi_entropy_attr(op_name, x->graph, opts, &attr))
        return NULL;
    const vvi_shape *s = &x->out[0];
    const vv_dtype dtype = s->dtype == VV_F64 ? VV_F64 : VV_F32;
    vv_node *const operands[4] = {x, weight, target, bias};
    vv_node *loss = vvi_node_new(x->graph, VV_OP_LINEAR_CROSS_ENTROPY, &attr, dtype, s->ndim - 1,
                                 s->shape, operands, bias ? 4 : 3, 3);
    return loss && vvi_node_add_out(loss, dtype, s->ndim - 1, s->shape) ? loss : NULL;
}

void vvi_grad_linear_cross_entropy(vv_node *node, vv_node *const *dout, const bool *need,
                                   vv_node **din)
{
    if (!dout[0])
        return;
    vv_node *bias = node->n_in > 3 ? node->in[3] : NULL;
    const vvi_shape *x = &node->in[0]->out[0], *w = &node->in[1]->out[0];
    vv_node *const operands[6] = {dout[0], node->in[0], node->in[1], node->in[2], bias,
                                  vvi_node_pick(node, 1)};
    vv_node *dx = vvi_node_new(node->graph, VV_OP_LINEAR_CROSS_ENTROPY_GRAD, &node->attr, x->dtype,
                               x->ndim, x->shape, operands, 6, 4);
    vv_node *dw = dx ? vvi_node_add_out(dx, w->dtype, 2, w->shape) : NULL;
    vv_node *db = dw && bias ? vvi_node_add_out(dx, bias->out[0].dtype, 1, w->shape) : NULL;
    if (need[0])
        din[0] = dx;
    if (need[1])
        din[1] = dw;
    if (bias && need[3])
        din[3] = db;
}
