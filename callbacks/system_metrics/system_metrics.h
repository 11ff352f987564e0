/* system_metrics.h - logs how busy the machine is. */
#ifndef VIVACE_CALLBACKS_SYSTEM_METRICS_H
#define VIVACE_CALLBACKS_SYSTEM_METRICS_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_system_metrics_opts {
    vv_time interval;
    const char *proc; /* where the kernel's files are */
} vv_system_metrics_opts;
#define VV_SYSTEM_METRICS_DEFAULTS {{VV_UNIT_BATCH, 10, 0.0}, "/proc"}

extern VV_API const vv_callback_desc vv_callback_system_metrics;

VV_END_DECLS

#endif
