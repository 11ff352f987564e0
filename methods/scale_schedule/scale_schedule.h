/* scale_schedule.h - a shorter or longer run with its learning-rate schedule scaled alike. */
#ifndef VIVACE_METHODS_SCALE_SCHEDULE_H
#define VIVACE_METHODS_SCALE_SCHEDULE_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_scale_schedule_opts {
    double ratio; /* above 0 */
} vv_scale_schedule_opts;

/* The Trainer's method: another name for the Trainer's scale_schedule_ratio. NULL with a sentence
   in vv_error() if the ratio is not above 0. */
VV_API VV_OWNED vv_method *vv_scale_schedule(double ratio);
extern VV_API const vv_method_desc vv_method_scale_schedule;

VV_END_DECLS

#endif
