/* cpu_permute.c - transposition. Axes that stay neighbours are merged; what is left is copied in
 * runs if the last axis stays last, else in square tiles between the result's last axis and the
 * operand's. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"

#include <string.h>

enum { TILE = 32 };

typedef struct job {
    const char *src;
    char *dst;
    int64_t size;                 /* bytes of an element */
    int n;                        /* axes of the result, after merging */
    int64_t shape[VV_MAX_DIMS];   /* of the result */
    int64_t from[VV_MAX_DIMS];    /* operand stride of each, in elements */
    int64_t to[VV_MAX_DIMS];      /* result stride of each */
    int fast;                     /* result axis whose operand stride is 1 */
    int64_t grain, items;
} job;

static void merge_axes(job *j, const vv_call *call)
{
    const vv_buf *x = &call->in[0];
    int64_t stride[VV_MAX_DIMS];
    int64_t s = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        stride[d] = s;
        s *= x->shape[d];
    }
    int last_axis = -2;
    for (int d = 0; d < x->ndim; d++) {
        const int axis = (int)call->attr->permute.order[d];
        if (x->shape[axis] == 1)
            continue;
        bool follows = last_axis >= 0;
        for (int a = last_axis + 1; follows && a < axis; a++)
            follows = x->shape[a] == 1;
        if (follows && axis > last_axis) {
            j->shape[j->n - 1] *= x->shape[axis];
            j->from[j->n - 1] = stride[axis];
        } else {
            j->shape[j->n] = x->shape[axis];
            j->from[j->n++] = stride[axis];
        }
        last_axis = axis;
    }
    if (j->n == 0) {
        j->n = 1;
        j->shape[0] = j->from[0] = 1;
    }
    s = 1;
    for (int d = j->n - 1; d >= 0; d--) {
        j->to[d] = s;
        s *= j->shape[d];
        if (j->from[d] == 1)
            j->fast = d;
    }
}

/* Offsets of item `i` counted over all result axes but the `skip`ped ones. */
static void offsets(const job *j, int64_t i, int skip_a, int skip_b, int64_t *from, int64_t *to)
{
    *from = *to = 0;
    for (int d = j->n - 1; d >= 0; d--) {
        if (d == skip_a || d == skip_b)
            continue;
        const int64_t p = i % j->shape[d];
        i /= j->shape[d];
        *from += p * j->from[d];
        *to += p * j->to[d];
    }
}

static void runs_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const int last = j->n - 1;
    const int64_t end = vvi_min64((chunk + 1) * j->grain, j->items);
    for (int64_t i = chunk * j->grain; i < end; i++) {
        int64_t from, to;
        offsets(j, i, last, last, &from, &to);
        memcpy(j->dst + to * j->size, j->src + from * j->size, (size_t)(j->shape[last] * j->size));
    }
}

#define TILE_LOOP(type)                                                                            \
    do {                                                                                           \
        const type *s = (const type *)(const void *)src;                                           \
        type *t = (type *)(void *)dst;                                                             \
        for (int64_t a = 0; a < rows; a++)                                                         \
            for (int64_t b = 0; b < cols; b++)                                                     \
                t[a * t_stride + b] = s[b * s_stride + a];                                         \
    } while (0)

/* t[a][b] = s[b][a] for one tile. */
static void copy_tile(const char *src, char *dst, int64_t size, int64_t s_stride, int64_t t_stride,
                      int64_t rows, int64_t cols)
{
    switch (size) {
    case 1: TILE_LOOP(uint8_t); break;
    case 2: TILE_LOOP(uint16_t); break;
    case 4: TILE_LOOP(uint32_t); break;
    default: TILE_LOOP(uint64_t); break;
    }
}

/* An item is a strip of TILE elements of the fast axis by the whole last axis. */
static void tiles_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const int last = j->n - 1;
    const int64_t strips = vvi_chunks(j->shape[j->fast], TILE);
    const int64_t end = vvi_min64((chunk + 1) * j->grain, j->items);
    for (int64_t i = chunk * j->grain; i < end; i++) {
        int64_t from, to;
        offsets(j, i / strips, last, j->fast, &from, &to);
        const int64_t first = i % strips * TILE, rows = vvi_min64(TILE, j->shape[j->fast] - first);
        from += first;
        to += first * j->to[j->fast];
        for (int64_t c = 0; c < j->shape[last]; c += TILE)
            copy_tile(j->src + (from + c * j->from[last]) * j->size, j->dst + (to + c) * j->size,
                      j->size, j->from[last], j->to[j->fast], rows,
                      vvi_min64(TILE, j->shape[last] - c));
    }
}

static bool accepts(const vv_call *call)
{
    return call->in[0].dtype == call->out[0].dtype;
}

static vv_status run(const vv_call *call)
{
    if (call->out[0].count == 0)
        return VV_OK;
    job j = {.src = call->in[0].data, .dst = call->out[0].data,
             .size = (int64_t)vv_dtype_size(call->out[0].dtype)};
    merge_axes(&j, call);
    const int last = j.n - 1;
    if (j.from[last] == 1) {
        j.items = call->out[0].count / j.shape[last];
        j.grain = vvi_row_grain(j.shape[last]);
        vvi_cpu_for(vvi_chunks(j.items, j.grain), 0, runs_chunk, &j);
    } else {
        const int64_t plane = j.shape[last] * j.shape[j.fast];
        j.items = call->out[0].count / plane * vvi_chunks(j.shape[j.fast], TILE);
        j.grain = vvi_row_grain(vvi_min64(TILE, j.shape[j.fast]) * j.shape[last]);
        vvi_cpu_for(vvi_chunks(j.items, j.grain), 0, tiles_chunk, &j);
    }
    return VV_OK;
}

const vv_kernel vvi_cpu_permute[] = {{"tiles", accepts, NULL, run, NULL, 0}, {0}};
