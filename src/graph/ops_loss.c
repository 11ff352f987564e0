/* ops_loss.c - softmax, losses, and their gradients. */
#include "graph/node.h"

#include <math.h>

static bool same_shape(const vvi_shape *a, int ndim, const int64_t *shape)
{
    if (a->ndim != ndim)
        return false;
    for (int i = 0; i < ndim; i++) {
        if (a->shape[i] != shape[i])
            return false;
    }
    return true;
}

/* Float, and with a last axis of at least one element. */
static bool check_rows(const char *op, vv_node *x)
{
    if (!vvi_need_float(op, x))
        return false;
    if (x->out[0].ndim >= 1 && x->out[0].shape[x->out[0].ndim - 1] >= 1)
        return true;
    char text[96];
    vvi_node_fail(x->graph, VV_ESHAPE, "%s: %s has no classes in its last axis", op,
                  vv_shape_text(x->out[0].ndim, x->out[0].shape, text, sizeof text));
    return false;
}

static vv_node *cast_to(vv_node *x, vv_dtype dtype)
{
    return x && x->out[0].dtype != dtype ? vv_cast(x, dtype) : x;
}

/* ---- softmax ---- */

static vv_node *softmax(const char *op, vv_node *x, bool log)
{
    if (!x || !check_rows(op, x))
        return NULL;
    vv_attr attr = {.raw = {0}};
    attr.softmax.log = log;
    return vvi_node_new(x->graph, VV_OP_SOFTMAX, &attr, x->out[0].dtype, x->out[0].ndim,
                        x->out[0].shape, &x, 1, 1);
}

vv_node *vv_softmax(vv_node *x)
{
    return softmax("softmax", x, false);
}

vv_node *vv_log_softmax(vv_node *x)
{
    return softmax("log_softmax", x, true);
}

void vvi_grad_softmax(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!dout[0] || !need[0])
        return;
    vv_node *const operands[2] = {dout[0], node};
    din[0] = vvi_node_new(node->graph, VV_OP_SOFTMAX_GRAD, &node->attr, node->out[0].dtype,
                          node->out[0].ndim, node->out[0].shape, operands, 2, 2);
}

/* ---- cross-entropy ---- */

static bool check_target(vv_node *logits, vv_node *target)
{
    static const char op[] = "cross_entropy";
    const vvi_shape *x = &logits->out[0], *t = &target->out[0];
    const bool soft = vv_dtype_is_float(t->dtype);
    char have[96], want[96];
    if (!soft && t->dtype != VV_I32 && t->dtype != VV_I64) {
        vvi_node_fail(logits->graph, VV_ETYPE,
                      "%s: target is %s, must be i32 or i64 (class) or float (distribution)", op,
                      vv_dtype_name(t->dtype));
        return false;
    }
    const int ndim = soft ? x->ndim : x->ndim - 1;
    if (same_shape(t, ndim, x->shape))
        return true;
    vvi_node_fail(logits->graph, VV_ESHAPE, "%s: target has shape %s, expected %s for %s targets",
                  op, vv_shape_text(t->ndim, t->shape, have, sizeof have),
                  vv_shape_text(ndim, x->shape, want, sizeof want), soft ? "soft" : "class");
    return false;
}

static bool check_class_weights(vv_node *logits, vv_node *weights)
{
    static const char op[] = "cross_entropy";
    const vvi_shape *w = &weights->out[0];
    const int64_t classes = logits->out[0].shape[logits->out[0].ndim - 1];
    if (w->ndim != 1 || w->shape[0] != classes) {
        char text[96];
        vvi_node_fail(logits->graph, VV_ESHAPE, "%s: class_weights has shape %s, expected [%lld]",
                      op, vv_shape_text(w->ndim, w->shape, text, sizeof text), (long long)classes);
        return false;
    }
    if (w->dtype != VV_F32 && !(w->dtype == VV_F64 && logits->out[0].dtype == VV_F64)) {
        vvi_node_fail(logits->graph, VV_ETYPE, "%s: class_weights is %s, must be f32; cast it", op,
                      vv_dtype_name(w->dtype));
        return false;
    }
    return true;
}

bool vvi_entropy_attr(const char *op, vv_graph *g, const vv_entropy_opts *opts, vv_attr *attr)
{
    const vv_entropy_opts defaults = VV_ENTROPY_DEFAULTS, *o = opts ? opts : &defaults;
    *attr = (vv_attr){.raw = {0}};
    attr->cross_entropy.ignore_index = o->ignore_index;
    attr->cross_entropy.z_loss = o->z_loss;
    attr->cross_entropy.softcap = o->softcap;
    if (o->z_loss >= 0.0 && isfinite(o->z_loss) && o->softcap >= 0.0 && isfinite(o->softcap))
        return true;
    vvi_node_fail(g, VV_EINVAL, "%s: z_loss is %g and softcap %g; neither may be negative", op,
                  o->z_loss, o->softcap);
    return false;
}

vv_node *vv_cross_entropy_with(vv_node *logits, vv_node *target, vv_node *class_weights,
                               const vv_entropy_opts *opts)
{
    static const char op[] = "cross_entropy";
    vv_attr attr;
    if (!logits || !target || !check_rows(op, logits) || !check_target(logits, target) ||
        (class_weights && !check_class_weights(logits, class_weights)) ||
        !vvi_entropy_attr(op, logits->graph, opts, &attr))
        return NULL;
    if (attr.cross_entropy.softcap > 0.0)
        logits = vv_softcap(logits, attr.cross_entropy.softcap);
    if (!logits)
        return NULL;
    attr.cross_entropy.softcap = 0.0;
    vv_node *const operands[3] = {logits, target, class_weights};
    const vv_dtype dtype = logits->out[0].dtype == VV_F64 ? VV_F64 : VV_F32;
    return vvi_node_new(logits->graph, VV_OP_CROSS_ENTROPY, &attr, dtype, logits->out[0].ndim - 1,
                        logits->out[0].shape, operands, class_weights ? 3 : 2, 2);
}

