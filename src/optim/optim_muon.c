/* optim_muon.c - Muon (K. Jordan et al., 2024): matrices step by their orthogonalised momentum,
 * what is no matrix by SGD or AdamW. The orthogonalisation is in muon_direction.c. */
#include <math.h>
#include <stddef.h>

#include "optim/muon_direction.h"
#include "optim/optim_kernels.h"

/* v <- mu v + g;  w <- keep w - rate d, d the direction computed from both. */
VVI_CLONES
static void step_matrix(float *restrict w, const float *restrict g, float *restrict v,
                        const float *restrict d, int64_t count, float mu, float keep, float rate)
{
    for (int64_t i = 0; i < count; i++) {
        v[i] = mu * v[i] + g[i];
        w[i] = w[i] * keep - rate * d[i];
    }
}

/* v <- mu v + d;  w <- w - lr (d + mu v), d = g + l2 w. */
VVI_CLONES
static void step_sgd(float *restrict w, const float *restrict g, float *restrict v, int64_t count,
                     float lr, float l2, float mu)
{
    for (int64_t i = 0; i < count; i++) {
        float d = g[i] + l2 * w[i];
        float velocity = mu * v[i] + d;
        v[i] = velocity;
        w[i] -= lr * (d + mu * velocity);
    }
}

typedef struct adam_numbers {
    float beta1, rest1, beta2, rest2, keep, rate, root, eps;
} adam_numbers;

VVI_CLONES
static void step_adamw(float *restrict w, const float *restrict g, float *restrict m,
                       float *restrict v, int64_t count, const adam_numbers *numbers)
{
    const adam_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        float mean = n.beta1 * m[i] + n.rest1 * g[i];
        float square = n.beta2 * v[i] + n.rest2 * g[i] * g[i];
        m[i] = mean;
        v[i] = square;
        w[i] = w[i] * n.keep - n.rate * mean / (sqrtf(square) * n.root + n.eps);
    }
}

static void fallback(const vv_muon_opts *o, double lr, const vv_optimizer_slot *slot, int64_t first,
                     int64_t last)
{
    float *w = slot->value + first, *m = slot->state[0] + first;
    const float *g = slot->grad + first;
    if (o->fallback == 0) {
        step_sgd(w, g, m, last - first, (float)lr, (float)o->fallback_weight_decay,
                 (float)o->fallback_momentum);
        return;
    }
    const double t = (double)slot->step;
    const adam_numbers n = {
        .beta1 = (float)o->beta1,
        .rest1 = (float)(1.0 - o->beta1),
        .beta2 = (float)o->beta2,
        .rest2 = (float)(1.0 - o->beta2),
        .keep = (float)(1.0 - lr * o->fallback_weight_decay),
        .rate = (float)(lr / (1.0 - pow(o->beta1, t))),
        .root = (float)(1.0 / sqrt(1.0 - pow(o->beta2, t))),
        .eps = (float)o->eps,
    };
    step_adamw(w, g, m, slot->state[1] + first, last - first, &n);
}

static void update(const void *opts, double lr, double initial_lr, const vv_optimizer_slot *slot,
                   int64_t first, int64_t last)
{
    const vv_muon_opts *o = opts;
    if (slot->role == VVI_MUON_MATRIX) {
        const double keep = slot->scale * (1.0 - lr * o->weight_decay);
        step_matrix(slot->value + first, slot->grad + first, slot->state[0] + first,
                    slot->direction + first, last - first, (float)o->momentum, (float)keep,
                    (float)lr);
        return;
    }
    /* The fallback's learning rate follows the same schedule. */
    const bool head = slot->role == VVI_MUON_HEAD && o->head_lr > 0.0;
    const double own = head ? o->head_lr : o->fallback_lr;
    fallback(o, initial_lr > 0.0 ? own * lr / initial_lr : own, slot, first, last);
}

