/* schedule.h - what the built-in schedules share. Internal to src/optim. */
#ifndef VVI_SCHEDULE_H
#define VVI_SCHEDULE_H

#include <vivace/optim.h>

/* What a schedule is asked: on which axis, at which scale of the schedule, where on the axis.
   "Batch" stands for what the axis counts: on an axis of seconds it is a second. */
typedef struct vvi_when {
    const vv_axis *axis;
    double ssr, batch;
} vvi_when;

/* A setting as a position on the axis. Shares of the duration are never multiplied by ssr (the
   duration already is); everything else is if `scaled`. As in the reference, epochs, batches and
   shares are cut to whole batches; less than one batch stays a fraction, so that a short trial of a
   long recipe resolves. Seconds are not cut. */
vv_status vvi_schedule_batches(double *out, const char *field, vv_time time, const vvi_when *when,
                               bool scaled);
/* "batches" or "seconds", for sentences. */
const char *vvi_axis_word(const vv_axis *axis);
/* The same, refusing zero. */
vv_status vvi_schedule_length(double *out, const char *field, vv_time time, const vvi_when *when,
                              bool scaled);

/* A row of a table of fields, for vv_schedule_settings. */
#define VVI_FIELD(member, kind, fallback, low, high, help)                                     \
    {                                                                                          \
#member, help, kind, offsetof(vv_schedule_settings, member), fallback, low, high, NULL \
    }
#define VVI_FIELD_END                                  \
    {                                                  \
        NULL, NULL, VV_FIELD_BOOL, 0, NULL, 0, 0, NULL \
    }
#define VVI_FIELD_T_MAX VVI_FIELD(t_max, VV_FIELD_TIME, "1dur", 0, 0, "when the schedule ends")
#define VVI_FIELD_ALPHA_F \
    VVI_FIELD(alpha_f, VV_FIELD_FLOAT, "0", 0, 1e6, "factor of the learning rate at the end")
#define VVI_FIELD_GAMMA VVI_FIELD(gamma, VV_FIELD_FLOAT, "0.1", 0, 1e6, "factor at each drop")
#define VVI_FIELD_WARMUP \
    VVI_FIELD(t_warmup, VV_FIELD_TIME, NULL, 0, 0, "length of the linear rise from 0")
#define VVI_FIELD_SCALE_WARMUP                            \
    VVI_FIELD(scale_warmup, VV_FIELD_BOOL, "false", 0, 0, \
              "let the scale-schedule ratio act on t_warmup too")

#define VVI_SCHEDULE(text, what, paper, rows, factor_fn, check_fn) \
    {                                                              \
        .desc = {.kind = "schedule",                               \
                 .name = text,                                     \
                 .summary = what,                                  \
                 .cite = paper,                                    \
                 .domains = "any",                                 \
                 .fields = rows,                                   \
                 .opts_size = sizeof(vv_schedule_settings)},       \
        .factor = factor_fn, .check = check_fn,                    \
    }

/* schedules_drop.c */
extern const vv_schedule_desc vvi_step, vvi_multistep, vvi_exponential, vvi_constant;
/* schedules_decay.c */
extern const vv_schedule_desc vvi_linear_decay, vvi_cosine_decay, vvi_cosine_warmrestart,
    vvi_polynomial;
/* schedules_warmup.c */
extern const vv_schedule_desc vvi_multistep_with_warmup, vvi_constant_with_warmup,
    vvi_linear_decay_with_warmup, vvi_cosine_decay_with_warmup, vvi_polynomial_with_warmup,
    vvi_one_cycle;

/* Factor after the milestones that `when` has passed. */
vv_status vvi_multistep_factor(const vv_schedule_settings *opts, const vvi_when *when, double *out);
vv_status vvi_multistep_check(const vv_schedule_settings *opts, const vvi_when *when);
/* Curves over the share tau of their time that has passed, in [0,1]. */
typedef double vvi_curve(const vv_schedule_settings *opts, double tau);
vvi_curve vvi_curve_line, vvi_curve_cosine, vvi_curve_power;
/* Half a cosine from 1 (tau 0) to `floor` (tau 1). */
double vvi_cosine(double tau, double floor);

#endif
