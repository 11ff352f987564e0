/* mlp.h - a multi-layer perceptron for vectors or small images. */
#ifndef VIVACE_MODELS_MLP_H
#define VIVACE_MODELS_MLP_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef struct vv_mlp_opts {
    int64_t width;  /* units of each hidden layer */
    int64_t layers; /* hidden layers */
    double dropout; /* after each hidden layer */
} vv_mlp_opts;
#define VV_MLP_DEFAULTS {128, 2, 0.0}

/* [N,...] -> [N,classes]; features: elements of one sample. opts NULL = defaults. Weights are left
   zero: follow with vv_module_init_default. */
VV_API VV_MUST_USE vv_status vv_mlp_new(VV_OWNED vv_module **out, int64_t features, int64_t classes,
                                        const vv_mlp_opts *opts);

extern VV_API const vv_model_desc vv_model_mlp;

VV_END_DECLS

#endif
