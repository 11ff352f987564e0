/* cpu_rotary.c - rotary position embedding. Sines and cosines of a plan's positions are made once
 * and kept until the frequencies change. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

typedef struct table {
    int64_t length, half;
    int slots;
    bool filled;
    float *frequencies; /* [half], those the table was made for */
    float *cosines;     /* [length][half], sines behind them */
} table;

typedef struct job {
    const vv_call *call;
    const table *table;
    int64_t rows, grain; /* of heads */
    float *rooms;        /* [slots][2][width] for bf16 */
} job;

static bool accepts(const vv_call *call)
{
    return vvi_is_vec_float(call->in[0].dtype) && call->out[0].dtype == call->in[0].dtype &&
           call->in[1].dtype == VV_F32 && call->in[0].count > 0;
}

static void release(void *state)
{
    table *t = state;
    if (t) {
        vv_dealloc(t->frequencies);
        vv_dealloc(t->cosines);
    }
    vv_dealloc(t);
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const vv_buf *x = &call->in[0];
    vv_status status;
    table *t = NULL;
    VV_GO(vv_alloc(&t, sizeof *t));
    t->length = x->shape[1];
    t->half = x->shape[3] / 2;
    t->slots = vv_threads();
    VV_GO(vv_alloc_array(&t->frequencies, (size_t)t->half, sizeof *t->frequencies));
    VV_GO(vv_alloc_array(&t->cosines, 2 * (size_t)(t->length * t->half), sizeof *t->cosines));
    *scratch_bytes = x->dtype == VV_F32 ? 0 : 4 * (size_t)(t->slots * t->half) * sizeof(float);
    *state = t;
    return VV_OK;
out:
    release(t);
    return status;
}

/* Angles in double: far positions times a frequency lose their digits in float. */
static void fill_chunk(void *ctx, int64_t t, int slot)
{
    (void)slot;
    const job *j = ctx;
    const int64_t half = j->table->half;
    float *cosines = j->table->cosines + t * half, *sines = cosines + j->table->length * half;
    const double position = (double)(t + j->call->attr->rotary.offset);
    for (int64_t i = 0; i < half; i++) {
        const double angle = position * (double)j->table->frequencies[i];
        cosines[i] = (float)cos(angle);
        sines[i] = (float)(j->call->attr->rotary.inverse ? -sin(angle) : sin(angle));
    }
}

/* y may be x: each pair is read before it is written. */
VVI_CLONES static void turn(float *y, const float *x, const float *cosines, const float *sines,
                            int64_t half)
{
    VVI_SIMD
    for (int64_t i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half];
        y[i] = a * cosines[i] - b * sines[i];
        y[i + half] = a * sines[i] + b * cosines[i];
    }
}

static void turn_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const vv_buf *x = &j->call->in[0], *y = &j->call->out[0];
    const int64_t half = j->table->half, width = 2 * half, heads = x->shape[2];
    const int64_t end = vvi_min64((chunk + 1) * j->grain, j->rows);
    float *room = j->rooms + (int64_t)slot * 2 * width;
    for (int64_t r = chunk * j->grain; r < end; r++) {
        const float *cosines = j->table->cosines + r / heads % j->table->length * half;
        const float *from = vvi_vec_view(room, x, r * width, width);
        float *to = y->dtype == VV_F32 ? (float *)y->data + r * width : room + width;
        turn(to, from, cosines, cosines + j->table->length * half, half);
        if (y->dtype != VV_F32)
            vvi_vec_store(y->dtype, y->data, r * width, to, width);
    }
}

static vv_status run(const vv_call *call)
{
    table *t = call->state;
    job j = {.call = call, .table = t, .rows = call->in[0].count / (2 * t->half),
             .grain = vvi_row_grain(2 * t->half), .rooms = call->scratch};
    const size_t bytes = (size_t)t->half * sizeof(float);
    if (!t->filled || memcmp(t->frequencies, call->in[1].data, bytes) != 0) {
        memcpy(t->frequencies, call->in[1].data, bytes);
        vvi_cpu_for(t->length, t->slots, fill_chunk, &j);
        t->filled = true;
    }
    vvi_cpu_for(vvi_chunks(j.rows, j.grain), t->slots, turn_chunk, &j);
    return VV_OK;
}

const vv_kernel vvi_cpu_rotary[] = {
    {"vector", accepts, prepare, run, release, 1},
    {0},
};
