/* airbench.h - the nets of the CIFAR-10 speed records at 94, 95 and 96% accuracy. */
#ifndef VIVACE_MODELS_AIRBENCH_H
#define VIVACE_MODELS_AIRBENCH_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef enum vv_airbench_variant {
    VV_AIRBENCH_94, /* widths 64, 256, 256; two convolutions in a group */
    VV_AIRBENCH_95, /* widths 128, 384, 384 */
    VV_AIRBENCH_96, /* widths 128, 384, 512; three convolutions, the last two with a residual */
} vv_airbench_variant;

typedef struct vv_airbench_opts {
    int variant;                    /* vv_airbench_variant */
    int64_t width1, width2, width3; /* channels of the three groups; 0 = the variant's */
    double logit_scale;             /* the linear layer's output is multiplied by it */
} vv_airbench_opts;
#define VV_AIRBENCH_DEFAULTS {VV_AIRBENCH_94, 0, 0, 0, 0.1111}

/* [N,H,W,channels] -> [N,classes], H and W at least 9. Weights are left zero: follow with
   vv_module_init_default. The batch norms' scales are frozen at 1. opts NULL = defaults. */
VV_API VV_MUST_USE vv_status vv_airbench_new(VV_OWNED vv_module **out, int64_t channels,
                                             int64_t classes, const vv_airbench_opts *opts);

extern VV_API const vv_model_desc vv_model_airbench;

VV_END_DECLS

#endif
