/* sweep.h - many trainings from one recipe: which, in which order, and what came out. A sweep is a
 * file; what is done stands in the folders of its runs, so that a sweep that was stopped, or
 * killed, goes on where it was. */
#ifndef VIVACE_SWEEP_H
#define VIVACE_SWEEP_H

#include <vivace/str.h>

VV_BEGIN_DECLS

typedef struct vv_sweep vv_sweep;

/* Reads a sweep (YAML, see src/sweep/README.md) and applies `key=value` overrides. Each training's
   recipe is read with its settings, so that mistakes are told before anything starts. */
VV_API VV_MUST_USE vv_status vv_sweep_load(VV_OWNED vv_sweep **out, const char *path,
                                           const char *const *overrides, int override_count);
VV_API void vv_sweep_free(VV_TAKES vv_sweep *sweep);
/* The sweep's name; its file's without ending, unless it says another. */
VV_API VV_BORROWED const char *vv_sweep_name(const vv_sweep *sweep);
/* Trainings known so far, and in all (the same, but for strategies that decide as they go;
   halving with several jobs may come to a few more). */
VV_API int vv_sweep_known(const vv_sweep *sweep);
VV_API int vv_sweep_total(const vv_sweep *sweep);

/* One training. */
typedef enum vv_trial_status {
    VV_TRIAL_WAITING,
    VV_TRIAL_RUNNING,
    VV_TRIAL_DONE,
    VV_TRIAL_FAILED
} vv_trial_status;
typedef struct vv_trial {
    int index;
    const char *name;             /* of its folder */
    const char *const *overrides; /* "optimizer.lr=0.1", ... */
    int override_count;
    vv_trial_status status;
    double quality, train_seconds, usd; /* NaN = not known */
} vv_trial;
/* Training i < vv_sweep_known; its status as of the last run or plan. */
VV_API vv_trial vv_sweep_trial(const vv_sweep *sweep, int i);

/* The plan before it starts: the trainings, with the seconds (and USD, with a price) that all of
   them will take, from the timed steps of a few. */
VV_API VV_MUST_USE vv_status vv_sweep_plan(vv_sweep *sweep, const char *dir, bool json,
                                           vv_str *out);

typedef struct vv_sweep_run_opts {
    const char *dir;     /* folders of the runs, table.csv, and the store runs.db */
    const char *program; /* path of `vivace` */
    int jobs;            /* trainings at once; 0 = as the sweep says */
    bool retry;          /* failed ones again */
    /* Called when a training starts or ends; may be NULL. */
    void (*report)(void *ctx, const vv_sweep *sweep, const vv_trial *trial);
    void *ctx;
} vv_sweep_run_opts;
/* Runs what is not done yet. VV_EINTERRUPTED after vv_sweep_interrupt: the trainings at work have
   saved and left. A training that fails does not end the sweep. */
VV_API VV_MUST_USE vv_status vv_sweep_run(vv_sweep *sweep, const vv_sweep_run_opts *opts);
VV_API void vv_sweep_interrupt(vv_sweep *sweep); /* async-signal-safe */
/* What came out, a line a training: name, status, settings, quality, seconds, USD. */
VV_API VV_MUST_USE vv_status vv_sweep_table(vv_sweep *sweep, const char *dir, bool json,
                                            vv_str *out);

VV_END_DECLS

#endif
