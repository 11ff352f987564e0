/* cost.h - logs what a run has cost and will cost. */
#ifndef VIVACE_CALLBACKS_COST_H
#define VIVACE_CALLBACKS_COST_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_cost_opts {
    double usd_per_hour; /* of the whole machine; 0 = the run's */
} vv_cost_opts;
#define VV_COST_DEFAULTS {0.0}

extern VV_API const vv_callback_desc vv_callback_cost;

VV_END_DECLS

#endif
