/* progressive_resizing.h - training starts on small images and grows to the full size. */
#ifndef VIVACE_METHODS_PROGRESSIVE_RESIZING_H
#define VIVACE_METHODS_PROGRESSIVE_RESIZING_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef enum vv_resizing_mode { VV_RESIZING_RESIZE, VV_RESIZING_CROP } vv_resizing_mode;

typedef struct vv_progressive_resizing_opts {
    int mode;                 /* vv_resizing_mode */
    double initial_scale;     /* of the sides, [0, 1] */
    double finetune_fraction; /* last part of training, at full size */
    double delay_fraction;    /* first part of training, at the initial scale */
    int64_t size_increment;   /* sides are multiples of this many pixels */
    bool resize_targets;      /* targets are images too (masks) */
} vv_progressive_resizing_opts;
#define VV_PROGRESSIVE_RESIZING_DEFAULTS {VV_RESIZING_RESIZE, 0.5, 0.2, 0.5, 4, false}

/* Scale of the sides at `progress` in [0, 1]: initial, then a ramp, then 1. opts NULL =
   defaults. */
VV_API double vv_resizing_scale(const vv_progressive_resizing_opts *opts, double progress);
/* A side of `full` pixels at a scale: the nearest multiple of increment (half goes to the even
   one), at least one increment, at most full; full itself at scale 1. */
VV_API int64_t vv_resizing_side(int64_t full, double scale, int64_t increment);

/* *out = the images [N,H,W,C] at `scale`, each side as vv_resizing_side says. Resize: bilinear with
   half-pixel centres, f32. Crop: one window for the batch, drawn from rng. *out_target = the target
   [N,h,w] or [N,h,w,K], any dtype, resized by nearest neighbour or cut in the same place; with
   target NULL it is left alone and may be NULL. *out and *out_target: NULL or a result of an
   earlier call, which is used again if nobody else holds it; at full size they become the inputs
   themselves, kept. size_increment as in the options; rng may be NULL for resize. */
VV_API VV_MUST_USE vv_status vv_resize_batch(vv_tensor **out, vv_tensor **out_target,
                                             vv_tensor *input, vv_tensor *target, double scale,
                                             int64_t size_increment, vv_resizing_mode mode,
                                             vv_rng *rng);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_progressive_resizing(const vv_progressive_resizing_opts *opts);
extern VV_API const vv_method_desc vv_method_progressive_resizing;

VV_END_DECLS

#endif
