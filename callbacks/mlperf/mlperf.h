/* mlperf.h - writes the result files of an MLPerf submission. */
#ifndef VIVACE_CALLBACKS_MLPERF_H
#define VIVACE_CALLBACKS_MLPERF_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_mlperf_opts {
    const char *dir;     /* "" = mlperf in the run's folder */
    int64_t index;       /* number of the result file */
    int benchmark;       /* 0 resnet, 1 bert */
    double target;       /* the run has succeeded when the metric is better */
    int division;        /* 0 open, 1 closed */
    const char *monitor; /* metric */
    const char *label;   /* evaluator */
    const char *submitter, *system_name;
    int status;          /* 0 onprem, 1 cloud, 2 preview */
    bool exit_at_target;
} vv_mlperf_opts;
#define VV_MLPERF_DEFAULTS                                                                         \
    {"", 0, 0, 0.759, 0, "accuracy", "eval", "vivace", "", 0, false}

extern VV_API const vv_callback_desc vv_callback_mlperf;

VV_END_DECLS

#endif
