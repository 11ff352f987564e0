/* patch_whitening.h - a first convolution, fixed from the data, that decorrelates patches. */
#ifndef VIVACE_METHODS_PATCH_WHITENING_H
#define VIVACE_METHODS_PATCH_WHITENING_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_patch_whitening_opts {
    int64_t samples;   /* images that the patches are taken from */
    double eps;        /* added to the patches' variances */
    vv_time bias_time; /* the bias, if there is one, learns for this long; none = always */
} vv_patch_whitening_opts;
#define VV_PATCH_WHITENING_DEFAULTS {5000, 5e-4, {VV_UNIT_NONE, 0, 0.0}}

/* The first Conv2d of the tree, if it takes `channels` channels, has one group and at least as many
   filters as a patch has values; else NULL. */
VV_API VV_BORROWED vv_module *vv_patch_whitening_layer(vv_module *net, int64_t channels);
/* Filters from images [N,H,W,C]: eigenvectors of the patches' second moments divided by sqrt(value
   + eps), the largest first, then their negatives; filters beyond those stay. Freezes the weight.
   opts NULL = defaults; samples is not looked at. */
VV_API VV_MUST_USE vv_status vv_whiten_patches(vv_module *conv, const vv_tensor *images,
                                               const vv_patch_whitening_opts *opts);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_patch_whitening(const vv_patch_whitening_opts *opts);
extern VV_API const vv_method_desc vv_method_patch_whitening;

VV_END_DECLS

#endif
