/* sweep_impl.h - a sweep: factors, configurations, trials. */
#ifndef VVI_SWEEP_IMPL_H
#define VVI_SWEEP_IMPL_H

#include <stdatomic.h>

#include <vivace/sweep.h>

typedef enum vvi_strategy {
    VVI_SWEEP_GRID,      /* every combination */
    VVI_SWEEP_RANDOM,    /* `samples` of them */
    VVI_SWEEP_ONE,       /* the first of everything, then each change alone */
    VVI_SWEEP_FACTORIAL, /* two levels of everything: first and last */
    VVI_SWEEP_HALVING,   /* many short, the better ones longer */
    VVI_SWEEP_BANDIT,    /* each next one near what was good so far */
} vvi_strategy;

/* Something that takes one of several values; a value is a list of overrides. */
typedef struct vvi_factor {
    char *name;
    char ***options; /* [count] NULL-ended lists */
    int count;
} vvi_factor;

/* A choice of each factor, run once per seed. */
typedef struct vvi_config {
    int *choice;
    int rung;  /* of halving */
    int trial; /* the first; one per seed */
} vvi_config;

/* A point of the reckoned time of asynchronous halving: of things at one time the earlier begun
   comes first. */
typedef struct vvi_moment {
    double time;
    int slot; /* whose end it is; -1 = the start */
} vvi_moment;
typedef struct vvi_slot { /* a configuration in the order in which they begin */
    int config;
    double ends;
    bool promoted;
} vvi_slot;

typedef struct vvi_ranked {
    int item;
    double score; /* larger is better */
} vvi_ranked;

typedef struct vvi_trial {
    char *name;
    char **overrides; /* NULL-ended */
    int override_count;
    vv_trial_status status;
    double quality, train_seconds, usd;
} vvi_trial;

struct vv_sweep {
    char *name, *recipe, *metric, *launcher, *origin;
    vvi_strategy strategy;
    vvi_factor *factors;
    int factor_count;
    char **seeds; /* texts; none = the recipe's */
    int seed_count;
    char **fixed; /* overrides that all share */
    int fixed_count;
    int samples, jobs, threads;
    int64_t seed;
    double *ratios; /* of halving: parts of the full schedule, growing */
    int ratio_count;
    double keep;      /* of halving: the part that goes on */
    int asynchronous; /* of halving: 1, 0, -1 = with several jobs */
    vvi_slot *slots;  /* of asynchronous halving */
    int slot_count, first_count, begun;
    vvi_moment *clocks; /* when each job is free again */
    int clock_count;
    double reach, budget;    /* of bandit: a quality to reach cheaply; a cost to stay below; NaN */
    bool budget_usd, higher; /* the metric's direction */
    vvi_config *configs;
    int config_count;
    vvi_trial *trials;
    int trial_count;
    atomic_int interrupted;
};

/* Adds a copy of a text to a NULL-ended list. */
vv_status vvi_append_text(char ***list, int *count, const char *text);
/* Adds a configuration with its trials. */
vv_status vvi_sweep_add(vv_sweep *s, const int *choice, int rung);
bool vvi_sweep_has(const vv_sweep *s, const int *choice, int rung);
/* Those that are known from the start. */
vv_status vvi_sweep_first(vv_sweep *s);
/* Those that follow from what is done; adds none while that is still open or all are there. */
vv_status vvi_sweep_next(vv_sweep *s, int jobs);
int vvi_sweep_config_total(const vv_sweep *s);
/* The n-th training in the order in which they begin; -1 = there is none. */
int vvi_sweep_in_order(const vv_sweep *s, int n);
/* Of halving: how many of so many go on; how many a rung has if none fails. */
int vvi_halving_kept(const vv_sweep *s, int count);
int vvi_halving_size(const vv_sweep *s, int rung);
vv_status vvi_halving_next(vv_sweep *s, int jobs);
/* Best first, of equals the lower item. */
void vvi_rank(vvi_ranked *list, int count);
double vvi_combinations(const vv_sweep *s);
/* Mean over seeds; NaN while a trial is open or if all failed. */
double vvi_config_quality(const vv_sweep *s, int config);
double vvi_config_cost(const vv_sweep *s, int config);
bool vvi_config_open(const vv_sweep *s, int config);
/* Reads what a trial's folder says; leaves RUNNING ones alone. */
vv_status vvi_trial_read(vv_sweep *s, int i, const char *dir);

/* A process. */
typedef struct vvi_job {
    int pid, trial;
} vvi_job;
/* Opens the file of a training's output, which is locked for as long as the training lives: what a
   killed sweep left behind is waited for. */
vv_status vvi_job_claim(int *output, const vv_sweep *s, int trial, const vv_sweep_run_opts *opts);
/* Closes `output`. */
vv_status vvi_job_start(vvi_job *job, const vv_sweep *s, int trial, const vv_sweep_run_opts *opts,
                        int jobs, int output);
/* Whether it has ended. */
bool vvi_job_ended(const vvi_job *job);
void vvi_job_signal(const vvi_job *job);

#endif
