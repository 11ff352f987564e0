/* vec.h - vector primitives on runs of elements; all are compiled per instruction set. */
#ifndef VVI_VEC_H
#define VVI_VEC_H

#include <vivace/ext/backend.h>

/* vec_steps.c: one element-wise step on n elements. dst may be one of the operands. */
void vvi_vec_step(const vv_fused_step *step, float *dst, const float *a, const float *b,
                  const float *c, int64_t n);

/* vec_convert.c: any dtype from and to f32. `at` is the index of the first element. */
void vvi_vec_load(float *dst, vv_dtype dtype, const void *src, int64_t at, int64_t n);
void vvi_vec_store(vv_dtype dtype, void *dst, int64_t at, const float *src, int64_t n);
/* Whole arrays on all threads. */
void vvi_vec_load_all(float *dst, vv_dtype dtype, const void *src, int64_t n);
void vvi_vec_store_all(vv_dtype dtype, void *dst, const float *src, int64_t n);
/* dst = value; dst += src; dst = src * scale. */
void vvi_vec_fill(float *dst, float value, int64_t n);
void vvi_vec_add(float *dst, const float *src, int64_t n);
void vvi_vec_scale(float *dst, const float *src, float scale, int64_t n);

/* The run as f32: the memory itself if it holds f32, else converted into `room`. */
static inline const float *vvi_vec_view(float *room, const vv_buf *buf, int64_t at, int64_t n)
{
    if (buf->dtype == VV_F32)
        return (const float *)buf->data + at;
    vvi_vec_load(room, buf->dtype, buf->data, at, n);
    return room;
}

/* f32 and bf16: what the vector kernels compute on. */
static inline bool vvi_is_vec_float(vv_dtype dtype)
{
    return dtype == VV_F32 || dtype == VV_BF16;
}

#endif
