/* run_db_writer.h - the thread that writes to the store: whoever trains never waits for a disk. */
#ifndef RUN_DB_WRITER_H
#define RUN_DB_WRITER_H

#include <vivace/run_store.h>

typedef struct vvi_run_writer vvi_run_writer;

/* What a run is, fixed from its start. Texts are copied. */
typedef struct vvi_run_start {
    const char *db;
    double interval; /* seconds */
    vv_run_row row;
    vv_run_method *methods;
    int method_count;
    vv_run_setting *settings;
    int setting_count;
    int64_t batch; /* where it goes on from: what the store has behind it is forgotten */
} vvi_run_start;
VV_MUST_USE vv_status vvi_run_writer_start(vvi_run_writer **out, const vvi_run_start *start);

/* These only hand over: numbers of the row (texts but `status` stay as they were), an evaluation, a
   point. Names must be from vvi_run_writer_name or static. */
void vvi_run_writer_row(vvi_run_writer *w, const vv_run_row *row);
VV_MUST_USE vv_status vvi_run_writer_eval(vvi_run_writer *w, const vv_run_eval *eval);
VV_MUST_USE vv_status vvi_run_writer_point(vvi_run_writer *w, const vv_run_point *point);
/* The same text, kept as long as the writer. */
VV_MUST_USE vv_status vvi_run_writer_name(vvi_run_writer *w, const char *text, const char **out);
/* Once, if the store could not be written: the sentence; the writer has given up then. */
bool vvi_run_writer_trouble(vvi_run_writer *w, vv_str *out);
/* Writes what is left and ends the thread. */
void vvi_run_writer_stop(vvi_run_writer *w);

#endif
