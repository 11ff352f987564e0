/* json_progress.h - progress as JSON lines, for programs that watch a run. */
#ifndef VIVACE_LOGGERS_JSON_PROGRESS_H
#define VIVACE_LOGGERS_JSON_PROGRESS_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_json_progress_opts {
    int stream;      /* 0 = stdout, 1 = stderr */
    double interval; /* seconds between two "batch" lines; 0 = every batch */
} vv_json_progress_opts;
#define VV_JSON_PROGRESS_DEFAULTS {0, 0.0}

extern VV_API const vv_logger_desc vv_logger_json_progress;

VV_END_DECLS

#endif
