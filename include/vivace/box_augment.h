/* box_augment.h - random changes of images that carry boxes, which move with their pixels.
 *
 * A box is a row of six numbers as in the targets of detectors (data.h): x0, y0, x1, y1 in shares
 * of the image, class (from 1), 1 for a crowd. */
#ifndef VIVACE_BOX_AUGMENT_H
#define VIVACE_BOX_AUGMENT_H

#include <vivace/image.h>

VV_BEGIN_DECLS

typedef float vv_box_row[6];

/* A part of the image for training, crop = x0, y0, x1, y1 in shares (Liu et al., arXiv 1512.02325,
   section 2.2): one of {the whole, a part some box has an IoU of .1, .3, .5, .7 or .9 with, any
   part}, each as likely. A part has sides of U(.3, 1) whose ratio is within [1/2, 2], and holds the
   centre of a box; what misses is chosen anew. */
VV_API void vv_boxes_random_crop(double crop[4], vv_rng *rng, const vv_box_row *rows,
                                 int64_t count);
/* The boxes as they lie in the part `crop`: those whose centre it holds, cut at its border; of
   these, boxes with a side below min_side (a share of the part) go too. Returns how many stay, in
   their order. */
VV_API int64_t vv_boxes_crop(vv_box_row *rows, int64_t count, const double crop[4],
                             double min_side);
VV_API void vv_boxes_flip(vv_box_row *rows, int64_t count); /* left-right */
/* Rows without a box (class -1, else 0) from `count` up to `room`. */
VV_API void vv_boxes_pad(vv_box_row *rows, int64_t count, int64_t room);

typedef struct vv_box_augment {
    bool crop, flip; /* mirrored with probability 1/2 */
    double min_side; /* as in vv_boxes_crop */
    vv_color_jitter jitter;
} vv_box_augment;
/* SSD300's: boxes below one pixel of 300 go. */
#define VV_BOX_AUGMENT_DEFAULTS {true, true, 1.0 / 300.0, {0.125, 0.5, 0.5, 0.05}}

/* Draws part and flip, and moves the boxes; returns how many stay. Resample the part and then call
   vv_boxes_finish with the same cursor. */
VV_API int64_t vv_boxes_augment(vv_box_row *rows, int64_t count, const vv_box_augment *opts,
                                vv_rng *rng, double crop[4], bool *flip);
/* Mirrors the part's pixels if asked and changes their colours. scratch has room for one image. */
VV_API void vv_boxes_finish(const vv_image_shape *shape, uint8_t *image, uint8_t *scratch,
                            const vv_box_augment *opts, bool flip, vv_rng *rng);

VV_END_DECLS

#endif
