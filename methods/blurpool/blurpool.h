/* blurpool.h - BlurPool: a small blur before each subsampling, against aliasing. */
#ifndef VIVACE_METHODS_BLURPOOL_H
#define VIVACE_METHODS_BLURPOOL_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_blurpool_opts {
    bool replace_convs;    /* strided convolutions */
    bool replace_maxpools; /* every max pooling */
    bool blur_first;       /* blur, then the strided convolution; else a full convolution, then a
                              strided blur: dearer, a little better */
    int64_t min_channels;  /* convolutions with fewer input channels stay */
} vv_blurpool_opts;
#define VV_BLURPOOL_DEFAULTS {true, true, true, 16}

/* Replaces the layers of `net` (not net itself) that opts (NULL = defaults) name; parameters stay
   the same objects, under "<layer>.conv.weight". Applying twice is applying once. *count (may be
   NULL) = layers replaced; optimizer (may be NULL) is kept in step. On failure nothing has
   changed. */
VV_API VV_MUST_USE vv_status vv_apply_blurpool(vv_module *net, const vv_blurpool_opts *opts,
                                               vv_optimizer *optimizer, int *count);
/* How many layers of each kind that would replace; either may be NULL. */
VV_API void vv_blurpool_matches(vv_module *net, const vv_blurpool_opts *opts, int *convs,
                                int *maxpools);

/* x [N,H,W,C], each channel filtered by [1 2 1; 2 4 2; 1 2 1] / 16 with one row and column of zeros
   around -> [N,ceil(H/stride),ceil(W/stride),C]. stride NULL = 1. */
VV_API VV_BORROWED vv_node *vv_blur2d(vv_node *x, const int64_t stride[2]);

/* Layers. BlurPool2d blurs with a stride. BlurConv2d has a child "conv"; BlurMaxPool2d is a max
   pooling of stride 1 and a blur with the stride. */
extern VV_API const vv_module_class vv_blur_pool_class, vv_blur_conv2d_class,
    vv_blur_max_pool_class;
VV_API VV_MUST_USE vv_status vv_blur_pool_new(VV_OWNED vv_module **out, int64_t stride);
/* Over the parameters of a Conv2d, which stay shared with it. */
VV_API VV_MUST_USE vv_status vv_blur_conv2d_new(VV_OWNED vv_module **out, vv_module *conv,
                                                bool blur_first);
VV_API VV_MUST_USE vv_status vv_blur_max_pool_new(VV_OWNED vv_module **out,
                                                  const vv_pool_opts *opts);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_blurpool(const vv_blurpool_opts *opts);
extern VV_API const vv_method_desc vv_method_blurpool;

VV_END_DECLS

#endif
