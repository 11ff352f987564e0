/* batch_size_schedule.h - batches that grow in stages. */
#ifndef VIVACE_METHODS_BATCH_SIZE_SCHEDULE_H
#define VIVACE_METHODS_BATCH_SIZE_SCHEDULE_H

#include <vivace/ext/train.h>
#include <vivace/train.h>

VV_BEGIN_DECLS

#define VV_BATCH_SIZE_STAGES 64 /* at most */

typedef struct vv_batch_size_schedule_opts {
    const char *scales; /* of each stage, as shares of the loader's batch size: "0.25,0.5,1" */
    vv_times at;        /* when each stage after the first begins */
    double lr_power;    /* learning rate times scale^lr_power */
} vv_batch_size_schedule_opts;

/* The stages that settings describe, for a loader's batch size: sizes are rounded, at least 1.
   *count = how many; stages has room for VV_BATCH_SIZE_STAGES. They can be given as
   vv_trainer_opts.batch_stages, or their sizes to vv_loader_set_stages. */
VV_API VV_MUST_USE vv_status vv_batch_size_stages(vv_batch_stage *stages, int *count,
                                                  const vv_batch_size_schedule_opts *opts,
                                                  int64_t batch_size);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults:
   a quarter, from a third of the run on a half, from two thirds on the whole. */
VV_API VV_OWNED vv_method *vv_batch_size_schedule(const vv_batch_size_schedule_opts *opts);
extern VV_API const vv_method_desc vv_method_batch_size_schedule;

VV_END_DECLS

#endif
