/* vec_rows.c - sums and maps over one contiguous run. */
#include "backend/cpu/vec_rows.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec_math.h"

enum { BLOCK = 512 };

VVI_CLONES double vvi_row_sum(const float *x, int64_t n)
{
    double total = 0.0;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t end = vvi_min64(at + BLOCK, n);
        float s = 0.0f;
        VVI_SIMD_SUM(s)
        for (int64_t i = at; i < end; i++)
            s += x[i];
        total += (double)s;
    }
    return total;
}

VVI_CLONES double vvi_row_dot(const float *a, const float *b, int64_t n)
{
    double total = 0.0;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t end = vvi_min64(at + BLOCK, n);
        float s = 0.0f;
        VVI_SIMD_SUM(s)
        for (int64_t i = at; i < end; i++)
            s += a[i] * b[i];
        total += (double)s;
    }
    return total;
}

VVI_CLONES double vvi_row_square(const float *x, float mean, int64_t n)
{
    double total = 0.0;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t end = vvi_min64(at + BLOCK, n);
        float s = 0.0f;
        VVI_SIMD_SUM(s)
        for (int64_t i = at; i < end; i++)
            s += (x[i] - mean) * (x[i] - mean);
        total += (double)s;
    }
    return total;
}

VVI_CLONES double vvi_row_product(const float *a, const float *b, const float *x, float mean,
                                  int64_t n)
{
    double total = 0.0;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t end = vvi_min64(at + BLOCK, n);
        float s = 0.0f;
        if (b) {
            VVI_SIMD_SUM(s)
            for (int64_t i = at; i < end; i++)
                s += a[i] * b[i] * (x[i] - mean);
        } else {
            VVI_SIMD_SUM(s)
            for (int64_t i = at; i < end; i++)
                s += a[i] * (x[i] - mean);
        }
        total += (double)s;
    }
    return total;
}

VVI_CLONES float vvi_row_max(const float *x, int64_t n)
{
    float best = -INFINITY;
    int nan = 0;
#pragma omp simd reduction(max : best) reduction(| : nan)
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i];
        best = v > best ? v : best;
        nan |= v != v;
    }
    return nan ? NAN : best;
}

VVI_CLONES float vvi_row_min(const float *x, int64_t n)
{
    float best = INFINITY;
    int nan = 0;
#pragma omp simd reduction(min : best) reduction(| : nan)
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i];
        best = v < best ? v : best;
        nan |= v != v;
    }
    return nan ? NAN : best;
}

VVI_CLONES double vvi_row_exp(float *dst, const float *x, float shift, int64_t n)
{
    double total = 0.0;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t end = vvi_min64(at + BLOCK, n);
        float s = 0.0f;
        VVI_SIMD_SUM(s)
        for (int64_t i = at; i < end; i++) {
            const float e = vvi_expf(x[i] - shift);
            dst[i] = e;
            s += e;
        }
        total += (double)s;
    }
    return total;
}

VVI_CLONES double vvi_row_exp_sum(const float *x, float shift, int64_t n)
{
    double total = 0.0;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t end = vvi_min64(at + BLOCK, n);
        float s = 0.0f;
        VVI_SIMD_SUM(s)
        for (int64_t i = at; i < end; i++)
            s += vvi_expf(x[i] - shift);
        total += (double)s;
    }
    return total;
}

VVI_CLONES void vvi_row_shift(float *dst, const float *x, float add, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = x[i] + add;
}

VVI_CLONES void vvi_row_norm(float *y, const float *x, float mean, float rstd, const float *gamma,
                             const float *beta, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
}

VVI_CLONES void vvi_row_norm_grad(float *dx, const float *dy, const float *x, const float *gamma,
                                  float mean, float rstd, float a, float b, float *dgamma,
                                  float *dbeta, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++) {
        const float d = dy[i], centred = x[i] - mean;
        dgamma[i] += d * (centred * rstd);
        dbeta[i] += d;
        dx[i] = rstd * (d * gamma[i] - a - centred * b);
    }
}

VVI_CLONES void vvi_row_softmax_grad(float *dx, const float *dy, const float *y, float sum,
                                     bool log, int64_t n)
{
    if (log) {
        VVI_SIMD
        for (int64_t i = 0; i < n; i++)
            dx[i] = dy[i] - vvi_expf(y[i]) * sum;
    } else {
        VVI_SIMD
        for (int64_t i = 0; i < n; i++)
            dx[i] = y[i] * (dy[i] - sum);
    }
}

VVI_CLONES void vvi_row_entropy_grad(float *dx, const float *p, const float *t, float scale,
                                     float factor, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dx[i] = scale * p[i] - factor * t[i];
}

VVI_CLONES void vvi_row_multiply(float *dst, const float *a, const float *b, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = a[i] * b[i];
}

VVI_CLONES void vvi_row_softcap(float *dst, const float *x, float cap, int64_t n)
{
    const float inverse = 1.0f / cap;
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = cap * vvi_tanhf(x[i] * inverse);
}

VVI_CLONES void vvi_row_capped(float *dst, const float *e, const float *capped, float scale,
                               float cap, int64_t n)
{
    const float inverse = 1.0f / cap;
    VVI_SIMD
    for (int64_t i = 0; i < n; i++) {
        const float t = capped[i] * inverse;
        dst[i] = e[i] * scale * (1.0f - t * t);
    }
}
