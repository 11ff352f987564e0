/* fuzz_safetensors.c - any bytes at all as a safetensors file: opened and read, or refused with a
 * sentence; never a crash, a leak or a read outside. */
#include <stdlib.h>

#include <vivace/memory.h>
#include <vivace/safetensors.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static double read_all(const vv_safetensors *file)
{
    double sum = 0.0;
    for (int i = 0; i < vv_safetensors_count(file); i++) {
        const vv_tensor *tensor = vv_safetensors_find(file, vv_safetensors_name(file, i));
        for (int64_t k = 0; k < tensor->count; k++)
            sum += vv_tensor_get(tensor, k);
    }
    for (int i = 0; i < vv_safetensors_text_count(file); i++)
        sum += vv_safetensors_text(file, vv_safetensors_text_key(file, i))[0];
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile double sink;
    vv_safetensors *file;
    vv_error_clear();
    if (vv_safetensors_open_memory(&file, data, size) == VV_OK)
        sink = read_all(file);
    else if (!vv_error()[0])
        abort();
    (void)sink;
    vv_safetensors_close(file);
    if (vv_memory_live_count() != 0)
        abort();
    return 0;
}
