/* gradient_clipping.h - bounds the gradient of each step. The plain functions by type are
 * vv_clip_grad_norm, vv_clip_grad_value and vv_clip_grad_adaptive of <vivace/optim.h>. */
#ifndef VIVACE_METHODS_GRADIENT_CLIPPING_H
#define VIVACE_METHODS_GRADIENT_CLIPPING_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef enum vv_clipping_type {
    VV_CLIPPING_NORM,     /* the global norm stays below the threshold */
    VV_CLIPPING_VALUE,    /* each element does */
    VV_CLIPPING_ADAPTIVE, /* each unit's norm does, times the norm of its weights */
} vv_clipping_type;

typedef struct vv_gradient_clipping_opts {
    int clipping_type;         /* vv_clipping_type */
    double clipping_threshold; /* above 0 */
    double eps;                /* adaptive: smallest norm of weights that counts */
    bool exempt_last;          /* adaptive: leaves the last layer alone */
} vv_gradient_clipping_opts;
#define VV_GRADIENT_CLIPPING_DEFAULTS {VV_CLIPPING_NORM, 1.0, 1e-3, false}

/* Clips the whole gradient of a tree as `opts` says (NULL = defaults); norm and failures as in
   vv_clip_grad_norm. */
VV_API VV_MUST_USE vv_status vv_apply_gradient_clipping(vv_module *net,
                                                        const vv_gradient_clipping_opts *opts,
                                                        double *norm);

/* The Trainer's method; NULL with a sentence in vv_error() if the threshold is not above 0. */
VV_API VV_OWNED vv_method *vv_gradient_clipping(vv_clipping_type type, double threshold);
extern VV_API const vv_method_desc vv_method_gradient_clipping;

VV_END_DECLS

#endif
