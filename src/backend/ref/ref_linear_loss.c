/* ref_linear_loss.c - reference kernels of the cross-entropy of a linear layer: one row's logits at
 * a time, in double.
 *
 * With l = x W^T + b, c = cap tanh(l / cap) (or l), s = logsumexp(c): loss = s - c_k + z s^2, and
 * dl_j = dloss (p_j (1 + 2 z s) - [j = k]) (1 - (c_j / cap)^2). */
#include <math.h>
#include <string.h>

#include "backend/ref/ref.h"

typedef struct head {
    const vv_buf *x, *weight, *target, *bias; /* bias NULL: none */
    int64_t rows, width, classes;
    const vv_attr *attr;
    double *logits; /* [classes] */
} head;

static bool accepts(const vv_call *call)
{
    (void)call;
    return true;
}

static head head_of(const vv_call *call, int first, double *logits)
{
    const vv_buf *in = call->in + first;
    return (head){.x = &in[0], .weight = &in[1], .target = &in[2],
                  .bias = call->n_in > first + 3 && in[3].data ? &in[3] : NULL,
                  .rows = in[2].count, .width = in[1].shape[1], .classes = in[1].shape[0],
                  .attr = call->attr, .logits = logits};
}

/* *k = class of a row, -1 if it is ignored. */
static vv_status class_of(const head *h, int64_t row, int64_t *k)
{
    const int64_t value = h->target->dtype == VV_I64 ? ((const int64_t *)h->target->data)[row]
                                                     : ((const int32_t *)h->target->data)[row];
    const int64_t ignored = h->attr->cross_entropy.ignore_index;
    *k = value == ignored ? -1 : value;
    if (value == ignored || (value >= 0 && value < h->classes))
        return VV_OK;
    return vv_fail(VV_EINVAL,
                   "linear_cross_entropy: the target of row %lld is %lld, classes are 0..%lld (and "
                   "%lld is ignored); check the labels or the number of classes",
                   (long long)row, (long long)value, (long long)(h->classes - 1),
                   (long long)ignored);
}

/* Fills the row's (capped) logits; returns their logsumexp. */
static double fill_logits(const head *h, int64_t row)
{
    const double cap = h->attr->cross_entropy.softcap;
    double largest = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < h->classes; j++) {
        double l = h->bias ? vvi_ref_get(h->bias, j) : 0.0;
        for (int64_t d = 0; d < h->width; d++)
            l += vvi_ref_get(h->x, row * h->width + d) * vvi_ref_get(h->weight, j * h->width + d);
        h->logits[j] = cap > 0.0 ? cap * tanh(l / cap) : l;
        largest = fmax(largest, h->logits[j]);
    }
    for (int64_t j = 0; j < h->classes; j++)
        sum += exp(h->logits[j] - largest);
    return largest + log(sum);
}

static double loss_of(const head *h, int64_t k, double s)
{
    return s - h->logits[k] + h->attr->cross_entropy.z_loss * s * s;
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    *state = NULL;
    *scratch_bytes = (size_t)call->in[1].shape[0] * sizeof(double);
    return VV_OK;
}

static vv_status run(const vv_call *call)
{
    const head h = head_of(call, 0, call->scratch);
    for (int64_t row = 0; row < h.rows; row++) {
        int64_t k;
        VV_TRY(class_of(&h, row, &k));
        const double s = k >= 0 ? fill_logits(&h, row) : 0.0;
        vvi_ref_set(&call->out[0], row, k >= 0 ? loss_of(&h, k, s) : 0.0);
        vvi_ref_set(&call->out[1], row, s);
    }
    return VV_OK;
}

/* Scratch: logits, one row of dx, dweight, dbias. */
static vv_status prepare_grad(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const int64_t classes = call->in[2].shape[0], width = call->in[2].shape[1];
    *state = NULL;
    *scratch_bytes = (size_t)(2 * classes + width + classes * width) * sizeof(double);
    return VV_OK;
}

static bool wanted(const vv_call *call, int i)
{
    return call->n_out > i && call->out[i].data;
}

/* The logits become their gradient. */
static void turn_into_gradient(const head *h, int64_t k, double s, double dloss)
{
    const double cap = h->attr->cross_entropy.softcap, z = h->attr->cross_entropy.z_loss;
    for (int64_t j = 0; j < h->classes; j++) {
        const double c = h->logits[j], slope = cap > 0.0 ? 1.0 - c / cap * (c / cap) : 1.0;
        h->logits[j] = dloss * (exp(c - s) * (1.0 + 2.0 * z * s) - (j == k)) * slope;
    }
}

static void add_row(const head *h, int64_t row, double *dx, double *dw, double *db)
{
    memset(dx, 0, (size_t)h->width * sizeof *dx);
    for (int64_t j = 0; j < h->classes; j++) {
        const double g = h->logits[j];
        db[j] += g;
        for (int64_t d = 0; d < h->width; d++) {
            dx[d] += g * vvi_ref_get(h->weight, j * h->width + d);
            dw[j * h->width + d] += g * vvi_ref_get(h->x, row * h->width + d);
        }
    }
}

static vv_status run_grad(const vv_call *call)
{
    double *scratch = call->scratch;
    const head h = head_of(call, 1, scratch);
    double *dx = scratch + h.classes, *db = dx + h.width, *dw = db + h.classes;
    memset(db, 0, (size_t)(h.classes * (1 + h.width)) * sizeof *db);
    for (int64_t row = 0; row < h.rows; row++) {
        int64_t k;
        VV_TRY(class_of(&h, row, &k));
        memset(dx, 0, (size_t)h.width * sizeof *dx);
        const double s = k >= 0 ? fill_logits(&h, row) : 0.0;
        if (wanted(call, 3))
            vvi_ref_set(&call->out[3], row, k >= 0 ? loss_of(&h, k, s) : 0.0);
        if (k >= 0) {
            turn_into_gradient(&h, k, s, vvi_ref_get(&call->in[0], row));
            add_row(&h, row, dx, dw, db);
        }
        for (int64_t d = 0; d < h.width && wanted(call, 0); d++)
            vvi_ref_set(&call->out[0], row * h.width + d, dx[d]);
    }
    for (int64_t i = 0; i < h.classes * h.width && wanted(call, 1); i++)
        vvi_ref_set(&call->out[1], i, dw[i]);
    for (int64_t j = 0; j < h.classes && wanted(call, 2); j++)
        vvi_ref_set(&call->out[2], j, db[j]);
    return VV_OK;
}

const vv_kernel vvi_ref_linear_cross_entropy[] = {
    {.name = "ref", .accepts = accepts, .prepare = prepare, .run = run}, {.run = NULL}};
const vv_kernel vvi_ref_linear_cross_entropy_grad[] = {
    {.name = "ref", .accepts = accepts, .prepare = prepare_grad, .run = run_grad}, {.run = NULL}};
