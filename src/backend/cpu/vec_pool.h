/* vec_pool.h - pooling of one pixel: loops over its channels. */
#ifndef VVI_VEC_POOL_H
#define VVI_VEC_POOL_H

#include <stdint.h>

/* best = larger of best and x, NaN counting as largest. */
void vvi_pool_max(float *best, const float *x, int64_t n);
/* Same, and `which` becomes `place` where x is strictly larger. */
void vvi_pool_argmax(float *best, int32_t *which, const float *x, int32_t place, int64_t n);
/* dx += dy where which == place. */
void vvi_pool_scatter(float *dx, const float *dy, const int32_t *which, int32_t place, int64_t n);
/* dst += src * factor */
void vvi_pool_axpy(float *dst, const float *src, float factor, int64_t n);
/* dst = a * p + b * q; b == 0 reads only a's. */
void vvi_pool_blend(float *dst, const float *a, float p, const float *b, float q, int64_t n);

#endif
