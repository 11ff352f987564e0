/* optim_adam.c - Adam (arXiv 1412.6980) with decay in the gradient, tied to the learning rate
 * (AdamW), or fully decoupled (arXiv 1711.05101); AMSGrad (arXiv 1904.09237) on request. */
#include <math.h>
#include <stddef.h>

#include "optim/optim_kernels.h"

typedef struct adam_numbers {
    float beta1, rest1, beta2, rest2; /* rest = 1 - beta */
    float l2, keep, rate, root, eps;  /* rate = lr / (1 - beta1^t), root = 1 / sqrt(1 - beta2^t) */
} adam_numbers;

/* m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2;  w <- keep w - rate m / (root sqrt(v) + eps),
   with g taking l2 w along. */
VVI_CLONES
static void adam_plain(float *restrict w, const float *restrict g, float *restrict m,
                       float *restrict v, int64_t count, const adam_numbers *numbers)
{
    const adam_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        float d = g[i] + n.l2 * w[i];
        float mean = n.beta1 * m[i] + n.rest1 * d;
        float square = n.beta2 * v[i] + n.rest2 * d * d;
        m[i] = mean;
        v[i] = square;
        w[i] = w[i] * n.keep - n.rate * mean / (sqrtf(square) * n.root + n.eps);
    }
}

/* The same, where weights that the step drives away from 0 do not decay (Chen et al., arXiv
   2510.12402). */
VVI_CLONES
static void adam_cautious(float *restrict w, const float *restrict g, float *restrict m,
                          float *restrict v, int64_t count, const adam_numbers *numbers)
{
    const adam_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        float mean = n.beta1 * m[i] + n.rest1 * g[i];
        float square = n.beta2 * v[i] + n.rest2 * g[i] * g[i];
        float keep = mean * w[i] > 0.0f ? n.keep : 1.0f;
        m[i] = mean;
        v[i] = square;
        w[i] = w[i] * keep - n.rate * mean / (sqrtf(square) * n.root + n.eps);
    }
}

/* The same with the largest v so far in the denominator. */
VVI_CLONES
static void adam_largest(float *restrict w, const float *restrict g, float *restrict m,
                         float *restrict v, float *restrict top, int64_t count,
                         const adam_numbers *numbers)
{
    const adam_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        float d = g[i] + n.l2 * w[i];
        float mean = n.beta1 * m[i] + n.rest1 * d;
        float square = n.beta2 * v[i] + n.rest2 * d * d;
        float largest = top[i] > square ? top[i] : square;
        m[i] = mean;
        v[i] = square;
        top[i] = largest;
        w[i] = w[i] * n.keep - n.rate * mean / (sqrtf(largest) * n.root + n.eps);
    }
}

static void step(const vv_adam_opts *o, double lr, double l2, double keep,
                 const vv_optimizer_slot *slot, int64_t first, int64_t last)
{
    double steps = (double)slot->step;
    const adam_numbers n = {
        .beta1 = (float)o->beta1,
        .rest1 = (float)(1.0 - o->beta1),
        .beta2 = (float)o->beta2,
        .rest2 = (float)(1.0 - o->beta2),
        .l2 = (float)l2,
        .keep = (float)keep,
        .rate = (float)(lr / (1.0 - pow(o->beta1, steps))),
        .root = (float)(1.0 / sqrt(1.0 - pow(o->beta2, steps))),
        .eps = (float)o->eps,
    };
    float *w = slot->value + first, *m = slot->state[0] + first, *v = slot->state[1] + first;
    const float *g = slot->grad + first;
    if (o->cautious)
        adam_cautious(w, g, m, v, last - first, &n);
    else if (o->amsgrad)
        adam_largest(w, g, m, v, slot->state[2] + first, last - first, &n);
    else
        adam_plain(w, g, m, v, last - first, &n);
}

static void adam_update(const void *opts, double lr, double initial_lr,
                        const vv_optimizer_slot *slot, int64_t first, int64_t last)
{
    const vv_adam_opts *o = opts;
    (void)initial_lr;
    step(o, lr, o->weight_decay, 1.0, slot, first, last);
}

static void adamw_update(const void *opts, double lr, double initial_lr,
                         const vv_optimizer_slot *slot, int64_t first, int64_t last)
{
    const vv_adam_opts *o = opts;
    (void)initial_lr;
    step(o, lr, 0.0, 1.0 - lr * o->weight_decay, slot, first, last);
}

