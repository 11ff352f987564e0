/* cpu_random.c - dropout, uniform numbers, constants and accumulation.
 *
 * Draws are those of vv_random_element. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"
#include "backend/cpu/vec_random.h"

#include <string.h>

enum { BLOCK = 2048, CHUNK = 32768 };

enum { NUMBERS = BLOCK + 2 * VVI_DRAWS };

/* Draws of elements first .. first + n. room holds NUMBERS numbers; the result lies within. */
static const float *draws(const vvi_philox *p, uint64_t first, int64_t n, float *room)
{
    const uint64_t block = first / 4, skip = first % 4;
    for (int64_t at = 0; at < n + (int64_t)skip; at += VVI_DRAWS)
        vvi_vec_draws(p, block + (uint64_t)at / 4, VVI_DRAW_BLOCKS, 0, room + at);
    return room + skip;
}

VVI_CLONES static void keep(float *y, const float *x, const float *u, float p, float scale,
                            int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i] * scale;
        y[i] = u[i] >= p ? v : 0.0f;
    }
}

typedef struct job {
    const vv_call *call;
    vvi_philox p;
    uint64_t first;
    float limit, scale;
} job;

static job job_of(const vv_call *call)
{
    const vv_buf *out = &call->out[0];
    int64_t row = out->ndim > 0 ? 1 : 0;
    for (int d = 1; d < out->ndim; d++)
        row *= out->shape[d];
    job j = {call, vvi_philox_of(call->seed, call->step, (uint64_t)call->attr->random.id),
             (uint64_t)(call->first_item * row), 0.0f, 1.0f};
    j.limit = vvi_draw_limit(call->attr->random.p);
    j.scale = (float)(1.0 / (1.0 - call->attr->random.p));
    return j;
}

static bool accepts_dropout(const vv_call *call)
{
    return vvi_is_vec_float(call->in[0].dtype) && vvi_is_vec_float(call->out[0].dtype) &&
           call->attr->random.p >= 0.0 && call->attr->random.p < 1.0;
}

static void dropout_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const vv_buf *x = &j->call->in[0], *out = &j->call->out[0];
    const int64_t end = vvi_min64((chunk + 1) * CHUNK, out->count);
    float numbers[NUMBERS], room[BLOCK];
    for (int64_t at = chunk * CHUNK; at < end; at += BLOCK) {
        const int64_t n = vvi_min64(BLOCK, end - at);
        const float *u = draws(&j->p, j->first + (uint64_t)at, n, numbers);
        float *y = out->dtype == VV_F32 ? (float *)out->data + at : room;
        keep(y, vvi_vec_view(room, x, at, n), u, j->limit, j->scale, n);
        vvi_vec_store(out->dtype, out->data, at, y, n);
    }
}

static vv_status run_dropout(const vv_call *call)
{
    job j = job_of(call);
    vvi_cpu_for(vvi_chunks(call->out[0].count, CHUNK), 0, dropout_chunk, &j);
    return VV_OK;
}

static bool accepts_uniform(const vv_call *call)
{
    return call->attr->random.kind == 0 && vvi_is_vec_float(call->out[0].dtype);
}

static void uniform_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const vv_buf *out = &j->call->out[0];
    const int64_t end = vvi_min64((chunk + 1) * CHUNK, out->count);
    float numbers[NUMBERS];
    for (int64_t at = chunk * CHUNK; at < end; at += BLOCK) {
        const int64_t n = vvi_min64(BLOCK, end - at);
        vvi_vec_store(out->dtype, out->data, at, draws(&j->p, j->first + (uint64_t)at, n, numbers),
                      n);
    }
}

static vv_status run_uniform(const vv_call *call)
{
    job j = job_of(call);
    vvi_cpu_for(vvi_chunks(call->out[0].count, CHUNK), 0, uniform_chunk, &j);
    return VV_OK;
}

/* ---- constants ---- */

static bool accepts_full(const vv_call *call)
{
    return call->out[0].dtype != VV_F64;
}

static void full_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const vv_call *call = ctx;
    const vv_buf *out = &call->out[0];
    const size_t size = vv_dtype_size(out->dtype);
    const int64_t begin = chunk * CHUNK, n = vvi_min64(CHUNK, out->count - begin);
    char *to = (char *)out->data + (size_t)begin * size;
    if (call->attr->full.value == 0.0 || size == 1) {
        const int byte = out->dtype == VV_BOOL ? call->attr->full.value != 0.0
                                               : (int)(uint8_t)call->attr->full.value;
        memset(to, byte, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        switch (out->dtype) {
        case VV_F32: ((float *)(void *)to)[i] = (float)call->attr->full.value; break;
        case VV_BF16:
            ((uint16_t *)(void *)to)[i] = vv_f32_to_bf16((float)call->attr->full.value);
            break;
        case VV_I32: ((int32_t *)(void *)to)[i] = (int32_t)call->attr->full.value; break;
        default: ((int64_t *)(void *)to)[i] = (int64_t)call->attr->full.value; break;
        }
    }
}

static vv_status run_full(const vv_call *call)
{
    vv_call copy = *call;
    vvi_cpu_for(vvi_chunks(call->out[0].count, CHUNK), 0, full_chunk, &copy);
    return VV_OK;
}

/* ---- accumulate ---- */

static bool accepts_accumulate(const vv_call *call)
{
    return vvi_is_vec_float(call->in[0].dtype) && vvi_is_vec_float(call->out[0].dtype);
}

static void accumulate_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const vv_call *call = ctx;
    const vv_buf *x = &call->in[0], *out = &call->out[0];
    const int64_t end = vvi_min64((chunk + 1) * CHUNK, out->count);
    float room[BLOCK], sums[BLOCK];
    for (int64_t at = chunk * CHUNK; at < end; at += BLOCK) {
        const int64_t n = vvi_min64(BLOCK, end - at);
        float *to = out->dtype == VV_F32 ? (float *)out->data + at : sums;
        if (to == sums)
            vvi_vec_load(sums, out->dtype, out->data, at, n);
        vvi_vec_add(to, vvi_vec_view(room, x, at, n), n);
        vvi_vec_store(out->dtype, out->data, at, to, n);
    }
}

static vv_status run_accumulate(const vv_call *call)
{
    vv_call copy = *call;
    vvi_cpu_for(vvi_chunks(call->out[0].count, CHUNK), 0, accumulate_chunk, &copy);
    return VV_OK;
}

const vv_kernel vvi_cpu_dropout[] = {{"vector", accepts_dropout, NULL, run_dropout, NULL, 1}, {0}};
const vv_kernel vvi_cpu_random[] = {{"vector", accepts_uniform, NULL, run_uniform, NULL, 0}, {0}};
const vv_kernel vvi_cpu_full[] = {{"vector", accepts_full, NULL, run_full, NULL, 0}, {0}};
const vv_kernel vvi_cpu_accumulate[] = {
    {"vector", accepts_accumulate, NULL, run_accumulate, NULL, 0}, {0}};
