/* mlperf_log.h - lines of an MLPerf log, and the folders they lie in. */
#ifndef VIVACE_CALLBACKS_MLPERF_LOG_H
#define VIVACE_CALLBACKS_MLPERF_LOG_H

#include <vivace/ext/train.h>

typedef struct mlperf_log {
    vv_str path; /* of the result file */
} mlperf_log;

/* Makes dir/systems and dir/results/<system>/<benchmark>, and the result file's path. */
VV_MUST_USE vv_status mlperf_log_open(mlperf_log *log, const char *dir, const char *system,
                                      const char *benchmark, int64_t index, bool resumed);
/* dir/systems/<system>.json, if it is not there. */
VV_MUST_USE vv_status mlperf_log_system(const char *dir, const char *system, const char *submitter,
                                        const char *division, const char *status, int threads);
/* Appends one line; `type` is POINT_IN_TIME, INTERVAL_START or INTERVAL_END; value and metadata are
   JSON. */
VV_MUST_USE vv_status mlperf_log_line(const mlperf_log *log, const char *type, const char *key,
                                      const char *value, const char *metadata);
void mlperf_log_fini(mlperf_log *log);

#endif
