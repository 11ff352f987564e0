/* threshold_stopper.h - ends a run that is good enough. */
#ifndef VIVACE_CALLBACKS_THRESHOLD_STOPPER_H
#define VIVACE_CALLBACKS_THRESHOLD_STOPPER_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_threshold_stopper_opts {
    const char *monitor; /* a metric; "loss" with label "train" */
    const char *label;   /* evaluator, or "train" */
    double threshold;
    int direction;       /* 0 auto, 1 less is better, 2 greater is better */
    bool stop_on_batch;  /* label train: look after each batch, not each epoch */
} vv_threshold_stopper_opts;
/* Set the threshold. */
#define VV_THRESHOLD_STOPPER_DEFAULTS {"accuracy", "eval", 0.0, 0, false}

extern VV_API const vv_callback_desc vv_callback_threshold_stopper;

VV_END_DECLS

#endif
