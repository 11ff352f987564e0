/* run_db.h - a run's row in the run store (run_store.h), kept up to date while it trains. */
#ifndef VIVACE_LOGGERS_RUN_DB_H
#define VIVACE_LOGGERS_RUN_DB_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_run_db_opts {
    const char *db;       /* the store; "" = runs.db beside the run's folder */
    double every_seconds; /* between two writings */
    /* What only the recipe knows, as a JSON object: "settings" {"optimizer.lr": "0.4", ...},
       "scale_schedule_ratio", "max_duration", "price" {"kind", "region", "date", "source"}; "" =
       nothing. */
    const char *facts;
} vv_run_db_opts;
#define VV_RUN_DB_DEFAULTS \
    {                      \
        "", 1.0, ""        \
    }

extern VV_API const vv_logger_desc vv_logger_run_db;

VV_END_DECLS

#endif
