/* optim_schedule_free.c - SGD and AdamW without a schedule (Defazio et al., arXiv 2405.15682).
 *
 * Three points: z steps by the gradient, x is the average of the z, and the gradient is taken at
 * y = beta x + (1 - beta) z, which is what the parameters hold while training. x is what is
 * evaluated and saved; it is kept as state, so that the exchange is exact. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "optim/optim_kernels.h"

enum { LR_MAX, WEIGHT_SUM, SHARE, SCALARS }; /* share: of the new z in the average */
enum { X, Z, SQUARE };

/* z <- z - lr d;  x <- x + share (z - x);  y <- z + beta (x - z), d = g + decay y. */
VVI_CLONES
static void free_sgd(float *restrict y, const float *restrict g, float *restrict x,
                     float *restrict z, int64_t count, float lr, float decay, float beta,
                     float share)
{
    for (int64_t i = 0; i < count; i++) {
        float next = z[i] - lr * (g[i] + decay * y[i]);
        float mean = x[i] + share * (next - x[i]);
        z[i] = next;
        x[i] = mean;
        y[i] = next + beta * (mean - next);
    }
}

typedef struct adam_numbers {
    float lr, decay, beta1, share, beta2, rest2, root, eps; /* root = 1 / sqrt(1 - beta2^t) */
} adam_numbers;

/* The same with d = g / (root sqrt(v) + eps) + decay y. */
VVI_CLONES
static void free_adam(float *restrict y, const float *restrict g, float *restrict x,
                      float *restrict z, float *restrict v, int64_t count,
                      const adam_numbers *numbers)
{
    const adam_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        float square = n.beta2 * v[i] + n.rest2 * g[i] * g[i];
        float d = g[i] / (sqrtf(square) * n.root + n.eps) + n.decay * y[i];
        float next = z[i] - n.lr * d;
        float mean = x[i] + n.share * (next - x[i]);
        v[i] = square;
        z[i] = next;
        x[i] = mean;
        y[i] = next + n.beta1 * (mean - next);
    }
}

/* Step t has the weight t^r * (largest learning rate so far)^power. */
static void advance(const void *opts, double lr, int64_t step, double *scalars)
{
    const vv_schedule_free_opts *o = opts;
    if (lr > scalars[LR_MAX])
        scalars[LR_MAX] = lr;
    const double weight = pow((double)step, o->r) * pow(scalars[LR_MAX], o->weight_lr_power);
    scalars[WEIGHT_SUM] += weight;
    scalars[SHARE] = scalars[WEIGHT_SUM] > 0.0 ? weight / scalars[WEIGHT_SUM] : 0.0;
}

static void begin(const vv_optimizer_slot *slot, int64_t first, int64_t last)
{
    const size_t bytes = (size_t)(last - first) * sizeof(float);
    if (slot->step != 1)
        return;
    memcpy(slot->state[X] + first, slot->value + first, bytes);
    memcpy(slot->state[Z] + first, slot->value + first, bytes);
}

static void sgd_update(const void *opts, double lr, double initial_lr,
                       const vv_optimizer_slot *slot, int64_t first, int64_t last)
{
    const vv_schedule_free_opts *o = opts;
    (void)initial_lr;
    begin(slot, first, last);
    free_sgd(slot->value + first, slot->grad + first, slot->state[X] + first,
             slot->state[Z] + first, last - first, (float)lr, (float)o->weight_decay,
             (float)o->beta1, (float)slot->scalars[SHARE]);
}

static void adam_update(const void *opts, double lr, double initial_lr,
                        const vv_optimizer_slot *slot, int64_t first, int64_t last)
{
    const vv_schedule_free_opts *o = opts;
    (void)initial_lr;
    begin(slot, first, last);
    const adam_numbers n = {
        .lr = (float)lr,
        .decay = (float)o->weight_decay,
        .beta1 = (float)o->beta1,
        .share = (float)slot->scalars[SHARE],
        .beta2 = (float)o->beta2,
        .rest2 = (float)(1.0 - o->beta2),
        .root = (float)(1.0 / sqrt(1.0 - pow(o->beta2, (double)slot->step))),
        .eps = (float)o->eps,
    };
    free_adam(slot->value + first, slot->grad + first, slot->state[X] + first,
              slot->state[Z] + first, slot->state[SQUARE] + first, last - first, &n);
}

static vv_status check(const void *opts)
{
    const vv_schedule_free_opts *o = opts;
    if (o->beta1 >= 1.0 || o->beta2 >= 1.0)
        return vv_fail(VV_EINVAL,
                       "momentum (beta1) %g and beta2 %g must be below 1: the gradient would never "
                       "see the newest step",
                       o->beta1, o->beta2);
    return VV_OK;
}

#define NAMED(text, member, fallback, max, help)                                            \
    {                                                                                       \
        text, help, VV_FIELD_FLOAT, offsetof(vv_schedule_free_opts, member), fallback, 0, max, \
            NULL                                                                            \
    }
#define LR(fallback) \
    NAMED("lr", lr, fallback, 1e6, "learning rate; schedules other than a warm-up are not needed")
#define BETA1_HELP "how near the trained weights lie to their average, below 1"
#define DECAY \
    NAMED("weight_decay", weight_decay, "0", 1e6, "times the trained weight, in each step")
#define POWERS                                                                                 \
    NAMED("r", r, "0", 100, "later steps weigh t^r in the average"),                           \
        NAMED("weight_lr_power", weight_lr_power, "2", 100,                                    \
              "steps weigh the largest learning rate so far to this power, so that a warm-up " \
              "counts little")

static const vv_field sgd_fields[] = {
    LR("1"), NAMED("momentum", beta1, "0.9", 1, BETA1_HELP), DECAY, POWERS, VVI_OPTIM_ROW_END,
};
static const vv_field adam_fields[] = {
    LR("0.0025"),
    NAMED("beta1", beta1, "0.9", 1, BETA1_HELP),
    NAMED("beta2", beta2, "0.999", 1, "share kept of the average squared gradient, below 1"),
    NAMED("eps", eps, "1e-8", 1, "added to the denominator"),
    DECAY,
    POWERS,
    VVI_OPTIM_ROW_END,
};
static const char *const state_names[] = {"x", "z", "exp_avg_sq", NULL};

#define SCHEDULE_FREE(text, what, rows, states, function)                             \
    {                                                                                 \
        .desc = {.kind = "optimizer",                                                 \
                 .name = text,                                                        \
                 .summary = what,                                                     \
                 .cite = "Defazio et al., arXiv 2405.15682",                          \
                 .domains = "any",                                                    \
                 .fields = rows,                                                      \
                 .opts_size = sizeof(vv_schedule_free_opts)},                         \
        .state_count = states, .state_names = state_names, .update = function,        \
        .check = check, .evaluated_state = 1 + X, .scalar_count = SCALARS,            \
        .scalars_name = "averaging", .advance = advance,                              \
    }

const vv_optimizer_desc vvi_schedule_free_sgd =
    SCHEDULE_FREE("schedule_free_sgd", "SGD whose average weights are evaluated; no schedule.",
                  sgd_fields, 2, sgd_update);
const vv_optimizer_desc vvi_schedule_free_adamw =
    SCHEDULE_FREE("schedule_free_adamw", "AdamW whose average weights are evaluated; no schedule.",
                  adam_fields, 3, adam_update);
