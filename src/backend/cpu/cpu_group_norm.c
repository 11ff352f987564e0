/* cpu_group_norm.c - group norm: images in parallel; columns are summed, then gathered by group. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"
#include "backend/cpu/vec_columns.h"

#include <math.h>
#include <string.h>

enum { VECTORS = 7, ROOMS = 3, BLOCK = 4096 };

typedef struct job {
    const vv_call *call;
    int64_t images, pixels, groups, channels, block;
    int slots;
    float *gamma, *beta;
    float *vectors; /* [slots][VECTORS][channels] */
    float *rooms;   /* [slots][ROOMS][block * channels] */
    float *partial; /* gradient: [images][2][channels] */
} job;

static job job_of(const vv_call *call, int slots, void *scratch)
{
    const vv_buf *x = &call->out[0];
    job j = {.call = call, .images = x->shape[0], .groups = call->attr->norm.groups,
             .channels = x->shape[x->ndim - 1], .slots = slots};
    j.pixels = x->count / j.channels / j.images;
    j.block = vvi_max64(4, BLOCK / j.channels);
    j.gamma = scratch;
    j.beta = j.gamma + j.channels;
    j.vectors = j.beta + j.channels;
    j.rooms = j.vectors + (int64_t)slots * VECTORS * j.channels;
    j.partial = j.rooms + (int64_t)slots * ROOMS * j.block * j.channels;
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
    const int64_t partial = call->op == VV_OP_GROUP_NORM_GRAD ? 2 * j.images : 0;
    *state = (void *)(intptr_t)slots;
    *scratch_bytes =
        (size_t)((2 + partial + slots * (VECTORS + ROOMS * j.block)) * j.channels) * sizeof(float);
    return VV_OK;
}

static float *vector_of(const job *j, int slot, int which)
{
    return j->vectors + ((int64_t)slot * VECTORS + which) * j->channels;
}

static float *room_of(const job *j, int slot, int which)
{
    return j->rooms + ((int64_t)slot * ROOMS + which) * j->block * j->channels;
}

/* Moments of each column of image n about `shift`. */
static void column_moments(const job *j, int64_t n, int slot, const float *shift, float *sum,
                           float *square)
{
    memset(sum, 0, (size_t)j->channels * sizeof *sum);
    memset(square, 0, (size_t)j->channels * sizeof *square);
    for (int64_t p = 0; p < j->pixels; p += j->block) {
        const int64_t rows = vvi_min64(j->block, j->pixels - p);
        const float *x = vvi_vec_view(room_of(j, slot, 0), &j->call->in[0],
                                      (n * j->pixels + p) * j->channels, rows * j->channels);
        vvi_col_moments(sum, square, x, shift, rows, j->channels);
    }
}

static void store_statistic(const vv_buf *out, int64_t i, float value)
{
    vvi_vec_store(out->dtype, out->data, i, &value, 1);
}

/* Per-channel mean, scale and shift of one image. The second pass is about the group's mean. */
static void image_statistics(const job *j, int64_t n, int slot)
{
    const int64_t c = j->channels, width = c / j->groups;
    float *mean = vector_of(j, slot, 0), *scale = vector_of(j, slot, 1),
          *shift = vector_of(j, slot, 2);
    float *sum = vector_of(j, slot, 3), *square = vector_of(j, slot, 4);
    const double count = (double)(j->pixels * width);
    memset(mean, 0, (size_t)c * sizeof *mean);
    column_moments(j, n, slot, mean, sum, square);
    for (int64_t g = 0; g < j->groups; g++) {
        double total = 0.0;
        for (int64_t i = g * width; i < (g + 1) * width; i++)
            total += (double)sum[i];
        for (int64_t i = g * width; i < (g + 1) * width; i++)
            mean[i] = (float)(total / count);
    }
    column_moments(j, n, slot, mean, sum, square);
    for (int64_t g = 0; g < j->groups; g++) {
        double total = 0.0, rest = 0.0; /* rest: what rounding the mean left */
        for (int64_t i = g * width; i < (g + 1) * width; i++) {
            total += (double)square[i];
            rest += (double)sum[i];
        }
        const double variance = (total - rest * rest / count) / count;
        const float rstd = (float)(1.0 / sqrt(variance + j->call->attr->norm.eps));
        store_statistic(&j->call->out[1], n * j->groups + g, mean[g * width]);
        store_statistic(&j->call->out[2], n * j->groups + g, rstd);
        for (int64_t i = g * width; i < (g + 1) * width; i++) {
            scale[i] = rstd * j->gamma[i];
            shift[i] = j->beta[i];
        }
    }
}

static void forward_image(void *ctx, int64_t n, int slot)
{
    const job *j = ctx;
    const vv_call *call = j->call;
    const vv_buf *out = &call->out[0];
    image_statistics(j, n, slot);
    for (int64_t p = 0; p < j->pixels; p += j->block) {
        const int64_t rows = vvi_min64(j->block, j->pixels - p);
        const int64_t at = (n * j->pixels + p) * j->channels, count = rows * j->channels;
        const float *x = vvi_vec_view(room_of(j, slot, 0), &call->in[0], at, count);
        float *y = out->dtype == VV_F32 ? (float *)out->data + at : room_of(j, slot, 1);
        vvi_col_apply(y, x, NULL, false, vector_of(j, slot, 0), vector_of(j, slot, 1),
                      vector_of(j, slot, 2), rows, j->channels);
        vvi_vec_store(out->dtype, out->data, at, y, count);
    }
}

