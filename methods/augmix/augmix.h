/* augmix.h - AugMix: mixtures of randomly changed copies of an image. */
#ifndef VIVACE_METHODS_AUGMIX_H
#define VIVACE_METHODS_AUGMIX_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

#define VV_AUGMIX_MOST_CHAINS 16

typedef struct vv_augmix_opts {
    double severity;      /* most strength of a change, 0..10 */
    int64_t depth;        /* changes in a chain; 0 or less: 1 to 3, drawn for each */
    int64_t width;        /* chains, at most VV_AUGMIX_MOST_CHAINS */
    double alpha;         /* of the Dirichlet and Beta distributions of the weights; above 0 */
    int augmentation_set; /* vv_augment_set */
} vv_augmix_opts;
#define VV_AUGMIX_DEFAULTS {3, -1, 3, 1, VV_AUGMENT_ALL}

/* Changes an image [H,W,C] (C = 1 or 3) in place: (1 - m) * image + m * sum_i w_i * chain_i(image),
   rounded; m ~ Beta(alpha, alpha), w ~ Dirichlet(alpha, ...). opts NULL = defaults. */
VV_API VV_MUST_USE vv_status vv_augmix_image(uint8_t *image, const vv_image_shape *shape,
                                             const vv_augmix_opts *opts, vv_rng *rng);
/* The weights: w[width] of the chains, *m of their mixture. */
VV_API void vv_augmix_draw(const vv_augmix_opts *opts, vv_rng *rng, double *w, double *m);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_augmix(const vv_augmix_opts *opts);
extern VV_API const vv_method_desc vv_method_augmix;

VV_END_DECLS

#endif
