/* ref_shape.c - reference kernels of ops that move elements without changing them. */
#include "backend/ref/ref_index.h"

#include <inttypes.h>

/* ---- permute ---- */

static vv_status run_permute(const vv_call *call)
{
    const vv_buf *x = &call->in[0], *out = &call->out[0];
    for (int64_t i = 0; i < out->count; i++) {
        int64_t rest = i, from = 0;
        for (int d = out->ndim - 1; d >= 0; d--) {
            const int axis = (int)call->attr->permute.order[d];
            from += rest % out->shape[d] * vvi_ref_span(x, axis + 1, x->ndim);
            rest /= out->shape[d];
        }
        vvi_ref_copy(out, i, x, from, 1);
    }
    return VV_OK;
}

/* ---- slice ---- */

/* Copies between the rows of a whole tensor and those of its slice. */
static void copy_slice(const vv_attr *attr, const vv_buf *whole, const vv_buf *part, bool take)
{
    const int axis = (int)attr->slice.axis;
    const int64_t outer = vvi_ref_span(part, 0, axis);
    const int64_t inner = vvi_ref_span(part, axis + 1, part->ndim);
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t j = 0; j < part->shape[axis]; j++) {
            const int64_t at_part = (o * part->shape[axis] + j) * inner;
            const int64_t at_whole =
                (o * whole->shape[axis] + attr->slice.start + j * attr->slice.step) * inner;
            if (take)
                vvi_ref_copy(part, at_part, whole, at_whole, inner);
            else
                vvi_ref_copy(whole, at_whole, part, at_part, inner);
        }
    }
}

static vv_status run_slice(const vv_call *call)
{
    copy_slice(call->attr, &call->in[0], &call->out[0], true);
    return VV_OK;
}

static void clear(const vv_buf *buf)
{
    if (buf->count > 0)
        memset(buf->data, 0, (size_t)buf->count * vv_dtype_size(buf->dtype));
}

static vv_status run_slice_grad(const vv_call *call)
{
    clear(&call->out[0]);
    copy_slice(call->attr, &call->out[0], &call->in[0], false);
    return VV_OK;
}

/* ---- concat and pad ---- */

static vv_status run_concat(const vv_call *call)
{
    const vv_buf *out = &call->out[0];
    const int axis = (int)call->attr->axis.axis;
    const int64_t outer = vvi_ref_span(out, 0, axis);
    const int64_t out_row = vvi_ref_span(out, axis, out->ndim);
    int64_t at = 0;
    for (int i = 0; i < call->n_in; i++) {
        const int64_t row = vvi_ref_span(&call->in[i], axis, out->ndim);
        for (int64_t o = 0; o < outer; o++)
            vvi_ref_copy(out, o * out_row + at, &call->in[i], o * row, row);
        at += row;
    }
    return VV_OK;
}

static vv_status run_pad(const vv_call *call)
{
    const vv_buf *x = &call->in[0], *out = &call->out[0];
    for (int64_t i = 0; i < out->count; i++) {
        int64_t rest = i, from = 0, stride = 1;
        bool inside = true;
        for (int d = out->ndim - 1; d >= 0; d--) {
            const int64_t p = rest % out->shape[d] - call->attr->pad.before[d];
            inside = inside && p >= 0 && p < x->shape[d];
            from += p * stride;
            stride *= x->shape[d];
            rest /= out->shape[d];
        }
        if (inside)
            vvi_ref_copy(out, i, x, from, 1);
        else
            vvi_ref_set(out, i, call->attr->pad.value);
    }
    return VV_OK;
}

/* ---- gather ---- */

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

static bool accepts_gather(const vv_call *call)
{
    return call->in[0].dtype == call->out[0].dtype && is_index(&call->in[1]);
}

