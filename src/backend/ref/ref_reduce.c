/* ref_reduce.c - reference kernels of reductions, argmax, top-k and broadcasting. */
#include "backend/ref/ref_index.h"

#include <math.h>

/* ---- reduce ---- */

/* One running value per result element: floats in double, integers exactly. */
typedef union total {
    double real;
    int64_t whole;
} total;

static bool is_whole(vv_dtype dtype)
{
    return !vv_dtype_is_float(dtype);
}

static bool accepts_reduce(const vv_call *call)
{
    const vv_reduce kind = (vv_reduce)call->attr->reduce.kind;
    const vv_dtype in = call->in[0].dtype, out = call->out[0].dtype;
    if (kind < VV_REDUCE_SUM || kind > VV_REDUCE_MIN)
        return false;
    if (vv_dtype_is_float(in))
        return vv_dtype_is_float(out);
    return in == out && kind != VV_REDUCE_MEAN;
}

static vv_status prepare_reduce(const vv_call *call, void **state, size_t *scratch_bytes)
{
    *state = NULL;
    *scratch_bytes = (size_t)call->out[0].count * sizeof(total);
    return VV_OK;
}

/* Result element that element i of x belongs to. */
static int64_t reduced_index(const vv_buf *x, uint64_t axes, int64_t i)
{
    int64_t index = 0, stride = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        if (!(axes >> d & 1)) {
            index += i % x->shape[d] * stride;
            stride *= x->shape[d];
        }
        i /= x->shape[d];
    }
    return index;
}

static void add_real(vv_reduce kind, total *t, double v)
{
    switch (kind) {
    case VV_REDUCE_SUM:
    case VV_REDUCE_MEAN:
        t->real += v;
        break;
    case VV_REDUCE_MAX:
        t->real = v > t->real || isnan(v) ? v : t->real;
        break;
    case VV_REDUCE_MIN:
        t->real = v < t->real || isnan(v) ? v : t->real;
        break;
    }
}

static void add_whole(vv_reduce kind, total *t, int64_t v)
{
    switch (kind) {
    case VV_REDUCE_SUM:
    case VV_REDUCE_MEAN:
        t->whole = (int64_t)((uint64_t)t->whole + (uint64_t)v);
        break;
    case VV_REDUCE_MAX:
        t->whole = v > t->whole ? v : t->whole;
        break;
    case VV_REDUCE_MIN:
        t->whole = v < t->whole ? v : t->whole;
        break;
    }
}

static int64_t whole_at(const vv_buf *x, int64_t i)
{
    return x->dtype == VV_I64 ? ((const int64_t *)x->data)[i] : (int64_t)vvi_ref_get(x, i);
}

static void store_total(const vv_call *call, int64_t i, const total *t)
{
    const vv_buf *out = &call->out[0];
    if (out->dtype == VV_I64)
        ((int64_t *)out->data)[i] = t->whole;
    else if (out->dtype == VV_I32)
        ((int32_t *)out->data)[i] = (int32_t)(uint32_t)(uint64_t)t->whole;
    else if (is_whole(out->dtype))
        vvi_ref_set(out, i, (double)t->whole);
    else if (call->attr->reduce.kind == VV_REDUCE_MEAN)
        vvi_ref_set(out, i, t->real * (double)out->count / (double)call->in[0].count);
    else
        vvi_ref_set(out, i, t->real);
}

static vv_status run_reduce(const vv_call *call)
{
    const vv_buf *x = &call->in[0], *out = &call->out[0];
    const vv_reduce kind = (vv_reduce)call->attr->reduce.kind;
    const bool whole = is_whole(x->dtype), max = kind == VV_REDUCE_MAX, min = kind == VV_REDUCE_MIN;
    total *totals = call->scratch;
    for (int64_t i = 0; i < out->count; i++) {
        if (whole)
            totals[i].whole = max ? INT64_MIN : min ? INT64_MAX : 0;
        else
            totals[i].real = max ? -HUGE_VAL : min ? HUGE_VAL : 0.0;
    }
    for (int64_t i = 0; i < x->count; i++) {
        total *t = &totals[reduced_index(x, call->attr->reduce.axes, i)];
        if (whole)
            add_whole(kind, t, whole_at(x, i));
        else
            add_real(kind, t, vvi_ref_get(x, i));
    }
    for (int64_t i = 0; i < out->count; i++)
        store_total(call, i, &totals[i]);
    return VV_OK;
}

