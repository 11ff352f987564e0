/* cpu_reduce.c - sums, means, maxima and minima over leading, trailing, middle or all axes.
 *
 * The operand is seen as [outer, reduced, inner]. Each chunk reduces a fixed piece to one row of
 * partial results; these are combined in order, sums in double. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"
#include "backend/cpu/vec_columns.h"
#include "backend/cpu/vec_rows.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 4096, COLUMNS = 256 };

typedef struct job {
    const vv_call *call;
    vv_reduce kind;
    int64_t outer, reduced, inner;
    int64_t piece, pieces; /* of the reduced axis */
    int64_t group, groups; /* outer items a chunk takes when each is small */
    int64_t block_rows;
    int slots;
    float *partial; /* [outer][pieces][inner] */
    float *rooms;   /* [slots][block] */
} job;

/* False if the reduced axes are not neighbours. */
static bool job_init(job *j, const vv_call *call, int slots, void *scratch)
{
    const vv_buf *x = &call->in[0];
    const uint64_t axes = call->attr->reduce.axes;
    memset(j, 0, sizeof *j);
    j->call = call;
    j->kind = (vv_reduce)call->attr->reduce.kind;
    j->outer = j->reduced = j->inner = 1;
    int state = 0; /* 0 before, 1 in, 2 behind the reduced axes */
    for (int d = 0; d < x->ndim; d++) {
        const bool reduce = axes >> d & 1;
        if (x->shape[d] == 1)
            continue;
        if (reduce && state == 2)
            return false;
        if (reduce)
            state = 1;
        else if (state == 1)
            state = 2;
        int64_t *size = state == 0 ? &j->outer : state == 1 ? &j->reduced : &j->inner;
        *size *= x->shape[d];
    }
    j->piece = vvi_min64(vvi_row_grain(j->inner), j->reduced);
    j->pieces = vvi_chunks(j->reduced, j->piece);
    j->group = j->pieces > 1 ? 1 : vvi_min64(vvi_row_grain(j->reduced * j->inner), j->outer);
    j->groups = vvi_chunks(j->outer, j->group);
    j->block_rows = j->inner == 1 ? BLOCK : vvi_max64(4, BLOCK / j->inner);
    j->slots = slots;
    j->partial = scratch;
    j->rooms = j->partial + j->outer * j->pieces * j->inner;
    return true;
}

static bool accepts(const vv_call *call)
{
    job j;
    return vvi_is_vec_float(call->in[0].dtype) && vvi_is_vec_float(call->out[0].dtype) &&
           call->in[0].count > 0 && job_init(&j, call, 1, NULL) &&
           call->out[0].count == j.outer * j.inner;
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const int slots = vv_threads();
    job j;
    if (!job_init(&j, call, slots, NULL))
        return vv_fail(VV_EINTERNAL, "reduce: the axes are not neighbours");
    *state = (void *)(intptr_t)slots;
    *scratch_bytes =
        (size_t)(j.outer * j.pieces * j.inner + slots * j.block_rows * j.inner) * sizeof(float);
    return VV_OK;
}

static double merge(vv_reduce kind, double a, double b)
{
    switch (kind) {
    case VV_REDUCE_MAX: return b > a || b != b ? b : a;
    case VV_REDUCE_MIN: return b < a || b != b ? b : a;
    default: return a + b;
    }
}

static double neutral(vv_reduce kind)
{
    return kind == VV_REDUCE_MAX ? -HUGE_VAL : kind == VV_REDUCE_MIN ? HUGE_VAL : 0.0;
}

static double reduce_run(vv_reduce kind, const float *x, int64_t n)
{
    switch (kind) {
    case VV_REDUCE_MAX: return (double)vvi_row_max(x, n);
    case VV_REDUCE_MIN: return (double)vvi_row_min(x, n);
    default: return vvi_row_sum(x, n);
    }
}

/* Rows of `inner` elements from `at` on, into one row of partial results. */
static void reduce_rows(const job *j, int slot, int64_t at, int64_t rows, float *to)
{
    const vv_buf *x = &j->call->in[0];
    float *room = j->rooms + slot * j->block_rows * j->inner;
    double total = neutral(j->kind);
    if (j->inner > 1)
        vvi_vec_fill(to, (float)total, j->inner);
    for (int64_t r = 0; r < rows; r += j->block_rows) {
        const int64_t n = vvi_min64(j->block_rows, rows - r);
        const float *v = vvi_vec_view(room, x, at + r * j->inner, n * j->inner);
        if (j->inner == 1)
            total = merge(j->kind, total, reduce_run(j->kind, v, n));
        else if (j->kind == VV_REDUCE_MAX)
            vvi_col_max(to, v, n, j->inner);
        else if (j->kind == VV_REDUCE_MIN)
            vvi_col_min(to, v, n, j->inner);
        else
            vvi_col_sum(to, v, n, j->inner);
    }
    if (j->inner == 1)
        *to = (float)total;
}

static void reduce_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const int64_t piece = chunk % j->pieces, first = chunk / j->pieces * j->group;
    const int64_t end = vvi_min64(first + j->group, j->outer);
    const int64_t rows = vvi_min64(j->piece, j->reduced - piece * j->piece);
    for (int64_t o = first; o < end; o++)
        reduce_rows(j, slot, (o * j->reduced + piece * j->piece) * j->inner, rows,
                    j->partial + (o * j->pieces + piece) * j->inner);
}

