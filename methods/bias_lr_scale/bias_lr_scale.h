/* bias_lr_scale.h - biases learn with a learning rate of their own. */
#ifndef VIVACE_METHODS_BIAS_LR_SCALE_H
#define VIVACE_METHODS_BIAS_LR_SCALE_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef enum vv_bias_which {
    VV_BIAS_NORM, /* biases of normalisation layers: those whose weight has one axis */
    VV_BIAS_ALL,  /* every parameter called "bias" */
} vv_bias_which;

typedef struct vv_bias_lr_scale_opts {
    double lr_scale;           /* their learning rate is the others' times this */
    double weight_decay_scale; /* their weight decay is the others' times this */
    int which;                 /* a vv_bias_which */
    bool freeze_scales;        /* the weights of normalisation layers stay as they are */
} vv_bias_lr_scale_opts;
#define VV_BIAS_LR_SCALE_DEFAULTS {64.0, 1.0, VV_BIAS_NORM, true}

/* Moves the chosen biases of `net` that learn into optimizer groups of their own: one for each
   group they are in, with every learning rate ("lr", "fallback_lr", ...) and weight decay of its
   options scaled. *count (may be NULL) = biases moved. VV_ENOTFOUND if there is none. opts NULL =
   defaults. Calling it twice scales twice. On failure groups may have been added for a part. */
VV_API VV_MUST_USE vv_status vv_scale_bias_lr(vv_optimizer *optimizer, vv_module *net,
                                              const vv_bias_lr_scale_opts *opts, int *count);
/* Freezes the weights of normalisation layers; returns how many. */
VV_API int vv_freeze_norm_scales(vv_module *net);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_bias_lr_scale(const vv_bias_lr_scale_opts *opts);
extern VV_API const vv_method_desc vv_method_bias_lr_scale;

VV_END_DECLS

#endif
