/* export.c - weights alone as safetensors; ONNX where this build has it. */
#include <vivace/export.h>

#include <vivace/safetensors.h>

#include "onnx_graph.h"
#include "vvi_config.h"

typedef struct sink {
    vv_safetensors_writer *writer;
    vv_status status;
} sink;

static bool add(void *ctx, const char *name, vv_tensor *tensor)
{
    sink *s = ctx;
    s->status = vv_safetensors_add(s->writer, name, tensor);
    return s->status == VV_OK;
}

vv_status vv_export_safetensors(vv_model *model, const char *path)
{
    sink s = {NULL, VV_OK};
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

#if VVI_HAVE_PROTOBUF
vv_status vv_export_onnx(vv_model *model, const vv_sample_spec *input, const char *path)
{
    return vvi_export_onnx(model, input, path);
}
#else
vv_status vv_export_onnx(vv_model *model, const vv_sample_spec *input, const char *path)
{
    (void)model, (void)input;
    return vv_fail(VV_EUNSUPPORTED,
                   "%s: this build cannot write ONNX; build it with protobuf-c "
                   "(-Dprotobuf=enabled), or export safetensors", path ? path : "ONNX");
}
#endif
