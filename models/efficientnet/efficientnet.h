/* efficientnet.h - EfficientNet-B0..B7 (Tan & Le, arXiv 1905.11946) with torchvision's names. */
#ifndef VIVACE_MODELS_EFFICIENTNET_H
#define VIVACE_MODELS_EFFICIENTNET_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef struct vv_efficientnet_opts {
    int size;                 /* 0..7: B0..B7 */
    double width, depth;      /* factors of channels and of blocks; 0 = the size's */
    double dropout;           /* before the head; -1 = the size's */
    double drop_connect;      /* share of samples that skip the last block; see README */
    bool activate_projection; /* SiLU behind the projection of blocks that do not expand */
    double bn_eps, bn_momentum; /* 0 = the size's, as torchvision has them */
} vv_efficientnet_opts;
#define VV_EFFICIENTNET_DEFAULTS {0, 0.0, 0.0, -1.0, 0.2, false, 0.0, 0.0}

/* [N,H,W,channels] -> [N,classes]. opts NULL = defaults. Weights start as the paper's. */
VV_API VV_MUST_USE vv_status vv_efficientnet_new(VV_OWNED vv_module **out, int64_t channels,
                                                 int64_t classes, const vv_efficientnet_opts *opts,
                                                 uint64_t seed);

/* Blocks: child "block" is a Sequential (expansion, depth-wise convolution, squeeze and excitation,
   projection); where shapes allow y = x + stochastic_depth(block(x)). */
extern VV_API const vv_module_class vv_mb_conv_class;

extern VV_API const vv_model_desc vv_model_efficientnet;

VV_END_DECLS

#endif
