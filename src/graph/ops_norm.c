/* ops_norm.c - batch, layer, RMS and group normalisation, and their gradients.
 *
 * Statistics, gamma and beta are f32 (f64 beside f64 data), also where x is bf16: an average of
 * many bf16 numbers kept in bf16 would lose the running averages and small gains. */
#include "graph/node.h"

static vv_dtype stat_dtype(const vv_node *x)
{
    return x->out[0].dtype == VV_F64 ? VV_F64 : VV_F32;
}

static int64_t channels_of(const vv_node *x)
{
    return x->out[0].shape[x->out[0].ndim - 1];
}

static bool check_data(const char *op, vv_node *x, int lowest_ndim)
{
    if (!vvi_need_float(op, x))
        return false;
    char text[96];
    vv_shape_text(x->out[0].ndim, x->out[0].shape, text, sizeof text);
    if (x->out[0].ndim < lowest_ndim) {
        vvi_node_fail(x->graph, VV_ESHAPE, "%s: x %s needs at least %d dimensions", op, text,
                      lowest_ndim);
        return false;
    }
    if (channels_of(x) < 1) {
        vvi_node_fail(x->graph, VV_ESHAPE, "%s: x %s has no channels", op, text);
        return false;
    }
    return true;
}

static bool check_vector(const char *op, const char *what, const vv_node *x, const vv_node *vector)
{
    const vvi_shape *v = &vector->out[0];
    if (v->ndim != 1 || v->shape[0] != channels_of(x)) {
        char text[96];
        vvi_node_fail(x->graph, VV_ESHAPE, "%s: %s has shape %s, x has %lld channels", op, what,
                      vv_shape_text(v->ndim, v->shape, text, sizeof text),
                      (long long)channels_of(x));
        return false;
    }
    if (v->dtype != stat_dtype(x)) {
        vvi_node_fail(x->graph, VV_ETYPE, "%s: %s is %s, must be %s beside x in %s; cast it", op,
                      what, vv_dtype_name(v->dtype), vv_dtype_name(stat_dtype(x)),
                      vv_dtype_name(x->out[0].dtype));
        return false;
    }
    return true;
}

/* Checks *vector, or makes it: so that kernels always have gamma and beta. */
static bool need_vector(const char *op, const char *what, vv_node *x, double value,
                        vv_node **vector)
{
    if (*vector)
        return check_vector(op, what, x, *vector);
    const int64_t shape[1] = {channels_of(x)};
    *vector = vv_full(x->graph, stat_dtype(x), 1, shape, value);
    return *vector != NULL;
}

static bool check_eps(const char *op, vv_node *x, double eps)
{
    if (eps >= 0.0)
        return true;
    vvi_node_fail(x->graph, VV_EINVAL, "%s: eps is %g, must not be negative", op, eps);
    return false;
}

/* The node, with its two results of statistics. */
static vv_node *make_norm(vv_op op, double eps, int64_t groups, vv_node *x, vv_node *gamma,
                          vv_node *beta, int stat_ndim, const int64_t *stat_shape, vv_node **first,
                          vv_node **second)
{
    vv_attr attr = {.raw = {0}};
    attr.norm.eps = eps;
    attr.norm.groups = groups;
    vv_node *const operands[3] = {x, gamma, beta};
    vv_node *y = vvi_node_new(x->graph, op, &attr, x->out[0].dtype, x->out[0].ndim, x->out[0].shape,
                              operands, 3, 3);
    if (!y)
        return NULL;
    vv_node *a = vvi_node_add_out(y, stat_dtype(x), stat_ndim, stat_shape);
    vv_node *b = vvi_node_add_out(y, stat_dtype(x), stat_ndim, stat_shape);
    if (!a || !b)
        return NULL;
    if (first)
        *first = a;
    if (second)
        *second = b;
    return y;
}

vv_node *vv_batch_norm(vv_node *x, vv_node *gamma, vv_node *beta, double eps, vv_node **mean,
                       vv_node **var)
{
    static const char op[] = "batch_norm";
    if (mean)
        *mean = NULL;
    if (var)
        *var = NULL;
    if (!x || !check_data(op, x, 2) || !check_eps(op, x, eps) ||
        !need_vector(op, "gamma", x, 1.0, &gamma) || !need_vector(op, "beta", x, 0.0, &beta))
        return NULL;
    if (vv_node_count(x) == 0)
        return vvi_node_fail(x->graph, VV_ESHAPE, "%s: x is empty, there is nothing to average",
                             op);
    const int64_t shape[1] = {channels_of(x)};
    return make_norm(VV_OP_BATCH_NORM, eps, 0, x, gamma, beta, 1, shape, mean, var);
}

vv_node *vv_batch_norm_eval(vv_node *x, vv_node *gamma, vv_node *beta, vv_node *mean, vv_node *var,
                            double eps)
{
    static const char op[] = "batch_norm";
    if (!x || !mean || !var || !check_data(op, x, 2) || !check_eps(op, x, eps) ||
        !check_vector(op, "mean", x, mean) || !check_vector(op, "var", x, var) ||
        (gamma && !check_vector(op, "gamma", x, gamma)) ||
        (beta && !check_vector(op, "beta", x, beta)))
        return NULL;
    vv_node *scale = vv_rsqrt(vv_affine(var, 1.0, eps));
    if (gamma)
        scale = vv_mul(gamma, scale);
    vv_node *shift = vv_mul(mean, scale);
    shift = beta ? vv_sub(beta, shift) : vv_neg(shift);
    const vv_dtype dtype = x->out[0].dtype;
    if (dtype != stat_dtype(x)) {
        scale = vv_cast(scale, dtype);
        shift = vv_cast(shift, dtype);
    }
    return vv_add(vv_mul(x, scale), shift);
}

