/* tensor.h - dense row-major arrays with shared, reference-counted storage. Images are NHWC. */
#ifndef VIVACE_TENSOR_H
#define VIVACE_TENSOR_H

#include <vivace/status.h>

VV_BEGIN_DECLS

#define VV_MAX_DIMS 8

typedef enum vv_dtype {
    VV_F32,
    VV_BF16, /* upper half of an f32, round to nearest even */
    VV_F64,  /* for checking gradients; backend `ref` only */
    VV_I32,
    VV_I64,
    VV_U8,
    VV_BOOL, /* one byte, 0 or 1 */
    VV_DTYPE_COUNT,
} vv_dtype;

VV_API size_t vv_dtype_size(vv_dtype dtype);
VV_API bool vv_dtype_is_float(vv_dtype dtype);
VV_API VV_BORROWED const char *vv_dtype_name(vv_dtype dtype); /* "f32", "bf16", ... */

static inline float vv_bf16_to_f32(uint16_t half)
{
    union {
        uint32_t bits;
        float value;
    } u;
    u.bits = (uint32_t)half << 16;
    return u.value;
}

static inline uint16_t vv_f32_to_bf16(float value)
{
    union {
        uint32_t bits;
        float value;
    } u;
    u.value = value;
    if (value != value)
        return (uint16_t)((u.bits >> 16) | 0x40u);
    return (uint16_t)((u.bits + 0x7fffu + ((u.bits >> 16) & 1u)) >> 16);
}

/* A tensor. Read the fields, do not write them. `data` is 64-byte aligned. */
typedef struct vv_tensor {
    vv_dtype dtype;
    int ndim;
    int64_t shape[VV_MAX_DIMS];
    int64_t count; /* number of elements */
    size_t bytes;
    void *data;
    struct vv_storage *storage;
    int refs; /* atomic; use vv_tensor_keep and vv_tensor_free */
} vv_tensor;

/* *out = new tensor filled with zeros. ndim 0 = a scalar; a dimension may be 0. */
VV_API VV_MUST_USE vv_status vv_tensor_new(VV_OWNED vv_tensor **out, vv_dtype dtype, int ndim,
                                           const int64_t *shape);
/* *out = new tensor with a copy of `data` (the shape's bytes). */
VV_API VV_MUST_USE vv_status vv_tensor_from(VV_OWNED vv_tensor **out, vv_dtype dtype, int ndim,
                                            const int64_t *shape, const void *data);
/* *out = tensor over memory of the caller, which must outlive it. */
VV_API VV_MUST_USE vv_status vv_tensor_wrap(VV_OWNED vv_tensor **out, vv_dtype dtype, int ndim,
                                            const int64_t *shape, VV_BORROWED void *data);
/* *out = view of rows [first, first + count) of the first dimension; shares storage. */
VV_API VV_MUST_USE vv_status vv_tensor_rows(VV_OWNED vv_tensor **out, vv_tensor *tensor,
                                            int64_t first, int64_t count);
/* *out = same storage, another shape with the same count. */
VV_API VV_MUST_USE vv_status vv_tensor_reshaped(VV_OWNED vv_tensor **out, vv_tensor *tensor,
                                                int ndim, const int64_t *shape);
/* For buffers that are filled anew each step: *inout (may be NULL) stays, with what it holds, if it
   has this dtype and shape and nobody else holds it; else it is let go and becomes a new tensor
   whose elements are not set. NULL on failure. */
VV_API VV_MUST_USE vv_status vv_tensor_reuse(vv_tensor **inout, vv_dtype dtype, int ndim,
                                             const int64_t *shape);
/* *out = deep copy. */
VV_API VV_MUST_USE vv_status vv_tensor_clone(VV_OWNED vv_tensor **out, const vv_tensor *tensor);
/* *out = deep copy in another dtype (float to bf16 rounds to nearest even, float to integer
   truncates). */
VV_API VV_MUST_USE vv_status vv_tensor_cast(VV_OWNED vv_tensor **out, const vv_tensor *tensor,
                                            vv_dtype dtype);
/* Copies src into dst; same count, dtypes are converted. */
VV_API VV_MUST_USE vv_status vv_tensor_copy(vv_tensor *dst, const vv_tensor *src);
/* One more owner / one less (NULL allowed). */
VV_API VV_OWNED vv_tensor *vv_tensor_keep(vv_tensor *tensor);
VV_API void vv_tensor_free(VV_TAKES vv_tensor *tensor);

/* Nobody else holds this tensor or a view of its memory, so it may be written. */
VV_API bool vv_tensor_unshared(const vv_tensor *tensor);

VV_API bool vv_tensor_same_shape(const vv_tensor *a, const vv_tensor *b);
VV_API void vv_tensor_fill(vv_tensor *tensor, double value);
/* Element i in row-major order, as a double; set rounds to the tensor's dtype. */
VV_API double vv_tensor_get(const vv_tensor *tensor, int64_t i);
VV_API void vv_tensor_set(vv_tensor *tensor, int64_t i, double value);
/* "[2,3]" into buf; returns buf. */
VV_API const char *vv_shape_text(int ndim, const int64_t *shape, char *buf, size_t buf_bytes);

VV_END_DECLS

#endif
