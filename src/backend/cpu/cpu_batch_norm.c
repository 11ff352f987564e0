/* cpu_batch_norm.c - batch norm with its residual and relu, and its gradient.
 *
 * Rows of channels are cut into chunks of fixed size. Each chunk sums its columns in f32 about its
 * own first row, so that a large mean does not eat the variance; chunks are merged in order, in
 * double (Chan, Golub & LeVeque, "Updating formulae and a pairwise algorithm for computing sample
 * variances", 1979). Few channels are folded: several rows side by side count as one wide row. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"
#include "backend/cpu/vec_columns.h"

#include <math.h>
#include <string.h>

enum { MIN_WIDTH = 64, BLOCK = 4096, ROOMS = 3, COEFFICIENTS = 4 };

/* How x [rows, channels] is walked: `fold` rows make one of `width` columns. */
typedef struct plan {
    int64_t channels, rows, fold, width, wide_rows, chunk_rows, chunks, block_rows;
    int slots;
    float *partial;      /* [chunks][3][width]: shift, sum, second sum */
    float *coefficients; /* [COEFFICIENTS][width] */
    float *rooms;        /* [slots][ROOMS][block] */
} plan;

static plan plan_of(const vv_buf *x, int slots, void *scratch)
{
    plan p = {.channels = x->shape[x->ndim - 1], .fold = 1, .slots = slots};
    p.rows = x->count / p.channels;
    while (p.channels * p.fold < MIN_WIDTH && p.rows % (2 * p.fold) == 0)
        p.fold *= 2;
    p.width = p.channels * p.fold;
    p.wide_rows = p.rows / p.fold;
    p.chunk_rows = vvi_row_grain(p.width);
    p.chunks = vvi_chunks(p.wide_rows, p.chunk_rows);
    p.block_rows = vvi_max64(4, BLOCK / p.width / 4 * 4);
    p.coefficients = scratch;
    p.partial = p.coefficients + COEFFICIENTS * p.width;
    p.rooms = p.partial + p.chunks * 3 * p.width;
    return p;
}

static float *room_of(const plan *p, int slot, int which)
{
    return p->rooms + ((int64_t)slot * ROOMS + which) * p->block_rows * p->width;
}

static bool accepts(const vv_call *call)
{
    const vv_buf *x = &call->in[call->op == VV_OP_BATCH_NORM ? 0 : 1];
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i].count > 0 && !vvi_is_vec_float(call->in[i].dtype))
            return false;
    for (int i = 0; i < call->n_out; i++)
        if (call->out[i].count > 0 && !vvi_is_vec_float(call->out[i].dtype))
            return false;
    return x->count > 0;
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const int slots = vv_threads();
    const plan p = plan_of(&call->out[0], slots, NULL);
    *state = (void *)(intptr_t)slots;
    *scratch_bytes = (size_t)((COEFFICIENTS + p.chunks * 3) * p.width +
                              (int64_t)slots * ROOMS * p.block_rows * p.width) * sizeof(float);
    return VV_OK;
}

typedef struct job {
    const vv_call *call;
    plan p;
} job;

static plan plan_of_call(const vv_call *call)
{
    return plan_of(&call->out[0], (int)(intptr_t)call->state, call->scratch);
}

static float coefficient(const vv_buf *buf, int64_t i)
{
    float value;
    vvi_vec_load(&value, buf->dtype, buf->data, i, 1);
    return value;
}

/* ---- forward ---- */

static void moments_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const plan *p = &j->p;
    const vv_buf *x = &j->call->in[0];
    const int64_t begin = chunk * p->chunk_rows,
                  end = vvi_min64(begin + p->chunk_rows, p->wide_rows);
    float *shift = p->partial + chunk * 3 * p->width, *sum = shift + p->width;
    vvi_vec_load(shift, x->dtype, x->data, begin * p->width, p->width);
    memset(sum, 0, 2 * (size_t)p->width * sizeof *sum);
    for (int64_t r = begin; r < end; r += p->block_rows) {
        const int64_t n = vvi_min64(p->block_rows, end - r);
        const float *v = vvi_vec_view(room_of(p, slot, 0), x, r * p->width, n * p->width);
        vvi_col_moments(sum, sum + p->width, v, shift, n, p->width);
    }
}

