/* export.c - weights alone as safetensors; ONNX where this build has it. */
#include <vivace/export.h>

#include <fnmatch.h>

#include <vivace/safetensors.h>

#include "onnx_graph.h"
#include "vvi_config.h"

typedef struct sink {
    vv_safetensors_writer *writer;
    const char *const *transposed; /* patterns */
    vv_status status;
} sink;

static vv_status add_transposed(vv_safetensors_writer *writer, const char *name,
                                const vv_tensor *tensor)
{
    const int64_t rows = tensor->shape[0], columns = tensor->shape[1];
    const int64_t shape[2] = {columns, rows};
    vv_tensor *turned;
    VV_TRY(vv_tensor_new(&turned, tensor->dtype, 2, shape));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            vv_tensor_set(turned, c * rows + r, vv_tensor_get(tensor, r * columns + c));
    const vv_status status = vv_safetensors_add(writer, name, turned);
    vv_tensor_free(turned);
    return status;
}

static bool add(void *ctx, const char *name, vv_tensor *tensor)
{
    sink *s = ctx;
    bool turn = false;
    for (int i = 0; s->transposed && s->transposed[i] && tensor->ndim == 2; i++)
        turn = turn || fnmatch(s->transposed[i], name, 0) == 0;
    s->status = turn ? add_transposed(s->writer, name, tensor)
                     : vv_safetensors_add(s->writer, name, tensor);
    return s->status == VV_OK;
}

vv_status vv_export_safetensors(vv_model *model, const char *path)
{
    sink s = {NULL, model->weight_map ? model->weight_map->transposed : NULL, VV_OK};
    vv_status status;
    VV_GO(vv_safetensors_writer_new(&s.writer));
    vv_module_each_state(model->net, add, &s);
    VV_GO(s.status);
    VV_GO(vv_safetensors_add_text(s.writer, "format", "pt"));
    VV_GO(vv_safetensors_write(s.writer, path));
out:
    vv_safetensors_writer_free(s.writer);
    return status;
}

bool vv_export_has_onnx(void)
{
    return VVI_HAVE_PROTOBUF;
}

vv_status vv_export_onnx(vv_model *model, const vv_sample_spec *input, const char *path)
{
    return vv_export_onnx_with(model, input, path, NULL);
}

vv_status vv_export_onnx_with(vv_model *model, const vv_sample_spec *input, const char *path,
                              const vv_onnx_opts *opts)
{
#if VVI_HAVE_PROTOBUF
    static const vv_onnx_opts plain = {false, false, false, false};
    return vvi_export_onnx(model, input, path, opts ? opts : &plain);
#else
    (void)model, (void)input, (void)opts;
    return vv_fail(VV_EUNSUPPORTED,
                   "%s: this build cannot write ONNX; build it with protobuf-c "
                   "(-Dprotobuf=enabled), or export safetensors", path ? path : "ONNX");
#endif
}
