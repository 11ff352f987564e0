/* idx_file.c - IDX files: MNIST and its relatives. */
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

#include "data/data_file.h"

static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

vv_status vvi_idx_parse(vv_tensor **out, const char *name, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    *out = NULL;
    if (bytes < 4)
        return vv_fail(VV_EFORMAT, "%s: expected an IDX header of at least 4 bytes, found %zu",
                       name, bytes);
    if (at[0] != 0 || at[1] != 0 || at[2] != 8)
        return vv_fail(VV_EFORMAT,
                       "%s: expected an IDX file of bytes (starting 00 00 08), found "
                       "%02x %02x %02x",
                       name, at[0], at[1], at[2]);
    const int ndim = at[3];
    if (ndim < 1 || ndim > VV_MAX_DIMS)
        return vv_fail(VV_EFORMAT, "%s: expected 1 to %d dimensions, found %d", name, VV_MAX_DIMS,
                       ndim);
    const size_t header = 4 + 4 * (size_t)ndim;
    if (bytes < header)
        return vv_fail(VV_EFORMAT, "%s: expected an IDX header of %zu bytes, found %zu", name,
                       header, bytes);
    int64_t shape[VV_MAX_DIMS] = {0};
    size_t count = 1;
    bool fits = true;
    for (int i = 0; i < ndim; i++) {
        const uint32_t size = big_endian(at + 4 + 4 * (size_t)i);
        shape[i] = size;
        fits = fits && !__builtin_mul_overflow(count, (size_t)size, &count);
    }
    fits = fits && !__builtin_add_overflow(count, header, &count);
    char text[128];
    vv_shape_text(ndim, shape, text, sizeof text);
    if (!fits)
        return vv_fail(VV_EFORMAT, "%s: expected a size that can exist, found %s", name, text);
    if (count != bytes)
        return vv_fail(VV_EFORMAT, "%s: expected %zu bytes for %s, found %zu", name, count, text,
                       bytes);
    return vv_tensor_from(out, VV_U8, ndim, shape, at + header);
}

vv_status vv_idx_read(vv_tensor **out, const char *dir, const char *name, int ndim,
                      size_t max_bytes)
{
    vv_status status;
    char *path = NULL;
    void *data = NULL;
    vv_tensor *tensor = NULL;
    size_t bytes;
    *out = NULL;
    VV_GO(vv_data_file_find(&path, dir, name));
    VV_GO(vv_data_file_read(&data, &bytes, path, max_bytes));
    VV_GO(vvi_idx_parse(&tensor, path, data, bytes));
    if (tensor->ndim != ndim) {
        status =
            vv_fail(VV_EFORMAT, "%s: expected %d dimensions, found %d", path, ndim, tensor->ndim);
        goto out;
    }
    *out = tensor;
    tensor = NULL;
out:
    vv_tensor_free(tensor);
    vv_dealloc(data);
    vv_dealloc(path);
    return status;
}

/* Largest IDX file that is read: EMNIST's largest is 550 MB. */
#define MAX_IDX_BYTES ((size_t)1 << 30)

vv_status vv_dataset_open_idx(vv_dataset **out, const char *name, const vv_dataset_common *opts,
                              const char *system_dir, const char *split, const vv_sample_spec *spec)
{
    vv_status status;
    bool train;
    char *dir = NULL;
    vv_tensor *raw = NULL, *images = NULL, *bytes = NULL, *labels = NULL;
    *out = NULL;
    VV_TRY(vv_dataset_split(&train, name, split));
    VV_GO(vv_dataset_find_dir(&dir, opts->dir, name, system_dir));
    VV_GO(vv_idx_read(&raw, dir, train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte", 3,
                      MAX_IDX_BYTES));
    VV_GO(vv_idx_read(&bytes, dir, train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte", 1,
                      MAX_IDX_BYTES));
    if (raw->shape[1] != spec->input_shape[0] || raw->shape[2] != spec->input_shape[1]) {
        status =
            vv_fail(VV_EFORMAT, "data set %s in %s: expected images of %lldx%lld, found %lldx%lld",
                    name, dir, (long long)spec->input_shape[0], (long long)spec->input_shape[1],
                    (long long)raw->shape[1], (long long)raw->shape[2]);
        goto out;
    }
    const int64_t shape[4] = {raw->shape[0], raw->shape[1], raw->shape[2], 1};
    VV_GO(vv_tensor_reshaped(&images, raw, 4, shape));
    VV_GO(vv_tensor_cast(&labels, bytes, VV_I32));
    status = vv_dataset_from_tensors(out, name, spec, images, labels);
    images = labels = NULL; /* taken */
out:
    vv_tensor_free(raw);
    vv_tensor_free(images);
    vv_tensor_free(bytes);
    vv_tensor_free(labels);
    vv_dealloc(dir);
    return status;
}
