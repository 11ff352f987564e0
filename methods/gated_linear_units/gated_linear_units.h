/* gated_linear_units.h - feed-forward blocks whose hidden units are gated. */
#ifndef VIVACE_METHODS_GATED_LINEAR_UNITS_H
#define VIVACE_METHODS_GATED_LINEAR_UNITS_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef enum vv_glu_activation { /* of the gate */
    VV_GLU_OWN,                  /* the block's own */
    VV_GLU_RELU, VV_GLU_GELU, VV_GLU_GELU_TANH, VV_GLU_SILU, VV_GLU_SIGMOID,
} vv_glu_activation;

typedef struct vv_gated_linear_units_opts {
    int act_fn;                /* vv_glu_activation */
    bool gated_layer_bias;     /* of Wg, inside the activation */
    bool non_gated_layer_bias; /* of Wn */
    bool scale_hidden;         /* two thirds of the hidden units: as many parameters as before */
} vv_gated_linear_units_opts;
#define VV_GATED_LINEAR_UNITS_DEFAULTS {VV_GLU_OWN, false, false, false}

/* Every feed-forward block of `net` (vv_mlp) becomes y = Wo (act(Wg x) * (Wn x)) + b: `in` a
   GatedLinear with children "gate" (Wg), "value" (Wn) and "act", the activation an identity. Wg and
   Wn are drawn as `in`'s weight was (normal, of its deviation) from `seed`; Wo stays, or is drawn
   anew alike where the width changes. Blocks that are gated are left alone. *count (may be NULL) =
   blocks changed; optimizer (may be NULL) is kept in step. On failure nothing has changed. opts
   NULL = defaults. */
VV_API VV_MUST_USE vv_status vv_apply_gated_linear_units(vv_module *net,
                                                         const vv_gated_linear_units_opts *opts,
                                                         uint64_t seed, vv_optimizer *optimizer,
                                                         int *count);
/* Hidden units for as many parameters as `hidden` have without a gate: two thirds, up to a multiple
   of 8 (of 1 below 16). */
VV_API int64_t vv_gated_width(int64_t hidden);

extern VV_API const vv_module_class vv_gated_linear_class;

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_gated_linear_units(const vv_gated_linear_units_opts *opts);
extern VV_API const vv_method_desc vv_method_gated_linear_units;

VV_END_DECLS

#endif
