/* safetensors_format.c - type names and header checksums of safetensors files. */
#include "tensor/safetensors_format.h"

#include <string.h>

static const char *const dtype_names[VV_DTYPE_COUNT] = {
    [VV_F32] = "F32", [VV_BF16] = "BF16", [VV_F64] = "F64",   [VV_I32] = "I32",
    [VV_I64] = "I64", [VV_U8] = "U8",     [VV_BOOL] = "BOOL",
};

const char *vvi_safetensors_dtype_name(vv_dtype dtype)
{
    return (unsigned)dtype < VV_DTYPE_COUNT ? dtype_names[dtype] : NULL;
}

vv_dtype vvi_safetensors_dtype(const char *name)
{
    int i = 0;
    while (i < VV_DTYPE_COUNT && strcmp(dtype_names[i], name) != 0)
        i++;
    return (vv_dtype)i;
}

static void add_text(vvi_crc32 *crc, const char *text)
{
    vvi_crc32_add(crc, text, strlen(text) + 1); /* with the NUL: "ab","c" is not "a","bc" */
}

uint32_t vvi_safetensors_tensor_crc(vvi_crc32 *crc, const char *name, const vv_tensor *tensor,
                                    uint64_t begin)
{
    vvi_crc32_reset(crc);
    add_text(crc, name);
    add_text(crc, dtype_names[tensor->dtype]);
    vvi_crc32_add(crc, tensor->shape, (size_t)tensor->ndim * sizeof tensor->shape[0]);
    vvi_crc32_add(crc, &begin, sizeof begin);
    return vvi_crc32_value(crc);
}

uint32_t vvi_safetensors_text_crc(vvi_crc32 *crc, const char *key, const char *value)
{
    vvi_crc32_reset(crc);
    add_text(crc, VVI_METADATA_KEY);
    add_text(crc, key);
    add_text(crc, value);
    return vvi_crc32_value(crc);
}
