/* vec_attention.c - products, softmax and masks on tiles of attention scores. */
#include "backend/cpu/vec_attention.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec_math.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

enum { ROWS = 4, STEP = VVI_TILE_STEP };

/* A block of `rows` x 16 sums, kept in registers: 8 of AVX2's 16. */
#define PRODUCT_BLOCK(name, rows)                                                      \
    INLINE void name(float *c, int64_t c_row, const vvi_tile_matrix *a, const float *b, \
                     int64_t b_row, int64_t k, bool add)                               \
    {                                                                                  \
        float sum[rows][STEP];                                                         \
        const float *x = a->at;                                                        \
        UNROLL for (int i = 0; i < (rows); i++)                                        \
            VVI_SIMD for (int j = 0; j < STEP; j++) sum[i][j] = 0.0f;                  \
        for (int64_t p = 0; p < k; p++, x += a->column, b += b_row)                    \
            UNROLL for (int i = 0; i < (rows); i++)                                    \
                VVI_SIMD for (int j = 0; j < STEP; j++) sum[i][j] += x[i * a->row] * b[j]; \
        if (add)                                                                       \
            UNROLL for (int i = 0; i < (rows); i++)                                    \
                VVI_SIMD for (int j = 0; j < STEP; j++) c[i * c_row + j] += sum[i][j]; \
        else                                                                           \
            UNROLL for (int i = 0; i < (rows); i++)                                    \
                VVI_SIMD for (int j = 0; j < STEP; j++) c[i * c_row + j] = sum[i][j];  \
    }
PRODUCT_BLOCK(product_rows, ROWS)
PRODUCT_BLOCK(product_row, 1)

/* A panel of 16 columns of b stays in the first-level cache for all rows. */
VVI_CLONES void vvi_tile_product(float *c, int64_t c_row, vvi_tile_matrix a, const float *b,
                                 int64_t b_row, int64_t m, int64_t n, int64_t k, bool add)
{
    const float *first = a.at;
    for (int64_t j = 0; j < n; j += STEP) {
        int64_t i = 0;
        for (; i + ROWS <= m; i += ROWS) {
            a.at = first + i * a.row;
            product_rows(c + i * c_row + j, c_row, &a, b + j, b_row, k, add);
        }
        for (; i < m; i++) {
            a.at = first + i * a.row;
            product_row(c + i * c_row + j, c_row, &a, b + j, b_row, k, add);
        }
    }
}

VVI_CLONES void vvi_tile_dots(float *s, const float *a, const float *b, int64_t row, int64_t m,
                              int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i++, s += VVI_TILE_ROW, a += row) {
        for (int64_t j = 0; j < n; j++) {
            const float *other = b + j * row;
            float sum = 0.0f;
            VVI_SIMD_SUM(sum)
            for (int64_t p = 0; p < k; p++)
                sum += a[p] * other[p];
            s[j] = sum;
        }
        for (int64_t j = n; j % STEP != 0; j++)
            s[j] = 0.0f;
    }
}

VVI_CLONES void vvi_tile_transpose(float *dst, const float *src, int64_t src_row,
                                   int64_t rows, int64_t columns)
{
    for (int64_t c = 0; c < columns; c++) {
        float *to = dst + c * VVI_TILE_ROW;
        for (int64_t r = 0; r < rows; r++)
            to[r] = src[r * src_row + c];
        for (int64_t r = rows; r < VVI_TILE; r++)
            to[r] = 0.0f;
    }
}

