/* jsonl.h - every logged number as a JSON object on a line of a file. */
#ifndef VIVACE_LOGGERS_JSONL_H
#define VIVACE_LOGGERS_JSONL_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_jsonl_opts {
    const char *path; /* "" = metrics.jsonl; a relative path lies in the run's folder */
} vv_jsonl_opts;

extern VV_API const vv_logger_desc vv_logger_jsonl;

VV_END_DECLS

#endif
