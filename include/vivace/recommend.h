/* recommend.h - which configuration to train, from runs that were made: the cheapest and the
 * fastest that reach a quality, the best within a budget, and what each method does. */
#ifndef VIVACE_RECOMMEND_H
#define VIVACE_RECOMMEND_H

#include <vivace/frontier.h>

VV_BEGIN_DECLS

/* Only runs that ended well, and have a time and the metric, count. */
typedef struct vv_recommend_opts {
    const char *dataset, *model; /* NULL = any */
    const char *metric;          /* "eval/accuracy" */
    double quality;              /* at least; NaN = not asked */
    double usd, seconds;         /* at most, on average; NaN = not asked */
} vv_recommend_opts;
#define VV_RECOMMEND_DEFAULTS                                                   \
    {                                                                           \
        NULL, NULL, "eval/accuracy", (double)NAN, (double)NAN, (double)NAN \
    }

/* A configuration: runs that differ in seed, name and machine only, and their means. */
typedef struct vv_choice {
    const vv_run_light *run; /* one of them; NULL = none does what was asked */
    vv_interval quality, seconds, usd;
} vv_choice;

/* What a method does, over pairs that differ in it alone: every other setting, the hardware and the
   other methods are the same. */
typedef struct vv_method_effect {
    const char *name;
    int pairs; /* of configurations of the same length */
    double quality_difference; /* with minus without, mean over the pairs */
    int timed; /* runs on either side whose quality the other side reaches too */
    double time_ratio; /* time with over time without at the same quality, geometric mean */
} vv_method_effect;

/* What two methods do together beyond what each does alone: quality with both, less that with each,
   plus that with neither, mean over the places where all four were tried. */
typedef struct vv_method_pair {
    const char *a, *b;
    int places;
    double interaction;
} vv_method_pair;

typedef struct vv_recommendation {
    vv_choice cheapest, fastest, best;
    bool higher_is_better;
    int run_count, configuration_count; /* that were looked at */
    vv_method_effect *effects;          /* by name */
    int effect_count;
    vv_method_pair *pairs; /* those with a place, by names */
    int pair_count;
} vv_recommendation;
/* What it points to is valid until the table changes. Released with vv_recommendation_fini, after a
   failure too. */
VV_API VV_MUST_USE vv_status vv_recommend(vv_recommendation *out, const vv_run_table *table,
                                          const vv_recommend_opts *opts);
VV_API void vv_recommendation_fini(vv_recommendation *recommendation);
/* Seconds and dollars in which runs like this one (the same but for length and seed) reach a
   quality; NaN if none of them does. */
VV_API VV_MUST_USE vv_status vv_recommend_same_quality(const vv_run_table *table,
                                                       const vv_recommend_opts *opts,
                                                       const vv_run_light *like, double quality,
                                                       double *seconds, double *usd);

VV_END_DECLS

#endif
