/* vec_pool.c - pooling of one pixel: loops over its channels. */
#include "backend/cpu/vec_pool.h"
#include "backend/cpu/parallel.h"

VVI_CLONES void vvi_pool_max(float *best, const float *x, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i], m = best[i], larger = v > m ? v : m;
        best[i] = v != v ? v : larger;
    }
}

VVI_CLONES void vvi_pool_argmax(float *best, int32_t *which, const float *x, int32_t place,
                                int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i], m = best[i];
        const int32_t w = which[i];
        const int take = (v > m) | ((v != v) & (m == m));
        best[i] = take ? v : m;
        which[i] = take ? place : w;
    }
}

VVI_CLONES void vvi_pool_scatter(float *dx, const float *dy, const int32_t *which, int32_t place,
                                 int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++) {
        const float g = dy[i];
        dx[i] += which[i] == place ? g : 0.0f;
    }
}

VVI_CLONES void vvi_pool_axpy(float *dst, const float *src, float factor, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] += src[i] * factor;
}

VVI_CLONES void vvi_pool_blend(float *dst, const float *a, float p, const float *b, float q,
                               int64_t n)
{
    if (q == 0.0f) {
        VVI_SIMD
        for (int64_t i = 0; i < n; i++)
            dst[i] = a[i] * p;
    } else if (p == 0.0f) {
        VVI_SIMD
        for (int64_t i = 0; i < n; i++)
            dst[i] = b[i] * q;
    } else {
        VVI_SIMD
        for (int64_t i = 0; i < n; i++)
            dst[i] = a[i] * p + b[i] * q;
    }
}
