/* cpu_pool.c - maximum and average pooling, fixed and adaptive windows, NHWC, vectors of channels.
 *
 * Forward: rows of output pixels in parallel. Gradient: images in parallel, windows of an image in
 * order. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"
#include "backend/cpu/vec_pool.h"

#include <math.h>
#include <string.h>

typedef struct window {
    int64_t from[2], to[2];
    float share; /* 1 / area */
} window;

typedef struct job {
    const vv_call *call;
    const vv_buf *x, *y; /* shapes of the unpooled and the pooled side */
    bool max, fixed;
    int64_t channels, grain;
    int slots;
    char *rooms;
    size_t slot_bytes;
} job;

static bool is_grad(vv_op op)
{
    return op == VV_OP_POOL_GRAD || op == VV_OP_ADAPTIVE_POOL_GRAD;
}

static size_t slot_bytes_of(const vv_call *call)
{
    const vv_buf *big = is_grad(call->op) ? &call->out[0] : &call->in[0];
    const size_t channels = (size_t)big->shape[3];
    size_t bytes = 4 * vvi_align64(channels * sizeof(float));
    if (is_grad(call->op) && big->dtype != VV_F32)
        bytes += vvi_align64((size_t)(big->shape[1] * big->shape[2]) * channels * sizeof(float));
    return bytes;
}

static job job_of(const vv_call *call)
{
    const bool grad = is_grad(call->op);
    job j = {.call = call, .slots = (int)(intptr_t)call->state, .rooms = call->scratch};
    j.x = grad ? &call->out[0] : &call->in[0];
    j.y = grad ? &call->in[0] : &call->out[0];
    j.fixed = call->op == VV_OP_POOL || call->op == VV_OP_POOL_GRAD;
    j.max = j.fixed ? call->attr->pool.max != 0 : call->attr->adaptive_pool.max != 0;
    j.channels = j.x->shape[3];
    j.slot_bytes = slot_bytes_of(call);
    return j;
}

static bool accepts(const vv_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i].count > 0 && !vvi_is_vec_float(call->in[i].dtype))
            return false;
    return vvi_is_vec_float(call->out[0].dtype) && call->out[0].count > 0 && call->in[0].count > 0;
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const int slots = vv_threads();
    *state = (void *)(intptr_t)slots;
    *scratch_bytes = (size_t)slots * slot_bytes_of(call);
    return VV_OK;
}

/* Padding counts up to size + pad: what ceil mode adds beyond it does not. */
static window window_of(const job *j, int64_t oy, int64_t ox)
{
    const int64_t out[2] = {oy, ox};
    window w;
    int64_t area = 1;
    for (int i = 0; i < 2; i++) {
        const int64_t size = j->x->shape[1 + i], outs = j->y->shape[1 + i];
        if (!j->fixed) {
            w.from[i] = out[i] * size / outs;
            w.to[i] = ((out[i] + 1) * size + outs - 1) / outs;
            area *= w.to[i] - w.from[i];
            continue;
        }
        const int64_t pad = j->call->attr->pool.pad[i];
        const int64_t from = out[i] * j->call->attr->pool.stride[i] - pad;
        const int64_t end = from + j->call->attr->pool.kernel[i];
        w.from[i] = vvi_max64(from, 0);
        w.to[i] = vvi_min64(end, size);
        area *= j->call->attr->pool.include_pad ? vvi_min64(end, size + pad) - from
                                                : w.to[i] - w.from[i];
    }
    w.share = 1.0f / (float)area;
    return w;
}

static int64_t pixel(const vv_buf *image, int64_t n, int64_t h, int64_t w)
{
    return ((n * image->shape[1] + h) * image->shape[2] + w) * image->shape[3];
}

static float *room_of(const job *j, int slot, int which)
{
    char *base = j->rooms + (size_t)slot * j->slot_bytes;
    return (float *)(void *)(base +
                             (size_t)which * vvi_align64((size_t)j->channels * sizeof(float)));
}

/* ---- forward ---- */

static void pool_pixel(const job *j, int slot, int64_t n, const window *w, float *y)
{
    const int64_t c = j->channels;
    vvi_vec_fill(y, j->max ? -INFINITY : 0.0f, c);
    for (int64_t h = w->from[0]; h < w->to[0]; h++)
        for (int64_t v = w->from[1]; v < w->to[1]; v++) {
            const float *x = vvi_vec_view(room_of(j, slot, 0), j->x, pixel(j->x, n, h, v), c);
            if (j->max)
                vvi_pool_max(y, x, c);
            else
                vvi_vec_add(y, x, c);
        }
    if (!j->max)
        vvi_vec_scale(y, y, w->share, c);
}

