/* squeeze_excite.h - Squeeze-and-Excitation: channels weighted by what the whole image shows. */
#ifndef VIVACE_METHODS_SQUEEZE_EXCITE_H
#define VIVACE_METHODS_SQUEEZE_EXCITE_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_squeeze_excite_opts {
    double latent_channels; /* at least 1: a count; below 1: a share of the layer's channels */
    int64_t min_channels;   /* convolutions with fewer channels on either side stay */
} vv_squeeze_excite_opts;
#define VV_SQUEEZE_EXCITE_DEFAULTS {64, 128}

/* Replaces every Conv2d of `net` with min(in, out) channels >= min_channels by a
   SqueezeExciteConv2d around it (parameters stay the same objects, under "<layer>.conv"). New
   weights start as PyTorch's linear layers, from `seed`. opts NULL = defaults. Applying twice is
   applying once. *count (may be NULL) = layers replaced; optimizer (may be NULL) is kept in step.
   On failure nothing has changed. */
VV_API VV_MUST_USE vv_status vv_apply_squeeze_excite(vv_module *net,
                                                     const vv_squeeze_excite_opts *opts,
                                                     uint64_t seed, vv_optimizer *optimizer,
                                                     int *count);
/* How many layers that would replace. */
VV_API int vv_squeeze_excite_matches(vv_module *net, const vv_squeeze_excite_opts *opts);

/* x [N,H,W,C] -> x * sigmoid(fc2 relu(fc1 mean_hw(x))); children "fc1" [latent,C] and "fc2"
   [C,latent], without biases. The weights are left zero: follow with vv_module_init_default. */
extern VV_API const vv_module_class vv_squeeze_excite2d_class, vv_squeeze_excite_conv2d_class;
VV_API VV_MUST_USE vv_status vv_squeeze_excite2d_new(VV_OWNED vv_module **out, int64_t channels,
                                                     double latent_channels);
/* Children "conv" (the given Conv2d, kept) and "se" on its output. */
VV_API VV_MUST_USE vv_status vv_squeeze_excite_conv2d_new(VV_OWNED vv_module **out,
                                                          vv_module *conv, double latent_channels);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_squeeze_excite(const vv_squeeze_excite_opts *opts);
extern VV_API const vv_method_desc vv_method_squeeze_excite;

VV_END_DECLS

#endif
