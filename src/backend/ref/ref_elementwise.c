/* ref_elementwise.c - reference kernels of element-wise, random and constant ops. */
#include "backend/ref/ref_index.h"

#include <math.h>

#define SQRT_2 1.41421356237309504880
#define SQRT_2_BY_PI 0.79788456080286535588
#define INV_SQRT_2PI 0.39894228040143267794
#define TWO_PI 6.28318530717958647693
#define GELU_CUBIC 0.044715 /* arXiv 1606.08415, section 2 */

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* Standard normal distribution function; erfc keeps the digits of the lower tail. */
static double normal_cdf(double x)
{
    return 0.5 * erfc(-x / SQRT_2);
}

/* Where the result of a comparison with NaN is false, the NaN passes through. */
static double unary_value(vv_unary kind, double a, double b, double x)
{
    switch (kind) {
    case VV_UNARY_NEG:
        return -x;
    case VV_UNARY_EXP:
        return exp(x);
    case VV_UNARY_LOG:
        return log(x);
    case VV_UNARY_SQRT:
        return sqrt(x);
    case VV_UNARY_RSQRT:
        return 1.0 / sqrt(x);
    case VV_UNARY_RECIPROCAL:
        return 1.0 / x;
    case VV_UNARY_SQUARE:
        return x * x;
    case VV_UNARY_ABS:
        return fabs(x);
    case VV_UNARY_SIGN:
        return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
    case VV_UNARY_RELU:
        return x < 0.0 ? 0.0 : x;
    case VV_UNARY_LEAKY_RELU:
        return x < 0.0 ? a * x : x;
    case VV_UNARY_GELU:
        return x * normal_cdf(x);
    case VV_UNARY_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(SQRT_2_BY_PI * (x + GELU_CUBIC * x * x * x)));
    case VV_UNARY_SILU:
        return x * sigmoid(x);
    case VV_UNARY_SIGMOID:
        return sigmoid(x);
    case VV_UNARY_TANH:
        return tanh(x);
    case VV_UNARY_HARDSWISH:
        return x <= -3.0 ? 0.0 : x >= 3.0 ? x : x * (x + 3.0) / 6.0;
    case VV_UNARY_SOFTPLUS:
        return (x < 0.0 ? 0.0 : x) + log1p(exp(-fabs(x)));
    case VV_UNARY_CLAMP:
        return x < a ? a : x > b ? b : x;
    case VV_UNARY_AFFINE:
        return a * x + b;
    case VV_UNARY_POW:
        return pow(x, a);
    case VV_UNARY_COUNT:
        break;
    }
    return 0.0;
}

static double gelu_tanh_slope(double x)
{
    const double t = tanh(SQRT_2_BY_PI * (x + GELU_CUBIC * x * x * x));
    const double inner = SQRT_2_BY_PI * (1.0 + 3.0 * GELU_CUBIC * x * x);
    const double rest = 1.0 - t * t; /* 0 far out, where inner may be infinite */
    return 0.5 * (1.0 + t) + (rest > 0.0 ? 0.5 * x * rest * inner : 0.0);
}

