/* vit.h - Vision Transformers (Dosovitskiy et al., arXiv 2010.11929) with timm's names. */
#ifndef VIVACE_MODELS_VIT_H
#define VIVACE_MODELS_VIT_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef enum vv_vit_size { VV_VIT_TI, VV_VIT_S, VV_VIT_B } vv_vit_size;
typedef enum vv_vit_pool {
    VV_VIT_POOL_TOKEN, /* a class token in front of the patches */
    VV_VIT_POOL_MEAN,  /* no class token; the mean of the patches, then the norm */
} vv_vit_pool;
typedef enum vv_vit_norm {
    VV_VIT_NORM_PRE,  /* x + branch(norm(x)), and a last norm */
    VV_VIT_NORM_POST, /* norm(x + branch(x)), and no last norm */
} vv_vit_norm;

typedef struct vv_vit_opts {
    int size;                    /* vv_vit_size */
    int64_t width, depth, heads; /* 0 = the size's */
    int64_t mlp_width;           /* 0 = 4 width */
    int64_t patch_size;          /* 16 */
    double dropout;              /* of embeddings and of what branches give */
    double attention_dropout;    /* of attention weights */
    double drop_path;            /* share of samples that skip the last block's branches; blocks
                                    before skip less, the first never */
    int pool;                    /* vv_vit_pool */
    int norm;                    /* vv_vit_norm */
    bool qkv_bias;
    double head_bias;            /* start of the head's bias */
} vv_vit_opts;
#define VV_VIT_DEFAULTS                                                                            \
    {VV_VIT_S, 0, 0, 0, 0, 16, 0.0, 0.0, 0.0, VV_VIT_POOL_TOKEN, VV_VIT_NORM_PRE, true, 0.0}

/* [N,H,W,channels] -> [N,classes], for images of height x width; others whose sides are multiples
   of the patch are taken with resampled positions. opts NULL = defaults. Weights start as
   timm's. */
VV_API VV_MUST_USE vv_status vv_vit_new(VV_OWNED vv_module **out, int64_t height, int64_t width,
                                        int64_t channels, int64_t classes, const vv_vit_opts *opts,
                                        uint64_t seed);

extern VV_API const vv_module_class vv_vit_block_class;

extern VV_API const vv_model_desc vv_model_vit, vv_model_vit_ti, vv_model_vit_s, vv_model_vit_b;

VV_END_DECLS

#endif
