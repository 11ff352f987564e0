/* cutmix.h - CutMix: a rectangle of another image is pasted in, and the labels share by area. */
#ifndef VIVACE_METHODS_CUTMIX_H
#define VIVACE_METHODS_CUTMIX_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_cutmix_opts {
    double alpha;          /* kept share l ~ Beta(alpha, alpha), sides sqrt(1 - l); 0 = no mixing */
    double length;         /* above 0: share of each side, not drawn */
    bool uniform_sampling; /* every pixel equally likely to be covered; else the centre is drawn */
    bool interpolate_loss; /* mix the two losses; else the targets, as one soft target */
} vv_cutmix_opts;
#define VV_CUTMIX_DEFAULTS {1.0, 0.0, false, false}

/* Rows [top, bottom) and columns [left, right) of an image. */
typedef struct vv_cutmix_box {
    int64_t top, left, bottom, right;
} vv_cutmix_box;

/* Box of cut_height x cut_width whose middle is at (row, column), cut off at the image's edges:
   rows [row - cut_height / 2, row - cut_height / 2 + cut_height), columns alike. */
VV_API vv_cutmix_box vv_cutmix_box_at(int64_t height, int64_t width, int64_t cut_height,
                                      int64_t cut_width, int64_t row, int64_t column);
/* *box (empty if alpha and length are 0) and partner[0..rows-1] = a random permutation. opts NULL =
   defaults. */
VV_API void vv_cutmix_draw(vv_rng *rng, const vv_cutmix_opts *opts, int64_t rows, int64_t height,
                           int64_t width, int64_t *partner, vv_cutmix_box *box);

/* *mixed image i = input image i, inside the box input image partner[i]; *mix_target row i = target
   row partner[i]; *weight = box area / image area, the partner's share of the loss. Masks [N,H,W]
   are cut like their images: *mix_target is then the target of *mixed, and *weight 0. input: any
   dtype [N,H,W,C]; target [N], [N,K] or masks; both are only looked at. *mixed and *mix_target:
   NULL or a result of an earlier call, which is used again if nobody else holds it. */
VV_API VV_MUST_USE vv_status vv_cutmix_batch(vv_tensor **mixed, vv_tensor **mix_target,
                                             double *weight, const vv_tensor *input,
                                             const vv_tensor *target, const int64_t *partner,
                                             vv_cutmix_box box);

/* The Trainer's method; NULL with a sentence in vv_error() if alpha is outside [0, 100]. */
VV_API VV_OWNED vv_method *vv_cutmix(double alpha);
extern VV_API const vv_method_desc vv_method_cutmix;

VV_END_DECLS

#endif
