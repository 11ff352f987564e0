/* cpu_gather.c - rows picked by index, their gradient, and one-hot rows.
 *
 * The gradient adds rows in the order of the index. Threads share out columns, never rows, so the
 * order of additions does not depend on them. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"

#include <inttypes.h>
#include <string.h>

typedef struct job {
    const vv_call *call;
    const vv_buf *index;
    int64_t outer, length, inner, grain, columns;
    float *sums; /* gradient [outer,length,inner] */
} job;

static bool is_index(const vv_buf *buf)
{
    return buf->dtype == VV_I32 || buf->dtype == VV_I64;
}

static int64_t index_at(const vv_buf *index, int64_t i)
{
    return index->dtype == VV_I32 ? ((const int32_t *)index->data)[i]
                                  : ((const int64_t *)index->data)[i];
}

static vv_status check_index(const vv_buf *index, int64_t length)
{
    for (int64_t i = 0; i < index->count; i++) {
        const int64_t row = index_at(index, i);
        if (row < 0 || row >= length)
            return vv_fail(VV_EINVAL,
                           "gather: index %" PRId64 " at position %" PRId64
                           " is outside 0..%" PRId64 "; the axis has %" PRId64 " elements",
                           row, i, length - 1, length);
    }
    return VV_OK;
}

static job job_of(const vv_call *call, const vv_buf *whole)
{
    const int axis = (int)call->attr->axis.axis;
    job j = {
        .call = call, .index = &call->in[1], .outer = 1, .length = whole->shape[axis], .inner = 1};
    for (int d = 0; d < axis; d++)
        j.outer *= whole->shape[d];
    for (int d = axis + 1; d < whole->ndim; d++)
        j.inner *= whole->shape[d];
    return j;
}

static bool accepts(const vv_call *call)
{
    return call->in[0].dtype == call->out[0].dtype && is_index(&call->in[1]);
}

static void gather_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const size_t row = (size_t)j->inner * vv_dtype_size(j->call->out[0].dtype);
    const int64_t count = j->index->count,
                  end = vvi_min64((chunk + 1) * j->grain, j->outer * count);
    for (int64_t i = chunk * j->grain; i < end; i++) {
        const int64_t from = i / count * j->length + index_at(j->index, i % count);
        memcpy((char *)j->call->out[0].data + (size_t)i * row,
               (const char *)j->call->in[0].data + (size_t)from * row, row);
    }
}

static vv_status run(const vv_call *call)
{
    job j = job_of(call, &call->in[0]);
    VV_TRY(check_index(j.index, j.length));
    j.grain = vvi_row_grain(j.inner);
    vvi_cpu_for(vvi_chunks(j.outer * j.index->count, j.grain), 0, gather_chunk, &j);
    return VV_OK;
}

/* ---- gradient ---- */

enum { COLUMNS = 64 };

static bool accepts_grad(const vv_call *call)
{
    return vvi_is_vec_float(call->in[0].dtype) && vvi_is_vec_float(call->out[0].dtype) &&
           is_index(&call->in[1]) && call->out[0].count > 0 &&
           (call->n_in < 3 || vvi_is_vec_float(call->in[2].dtype));
}

static vv_status prepare_grad(const vv_call *call, void **state, size_t *scratch_bytes)
{
    *state = NULL;
    *scratch_bytes = call->out[0].dtype == VV_F32 ? 0 : (size_t)call->out[0].count * sizeof(float);
    return VV_OK;
}

enum { FILL = 1 << 15 };

/* What the rows are added to: the third operand, or nothing. */
static void start_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const int64_t at = chunk * FILL, n = vvi_min64(FILL, j->call->out[0].count - at);
    if (j->call->n_in < 3)
        memset(j->sums + at, 0, (size_t)n * sizeof *j->sums);
    else if (j->call->in[2].data != j->sums)
        vvi_vec_load(j->sums + at, j->call->in[2].dtype, j->call->in[2].data, at, n);
}

static void grad_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    const vv_buf *dy = &j->call->in[0];
    const int64_t blocks = vvi_chunks(j->inner, j->columns), o = chunk / blocks;
    const int64_t first = chunk % blocks * j->columns, n = vvi_min64(j->columns, j->inner - first);
    float room[COLUMNS];
    float *sums = j->sums + o * j->length * j->inner + first;
    for (int64_t i = 0; i < j->index->count; i++) {
        const int64_t from = (o * j->index->count + i) * j->inner + first;
        vvi_vec_add(sums + index_at(j->index, i) * j->inner, vvi_vec_view(room, dy, from, n), n);
    }
}

static vv_status run_grad(const vv_call *call)
{
    job j = job_of(call, &call->out[0]);
    const vv_buf *dx = &call->out[0];
    VV_TRY(check_index(j.index, j.length));
    j.sums = dx->dtype == VV_F32 ? dx->data : call->scratch;
    j.columns = COLUMNS;
    vvi_cpu_for(vvi_chunks(dx->count, FILL), 0, start_chunk, &j);
    vvi_cpu_for(j.outer * vvi_chunks(j.inner, j.columns), 0, grad_chunk, &j);
    if (dx->dtype != VV_F32)
        vvi_vec_store_all(dx->dtype, dx->data, j.sums, dx->count);
    return VV_OK;
}

/* ---- one-hot ---- */

static bool accepts_one_hot(const vv_call *call)
{
    return is_index(&call->in[0]) && call->out[0].dtype == VV_F32 && call->out[0].ndim > 0;
}

static void one_hot_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const job *j = ctx;
    float *out = j->call->out[0].data;
    const int64_t end = vvi_min64((chunk + 1) * j->grain, j->index->count);
    for (int64_t i = chunk * j->grain; i < end; i++) {
        const int64_t k = index_at(j->index, i);
        memset(out + i * j->inner, 0, (size_t)j->inner * sizeof *out);
        if (k >= 0 && k < j->inner)
            out[i * j->inner + k] = 1.0f;
    }
}

static vv_status run_one_hot(const vv_call *call)
{
    job j = {
        .call = call, .index = &call->in[0], .inner = call->out[0].shape[call->out[0].ndim - 1]};
    j.grain = vvi_row_grain(j.inner);
    vvi_cpu_for(vvi_chunks(j.index->count, j.grain), 0, one_hot_chunk, &j);
    return VV_OK;
}

const vv_kernel vvi_cpu_gather[] = {{"rows", accepts, NULL, run, NULL, 0}, {0}};
const vv_kernel vvi_cpu_gather_grad[] = {{"vector", accepts_grad, prepare_grad, run_grad, NULL, 4},
                                         {0}};
const vv_kernel vvi_cpu_one_hot[] = {{"rows", accepts_one_hot, NULL, run_one_hot, NULL, 0}, {0}};
