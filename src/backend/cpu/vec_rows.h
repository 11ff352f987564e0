/* vec_rows.h - sums and maps over one contiguous run. Sums are f32 within 512 elements, double
 * beyond. */
#ifndef VVI_VEC_ROWS_H
#define VVI_VEC_ROWS_H

#include <stdbool.h>
#include <stdint.h>

double vvi_row_sum(const float *x, int64_t n);
double vvi_row_dot(const float *a, const float *b, int64_t n);
/* sum of (x - mean)^2 */
double vvi_row_square(const float *x, float mean, int64_t n);
/* sum of a b (x - mean); b may be NULL (1). */
double vvi_row_product(const float *a, const float *b, const float *x, float mean, int64_t n);
/* Largest and smallest; NaN if there is one. */
float vvi_row_max(const float *x, int64_t n);
float vvi_row_min(const float *x, int64_t n);
/* dst = e^(x - shift); returns the sum. dst may be x. */
double vvi_row_exp(float *dst, const float *x, float shift, int64_t n);
/* sum of e^(x - shift), nothing stored. */
double vvi_row_exp_sum(const float *x, float shift, int64_t n);
/* dst = x + add */
void vvi_row_shift(float *dst, const float *x, float add, int64_t n);
/* y = (x - mean) * rstd * gamma + beta */
void vvi_row_norm(float *y, const float *x, float mean, float rstd, const float *gamma,
                  const float *beta, int64_t n);
/* dx = rstd * (dy * gamma - a - (x - mean) * b); dgamma += dy * (x - mean) * rstd; dbeta += dy. */
void vvi_row_norm_grad(float *dx, const float *dy, const float *x, const float *gamma, float mean,
                       float rstd, float a, float b, float *dgamma, float *dbeta, int64_t n);
/* dx = y * (dy - sum), or dy - e^y * sum. */
void vvi_row_softmax_grad(float *dx, const float *dy, const float *y, float sum, bool log,
                          int64_t n);
/* dx = scale * p - factor * t */
void vvi_row_entropy_grad(float *dx, const float *p, const float *t, float scale, float factor,
                          int64_t n);
/* dst = cap * tanh(x / cap); dst may be x. */
void vvi_row_softcap(float *dst, const float *x, float cap, int64_t n);
/* dst = e * scale * (1 - (capped / cap)^2): the slope of that. dst may be e or capped. */
void vvi_row_capped(float *dst, const float *e, const float *capped, float scale, float cap,
                    int64_t n);
/* a b, into dst. */
void vvi_row_multiply(float *dst, const float *a, const float *b, int64_t n);

#endif
