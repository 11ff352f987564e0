/* convert.c - the elements of tensors: reading, setting and converting them. */
#include <vivace/tensor.h>

#include <string.h>

static double get_element(vv_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case VV_F32:
        return (double)((const float *)data)[i];
    case VV_BF16:
        return (double)vv_bf16_to_f32(((const uint16_t *)data)[i]);
    case VV_F64:
        return ((const double *)data)[i];
    case VV_I32:
        return (double)((const int32_t *)data)[i];
    case VV_I64:
        return (double)((const int64_t *)data)[i];
    case VV_U8:
    case VV_BOOL:
        return (double)((const uint8_t *)data)[i];
    case VV_DTYPE_COUNT:
        break;
    }
    return 0.0;
}

/* Truncates toward zero; beyond the type its nearest value, NaN gives 0 (C leaves both undefined).
 */
static int64_t to_integer(double value, double lo, double hi)
{
    if (!(value == value))
        return 0;
    if (value >= 0x1p63)
        return hi >= 0x1p63 ? INT64_MAX : (int64_t)hi;
    return (int64_t)(value < lo ? lo : value > hi ? hi : value);
}

static void set_element(vv_dtype dtype, void *data, int64_t i, double value)
{
    switch (dtype) {
    case VV_F32:
        ((float *)data)[i] = (float)value;
        break;
    case VV_BF16:
        ((uint16_t *)data)[i] = vv_f32_to_bf16((float)value);
        break;
    case VV_F64:
        ((double *)data)[i] = value;
        break;
    case VV_I32:
        ((int32_t *)data)[i] = (int32_t)to_integer(value, INT32_MIN, INT32_MAX);
        break;
    case VV_I64:
        ((int64_t *)data)[i] = to_integer(value, -0x1p63, 0x1p63);
        break;
    case VV_U8:
        ((uint8_t *)data)[i] = (uint8_t)to_integer(value, 0.0, 255.0);
        break;
    case VV_BOOL:
        ((uint8_t *)data)[i] = value != 0.0;
        break;
    case VV_DTYPE_COUNT:
        break;
    }
}

double vv_tensor_get(const vv_tensor *tensor, int64_t i)
{
    return get_element(tensor->dtype, tensor->data, i);
}

void vv_tensor_set(vv_tensor *tensor, int64_t i, double value)
{
    set_element(tensor->dtype, tensor->data, i, value);
}

void vv_tensor_fill(vv_tensor *tensor, double value)
{
    if (tensor->count == 0)
        return;
    /* Doubles the filled part: works at the speed of memcpy for every type. */
    set_element(tensor->dtype, tensor->data, 0, value);
    char *data = tensor->data;
    for (size_t done = vv_dtype_size(tensor->dtype); done < tensor->bytes;) {
        size_t more = done < tensor->bytes - done ? done : tensor->bytes - done;
        memcpy(data + done, data, more);
        done += more;
    }
}

/* Pairs that occur in every step have their own loops; the rest goes by double, element by element.
 */
static bool convert_fast(vv_tensor *dst, const vv_tensor *src)
{
    int64_t n = src->count;
    if (src->dtype == VV_F32 && dst->dtype == VV_BF16) {
        const float *from = src->data;
        uint16_t *to = dst->data;
        for (int64_t i = 0; i < n; i++)
            to[i] = vv_f32_to_bf16(from[i]);
    } else if (src->dtype == VV_BF16 && dst->dtype == VV_F32) {
        const uint16_t *from = src->data;
        float *to = dst->data;
        for (int64_t i = 0; i < n; i++)
            to[i] = vv_bf16_to_f32(from[i]);
    } else if (src->dtype == VV_U8 && dst->dtype == VV_F32) {
        const uint8_t *from = src->data;
        float *to = dst->data;
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)from[i];
    } else {
        return false;
    }
    return true;
}

vv_status vv_tensor_copy(vv_tensor *dst, const vv_tensor *src)
{
    char from[128], to[128];
    if (dst->count != src->count)
        return vv_fail(VV_ESHAPE, "tensor copy: %s has %lld elements, %s has %lld",
                       vv_shape_text(src->ndim, src->shape, from, sizeof from),
                       (long long)src->count, vv_shape_text(dst->ndim, dst->shape, to, sizeof to),
                       (long long)dst->count);
    if (dst->dtype == src->dtype) {
        if (dst->bytes)
            memmove(dst->data, src->data, dst->bytes);
        return VV_OK;
    }
    if (convert_fast(dst, src))
        return VV_OK;
    for (int64_t i = 0; i < src->count; i++)
        set_element(dst->dtype, dst->data, i, get_element(src->dtype, src->data, i));
    return VV_OK;
}
