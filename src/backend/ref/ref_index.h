/* ref_index.h - index arithmetic and checks that the reference kernels share. */
#ifndef VVI_REF_INDEX_H
#define VVI_REF_INDEX_H

#include <string.h>

#include "backend/ref/ref.h"

/* Where element i of `out` comes from in an operand broadcast to it. */
static inline int64_t vvi_ref_operand_index(const vv_buf *in, const vv_buf *out, int64_t i)
{
    if (in->count == out->count)
        return i;
    int64_t index = 0, stride = 1;
    for (int d = out->ndim - 1, own = in->ndim - 1; own >= 0; d--, own--) {
        if (in->shape[own] != 1)
            index += i % out->shape[d] * stride;
        i /= out->shape[d];
        stride *= in->shape[own];
    }
    return index;
}

/* dst[i..i+n) = src[j..j+n), bit for bit; both have one dtype. */
static inline void vvi_ref_copy(const vv_buf *dst, int64_t i, const vv_buf *src, int64_t j,
                                int64_t n)
{
    const int64_t size = (int64_t)vv_dtype_size(dst->dtype);
    if (n > 0)
        memcpy((char *)dst->data + i * size, (const char *)src->data + j * size,
               (size_t)(n * size));
}

/* Product of shape[from..to). */
static inline int64_t vvi_ref_span(const vv_buf *buf, int from, int to)
{
    int64_t span = 1;
    for (int d = from; d < to; d++)
        span *= buf->shape[d];
    return span;
}

static inline bool vvi_ref_all_float(const vv_call *call)
{
    for (int i = 0; i < call->n_in; i++) {
        if (!vv_dtype_is_float(call->in[i].dtype))
            return false;
    }
    for (int i = 0; i < call->n_out; i++) {
        if (!vv_dtype_is_float(call->out[i].dtype))
            return false;
    }
    return true;
}

/* For kernels that move elements: operands and result have one dtype. */
static inline bool vvi_ref_same_dtype(const vv_call *call)
{
    for (int i = 0; i < call->n_in; i++) {
        if (call->in[i].dtype != call->out[0].dtype)
            return false;
    }
    return true;
}

#endif
