/* cpu_softmax.c - softmax, cross-entropy and their gradients along the last axis, rows in parallel.
 *
 * Rows with a NaN or +infinity come out as NaN. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"
#include "backend/cpu/vec_rows.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { ROOMS = 3 };

typedef struct job {
    const vv_call *call;
    const vv_buf *x; /* the operand whose rows are walked */
    int64_t rows, width, grain;
    int slots;
    float *rooms; /* [slots][ROOMS][width], then the class weights */
    float *weights;
    atomic_llong bad_row; /* lowest row with a class outside; LLONG_MAX = none */
} job;

static const vv_buf *walked(const vv_call *call)
{
    return call->op == VV_OP_CROSS_ENTROPY_GRAD ? &call->in[1] : &call->in[0];
}

static void job_init(job *j, const vv_call *call, int slots, void *scratch)
{
    memset(j, 0, sizeof *j);
    j->call = call;
    j->x = walked(call);
    j->width = j->x->shape[j->x->ndim - 1];
    j->rows = j->x->count / j->width;
    j->grain = vvi_row_grain(2 * j->width);
    j->slots = slots;
    j->rooms = scratch;
    j->weights = j->rooms + (int64_t)slots * ROOMS * j->width;
    atomic_init(&j->bad_row, INT64_MAX);
}

static bool is_index(vv_dtype dtype)
{
    return dtype == VV_I32 || dtype == VV_I64;
}

static bool accepts(const vv_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i].count > 0 && !vvi_is_vec_float(call->in[i].dtype))
            return false;
    const vv_buf *x = walked(call);
    return x->ndim > 0 && x->count > 0 && vvi_is_vec_float(call->out[0].dtype);
}

static bool accepts_entropy(const vv_call *call)
{
    const int first = call->op == VV_OP_CROSS_ENTROPY_GRAD;
    for (int i = 0; i < call->n_in; i++) {
        const bool target = i == first + 1;
        if (call->in[i].count > 0 && !vvi_is_vec_float(call->in[i].dtype) &&
            !(target && is_index(call->in[i].dtype)))
            return false;
    }
    const vv_buf *x = walked(call);
    return x->ndim > 0 && x->count > 0 && vvi_is_vec_float(call->out[0].dtype);
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const int slots = vv_threads();
    job j;
    job_init(&j, call, slots, NULL);
    *state = (void *)(intptr_t)slots;
    *scratch_bytes = (size_t)(((int64_t)slots * ROOMS + 1) * j.width) * sizeof(float);
    return VV_OK;
}

static float *room_of(const job *j, int slot, int which)
{
    return j->rooms + ((int64_t)slot * ROOMS + which) * j->width;
}

static void run_rows(job *j, vvi_chunk_fn fn)
{
    vvi_cpu_for(vvi_chunks(j->rows, j->grain), j->slots, fn, j);
}

/* ---- softmax ---- */

static void softmax_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const vv_buf *out = &j->call->out[0];
    const int64_t n = j->width, end = vvi_min64((chunk + 1) * j->grain, j->rows);
    for (int64_t r = chunk * j->grain; r < end; r++) {
        const float *x = vvi_vec_view(room_of(j, slot, 0), j->x, r * n, n);
        float *y = out->dtype == VV_F32 ? (float *)out->data + r * n : room_of(j, slot, 1);
        const float largest = vvi_row_max(x, n);
        if (j->call->attr->softmax.log) {
            const double total = vvi_row_exp_sum(x, largest, n);
            vvi_row_shift(y, x, -largest, n);
            vvi_row_shift(y, y, (float)-log(total), n);
        } else {
            const double total = vvi_row_exp(y, x, largest, n);
            vvi_vec_scale(y, y, (float)(1.0 / total), n);
        }
        vvi_vec_store(out->dtype, out->data, r * n, y, n);
    }
}

static vv_status run_softmax(const vv_call *call)
{
    job j;
    job_init(&j, call, (int)(intptr_t)call->state, call->scratch);
    run_rows(&j, softmax_chunk);
    return VV_OK;
}

