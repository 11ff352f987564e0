/* nan_monitor.h - what happens to a run whose numbers are no longer numbers. */
#ifndef VIVACE_CALLBACKS_NAN_MONITOR_H
#define VIVACE_CALLBACKS_NAN_MONITOR_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef enum vv_nan_action {
    VV_NAN_STOP,      /* the run fails with a sentence */
    VV_NAN_SKIP,      /* the step is not taken, the run goes on */
    VV_NAN_ROLL_BACK, /* to the last checkpoint's weights, the run goes on behind the bad batch */
} vv_nan_action;

typedef struct vv_nan_monitor_opts {
    int action;        /* vv_nan_action */
    bool infinity;     /* infinities too */
    bool gradients;    /* look at the gradients too, not at the loss alone */
    int64_t tolerance; /* skips in a row, or roll-backs in all, before the run fails after all */
} vv_nan_monitor_opts;
#define VV_NAN_MONITOR_DEFAULTS {VV_NAN_STOP, true, true, 3}

extern VV_API const vv_callback_desc vv_callback_nan_monitor;

VV_END_DECLS

#endif
