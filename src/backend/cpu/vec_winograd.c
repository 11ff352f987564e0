/* vec_winograd.c - the transforms of Winograd convolution, columns first, then rows. */
#include "backend/cpu/vec_winograd.h"
#include "backend/cpu/parallel.h"

enum { BLOCK = 32 };

#define INLINE static inline __attribute__((always_inline))

INLINE void line_input(float *const *y, const float *const *x, int64_t n)
{
    VVI_SIMD
    for (int64_t c = 0; c < n; c++) {
        const float d0 = x[0][c], d1 = x[1][c], d2 = x[2][c], d3 = x[3][c], d4 = x[4][c],
                    d5 = x[5][c];
        const float even = d4 - 4.0f * d2, odd = d3 - 4.0f * d1, e = d4 - d2, o = 2.0f * (d3 - d1);
        y[0][c] = 4.0f * d0 - 5.0f * d2 + d4;
        y[1][c] = even + odd;
        y[2][c] = even - odd;
        y[3][c] = e + o;
        y[4][c] = e - o;
        y[5][c] = 4.0f * d1 - 5.0f * d3 + d5;
    }
}

INLINE void line_output(float *const *y, const float *const *x, int64_t n)
{
    VVI_SIMD
    for (int64_t c = 0; c < n; c++) {
        const float m0 = x[0][c], m1 = x[1][c], m2 = x[2][c], m3 = x[3][c], m4 = x[4][c],
                    m5 = x[5][c];
        const float s = m1 + m2, d = m1 - m2, s2 = m3 + m4, d2 = m3 - m4;
        y[0][c] = m0 + s + s2;
        y[1][c] = d + 2.0f * d2;
        y[2][c] = s + 4.0f * s2;
        y[3][c] = d + 8.0f * d2 + m5;
    }
}

INLINE void line_output_grad(float *const *y, const float *const *x, int64_t n)
{
    VVI_SIMD
    for (int64_t c = 0; c < n; c++) {
        const float v0 = x[0][c], v1 = x[1][c], v2 = x[2][c], v3 = x[3][c];
        const float even = v0 + v2, odd = v1 + v3;
        const float even2 = v0 + 4.0f * v2, odd2 = 2.0f * v1 + 8.0f * v3;
        y[0][c] = v0;
        y[1][c] = even + odd;
        y[2][c] = even - odd;
        y[3][c] = even2 + odd2;
        y[4][c] = even2 - odd2;
        y[5][c] = v3;
    }
}

INLINE void line_weights(float *const *y, const float *const *x, int64_t n)
{
    VVI_SIMD
    for (int64_t c = 0; c < n; c++) {
        const float g0 = x[0][c], g1 = x[1][c], g2 = x[2][c];
        const float sum = (g0 + g2) * (-1.0f / 6.0f), middle = g1 * (-1.0f / 6.0f);
        const float mixed = g0 * (1.0f / 24.0f) + g2 * (1.0f / 6.0f), half = g1 * (1.0f / 12.0f);
        y[0][c] = 0.25f * g0;
        y[1][c] = sum + middle;
        y[2][c] = sum - middle;
        y[3][c] = mixed + half;
        y[4][c] = mixed - half;
        y[5][c] = g2;
    }
}

INLINE void line_weights_grad(float *const *y, const float *const *x, int64_t n)
{
    VVI_SIMD
    for (int64_t c = 0; c < n; c++) {
        const float u0 = x[0][c], u1 = x[1][c], u2 = x[2][c], u3 = x[3][c], u4 = x[4][c],
                    u5 = x[5][c];
        const float a = (u1 + u2) * (-1.0f / 6.0f), b = u3 + u4;
        y[0][c] = 0.25f * u0 + a + b * (1.0f / 24.0f);
        y[1][c] = (u2 - u1) * (1.0f / 6.0f) + (u3 - u4) * (1.0f / 12.0f);
        y[2][c] = a + b * (1.0f / 6.0f) + u5;
    }
}

/* `in` x `in` -> `out` x `out`, a block of channels at a time. */
#define TRANSFORM(line, in, out)                           \
    do {                                                   \
        float half[(in) * (out)][BLOCK];                   \
        for (int64_t c = 0; c < n; c += BLOCK) {           \
            const int64_t count = vvi_min64(BLOCK, n - c); \
            for (int j = 0; j < (in); j++) {               \
                const float *x[in];                        \
                float *y[out];                             \
                for (int i = 0; i < (in); i++)             \
                    x[i] = src[i * (in) + j] + c;          \
                for (int i = 0; i < (out); i++)            \
                    y[i] = half[i * (in) + j];             \
                line(y, x, count);                         \
            }                                              \
            for (int i = 0; i < (out); i++) {              \
                const float *x[in];                        \
                float *y[out];                             \
                for (int j = 0; j < (in); j++)             \
                    x[j] = half[i * (in) + j];             \
                for (int j = 0; j < (out); j++)            \
                    y[j] = dst[i * (out) + j] + c;         \
                line(y, x, count);                         \
            }                                              \
        }                                                  \
    } while (0)

VVI_CLONES void vvi_wino_input(float *const dst[36], const float *const src[36], int64_t n)
{
    TRANSFORM(line_input, 6, 6);
}

VVI_CLONES void vvi_wino_output(float *const dst[16], const float *const src[36], int64_t n)
{
    TRANSFORM(line_output, 6, 4);
}

VVI_CLONES void vvi_wino_weights(float *const dst[36], const float *const src[9], int64_t n)
{
    TRANSFORM(line_weights, 3, 6);
}

VVI_CLONES void vvi_wino_output_grad(float *const dst[36], const float *const src[16], int64_t n)
{
    TRANSFORM(line_output_grad, 4, 6);
}

VVI_CLONES void vvi_wino_weights_grad(float *const dst[9], const float *const src[36], int64_t n)
{
    TRANSFORM(line_weights_grad, 6, 3);
}
