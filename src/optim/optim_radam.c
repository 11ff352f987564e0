/* optim_radam.c - Adam that waits with its second moment until enough of it is known (Liu et al.,
 * arXiv 1908.03265); decay is added to the gradient. */
#include <math.h>
#include <stddef.h>

#include "optim/optim_kernels.h"

typedef struct radam_numbers {
    float beta1, rest1, beta2, rest2; /* rest = 1 - beta */
    float l2, rate, eps;
    float root; /* rectification * sqrt(1 - beta2^t); 0 = the second moment is not used yet */
} radam_numbers;

/* m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2;  w <- w - rate m (root / (sqrt(v) + eps)). */
VVI_CLONES
static void radam(float *restrict w, const float *restrict g, float *restrict m, float *restrict v,
                  int64_t count, const radam_numbers *numbers)
{
    const radam_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        float d = g[i] + n.l2 * w[i];
        float mean = n.beta1 * m[i] + n.rest1 * d;
        float square = n.beta2 * v[i] + n.rest2 * d * d;
        float adapted = n.root > 0.0f ? n.root / (sqrtf(square) + n.eps) : 1.0f;
        m[i] = mean;
        v[i] = square;
        w[i] -= n.rate * mean * adapted;
    }
}

/* sqrt of the variance's rectification times sqrt(1 - beta2^t), 0 while the variance is unknown
   (rho_t up to 5, as in PyTorch). */
static double rectified_root(double beta2, double t)
{
    const double power = pow(beta2, t), far = 2.0 / (1.0 - beta2) - 1.0;
    const double rho = far - 2.0 * t * power / (1.0 - power);
    if (rho <= 5.0)
        return 0.0;
    return sqrt((rho - 4.0) * (rho - 2.0) * far / ((far - 4.0) * (far - 2.0) * rho)) *
           sqrt(1.0 - power);
}

static void update(const void *opts, double lr, double initial_lr, const vv_optimizer_slot *slot,
                   int64_t first, int64_t last)
{
    const vv_adam_opts *o = opts;
    const double t = (double)slot->step;
    (void)initial_lr;
    const radam_numbers n = {
        .beta1 = (float)o->beta1,
        .rest1 = (float)(1.0 - o->beta1),
        .beta2 = (float)o->beta2,
        .rest2 = (float)(1.0 - o->beta2),
        .l2 = (float)o->weight_decay,
        .rate = (float)(lr / (1.0 - pow(o->beta1, t))),
        .eps = (float)o->eps,
        .root = (float)rectified_root(o->beta2, t),
    };
    radam(slot->value + first, slot->grad + first, slot->state[0] + first, slot->state[1] + first,
          last - first, &n);
}

static vv_status check(const void *opts)
{
    const vv_adam_opts *o = opts;
    if (o->beta1 >= 1.0 || o->beta2 >= 1.0)
        return vv_fail(VV_EINVAL,
                       "beta1 %g and beta2 %g must be below 1, or nothing new is ever averaged in",
                       o->beta1, o->beta2);
    return VV_OK;
}

#define ROW(member, fallback, max, help) \
    VVI_OPTIM_ROW(vv_adam_opts, member, VV_FIELD_FLOAT, fallback, max, help)
static const vv_field fields[] = {
    ROW(lr, "0.001", 1e6, "initial learning rate"),
    ROW(beta1, "0.9", 1, "share kept of the average gradient, below 1"),
    ROW(beta2, "0.999", 1, "share kept of the average squared gradient, below 1"),
    ROW(eps, "1e-8", 1, "added to the denominator"),
    ROW(weight_decay, "0", 1e6, "times the weight, added to the gradient"),
    VVI_OPTIM_ROW_END,
};
static const char *const state_names[] = {"exp_avg", "exp_avg_sq", NULL};

const vv_optimizer_desc vvi_radam = {
    .desc = {.kind = "optimizer",
             .name = "radam",
             .summary = "Adam that uses its second moment only once enough of it is known.",
             .cite = "Liu et al., arXiv 1908.03265",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_adam_opts)},
    .state_count = 2,
    .state_names = state_names,
    .update = update,
    .check = check,
};
