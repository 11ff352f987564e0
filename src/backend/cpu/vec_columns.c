/* vec_columns.c - loops over rows of channels. Four rows at a time, so that the accumulators are
 * loaded and stored once for four elements. */
#include "backend/cpu/vec_columns.h"
#include "backend/cpu/parallel.h"

VVI_CLONES void vvi_col_sum(float *sum, const float *x, int64_t rows, int64_t width)
{
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const float *a = x + r * width, *b = a + width, *c = b + width, *d = c + width;
        VVI_SIMD
        for (int64_t i = 0; i < width; i++)
            sum[i] += (a[i] + b[i]) + (c[i] + d[i]);
    }
    for (; r < rows; r++) {
        const float *a = x + r * width;
        VVI_SIMD
        for (int64_t i = 0; i < width; i++)
            sum[i] += a[i];
    }
}

/* A NaN is kept once met. */
VVI_CLONES void vvi_col_max(float *best, const float *x, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *a = x + r * width;
        VVI_SIMD
        for (int64_t i = 0; i < width; i++) {
            const float v = a[i], m = best[i], larger = v > m ? v : m;
            best[i] = v != v ? v : larger;
        }
    }
}

VVI_CLONES void vvi_col_min(float *best, const float *x, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *a = x + r * width;
        VVI_SIMD
        for (int64_t i = 0; i < width; i++) {
            const float v = a[i], m = best[i], smaller = v < m ? v : m;
            best[i] = v != v ? v : smaller;
        }
    }
}

VVI_CLONES void vvi_col_moments(float *sum, float *square, const float *x, const float *shift,
                                int64_t rows, int64_t width)
{
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const float *a = x + r * width, *b = a + width, *c = b + width, *d = c + width;
        VVI_SIMD
        for (int64_t i = 0; i < width; i++) {
            const float k = shift[i];
            const float p = a[i] - k, q = b[i] - k, s = c[i] - k, t = d[i] - k;
            sum[i] += (p + q) + (s + t);
            square[i] += (p * p + q * q) + (s * s + t * t);
        }
    }
    for (; r < rows; r++) {
        const float *a = x + r * width;
        VVI_SIMD
        for (int64_t i = 0; i < width; i++) {
            const float p = a[i] - shift[i];
            sum[i] += p;
            square[i] += p * p;
        }
    }
}

VVI_CLONES void vvi_col_grad_sums(float *sum, float *product, const float *dy, const float *x,
                                  const float *mean, int64_t rows, int64_t width)
{
    int64_t r = 0;
    for (; r + 2 <= rows; r += 2) {
        const float *a = x + r * width, *b = a + width, *da = dy + r * width, *db = da + width;
        VVI_SIMD
        for (int64_t i = 0; i < width; i++) {
            const float k = mean[i];
            sum[i] += da[i] + db[i];
            product[i] += da[i] * (a[i] - k) + db[i] * (b[i] - k);
        }
    }
    for (; r < rows; r++) {
        const float *a = x + r * width, *da = dy + r * width;
        VVI_SIMD
        for (int64_t i = 0; i < width; i++) {
            sum[i] += da[i];
            product[i] += da[i] * (a[i] - mean[i]);
        }
    }
}

VVI_CLONES void vvi_col_apply(float *y, const float *x, const float *add, bool relu,
                              const float *mean, const float *scale, const float *shift,
                              int64_t rows, int64_t width)
{
    const float floor = relu ? 0.0f : -__builtin_inff();
    for (int64_t r = 0; r < rows; r++) {
        const float *a = x + r * width;
        float *to = y + r * width;
        if (add) {
            const float *b = add + r * width;
            VVI_SIMD
            for (int64_t i = 0; i < width; i++) {
                const float v = (a[i] - mean[i]) * scale[i] + shift[i] + b[i];
                to[i] = v < floor ? floor : v;
            }
        } else {
            VVI_SIMD
            for (int64_t i = 0; i < width; i++) {
                const float v = (a[i] - mean[i]) * scale[i] + shift[i];
                to[i] = v < floor ? floor : v;
            }
        }
    }
}

VVI_CLONES void vvi_col_apply_grad(float *dx, const float *dy, const float *x, const float *mean,
                                   const float *a, const float *b, const float *c, int64_t rows,
                                   int64_t width)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *g = dy + r * width, *v = x + r * width;
        float *to = dx + r * width;
        VVI_SIMD
        for (int64_t i = 0; i < width; i++)
            to[i] = a[i] * g[i] + (b[i] * (v[i] - mean[i]) + c[i]);
    }
}

VVI_CLONES void vvi_relu_mask(float *out, const float *dy, const float *y, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++) {
        const float g = dy[i];
        out[i] = y[i] > 0.0f ? g : 0.0f;
    }
}