static vv_status run(const vv_call *call)
{
    job j = job_of(call, (int)(intptr_t)call->state, call->scratch);
    vvi_vec_load(j.gamma, call->in[1].dtype, call->in[1].data, 0, j.channels);
    vvi_vec_load(j.beta, call->in[2].dtype, call->in[2].data, 0, j.channels);
    vvi_cpu_for(j.images, j.slots, forward_image, &j);
    return VV_OK;
}

/* ---- gradient ---- */

static void grad_sums(const job *j, int64_t n, int slot, const float *mean, float *sum,
                      float *product)
{
    memset(sum, 0, (size_t)j->channels * sizeof *sum);
    memset(product, 0, (size_t)j->channels * sizeof *product);
    for (int64_t p = 0; p < j->pixels; p += j->block) {
        const int64_t rows = vvi_min64(j->block, j->pixels - p);
        const int64_t at = (n * j->pixels + p) * j->channels, count = rows * j->channels;
        const float *dy = vvi_vec_view(room_of(j, slot, 0), &j->call->in[0], at, count);
        const float *x = vvi_vec_view(room_of(j, slot, 1), &j->call->in[1], at, count);
        vvi_col_grad_sums(sum, product, dy, x, mean, rows, j->channels);
    }
}

static float statistic(const vv_buf *buf, int64_t i)
{
    float value;
    vvi_vec_load(&value, buf->dtype, buf->data, i, 1);
    return value;
}

/* Coefficients of dx = a dy + b (x - mean) + c, and this image's share of dgamma and dbeta. */
static void grad_coefficients(const job *j, int64_t n, int slot)
{
    const int64_t c = j->channels, width = c / j->groups;
    float *mean = vector_of(j, slot, 0), *a = vector_of(j, slot, 1), *b = vector_of(j, slot, 2);
    float *shift = vector_of(j, slot, 3), *sum = vector_of(j, slot, 4),
          *product = vector_of(j, slot, 5);
    float *dgamma = j->partial + n * 2 * c, *dbeta = dgamma + c;
    const double count = (double)(j->pixels * width);
    for (int64_t i = 0; i < c; i++)
        mean[i] = statistic(&j->call->in[3], n * j->groups + i / width);
    grad_sums(j, n, slot, mean, sum, product);
    for (int64_t g = 0; g < j->groups; g++) {
        const double rstd = (double)statistic(&j->call->in[4], n * j->groups + g);
        double s = 0.0, sz = 0.0;
        for (int64_t i = g * width; i < (g + 1) * width; i++) {
            s += (double)(sum[i] * j->gamma[i]);
            sz += (double)(product[i] * j->gamma[i]) * rstd;
        }
        for (int64_t i = g * width; i < (g + 1) * width; i++) {
            a[i] = (float)rstd * j->gamma[i];
            b[i] = (float)(-rstd * rstd * sz / count);
            shift[i] = (float)(-rstd * s / count);
            dgamma[i] = product[i] * (float)rstd;
            dbeta[i] = sum[i];
        }
    }
}

static void grad_image(void *ctx, int64_t n, int slot)
{
    const job *j = ctx;
    const vv_call *call = j->call;
    const vv_buf *out = &call->out[0];
    grad_coefficients(j, n, slot);
    for (int64_t p = 0; p < j->pixels; p += j->block) {
        const int64_t rows = vvi_min64(j->block, j->pixels - p);
        const int64_t at = (n * j->pixels + p) * j->channels, count = rows * j->channels;
        const float *dy = vvi_vec_view(room_of(j, slot, 0), &call->in[0], at, count);
        const float *x = vvi_vec_view(room_of(j, slot, 1), &call->in[1], at, count);
        float *dx = out->dtype == VV_F32 ? (float *)out->data + at : room_of(j, slot, 2);
        vvi_col_apply_grad(dx, dy, x, vector_of(j, slot, 0), vector_of(j, slot, 1),
                           vector_of(j, slot, 2), vector_of(j, slot, 3), rows, j->channels);
        vvi_vec_store(out->dtype, out->data, at, dx, count);
    }
}

static void merge_images(const job *j)
{
    for (int64_t i = 0; i < 2 * j->channels; i++) {
        double total = 0.0;
        for (int64_t n = 0; n < j->images; n++)
            total += (double)j->partial[n * 2 * j->channels + i];
        const int64_t which = i >= j->channels;
        store_statistic(&j->call->out[1 + which], i - which * j->channels, (float)total);
    }
}

static vv_status run_grad(const vv_call *call)
{
    job j = job_of(call, (int)(intptr_t)call->state, call->scratch);
    vvi_vec_load(j.gamma, call->in[2].dtype, call->in[2].data, 0, j.channels);
    vvi_cpu_for(j.images, j.slots, grad_image, &j);
    merge_images(&j);
    return VV_OK;
}

const vv_kernel vvi_cpu_group_norm[] = {
    {"vector", accepts, prepare, run, NULL, 1},
    {0},
};
const vv_kernel vvi_cpu_group_norm_grad[] = {
    {"vector", accepts, prepare, run_grad, NULL, 3},
    {0},
};
