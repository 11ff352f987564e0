/* vec_math.h - exp, log, tanh, erf as branch-free f32 code that the compiler vectorises.
 *
 * Polynomials are minimax fits of our own (least squares reweighted to the Chebyshev bound); the
 * bound is named beside each. Errors against double: a few 1e-7 relative. NaN and infinities come
 * out as in C. */
#ifndef VVI_VEC_MATH_H
#define VVI_VEC_MATH_H

#include <vivace/tensor.h>

#include <math.h>
#include <string.h>

static inline float vvi_bits_f32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t vvi_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* e^x = 2^n e^r, |r| <= ln2/2; 1 + r + r^2 p(r), 3e-9. n is split in two so that both ends of the
   range, denormals and infinity, come out of the multiplications. */
static inline float vvi_expf(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    const float t = x * 1.44269504f + magic;
    const float n = t - magic;
    const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f; /* ln 2 in two parts */
    float p = 0.00138144649f;
    p = p * r + 0.00836878084f;
    p = p * r + 0.0416683927f;
    p = p * r + 0.166665196f;
    p = p * r + 0.49999994f;
    p = p * (r * r) + r + 1.0f;
    const int32_t k = (int32_t)(vvi_f32_bits(t) - 0x4b400000u);
    const int32_t half = k >> 1;
    const float a = vvi_bits_f32((uint32_t)(half + 127) << 23);
    const float b = vvi_bits_f32((uint32_t)(k - half + 127) << 23);
    return p * a * b;
}

/* log x = e ln2 + log m, m in [sqrt 1/2, sqrt 2); f - f^2/2 + f^3 p(f), f = m - 1, 6e-9. */
static inline float vvi_logf(float x)
{
    const bool tiny = x < 1.17549435e-38f;
    const float scaled = tiny ? x * 16777216.0f : x;
    const uint32_t bits = vvi_f32_bits(scaled);
    const int32_t e = (int32_t)(bits - 0x3f3504f3u) >> 23;
    const float f = vvi_bits_f32(bits - ((uint32_t)e << 23)) - 1.0f;
    const float n = (float)e - (tiny ? 24.0f : 0.0f);
    float p = -0.0763442963f;
    p = p * f + 0.127615496f;
    p = p * f - 0.131601945f;
    p = p * f + 0.142017618f;
    p = p * f - 0.16623357f;
    p = p * f + 0.200012267f;
    p = p * f - 0.250008225f;
    p = p * f + 0.333333313f;
    const float z = f * f;
    float y = f * z * p + n * -2.12194440e-4f;
    y = y - 0.5f * z;
    y = f + y + n * 0.693359375f;
    y = x == 0.0f ? -INFINITY : y;
    y = x > 3.40282347e38f ? x : y;
    return x >= 0.0f ? y : NAN;
}

/* log(1 + u) for u in [0, 1]: log of the rounded sum plus what rounding lost. */
static inline float vvi_log1p_unit(float u)
{
    const float w = 1.0f + u;
    return vvi_logf(w) + (u - (w - 1.0f)) / w;
}

/* x + x^3 p(x^2) below 0.625 (5e-9), else 1 - 2 / (e^2x + 1). */
static inline float vvi_tanhf(float x)
{
    const float ax = fabsf(x), z = x * x;
    float p = -0.00566698052f;
    p = p * z + 0.0206061807f;
    p = p * z - 0.0537300073f;
    p = p * z + 0.133313313f;
    p = p * z - 0.333332777f;
    const float small = x + x * (z * p);
    const float large = 1.0f - 2.0f / (vvi_expf(2.0f * ax) + 1.0f);
    return ax < 0.625f ? small : copysignf(large, x);
}

static inline float vvi_sigmoidf(float x)
{
    const float e = vvi_expf(-fabsf(x)), r = 1.0f / (1.0f + e);
    return x < 0.0f ? e * r : r;
}

/* erfc(x) for x >= 1 as e^(-x^2) q(1/(x+2)), 7e-9. */
static inline float vvi_erfc_tail(float x)
{
    const float t = 1.0f / (x + 2.0f);
    float q = 21.0151348f;
    q = q * t - 24.2188683f;
    q = q * t + 1.99853528f;
    q = q * t + 3.20905924f;
    q = q * t + 2.56888461f;
    q = q * t + 2.01755261f;
    q = q * t + 1.12453747f;
    q = q * t + 0.56436938f;
    q = q * t - 3.46836714e-06f;
    return vvi_expf(-x * x) * q;
}

/* Distribution function of the normal law: erf(z) = z p(z^2) below 1 (4e-8), the tail above, so
   that small probabilities keep their relative accuracy. */
static inline float vvi_normal_cdf(float x)
{
    const float s = x * 0.707106781f, as = fabsf(s), z = s * s;
    float p = -0.000563156325f;
    p = p * z + 0.00491759041f;
    p = p * z - 0.0267113503f;
    p = p * z + 0.11280182f;
    p = p * z - 0.376123279f;
    p = p * z + 1.12837911f;
    const float centre = 0.5f + 0.5f * (s * p);
    const float tail = 0.5f * vvi_erfc_tail(as);
    return as < 1.0f ? centre : (s < 0.0f ? tail : 1.0f - tail);
}

static inline float vvi_normal_pdf(float x)
{
    return 0.398942280f * vvi_expf(-0.5f * x * x);
}

#endif
