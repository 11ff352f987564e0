/* cpu_layer_norm.c - layer and RMS norm: one row at a time, statistics in two passes over the row
 * in cache. RMS norm is layer norm with mean 0 and no beta. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"
#include "backend/cpu/vec_rows.h"

#include <math.h>
#include <string.h>

enum { ROOMS = 3, GRAIN_ELEMENTS = 32768 };

typedef struct job {
    const vv_call *call;
    int64_t rows, width, grain, chunks;
    bool rms;
    int slots;
    float *vectors; /* gamma, beta as f32 */
    float *rooms;   /* [slots][ROOMS][width] */
    float *partial; /* gradient: [chunks][2][width] */
} job;

static job job_of(const vv_call *call, int slots, void *scratch)
{
    const vv_buf *x = &call->out[0];
    job j = {.call = call, .width = x->shape[x->ndim - 1], .slots = slots};
    j.rows = x->count / j.width;
    j.rms = call->op == VV_OP_RMS_NORM || call->op == VV_OP_RMS_NORM_GRAD;
    j.grain = vvi_row_grain(j.width);
    j.chunks = vvi_chunks(j.rows, j.grain);
    j.vectors = scratch;
    j.rooms = j.vectors + 2 * j.width;
    j.partial = j.rooms + (int64_t)slots * ROOMS * j.width;
    return j;
}

static bool accepts(const vv_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (!vvi_is_vec_float(call->in[i].dtype) || call->in[i].count == 0)
            return false;
    for (int i = 0; i < call->n_out; i++)
        if (!vvi_is_vec_float(call->out[i].dtype))
            return false;
    return true;
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const int slots = vv_threads();
    const job j = job_of(call, slots, NULL);
    const int64_t partial = call->n_in > 3 ? j.chunks * 2 : 0; /* gradients */
    *state = (void *)(intptr_t)slots;
    *scratch_bytes = (size_t)((2 + (int64_t)slots * ROOMS + partial) * j.width) * sizeof(float);
    return VV_OK;
}

static float *room_of(const job *j, int slot, int which)
{
    return j->rooms + ((int64_t)slot * ROOMS + which) * j->width;
}

static void forward_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const vv_call *call = j->call;
    const vv_buf *out = &call->out[0];
    const int64_t n = j->width, end = vvi_min64((chunk + 1) * j->grain, j->rows);
    for (int64_t r = chunk * j->grain; r < end; r++) {
        const float *x = vvi_vec_view(room_of(j, slot, 0), &call->in[0], r * n, n);
        const float mean = j->rms ? 0.0f : (float)(vvi_row_sum(x, n) / (double)n);
        const double variance = vvi_row_square(x, mean, n) / (double)n;
        const float rstd = (float)(1.0 / sqrt(variance + call->attr->norm.eps));
        float *y = out->dtype == VV_F32 ? (float *)out->data + r * n : room_of(j, slot, 1);
        vvi_row_norm(y, x, mean, rstd, j->vectors, j->vectors + n, n);
        vvi_vec_store(out->dtype, out->data, r * n, y, n);
        const vv_buf *last = &call->out[j->rms ? 1 : 2];
        vvi_vec_store(last->dtype, last->data, r, &rstd, 1);
        if (!j->rms)
            vvi_vec_store(call->out[1].dtype, call->out[1].data, r, &mean, 1);
    }
}

static vv_status run(const vv_call *call)
{
    job j = job_of(call, (int)(intptr_t)call->state, call->scratch);
    vvi_vec_load(j.vectors, call->in[1].dtype, call->in[1].data, 0, j.width);
    if (j.rms)
        memset(j.vectors + j.width, 0, (size_t)j.width * sizeof(float));
    else
        vvi_vec_load(j.vectors + j.width, call->in[2].dtype, call->in[2].data, 0, j.width);
    vvi_cpu_for(j.chunks, j.slots, forward_chunk, &j);
    return VV_OK;
}

static float scalar(const vv_buf *buf, int64_t i)
{
    float value;
    vvi_vec_load(&value, buf->dtype, buf->data, i, 1);
    return value;
}

static void grad_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const vv_call *call = j->call;
    const vv_buf *out = &call->out[0];
    const int64_t n = j->width, end = vvi_min64((chunk + 1) * j->grain, j->rows);
    float *dgamma = j->partial + chunk * 2 * n, *dbeta = dgamma + n;
    memset(dgamma, 0, 2 * (size_t)n * sizeof *dgamma);
    for (int64_t r = chunk * j->grain; r < end; r++) {
        const float *dy = vvi_vec_view(room_of(j, slot, 0), &call->in[0], r * n, n);
        const float *x = vvi_vec_view(room_of(j, slot, 1), &call->in[1], r * n, n);
        const float mean = j->rms ? 0.0f : scalar(&call->in[3], r);
        const float rstd = scalar(&call->in[j->rms ? 3 : 4], r);
        const float a = j->rms ? 0.0f : (float)(vvi_row_dot(dy, j->vectors, n) / (double)n);
        const float b =
            (float)(vvi_row_product(dy, j->vectors, x, mean, n) / (double)n) * rstd * rstd;
        float *dx = out->dtype == VV_F32 ? (float *)out->data + r * n : room_of(j, slot, 2);
        vvi_row_norm_grad(dx, dy, x, j->vectors, mean, rstd, a, b, dgamma, dbeta, n);
        vvi_vec_store(out->dtype, out->data, r * n, dx, n);
    }
}

enum { COLUMNS = 256 };

/* Columns of dgamma, and of dbeta behind them. */
static int64_t merged(const job *j)
{
    return j->rms ? j->width : 2 * j->width;
}

/* Sums a block of columns over the chunks, in order. */
static void merge_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const int64_t begin = chunk * COLUMNS, n = vvi_min64(COLUMNS, merged(j) - begin);
    double total[COLUMNS] = {0.0};
    for (int64_t k = 0; k < j->chunks; k++)
        for (int64_t i = 0; i < n; i++)
            total[i] += (double)j->partial[k * 2 * j->width + begin + i];
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = begin + i, which = at >= j->width;
        const vv_buf *out = &j->call->out[1 + which];
        const float value = (float)total[i];
        vvi_vec_store(out->dtype, out->data, at - which * j->width, &value, 1);
    }
}

static vv_status run_grad(const vv_call *call)
{
    job j = job_of(call, (int)(intptr_t)call->state, call->scratch);
    vvi_vec_load(j.vectors, call->in[2].dtype, call->in[2].data, 0, j.width);
    vvi_cpu_for(j.chunks, j.slots, grad_chunk, &j);
    vvi_cpu_for(vvi_chunks(merged(&j), COLUMNS), j.slots, merge_chunk, &j);
    return VV_OK;
}

const vv_kernel vvi_cpu_layer_norm[] = {
    {"vector", accepts, prepare, run, NULL, 1},
    {0},
};
const vv_kernel vvi_cpu_layer_norm_grad[] = {
    {"vector", accepts, prepare, run_grad, NULL, 3},
    {0},
};
const vv_kernel vvi_cpu_rms_norm[] = {
    {"vector", accepts, prepare, run, NULL, 1},
    {0},
};
const vv_kernel vvi_cpu_rms_norm_grad[] = {
    {"vector", accepts, prepare, run_grad, NULL, 3},
    {0},
};
