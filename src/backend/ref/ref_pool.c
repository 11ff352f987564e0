/* ref_pool.c - reference kernels of pooling, adaptive pooling and resizing (NHWC).
 *
 * Gradients are summed in double, one image at a time in the scratch, and rounded once. */
#include <math.h>
#include <string.h>

#include "backend/ref/ref.h"

static bool accepts(const vv_call *call)
{
    (void)call;
    return true;
}

/* Windows of both pooling ops: [from, to) is the part inside the data; area counts the divisor. */
typedef struct window {
    int64_t from[2], to[2];
    double area;
} window;

static window pool_window(const vv_call *call, const vv_buf *x, const vv_buf *y, int64_t oy,
                          int64_t ox)
{
    const int64_t out[2] = {oy, ox};
    const bool fixed = call->op == VV_OP_POOL || call->op == VV_OP_POOL_GRAD;
    window w = {{0, 0}, {0, 0}, 1.0};
    for (int i = 0; i < 2; i++) {
        const int64_t size = x->shape[1 + i], outs = y->shape[1 + i];
        int64_t covered = 0;
        if (fixed) {
            /* Padding counts up to size + pad: what ceil mode adds beyond it does not. */
            const int64_t pad = call->attr->pool.pad[i];
            const int64_t from = out[i] * call->attr->pool.stride[i] - pad;
            const int64_t end = from + call->attr->pool.kernel[i];
            w.from[i] = from > 0 ? from : 0;
            w.to[i] = end < size ? end : size;
            covered = call->attr->pool.include_pad ? (end < size + pad ? end : size + pad) - from
                                                   : w.to[i] - w.from[i];
        } else {
            w.from[i] = out[i] * size / outs;
            w.to[i] = ((out[i] + 1) * size + outs - 1) / outs;
            covered = w.to[i] - w.from[i];
        }
        w.area *= (double)covered;
    }
    return w;
}

static bool takes_max(const vv_call *call)
{
    return call->op == VV_OP_POOL || call->op == VV_OP_POOL_GRAD
               ? call->attr->pool.max != 0
               : call->attr->adaptive_pool.max != 0;
}

static int64_t pixel(const vv_buf *image, int64_t n, int64_t h, int64_t w)
{
    return ((n * image->shape[1] + h) * image->shape[2] + w) * image->shape[3];
}

/* Place of the first largest element of the window in channel c; a NaN is the largest. */
static int64_t place_of_max(const vv_buf *x, const window *w, int64_t n, int64_t c)
{
    int64_t best_at = pixel(x, n, w->from[0], w->from[1]) + c;
    double best = vvi_ref_get(x, best_at);
    for (int64_t h = w->from[0]; h < w->to[0]; h++) {
        for (int64_t v = w->from[1]; v < w->to[1]; v++) {
            const int64_t at = pixel(x, n, h, v) + c;
            const double value = vvi_ref_get(x, at);
            if (value > best || (isnan(value) && !isnan(best))) {
                best = value;
                best_at = at;
            }
        }
    }
    return best_at;
}

static double mean_of(const vv_buf *x, const window *w, int64_t n, int64_t c)
{
    double sum = 0.0;
    for (int64_t h = w->from[0]; h < w->to[0]; h++)
        for (int64_t v = w->from[1]; v < w->to[1]; v++)
            sum += vvi_ref_get(x, pixel(x, n, h, v) + c);
    return sum / w->area;
}

static vv_status run_pool(const vv_call *call)
{
    const vv_buf *x = &call->in[0], *y = &call->out[0];
    const bool max = takes_max(call);
    for (int64_t n = 0; n < y->shape[0]; n++) {
        for (int64_t oy = 0; oy < y->shape[1]; oy++) {
            for (int64_t ox = 0; ox < y->shape[2]; ox++) {
                const window w = pool_window(call, x, y, oy, ox);
                for (int64_t c = 0; c < y->shape[3]; c++)
                    vvi_ref_set(y, pixel(y, n, oy, ox) + c,
                                max ? vvi_ref_get(x, place_of_max(x, &w, n, c))
                                    : mean_of(x, &w, n, c));
            }
        }
    }
    return VV_OK;
}

/* Scratch: one image of dx in double. */
static vv_status prepare_image(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const vv_buf *dx = &call->out[0];
    *state = NULL;
    *scratch_bytes = (size_t)(dx->shape[1] * dx->shape[2] * dx->shape[3]) * sizeof(double);
    return VV_OK;
}

static void store_image(const vv_buf *dx, int64_t n, const double *sums)
{
    const int64_t size = dx->shape[1] * dx->shape[2] * dx->shape[3];
    for (int64_t i = 0; i < size; i++)
        vvi_ref_set(dx, n * size + i, sums[i]);
}

/* Adds dy of one window and channel to the elements it came from. */
static void spread(const vv_call *call, const window *w, int64_t n, int64_t c, double dy,
                   double *sums)
{
    const vv_buf *dx = &call->out[0];
    if (takes_max(call)) {
        sums[place_of_max(&call->in[1], w, n, c) - pixel(dx, n, 0, 0)] += dy;
        return;
    }
    for (int64_t h = w->from[0]; h < w->to[0]; h++)
        for (int64_t v = w->from[1]; v < w->to[1]; v++)
            sums[pixel(dx, 0, h, v) + c] += dy / w->area;
}

