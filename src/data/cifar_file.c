/* cifar_file.c - CIFAR-10 binary files: records of one label byte and a red, a green and a blue
 * plane. */
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

#include "data/data_file.h"

#define MAX_FILES 16
#define MAX_CIFAR_BYTES ((size_t)1 << 30)

vv_status vvi_cifar_check(int64_t *count, const char *name, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    *count = 0;
    if (bytes == 0 || bytes % VVI_CIFAR_RECORD != 0)
        return vv_fail(VV_EFORMAT,
                       "%s: expected a multiple of %zu bytes (whole CIFAR records), found "
                       "%zu",
                       name, VVI_CIFAR_RECORD, bytes);
    const int64_t records = (int64_t)(bytes / VVI_CIFAR_RECORD);
    for (int64_t i = 0; i < records; i++)
        if (at[(size_t)i * VVI_CIFAR_RECORD] > 9)
            return vv_fail(VV_EFORMAT,
                           "%s: expected labels 0 to 9, found %d in record %lld; this is "
                           "not a CIFAR-10 binary file",
                           name, at[(size_t)i * VVI_CIFAR_RECORD], (long long)i);
    *count = records;
    return VV_OK;
}

void vvi_cifar_convert(const void *data, int64_t count, uint8_t *images, int32_t *labels)
{
    const unsigned char *record = data;
    for (int64_t i = 0; i < count; i++, record += VVI_CIFAR_RECORD) {
        const unsigned char *red = record + 1;
        labels[i] = record[0];
        for (size_t p = 0; p < VVI_CIFAR_PLANE; p++, images += 3) {
            images[0] = red[p];
            images[1] = red[p + VVI_CIFAR_PLANE];
            images[2] = red[p + 2 * VVI_CIFAR_PLANE];
        }
    }
}

typedef struct cifar_part {
    void *data;
    int64_t count;
} cifar_part;

static vv_status read_part(cifar_part *part, const char *dir, const char *name)
{
    vv_status status;
    char *path = NULL;
    size_t bytes;
    VV_GO(vv_data_file_find(&path, dir, name));
    VV_GO(vv_data_file_read(&part->data, &bytes, path, MAX_CIFAR_BYTES));
    VV_GO(vvi_cifar_check(&part->count, path, part->data, bytes));
out:
    vv_dealloc(path);
    return status;
}

vv_status vv_cifar_read(vv_tensor **images, vv_tensor **labels, const char *dir,
                        const char *const *names)
{
    vv_status status;
    cifar_part parts[MAX_FILES] = {{0}};
    int used = 0;
    int64_t total = 0;
    *images = *labels = NULL;
    for (; names[used]; used++) {
        if (used == MAX_FILES)
            return vv_fail(VV_EINVAL, "CIFAR: more than %d files", MAX_FILES);
    }
    for (int i = 0; i < used; i++) {
        VV_GO(read_part(&parts[i], dir, names[i]));
        total += parts[i].count;
    }
    const int64_t shape[4] = {total, VVI_CIFAR_SIDE, VVI_CIFAR_SIDE, 3};
    VV_GO(vv_tensor_new(images, VV_U8, 4, shape));
    VV_GO(vv_tensor_new(labels, VV_I32, 1, shape));
    int64_t at = 0;
    for (int i = 0; i < used; i++) {
        vvi_cifar_convert(parts[i].data, parts[i].count,
                          (uint8_t *)(*images)->data + (size_t)at * 3 * VVI_CIFAR_PLANE,
                          (int32_t *)(*labels)->data + at);
        at += parts[i].count;
        vv_dealloc(parts[i].data);
        parts[i].data = NULL;
    }
    return VV_OK;
out:
    for (int i = 0; i < used; i++)
        vv_dealloc(parts[i].data);
    vv_tensor_free(*images);
    vv_tensor_free(*labels);
    *images = *labels = NULL;
    return status;
}
