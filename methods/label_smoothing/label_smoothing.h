/* label_smoothing.h - targets that leave some probability to the other classes. */
#ifndef VIVACE_METHODS_LABEL_SMOOTHING_H
#define VIVACE_METHODS_LABEL_SMOOTHING_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

/* target: class indices i32/i64 [...] (outside 0..classes-1: ignored) or a distribution [..., K],
   whose own K counts. Result f32 [..., K]: (1 - smoothing) * target + smoothing / K * (sum of the
   row), so a row that sums to 1 gives (1 - smoothing) * target + smoothing / K and an ignored row
   stays all zero. NULL with a sentence in vv_error() if smoothing is outside [0, 1]. */
VV_API VV_BORROWED vv_node *vv_smooth_labels(vv_node *target, int64_t classes, double smoothing);

typedef struct vv_label_smoothing_opts {
    double smoothing; /* probability spread evenly over all classes, [0, 1] */
} vv_label_smoothing_opts;
#define VV_LABEL_SMOOTHING_DEFAULTS {0.1}

/* The Trainer's method; NULL with a sentence in vv_error() if smoothing is outside [0, 1]. */
VV_API VV_OWNED vv_method *vv_label_smoothing(double smoothing);
extern VV_API const vv_method_desc vv_method_label_smoothing;

VV_END_DECLS

#endif