static vv_status run_pool_grad(const vv_call *call)
{
    const vv_buf *dy = &call->in[0], *dx = &call->out[0];
    double *sums = call->scratch;
    const size_t image = (size_t)(dx->shape[1] * dx->shape[2] * dx->shape[3]);
    for (int64_t n = 0; n < dx->shape[0]; n++) {
        memset(sums, 0, image * sizeof *sums);
        for (int64_t oy = 0; oy < dy->shape[1]; oy++) {
            for (int64_t ox = 0; ox < dy->shape[2]; ox++) {
                const window w = pool_window(call, dx, dy, oy, ox);
                for (int64_t c = 0; c < dx->shape[3]; c++)
                    spread(call, &w, n, c, vvi_ref_get(dy, pixel(dy, n, oy, ox) + c), sums);
            }
        }
        store_image(dx, n, sums);
    }
    return VV_OK;
}

/* ---- resizing ---- */

/* Output i along one axis = (1 - share) * source at[0] + share * source at[1]. */
typedef struct blend {
    int64_t at[2];
    double share;
} blend;

static blend blend_of(int64_t mode, int64_t i, int64_t size, int64_t outs)
{
    if (mode == VV_RESIZE_NEAREST)
        return (blend){{i * size / outs, i * size / outs}, 0.0};
    double place = ((double)i + 0.5) * (double)size / (double)outs - 0.5;
    if (place < 0.0)
        place = 0.0;
    int64_t low = (int64_t)place;
    if (low > size - 1)
        low = size - 1;
    return (blend){{low, low + 1 < size ? low + 1 : low}, place - (double)low};
}

/* The four sources of output (oy, ox) and their shares. */
static void corners_of(int64_t mode, const vv_buf *x, const vv_buf *y, int64_t oy, int64_t ox,
                       int64_t place[4], double share[4])
{
    const blend v = blend_of(mode, oy, x->shape[1], y->shape[1]);
    const blend h = blend_of(mode, ox, x->shape[2], y->shape[2]);
    for (int i = 0; i < 4; i++) {
        place[i] = pixel(x, 0, v.at[i / 2], h.at[i % 2]);
        share[i] = (i / 2 ? v.share : 1.0 - v.share) * (i % 2 ? h.share : 1.0 - h.share);
    }
}

static vv_status run_resize(const vv_call *call)
{
    const vv_buf *x = &call->in[0], *y = &call->out[0];
    for (int64_t n = 0; n < y->shape[0]; n++) {
        for (int64_t oy = 0; oy < y->shape[1]; oy++) {
            for (int64_t ox = 0; ox < y->shape[2]; ox++) {
                int64_t place[4];
                double share[4];
                corners_of(call->attr->resize.mode, x, y, oy, ox, place, share);
                for (int64_t c = 0; c < y->shape[3]; c++) {
                    double sum = 0.0;
                    for (int i = 0; i < 4; i++) {
                        if (share[i] != 0.0) /* so that 0 * inf does not enter */
                            sum += share[i] * vvi_ref_get(x, pixel(x, n, 0, 0) + place[i] + c);
                    }
                    vvi_ref_set(y, pixel(y, n, oy, ox) + c, sum);
                }
            }
        }
    }
    return VV_OK;
}

static vv_status run_resize_grad(const vv_call *call)
{
    const vv_buf *dy = &call->in[0], *dx = &call->out[0];
    double *sums = call->scratch;
    const size_t image = (size_t)(dx->shape[1] * dx->shape[2] * dx->shape[3]);
    for (int64_t n = 0; n < dx->shape[0]; n++) {
        memset(sums, 0, image * sizeof *sums);
        for (int64_t oy = 0; oy < dy->shape[1]; oy++) {
            for (int64_t ox = 0; ox < dy->shape[2]; ox++) {
                int64_t place[4];
                double share[4];
                corners_of(call->attr->resize.mode, dx, dy, oy, ox, place, share);
                for (int64_t c = 0; c < dx->shape[3]; c++) {
                    const double value = vvi_ref_get(dy, pixel(dy, n, oy, ox) + c);
                    for (int i = 0; i < 4; i++)
                        sums[place[i] + c] += share[i] * value;
                }
            }
        }
        store_image(dx, n, sums);
    }
    return VV_OK;
}

const vv_kernel vvi_ref_pool[] = {{.name = "ref", .accepts = accepts, .run = run_pool},
                                  {.run = NULL}};
const vv_kernel vvi_ref_pool_grad[] = {
    {.name = "ref", .accepts = accepts, .prepare = prepare_image, .run = run_pool_grad},
    {.run = NULL}};
const vv_kernel vvi_ref_adaptive_pool[] = {{.name = "ref", .accepts = accepts, .run = run_pool},
                                           {.run = NULL}};
const vv_kernel vvi_ref_adaptive_pool_grad[] = {
    {.name = "ref", .accepts = accepts, .prepare = prepare_image, .run = run_pool_grad},
    {.run = NULL}};
const vv_kernel vvi_ref_resize[] = {{.name = "ref", .accepts = accepts, .run = run_resize},
                                    {.run = NULL}};
const vv_kernel vvi_ref_resize_grad[] = {
    {.name = "ref", .accepts = accepts, .prepare = prepare_image, .run = run_resize_grad},
    {.run = NULL}};