static bool uses_state(const void *opts, int i)
{
    return i == 0 || ((const vv_muon_opts *)opts)->fallback == 1;
}

static vv_status check(const void *opts)
{
    const vv_muon_opts *o = opts;
    if (o->beta1 >= 1.0 || o->beta2 >= 1.0)
        return vv_fail(VV_EINVAL,
                       "beta1 %g and beta2 %g must be below 1, or nothing new is ever averaged in",
                       o->beta1, o->beta2);
    return VV_OK;
}

#define ROW(member, kind, fallback_text, low, high, names, help)                               \
    {                                                                                          \
#member, help, kind, offsetof(vv_muon_opts, member), fallback_text, low, high, names           \
    }
#define NUMBER(member, fallback_text, high, help) \
    ROW(member, VV_FIELD_FLOAT, fallback_text, 0, high, NULL, help)
static const char *const matrices[] = {"filters", "hidden", "all", NULL};
static const char *const precisions[] = {"fp32", "bf16", NULL};
static const char *const fallbacks[] = {"sgd", "adamw", NULL};

static const vv_field fields[] = {
    NUMBER(lr, "0.02", 1e6, "initial learning rate of matrices"),
    NUMBER(momentum, "0.95", 1, "share of the last velocity that is kept"),
    ROW(nesterov, VV_FIELD_BOOL, "true", 0, 0, NULL, "look ahead along the velocity"),
    ROW(ns_steps, VV_FIELD_INT, "5", 1, 100, NULL, "steps of the Newton-Schulz iteration"),
    NUMBER(weight_decay, "0", 1e6,
           "times the learning rate: share of a matrix taken off each step"),
    ROW(normalise_every, VV_FIELD_INT, "0", 0, 1e9, NULL,
        "steps between matrices being scaled to norm sqrt(rows), for layers before a norm; 0 = "
        "never"),
    ROW(aspect_scale, VV_FIELD_BOOL, "true", 0, 0, NULL,
        "steps times sqrt(rows / columns) where there are more rows"),
    ROW(matrices, VV_FIELD_CHOICE, "hidden", 0, 0, matrices,
        "which parameters: of three or more axes, of two or more but the last, of two or more"),
    ROW(precision, VV_FIELD_CHOICE, "fp32", 0, 0, precisions, "precision of the iteration"),
    ROW(fallback, VV_FIELD_CHOICE, "sgd", 0, 0, fallbacks, "what steps the other parameters"),
    NUMBER(fallback_lr, "0.05", 1e6, "initial learning rate of the others"),
    NUMBER(head_lr, "0", 1e6, "that of the last matrix if it is one of the others; 0 = the same"),
    NUMBER(fallback_momentum, "0.85", 1, "momentum (Nesterov) of sgd"),
    NUMBER(fallback_weight_decay, "0", 1e6,
           "of the others: added to the gradient (sgd), times the learning rate (adamw)"),
    NUMBER(beta1, "0.9", 1, "of adamw: share kept of the average gradient, below 1"),
    NUMBER(beta2, "0.95", 1, "of adamw: share kept of the average squared gradient, below 1"),
    NUMBER(eps, "1e-8", 1, "of adamw: added to the denominator"),
    VVI_OPTIM_ROW_END,
};
static const char *const state_names[] = {"momentum_buffer", "exp_avg_sq", NULL};

const vv_optimizer_desc vvi_muon = {
    .desc = {.kind = "optimizer",
             .name = "muon",
             .summary = "Matrices step by their orthogonalised momentum, the rest by SGD or AdamW.",
             .cite = "K. Jordan et al., Muon: An optimizer for hidden layers in neural networks "
                     "(2024)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_muon_opts)},
    .state_count = 2,
    .state_names = state_names,
    .update = update,
    .uses_state = uses_state,
    .check = check,
    .self_size = sizeof(vvi_muon_self),
    .direct = vvi_muon_direct,
    .fini_self = vvi_muon_fini,
};
