/* memory_monitor.h - logs how much memory a run uses. */
#ifndef VIVACE_CALLBACKS_MEMORY_MONITOR_H
#define VIVACE_CALLBACKS_MEMORY_MONITOR_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_memory_monitor_opts {
    vv_time interval;
} vv_memory_monitor_opts;
#define VV_MEMORY_MONITOR_DEFAULTS {{VV_UNIT_BATCH, 1, 0.0}}

extern VV_API const vv_callback_desc vv_callback_memory_monitor;

VV_END_DECLS

#endif
