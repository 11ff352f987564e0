/* detection.h - boxes around things: default boxes, matching, the loss, and what a detector finds.
 *
 * A box is {x0, y0, x1, y1}, a default box {centre x, centre y, width, height}, both as shares of
 * the image's sides. Targets are f32 [N,M,6]: a box, its class and 1 for a crowd; class 0 is the
 * background, and rows below class 1 are no boxes but room for some. A detector's output is
 * [N,B,4 + classes]: for each default box its offsets, then the logits of its class. */
#ifndef VIVACE_DETECTION_H
#define VIVACE_DETECTION_H

#include <vivace/model.h>
#include <vivace/str.h>

VV_BEGIN_DECLS

enum { VV_TARGET_BOX = 0, VV_TARGET_CLASS = 4, VV_TARGET_CROWD = 5, VV_TARGET_COLUMNS = 6 };

/* Intersection over union; 0 if either is empty. */
VV_API double vv_box_iou(const float a[4], const float b[4]);
/* How a box lies to its default box (Liu et al., arXiv 1512.02325): the centre's distance in
   default sides / 0.1, ln(ratio of sides) / 0.2; and back. */
VV_API void vv_box_encode(float out[4], const float box[4], const float prior[4]);
VV_API void vv_box_decode(float out[4], const float offsets[4], const float prior[4]);

/* Which box of an image each default box stands for: match[i] = row of `target` [rows,6], or -1.
   Each box takes the default box it overlaps most that none with a larger overlap has taken; of the
   rest, those with an IoU above `overlap` take the box they overlap most. Crowds are left out. */
VV_API VV_MUST_USE vv_status vv_boxes_match(int32_t *match, const float *priors,
                                            int64_t prior_count, const float *target, int64_t rows,
                                            double overlap);

typedef struct vv_multibox_opts {
    double overlap;   /* IoU above which a default box stands for a box */
    double
        negatives; /* default boxes of the background in the loss, for each that stands for one */
} vv_multibox_opts;
#define VV_MULTIBOX_DEFAULTS {0.5, 3.0}
/* SSD's loss of each image, f32 [N]: smooth L1 of the offsets of the default boxes that stand for a
   box, and cross-entropy of these and of the `negatives` times as many others whose cross-entropy
   is largest, together divided by their number; 0 for an image without boxes. priors [B,4]. opts
   NULL = defaults. Reads the target's value. */
VV_API vv_node *vv_multibox_loss(vv_node *output, vv_node *target, const float *priors,
                                 const vv_multibox_opts *opts);

/* ---- detectors ---- */
/* What a detector tells about itself (on its root). */
typedef struct vv_detector {
    /* [count,4]: the default boxes of the net's latest output with so many; NULL if there was none.
       size (may be NULL) = height and width of its images. */
    const float *(*priors)(vv_module *net, int64_t count, int64_t size[2]);
} vv_detector;
/* `detector` must live as long as the program (a static const). */
VV_API void vv_module_set_detector(vv_module *module, const vv_detector *detector);
VV_API VV_BORROWED const vv_detector *vv_module_detector(const vv_module *module); /* or NULL */
/* For vv_model.loss of nets that are detectors: vv_multibox_loss with the net's default boxes;
   loss_opts is a vv_multibox_opts or NULL. */
extern VV_API const vv_loss_class vv_multibox_loss_class;

typedef struct vv_detection {
    float box[4];
    float score; /* probability of the class */
    int32_t label;
} vv_detection;
typedef struct vv_detect_opts {
    double min_score;   /* of a class: only above it */
    int64_t candidates; /* of each class, the best, before overlapping ones are taken out */
    double overlap;     /* IoU with a better one of its class above which one is taken out */
    int64_t keep;       /* the best of all classes */
} vv_detect_opts;
#define VV_DETECT_DEFAULTS {0.05, 200, 0.5, 200}
/* What one image shows, the best first. output: its row [boxes, 4 + classes] of a detector's.
   *out (from vv_alloc, *count of them) is NULL if nothing was found. opts NULL = defaults. */
VV_API VV_MUST_USE vv_status vv_detect(VV_OWNED vv_detection **out, int64_t *count,
                                       const float *output, const float *priors, int64_t boxes,
                                       int64_t classes, const vv_detect_opts *opts);
/* The same for image `row` of the model's latest output [N,B,4 + classes], f32. */
VV_API VV_MUST_USE vv_status vv_model_detect(VV_OWNED vv_detection **out, int64_t *count,
                                             const vv_model *model, const vv_tensor *output,
                                             int64_t row, const vv_detect_opts *opts);
/* Appends a JSON array: [{"label":1,"class":"cat","score":0.9,"box":[x0,y0,x1,y1]},...], boxes in
   pixels of an image of that size. names: of the classes, with the background's; NULL = none. */
VV_API VV_MUST_USE vv_status vv_detections_json(vv_str *out, const vv_detection *found,
                                                int64_t count, const char *const *names,
                                                int64_t height, int64_t width);

VV_END_DECLS

#endif