static vv_status run_gather(const vv_call *call)
{
    const vv_buf *x = &call->in[0], *index = &call->in[1];
    const int axis = (int)call->attr->axis.axis;
    const int64_t outer = vvi_ref_span(x, 0, axis), length = x->shape[axis];
    const int64_t inner = vvi_ref_span(x, axis + 1, x->ndim);
    VV_TRY(check_index(index, length));
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < index->count; i++)
            vvi_ref_copy(&call->out[0], (o * index->count + i) * inner, x,
                         (o * length + index_at(index, i)) * inner, inner);
    }
    return VV_OK;
}

static bool accepts_gather_grad(const vv_call *call)
{
    return vv_dtype_is_float(call->in[0].dtype) && vv_dtype_is_float(call->out[0].dtype) &&
           is_index(&call->in[1]);
}

static vv_status prepare_gather_grad(const vv_call *call, void **state, size_t *scratch_bytes)
{
    *state = NULL;
    *scratch_bytes = (size_t)call->out[0].count * sizeof(double);
    return VV_OK;
}

/* Sums in double, in the order of the index. */
static vv_status run_gather_grad(const vv_call *call)
{
    const vv_buf *dy = &call->in[0], *index = &call->in[1], *dx = &call->out[0];
    const int axis = (int)call->attr->axis.axis;
    const int64_t outer = vvi_ref_span(dx, 0, axis), length = dx->shape[axis];
    const int64_t inner = vvi_ref_span(dx, axis + 1, dx->ndim);
    double *sums = call->scratch;
    VV_TRY(check_index(index, length));
    const vv_buf *base = call->n_in > 2 ? &call->in[2] : NULL;
    for (int64_t i = 0; i < dx->count; i++)
        sums[i] = base ? vvi_ref_get(base, i) : 0.0;
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < index->count; i++) {
            const int64_t from = (o * index->count + i) * inner;
            const int64_t to = (o * length + index_at(index, i)) * inner;
            for (int64_t j = 0; j < inner; j++)
                sums[to + j] += vvi_ref_get(dy, from + j);
        }
    }
    for (int64_t i = 0; i < dx->count; i++)
        vvi_ref_set(dx, i, sums[i]);
    return VV_OK;
}

static bool accepts_one_hot(const vv_call *call)
{
    return is_index(&call->in[0]) && vv_dtype_is_float(call->out[0].dtype);
}

static vv_status run_one_hot(const vv_call *call)
{
    const vv_buf *index = &call->in[0], *out = &call->out[0];
    const int64_t classes = out->shape[out->ndim - 1];
    for (int64_t i = 0; i < out->count; i++)
        vvi_ref_set(out, i, index_at(index, i / classes) == i % classes ? 1.0 : 0.0);
    return VV_OK;
}

const vv_kernel vvi_ref_permute[] = {{"ref", vvi_ref_same_dtype, NULL, run_permute, NULL, 0}, {0}};
const vv_kernel vvi_ref_slice[] = {{"ref", vvi_ref_same_dtype, NULL, run_slice, NULL, 0}, {0}};
const vv_kernel vvi_ref_slice_grad[] = {{"ref", vvi_ref_same_dtype, NULL, run_slice_grad, NULL, 0},
                                        {0}};
const vv_kernel vvi_ref_concat[] = {{"ref", vvi_ref_same_dtype, NULL, run_concat, NULL, 0}, {0}};
const vv_kernel vvi_ref_pad[] = {{"ref", vvi_ref_same_dtype, NULL, run_pad, NULL, 0}, {0}};
const vv_kernel vvi_ref_gather[] = {{"ref", accepts_gather, NULL, run_gather, NULL, 0}, {0}};
const vv_kernel vvi_ref_gather_grad[] = {
    {"ref", accepts_gather_grad, prepare_gather_grad, run_gather_grad, NULL, 0}, {0}};
const vv_kernel vvi_ref_one_hot[] = {{"ref", accepts_one_hot, NULL, run_one_hot, NULL, 0}, {0}};
