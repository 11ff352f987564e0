/* lr_monitor.h - logs the learning rate of each parameter group. */
#ifndef VIVACE_CALLBACKS_LR_MONITOR_H
#define VIVACE_CALLBACKS_LR_MONITOR_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

extern VV_API const vv_callback_desc vv_callback_lr_monitor; /* no settings */

VV_END_DECLS

#endif
