/* export_model.h - writes the trained model for other programs when a run ends. */
#ifndef VIVACE_CALLBACKS_EXPORT_MODEL_H
#define VIVACE_CALLBACKS_EXPORT_MODEL_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_export_model_opts {
    int format;       /* 0 safetensors, 1 onnx */
    const char *path; /* "" = model.safetensors or model.onnx in the run's folder */
} vv_export_model_opts;
#define VV_EXPORT_MODEL_DEFAULTS {0, ""}

extern VV_API const vv_callback_desc vv_callback_export_model;

VV_END_DECLS

#endif
