/* csv.h - logged numbers as a table: one row per step, one column per name. */
#ifndef VIVACE_LOGGERS_CSV_H
#define VIVACE_LOGGERS_CSV_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_csv_opts {
    const char *path; /* "" = metrics.csv; a relative path lies in the run's folder */
} vv_csv_opts;

extern VV_API const vv_logger_desc vv_logger_csv;

VV_END_DECLS

#endif
