/* runs.h - what finished and running trainings have written, read back. */
#ifndef VIVACE_RUNS_H
#define VIVACE_RUNS_H

#include <vivace/status.h>

VV_BEGIN_DECLS

/* One evaluation of a run. */
typedef struct vv_curve_point {
    int64_t epoch, batch, sample; /* finished when it was made */
    double train_seconds;         /* training time until then; evaluation not counted */
    double value;
} vv_curve_point;
typedef struct vv_curve {
    vv_curve_point *points; /* in order of time */
    int count;
} vv_curve;

/* *out = every value of a metric ("accuracy") of an evaluator ("eval") in run_dir/log.jsonl.
   VV_ENOTFOUND if there is none; a line cut short by a kill is left out. Released with
   vv_curve_fini. */
VV_API VV_MUST_USE vv_status vv_curve_read(vv_curve *out, const char *run_dir, const char *label,
                                           const char *metric);
VV_API void vv_curve_fini(vv_curve *curve);
/* First point that is at least as good as `target`; NULL if none is. */
VV_API VV_BORROWED const vv_curve_point *vv_curve_reach(const vv_curve *curve, double target,
                                                        bool higher_is_better);
/* Point with the best value; NULL if the curve is empty. */
VV_API VV_BORROWED const vv_curve_point *vv_curve_best(const vv_curve *curve,
                                                       bool higher_is_better);

VV_END_DECLS

#endif
