/* fuzz_cifar.c - CIFAR binary files: any bytes give whole records with labels 0 to 9, or a
 * sentence. */
#include <stdlib.h>

#include <vivace/memory.h>

#include "data/data_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int64_t count;
    vv_error_clear();
    if (vvi_cifar_check(&count, "fuzz", data, bytes) != VV_OK) {
        if (count != 0 || !vv_error()[0])
            abort();
        return 0;
    }
    uint8_t *images = malloc((size_t)count * 3 * VVI_CIFAR_PLANE);
    int32_t *labels = malloc((size_t)count * sizeof *labels);
    if (images && labels) {
        vvi_cifar_convert(data, count, images, labels);
        for (int64_t i = 0; i < count; i++)
            if (labels[i] < 0 || labels[i] > 9)
                abort();
    }
    free(images);
    free(labels);
    return 0;
}