/* ---- broadcast ---- */

static vv_status run_broadcast(const vv_call *call)
{
    const vv_buf *x = &call->in[0], *out = &call->out[0];
    for (int64_t i = 0; i < out->count; i++)
        vvi_ref_copy(out, i, x, vvi_ref_operand_index(x, out, i), 1);
    return VV_OK;
}

/* ---- argmax, top-k: NaN counts as larger than any number, the first of equals wins ---- */

static bool is_larger(double a, double b)
{
    return isnan(a) ? !isnan(b) : a > b;
}

static bool accepts_argmax(const vv_call *call)
{
    return call->out[0].dtype == VV_I32;
}

static vv_status run_argmax(const vv_call *call)
{
    const vv_buf *x = &call->in[0];
    const int axis = (int)call->attr->axis.axis;
    const int64_t inner = vvi_ref_span(x, axis + 1, x->ndim), length = x->shape[axis];
    int32_t *out = call->out[0].data;
    for (int64_t i = 0; i < call->out[0].count; i++) {
        const int64_t base = i / inner * length * inner + i % inner;
        int64_t best = 0;
        for (int64_t j = 1; j < length; j++) {
            if (is_larger(vvi_ref_get(x, base + j * inner), vvi_ref_get(x, base + best * inner)))
                best = j;
        }
        out[i] = (int32_t)best;
    }
    return VV_OK;
}

static bool accepts_topk(const vv_call *call)
{
    return call->n_out == 2 && call->out[0].dtype == call->in[0].dtype &&
           call->out[1].dtype == VV_I32;
}

/* Place of the element that follows element `last` (-1: none yet) in falling order. */
static int64_t next_in_order(const vv_buf *x, int64_t row, int64_t length, int64_t last)
{
    int64_t best = -1;
    for (int64_t j = 0; j < length; j++) {
        const double v = vvi_ref_get(x, row + j);
        if (last >= 0) {
            const double before = vvi_ref_get(x, row + last);
            if (is_larger(v, before) || (!is_larger(before, v) && j <= last))
                continue;
        }
        if (best < 0 || is_larger(v, vvi_ref_get(x, row + best)))
            best = j;
    }
    return best;
}

static vv_status run_topk(const vv_call *call)
{
    const vv_buf *x = &call->in[0];
    const int64_t length = x->shape[x->ndim - 1], k = call->attr->topk.k;
    int32_t *indices = call->out[1].data;
    int64_t last = -1;
    for (int64_t i = 0; i < call->out[0].count; i++) {
        const int64_t row = i / k * length;
        last = next_in_order(x, row, length, i % k == 0 ? -1 : last);
        indices[i] = (int32_t)last;
        vvi_ref_copy(&call->out[0], i, x, row + last, 1);
    }
    return VV_OK;
}

static bool accepts_largest(const vv_call *call)
{
    return call->in[1].dtype == VV_I32 && call->out[0].dtype == VV_BOOL;
}

/* An element is in if fewer than count come before it. */
static vv_status run_largest(const vv_call *call)
{
    const vv_buf *x = &call->in[0];
    const int64_t length = x->shape[x->ndim - 1];
    for (int64_t i = 0; i < x->count; i++) {
        const double v = vvi_ref_get(x, i);
        const int64_t row = i / length * length;
        int64_t before = 0;
        for (int64_t j = row; j < row + length; j++) {
            const double other = vvi_ref_get(x, j);
            before += is_larger(other, v) || (!is_larger(v, other) && j < i);
        }
        vvi_ref_set(&call->out[0], i, before < ((const int32_t *)call->in[1].data)[i / length]);
    }
    return VV_OK;
}

const vv_kernel vvi_ref_reduce[] = {{"ref", accepts_reduce, prepare_reduce, run_reduce, NULL, 0},
                                    {0}};
const vv_kernel vvi_ref_broadcast[] = {{"ref", vvi_ref_same_dtype, NULL, run_broadcast, NULL, 0},
                                       {0}};
const vv_kernel vvi_ref_argmax[] = {{"ref", accepts_argmax, NULL, run_argmax, NULL, 0}, {0}};
const vv_kernel vvi_ref_topk[] = {{"ref", accepts_topk, NULL, run_topk, NULL, 0}, {0}};
const vv_kernel vvi_ref_largest[] = {{"ref", accepts_largest, NULL, run_largest, NULL, 0}, {0}};
