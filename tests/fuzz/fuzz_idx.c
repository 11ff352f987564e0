/* fuzz_idx.c - IDX files, plain or compressed: any bytes give a tensor that fits them, or a
 * sentence. */
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "data/data_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    void *unpacked = NULL;
    size_t unpacked_bytes;
    vv_tensor *tensor = NULL;
    vv_error_clear();
    vv_status status = vvi_unpack(&unpacked, &unpacked_bytes, "fuzz", data, bytes, 1 << 20);
    if (status == VV_OK && unpacked)
        status = vvi_idx_parse(&tensor, "fuzz", unpacked, unpacked_bytes);
    else if (status == VV_OK)
        status = vvi_idx_parse(&tensor, "fuzz", data, bytes);
    if (status == VV_OK && (!tensor || tensor->bytes > (unpacked ? unpacked_bytes : bytes)))
        abort();
    if (status != VV_OK && (tensor || !vv_error()[0]))
        abort();
    vv_tensor_free(tensor);
    vv_dealloc(unpacked);
    return 0;
}