/* Derivative at x, or in terms of the result y for the kinds of vv_unary_grad_uses_y. */
static double unary_slope(vv_unary kind, double a, double b, double v)
{
    switch (kind) {
    case VV_UNARY_NEG:
        return -1.0;
    case VV_UNARY_EXP:
        return v;
    case VV_UNARY_LOG:
        return 1.0 / v;
    case VV_UNARY_SQRT:
        return 0.5 / v;
    case VV_UNARY_RSQRT:
        return -0.5 * v * v * v;
    case VV_UNARY_RECIPROCAL:
        return -v * v;
    case VV_UNARY_SQUARE:
        return 2.0 * v;
    case VV_UNARY_ABS:
        return v > 0.0 ? 1.0 : v < 0.0 ? -1.0 : 0.0;
    case VV_UNARY_SIGN:
        return 0.0;
    case VV_UNARY_RELU:
        return v > 0.0 ? 1.0 : 0.0;
    case VV_UNARY_LEAKY_RELU:
        return v > 0.0 ? 1.0 : a;
    case VV_UNARY_GELU:
        return normal_cdf(v) + v * INV_SQRT_2PI * exp(-0.5 * v * v);
    case VV_UNARY_GELU_TANH:
        return gelu_tanh_slope(v);
    case VV_UNARY_SILU:
        return sigmoid(v) * (1.0 + v * (1.0 - sigmoid(v)));
    case VV_UNARY_SIGMOID:
        return v * (1.0 - v);
    case VV_UNARY_TANH:
        return 1.0 - v * v;
    case VV_UNARY_HARDSWISH:
        return v <= -3.0 ? 0.0 : v >= 3.0 ? 1.0 : (2.0 * v + 3.0) / 6.0;
    case VV_UNARY_SOFTPLUS:
        return sigmoid(v);
    case VV_UNARY_CLAMP:
        return v >= a && v <= b ? 1.0 : 0.0;
    case VV_UNARY_AFFINE:
        return a;
    case VV_UNARY_POW:
        return a == 0.0 ? 0.0 : a * pow(v, a - 1.0);
    case VV_UNARY_COUNT:
        break;
    }
    return 0.0;
}

static vv_status run_unary(const vv_call *call)
{
    const vv_attr *attr = call->attr;
    for (int64_t i = 0; i < call->out[0].count; i++)
        vvi_ref_set(&call->out[0], i,
                    unary_value((vv_unary)attr->unary.kind, attr->unary.a, attr->unary.b,
                                vvi_ref_get(&call->in[0], i)));
    return VV_OK;
}

static vv_status run_unary_grad(const vv_call *call)
{
    const vv_attr *attr = call->attr;
    for (int64_t i = 0; i < call->out[0].count; i++) {
        const double slope = unary_slope((vv_unary)attr->unary.kind, attr->unary.a, attr->unary.b,
                                         vvi_ref_get(&call->in[1], i));
        vvi_ref_set(&call->out[0], i, vvi_ref_get(&call->in[0], i) * slope);
    }
    return VV_OK;
}

/* ---- binary: floats in double, integers in 64 bits with wrap-around ---- */

static bool is_integer(vv_dtype dtype)
{
    return dtype == VV_I32 || dtype == VV_I64 || dtype == VV_U8 || dtype == VV_BOOL;
}

static int64_t get_int(const vv_buf *buf, int64_t i)
{
    switch (buf->dtype) {
    case VV_I64:
        return ((const int64_t *)buf->data)[i];
    case VV_I32:
        return ((const int32_t *)buf->data)[i];
    default:
        return ((const uint8_t *)buf->data)[i];
    }
}

static void set_int(const vv_buf *buf, int64_t i, int64_t value)
{
    switch (buf->dtype) {
    case VV_I64:
        ((int64_t *)buf->data)[i] = value;
        break;
    case VV_I32:
        ((int32_t *)buf->data)[i] = (int32_t)(uint32_t)(uint64_t)value;
        break;
    case VV_BOOL:
        ((uint8_t *)buf->data)[i] = value != 0;
        break;
    default:
        ((uint8_t *)buf->data)[i] = (uint8_t)(uint64_t)value;
        break;
    }
}

/* Maximum and minimum of a NaN are NaN. */
static double binary_value(vv_binary kind, double a, double b)
{
    switch (kind) {
    case VV_BINARY_ADD:
        return a + b;
    case VV_BINARY_SUB:
        return a - b;
    case VV_BINARY_MUL:
        return a * b;
    case VV_BINARY_DIV:
        return a / b;
    case VV_BINARY_MAX:
        return a > b || isnan(a) ? a : b;
    case VV_BINARY_MIN:
        return a < b || isnan(a) ? a : b;
    case VV_BINARY_EQUAL:
        return a == b;
    case VV_BINARY_LESS:
        return a < b;
    case VV_BINARY_GREATER_EQUAL:
        return a >= b;
    case VV_BINARY_COUNT:
        break;
    }
    return 0.0;
}

