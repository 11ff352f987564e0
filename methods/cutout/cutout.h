/* cutout.h - CutOut: square holes in the images. */
#ifndef VIVACE_METHODS_CUTOUT_H
#define VIVACE_METHODS_CUTOUT_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

/* Rows [top, bottom) and columns [left, right), within the image. */
typedef struct vv_hole {
    int64_t top, bottom, left, right;
} vv_hole;

typedef struct vv_cutout_opts {
    int64_t num_holes;
    double length;         /* side of a hole as a share of the image's smaller side */
    bool uniform_sampling; /* centres reach beyond the border, so that each pixel is as likely */
    bool per_sample;       /* own holes for each image; else one set for the batch */
} vv_cutout_opts;
#define VV_CUTOUT_DEFAULTS {1, 0.5, false, false}

/* A hole of side max(1, floor(min(height, width) * length)), cut off at the border. */
VV_API vv_hole vv_cutout_draw(vv_rng *rng, int64_t height, int64_t width,
                              const vv_cutout_opts *opts);
/* *out = input [N,H,W,C] with zeros in the holes: the first num_holes for every image, or, with
   per_sample, image i's own from i * num_holes on. *out: NULL or a result of an earlier call, which
   is used again if nobody else holds it. Any element type. opts NULL = defaults. */
VV_API VV_MUST_USE vv_status vv_cutout_batch(vv_tensor **out, const vv_tensor *input,
                                             const vv_hole *holes, const vv_cutout_opts *opts);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_cutout(const vv_cutout_opts *opts);
extern VV_API const vv_method_desc vv_method_cutout;

VV_END_DECLS

#endif