static void forward_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const vv_buf *y = j->y;
    const int64_t rows = y->shape[0] * y->shape[1], end = vvi_min64((chunk + 1) * j->grain, rows);
    for (int64_t r = chunk * j->grain; r < end; r++)
        for (int64_t ox = 0; ox < y->shape[2]; ox++) {
            const window w = window_of(j, r % y->shape[1], ox);
            const int64_t at = (r * y->shape[2] + ox) * j->channels;
            float *to = y->dtype == VV_F32 ? (float *)y->data + at : room_of(j, slot, 1);
            pool_pixel(j, slot, r / y->shape[1], &w, to);
            vvi_vec_store(y->dtype, y->data, at, to, j->channels);
        }
}

static vv_status run(const vv_call *call)
{
    job j = job_of(call);
    const int64_t rows = j.y->shape[0] * j.y->shape[1];
    j.grain = vvi_row_grain(j.x->count / rows);
    vvi_cpu_for(vvi_chunks(rows, j.grain), j.slots, forward_chunk, &j);
    return VV_OK;
}

/* ---- gradient ---- */

static void spread_max(const job *j, int slot, int64_t n, const window *w, const float *dy,
                       float *dx)
{
    const int64_t c = j->channels;
    const vv_buf *x = &j->call->in[1];
    float *best = room_of(j, slot, 1), *view = room_of(j, slot, 2);
    int32_t *which = (int32_t *)(void *)room_of(j, slot, 3);
    vvi_vec_load(best, x->dtype, x->data, pixel(x, n, w->from[0], w->from[1]), c);
    memset(which, 0, (size_t)c * sizeof *which);
    int32_t place = 0;
    for (int64_t h = w->from[0]; h < w->to[0]; h++)
        for (int64_t v = w->from[1]; v < w->to[1]; v++)
            vvi_pool_argmax(best, which, vvi_vec_view(view, x, pixel(x, n, h, v), c), place++, c);
    place = 0;
    for (int64_t h = w->from[0]; h < w->to[0]; h++)
        for (int64_t v = w->from[1]; v < w->to[1]; v++)
            vvi_pool_scatter(dx + pixel(x, 0, h, v), dy, which, place++, c);
}

static void spread_average(const job *j, const window *w, const float *dy, float *dx)
{
    for (int64_t h = w->from[0]; h < w->to[0]; h++)
        for (int64_t v = w->from[1]; v < w->to[1]; v++)
            vvi_pool_axpy(dx + pixel(j->x, 0, h, v), dy, w->share, j->channels);
}

static void grad_image(void *ctx, int64_t n, int slot)
{
    const job *j = ctx;
    const vv_buf *out = &j->call->out[0], *dy = j->y;
    const int64_t size = out->shape[1] * out->shape[2] * out->shape[3];
    float *dx = out->dtype == VV_F32 ? (float *)out->data + n * size : room_of(j, slot, 4);
    memset(dx, 0, (size_t)size * sizeof *dx);
    for (int64_t oy = 0; oy < dy->shape[1]; oy++)
        for (int64_t ox = 0; ox < dy->shape[2]; ox++) {
            const window w = window_of(j, oy, ox);
            const float *g =
                vvi_vec_view(room_of(j, slot, 0), dy, pixel(dy, n, oy, ox), j->channels);
            if (j->max)
                spread_max(j, slot, n, &w, g, dx);
            else
                spread_average(j, &w, g, dx);
        }
    vvi_vec_store(out->dtype, out->data, n * size, dx, size);
}

static vv_status run_grad(const vv_call *call)
{
    job j = job_of(call);
    vvi_cpu_for(j.x->shape[0], j.slots, grad_image, &j);
    return VV_OK;
}

const vv_kernel vvi_cpu_pool[] = {{"vector", accepts, prepare, run, NULL, 0}, {0}};
const vv_kernel vvi_cpu_pool_grad[] = {{"vector", accepts, prepare, run_grad, NULL, 0}, {0}};
const vv_kernel vvi_cpu_adaptive_pool[] = {{"vector", accepts, prepare, run, NULL, 0}, {0}};
const vv_kernel vvi_cpu_adaptive_pool_grad[] = {{"vector", accepts, prepare, run_grad, NULL, 0},
                                                {0}};
