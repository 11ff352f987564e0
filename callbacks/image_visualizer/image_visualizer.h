/* image_visualizer.h - writes what the network sees as PNG images. */
#ifndef VIVACE_CALLBACKS_IMAGE_VISUALIZER_H
#define VIVACE_CALLBACKS_IMAGE_VISUALIZER_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_image_visualizer_opts {
    vv_time interval;
    int64_t num_images; /* at most so many in one grid */
    const char *dir;    /* "" = images in the run's folder */
} vv_image_visualizer_opts;
#define VV_IMAGE_VISUALIZER_DEFAULTS {{VV_UNIT_BATCH, 100, 0.0}, 8, ""}

extern VV_API const vv_callback_desc vv_callback_image_visualizer;

VV_END_DECLS

#endif
