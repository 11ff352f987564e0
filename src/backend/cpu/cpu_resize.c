/* cpu_resize.c - nearest and bilinear resizing: rows are blended as vectors, then columns. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"
#include "backend/cpu/vec_pool.h"

#include <string.h>

/* Output i along one axis = (1 - share) * source at[0] + share * source at[1]. */
typedef struct blend {
    int64_t at[2];
    float share;
} blend;

typedef struct job {
    const vv_call *call;
    const vv_buf *x, *y; /* shapes of the sides that are read and written by the forward op */
    int64_t row, out_row, grain, rooms_floats;
    int slots;
    float *rooms;
} job;

static blend blend_of(int64_t mode, int64_t i, int64_t size, int64_t outs)
{
    if (mode == VV_RESIZE_NEAREST)
        return (blend){{i * size / outs, i * size / outs}, 0.0f};
    double place = ((double)i + 0.5) * (double)size / (double)outs - 0.5;
    if (place < 0.0)
        place = 0.0;
    int64_t low = (int64_t)place;
    if (low > size - 1)
        low = size - 1;
    return (blend){{low, low + 1 < size ? low + 1 : low}, (float)(place - (double)low)};
}

static void job_init(job *j, const vv_call *call)
{
    const bool grad = call->op == VV_OP_RESIZE_GRAD;
    memset(j, 0, sizeof *j);
    j->call = call;
    j->x = grad ? &call->out[0] : &call->in[0];
    j->y = grad ? &call->in[0] : &call->out[0];
    j->row = j->x->shape[2] * j->x->shape[3];
    j->out_row = j->y->shape[2] * j->y->shape[3];
    j->rooms_floats = 3 * j->row + j->out_row;
    if (grad && j->x->dtype != VV_F32)
        j->rooms_floats += j->row * j->x->shape[1];
    j->rooms_floats = (j->rooms_floats + 15) / 16 * 16;
    j->slots = (int)(intptr_t)call->state;
    j->rooms = call->scratch;
}

static bool accepts(const vv_call *call)
{
    return vvi_is_vec_float(call->in[0].dtype) && vvi_is_vec_float(call->out[0].dtype) &&
           call->in[0].count > 0 && call->out[0].count > 0;
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const int slots = vv_threads();
    job j;
    job_init(&j, call);
    *state = (void *)(intptr_t)slots;
    *scratch_bytes = (size_t)slots * (size_t)j.rooms_floats * sizeof(float);
    return VV_OK;
}

static void blend_columns(const job *j, float *to, const float *row)
{
    const int64_t c = j->x->shape[3];
    for (int64_t ox = 0; ox < j->y->shape[2]; ox++) {
        const blend b = blend_of(j->call->attr->resize.mode, ox, j->x->shape[2], j->y->shape[2]);
        vvi_pool_blend(to + ox * c, row + b.at[0] * c, 1.0f - b.share, row + b.at[1] * c, b.share,
                       c);
    }
}

static void forward_chunk(void *ctx, int64_t chunk, int slot)
{
    const job *j = ctx;
    const vv_buf *x = j->x, *y = j->y;
    float *low = j->rooms + slot * j->rooms_floats, *high = low + j->row, *mixed = high + j->row;
    const int64_t end = vvi_min64((chunk + 1) * j->grain, y->shape[0] * y->shape[1]);
    for (int64_t r = chunk * j->grain; r < end; r++) {
        const int64_t first = r / y->shape[1] * x->shape[1];
        const blend b =
            blend_of(j->call->attr->resize.mode, r % y->shape[1], x->shape[1], y->shape[1]);
        const float *p = vvi_vec_view(low, x, (first + b.at[0]) * j->row, j->row);
        const float *q = vvi_vec_view(high, x, (first + b.at[1]) * j->row, j->row);
        if (b.share != 0.0f) {
            vvi_pool_blend(mixed, p, 1.0f - b.share, q, b.share, j->row);
            p = mixed;
        }
        float *to = y->dtype == VV_F32 ? (float *)y->data + r * j->out_row : mixed + j->row;
        blend_columns(j, to, p);
        vvi_vec_store(y->dtype, y->data, r * j->out_row, to, j->out_row);
    }
}

static vv_status run(const vv_call *call)
{
    job j;
    job_init(&j, call);
    j.grain = vvi_row_grain(j.row + j.out_row);
    vvi_cpu_for(vvi_chunks(j.y->shape[0] * j.y->shape[1], j.grain), j.slots, forward_chunk, &j);
    return VV_OK;
}

/* Images in parallel; rows of dy in order: columns gathered into one row of x, that row into
   two. */
static void grad_image(void *ctx, int64_t n, int slot)
{
    const job *j = ctx;
    const vv_buf *out = j->x, *dy = j->y;
    const int64_t c = out->shape[3], mode = j->call->attr->resize.mode;
    float *row = j->rooms + slot * j->rooms_floats, *view = row + 3 * j->row;
    const int64_t size = out->shape[1] * j->row;
    float *dx = out->dtype == VV_F32 ? (float *)out->data + n * size : view + j->out_row;
    memset(dx, 0, (size_t)size * sizeof *dx);
    for (int64_t oy = 0; oy < dy->shape[1]; oy++) {
        const float *g = vvi_vec_view(view, dy, (n * dy->shape[1] + oy) * j->out_row, j->out_row);
        memset(row, 0, (size_t)j->row * sizeof *row);
        for (int64_t ox = 0; ox < dy->shape[2]; ox++) {
            const blend b = blend_of(mode, ox, out->shape[2], dy->shape[2]);
            vvi_pool_axpy(row + b.at[0] * c, g + ox * c, 1.0f - b.share, c);
            if (b.share != 0.0f)
                vvi_pool_axpy(row + b.at[1] * c, g + ox * c, b.share, c);
        }
        const blend b = blend_of(mode, oy, out->shape[1], dy->shape[1]);
        vvi_pool_axpy(dx + b.at[0] * j->row, row, 1.0f - b.share, j->row);
        if (b.share != 0.0f)
            vvi_pool_axpy(dx + b.at[1] * j->row, row, b.share, j->row);
    }
    vvi_vec_store(out->dtype, out->data, n * size, dx, size);
}

static vv_status run_grad(const vv_call *call)
{
    job j;
    job_init(&j, call);
    vvi_cpu_for(j.x->shape[0], j.slots, grad_image, &j);
    return VV_OK;
}

const vv_kernel vvi_cpu_resize[] = {{"vector", accepts, prepare, run, NULL, 0}, {0}};
const vv_kernel vvi_cpu_resize_grad[] = {{"vector", accepts, prepare, run_grad, NULL, 0}, {0}};
