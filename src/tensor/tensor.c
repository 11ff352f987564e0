/* tensor.c - tensors: making, viewing, sharing and freeing them. */
#include <vivace/tensor.h>

#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

/* The memory behind one or more tensors. */
struct vv_storage {
    void *data;
    bool owned; /* false: the caller's memory */
    int refs;   /* atomic */
};

size_t vv_dtype_size(vv_dtype dtype)
{
    static const size_t sizes[VV_DTYPE_COUNT] = {
        [VV_F32] = 4, [VV_BF16] = 2, [VV_F64] = 8,  [VV_I32] = 4,
        [VV_I64] = 8, [VV_U8] = 1,   [VV_BOOL] = 1,
    };
    return (unsigned)dtype < VV_DTYPE_COUNT ? sizes[dtype] : 0;
}

bool vv_dtype_is_float(vv_dtype dtype)
{
    return dtype == VV_F32 || dtype == VV_BF16 || dtype == VV_F64;
}

const char *vv_dtype_name(vv_dtype dtype)
{
    static const char *const names[VV_DTYPE_COUNT] = {
        [VV_F32] = "f32", [VV_BF16] = "bf16", [VV_F64] = "f64",   [VV_I32] = "i32",
        [VV_I64] = "i64", [VV_U8] = "u8",     [VV_BOOL] = "bool",
    };
    return (unsigned)dtype < VV_DTYPE_COUNT ? names[dtype] : "unknown dtype";
}

const char *vv_shape_text(int ndim, const int64_t *shape, char *buf, size_t buf_bytes)
{
    size_t at = 0;
    if (buf_bytes == 0)
        return buf;
    buf[0] = '\0';
    for (int i = 0; i <= ndim && at < buf_bytes; i++) {
        int n = i < ndim ? snprintf(buf + at, buf_bytes - at, "%s%lld", i ? "," : "[",
                                    (long long)shape[i])
                         : snprintf(buf + at, buf_bytes - at, "%s]", ndim > 0 ? "" : "[");
        at += n > 0 ? (size_t)n : 0;
    }
    return buf;
}

/* A tensor without storage: checks dtype and shape, and their product. */
static vv_status new_head(vv_tensor **out, vv_dtype dtype, int ndim, const int64_t *shape)
{
    *out = NULL;
    if ((unsigned)dtype >= VV_DTYPE_COUNT)
        return vv_fail(VV_ETYPE, "tensor: %d is no element type", (int)dtype);
    if (ndim < 0 || ndim > VV_MAX_DIMS)
        return vv_fail(VV_ESHAPE, "tensor: %d dimensions; there may be 0 to %d", ndim, VV_MAX_DIMS);
    size_t bytes = vv_dtype_size(dtype);
    bool empty = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return vv_fail(VV_ESHAPE, "tensor: dimension %d is %lld; it may not be negative", i,
                           (long long)shape[i]);
        empty = empty || shape[i] == 0;
    }
    for (int i = 0; i < ndim && !empty; i++)
        VV_TRY(vv_size_mul(&bytes, bytes, (size_t)shape[i]));
    if (bytes > INT64_MAX)
        return vv_fail(VV_ESHAPE, "tensor: %zu bytes are too many", bytes);
    vv_tensor *tensor;
    VV_TRY(vv_alloc(&tensor, sizeof *tensor));
    tensor->dtype = dtype;
    tensor->ndim = ndim;
    for (int i = 0; i < ndim; i++)
        tensor->shape[i] = shape[i];
    tensor->bytes = empty ? 0 : bytes;
    tensor->count = (int64_t)(tensor->bytes / vv_dtype_size(dtype));
    tensor->refs = 1;
    *out = tensor;
    return VV_OK;
}

static vv_status new_storage(struct vv_storage **out, void *data, bool owned)
{
    VV_TRY(vv_alloc(out, sizeof **out));
    (*out)->data = data;
    (*out)->owned = owned;
    (*out)->refs = 1;
    return VV_OK;
}

