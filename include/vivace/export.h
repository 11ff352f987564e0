/* export.h - a trained model for other programs. */
#ifndef VIVACE_EXPORT_H
#define VIVACE_EXPORT_H

#include <vivace/train.h>

VV_BEGIN_DECLS

/* Weights and buffers under PyTorch's names, nothing else: a safetensors file. Matrices that the
   model's weight_map says other programs store [in, out] are written so; so are shared weights,
   once. */
VV_API VV_MUST_USE vv_status vv_export_safetensors(vv_model *model, const char *path);

/* A folder (made, with those above it) with model.safetensors and config.json, from which timm
   makes the model: timm.create_model("local-dir:FOLDER", pretrained=True). `input`: what the
   checkpoint says of its data. VV_EUNSUPPORTED if timm has no such model. */
VV_API VV_MUST_USE vv_status vv_export_timm(vv_model *model, const vv_saved_input *input,
                                            const char *folder);

/* Whether this build can write ONNX (it needs protobuf-c). */
VV_API bool vv_export_has_onnx(void);
/* The model as it infers, in fp32, as an ONNX file (opset 20): input "input" [N, ...] as the loader
   gives it (images [N,H,W,C], normalised), output "output" [N, ...]; N is free. `input`: what one
   sample is. path NULL: only looks whether it can be. VV_EUNSUPPORTED names the ops that cannot be
   expressed. */
VV_API VV_MUST_USE vv_status vv_export_onnx(vv_model *model, const vv_sample_spec *input,
                                            const char *path);
/* What other programs may want otherwise; all zero = as above. */
typedef struct vv_onnx_opts {
    bool nchw;      /* images, and outputs of four axes, are [N,C,H,W] */
    bool pixels;    /* images are uint8, 0..255: the file divides by 255 itself */
    bool normalise; /* with pixels: and takes the mean, divides by the deviation (of `input`) */
    bool softmax;   /* classes: probabilities instead of logits */
} vv_onnx_opts;
VV_API VV_MUST_USE vv_status vv_export_onnx_with(vv_model *model, const vv_sample_spec *input,
                                                 const char *path, const vv_onnx_opts *opts);

VV_END_DECLS

#endif
