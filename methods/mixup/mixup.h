/* mixup.h - MixUp: training on weighted averages of pairs of samples. */
#ifndef VIVACE_METHODS_MIXUP_H
#define VIVACE_METHODS_MIXUP_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

/* *weight = min(l, 1 - l), l ~ Beta(alpha, alpha): the partner's share, at most 1/2; 0 if alpha is
   0. partner[0..rows-1] = a random permutation. */
VV_API void vv_mixup_draw(vv_rng *rng, double alpha, int64_t rows, int64_t *partner,
                          double *weight);

/* *mixed row i = (1 - weight) * input row i + weight * input row partner[i]; *mix_target row i =
   target row partner[i]. input: f32 [N,...]; target: any [N,...]; both are only looked at. *mixed
   and *mix_target: NULL or a result of an earlier call, which is used again if nobody else holds
   it. The loss of row i is (1 - weight) * loss(target[i]) + weight * loss(mix_target[i]). */
VV_API VV_MUST_USE vv_status vv_mixup_batch(vv_tensor **mixed, vv_tensor **mix_target,
                                            const vv_tensor *input, const vv_tensor *target,
                                            const int64_t *partner, double weight);

typedef struct vv_mixup_opts {
    double alpha;          /* of Beta(alpha, alpha); 0 = no mixing */
    bool interpolate_loss; /* mix the two losses; else the targets, as one soft target */
} vv_mixup_opts;
#define VV_MIXUP_DEFAULTS {0.2, false}

/* The Trainer's method; NULL with a sentence in vv_error() if alpha is outside [0, 100]. */
VV_API VV_OWNED vv_method *vv_mixup(double alpha);
extern VV_API const vv_method_desc vv_method_mixup;

VV_END_DECLS

#endif
