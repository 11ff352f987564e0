/* optim_rmsprop.c - steps divided by the root of the mean squared gradient (Tieleman & Hinton,
 * Coursera lecture 6.5, 2012), with momentum, and centred on request (Graves, arXiv 1308.0850). */
#include <math.h>
#include <stddef.h>

#include "optim/optim_kernels.h"

typedef struct rms_numbers {
    float alpha, rest, l2, eps, mu, lr; /* rest = 1 - alpha */
} rms_numbers;

/* v <- alpha v + (1 - alpha) g^2;  b <- mu b + g / (sqrt(v) + eps);  w <- w - lr b. */
VVI_CLONES
static void rms_plain(float *restrict w, const float *restrict g, float *restrict v,
                      float *restrict b, int64_t count, const rms_numbers *numbers)
{
    const rms_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        float d = g[i] + n.l2 * w[i];
        float square = n.alpha * v[i] + n.rest * d * d;
        float step = d / (sqrtf(square) + n.eps);
        v[i] = square;
        if (b)
            step = b[i] = n.mu * b[i] + step;
        w[i] -= n.lr * step;
    }
}

/* The same with v - a^2 in place of v, a the average gradient. */
VVI_CLONES
static void rms_centred(float *restrict w, const float *restrict g, float *restrict v,
                        float *restrict b, float *restrict a, int64_t count,
                        const rms_numbers *numbers)
{
    const rms_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        float d = g[i] + n.l2 * w[i];
        float square = n.alpha * v[i] + n.rest * d * d;
        float mean = a[i] + n.rest * (d - a[i]);
        float spread = square - mean * mean;
        float step = d / (sqrtf(spread > 0.0f ? spread : 0.0f) + n.eps);
        v[i] = square;
        a[i] = mean;
        if (b)
            step = b[i] = n.mu * b[i] + step;
        w[i] -= n.lr * step;
    }
}

static void update(const void *opts, double lr, double initial_lr, const vv_optimizer_slot *slot,
                   int64_t first, int64_t last)
{
    const vv_rmsprop_opts *o = opts;
    (void)initial_lr;
    const rms_numbers n = {.alpha = (float)o->alpha,
                           .rest = (float)(1.0 - o->alpha),
                           .l2 = (float)o->weight_decay,
                           .eps = (float)o->eps,
                           .mu = (float)o->momentum,
                           .lr = (float)lr};
    float *w = slot->value + first, *v = slot->state[0] + first;
    float *b = slot->state[1] ? slot->state[1] + first : NULL;
    if (o->centered)
        rms_centred(w, slot->grad + first, v, b, slot->state[2] + first, last - first, &n);
    else
        rms_plain(w, slot->grad + first, v, b, last - first, &n);
}

static bool uses_state(const void *opts, int i)
{
    const vv_rmsprop_opts *o = opts;
    return i == 0 || (i == 1 ? o->momentum != 0.0 : o->centered);
}

static vv_status check(const void *opts)
{
    const vv_rmsprop_opts *o = opts;
    if (o->alpha >= 1.0)
        return vv_fail(VV_EINVAL, "alpha %g must be below 1, or nothing new is ever averaged in",
                       o->alpha);
    return VV_OK;
}

#define ROW(member, kind, fallback, max, help) \
    VVI_OPTIM_ROW(vv_rmsprop_opts, member, kind, fallback, max, help)
static const vv_field fields[] = {
    ROW(lr, VV_FIELD_FLOAT, "0.01", 1e6, "initial learning rate"),
    ROW(alpha, VV_FIELD_FLOAT, "0.99", 1, "share kept of the mean squared gradient, below 1"),
    ROW(eps, VV_FIELD_FLOAT, "1e-8", 1, "added to the denominator"),
    ROW(weight_decay, VV_FIELD_FLOAT, "0", 1e6, "times the weight, added to the gradient"),
    ROW(momentum, VV_FIELD_FLOAT, "0", 1, "share of the last step that is kept"),
    ROW(centered, VV_FIELD_BOOL, "false", 0, "divide by the root of the variance instead"),
    VVI_OPTIM_ROW_END,
};
static const char *const state_names[] = {"square_avg", "momentum_buffer", "grad_avg", NULL};

const vv_optimizer_desc vvi_rmsprop = {
    .desc = {.kind = "optimizer",
             .name = "rmsprop",
             .summary = "Gradient divided by the root of its mean square, with momentum.",
             .cite = "Tieleman & Hinton, Coursera lecture 6.5, 2012",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_rmsprop_opts)},
    .state_count = 3,
    .state_names = state_names,
    .update = update,
    .uses_state = uses_state,
    .check = check,
};
