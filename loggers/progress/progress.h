/* progress.h - a progress bar on a terminal, plain lines elsewhere. */
#ifndef VIVACE_LOGGERS_PROGRESS_H
#define VIVACE_LOGGERS_PROGRESS_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef enum vv_progress_stream { VV_PROGRESS_STDERR, VV_PROGRESS_STDOUT } vv_progress_stream;
typedef enum vv_progress_style {
    VV_PROGRESS_AUTO,
    VV_PROGRESS_BAR,
    VV_PROGRESS_LINES
} vv_progress_style;
typedef struct vv_progress_opts {
    int stream;      /* vv_progress_stream */
    int style;       /* vv_progress_style; auto = a bar if the stream is a terminal */
    double interval; /* seconds between lines */
    double usd_per_hour; /* the machine's price; 0 = the run's, if it is known */
} vv_progress_opts;
#define VV_PROGRESS_DEFAULTS {VV_PROGRESS_STDERR, VV_PROGRESS_AUTO, 10.0, 0.0}

/* "1:02:03" or "4:05" into buf; returns buf. Negative or NaN gives "?". */
VV_API const char *vv_progress_time(double seconds, char *buf, size_t buf_bytes);

extern VV_API const vv_logger_desc vv_logger_progress;

VV_END_DECLS

#endif
