/* mlflow.h - logged numbers, the recipe and the run's state sent to an MLflow tracking server. */
#ifndef VIVACE_LOGGERS_MLFLOW_H
#define VIVACE_LOGGERS_MLFLOW_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_mlflow_opts {
    const char *tracking_uri; /* "" = $MLFLOW_TRACKING_URI, else http://127.0.0.1:5000 */
    const char *experiment;   /* "" = $MLFLOW_EXPERIMENT_NAME, else Default */
    const char *run_name;     /* "" = the run's own */
    const char *tags;         /* "key=value,key=value" */
    double buffer_seconds;    /* between two requests */
    double leave_seconds;     /* at the end, for what is left to send */
} vv_mlflow_opts;
#define VV_MLFLOW_DEFAULTS {"", "", "", "", 10.0, 10.0}

extern VV_API const vv_logger_desc vv_logger_mlflow;

VV_END_DECLS

#endif
