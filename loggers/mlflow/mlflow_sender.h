/* mlflow_sender.h - the thread that talks to the tracking server. Nothing here waits for it but
 * vvi_mlflow_stop, and that for leave_seconds and a little more at most. */
#ifndef VVI_MLFLOW_SENDER_H
#define VVI_MLFLOW_SENDER_H

#include <vivace/str.h>

typedef struct vvi_mlflow vvi_mlflow;
typedef struct vvi_mlflow_opts {
    const char *uri, *experiment, *run_name, *tags;
    const char *recipe;     /* YAML, sent as parameters; NULL = none */
    const char *state_path; /* remembers the run for a resume; NULL = nowhere */
    bool resumed;
    double interval, leave_seconds;
} vvi_mlflow_opts;

/* Copies the texts; starts the thread. */
VV_MUST_USE vv_status vvi_mlflow_start(VV_OWNED vvi_mlflow **out, const vvi_mlflow_opts *opts);
/* Queues a number; time_ms = milliseconds since 1970. */
VV_MUST_USE vv_status vvi_mlflow_add(vvi_mlflow *sender, const char *name, double value,
                                     int64_t step, int64_t time_ms);
/* Sends what is queued soon. */
void vvi_mlflow_flush(vvi_mlflow *sender);
/* Once, after the server was lost: true, and a sentence. */
bool vvi_mlflow_warning(vvi_mlflow *sender, vv_str *out);
/* Sends what is left, sets the run's status ("FINISHED"), frees. */
void vvi_mlflow_stop(VV_TAKES vvi_mlflow *sender, const char *status);

#endif
