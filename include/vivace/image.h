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

/* ---- sizes ---- */
typedef enum vv_image_filter {
    VV_IMAGE_NEAREST,
    VV_IMAGE_BILINEAR,
    VV_IMAGE_BICUBIC,
    VV_IMAGE_BOX,
    VV_IMAGE_FILTER_COUNT
} vv_image_filter;
VV_API VV_BORROWED const char *vv_image_filter_name(vv_image_filter filter);
/* `in` made as large as `out`, as Pillow's resize does: the filter is widened when it shrinks, so
   that nothing aliases. box = x0,y0,x1,y1 of the input (NULL = all of it); what lies beside it
   still counts where the filter reaches there. Both have the same channels (1 or 3). VV_ESHAPE with
   a sentence for sizes below 1 and boxes that are not inside. */
VV_API VV_MUST_USE vv_status vv_image_resample(const vv_image_shape *out_shape, uint8_t *out,
                                               const vv_image_shape *in_shape, const uint8_t *in,
                                               const double box[4], vv_image_filter filter);
/* Mirrored left-right, in place. */
VV_API void vv_image_flip(const vv_image_shape *shape, uint8_t *image);
/* box = a part with area U(scale) of the image and width : height = exp U(ln ratio), whole pixels
   and fully inside; after ten misses the largest central part of an allowed ratio (Szegedy et al.,
   "Going deeper with convolutions", 2015). Scale (0.08, 1) and ratio (3/4, 4/3) are usual. */
VV_API void vv_image_random_resized_crop(double box[4], vv_rng *rng, int64_t height, int64_t width,
                                         const double scale[2], const double ratio[2]);
/* box = what is left when the shorter side is made `resize` pixels and the central `height` x
   `width` are cut out: resample it to that size. Where the image is smaller than the cut, the box
   is as much as there is, with the ratio of the cut. */
VV_API void vv_image_centre_crop(double box[4], int64_t image_height, int64_t image_width,
                                 int64_t resize, int64_t height, int64_t width);

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

/* ---- random changes of colour ---- */
/* Every hue moved by `turn` of the circle, -0.5..0.5, through Pillow's 8-bit HSV; grey stays. */
VV_API void vv_image_hue(const vv_image_shape *shape, const uint8_t *in, uint8_t *out, double turn);
/* How far each may go: factors from U(max(0, 1 - x), 1 + x), hue from U(-hue, hue) of the circle,
   in random order. */
typedef struct vv_color_jitter {
    double brightness, contrast, saturation, hue;
} vv_color_jitter;
/* In place; scratch has room for one image. */
VV_API void vv_image_color_jitter(const vv_image_shape *shape, uint8_t *image, uint8_t *scratch,
                                  const vv_color_jitter *jitter, vv_rng *rng);
/* Each with probability 1/2: brightness times U(1 +- 32/255), contrast times U(0.5, 1.5) before or
   after the rest, saturation times U(0.5, 1.5), hue turned by U(+-18/255) (Liu et al., "SSD",
   2016). In place; scratch has room for one image. */
VV_API void vv_image_photometric_distortion(const vv_image_shape *shape, uint8_t *image,
                                            uint8_t *scratch, vv_rng *rng);

VV_END_DECLS

#endif