static void softmax_grad_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const vv_buf *out = &j->call->out[0];
    const bool log = j->call->attr->softmax.log;
    const int64_t n = j->width, end = vvi_min64((chunk + 1) * j->grain, j->rows);
    for (int64_t r = chunk * j->grain; r < end; r++) {
        const float *dy = vvi_vec_view(room_of(j, slot, 0), &j->call->in[0], r * n, n);
        const float *y = vvi_vec_view(room_of(j, slot, 1), &j->call->in[1], r * n, n);
        float *dx = out->dtype == VV_F32 ? (float *)out->data + r * n : room_of(j, slot, 2);
        const double sum = log ? vvi_row_sum(dy, n) : vvi_row_dot(dy, y, n);
        vvi_row_softmax_grad(dx, dy, y, (float)sum, log, n);
        vvi_vec_store(out->dtype, out->data, r * n, dx, n);
    }
}

static vv_status run_softmax_grad(const vv_call *call)
{
    job j;
    job_init(&j, call, (int)(intptr_t)call->state, call->scratch);
    run_rows(&j, softmax_grad_chunk);
    return VV_OK;
}

/* ---- cross-entropy ---- */

static int64_t class_at(const vv_buf *target, int64_t row)
{
    return target->dtype == VV_I64 ? ((const int64_t *)target->data)[row]
                                   : ((const int32_t *)target->data)[row];
}

/* The row's class; -1 = ignored or outside (then noted). */
static int64_t class_of(job *j, const vv_buf *target, int64_t row)
{
    const int64_t k = class_at(target, row);
    if (k == j->call->attr->cross_entropy.ignore_index)
        return -1;
    if (k >= 0 && k < j->width)
        return k;
    long long seen = atomic_load(&j->bad_row);
    while (row < seen && !atomic_compare_exchange_weak(&j->bad_row, &seen, row))
        ;
    return -1;
}

static vv_status check_classes(job *j, const vv_buf *target)
{
    const long long row = atomic_load(&j->bad_row);
    if (row == INT64_MAX)
        return VV_OK;
    const long long last = (long long)(j->width - 1);
    const long long ignored = (long long)j->call->attr->cross_entropy.ignore_index;
    return vv_fail(
        VV_EINVAL,
        "cross_entropy: the target of row %lld is %lld, classes are 0..%lld (and %lld is "
        "ignored); check the labels or the number of classes",
        row, (long long)class_at(target, row), last, ignored);
}

static float element(const vv_buf *buf, int64_t i)
{
    float value;
    vvi_vec_load(&value, buf->dtype, buf->data, i, 1);
    return value;
}

/* Soft target of a row, times the class weights. */
static const float *soft_target(const job *j, int slot, const vv_buf *target, int64_t row)
{
    float *room = room_of(j, slot, 1);
    const float *t = vvi_vec_view(room, target, row * j->width, j->width);
    if (!j->weights)
        return t;
    vvi_row_multiply(room, t, j->weights, j->width);
    return room;
}

/* sum of t (total - x); terms with t = 0 are left out even where x is infinite. */
static double soft_loss(const float *x, const float *t, double total, int64_t n)
{
    const float near = (float)total;
    const double below = vvi_row_product(t, NULL, x, near, n);
    if (isfinite(below))
        return vvi_row_sum(t, n) * (total - (double)near) - below;
    double loss = 0.0;
    for (int64_t k = 0; k < n; k++)
        if (t[k] != 0.0f)
            loss += (double)t[k] * (total - (double)x[k]);
    return loss;
}

/* log(sum(exp(x))) */
static double log_sum_exp(const float *x, int64_t n)
{
    const float largest = vvi_row_max(x, n);
    return (double)largest + log(vvi_row_exp_sum(x, largest, n));
}

static bool all_zero(const float *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (t[i] != 0.0f)
            return false;
    return true;
}

/* z-loss and its slope, by the logsumexp. */
static double z_term(const job *j, double total)
{
    const double z = j->call->attr->cross_entropy.z_loss;
    return z > 0.0 ? z * total * total : 0.0;
}

static double z_slope(const job *j, double total)
{
    const double z = j->call->attr->cross_entropy.z_loss;
    return z > 0.0 ? 2.0 * z * total : 0.0;
}

static void entropy_chunk(void *ctx, int64_t chunk, int slot)
{
    job *j = ctx;
    const vv_buf *target = &j->call->in[1], *out = &j->call->out[0];
    const int64_t n = j->width, end = vvi_min64((chunk + 1) * j->grain, j->rows);
    for (int64_t r = chunk * j->grain; r < end; r++) {
        double loss = 0.0;
        if (is_index(target->dtype)) {
            const int64_t k = class_of(j, target, r);
            if (k >= 0) {
                const float *x = vvi_vec_view(room_of(j, slot, 0), j->x, r * n, n);
                const double total = log_sum_exp(x, n);
                loss = (total - (double)x[k]) * (j->weights ? (double)j->weights[k] : 1.0) +
                       z_term(j, total);
            }
        } else {
            const float *x = vvi_vec_view(room_of(j, slot, 0), j->x, r * n, n);
            const float *t = soft_target(j, slot, target, r);
            const double total = log_sum_exp(x, n);
            loss = soft_loss(x, t, total, n);
            if (j->call->attr->cross_entropy.z_loss > 0.0 && !all_zero(t, n))
                loss += z_term(j, total);
        }
        const float value = (float)loss;
        vvi_vec_store(out->dtype, out->data, r, &value, 1);
    }
}

