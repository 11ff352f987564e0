/* weight_standardization.h - convolutions whose filters have mean 0 and variance 1. */
#ifndef VIVACE_METHODS_WEIGHT_STANDARDIZATION_H
#define VIVACE_METHODS_WEIGHT_STANDARDIZATION_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_weight_standardization_opts {
    int64_t n_last_layers_ignore; /* convolutions that stay plain, counted from the last executed */
} vv_weight_standardization_opts;
#define VV_WEIGHT_STANDARDIZATION_DEFAULTS {0}

/* Makes every Conv2d of `net` (not net itself) one whose filters are standardised in each forward
   pass; parameters stay the same objects under the same names. The n_last_layers_ignore last ones
   stay plain, in the order in which they run on an input of `ndim` axes (a batch of one or two
   rows; nothing is computed), or, if input_shape is NULL or the net cannot take it, in the order
   of the tree: *traced (may be NULL) tells which. Applying twice is applying once. *count (may be
   NULL) = convolutions standardised by this call; optimizer (may be NULL) is kept in step. On
   failure nothing has changed. */
VV_API VV_MUST_USE vv_status vv_apply_weight_standardization(
    vv_module *net, const vv_weight_standardization_opts *opts, int ndim,
    const int64_t *input_shape, vv_optimizer *optimizer, int *count, bool *traced);
/* For export: puts the standardised filters into the weights and makes plain convolutions of the
   layers. *count (may be NULL) = layers changed back. */
VV_API VV_MUST_USE vv_status vv_remove_weight_standardization(vv_module *net,
                                                              vv_optimizer *optimizer, int *count);

/* weight [O,...] -> (weight - mean) / sqrt(var + 1e-10), mean and biased variance over all axes but
   the first; gradients flow through. */
VV_API VV_BORROWED vv_node *vv_standardize_weight(vv_node *weight);

/* vv_module_self begins with a vv_conv2d_layer. */
extern VV_API const vv_module_class vv_standardized_conv2d_class;

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_weight_standardization(const vv_weight_standardization_opts *opts);
extern VV_API const vv_method_desc vv_method_weight_standardization;

VV_END_DECLS

#endif
