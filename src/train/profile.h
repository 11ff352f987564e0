/* profile.h - the profiler's hooks: spans around what the Trainer does. Off, a hook is one test
 * of a pointer. */
#ifndef VVI_PROFILE_H
#define VVI_PROFILE_H

#include "trainer_impl.h"

/* What is done with a batch (spec: trainer.md 15). */
typedef enum vvi_profile_action {
    VVI_PROFILE_SKIP,
    VVI_PROFILE_WARMUP, /* hooks run, nothing is kept */
    VVI_PROFILE_ACTIVE,
    VVI_PROFILE_SAVE,   /* active, and the trace ends with it */
} vvi_profile_action;
/* The cyclic schedule, per epoch. `skip`: more batches to leave out first, of an epoch that was
   resumed in its middle. */
vvi_profile_action vvi_profile_at(const vv_profile_opts *opts, int64_t skip, int64_t batch_in_epoch,
                                  int64_t batches_per_epoch);

vv_status vvi_profiler_new(vvi_profiler **out, const vv_profile_opts *opts, vv_trainer *trainer);
void vvi_profiler_free(vvi_profiler *profiler);

/* Before each batch: what is done with it; writes a trace that is complete. What cannot be written
   is told, and the profiler switched off: it never ends a run. */
void vvi_profile_batch(vv_trainer *trainer);
/* At the end of a fit, however it ended: writes what there is. */
void vvi_profile_finish(vv_trainer *trainer);
bool vvi_profile_active(const vvi_profiler *profiler);

/* double began = vvi_profile_begin(t); ...; vvi_profile_end(t, began, "method", "mixup", "event");
   Category and names must live as long as the trainer; detail may be NULL. A span that is not ended
   (a failure in between) is not recorded. */
static inline double vvi_profile_begin(const vv_trainer *t)
{
    return t->profiler && vvi_profile_active(t->profiler) ? vv_clock() : -1.0;
}
void vvi_profile_span(vvi_profiler *profiler, double began, const char *category, const char *name,
                      const char *detail);
static inline void vvi_profile_end(const vv_trainer *t, double began, const char *category,
                                   const char *name, const char *detail)
{
    if (began >= 0.0 && t->profiler)
        vvi_profile_span(t->profiler, began, category, name, detail);
}
/* A point in time. */
void vvi_profile_instant(const vv_trainer *trainer, const char *category, const char *name);
/* Ends the span of a microbatch's run of the graph: with it those of its forward and backward
   instructions, and the memory counters. */
void vvi_profile_run(const vv_trainer *trainer, double began);

/* ---- profile_trace.c: a trace as a file ---- */
typedef struct vvi_span {
    char phase;            /* Chrome's: 'X' span, 'i' instant, 'C' memory counters */
    int64_t start_ns, ns;  /* since the fit began */
    const char *category, *name, *detail;
    const char *kernel;    /* of an op; NULL */
    int64_t node;          /* of an op: where its name begins in `names`; -1 = none */
    int64_t epoch, batch;  /* finished when it was recorded */
    int64_t bytes[4];      /* vvi_profile_memory_names */
} vvi_span;
extern const char *const vvi_profile_memory_names[4];
typedef struct vvi_trace {
    vvi_span *spans;
    int64_t count, capacity, dropped; /* dropped: no memory for them */
    vv_str names;
} vvi_trace;
/* Sorts the spans and writes Chrome's trace format. */
vv_status vvi_trace_write(vvi_trace *trace, const char *path, const char *run_name);

/* ---- profile_table.c: sums by kind, as text ---- */
typedef struct vvi_profile_row {
    const char *category, *name, *detail; /* an op: detail = its kernel */
    bool backward;
    int64_t calls, flops;
    double seconds;
} vvi_profile_row;
typedef struct vvi_profile_table {
    vvi_profile_row *rows;
    int count, capacity, next; /* next: the row that is likely to come */
    int64_t batches;
    int64_t most_bytes[4];     /* largest of each memory counter */
} vvi_profile_table;
/* Out of memory: the row is left out. */
void vvi_profile_count(vvi_profile_table *table, const char *category, const char *name,
                       const char *detail, bool backward, double seconds, int64_t flops);
void vvi_profile_text(vvi_profile_table *table, vv_str *out);

#endif
