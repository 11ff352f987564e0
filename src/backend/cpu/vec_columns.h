/* vec_columns.h - loops over rows of channels: sums per column and maps with a coefficient per
 * column. */
#ifndef VVI_VEC_COLUMNS_H
#define VVI_VEC_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

/* Column sums are added to what is there. All matrices are dense [rows,width] f32. */
void vvi_col_sum(float *sum, const float *x, int64_t rows, int64_t width);
void vvi_col_max(float *best, const float *x, int64_t rows, int64_t width);
void vvi_col_min(float *best, const float *x, int64_t rows, int64_t width);
/* sum of x - shift and of its square. */
void vvi_col_moments(float *sum, float *square, const float *x, const float *shift, int64_t rows,
                     int64_t width);
/* sum of dy and of dy * (x - mean). */
void vvi_col_grad_sums(float *sum, float *product, const float *dy, const float *x,
                       const float *mean, int64_t rows, int64_t width);
/* y = (x - mean) * scale + shift (+ add), and the relu of it. add may be NULL; y may be x or
   add. */
void vvi_col_apply(float *y, const float *x, const float *add, bool relu, const float *mean,
                   const float *scale, const float *shift, int64_t rows, int64_t width);
/* dx = a * dy + b * (x - mean) + c; dx may be dy or x. */
void vvi_col_apply_grad(float *dx, const float *dy, const float *x, const float *mean,
                        const float *a, const float *b, const float *c, int64_t rows,
                        int64_t width);
/* out = y > 0 ? dy : 0 */
void vvi_relu_mask(float *out, const float *dy, const float *y, int64_t n);

#endif
