/* transform.h - from uint8 images to normalised float batches. */
#ifndef VVI_TRANSFORM_H
#define VVI_TRANSFORM_H

#include <vivace/data.h>

/* Crop, shift and mirror folded into one integer warp:
   out(y, x) = in(y + dy, (flip ? width - 1 - x : x) + dx), zero outside. */
typedef struct vvi_warp {
    int64_t dy, dx;
    bool flip;
} vvi_warp;

typedef struct vvi_transform {
    int64_t height, width, channels;
    int64_t radius; /* largest shift */
    bool flip;
    bool alternate; /* mirrored by chance in epoch 0, then in turns */
    uint64_t seed;
    /* [W,C], the same in each column: a pixel's value v becomes v * scale + bias; scale NULL = v /
       255, bias 0. */
    float *scale, *bias;
} vvi_transform;

/* spec must be a u8 image set. */
VV_MUST_USE vv_status vvi_transform_init(vvi_transform *transform, const vv_sample_spec *spec,
                                         const vv_image_transform *opts, uint64_t seed);
void vvi_transform_fini(vvi_transform *transform);
/* The warp sample `index` gets in `epoch`: a pure function of (seed, epoch, index). */
vvi_warp vvi_transform_draw(const vvi_transform *transform, int64_t epoch, int64_t index);
void vvi_transform_apply(const vvi_transform *transform, vvi_warp warp,
                         const uint8_t *in, /* [H,W,C] */
                         float *out /* [H,W,C] */);

#endif