static void drop_storage(struct vv_storage *storage)
{
    if (!storage || __atomic_sub_fetch(&storage->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (storage->owned)
        vv_dealloc(storage->data);
    vv_dealloc(storage);
}

/* Like vv_tensor_new, but the elements are not set yet. */
static vv_status new_unset(vv_tensor **out, vv_dtype dtype, int ndim, const int64_t *shape)
{
    vv_status status = VV_OK;
    void *data = NULL;
    vv_tensor *tensor = NULL;
    *out = NULL;
    VV_GO(new_head(&tensor, dtype, ndim, shape));
    VV_GO(vv_alloc_aligned(&data, tensor->bytes));
    VV_GO(new_storage(&tensor->storage, data, true));
    tensor->data = data;
    *out = tensor;
    return VV_OK;
out:
    vv_dealloc(data);
    vv_dealloc(tensor);
    return status;
}

vv_status vv_tensor_new(vv_tensor **out, vv_dtype dtype, int ndim, const int64_t *shape)
{
    VV_TRY(new_unset(out, dtype, ndim, shape));
    memset((*out)->data, 0, (*out)->bytes);
    return VV_OK;
}

vv_status vv_tensor_from(vv_tensor **out, vv_dtype dtype, int ndim, const int64_t *shape,
                         const void *data)
{
    VV_TRY(new_unset(out, dtype, ndim, shape));
    if ((*out)->bytes)
        memcpy((*out)->data, data, (*out)->bytes);
    return VV_OK;
}

vv_status vv_tensor_wrap(vv_tensor **out, vv_dtype dtype, int ndim, const int64_t *shape,
                         void *data)
{
    vv_tensor *tensor;
    *out = NULL;
    VV_TRY(new_head(&tensor, dtype, ndim, shape));
    vv_status status = new_storage(&tensor->storage, data, false);
    if (status == VV_OK && !data && tensor->bytes) {
        drop_storage(tensor->storage);
        status = vv_fail(VV_EINVAL, "tensor: no memory given to wrap");
    }
    if (status != VV_OK) {
        vv_dealloc(tensor);
        return status;
    }
    tensor->data = data;
    *out = tensor;
    return VV_OK;
}

/* A tensor over the storage of another, at `data`. */
static vv_status new_view(vv_tensor **out, vv_tensor *of, int ndim, const int64_t *shape,
                          void *data)
{
    VV_TRY(new_head(out, of->dtype, ndim, shape));
    (*out)->data = data;
    (*out)->storage = of->storage;
    __atomic_add_fetch(&of->storage->refs, 1, __ATOMIC_RELAXED);
    return VV_OK;
}

vv_status vv_tensor_rows(vv_tensor **out, vv_tensor *tensor, int64_t first, int64_t count)
{
    *out = NULL;
    if (tensor->ndim == 0)
        return vv_fail(VV_ESHAPE, "tensor rows: a scalar has no rows");
    int64_t rows = tensor->shape[0];
    if (first < 0 || count < 0 || first > rows || count > rows - first)
        return vv_fail(VV_ESHAPE,
                       "tensor rows: %lld rows from row %lld on are not within %lld rows",
                       (long long)count, (long long)first, (long long)rows);
    int64_t shape[VV_MAX_DIMS];
    memcpy(shape, tensor->shape, sizeof shape);
    shape[0] = count;
    size_t row_bytes = rows ? tensor->bytes / (size_t)rows : 0;
    char *data = (char *)tensor->data;
    if (row_bytes)
        data += (size_t)first * row_bytes;
    return new_view(out, tensor, tensor->ndim, shape, data);
}

vv_status vv_tensor_reshaped(vv_tensor **out, vv_tensor *tensor, int ndim, const int64_t *shape)
{
    char from[128], to[128];
    VV_TRY(new_view(out, tensor, ndim, shape, tensor->data));
    if ((*out)->count == tensor->count)
        return VV_OK;
    vv_tensor_free(*out);
    *out = NULL;
    return vv_fail(VV_ESHAPE, "tensor: shape %s does not hold the elements of %s",
                   vv_shape_text(ndim, shape, to, sizeof to),
                   vv_shape_text(tensor->ndim, tensor->shape, from, sizeof from));
}

vv_status vv_tensor_reuse(vv_tensor **inout, vv_dtype dtype, int ndim, const int64_t *shape)
{
    vv_tensor *old = *inout;
    bool fits = old && old->dtype == dtype && old->ndim == ndim && vv_tensor_unshared(old);
    for (int i = 0; fits && i < ndim; i++)
        fits = old->shape[i] == shape[i];
    if (fits)
        return VV_OK;
    vv_tensor_free(old);
    return new_unset(inout, dtype, ndim, shape);
}

vv_status vv_tensor_clone(vv_tensor **out, const vv_tensor *tensor)
{
    return vv_tensor_from(out, tensor->dtype, tensor->ndim, tensor->shape, tensor->data);
}

vv_status vv_tensor_cast(vv_tensor **out, const vv_tensor *tensor, vv_dtype dtype)
{
    VV_TRY(new_unset(out, dtype, tensor->ndim, tensor->shape));
    return vv_tensor_copy(*out, tensor);
}

vv_tensor *vv_tensor_keep(vv_tensor *tensor)
{
    if (tensor)
        __atomic_add_fetch(&tensor->refs, 1, __ATOMIC_RELAXED);
    return tensor;
}

void vv_tensor_free(vv_tensor *tensor)
{
    if (!tensor || __atomic_sub_fetch(&tensor->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    drop_storage(tensor->storage);
    vv_dealloc(tensor);
}

bool vv_tensor_unshared(const vv_tensor *tensor)
{
    return __atomic_load_n(&tensor->refs, __ATOMIC_ACQUIRE) == 1 &&
           __atomic_load_n(&tensor->storage->refs, __ATOMIC_ACQUIRE) == 1;
}

bool vv_tensor_same_shape(const vv_tensor *a, const vv_tensor *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i])
            return false;
    return true;
}