static int64_t binary_int(vv_binary kind, int64_t a, int64_t b)
{
    switch (kind) {
    case VV_BINARY_ADD:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case VV_BINARY_SUB:
        return (int64_t)((uint64_t)a - (uint64_t)b);
    case VV_BINARY_MUL:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case VV_BINARY_MAX:
        return a > b ? a : b;
    case VV_BINARY_MIN:
        return a < b ? a : b;
    case VV_BINARY_EQUAL:
        return a == b;
    case VV_BINARY_LESS:
        return a < b;
    case VV_BINARY_GREATER_EQUAL:
        return a >= b;
    case VV_BINARY_DIV:
    case VV_BINARY_COUNT:
        break;
    }
    return 0;
}

static bool accepts_binary(const vv_call *call)
{
    const vv_binary kind = (vv_binary)call->attr->binary.kind;
    const vv_dtype a = call->in[0].dtype, b = call->in[1].dtype, out = call->out[0].dtype;
    const bool compares = kind >= VV_BINARY_EQUAL && out == VV_BOOL;
    if (vv_dtype_is_float(a) && vv_dtype_is_float(b))
        return compares || vv_dtype_is_float(out);
    return is_integer(a) && a == b && kind != VV_BINARY_DIV && (compares || out == a);
}

static vv_status run_binary(const vv_call *call)
{
    const vv_binary kind = (vv_binary)call->attr->binary.kind;
    const vv_buf *a = &call->in[0], *b = &call->in[1], *out = &call->out[0];
    const bool integer = is_integer(a->dtype);
    for (int64_t i = 0; i < out->count; i++) {
        const int64_t ia = vvi_ref_operand_index(a, out, i), ib = vvi_ref_operand_index(b, out, i);
        if (integer)
            set_int(out, i, binary_int(kind, get_int(a, ia), get_int(b, ib)));
        else
            vvi_ref_set(out, i, binary_value(kind, vvi_ref_get(a, ia), vvi_ref_get(b, ib)));
    }
    return VV_OK;
}

/* ---- where, cast ---- */

static bool accepts_where(const vv_call *call)
{
    const vv_dtype a = call->in[1].dtype, b = call->in[2].dtype, out = call->out[0].dtype;
    return call->in[0].dtype == VV_BOOL && a == out && b == out;
}

static vv_status run_where(const vv_call *call)
{
    const vv_buf *condition = &call->in[0], *out = &call->out[0];
    const uint8_t *yes = condition->data;
    for (int64_t i = 0; i < out->count; i++) {
        const vv_buf *from =
            yes[vvi_ref_operand_index(condition, out, i)] ? &call->in[1] : &call->in[2];
        vvi_ref_copy(out, i, from, vvi_ref_operand_index(from, out, i), 1);
    }
    return VV_OK;
}

static bool accepts_cast(const vv_call *call)
{
    return call->in[0].dtype < VV_DTYPE_COUNT && call->out[0].dtype < VV_DTYPE_COUNT;
}

/* Towards zero; what does not fit becomes the nearest that does, NaN 0. */
static int64_t truncated(vv_dtype dtype, double value)
{
    double lo = -0x1p63, hi = 0x1p63;
    if (dtype == VV_I32) {
        lo = INT32_MIN;
        hi = INT32_MAX;
    } else if (dtype == VV_U8) {
        lo = 0.0;
        hi = UINT8_MAX;
    }
    if (isnan(value))
        return 0;
    if (value <= lo)
        return (int64_t)lo;
    if (value >= hi)
        return dtype == VV_I64 ? INT64_MAX : (int64_t)hi;
    return (int64_t)value;
}

static vv_status run_cast(const vv_call *call)
{
    const vv_buf *in = &call->in[0], *out = &call->out[0];
    for (int64_t i = 0; i < out->count; i++) {
        if (is_integer(in->dtype) && is_integer(out->dtype))
            set_int(out, i, get_int(in, i));
        else if (is_integer(out->dtype) && out->dtype != VV_BOOL)
            set_int(out, i, truncated(out->dtype, vvi_ref_get(in, i)));
        else
            vvi_ref_set(out, i, vvi_ref_get(in, i));
    }
    return VV_OK;
}

