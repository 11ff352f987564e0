/* resnet9.h - the DAWNBench ResNet-9: few wide layers, fast to train on small images. */
#ifndef VIVACE_MODELS_RESNET9_H
#define VIVACE_MODELS_RESNET9_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef struct vv_resnet9_opts {
    int64_t width; /* channels of the first convolution; the others have 2, 4 and 8 times as many */
    double logit_scale; /* the linear layer's output is multiplied by it */
} vv_resnet9_opts;
#define VV_RESNET9_DEFAULTS {64, 0.125}

/* [N,H,W,channels] -> [N,classes], H and W at least 8; 6,573,130 parameters for width 64, 3
   channels and 10 classes. Weights are left zero: follow with vv_module_init_default. */
VV_API VV_MUST_USE vv_status vv_resnet9_new(VV_OWNED vv_module **out, int64_t channels,
                                            int64_t classes, int64_t width, double logit_scale);

extern VV_API const vv_model_desc vv_model_resnet9;

VV_END_DECLS

#endif
