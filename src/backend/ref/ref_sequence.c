/* ref_sequence.c - reference kernels of the rotary embedding and of running sums. */
#include <math.h>

#include "backend/ref/ref.h"

static bool accepts(const vv_call *call)
{
    (void)call;
    return true;
}

/* (a, b) -> (a cos - b sin, a sin + b cos) */
static vv_status run_rotary(const vv_call *call)
{
    const vv_buf *x = &call->in[0], *frequencies = &call->in[1], *y = &call->out[0];
    const int64_t length = x->shape[1], heads = x->shape[2], half = x->shape[3] / 2;
    const int64_t rows = x->shape[0] * length * heads;
    for (int64_t r = 0; r < rows; r++) {
        const double position = (double)(r / heads % length + call->attr->rotary.offset);
        for (int64_t i = 0; i < half; i++) {
            const double angle = position * vvi_ref_get(frequencies, i);
            const double c = cos(angle), s = call->attr->rotary.inverse ? -sin(angle) : sin(angle);
            const int64_t at = r * 2 * half + i;
            const double a = vvi_ref_get(x, at), b = vvi_ref_get(x, at + half);
            vvi_ref_set(y, at, a * c - b * s);
            vvi_ref_set(y, at + half, a * s + b * c);
        }
    }
    return VV_OK;
}

static int64_t get_integer(const vv_buf *x, int64_t i)
{
    return x->dtype == VV_I32 ? ((const int32_t *)x->data)[i] : ((const int64_t *)x->data)[i];
}

static void set_integer(const vv_buf *y, int64_t i, uint64_t value)
{
    if (y->dtype == VV_I32)
        ((int32_t *)y->data)[i] = (int32_t)(uint32_t)value;
    else
        ((int64_t *)y->data)[i] = (int64_t)value;
}

/* Floats are summed in double; integers wrap around. */
static vv_status run_cumsum(const vv_call *call)
{
    const vv_buf *x = &call->in[0], *y = &call->out[0];
    const int64_t width = x->shape[x->ndim - 1], rows = width ? x->count / width : 0;
    const bool real = vv_dtype_is_float(x->dtype), exclusive = call->attr->cumsum.exclusive;
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0.0;
        uint64_t whole = 0;
        for (int64_t k = 0; k < width; k++) {
            const int64_t at = r * width + (call->attr->cumsum.reverse ? width - 1 - k : k);
            const double value = real ? vvi_ref_get(x, at) : 0.0;
            const uint64_t number = real ? 0 : (uint64_t)get_integer(x, at);
            if (real)
                vvi_ref_set(y, at, exclusive ? sum : sum + value);
            else
                set_integer(y, at, exclusive ? whole : whole + number);
            sum += value;
            whole += number;
        }
    }
    return VV_OK;
}

const vv_kernel vvi_ref_rotary[] = {
    {.name = "ref", .accepts = accepts, .run = run_rotary, .in_place = 1}, {.run = NULL}};
const vv_kernel vvi_ref_cumsum[] = {
    {.name = "ref", .accepts = accepts, .run = run_cumsum, .in_place = 1}, {.run = NULL}};
