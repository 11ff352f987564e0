/* store.h - the run store's inside: statements, columns. The only user of SQLite. */
#ifndef VVI_STORE_H
#define VVI_STORE_H

#include <vivace/run_store.h>

enum { VVI_STORE_VERSION = 1 };

typedef struct vvi_column {
    const char *name;
    char kind; /* 't', 'i', 'r', 'b' */
    size_t offset;
} vvi_column;
extern const vvi_column vvi_run_columns[];
extern const int vvi_run_column_count;
static inline const void *vvi_column_of(const vv_run_row *row, int i)
{
    return (const char *)row + vvi_run_columns[i].offset;
}

/* A statement with its values, for one use: "t" text (NULL = ""), "i" int64_t, "r" double (NaN =
   NULL), "b" int. */
typedef struct vvi_sql vvi_sql;
VV_MUST_USE vv_status vvi_sql_prepare(vvi_sql **out, vv_run_store *store, const char *sql,
                                      const char *kinds, ...);
/* *row = whether there is one more. */
VV_MUST_USE vv_status vvi_sql_step(vvi_sql *s, bool *row);
const char *vvi_sql_text(vvi_sql *s, int column);
int64_t vvi_sql_int(vvi_sql *s, int column);
double vvi_sql_real(vvi_sql *s, int column); /* NaN for NULL */
void vvi_sql_finish(vvi_sql *s);
/* Runs a statement that gives no rows; `changed` may be NULL. */
VV_MUST_USE vv_status vvi_sql_exec(vv_run_store *store, int *changed, const char *sql,
                                   const char *kinds, ...);
/* Every run in order of id, or those heard of since then (NaN = all); recipe and command are "". */
VV_MUST_USE vv_status vvi_runs_light(vv_run_store *store, double seen_from, vv_run_fn fn,
                                     void *ctx);
bool vvi_process_alive(const char *host, int64_t pid); /* as far as it can be known */
/* Pieces of JSON: a number (null if it is none), "column":value with a comma before it unless i is
   0, and what belongs to a run. */
void vvi_json_real(vv_str *out, double value);
void vvi_json_column(vv_str *out, const vv_run_row *row, int i);
VV_MUST_USE vv_status vvi_json_methods(vv_run_store *store, const char *id, vv_str *out);
VV_MUST_USE vv_status vvi_json_settings(vv_run_store *store, const char *id, vv_str *out);
VV_MUST_USE vv_status vvi_json_evals(vv_run_store *store, const char *id, vv_str *out);
VV_MUST_USE vv_status vvi_json_points(vv_run_store *store, const char *id, vv_str *out);
/* A table's rows, taken in. *count grows. */
VV_MUST_USE vv_status vvi_import_csv(vv_run_store *store, const char *path, const char *text,
                                     size_t length, int *count);

#endif
