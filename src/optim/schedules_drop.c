/* schedules_drop.c - schedules without an end: constant, and drops at regular or given times. */
#include <math.h>
#include <stddef.h>

#include "optim/schedule.h"

/* ---- step: gamma^floor(t / S) ---- */
static vv_status step_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                             double *out)
{
    const vv_schedule_settings *o = opts;
    const vvi_when when = {axis, ssr, batch};
    double size = 0.0;
    VV_TRY(vvi_schedule_length(&size, "step_size", o->step_size, &when, true));
    *out = pow(o->gamma, floor(batch / size));
    return VV_OK;
}

static vv_status step_check(const void *opts, const vv_axis *axis, double ssr)
{
    double factor;
    return step_factor(opts, axis, ssr, 0.0, &factor);
}

static const vv_field step_fields[] = {
    VVI_FIELD(step_size, VV_FIELD_TIME, NULL, 0, 0, "time between two drops"),
    VVI_FIELD_GAMMA,
    VVI_FIELD_END,
};
const vv_schedule_desc vvi_step = VVI_SCHEDULE("step", "Drops by gamma at regular times.", "",
                                               step_fields, step_factor, step_check);

/* ---- multistep: gamma^(milestones passed) ---- */
vv_status vvi_multistep_factor(const vv_schedule_settings *opts, const vvi_when *when, double *out)
{
    int passed = 0;
    for (int i = 0; i < opts->milestones.count; i++) {
        double at = 0.0;
        VV_TRY(vvi_schedule_batches(&at, "milestones", opts->milestones.items[i], when, true));
        passed += at <= when->batch;
    }
    *out = pow(opts->gamma, passed);
    return VV_OK;
}

vv_status vvi_multistep_check(const vv_schedule_settings *opts, const vvi_when *when)
{
    double factor;
    if (opts->milestones.count == 0)
        return vv_fail(VV_EINVAL, "milestones: none given; give a list such as [80ep, 120ep]");
    return vvi_multistep_factor(opts, when, &factor);
}

static vv_status multistep_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                                  double *out)
{
    const vvi_when when = {axis, ssr, batch};
    return vvi_multistep_factor(opts, &when, out);
}

static vv_status multistep_check(const void *opts, const vv_axis *axis, double ssr)
{
    const vvi_when when = {axis, ssr, 0.0};
    return vvi_multistep_check(opts, &when);
}

static const vv_field multistep_fields[] = {
    VVI_FIELD(milestones, VV_FIELD_TIMES, NULL, 0, 0, "times of the drops"),
    VVI_FIELD_GAMMA,
    VVI_FIELD_END,
};
const vv_schedule_desc vvi_multistep =
    VVI_SCHEDULE("multistep", "Drops by gamma at each milestone.", "", multistep_fields,
                 multistep_factor, multistep_check);

/* ---- exponential: gamma^(t / P), the exponent real ---- */
static vv_status exponential_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                                    double *out)
{
    const vv_schedule_settings *o = opts;
    const vvi_when when = {axis, ssr, batch};
    double period = 0.0;
    VV_TRY(vvi_schedule_length(&period, "decay_period", o->decay_period, &when, true));
    *out = pow(o->gamma, batch / period);
    return VV_OK;
}

static vv_status exponential_check(const void *opts, const vv_axis *axis, double ssr)
{
    double factor;
    return exponential_factor(opts, axis, ssr, 0.0, &factor);
}

static const vv_field exponential_fields[] = {
    VVI_FIELD(gamma, VV_FIELD_FLOAT, NULL, 0, 1e6, "factor over one decay_period"),
    VVI_FIELD(decay_period, VV_FIELD_TIME, "1ep", 0, 0, "time in which the rate falls by gamma"),
    VVI_FIELD_END,
};
const vv_schedule_desc vvi_exponential =
    VVI_SCHEDULE("exponential", "Decays smoothly by gamma per period.", "", exponential_fields,
                 exponential_factor, exponential_check);

/* ---- constant ---- */
static vv_status constant_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                                 double *out)
{
    (void)axis, (void)ssr, (void)batch;
    *out = ((const vv_schedule_settings *)opts)->alpha;
    return VV_OK;
}

static vv_status constant_check(const void *opts, const vv_axis *axis, double ssr)
{
    const vv_schedule_settings *o = opts;
    const vvi_when when = {axis, ssr, 0.0};
    double end;
    return vvi_schedule_batches(&end, "t_max", o->t_max, &when, true);
}

static const vv_field constant_fields[] = {
    VVI_FIELD(alpha, VV_FIELD_FLOAT, "1", 0, 1e6, "factor of the learning rate"),
    VVI_FIELD(t_max, VV_FIELD_TIME, "1dur", 0, 0,
              "accepted for recipes from elsewhere; the factor stays alpha after it too"),
    VVI_FIELD_END,
};
const vv_schedule_desc vvi_constant = VVI_SCHEDULE(
    "constant", "One factor throughout.", "", constant_fields, constant_factor, constant_check);
