/* cpu_shape.c - ops that move elements: slices, concatenation, padding, broadcasting. Rows are
 * copied whole; the pieces are shared out among the threads. */
#include "backend/cpu/broadcast.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"

#include <string.h>

static int64_t span(const vv_buf *buf, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        n *= buf->shape[d];
    return n;
}

static bool accepts_same(const vv_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i].dtype != call->out[0].dtype)
            return false;
    return true;
}

/* A job of equal items: item i copies `bytes` from src(i) to dst(i). */
typedef struct copy_job {
    const vv_call *call;
    int64_t items, grain;
    void (*copy)(const struct copy_job *job, int64_t item);
    int64_t size, inner, count, start, step, length; /* meaning by op; in bytes where named size */
} copy_job;

static void copy_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const copy_job *job = ctx;
    const int64_t end = vvi_min64((chunk + 1) * job->grain, job->items);
    for (int64_t i = chunk * job->grain; i < end; i++)
        job->copy(job, i);
}

static void run_copy(copy_job *job, int64_t elements_per_item)
{
    job->grain = vvi_row_grain(elements_per_item);
    vvi_cpu_for(vvi_chunks(job->items, job->grain), 0, copy_chunk, job);
}

/* ---- slice ---- */

/* Item = one index of the axes before the sliced one; `count` rows of `inner` bytes are taken. */
static void take_rows(const copy_job *job, int64_t item)
{
    const char *src = job->call->in[0].data;
    char *dst = job->call->out[0].data;
    src += (item * job->length + job->start) * job->inner;
    dst += item * job->count * job->inner;
    if (job->step == 1) {
        memcpy(dst, src, (size_t)(job->count * job->inner));
        return;
    }
    for (int64_t k = 0; k < job->count; k++)
        memcpy(dst + k * job->inner, src + k * job->step * job->inner, (size_t)job->inner);
}

static void put_rows(const copy_job *job, int64_t item)
{
    const char *src = job->call->in[0].data;
    char *dst = job->call->out[0].data;
    dst += item * job->length * job->inner;
    src += item * job->count * job->inner;
    memset(dst, 0, (size_t)(job->length * job->inner));
    dst += job->start * job->inner;
    for (int64_t k = 0; k < job->count; k++)
        memcpy(dst + k * job->step * job->inner, src + k * job->inner, (size_t)job->inner);
}

static vv_status run_slice_like(const vv_call *call, const vv_buf *whole, const vv_buf *part,
                                bool take)
{
    const int axis = (int)call->attr->slice.axis;
    copy_job job = {
        .call = call, .items = span(whole, 0, axis), .copy = take ? take_rows : put_rows};
    job.inner = span(whole, axis + 1, whole->ndim) * (int64_t)vv_dtype_size(whole->dtype);
    job.count = part->shape[axis];
    job.length = whole->shape[axis];
    job.start = call->attr->slice.start;
    job.step = call->attr->slice.step;
    run_copy(&job, (take ? part : whole)->count / vvi_max64(job.items, 1));
    return VV_OK;
}

static vv_status run_slice(const vv_call *call)
{
    return run_slice_like(call, &call->in[0], &call->out[0], true);
}

static vv_status run_slice_grad(const vv_call *call)
{
    return run_slice_like(call, &call->out[0], &call->in[0], false);
}

/* ---- concat ---- */

static void concat_item(const copy_job *job, int64_t item)
{
    const vv_call *call = job->call;
    char *dst = (char *)call->out[0].data + item * job->size;
    for (int i = 0; i < call->n_in; i++) {
        const int64_t row = call->in[i].count / job->items * job->inner;
        if (row > 0)
            memcpy(dst, (const char *)call->in[i].data + item * row, (size_t)row);
        dst += row;
    }
}

static vv_status run_concat(const vv_call *call)
{
    const vv_buf *out = &call->out[0];
    const int axis = (int)call->attr->axis.axis;
    copy_job job = {.call = call, .items = span(out, 0, axis), .copy = concat_item};
    if (out->count == 0)
        return VV_OK;
    job.inner = (int64_t)vv_dtype_size(out->dtype);
    job.size = out->count / job.items * job.inner;
    run_copy(&job, out->count / job.items);
    return VV_OK;
}

/* ---- pad: item = one row of the last axis ---- */

static bool accepts_pad(const vv_call *call)
{
    return accepts_same(call) && call->in[0].ndim > 0 &&
           (vvi_is_vec_float(call->out[0].dtype) || call->attr->pad.value == 0.0);
}