vv_node *vv_cross_entropy(vv_node *logits, vv_node *target, vv_node *class_weights,
                          int64_t ignore_index)
{
    const vv_entropy_opts opts = {.ignore_index = ignore_index};
    return vv_cross_entropy_with(logits, target, class_weights, &opts);
}

/* d loss / d target_k = -w_k log p_k. */
static vv_node *soft_target_grad(vv_node *node, vv_node *dloss)
{
    vv_node *logits = node->in[0], *target = node->in[1];
    vv_node *weights = node->n_in > 2 ? node->in[2] : NULL;
    const vv_dtype dtype = node->out[0].dtype;
    int64_t column[VV_MAX_DIMS];
    const int ndim = logits->out[0].ndim;
    for (int i = 0; i < ndim; i++)
        column[i] = i + 1 < ndim ? logits->out[0].shape[i] : 1;
    vv_node *grad = vv_neg(vv_log_softmax(cast_to(logits, dtype)));
    if (weights)
        grad = vv_mul(grad, cast_to(weights, dtype));
    grad = vv_mul(grad, vv_reshape(dloss, ndim, column));
    return cast_to(grad, target->out[0].dtype);
}

void vvi_grad_cross_entropy(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!dout[0])
        return;
    vv_node *logits = node->in[0], *target = node->in[1];
    vv_node *const operands[4] = {dout[0], logits, target, node->n_in > 2 ? node->in[2] : NULL};
    if (need[0])
        din[0] = vvi_node_new(node->graph, VV_OP_CROSS_ENTROPY_GRAD, &node->attr,
                              logits->out[0].dtype, logits->out[0].ndim, logits->out[0].shape,
                              operands, operands[3] ? 4 : 3, 3);
    if (need[1] && vv_dtype_is_float(target->out[0].dtype))
        din[1] = soft_target_grad(node, dout[0]);
}

/* ---- element-wise losses ---- */

/* Broadcasting a target would silently average the wrong pairs ([N,1] against [N]), so it may not.
 */
static bool check_same(const char *op, vv_node *x, vv_node *target)
{
    if (!vvi_need_float(op, x))
        return false;
    if (same_shape(&target->out[0], x->out[0].ndim, x->out[0].shape))
        return true;
    char a[96], b[96];
    vvi_node_fail(x->graph, VV_ESHAPE, "%s: x has shape %s, target has %s; they must be equal", op,
                  vv_shape_text(x->out[0].ndim, x->out[0].shape, a, sizeof a),
                  vv_shape_text(target->out[0].ndim, target->out[0].shape, b, sizeof b));
    return false;
}

/* -t log s(x) - (1 - t) log(1 - s(x)) = softplus(x) - x t, and with the first term weighted by p:
   (1 - t) x + (1 + (p - 1) t) softplus(-x). softplus(x) = max(x,0) + log(1 + exp(-|x|)) never
   overflows, and as one op it has the right slope 1/2 at x = 0. */
vv_node *vv_bce_with_logits(vv_node *x, vv_node *target, vv_node *pos_weight)
{
    static const char op[] = "bce_with_logits";
    if (!x || !target || !check_same(op, x, target))
        return NULL;
    target = cast_to(target, x->out[0].dtype);
    if (!pos_weight)
        return vv_sub(vv_softplus(x), vv_mul(x, target));
    int ndim = 0;
    int64_t shape[VV_MAX_DIMS];
    if (!vvi_broadcast_shape(&ndim, shape, x, pos_weight) || !same_shape(&x->out[0], ndim, shape)) {
        char a[96], b[96];
        return vvi_node_fail(
            x->graph, VV_ESHAPE, "%s: pos_weight %s does not fit x %s", op,
            vv_shape_text(pos_weight->out[0].ndim, pos_weight->out[0].shape, a, sizeof a),
            vv_shape_text(x->out[0].ndim, x->out[0].shape, b, sizeof b));
    }
    pos_weight = cast_to(pos_weight, x->out[0].dtype);
    vv_node *weight = vv_affine(vv_mul(target, vv_affine(pos_weight, 1.0, -1.0)), 1.0, 1.0);
    vv_node *negative = vv_mul(vv_affine(target, -1.0, 1.0), x);
    return vv_add(negative, vv_mul(weight, vv_softplus(vv_neg(x))));
}

vv_node *vv_squared_error(vv_node *x, vv_node *target)
{
    if (!x || !target || !check_same("squared_error", x, target))
        return NULL;
    return vv_square(vv_sub(x, cast_to(target, x->out[0].dtype)));
}

/* With a = |d| and m = min(a, beta): m (a - m / 2) / beta. */
vv_node *vv_smooth_l1(vv_node *x, vv_node *target, double beta)
{
    if (!x || !target || !check_same("smooth_l1", x, target))
        return NULL;
    if (!(beta > 0.0 && isfinite(beta)))
        return vvi_node_fail(x->graph, VV_EINVAL, "smooth_l1: beta %g must be positive", beta);
    vv_node *a = vv_abs(vv_sub(x, cast_to(target, x->out[0].dtype)));
    vv_node *m = vv_clamp(a, 0.0, beta);
    return vv_mul(vv_affine(m, 1.0 / beta, 0.0), vv_sub(a, vv_affine(m, 0.5, 0.0)));
}