/* Mean and biased variance of channel c out of the chunks. */
static void merge_moments(const plan *p, int64_t c, double *mean, double *variance)
{
    double count = 0.0, m = 0.0, square = 0.0;
    for (int64_t chunk = 0; chunk < p->chunks; chunk++) {
        const int64_t rows = vvi_min64(p->chunk_rows, p->wide_rows - chunk * p->chunk_rows);
        const float *part = p->partial + chunk * 3 * p->width;
        for (int64_t f = 0; f < p->fold; f++) {
            const int64_t i = f * p->channels + c;
            const double n = (double)rows, s = (double)part[p->width + i];
            const double own = (double)part[i] + s / n, delta = own - m;
            square += (double)part[2 * p->width + i] - s * s / n +
                      delta * delta * count * n / (count + n);
            count += n;
            m += delta * n / count;
        }
    }
    *mean = m;
    *variance = square > 0.0 || square != square ? square / count : 0.0;
}

static void spread_fold(const plan *p, float *row)
{
    for (int64_t f = 1; f < p->fold; f++)
        memcpy(row + f * p->channels, row, (size_t)p->channels * sizeof *row);
}

enum { STATS_GRAIN = 16 };

static void finish_moments(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const plan *p = &j->p;
    const vv_call *call = j->call;
    float *mean = p->coefficients, *scale = mean + p->width, *shift = scale + p->width;
    const int64_t end = vvi_min64((chunk + 1) * STATS_GRAIN, p->channels);
    for (int64_t c = chunk * STATS_GRAIN; c < end; c++) {
        double m, v;
        merge_moments(p, c, &m, &v);
        mean[c] = (float)m;
        scale[c] = (float)(1.0 / sqrt(v + call->attr->norm.eps)) * coefficient(&call->in[1], c);
        /* with what rounding the mean lost: it counts where the variance is tiny */
        shift[c] = coefficient(&call->in[2], c) - (float)((m - (double)mean[c]) * (double)scale[c]);
        const float variance = (float)v;
        vvi_vec_store(call->out[1].dtype, call->out[1].data, c, &mean[c], 1);
        vvi_vec_store(call->out[2].dtype, call->out[2].data, c, &variance, 1);
    }
}

static void apply_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const plan *p = &j->p;
    const vv_call *call = j->call;
    const vv_buf *out = &call->out[0];
    const bool residual = call->attr->norm.residual && call->n_in > 3 && call->in[3].count > 0;
    const float *mean = p->coefficients, *scale = mean + p->width, *shift = scale + p->width;
    const int64_t begin = chunk * p->chunk_rows,
                  end = vvi_min64(begin + p->chunk_rows, p->wide_rows);
    for (int64_t r = begin; r < end; r += p->block_rows) {
        const int64_t n = vvi_min64(p->block_rows, end - r), at = r * p->width,
                      count = n * p->width;
        const float *x = vvi_vec_view(room_of(p, slot, 0), &call->in[0], at, count);
        const float *add =
            residual ? vvi_vec_view(room_of(p, slot, 1), &call->in[3], at, count) : NULL;
        float *y = out->dtype == VV_F32 ? (float *)out->data + at : room_of(p, slot, 2);
        vvi_col_apply(y, x, add, call->attr->norm.relu, mean, scale, shift, n, p->width);
        vvi_vec_store(out->dtype, out->data, at, y, count);
    }
}

static vv_status run(const vv_call *call)
{
    job j = {call, plan_of_call(call)};
    const plan *p = &j.p;
    vvi_cpu_for(p->chunks, p->slots, moments_chunk, &j);
    vvi_cpu_for(vvi_chunks(p->channels, STATS_GRAIN), p->slots, finish_moments, &j);
    for (int i = 0; i < 3; i++)
        spread_fold(p, p->coefficients + i * p->width);
    vvi_cpu_for(p->chunks, p->slots, apply_chunk, &j);
    return VV_OK;
}

/* ---- gradient ---- */

/* dy of a block, through the relu if there is one. */
static const float *masked_dy(const job *j, int slot, int64_t at, int64_t count)
{
    const vv_call *call = j->call;
    float *room = room_of(&j->p, slot, 0);
    const float *dy = vvi_vec_view(room, &call->in[0], at, count);
    if (!call->attr->norm.relu)
        return dy;
    const float *y = vvi_vec_view(room_of(&j->p, slot, 2), &call->in[5], at, count);
    vvi_relu_mask(room, dy, y, count);
    return room;
}

