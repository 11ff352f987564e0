/* onnx_build.h - an ONNX model under construction. The first failure sticks; vvi_onnx_write tells
 * it. Texts and data that are handed over must live until then. */
#ifndef VVI_ONNX_BUILD_H
#define VVI_ONNX_BUILD_H

#include <vivace/tensor.h>

typedef struct vvi_onnx vvi_onnx;
VV_MUST_USE vv_status vvi_onnx_new(VV_OWNED vvi_onnx **out);
void vvi_onnx_free(VV_TAKES vvi_onnx *onnx);
vv_status vvi_onnx_status(const vvi_onnx *onnx);

/* A fresh name. */
const char *vvi_onnx_name(vvi_onnx *onnx);
const char *vvi_onnx_copy(vvi_onnx *onnx, const char *text);
/* Starts a node with one result; its operands and settings follow. */
void vvi_onnx_node(vvi_onnx *onnx, const char *op, const char *result);
void vvi_onnx_in(vvi_onnx *onnx, const char *name);
void vvi_onnx_int(vvi_onnx *onnx, const char *key, int64_t value);
void vvi_onnx_float(vvi_onnx *onnx, const char *key, double value);
void vvi_onnx_ints(vvi_onnx *onnx, const char *key, const int64_t *values, int count);
void vvi_onnx_string(vvi_onnx *onnx, const char *key, const char *value);
/* A constant; `data` is copied if `copy`. */
void vvi_onnx_constant(vvi_onnx *onnx, const char *name, vv_dtype dtype, int ndim,
                       const int64_t *shape, const void *data, bool copy);
/* Input or result of the whole; a side of -1 is the free "N". */
void vvi_onnx_value(vvi_onnx *onnx, bool result, const char *name, vv_dtype dtype, int ndim,
                    const int64_t *shape);
VV_MUST_USE vv_status vvi_onnx_write(vvi_onnx *onnx, const char *path);

#endif
