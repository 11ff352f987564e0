/* nan_monitor.h - ends a run whose loss is no longer a number. */
#ifndef VIVACE_CALLBACKS_NAN_MONITOR_H
#define VIVACE_CALLBACKS_NAN_MONITOR_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_nan_monitor_opts {
    bool infinity; /* infinities too */
} vv_nan_monitor_opts;
#define VV_NAN_MONITOR_DEFAULTS {true}

extern VV_API const vv_callback_desc vv_callback_nan_monitor;

VV_END_DECLS

#endif
