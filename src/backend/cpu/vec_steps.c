/* vec_steps.c - the element-wise operations on runs of f32. */
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"
#include "backend/cpu/vec_math.h"

#define MAP(value)                                                                                 \
    do {                                                                                           \
        VVI_SIMD                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const float x = a[i];                                                                  \
            dst[i] = (value);                                                                      \
        }                                                                                          \
    } while (0)

#define MAP2(value)                                                                                \
    do {                                                                                           \
        VVI_SIMD                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const float x = a[i], y = b[i];                                                        \
            dst[i] = (value);                                                                      \
        }                                                                                          \
    } while (0)

/* 2 sqrt(2/pi) (x + 0.044715 x^3) = 2 u: 0.5 (1 + tanh u) is sigmoid(2u), without cancellation. */
static inline float gelu_tanh_arg(float x)
{
    return 1.59576912f * (x + 0.044715f * x * x * x);
}

static inline float softplus(float x)
{
    return (x > 0.0f ? x : 0.0f) + vvi_log1p_unit(vvi_expf(-fabsf(x)));
}

static inline float hardswish(float x)
{
    const float lifted = x + 3.0f;
    const float low = lifted < 0.0f ? 0.0f : lifted;
    return x * (low > 6.0f ? 6.0f : low) * (1.0f / 6.0f);
}

VVI_CLONES static void step_activation(int64_t kind, float p, float *dst, const float *a, int64_t n)
{
    switch (kind) {
    case VV_UNARY_RELU: MAP(x < 0.0f ? 0.0f : x); break;
    case VV_UNARY_LEAKY_RELU: MAP(x > 0.0f ? x : p * x); break;
    case VV_UNARY_GELU: MAP(x * vvi_normal_cdf(x)); break;
    case VV_UNARY_GELU_TANH: MAP(x * vvi_sigmoidf(gelu_tanh_arg(x))); break;
    case VV_UNARY_SILU: MAP(x * vvi_sigmoidf(x)); break;
    case VV_UNARY_SIGMOID: MAP(vvi_sigmoidf(x)); break;
    case VV_UNARY_TANH: MAP(vvi_tanhf(x)); break;
    case VV_UNARY_HARDSWISH: MAP(hardswish(x)); break;
    case VV_UNARY_SOFTPLUS: MAP(softplus(x)); break;
    default: break;
    }
}

VVI_CLONES static void step_unary(int64_t kind, float p, float q, float *dst, const float *a,
                                  int64_t n)
{
    switch (kind) {
    case VV_UNARY_NEG: MAP(-x); break;
    case VV_UNARY_EXP: MAP(vvi_expf(x)); break;
    case VV_UNARY_LOG: MAP(vvi_logf(x)); break;
    case VV_UNARY_SQRT: MAP(sqrtf(x)); break;
    case VV_UNARY_RSQRT: MAP(1.0f / sqrtf(x)); break;
    case VV_UNARY_RECIPROCAL: MAP(1.0f / x); break;
    case VV_UNARY_SQUARE: MAP(x * x); break;
    case VV_UNARY_ABS: MAP(fabsf(x)); break;
    case VV_UNARY_SIGN: MAP(x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : x)); break;
    case VV_UNARY_CLAMP: MAP(x < p ? p : (x > q ? q : x)); break;
    case VV_UNARY_AFFINE: MAP(p * x + q); break;
    default: step_activation(kind, p, dst, a, n); break;
    }
}

static void step_pow(float exponent, float *dst, const float *a, int64_t n)
{
    if (exponent == 2.0f) {
        MAP(x * x);
    } else if (exponent == 3.0f) {
        MAP(x * x * x);
    } else {
        for (int64_t i = 0; i < n; i++)
            dst[i] = powf(a[i], exponent);
    }
}

/* Beyond 30 it is 0 or 1 to all digits; there x^2 would meet s (1 - s) = 0 as infinity. */
static inline float gelu_tanh_slope(float x)
{
    x = x > 30.0f ? 30.0f : x;
    x = x < -30.0f ? -30.0f : x;
    const float s = vvi_sigmoidf(gelu_tanh_arg(x));
    const float du = 1.59576912f * (1.0f + 3.0f * 0.044715f * x * x);
    return s + x * s * (1.0f - s) * du;
}

static inline float silu_slope(float x)
{
    const float s = vvi_sigmoidf(x);
    return s + x * s * (1.0f - s);
}

static inline float hardswish_slope(float x)
{
    const float middle = (2.0f * x + 3.0f) * (1.0f / 6.0f);
    return x <= -3.0f ? 0.0f : (x >= 3.0f ? 1.0f : middle);
}

