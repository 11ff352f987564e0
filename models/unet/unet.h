/* unet.h - a U-Net for pictures, with the residual encoder of nnU-Net (Ronneberger et al., arXiv
 * 1505.04597; Isensee et al., arXiv 1809.10486). */
#ifndef VIVACE_MODELS_UNET_H
#define VIVACE_MODELS_UNET_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef struct vv_unet_opts {
    int64_t filters;     /* of the first level; each level has twice as many as the one above */
    int64_t max_filters; /* but no level more than this */
    int64_t depth;       /* levels; each but the first halves height and width */
} vv_unet_opts;
#define VV_UNET_DEFAULTS {32, 512, 6}

/* [N,H,W,channels] -> logits [N,H,W,classes]. Sizes that 2^(depth - 1) does not divide are padded
   with zeros at the bottom and right inside, and the logits cut to the size of the picture. opts
   NULL = defaults. Weights are left zero. */
VV_API VV_MUST_USE vv_status vv_unet_new(VV_OWNED vv_module **out, int64_t channels,
                                         int64_t classes, const vv_unet_opts *opts);

/* Of the encoder: children "conv1", "norm1", "conv2", "norm2" and, where the shape changes,
   "conv3", "norm3" of the shortcut; of the decoder: "transp_conv", "conv1", "norm1", "conv2",
   "norm2". */
extern VV_API const vv_module_class vv_unet_down_class, vv_unet_up_class;

extern VV_API const vv_model_desc vv_model_unet;

VV_END_DECLS

#endif
