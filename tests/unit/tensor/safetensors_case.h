/* safetensors_case.h - a small file with every element type, for the tests of safetensors. */
#ifndef SAFETENSORS_CASE_H
#define SAFETENSORS_CASE_H

#include "vv_test_files.h"

#include <vivace/safetensors.h>

/* Writes one tensor of each type, a scalar, an empty one, and two texts. */
static inline vv_status write_case(const char *path)
{
    vv_status status = VV_OK;
    vv_safetensors_writer *writer = NULL;
    vv_tensor *tensor = NULL;
    char name[32];
    VV_GO(vv_safetensors_writer_new(&writer));
    VV_GO(vv_safetensors_add_text(writer, "step", "12"));
    VV_GO(vv_safetensors_add_text(writer, "na\xc3\xafve \"quoted\"\n", "line\nbreak"));
    for (int d = VV_DTYPE_COUNT - 1; d >= 0; d--) { /* narrow types first: the writer must sort */
        VV_GO(vv_tensor_new(&tensor, (vv_dtype)d, 2, (int64_t[]){2, 3}));
        for (int i = 0; i < 6; i++)
            vv_tensor_set(tensor, i, d == VV_BOOL ? i % 2 : i * 2 + d);
        snprintf(name, sizeof name, "layer.%s", vv_dtype_name((vv_dtype)d));
        VV_GO(vv_safetensors_add(writer, name, tensor));
        vv_tensor_free(tensor);
        tensor = NULL;
    }
    VV_GO(vv_tensor_new(&tensor, VV_F32, 0, NULL));
    vv_tensor_fill(tensor, 2.5);
    VV_GO(vv_safetensors_add(writer, "scalar", tensor));
    vv_tensor_free(tensor);
    tensor = NULL;
    VV_GO(vv_tensor_new(&tensor, VV_F32, 2, (int64_t[]){0, 4}));
    VV_GO(vv_safetensors_add(writer, "empty", tensor));
    VV_GO(vv_safetensors_write(writer, path));
out:
    vv_tensor_free(tensor);
    vv_safetensors_writer_free(writer);
    return status;
}

#endif