static void grad_sums_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const plan *p = &j->p;
    const int64_t begin = chunk * p->chunk_rows,
                  end = vvi_min64(begin + p->chunk_rows, p->wide_rows);
    float *sum = p->partial + (chunk * 3 + 1) * p->width;
    memset(sum, 0, 2 * (size_t)p->width * sizeof *sum);
    for (int64_t r = begin; r < end; r += p->block_rows) {
        const int64_t n = vvi_min64(p->block_rows, end - r), at = r * p->width,
                      count = n * p->width;
        const float *dy = masked_dy(j, slot, at, count);
        const float *x = vvi_vec_view(room_of(p, slot, 1), &j->call->in[1], at, count);
        vvi_col_grad_sums(sum, sum + p->width, dy, x, p->coefficients, n, p->width);
    }
}

static void finish_grad_sums(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const plan *p = &j->p;
    const vv_call *call = j->call;
    float *a = p->coefficients + p->width, *b = a + p->width, *shift = b + p->width;
    const int64_t end = vvi_min64((chunk + 1) * STATS_GRAIN, p->channels);
    for (int64_t c = chunk * STATS_GRAIN; c < end; c++) {
        double sum = 0.0, product = 0.0;
        for (int64_t k = 0; k < p->chunks; k++)
            for (int64_t f = 0; f < p->fold; f++) {
                const float *part = p->partial + (k * 3 + 1) * p->width + f * p->channels + c;
                sum += (double)part[0];
                product += (double)part[p->width];
            }
        const double variance = (double)coefficient(&call->in[4], c);
        const double rstd = 1.0 / sqrt(variance + call->attr->norm.eps), rows = (double)p->rows;
        const double slope = rstd * (double)coefficient(&call->in[2], c);
        const float dgamma = (float)(product * rstd), dbeta = (float)sum;
        a[c] = (float)slope;
        b[c] = (float)(-slope * rstd * rstd * product / rows);
        shift[c] = (float)(-slope * sum / rows);
        vvi_vec_store(call->out[1].dtype, call->out[1].data, c, &dgamma, 1);
        vvi_vec_store(call->out[2].dtype, call->out[2].data, c, &dbeta, 1);
    }
}

static void apply_grad_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const plan *p = &j->p;
    const vv_call *call = j->call;
    const vv_buf *out = &call->out[0];
    const vv_buf *masked = call->n_out > 3 && call->out[3].data ? &call->out[3] : NULL;
    const float *mean = p->coefficients, *a = mean + p->width, *b = a + p->width, *c = b + p->width;
    const int64_t begin = chunk * p->chunk_rows,
                  end = vvi_min64(begin + p->chunk_rows, p->wide_rows);
    for (int64_t r = begin; r < end; r += p->block_rows) {
        const int64_t n = vvi_min64(p->block_rows, end - r), at = r * p->width,
                      count = n * p->width;
        const float *dy = masked_dy(j, slot, at, count);
        const float *x = vvi_vec_view(room_of(p, slot, 1), &call->in[1], at, count);
        if (masked)
            vvi_vec_store(masked->dtype, masked->data, at, dy, count);
        float *dx = out->dtype == VV_F32 ? (float *)out->data + at : room_of(p, slot, 2);
        vvi_col_apply_grad(dx, dy, x, mean, a, b, c, n, p->width);
        vvi_vec_store(out->dtype, out->data, at, dx, count);
    }
}

static vv_status run_grad(const vv_call *call)
{
    job j = {call, plan_of_call(call)};
    const plan *p = &j.p;
    vvi_vec_load(p->coefficients, call->in[3].dtype, call->in[3].data, 0, p->channels);
    spread_fold(p, p->coefficients);
    vvi_cpu_for(p->chunks, p->slots, grad_sums_chunk, &j);
    vvi_cpu_for(vvi_chunks(p->channels, STATS_GRAIN), p->slots, finish_grad_sums, &j);
    for (int i = 1; i < 4; i++)
        spread_fold(p, p->coefficients + i * p->width);
    vvi_cpu_for(p->chunks, p->slots, apply_grad_chunk, &j);
    return VV_OK;
}

const vv_kernel vvi_cpu_batch_norm[] = {
    {"vector", accepts, prepare, run, NULL, 1u << 0 | 1u << 3},
    {0},
};
const vv_kernel vvi_cpu_batch_norm_grad[] = {
    {"vector", accepts, prepare, run_grad, NULL, 1u << 0 | 1u << 1 | 1u << 5},
    {0},
};
