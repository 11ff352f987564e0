/* in_memory.h - every logged number kept in memory, with the clock, for programs that read them. */
#ifndef VIVACE_LOGGERS_IN_MEMORY_H
#define VIVACE_LOGGERS_IN_MEMORY_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_in_memory_opts {
    int64_t limit; /* newest values kept per name; 0 = all */
} vv_in_memory_opts;
#define VV_IN_MEMORY_DEFAULTS {0}

/* All values of one name, oldest first; times[i] is the clock when values[i] was logged. */
typedef struct vv_in_memory_series {
    const char *name;
    const double *values;
    const vv_timestamp *times;
    int64_t count;
} vv_in_memory_series;

/* What was logged so far. The logger must be of this type; what is handed out is valid until the
   next number is logged or the trainer that owns the logger is freed. */
VV_API int vv_in_memory_count(const vv_logger *logger); /* names */
/* Series number i, in the order in which the names first came; all zero if there is none. */
VV_API VV_BORROWED vv_in_memory_series vv_in_memory_at(const vv_logger *logger, int i);
/* VV_ENOTFOUND, with the nearest name, if nothing was logged under it. */
VV_API VV_MUST_USE vv_status vv_in_memory_find(VV_BORROWED vv_in_memory_series *out,
                                               const vv_logger *logger, const char *name);
/* The newest value of a name; when may be NULL. */
VV_API VV_MUST_USE vv_status vv_in_memory_last(double *out, vv_timestamp *when,
                                               const vv_logger *logger, const char *name);
/* Messages so far, and one of them. */
VV_API int vv_in_memory_message_count(const vv_logger *logger);
VV_API VV_BORROWED const char *vv_in_memory_message(const vv_logger *logger, int i);

extern VV_API const vv_logger_desc vv_logger_in_memory;

VV_END_DECLS

#endif
