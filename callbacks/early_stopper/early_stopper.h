/* early_stopper.h - ends a run whose metric no longer improves. */
#ifndef VIVACE_CALLBACKS_EARLY_STOPPER_H
#define VIVACE_CALLBACKS_EARLY_STOPPER_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_early_stopper_opts {
    const char *monitor; /* a metric; "loss" with label "train" */
    const char *label;   /* evaluator, or "train" */
    int direction;       /* 0 auto, 1 less is better, 2 greater is better */
    double min_delta;    /* an improvement is larger than this */
    vv_time patience;    /* ep or ba */
} vv_early_stopper_opts;
#define VV_EARLY_STOPPER_DEFAULTS {"accuracy", "eval", 0, 0.0, {VV_UNIT_EPOCH, 1, 0.0}}

extern VV_API const vv_callback_desc vv_callback_early_stopper;

VV_END_DECLS

#endif
