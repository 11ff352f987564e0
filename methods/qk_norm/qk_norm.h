/* qk_norm.h - queries and keys are normalised before they meet. */
#ifndef VIVACE_METHODS_QK_NORM_H
#define VIVACE_METHODS_QK_NORM_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_qk_norm_opts {
    double scale; /* of the scores; 0 = stays as it is */
} vv_qk_norm_opts;
#define VV_QK_NORM_DEFAULTS {0.0}

/* Every attention layer of `net` (vv_attention_layer) without it normalises queries and keys, head
   by head, to a root mean square of 1, and multiplies scores by `scale` if that is not 0. Returns
   how many layers were changed; applying twice is applying once. */
VV_API int vv_apply_qk_norm(vv_module *net, double scale);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. */
VV_API VV_OWNED vv_method *vv_qk_norm(double scale);
extern VV_API const vv_method_desc vv_method_qk_norm;

VV_END_DECLS

#endif
