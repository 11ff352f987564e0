/* coco_ap.h - average precision and recall of boxes, as COCO's evaluation counts them. */
#ifndef VVI_COCO_AP_H
#define VVI_COCO_AP_H

#include <vivace/status.h>

/* A box that is there (score unused) or was found (crowd unused). Images are numbered from 0 in
   the order in which they were seen. */
typedef struct vvi_coco_box {
    double edge[4]; /* x0, y0, x1, y1 in pixels */
    double score;
    double area;    /* that counts for small, medium, large */
    int64_t image, order; /* order: set by vvi_coco_ap */
    int32_t label;
    bool crowd;
} vvi_coco_box;

typedef struct vvi_coco_opts {
    double iou;       /* of a hit; 0 = mean over .50, .55, ... .95 */
    double area[2];   /* only boxes within */
    int64_t max_dets; /* of each image and class, the best: 1, 10 or 100 */
    bool recall;      /* average recall instead of precision */
} vvi_coco_opts;

/* Mean over the classes 1..classes-1 that occur; NaN if none does. Sorts both lists. */
vv_status vvi_coco_ap(double *out, vvi_coco_box *truth, int64_t truths, vvi_coco_box *found,
                      int64_t founds, int64_t classes, const vvi_coco_opts *opts);

#endif
