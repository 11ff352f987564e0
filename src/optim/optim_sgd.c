/* optim_sgd.c - stochastic gradient descent with momentum; decay in the gradient, or decoupled
 * (Loshchilov & Hutter, arXiv 1711.05101). */
#include <stddef.h>

#include "optim/optim_kernels.h"

/* w <- keep w - lr d, with d = g + l2 w. */
VVI_CLONES
static void sgd_plain(float *restrict w, const float *restrict g, int64_t count, float lr, float l2,
                      float keep)
{
    for (int64_t i = 0; i < count; i++)
        w[i] = w[i] * keep - lr * (g[i] + l2 * w[i]);
}

/* v <- mu v + gain d;  w <- keep w - lr (use_d d + use_v v). Nesterov: use_d 1, use_v momentum;
   otherwise 0 and 1. */
VVI_CLONES
static void sgd_momentum(float *restrict w, const float *restrict g, float *restrict v,
                         int64_t count, float lr, float l2, float keep, float mu, float gain,
                         float use_d, float use_v)
{
    for (int64_t i = 0; i < count; i++) {
        float d = g[i] + l2 * w[i];
        float velocity = mu * v[i] + gain * d;
        v[i] = velocity;
        w[i] = w[i] * keep - lr * (use_d * d + use_v * velocity);
    }
}

static void step(const vv_sgd_opts *o, double lr, double l2, double keep,
                 const vv_optimizer_slot *slot, int64_t first, int64_t last)
{
    float *w = slot->value + first;
    const float *g = slot->grad + first;
    int64_t count = last - first;
    if (o->momentum == 0.0) {
        sgd_plain(w, g, count, (float)lr, (float)l2, (float)keep);
        return;
    }
    /* The first velocity is the gradient itself, whatever the dampening. */
    bool begins = slot->step == 1;
    sgd_momentum(w, g, slot->state[0] + first, count, (float)lr, (float)l2, (float)keep,
                 begins ? 0.0f : (float)o->momentum, begins ? 1.0f : (float)(1.0 - o->dampening),
                 o->nesterov ? 1.0f : 0.0f, o->nesterov ? (float)o->momentum : 1.0f);
}

static void sgd_update(const void *opts, double lr, double initial_lr,
                       const vv_optimizer_slot *slot, int64_t first, int64_t last)
{
    const vv_sgd_opts *o = opts;
    (void)initial_lr;
    step(o, lr, o->weight_decay, 1.0, slot, first, last);
}

static void sgdw_update(const void *opts, double lr, double initial_lr,
                        const vv_optimizer_slot *slot, int64_t first, int64_t last)
{
    const vv_sgd_opts *o = opts;
    double share = initial_lr == 0.0 ? 1.0 : lr / initial_lr;
    step(o, lr, 0.0, 1.0 - share * o->weight_decay, slot, first, last);
}

static bool uses_state(const void *opts, int i)
{
    (void)i;
    return ((const vv_sgd_opts *)opts)->momentum != 0.0;
}

static vv_status check(const void *opts)
{
    const vv_sgd_opts *o = opts;
    if (o->nesterov && (o->momentum <= 0.0 || o->dampening != 0.0))
        return vv_fail(
            VV_EINVAL,
            "nesterov needs momentum above 0 and dampening 0, not momentum %g and dampening "
            "%g: change one of the three",
            o->momentum, o->dampening);
    return VV_OK;
}

#define ROW(member, kind, fallback, max, help) \
    VVI_OPTIM_ROW(vv_sgd_opts, member, kind, fallback, max, help)
#define LR ROW(lr, VV_FIELD_FLOAT, "0.1", 1e6, "initial learning rate")
#define MOMENTUM ROW(momentum, VV_FIELD_FLOAT, "0", 1, "share of the last velocity that is kept")
#define DAMPENING \
    ROW(dampening, VV_FIELD_FLOAT, "0", 1, "share of the gradient kept out of the velocity")
#define DECAY(max, help) ROW(weight_decay, VV_FIELD_FLOAT, "0", max, help)
#define NESTEROV ROW(nesterov, VV_FIELD_BOOL, "false", 0, "look ahead along the velocity")

static const vv_field sgd_fields[] = {
    LR,       MOMENTUM,          DAMPENING, DECAY(1e6, "times the weight, added to the gradient"),
    NESTEROV, VVI_OPTIM_ROW_END,
};
static const vv_field sgdw_fields[] = {
    LR,        MOMENTUM,
    DAMPENING, DECAY(1, "share of the weight taken off each step at the initial learning rate"),
    NESTEROV,  VVI_OPTIM_ROW_END,
};
static const char *const state_names[] = {"momentum_buffer", NULL};

const vv_optimizer_desc vvi_sgd = {
    .desc = {.kind = "optimizer",
             .name = "sgd",
             .summary = "Gradient descent with momentum; weight decay is added to the gradient.",
             .cite = "Sutskever et al., ICML 2013",
             .domains = "any",
             .fields = sgd_fields,
             .opts_size = sizeof(vv_sgd_opts)},
    .state_count = 1,
    .state_names = state_names,
    .update = sgd_update,
    .uses_state = uses_state,
    .check = check,
};

const vv_optimizer_desc vvi_decoupled_sgdw = {
    .desc = {.kind = "optimizer",
             .name = "decoupled_sgdw",
             .summary =
                 "SGD whose weight decay follows the schedule but not the learning rate's size.",
             .cite = "Loshchilov & Hutter, arXiv 1711.05101",
             .domains = "any",
             .fields = sgdw_fields,
             .opts_size = sizeof(vv_sgd_opts)},
    .state_count = 1,
    .state_names = state_names,
    .update = sgdw_update,
    .uses_state = uses_state,
    .check = check,
};
