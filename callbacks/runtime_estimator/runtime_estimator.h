/* runtime_estimator.h - logs how long the run will still take. */
#ifndef VIVACE_CALLBACKS_RUNTIME_ESTIMATOR_H
#define VIVACE_CALLBACKS_RUNTIME_ESTIMATOR_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_runtime_estimator_opts {
    int unit; /* 0 seconds, 1 minutes, 2 hours, 3 days */
} vv_runtime_estimator_opts;
#define VV_RUNTIME_ESTIMATOR_DEFAULTS {0}

extern VV_API const vv_callback_desc vv_callback_runtime_estimator;

VV_END_DECLS

#endif