VVI_CLONES void vvi_tile_scores(float *s, const vvi_tile_view *view)
{
    const int32_t *mask = view->mask, *key_document = view->key_document;
    const float scale = view->scale, slope = view->slope;
    const int columns = (int)view->columns;
    for (int64_t i = 0; i < view->rows; i++, s += VVI_TILE_ROW) {
        const int64_t at = view->offset + i; /* the column at the query's own position */
        int64_t first = 0, end = view->keys;
        if (view->causal)
            end = vvi_min64(end, at + 1);
        if (view->window > 0) {
            end = vvi_min64(end, at + view->window);
            first = at - view->window + 1;
        }
        const int32_t lo = (int32_t)vvi_max64(first, 0), hi = (int32_t)vvi_max64(end, 0);
        const int32_t document = view->query_document[i];
        const float from = (float)at;
        VVI_SIMD
        for (int32_t j = 0; j < columns; j++) {
            const float score = scale * s[j] - slope * fabsf(from - (float)j);
            const int seen =
                (j >= lo) & (j < hi) & (mask[j] != 0) & (key_document[j] == document);
            s[j] = seen ? score : -INFINITY;
        }
    }
}

/* e^x for x up to a little above 0, as vvi_expf; what is below the normal numbers is 0. */
INLINE float exp_of_negative(float x)
{
    const float magic = 12582912.0f;
    const float t = x * 1.44269504f + magic;
    const float n = t - magic;
    const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 0.00138144649f;
    p = p * r + 0.00836878084f;
    p = p * r + 0.0416683927f;
    p = p * r + 0.166665196f;
    p = p * r + 0.49999994f;
    p = p * (r * r) + r + 1.0f;
    const float power = vvi_bits_f32((vvi_f32_bits(t) << 23) + 0x3f800000u);
    return x < -87.0f ? 0.0f : p * power;
}

VVI_CLONES bool vvi_tile_softmax(float *s, int64_t rows, int64_t columns, float scale,
                                 float *largest, float *total, float *shrink)
{
    bool any = false;
    for (int64_t i = 0; i < rows; i++, s += VVI_TILE_ROW) {
        float best = -INFINITY, sum = 0.0f;
#pragma omp simd reduction(max : best)
        for (int64_t j = 0; j < columns; j++) {
            s[j] *= scale;
            best = s[j] > best ? s[j] : best;
        }
        best = best > largest[i] ? best : largest[i];
        const float zero = best == -INFINITY ? 0.0f : best; /* nothing seen yet: all become 0 */
        VVI_SIMD_SUM(sum)
        for (int64_t j = 0; j < columns; j++) {
            s[j] = exp_of_negative(s[j] - zero);
            sum += s[j];
        }
        shrink[i] = exp_of_negative(largest[i] - zero);
        total[i] = total[i] * shrink[i] + sum;
        largest[i] = best;
        any = any || shrink[i] != 1.0f;
    }
    return any;
}

VVI_CLONES void vvi_tile_weights(float *s, int64_t rows, int64_t columns, float scale,
                                 const float *logsumexp)
{
    for (int64_t i = 0; i < rows; i++, s += VVI_TILE_ROW) {
        const float total = logsumexp[i];
        VVI_SIMD
        for (int64_t j = 0; j < columns; j++)
            s[j] = exp_of_negative(scale * s[j] - total);
    }
}

VVI_CLONES void vvi_tile_softmax_grad(float *ds, const float *p, const float *dp, int64_t rows,
                                      int64_t columns, float scale, const float *delta)
{
    for (int64_t i = 0; i < rows; i++) {
        const float mean = delta[i];
        VVI_SIMD
        for (int64_t j = i * VVI_TILE_ROW; j < i * VVI_TILE_ROW + columns; j++)
            ds[j] = p[j] * (dp[j] - mean) * scale;
    }
}

VVI_CLONES void vvi_tile_keep(float *x, const float *u, float limit, float scale, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++, x += VVI_TILE_ROW, u += VVI_TILE) {
        VVI_SIMD
        for (int64_t j = 0; j < VVI_TILE; j++)
            x[j] = u[j] >= limit ? x[j] * scale : 0.0f;
    }
}

VVI_CLONES void vvi_tile_shrink(float *x, int64_t row, int64_t rows, int64_t columns,
                                const float *by)
{
    for (int64_t i = 0; i < rows; i++, x += row) {
        const float factor = by[i];
        VVI_SIMD
        for (int64_t j = 0; j < columns; j++)
            x[j] *= factor;
    }
}
