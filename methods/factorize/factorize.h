/* factorize.h - wide convolutions and linear layers as two thinner ones. */
#ifndef VIVACE_METHODS_FACTORIZE_H
#define VIVACE_METHODS_FACTORIZE_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef enum vv_factorize_start {
    VV_FACTORIZE_FRESH, /* new weights, as PyTorch's layers start */
    VV_FACTORIZE_SVD,   /* the best approximation of the old weights */
} vv_factorize_start;

typedef struct vv_factorize_opts {
    bool factorize_convs, factorize_linears;
    int64_t min_channels;   /* convolutions with fewer channels on either side stay */
    double latent_channels; /* at least 1: a count; below 1: a share of min(in, out) */
    int64_t min_features;   /* the same for linear layers */
    double latent_features;
    int start; /* vv_factorize_start */
} vv_factorize_opts;
#define VV_FACTORIZE_DEFAULTS {true, true, 256, 0.25, 256, 128, VV_FACTORIZE_FRESH}

typedef struct vv_factorize_counts {
    int convs, linears;
} vv_factorize_counts;

/* Replaces every Conv2d and Linear of `net` (not net itself) that is wide enough and gets cheaper
   by a pair of layers "module0" and "module1". Grouped convolutions and layers whose weight is
   shared with others stay. New weights come from
   `seed`. opts NULL = defaults. Applying twice is applying once. counts (may be NULL) = layers
   replaced; optimizer (may be NULL) is kept in step. On failure nothing has changed. */
VV_API VV_MUST_USE vv_status vv_apply_factorization(vv_module *net, const vv_factorize_opts *opts,
                                                    uint64_t seed, vv_optimizer *optimizer,
                                                    vv_factorize_counts *counts);
/* What that would replace. */
VV_API void vv_factorize_matches(vv_module *net, const vv_factorize_opts *opts,
                                 vv_factorize_counts *counts);

/* Width between the two: latent itself, or, below 1, max(1, floor(latent * min(in, out))). */
VV_API int64_t vv_factorize_latent(double latent, int64_t in, int64_t out);
/* The largest width with strictly fewer multiplications than one layer: ceil(fan_in * out / (fan_in
   + out) - 1), fan_in = in * kernel height * kernel width. */
VV_API int64_t vv_factorize_break_even(int64_t fan_in, int64_t out);

/* module0: conv in -> latent with the given conv's kernel, stride, padding and dilation, no bias;
   module1: 1x1 conv latent -> out with a bias. latent above break-even: VV_EINVAL; groups:
   VV_EUNSUPPORTED. Weights are left zero but for VV_FACTORIZE_SVD, which reads the given layer. */
extern VV_API const vv_module_class vv_factorized_conv2d_class, vv_factorized_linear_class;
VV_API VV_MUST_USE vv_status vv_factorized_conv2d_new(VV_OWNED vv_module **out, vv_module *conv,
                                                      int64_t latent, vv_factorize_start start);
/* module0: in -> latent without bias; module1: latent -> out with one if the given layer has. */
VV_API VV_MUST_USE vv_status vv_factorized_linear_new(VV_OWNED vv_module **out, vv_module *linear,
                                                      int64_t latent, vv_factorize_start start);
/* *out = the same kind of layer with a smaller width, the best approximation of the product of the
   two weights. A larger width is VV_EINVAL. */
VV_API VV_MUST_USE vv_status vv_factorized_set_rank(VV_OWNED vv_module **out, vv_module *layer,
                                                    int64_t latent);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_factorize(const vv_factorize_opts *opts);
extern VV_API const vv_method_desc vv_method_factorize;

VV_END_DECLS

#endif
