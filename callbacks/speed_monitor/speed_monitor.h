/* speed_monitor.h - logs throughput and where the time goes. */
#ifndef VIVACE_CALLBACKS_SPEED_MONITOR_H
#define VIVACE_CALLBACKS_SPEED_MONITOR_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_speed_monitor_opts {
    int64_t window_size; /* batches the rates are taken over */
    bool mfu;            /* measure the machine's peak at the start and log the share of it */
} vv_speed_monitor_opts;
#define VV_SPEED_MONITOR_DEFAULTS {100, true}

extern VV_API const vv_callback_desc vv_callback_speed_monitor;

VV_END_DECLS

#endif