static void finish_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const vv_buf *out = &j->call->out[0];
    const double scale = j->kind == VV_REDUCE_MEAN ? 1.0 / (double)j->reduced : 1.0;
    float values[COLUMNS];
    const int64_t begin = chunk * COLUMNS, n = vvi_min64(COLUMNS, out->count - begin);
    for (int64_t i = 0; i < n; i++) {
        const int64_t o = (begin + i) / j->inner, c = (begin + i) % j->inner;
        double total = neutral(j->kind);
        for (int64_t k = 0; k < j->pieces; k++)
            total = merge(j->kind, total, (double)j->partial[(o * j->pieces + k) * j->inner + c]);
        values[i] = (float)(total * scale);
    }
    vvi_vec_store(out->dtype, out->data, begin, values, n);
}

static vv_status run(const vv_call *call)
{
    job j;
    job_init(&j, call, (int)(intptr_t)call->state, call->scratch);
    vvi_cpu_for(j.groups * j.pieces, j.slots, reduce_chunk, &j);
    vvi_cpu_for(vvi_chunks(call->out[0].count, COLUMNS), j.slots, finish_chunk, &j);
    return VV_OK;
}

const vv_kernel vvi_cpu_reduce[] = {
    {"vector", accepts, prepare, run, NULL, 0},
    {0},
};

/* ---- argmax along the last axis: the first of equals; a NaN is the largest ---- */

enum { MAX_ROW = 1 << 16 };

static bool accepts_argmax(const vv_call *call)
{
    const vv_buf *x = &call->in[0];
    return vvi_is_vec_float(x->dtype) && call->out[0].dtype == VV_I32 && x->ndim > 0 &&
           x->count > 0 && call->attr->axis.axis == x->ndim - 1 && x->shape[x->ndim - 1] <= MAX_ROW;
}

static vv_status prepare_argmax(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const int slots = vv_threads();
    *state = (void *)(intptr_t)slots;
    *scratch_bytes =
        (size_t)slots * (size_t)call->in[0].shape[call->in[0].ndim - 1] * sizeof(float);
    return VV_OK;
}

static void argmax_chunk(void *ctx, int64_t chunk, int slot)
{
    const vv_call *call = ctx;
    const vv_buf *x = &call->in[0];
    const int64_t n = x->shape[x->ndim - 1], rows = x->count / n, grain = vvi_row_grain(n);
    const int64_t end = vvi_min64((chunk + 1) * grain, rows);
    float *room = (float *)call->scratch + slot * n;
    int32_t *out = call->out[0].data;
    for (int64_t r = chunk * grain; r < end; r++) {
        const float *v = vvi_vec_view(room, x, r * n, n);
        const float best = vvi_row_max(v, n);
        int64_t i = 0;
        while (best != best ? v[i] == v[i] : v[i] != best)
            i++;
        out[r] = (int32_t)i;
    }
}

static vv_status run_argmax(const vv_call *call)
{
    const vv_buf *x = &call->in[0];
    const int64_t n = x->shape[x->ndim - 1];
    vv_call copy = *call;
    vvi_cpu_for(vvi_chunks(x->count / n, vvi_row_grain(n)), (int)(intptr_t)call->state,
                argmax_chunk, &copy);
    return VV_OK;
}

const vv_kernel vvi_cpu_argmax[] = {
    {"vector", accepts_argmax, prepare_argmax, run_argmax, NULL, 0},
    {0},
};

/* ---- the largest of each row: the bits of the last one taken are found byte by byte ---- */

/* Rising with the number; every NaN is above. */
static uint32_t order_key(float v)
{
    uint32_t bits;
    if (v != v)
        return UINT32_MAX;
    v += 0.0f; /* -0 is 0 */
    memcpy(&bits, &v, sizeof bits);
    return bits >> 31 ? ~bits : bits | UINT32_C(0x80000000);
}

static bool accepts_largest(const vv_call *call)
{
    return call->in[0].dtype == VV_F32 && call->in[1].dtype == VV_I32 &&
           call->out[0].dtype == VV_BOOL && call->in[0].count > 0;
}

/* The key of number `count` in falling order (1 <= count <= n); *equals = how many of that key are
   among the first `count`. */
static uint32_t key_at(const float *v, int64_t n, int64_t count, int64_t *equals)
{
    uint32_t key = 0, mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int64_t bins[256] = {0};
        int digit = 255;
        for (int64_t i = 0; i < n; i++) {
            const uint32_t k = order_key(v[i]);
            bins[k >> shift & 255] += (k & mask) == key;
        }
        while (bins[digit] < count)
            count -= bins[digit--];
        key |= (uint32_t)digit << shift;
        mask |= UINT32_C(255) << shift;
    }
    *equals = count;
    return key;
}

static void largest_row(const float *v, int64_t n, int64_t count, uint8_t *out)
{
    int64_t equals = 0;
    if (count <= 0 || count >= n) {
        memset(out, count > 0, (size_t)n);
        return;
    }
    const uint32_t last = key_at(v, n, count, &equals);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t k = order_key(v[i]);
        out[i] = k > last || (k == last && equals-- > 0);
    }
}

static void largest_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const vv_call *call = ctx;
    const vv_buf *x = &call->in[0];
    const int64_t n = x->shape[x->ndim - 1], grain = vvi_row_grain(n);
    const int64_t end = vvi_min64((chunk + 1) * grain, x->count / n);
    for (int64_t r = chunk * grain; r < end; r++)
        largest_row((const float *)x->data + r * n, n, ((const int32_t *)call->in[1].data)[r],
                    (uint8_t *)call->out[0].data + r * n);
}

static vv_status run_largest(const vv_call *call)
{
    const vv_buf *x = &call->in[0];
    const int64_t n = x->shape[x->ndim - 1];
    vv_call copy = *call;
    vvi_cpu_for(vvi_chunks(x->count / n, vvi_row_grain(n)), 0, largest_chunk, &copy);
    return VV_OK;
}

const vv_kernel vvi_cpu_largest[] = {
    {"radix", accepts_largest, NULL, run_largest, NULL, 0},
    {0},
};
