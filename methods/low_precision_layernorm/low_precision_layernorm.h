/* low_precision_layernorm.h - layer norms computed on bf16 where the rest is. */
#ifndef VIVACE_METHODS_LOW_PRECISION_LAYERNORM_H
#define VIVACE_METHODS_LOW_PRECISION_LAYERNORM_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef enum vv_low_precision_layernorm_when {
    VV_LOW_PRECISION_LAYERNORM_INIT,
    VV_LOW_PRECISION_LAYERNORM_AFTER_LOAD, /* after a checkpoint has been read, before the first
                                              batch */
} vv_low_precision_layernorm_when;

typedef struct vv_low_precision_layernorm_opts {
    int apply_at; /* vv_low_precision_layernorm_when */
} vv_low_precision_layernorm_opts;
#define VV_LOW_PRECISION_LAYERNORM_DEFAULTS {VV_LOW_PRECISION_LAYERNORM_INIT}

/* Makes every LayerNorm of `net` (not net itself) one that reads and writes bf16, over the same
   parameters under the same names. Does nothing if `precision` is fp32. Applying twice is applying
   once. *count (may be NULL) = layers changed; optimizer (may be NULL) is kept in step. On failure
   nothing has changed. */
VV_API VV_MUST_USE vv_status vv_apply_low_precision_layernorm(vv_module *net,
                                                              vv_precision precision,
                                                              vv_optimizer *optimizer, int *count);

/* x -> bf16 -> layer norm with gamma and beta rounded to bf16, sums in f32 -> bf16. */
VV_API VV_BORROWED vv_node *vv_low_precision_layer_norm(vv_node *x, vv_node *gamma, vv_node *beta,
                                                        double eps);

/* vv_module_self is a vv_norm_layer. */
extern VV_API const vv_module_class vv_low_precision_layernorm_class;

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_low_precision_layernorm(const vv_low_precision_layernorm_opts *opts);
extern VV_API const vv_method_desc vv_method_low_precision_layernorm;

VV_END_DECLS

#endif
