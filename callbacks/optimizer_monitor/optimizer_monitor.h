/* optimizer_monitor.h - logs norms of gradients, parameters, moments and updates. */
#ifndef VIVACE_CALLBACKS_OPTIMIZER_MONITOR_H
#define VIVACE_CALLBACKS_OPTIMIZER_MONITOR_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_optimizer_monitor_opts {
    vv_time interval; /* between batches that are looked at */
    bool layers;      /* each parameter, not the whole alone */
} vv_optimizer_monitor_opts;
#define VV_OPTIMIZER_MONITOR_DEFAULTS {{VV_UNIT_BATCH, 10, 0.0}, true}

extern VV_API const vv_callback_desc vv_callback_optimizer_monitor;

VV_END_DECLS

#endif