vv_node *vv_layer_norm(vv_node *x, vv_node *gamma, vv_node *beta, double eps)
{
    static const char op[] = "layer_norm";
    if (!x || !check_data(op, x, 1) || !check_eps(op, x, eps) ||
        !need_vector(op, "gamma", x, 1.0, &gamma) || !need_vector(op, "beta", x, 0.0, &beta))
        return NULL;
    return make_norm(VV_OP_LAYER_NORM, eps, 1, x, gamma, beta, x->out[0].ndim - 1, x->out[0].shape,
                     NULL, NULL);
}

vv_node *vv_rms_norm(vv_node *x, vv_node *gamma, double eps)
{
    static const char op[] = "rms_norm";
    if (!x || !check_data(op, x, 1) || !check_eps(op, x, eps) ||
        !need_vector(op, "gamma", x, 1.0, &gamma))
        return NULL;
    vv_attr attr = {.raw = {0}};
    attr.norm.eps = eps;
    vv_node *const operands[2] = {x, gamma};
    vv_node *y = vvi_node_new(x->graph, VV_OP_RMS_NORM, &attr, x->out[0].dtype, x->out[0].ndim,
                              x->out[0].shape, operands, 2, 2);
    const bool fine = y && vvi_node_add_out(y, stat_dtype(x), x->out[0].ndim - 1, x->out[0].shape);
    return fine ? y : NULL;
}

vv_node *vv_group_norm(vv_node *x, vv_node *gamma, vv_node *beta, int64_t groups, double eps)
{
    static const char op[] = "group_norm";
    if (!x || !check_data(op, x, 2) || !check_eps(op, x, eps))
        return NULL;
    if (groups < 1 || channels_of(x) % groups)
        return vvi_node_fail(x->graph, VV_ESHAPE,
                             "%s: %lld channels do not divide into %lld groups", op,
                             (long long)channels_of(x), (long long)groups);
    if (!need_vector(op, "gamma", x, 1.0, &gamma) || !need_vector(op, "beta", x, 0.0, &beta))
        return NULL;
    const int64_t shape[2] = {x->out[0].shape[0], groups};
    return make_norm(VV_OP_GROUP_NORM, eps, groups, x, gamma, beta, 2, shape, NULL, NULL);
}

/* The gradient node with results dx, dgamma, dbeta; operands are dy, x, gamma, two statistics, y?.
 */
static vv_node *make_norm_grad(vv_op op, vv_node *node, vv_node *dy, vv_node *y, const bool *need,
                               vv_node **din)
{
    vv_node *x = node->in[0], *gamma = node->in[1];
    vv_node *const operands[6] = {dy, x, gamma, vvi_node_pick(node, 1), vvi_node_pick(node, 2), y};
    const int count = y ? 6 : 5;
    vv_node *dx = vvi_node_new(node->graph, op, &node->attr, x->out[0].dtype, x->out[0].ndim,
                               x->out[0].shape, operands, count, count);
    if (!dx)
        return NULL;
    vv_node *dgamma = vvi_node_add_out(dx, gamma->out[0].dtype, 1, gamma->out[0].shape);
    vv_node *dbeta = vvi_node_add_out(dx, gamma->out[0].dtype, 1, gamma->out[0].shape);
    if (need[0])
        din[0] = dx;
    if (need[1])
        din[1] = dgamma;
    if (need[2])
        din[2] = dbeta;
    return dx;
}

void vvi_grad_batch_norm(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!dout[0])
        return;
    const bool relu = node->attr.norm.relu;
    const bool residual = node->attr.norm.residual && node->n_in > 3 && need[3];
    vv_node *dx =
        make_norm_grad(VV_OP_BATCH_NORM_GRAD, node, dout[0], relu ? node : NULL, need, din);
    if (!dx || !residual)
        return;
    const vvi_shape *out = &node->out[0];
    din[3] = relu ? vvi_node_add_out(dx, out->dtype, out->ndim, out->shape) : dout[0];
}

void vvi_grad_layer_norm(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (dout[0])
        make_norm_grad(VV_OP_LAYER_NORM_GRAD, node, dout[0], NULL, need, din);
}

void vvi_grad_group_norm(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (dout[0])
        make_norm_grad(VV_OP_GROUP_NORM_GRAD, node, dout[0], NULL, need, din);
}

void vvi_grad_rms_norm(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    if (!dout[0])
        return;
    const vvi_shape *x = &node->in[0]->out[0], *gamma = &node->in[1]->out[0];
    vv_node *const operands[4] = {dout[0], node->in[0], node->in[1], vvi_node_pick(node, 1)};
    vv_node *dx = vvi_node_new(node->graph, VV_OP_RMS_NORM_GRAD, &node->attr, x->dtype, x->ndim,
                               x->shape, operands, 4, 4);
    vv_node *dgamma = dx ? vvi_node_add_out(dx, gamma->dtype, 1, gamma->shape) : NULL;
    if (need[0])
        din[0] = dx;
    if (need[1])
        din[1] = dgamma;
}
