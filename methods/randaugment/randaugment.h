/* randaugment.h - RandAugment: a few random changes of each image. */
#ifndef VIVACE_METHODS_RANDAUGMENT_H
#define VIVACE_METHODS_RANDAUGMENT_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_randaugment_opts {
    double severity;      /* most strength of a change, 0..10 */
    int64_t depth;        /* changes of an image, one after the other */
    int augmentation_set; /* vv_augment_set */
} vv_randaugment_opts;
#define VV_RANDAUGMENT_DEFAULTS {9, 2, VV_AUGMENT_ALL}

/* Changes an image [H,W,C] (C = 1 or 3) in place. scratch has room for one. opts NULL =
   defaults. */
VV_API void vv_randaugment_image(uint8_t *image, const vv_image_shape *shape,
                                 const vv_randaugment_opts *opts, vv_rng *rng, uint8_t *scratch);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_randaugment(const vv_randaugment_opts *opts);
extern VV_API const vv_method_desc vv_method_randaugment;

VV_END_DECLS

#endif
