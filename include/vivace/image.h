/* image.h - changes to 8-bit images, as Pillow computes them, and random choices among them.
 *
 * Images are [H,W,C] of uint8, C = 1 (grey) or 3 (RGB). `out` is another buffer than `in`. Results
 * are Pillow's to the bit, except where stated. */
#ifndef VIVACE_IMAGE_H
#define VIVACE_IMAGE_H

#include <vivace/rng.h>

VV_BEGIN_DECLS

typedef struct vv_image_shape {
    int64_t height, width, channels;
} vv_image_shape;

/* Each channel stretched to 0..255. */
VV_API void vv_image_autocontrast(const vv_image_shape *shape, const uint8_t *in, uint8_t *out);
/* Each channel with a flat histogram. */
VV_API void vv_image_equalize(const vv_image_shape *shape, const uint8_t *in, uint8_t *out);
/* Keeps the `bits` highest bits, 1..8. */
VV_API void vv_image_posterize(const vv_image_shape *shape, const uint8_t *in, uint8_t *out,
                               int bits);
/* Pixels of at least `threshold` become 255 - pixel. */
VV_API void vv_image_solarize(const vv_image_shape *shape, const uint8_t *in, uint8_t *out,
                              int threshold);
/* Output (x, y) is what lies at a[0] x + a[1] y + a[2], a[3] x + a[4] y + a[5] of the input
   (coordinates of pixels' centres are halves), bilinear, 0 outside. */
VV_API void vv_image_affine(const vv_image_shape *shape, const uint8_t *in, uint8_t *out,
                            const double a[6]);
/* Counter-clockwise about the centre. */
VV_API void vv_image_rotate(const vv_image_shape *shape, const uint8_t *in, uint8_t *out,
                            double degrees);
/* degenerate + factor * (image - degenerate), clipped. The degenerate image is: grey; the mean
   grey; black; smoothed (3x3, the border as it is). */
VV_API void vv_image_color(const vv_image_shape *shape, const uint8_t *in, uint8_t *out,
                           double factor);
VV_API void vv_image_contrast(const vv_image_shape *shape, const uint8_t *in, uint8_t *out,
                              double factor);
VV_API void vv_image_brightness(const vv_image_shape *shape, const uint8_t *in, uint8_t *out,
                                double factor);
VV_API void vv_image_sharpness(const vv_image_shape *shape, const uint8_t *in, uint8_t *out,
                               double factor);

/* ---- random changes of a strength, for AugMix and RandAugment ---- */
typedef enum vv_augment_op {
    VV_AUGMENT_AUTOCONTRAST,
    VV_AUGMENT_EQUALIZE,
    VV_AUGMENT_POSTERIZE,
    VV_AUGMENT_ROTATE,
    VV_AUGMENT_SOLARIZE,
    VV_AUGMENT_SHEAR_X,
    VV_AUGMENT_SHEAR_Y,
    VV_AUGMENT_TRANSLATE_X,
    VV_AUGMENT_TRANSLATE_Y, /* the last of the safe ones */
    VV_AUGMENT_COLOR,
    VV_AUGMENT_CONTRAST,
    VV_AUGMENT_BRIGHTNESS,
    VV_AUGMENT_SHARPNESS, /* the last of all */
    VV_AUGMENT_COLOR_ORIGINAL, /* as in the AugMix paper's code: darker or weaker mostly */
    VV_AUGMENT_CONTRAST_ORIGINAL,
    VV_AUGMENT_BRIGHTNESS_ORIGINAL,
    VV_AUGMENT_SHARPNESS_ORIGINAL,
    VV_AUGMENT_OP_COUNT
} vv_augment_op;
typedef enum vv_augment_set {
    VV_AUGMENT_ALL,      /* the first thirteen */
    VV_AUGMENT_SAFE,     /* the first nine: none that ImageNet-C tests */
    VV_AUGMENT_ORIGINAL, /* the first nine and the last four */
} vv_augment_set;
VV_API VV_BORROWED const char *vv_augment_op_name(vv_augment_op op);
/* One op of the set, each as likely. */
VV_API vv_augment_op vv_augment_choose(vv_augment_set set, vv_rng *rng);
/* The op with a random strength up to `severity`, 0..10. */
VV_API void vv_augment_apply(vv_augment_op op, double severity, vv_rng *rng,
                             const vv_image_shape *shape, const uint8_t *in, uint8_t *out);

VV_END_DECLS

#endif
