/* broadcast.c - reads runs of a broadcast operand. */
#include "backend/cpu/broadcast.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"

#include <string.h>

bool vvi_broadcast_make(vvi_broadcast *out, const vv_buf *operand, const vv_buf *whole)
{
    memset(out, 0, sizeof *out);
    const int lead = whole->ndim - operand->ndim;
    if (lead < 0)
        return false;
    int64_t stride = 1;
    int64_t strides[VV_MAX_DIMS] = {0};
    for (int d = whole->ndim - 1; d >= lead; d--) {
        const int64_t size = operand->shape[d - lead];
        if (size != whole->shape[d] && size != 1)
            return false;
        strides[d] = size == 1 ? 0 : stride;
        stride *= size;
    }
    for (int d = 0; d < whole->ndim; d++) {
        const int64_t size = whole->shape[d];
        if (size == 1)
            continue;
        const bool spread = strides[d] == 0;
        if (out->n > 0 && spread == (out->stride[out->n - 1] == 0)) {
            out->size[out->n - 1] *= size;
            out->stride[out->n - 1] = strides[d];
        } else {
            out->size[out->n] = size;
            out->stride[out->n++] = strides[d];
        }
    }
    if (operand->count == whole->count)
        out->spread = VVI_SPREAD_FULL;
    else if (operand->count == 1)
        out->spread = VVI_SPREAD_SCALAR;
    else if (out->n == 2 && out->stride[0] == 0)
        out->spread = VVI_SPREAD_SUFFIX;
    else
        out->spread = VVI_SPREAD_ANY;
    out->period = out->n > 0 ? out->size[out->n - 1] : 1;
    return true;
}

static void load_scalar(float *dst, const vv_buf *operand, int64_t at, int64_t n)
{
    float value;
    vvi_vec_load(&value, operand->dtype, operand->data, at, 1);
    vvi_vec_fill(dst, value, n);
}

/* One period, then copies of twice the length each time. */
static void load_suffix(float *dst, const vv_buf *operand, int64_t period, int64_t begin, int64_t n)
{
    int64_t done = 0, at = begin % period;
    while (done < n && done < period) {
        const int64_t run = vvi_min64(vvi_min64(period - at, n - done), period - done);
        vvi_vec_load(dst + done, operand->dtype, operand->data, at, run);
        done += run;
        at = 0;
    }
    while (done < n) {
        const int64_t run = vvi_min64(done - done % period, n - done);
        memcpy(dst + done, dst, (size_t)run * sizeof *dst);
        done += run;
    }
}

static void load_any(const vvi_broadcast *how, float *dst, const vv_buf *operand, int64_t begin,
                     int64_t n)
{
    const int last = how->n - 1;
    const int64_t inner = how->size[last];
    for (int64_t done = 0; done < n;) {
        int64_t rest = (begin + done) / inner, offset = 0;
        const int64_t within = (begin + done) % inner;
        for (int d = last - 1; d >= 0; d--) {
            offset += rest % how->size[d] * how->stride[d];
            rest /= how->size[d];
        }
        const int64_t run = vvi_min64(inner - within, n - done);
        if (how->stride[last] == 0)
            load_scalar(dst + done, operand, offset, run);
        else
            vvi_vec_load(dst + done, operand->dtype, operand->data, offset + within, run);
        done += run;
    }
}

void vvi_broadcast_load(const vvi_broadcast *how, float *dst, const vv_buf *operand, int64_t begin,
                        int64_t n)
{
    switch (how->spread) {
    case VVI_SPREAD_FULL: vvi_vec_load(dst, operand->dtype, operand->data, begin, n); break;
    case VVI_SPREAD_SCALAR: load_scalar(dst, operand, 0, n); break;
    case VVI_SPREAD_SUFFIX: load_suffix(dst, operand, how->period, begin, n); break;
    case VVI_SPREAD_ANY: load_any(how, dst, operand, begin, n); break;
    }
}
