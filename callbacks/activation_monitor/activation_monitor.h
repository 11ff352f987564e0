/* activation_monitor.h - logs statistics of each module's output. */
#ifndef VIVACE_CALLBACKS_ACTIVATION_MONITOR_H
#define VIVACE_CALLBACKS_ACTIVATION_MONITOR_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_activation_monitor_opts {
    vv_time interval;
    const char *ignore; /* kinds of module to leave out, comma-separated: "Dropout,Flatten" */
} vv_activation_monitor_opts;
#define VV_ACTIVATION_MONITOR_DEFAULTS {{VV_UNIT_BATCH, 25, 0.0}, ""}

extern VV_API const vv_callback_desc vv_callback_activation_monitor;

VV_END_DECLS

#endif
