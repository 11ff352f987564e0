/* vec_convert.c - runs of elements from and to f32. */
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"

#include <string.h>

VVI_CLONES static void load_bf16(float *dst, const uint16_t *src, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = vv_bf16_to_f32(src[i]);
}

VVI_CLONES static void load_u8(float *dst, const uint8_t *src, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = (float)src[i];
}

VVI_CLONES static void load_i32(float *dst, const int32_t *src, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = (float)src[i];
}

static void load_i64(float *dst, const int64_t *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = (float)src[i];
}

void vvi_vec_load(float *dst, vv_dtype dtype, const void *src, int64_t at, int64_t n)
{
    switch (dtype) {
    case VV_BF16: load_bf16(dst, (const uint16_t *)src + at, n); break;
    case VV_U8:
    case VV_BOOL: load_u8(dst, (const uint8_t *)src + at, n); break;
    case VV_I32: load_i32(dst, (const int32_t *)src + at, n); break;
    case VV_I64: load_i64(dst, (const int64_t *)src + at, n); break;
    default: memcpy(dst, (const float *)src + at, (size_t)n * sizeof *dst); break;
    }
}

VVI_CLONES static void store_bf16(uint16_t *dst, const float *src, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = vv_f32_to_bf16(src[i]);
}

VVI_CLONES static void store_u8(uint8_t *dst, const float *src, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = (uint8_t)(int32_t)(src[i] > 255.0f ? 255.0f : (src[i] > 0.0f ? src[i] : 0.0f));
}

VVI_CLONES static void store_bool(uint8_t *dst, const float *src, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = src[i] != 0.0f;
}

/* Towards zero; what does not fit becomes the nearest that does, NaN 0. */
static inline int32_t to_i32(float x)
{
    const bool fits = x > -2147483648.0f && x < 2147483648.0f;
    const int32_t edge = x >= 2147483648.0f ? INT32_MAX : (x <= -2147483648.0f ? INT32_MIN : 0);
    return fits ? (int32_t)(fits ? x : 0.0f) : edge;
}

VVI_CLONES static void store_i32(int32_t *dst, const float *src, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = to_i32(src[i]);
}

static inline int64_t to_i64(float x)
{
    if (x > -0x1p63f && x < 0x1p63f)
        return (int64_t)x;
    return x >= 0x1p63f ? INT64_MAX : (x <= -0x1p63f ? INT64_MIN : 0);
}

static void store_i64(int64_t *dst, const float *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = to_i64(src[i]);
}

void vvi_vec_store(vv_dtype dtype, void *dst, int64_t at, const float *src, int64_t n)
{
    switch (dtype) {
    case VV_BF16: store_bf16((uint16_t *)dst + at, src, n); break;
    case VV_U8: store_u8((uint8_t *)dst + at, src, n); break;
    case VV_BOOL: store_bool((uint8_t *)dst + at, src, n); break;
    case VV_I32: store_i32((int32_t *)dst + at, src, n); break;
    case VV_I64: store_i64((int64_t *)dst + at, src, n); break;
    default:
        if ((float *)dst + at != src)
            memcpy((float *)dst + at, src, (size_t)n * sizeof *src);
        break;
    }
}

typedef struct convert_job {
    float *to;
    const void *from;
    void *store_to;
    const float *store_from;
    vv_dtype dtype;
    int64_t count;
} convert_job;

enum { CONVERT_GRAIN = 65536 };

static void convert_chunk(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const convert_job *job = ctx;
    const int64_t at = chunk * CONVERT_GRAIN, n = vvi_min64(CONVERT_GRAIN, job->count - at);
    if (job->to)
        vvi_vec_load(job->to + at, job->dtype, job->from, at, n);
    else
        vvi_vec_store(job->dtype, job->store_to, at, job->store_from + at, n);
}

void vvi_vec_load_all(float *dst, vv_dtype dtype, const void *src, int64_t n)
{
    convert_job job = {dst, src, NULL, NULL, dtype, n};
    vvi_cpu_for(vvi_chunks(n, CONVERT_GRAIN), 0, convert_chunk, &job);
}

void vvi_vec_store_all(vv_dtype dtype, void *dst, const float *src, int64_t n)
{
    convert_job job = {NULL, NULL, dst, src, dtype, n};
    vvi_cpu_for(vvi_chunks(n, CONVERT_GRAIN), 0, convert_chunk, &job);
}

VVI_CLONES void vvi_vec_fill(float *dst, float value, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = value;
}

VVI_CLONES void vvi_vec_add(float *dst, const float *src, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] += src[i];
}

VVI_CLONES void vvi_vec_scale(float *dst, const float *src, float scale, int64_t n)
{
    VVI_SIMD
    for (int64_t i = 0; i < n; i++)
        dst[i] = src[i] * scale;
}