static void decoupled_update(const void *opts, double lr, double initial_lr,
                             const vv_optimizer_slot *slot, int64_t first, int64_t last)
{
    const vv_adam_opts *o = opts;
    double share = initial_lr == 0.0 ? 1.0 : lr / initial_lr;
    step(o, lr, 0.0, 1.0 - share * o->weight_decay, slot, first, last);
}

static bool uses_state(const void *opts, int i)
{
    return i < 2 || ((const vv_adam_opts *)opts)->amsgrad;
}

static vv_status check(const void *opts)
{
    const vv_adam_opts *o = opts;
    if (o->beta1 >= 1.0 || o->beta2 >= 1.0)
        return vv_fail(VV_EINVAL,
                       "beta1 %g and beta2 %g must be below 1, or nothing new is ever averaged in",
                       o->beta1, o->beta2);
    if (o->amsgrad && o->cautious)
        return vv_fail(VV_EINVAL, "amsgrad and cautious do not go together; choose one");
    return VV_OK;
}

#define ROW(member, kind, fallback, max, help) \
    VVI_OPTIM_ROW(vv_adam_opts, member, kind, fallback, max, help)
#define LR ROW(lr, VV_FIELD_FLOAT, "0.001", 1e6, "initial learning rate")
#define BETA1 ROW(beta1, VV_FIELD_FLOAT, "0.9", 1, "share kept of the average gradient, below 1")
#define BETA2(fallback) \
    ROW(beta2, VV_FIELD_FLOAT, fallback, 1, "share kept of the average squared gradient, below 1")
#define EPS ROW(eps, VV_FIELD_FLOAT, "1e-8", 1, "added to the denominator")
#define DECAY(fallback, max, help) ROW(weight_decay, VV_FIELD_FLOAT, fallback, max, help)
#define AMSGRAD \
    ROW(amsgrad, VV_FIELD_BOOL, "false", 0, "divide by the largest average squared gradient so far")
#define CAUTIOUS \
    ROW(cautious, VV_FIELD_BOOL, "false", 0, "weights decay only where the step goes the same way")

static const vv_field adam_fields[] = {
    LR,
    BETA1,
    BETA2("0.999"),
    EPS,
    DECAY("0", 1e6, "times the weight, added to the gradient"),
    AMSGRAD,
    VVI_OPTIM_ROW_END,
};
static const vv_field adamw_fields[] = {
    LR,
    BETA1,
    BETA2("0.999"),
    EPS,
    DECAY("0.01", 1e6, "times the learning rate: share of the weight taken off each step"),
    AMSGRAD,
    CAUTIOUS,
    VVI_OPTIM_ROW_END,
};
static const vv_field decoupled_fields[] = {
    LR,
    BETA1,
    BETA2("0.95"),
    EPS,
    DECAY("1e-5", 1, "share of the weight taken off each step at the initial learning rate"),
    AMSGRAD,
    CAUTIOUS,
    VVI_OPTIM_ROW_END,
};
static const char *const state_names[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", NULL};

#define ADAM(text, what, paper, rows, function)                           \
    {                                                                     \
        .desc = {.kind = "optimizer",                                     \
                 .name = text,                                            \
                 .summary = what,                                         \
                 .cite = paper,                                           \
                 .domains = "any",                                        \
                 .fields = rows,                                          \
                 .opts_size = sizeof(vv_adam_opts)},                      \
        .state_count = 3, .state_names = state_names, .update = function, \
        .uses_state = uses_state, .check = check,                         \
    }

const vv_optimizer_desc vvi_adam = ADAM("adam", "Adam; weight decay is added to the gradient.",
                                        "Kingma & Ba, arXiv 1412.6980", adam_fields, adam_update);
const vv_optimizer_desc vvi_adamw =
    ADAM("adamw", "Adam with weight decay times the learning rate, outside the averages.",
         "Loshchilov & Hutter, arXiv 1711.05101", adamw_fields, adamw_update);
const vv_optimizer_desc vvi_decoupled_adamw =
    ADAM("decoupled_adamw",
         "Adam whose weight decay follows the schedule but not the learning rate's size.",
         "Loshchilov & Hutter, arXiv 1711.05101", decoupled_fields, decoupled_update);
