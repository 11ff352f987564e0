/* optim_soap.c - SOAP (Vyas et al., arXiv 2409.11321): Adam in the eigenbasis of Shampoo's
 * averages. The bases are kept in soap_basis.c. */
#include <math.h>
#include <stddef.h>

#include "optim/optim_kernels.h"
#include "optim/soap_basis.h"

typedef struct soap_numbers {
    float beta1, rest1, beta2, rest2, keep, rate, root, eps;
} soap_numbers;

/* Moments of the rotated gradient r; the step d was made from the same. */
VVI_CLONES
static void step_rotated(float *restrict w, float *restrict m, float *restrict v,
                         const float *restrict d, const float *restrict r, int64_t count,
                         const soap_numbers *numbers)
{
    const soap_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        m[i] = n.beta1 * m[i] + n.rest1 * r[i];
        v[i] = n.beta2 * v[i] + n.rest2 * r[i] * r[i];
        w[i] = w[i] * n.keep - n.rate * d[i];
    }
}

/* AdamW, for what is no matrix. */
VVI_CLONES
static void step_plain(float *restrict w, float *restrict m, float *restrict v,
                       const float *restrict g, int64_t count, const soap_numbers *numbers)
{
    const soap_numbers n = *numbers;
    for (int64_t i = 0; i < count; i++) {
        m[i] = n.beta1 * m[i] + n.rest1 * g[i];
        v[i] = n.beta2 * v[i] + n.rest2 * g[i] * g[i];
        w[i] = w[i] * n.keep - n.rate * m[i] / (sqrtf(v[i]) * n.root + n.eps);
    }
}

static void update(const void *opts, double lr, double initial_lr, const vv_optimizer_slot *slot,
                   int64_t first, int64_t last)
{
    const vv_soap_opts *o = opts;
    const double t = (double)slot->step;
    (void)initial_lr;
    soap_numbers n = {.beta1 = (float)o->beta1, .rest1 = (float)(1.0 - o->beta1),
                      .beta2 = (float)o->beta2, .rest2 = (float)(1.0 - o->beta2),
                      .keep = (float)(1.0 - lr * o->weight_decay), .rate = (float)lr,
                      .eps = (float)o->eps};
    float *w = slot->value + first, *m = slot->state[VVI_SOAP_MEAN] + first;
    float *v = slot->state[VVI_SOAP_SQUARE] + first;
    if (slot->role == VVI_SOAP_MATRIX) {
        if (slot->direction) /* the first step only makes the bases */
            step_rotated(w, m, v, slot->direction + first, slot->direction + slot->count + first,
                         last - first, &n);
        return;
    }
    n.rate = (float)(lr / (1.0 - pow(o->beta1, t)));
    n.root = (float)(1.0 / sqrt(1.0 - pow(o->beta2, t)));
    step_plain(w, m, v, slot->grad + first, last - first, &n);
}

static vv_status sort(const vv_optimizer_view *views, int count, int *roles)
{
    for (int i = 0; i < count; i++) {
        int64_t size;
        const bool matrix = views[i].value->ndim >= 2 && views[i].value->count > 0 &&
                            (vvi_soap_side(&views[i], 0, &size) ||
                             vvi_soap_side(&views[i], 1, &size));
        roles[i] = matrix ? VVI_SOAP_MATRIX : VVI_SOAP_PLAIN;
    }
    return VV_OK;
}

static bool state_shape(const vv_optimizer_view *view, int i, int *ndim, int64_t *shape)
{
    if (i <= VVI_SOAP_SQUARE)
        return true;
    int64_t size;
    const int side = i == VVI_SOAP_RIGHT || i == VVI_SOAP_RIGHT_BASIS;
    if (view->role != VVI_SOAP_MATRIX || !vvi_soap_side(view, side, &size))
        return false;
    *ndim = 2;
    shape[0] = shape[1] = size;
    return true;
}

static vv_status check(const void *opts)
{
    const vv_soap_opts *o = opts;
    if (o->beta1 >= 1.0 || o->beta2 >= 1.0)
        return vv_fail(VV_EINVAL,
                       "beta1 %g and beta2 %g must be below 1, or nothing new is ever averaged in",
                       o->beta1, o->beta2);
    return VV_OK;
}

#define ROW(member, kind, fallback, low, high, help)                                           \
    {                                                                                          \
#member, help, kind, offsetof(vv_soap_opts, member), fallback, low, high, NULL         \
    }

static const vv_field fields[] = {
    ROW(lr, VV_FIELD_FLOAT, "0.003", 0, 1e6, "initial learning rate"),
    ROW(beta1, VV_FIELD_FLOAT, "0.95", 0, 1, "share kept of the average gradient, below 1"),
    ROW(beta2, VV_FIELD_FLOAT, "0.95", 0, 1, "share kept of the average squares, below 1"),
    ROW(eps, VV_FIELD_FLOAT, "1e-8", 0, 1, "added to the denominator"),
    ROW(weight_decay, VV_FIELD_FLOAT, "0.01", 0, 1e6,
        "times the learning rate: share of the weight taken off each step"),
    ROW(frequency, VV_FIELD_INT, "10", 1, 1e9, "steps between the bases being made anew"),
    ROW(max_size, VV_FIELD_INT, "1024", 1, 1e5,
        "longer sides of a matrix are not rotated; the work grows with the third power"),
    VVI_OPTIM_ROW_END,
};
static const char *const state_names[] = {"exp_avg",    "exp_avg_sq",  "left",
                                          "right",      "left_basis",  "right_basis", NULL};

const vv_optimizer_desc vvi_soap = {
    .desc = {.kind = "optimizer",
             .name = "soap",
             .summary = "Adam in the eigenbasis of Shampoo's averages, for each matrix its own.",
             .cite = "Vyas et al., arXiv 2409.11321",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_soap_opts)},
    .state_count = VVI_SOAP_STATES,
    .state_names = state_names,
    .update = update,
    .state_shape = state_shape,
    .sort = sort,
    .check = check,
    .self_size = sizeof(vvi_soap_self),
    .direct = vvi_soap_direct,
    .fini_self = vvi_soap_fini,
};
