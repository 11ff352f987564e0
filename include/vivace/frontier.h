/* frontier.h - which runs are worth their time or cost: the frontier, a curve through it, the same
 * quality for less; and every run in memory, as small as such questions need it. */
#ifndef VIVACE_FRONTIER_H
#define VIVACE_FRONTIER_H

#include <vivace/run_store.h>

VV_BEGIN_DECLS

/* ---- dots ---- */

/* A run in a plot. x: seconds or dollars, less is better. One whose x or quality is not finite, or
   whose x is negative, is no dot: it never enters a frontier and changes nobody's place. */
typedef struct vv_dot {
    double x, quality;
    bool frontier;
} vv_dot;

/* Marks the dots that no other dot beats: another beats one if neither its x nor its quality is
   worse and one of them is better. So exact ties survive together. */
VV_API VV_MUST_USE vv_status vv_frontier_mark(vv_dot *dots, int count, bool higher_is_better);
/* Least squares of quality = a + b ln(x) over the marked dots with x > 0. False (and NaN) if they
   have fewer than two different x. */
VV_API bool vv_frontier_fit(const vv_dot *dots, int count, double *a, double *b);
/* The x at which the marked dots reach a quality, by interpolation in ln(x) between neighbours. The
   x of the first dot if that one is better already; NaN if none reaches it. */
VV_API double vv_frontier_x_at(const vv_dot *dots, int count, bool higher_is_better,
                               double quality);
/* The marked dot of best quality with x <= most, -1 if there is none. */
VV_API int vv_frontier_best_within(const vv_dot *dots, int count, bool higher_is_better,
                                   double most);

/* Mean and its 95% interval by Student's t. low and high are NaN for fewer than two values; values
   that are not finite are left out. */
typedef struct vv_interval {
    int count;
    double mean, low, high;
} vv_interval;
VV_API vv_interval vv_interval_of(const double *values, int count);

/* ---- runs ---- */

typedef struct vv_run_metric {
    const char *name;   /* "eval/accuracy": label and metric */
    double final, best; /* NaN = no finite value */
    bool higher_is_better;
} vv_run_metric;

typedef struct vv_run_light {
    vv_run_row row; /* recipe and command are "" */
    char **methods; /* names, in their order */
    char **tags;
    vv_run_metric *metrics; /* by name */
    int method_count, tag_count, metric_count;
    /* The same for runs that differ in nothing but seed, name and what concerns the machine. */
    uint64_t group;
    /* The same for runs that differ in their methods, their length, and what `group` leaves out. */
    uint64_t base;
    uint64_t revision; /* the table's, when this run last changed */
} vv_run_light;

/* Every run of a store. What it gives is valid until the next refresh. The store must stay open. */
typedef struct vv_run_table vv_run_table;
VV_API VV_MUST_USE vv_status vv_run_table_read(VV_OWNED vv_run_table **out, vv_run_store *store);
VV_API void vv_run_table_free(VV_TAKES vv_run_table *table);
/* Takes in what was written since, reading little where little changed: rows that were heard of
   lately at once, others within ten seconds. all: reads every row again, for instance after writing
   through the same store. */
VV_API VV_MUST_USE vv_status vv_run_table_refresh(vv_run_table *table, bool all);
VV_API int vv_run_table_count(const vv_run_table *table);
/* Run i in order of start. */
VV_API VV_BORROWED const vv_run_light *vv_run_table_at(const vv_run_table *table, int i);
VV_API VV_BORROWED const vv_run_light *vv_run_table_find(const vv_run_table *table, const char *id);
/* Grows with each change. A run that went leaves its id for a while: id i of those that went, and
   the revision at which it did; NULL beyond the last. */
VV_API uint64_t vv_run_table_revision(const vv_run_table *table);
VV_API VV_BORROWED const char *vv_run_table_gone(const vv_run_table *table, int i,
                                                 uint64_t *revision);
/* NULL if the run has no such metric. */
VV_API VV_BORROWED const vv_run_metric *vv_run_light_metric(const vv_run_light *run,
                                                            const char *name);

VV_END_DECLS

#endif