static void fill(const vv_buf *buf, int64_t at, int64_t n, double value)
{
    if (buf->dtype == VV_F32) {
        vvi_vec_fill((float *)buf->data + at, (float)value, n);
    } else if (buf->dtype == VV_BF16) {
        uint16_t *to = (uint16_t *)buf->data + at;
        const uint16_t half = vv_f32_to_bf16((float)value);
        for (int64_t i = 0; i < n; i++)
            to[i] = half;
    } else {
        const size_t size = vv_dtype_size(buf->dtype);
        memset((char *)buf->data + (size_t)at * size, 0, (size_t)n * size);
    }
}

static void pad_row(const copy_job *job, int64_t item)
{
    const vv_buf *x = &job->call->in[0], *out = &job->call->out[0];
    const int64_t *before = job->call->attr->pad.before;
    const int last = out->ndim - 1;
    const int64_t length = out->shape[last], own = x->shape[last];
    int64_t rest = item, row = 0, stride = 1;
    bool inside = own > 0;
    for (int d = last - 1; d >= 0; d--) {
        const int64_t p = rest % out->shape[d] - before[d];
        inside = inside && p >= 0 && p < x->shape[d];
        row += p * stride;
        stride *= x->shape[d];
        rest /= out->shape[d];
    }
    const int64_t at = item * length;
    if (!inside) {
        fill(out, at, length, job->call->attr->pad.value);
        return;
    }
    fill(out, at, before[last], job->call->attr->pad.value);
    memcpy((char *)out->data + (at + before[last]) * job->size,
           (const char *)x->data + row * own * job->size, (size_t)(own * job->size));
    fill(out, at + before[last] + own, length - before[last] - own, job->call->attr->pad.value);
}

static vv_status run_pad(const vv_call *call)
{
    const vv_buf *out = &call->out[0];
    if (out->count == 0)
        return VV_OK;
    copy_job job = {.call = call, .copy = pad_row, .size = (int64_t)vv_dtype_size(out->dtype)};
    job.items = out->count / out->shape[out->ndim - 1];
    run_copy(&job, out->shape[out->ndim - 1]);
    return VV_OK;
}

/* ---- broadcast: through f32, which holds every value of the accepted types ---- */

typedef struct broadcast_job {
    const vv_call *call;
    vvi_broadcast how;
} broadcast_job;

enum { BLOCK = 2048, GRAIN = 32768 };

static bool accepts_broadcast(const vv_call *call)
{
    vvi_broadcast how;
    const vv_dtype dtype = call->out[0].dtype;
    return accepts_same(call) && (vvi_is_vec_float(dtype) || dtype == VV_U8 || dtype == VV_BOOL) &&
           vvi_broadcast_make(&how, &call->in[0], &call->out[0]);
}

static void broadcast_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const broadcast_job *job = ctx;
    const vv_buf *x = &job->call->in[0], *out = &job->call->out[0];
    const int64_t end = vvi_min64((chunk + 1) * GRAIN, out->count);
    float room[BLOCK];
    for (int64_t at = chunk * GRAIN; at < end; at += BLOCK) {
        const int64_t n = vvi_min64(BLOCK, end - at);
        float *to = out->dtype == VV_F32 ? (float *)out->data + at : room;
        vvi_broadcast_load(&job->how, to, x, at, n);
        vvi_vec_store(out->dtype, out->data, at, to, n);
    }
}

static vv_status run_broadcast(const vv_call *call)
{
    broadcast_job job = {.call = call};
    vvi_broadcast_make(&job.how, &call->in[0], &call->out[0]);
    vvi_cpu_for(vvi_chunks(call->out[0].count, GRAIN), 0, broadcast_chunk, &job);
    return VV_OK;
}

const vv_kernel vvi_cpu_slice[] = {{"rows", accepts_same, NULL, run_slice, NULL, 0}, {0}};
const vv_kernel vvi_cpu_slice_grad[] = {{"rows", accepts_same, NULL, run_slice_grad, NULL, 0}, {0}};
const vv_kernel vvi_cpu_concat[] = {{"rows", accepts_same, NULL, run_concat, NULL, 0}, {0}};
const vv_kernel vvi_cpu_pad[] = {{"rows", accepts_pad, NULL, run_pad, NULL, 0}, {0}};
const vv_kernel vvi_cpu_broadcast[] = {{"rows", accepts_broadcast, NULL, run_broadcast, NULL, 0},
                                       {0}};