/* Here x is the incoming gradient, y the operand or the result of the forward op. */
VVI_CLONES static void step_activation_grad(int64_t kind, float p, float *dst, const float *a,
                                            const float *b, int64_t n)
{
    switch (kind) {
    case VV_UNARY_RELU: MAP2(y > 0.0f ? x : 0.0f); break;
    case VV_UNARY_LEAKY_RELU: MAP2(y > 0.0f ? x : p * x); break;
    case VV_UNARY_GELU: MAP2(x * (vvi_normal_cdf(y) + y * vvi_normal_pdf(y))); break;
    case VV_UNARY_GELU_TANH: MAP2(x * gelu_tanh_slope(y)); break;
    case VV_UNARY_SILU: MAP2(x * silu_slope(y)); break;
    case VV_UNARY_SIGMOID: MAP2(x * y * (1.0f - y)); break;
    case VV_UNARY_TANH: MAP2(x * (1.0f - y * y)); break;
    case VV_UNARY_HARDSWISH: MAP2(x * hardswish_slope(y)); break;
    case VV_UNARY_SOFTPLUS: MAP2(x * vvi_sigmoidf(y)); break;
    default: break;
    }
}

VVI_CLONES static void step_unary_grad(int64_t kind, float p, float q, float *dst, const float *a,
                                       const float *b, int64_t n)
{
    switch (kind) {
    case VV_UNARY_NEG: MAP(-x); break;
    case VV_UNARY_EXP: MAP2(x * y); break;
    case VV_UNARY_LOG: MAP2(x / y); break;
    case VV_UNARY_SQRT: MAP2(0.5f * x / y); break;
    case VV_UNARY_RSQRT: MAP2(-0.5f * x * (y * y * y)); break;
    case VV_UNARY_RECIPROCAL: MAP2(-x * (y * y)); break;
    case VV_UNARY_SQUARE: MAP2(2.0f * x * y); break;
    case VV_UNARY_ABS: MAP2(y > 0.0f ? x : (y < 0.0f ? -x : 0.0f)); break;
    case VV_UNARY_SIGN: MAP(0.0f * x); break;
    case VV_UNARY_CLAMP: MAP2(y >= p && y <= q ? x : 0.0f); break;
    case VV_UNARY_AFFINE: MAP(p * x); break;
    default: step_activation_grad(kind, p, dst, a, b, n); break;
    }
}

static void step_pow_grad(float exponent, float *dst, const float *a, const float *b, int64_t n)
{
    if (exponent == 2.0f) {
        MAP2(x * 2.0f * y);
    } else if (exponent == 3.0f) {
        MAP2(x * 3.0f * (y * y));
    } else {
        for (int64_t i = 0; i < n; i++)
            dst[i] = exponent == 0.0f ? 0.0f : a[i] * exponent * powf(b[i], exponent - 1.0f);
    }
}

VVI_CLONES static void step_binary(int64_t kind, float *dst, const float *a, const float *b,
                                   int64_t n)
{
    switch (kind) {
    case VV_BINARY_ADD: MAP2(x + y); break;
    case VV_BINARY_SUB: MAP2(x - y); break;
    case VV_BINARY_MUL: MAP2(x * y); break;
    case VV_BINARY_DIV: MAP2(x / y); break;
    case VV_BINARY_MAX: MAP2(x > y ? x : (y >= x ? y : x + y)); break;
    case VV_BINARY_MIN: MAP2(x < y ? x : (y <= x ? y : x + y)); break;
    case VV_BINARY_EQUAL: MAP2(x == y ? 1.0f : 0.0f); break;
    case VV_BINARY_LESS: MAP2(x < y ? 1.0f : 0.0f); break;
    case VV_BINARY_GREATER_EQUAL: MAP2(x >= y ? 1.0f : 0.0f); break;
    default: break;
    }
}

VVI_CLONES static void step_where(float *dst, const float *condition, const float *a,
                                  const float *b, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++) {
        const float x = a[i], y = b[i];
        dst[i] = condition[i] != 0.0f ? x : y;
    }
}

VVI_CLONES static void step_cast(vv_dtype dtype, float *dst, const float *a, int64_t n)
{
    switch (dtype) {
    case VV_BF16: MAP(vv_bf16_to_f32(vv_f32_to_bf16(x))); break;
    case VV_BOOL: MAP(x != 0.0f ? 1.0f : 0.0f); break;
    case VV_F32: MAP(x); break;
    default: MAP(truncf(x)); break;
    }
}

void vvi_vec_step(const vv_fused_step *step, float *dst, const float *a, const float *b,
                  const float *c, int64_t n)
{
    const int64_t kind = step->attr.unary.kind;
    const float p = (float)step->attr.unary.a, q = (float)step->attr.unary.b;
    switch (step->op) {
    case VV_OP_UNARY:
        if (kind == VV_UNARY_POW)
            step_pow(p, dst, a, n);
        else
            step_unary(kind, p, q, dst, a, n);
        break;
    case VV_OP_UNARY_GRAD:
        if (kind == VV_UNARY_POW)
            step_pow_grad(p, dst, a, b, n);
        else
            step_unary_grad(kind, p, q, dst, a, b, n);
        break;
    case VV_OP_BINARY: step_binary(step->attr.binary.kind, dst, a, b, n); break;
    case VV_OP_WHERE: step_where(dst, a, b, c, n); break;
    case VV_OP_CAST: step_cast(step->dtype, dst, a, n); break;
    default: break;
    }
}