/* ---- random, constant, accumulate ---- */

/* Elements before the first of `out` in the whole batch. */
static uint64_t first_element(const vv_call *call)
{
    const vv_buf *out = &call->out[0];
    const int64_t row = out->ndim > 0 ? vvi_ref_span(out, 1, out->ndim) : 0;
    return (uint64_t)(call->first_item * row);
}

static double draw(const vv_call *call, uint64_t element)
{
    return (double)vv_random_element(call->seed, call->step, (uint64_t)call->attr->random.id,
                                     element);
}

static vv_status run_dropout(const vv_call *call)
{
    const double p = call->attr->random.p;
    const uint64_t first = first_element(call);
    for (int64_t i = 0; i < call->out[0].count; i++) {
        const bool keep = draw(call, first + (uint64_t)i) >= p;
        vvi_ref_set(&call->out[0], i, keep ? vvi_ref_get(&call->in[0], i) / (1.0 - p) : 0.0);
    }
    return VV_OK;
}

static bool accepts_random(const vv_call *call)
{
    return vv_dtype_is_float(call->out[0].dtype) && call->attr->random.kind >= 0 &&
           call->attr->random.kind <= 1;
}

/* Normal numbers by Box and Muller (1958) from the draws 2 i and 2 i + 1. */
static vv_status run_random(const vv_call *call)
{
    const uint64_t first = first_element(call);
    for (int64_t i = 0; i < call->out[0].count; i++) {
        const uint64_t element = first + (uint64_t)i;
        double value;
        if (call->attr->random.kind == 0)
            value = draw(call, element);
        else
            value = sqrt(-2.0 * log1p(-draw(call, 2 * element))) *
                    cos(TWO_PI * draw(call, 2 * element + 1));
        vvi_ref_set(&call->out[0], i, value);
    }
    return VV_OK;
}

static bool accepts_full(const vv_call *call)
{
    return call->out[0].dtype < VV_DTYPE_COUNT;
}

static vv_status run_full(const vv_call *call)
{
    for (int64_t i = 0; i < call->out[0].count; i++)
        vvi_ref_set(&call->out[0], i, call->attr->full.value);
    return VV_OK;
}

static vv_status run_accumulate(const vv_call *call)
{
    const vv_buf *out = &call->out[0];
    for (int64_t i = 0; i < out->count; i++)
        vvi_ref_set(out, i, vvi_ref_get(out, i) + vvi_ref_get(&call->in[0], i));
    return VV_OK;
}

const vv_kernel vvi_ref_full[] = {{"ref", accepts_full, NULL, run_full, NULL, 0}, {0}};
const vv_kernel vvi_ref_unary[] = {{"ref", vvi_ref_all_float, NULL, run_unary, NULL, 1}, {0}};
const vv_kernel vvi_ref_unary_grad[] = {{"ref", vvi_ref_all_float, NULL, run_unary_grad, NULL, 3},
                                        {0}};
const vv_kernel vvi_ref_binary[] = {{"ref", accepts_binary, NULL, run_binary, NULL, 3}, {0}};
const vv_kernel vvi_ref_where[] = {{"ref", accepts_where, NULL, run_where, NULL, 6}, {0}};
const vv_kernel vvi_ref_cast[] = {{"ref", accepts_cast, NULL, run_cast, NULL, 1}, {0}};
const vv_kernel vvi_ref_dropout[] = {{"ref", vvi_ref_all_float, NULL, run_dropout, NULL, 1}, {0}};
const vv_kernel vvi_ref_random[] = {{"ref", accepts_random, NULL, run_random, NULL, 0}, {0}};
const vv_kernel vvi_ref_accumulate[] = {{"ref", vvi_ref_all_float, NULL, run_accumulate, NULL, 0},
                                        {0}};
