/* op_build_b.h - builders of convolution, pooling, norms and losses for tables of op_case. */
#ifndef OP_BUILD_B_H
#define OP_BUILD_B_H

#include "op_case.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SHAPE(n, ...) .ndim = (n), .shape = {__VA_ARGS__}

/* ---- convolution: cases carry their options ---- */

typedef struct conv_case {
    op_case base;
    vv_conv_opts opts;
} conv_case;

static inline vv_node *build_conv(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_conv2d(in[0], in[1], c->n_in > 2 ? in[2] : NULL, &((const conv_case *)c)->opts);
}

static inline vv_node *build_transposed(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_conv_transpose2d(in[0], in[1], c->n_in > 2 ? in[2] : NULL,
                               &((const conv_case *)c)->opts);
}

/* ---- pooling and sizes (arg = height, width, bilinear) ---- */

typedef struct pool_case {
    op_case base;
    vv_pool_opts opts;
} pool_case;

static inline vv_node *build_max_pool(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_max_pool2d(in[0], &((const pool_case *)c)->opts);
}

static inline vv_node *build_avg_pool(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_avg_pool2d(in[0], &((const pool_case *)c)->opts);
}

static inline vv_node *build_adaptive_max(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_adaptive_max_pool2d(in[0], (int64_t)c->arg[0], (int64_t)c->arg[1]);
}

static inline vv_node *build_adaptive_avg(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_adaptive_avg_pool2d(in[0], (int64_t)c->arg[0], (int64_t)c->arg[1]);
}

static inline vv_node *build_resize(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_resize(in[0], (int64_t)c->arg[0], (int64_t)c->arg[1],
                     c->arg[2] != 0.0 ? VV_RESIZE_BILINEAR : VV_RESIZE_NEAREST);
}

/* ---- normalisation ---- */

/* Statistics, gains and class weights are f32 beside bf16 data. */
static inline vv_node *as_stat(vv_node *vector, vv_node *x)
{
    const vv_dtype dtype = vv_node_dtype(x) == VV_F64 ? VV_F64 : VV_F32;
    return vv_node_dtype(vector) == dtype ? vector : vv_cast(vector, dtype);
}

/* Operands x, gamma?, beta?, residual?; arg = relu. */
static inline vv_node *build_batch_norm(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    vv_node *y = vv_batch_norm(in[0], c->n_in > 1 ? as_stat(in[1], in[0]) : NULL,
                               c->n_in > 2 ? as_stat(in[2], in[0]) : NULL, 1e-5, NULL, NULL);
    if (c->n_in > 3)
        y = vv_add(y, in[3]);
    return c->arg[0] != 0.0 ? vv_relu(y) : y;
}

/* arg = which of the two statistics. */
static inline vv_node *build_statistic(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    vv_node *mean = NULL, *var = NULL;
    vv_batch_norm(in[0], NULL, NULL, 1e-5, &mean, &var);
    return c->arg[0] != 0.0 ? var : mean;
}

static inline vv_node *build_batch_norm_eval(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    vv_node *stat[5] = {NULL};
    for (int i = 1; i < c->n_in; i++)
        stat[i] = as_stat(in[i], in[0]);
    return vv_batch_norm_eval(in[0], stat[3], stat[4], stat[1], stat[2], 1e-5);
}

static inline vv_node *build_layer_norm(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_layer_norm(in[0], c->n_in > 1 ? as_stat(in[1], in[0]) : NULL,
                         c->n_in > 2 ? as_stat(in[2], in[0]) : NULL, 1e-5);
}

/* arg = groups. */
static inline vv_node *build_group_norm(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_group_norm(in[0], c->n_in > 1 ? as_stat(in[1], in[0]) : NULL,
                         c->n_in > 2 ? as_stat(in[2], in[0]) : NULL, (int64_t)c->arg[0], 1e-5);
}

/* ---- softmax (arg = log) and losses (class -1 is ignored) ---- */

static inline vv_node *build_softmax(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return c->arg[0] != 0.0 ? vv_log_softmax(in[0]) : vv_softmax(in[0]);
}

static inline vv_node *build_cross_entropy(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_cross_entropy(in[0], in[1], c->n_in > 2 ? as_stat(in[2], in[0]) : NULL, -1);
}

static inline vv_node *build_bce(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_bce_with_logits(in[0], in[1], c->n_in > 2 ? in[2] : NULL);
}

static inline vv_node *build_squared_error(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    (void)c;
    return vv_squared_error(in[0], in[1]);
}

#endif
