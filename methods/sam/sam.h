/* sam.h - Sharpness-Aware Minimisation: the gradient is taken where the loss nearby is worst. */
#ifndef VIVACE_METHODS_SAM_H
#define VIVACE_METHODS_SAM_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

/* What takes a perturbation back. */
typedef struct vv_sam_step vv_sam_step;
/* Moves every learning parameter of the tree by rho * g / (|g| + epsilon), g = the gradients in
   param->grad and |g| their norm over all of them. *out = NULL, and nothing moves, where g is zero
   or not finite, or rho is 0. */
VV_API VV_MUST_USE vv_status vv_sam_perturb(VV_OWNED vv_sam_step **out, vv_module *net, double rho,
                                            double epsilon);
/* The weights as they were, to the bit. NULL is allowed. */
VV_API void vv_sam_restore(VV_TAKES vv_sam_step *step);

typedef struct vv_sam_opts {
    double rho;       /* size of the neighbourhood */
    double epsilon;   /* added to the gradient's norm */
    int64_t interval; /* every interval-th step is taken so */
} vv_sam_opts;
#define VV_SAM_DEFAULTS {0.05, 1e-12, 1}

/* The Trainer's method; NULL with a sentence in vv_error() if rho is negative or interval below
   1. */
VV_API VV_OWNED vv_method *vv_sam(double rho, int64_t interval);
extern VV_API const vv_method_desc vv_method_sam;

VV_END_DECLS

#endif
