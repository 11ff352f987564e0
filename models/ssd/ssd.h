/* ssd.h - SSD, the single shot detector (Liu et al., arXiv 1512.02325), on a ResNet. */
#ifndef VIVACE_MODELS_SSD_H
#define VIVACE_MODELS_SSD_H

#include <vivace/detection.h>

VV_BEGIN_DECLS

typedef enum vv_ssd_backbone {
    VV_SSD_RESNET18,
    VV_SSD_RESNET34,
} vv_ssd_backbone;

typedef struct vv_ssd_opts {
    int backbone;    /* vv_ssd_backbone */
    int64_t width;   /* channels of the backbone's stem; the rest follows */
    int64_t levels;  /* maps that boxes are looked for in, 1..6 */
    double overlap, negatives; /* of the loss: vv_multibox_opts */
} vv_ssd_opts;
#define VV_SSD_DEFAULTS {VV_SSD_RESNET34, 64, 6, 0.5, 3.0}

/* [N,H,W,channels] -> [N,boxes, 4 + classes]; `classes` counts the background. Children "conv1" to
   "layer3" are the backbone's, under torchvision's names; then "extra", "loc", "conf". Weights are
   left zero. opts NULL = defaults. */
VV_API VV_MUST_USE vv_status vv_ssd_new(VV_OWNED vv_module **out, int64_t channels, int64_t classes,
                                        const vv_ssd_opts *opts);
/* Xavier uniform for what is not the backbone; biases 0. Draws are a function of (seed, path). */
VV_API VV_MUST_USE vv_status vv_ssd_init(vv_module *net, uint64_t seed);

/* Default boxes per place of map `level` of `levels`: 4, or 6 in the middle ones. */
VV_API int vv_ssd_boxes_per_cell(int64_t level, int64_t levels);
/* Default boxes for images of size {height, width} whose maps have sides[levels]: level by level,
   row by row, centre form, within [0,1]. boxes [count,4]; NULL = only count. Returns how many. */
VV_API int64_t vv_ssd_boxes(float *boxes, const int64_t size[2], int64_t levels,
                            const int64_t (*sides)[2]);

extern VV_API const vv_model_desc vv_model_ssd;

VV_END_DECLS

#endif