static void load_weights(job *j, int operand)
{
    const vv_call *call = j->call;
    if (call->n_in <= operand || !call->in[operand].data) {
        j->weights = NULL;
        return;
    }
    vvi_vec_load(j->weights, call->in[operand].dtype, call->in[operand].data, 0, j->width);
}

static vv_status run_entropy(const vv_call *call)
{
    job j;
    job_init(&j, call, (int)(intptr_t)call->state, call->scratch);
    load_weights(&j, 2);
    run_rows(&j, entropy_chunk);
    return check_classes(&j, &call->in[1]);
}

/* dloss (p (sum(t) + z slope) - t) for a soft target. */
static void soft_grad(const job *j, int slot, int64_t row, const float *x, float *dx, float dloss)
{
    const int64_t n = j->width;
    const float *t = soft_target(j, slot, &j->call->in[2], row);
    if (all_zero(t, n)) {
        memset(dx, 0, (size_t)n * sizeof *dx);
        return;
    }
    const float largest = vvi_row_max(x, n);
    const double total = vvi_row_exp(dx, x, largest, n);
    const double pull = vvi_row_sum(t, n) + z_slope(j, (double)largest + log(total));
    vvi_row_entropy_grad(dx, dx, t, (float)((double)dloss * pull / total), dloss, n);
}

static void class_grad(const job *j, int64_t k, const float *x, float *dx, float dloss)
{
    const int64_t n = j->width;
    const float factor = dloss * (j->weights ? j->weights[k] : 1.0f);
    const float largest = vvi_row_max(x, n);
    const double total = vvi_row_exp(dx, x, largest, n);
    const double pull = (double)factor + (double)dloss * z_slope(j, (double)largest + log(total));
    vvi_vec_scale(dx, dx, (float)(pull / total), n);
    dx[k] -= factor;
}

static void entropy_grad_chunk(void *ctx, int64_t chunk, int slot)
{
    job *j = ctx;
    const vv_buf *target = &j->call->in[2], *out = &j->call->out[0];
    const int64_t n = j->width, end = vvi_min64((chunk + 1) * j->grain, j->rows);
    for (int64_t r = chunk * j->grain; r < end; r++) {
        float *dx = out->dtype == VV_F32 ? (float *)out->data + r * n : room_of(j, slot, 2);
        const float *x = vvi_vec_view(room_of(j, slot, 0), j->x, r * n, n);
        const float dloss = element(&j->call->in[0], r);
        if (!is_index(target->dtype)) {
            soft_grad(j, slot, r, x, dx, dloss);
        } else {
            const int64_t k = class_of(j, target, r);
            if (k >= 0)
                class_grad(j, k, x, dx, dloss);
            else
                memset(dx, 0, (size_t)n * sizeof *dx);
        }
        vvi_vec_store(out->dtype, out->data, r * n, dx, n);
    }
}

static vv_status run_entropy_grad(const vv_call *call)
{
    job j;
    job_init(&j, call, (int)(intptr_t)call->state, call->scratch);
    load_weights(&j, 3);
    run_rows(&j, entropy_grad_chunk);
    return check_classes(&j, &call->in[2]);
}

const vv_kernel vvi_cpu_softmax[] = {
    {"vector", accepts, prepare, run_softmax, NULL, 1},
    {0},
};
const vv_kernel vvi_cpu_softmax_grad[] = {
    {"vector", accepts, prepare, run_softmax_grad, NULL, 3},
    {0},
};
const vv_kernel vvi_cpu_cross_entropy[] = {
    {"vector", accepts_entropy, prepare, run_entropy, NULL, 0},
    {0},
};
/* The logits of a row are read before its gradient is written. */
const vv_kernel vvi_cpu_cross_entropy_grad[] = {
    {"vector", accepts_entropy, prepare, run_entropy_grad, NULL, 2},
    {0},
};
