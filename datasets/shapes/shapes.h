/* shapes.h - drawn shapes on a rough ground with the boxes around them: a detector's first data. */
#ifndef VIVACE_DATASETS_SHAPES_H
#define VIVACE_DATASETS_SHAPES_H

#include <vivace/box_augment.h>
#include <vivace/data.h>

VV_BEGIN_DECLS

#define VV_SHAPES_MOST 8 /* boxes in an image */

typedef struct vv_shapes_opts {
    vv_dataset_common common; /* dir is not used */
    int64_t size;             /* of the square images, in pixels */
    int64_t classes;          /* kinds of shapes, 1..5, without the background */
    int64_t train, eval;      /* images */
    int64_t most;             /* shapes in an image, 1..VV_SHAPES_MOST; at least one is there */
    int64_t seed;
    bool augment;             /* training images as SSD's recipe changes them */
} vv_shapes_opts;

/* Image `index` u8 [size,size,3] of a split as it was drawn; rows[VV_SHAPES_MOST] get its boxes,
   *count of them. */
VV_API void vv_shapes_draw(const vv_shapes_opts *opts, bool train, int64_t index, uint8_t *image,
                           vv_box_row *rows, int64_t *count);

VV_API extern const vv_dataset_desc vv_dataset_shapes;

VV_END_DECLS

#endif
