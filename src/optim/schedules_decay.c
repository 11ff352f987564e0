/* schedules_decay.c - schedules that fall along a curve: line, cosine, cosine with restarts, power.
 */
#include <math.h>
#include <stddef.h>

#include "optim/schedule.h"

#define PI 3.14159265358979323846

double vvi_cosine(double tau, double floor_factor)
{
    return floor_factor + (1.0 - floor_factor) * 0.5 * (1.0 + cos(PI * tau));
}

/* ---- curves over the share of time that has passed ---- */
double vvi_curve_line(const vv_schedule_settings *o, double tau)
{
    return o->alpha_i + tau * (o->alpha_f - o->alpha_i);
}

double vvi_curve_cosine(const vv_schedule_settings *o, double tau)
{
    return vvi_cosine(tau, o->alpha_f);
}

double vvi_curve_power(const vv_schedule_settings *o, double tau)
{
    return o->alpha_f + (1.0 - o->alpha_f) * pow(1.0 - tau, o->power);
}

/* Share of t_max that has passed, at most 1: after t_max a schedule stays where it ended. */
static vv_status passed(const vv_schedule_settings *o, const vvi_when *when, double *out)
{
    double end = 0.0;
    VV_TRY(vvi_schedule_length(&end, "t_max", o->t_max, when, true));
    *out = when->batch < end ? when->batch / end : 1.0;
    return VV_OK;
}

static vv_status end_check(const void *opts, const vv_axis *axis, double ssr)
{
    const vvi_when when = {axis, ssr, 0.0};
    double tau;
    return passed(opts, &when, &tau);
}

/* ---- linear ---- */
static vv_status linear_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                               double *out)
{
    const vv_schedule_settings *o = opts;
    const vvi_when when = {axis, ssr, batch};
    double tau = 0.0;
    VV_TRY(passed(o, &when, &tau));
    *out = vvi_curve_line(o, tau);
    return VV_OK;
}

static const vv_field linear_fields[] = {
    VVI_FIELD(alpha_i, VV_FIELD_FLOAT, "1", 0, 1e6, "factor of the learning rate at the start"),
    VVI_FIELD_ALPHA_F,
    VVI_FIELD_T_MAX,
    VVI_FIELD_END,
};
const vv_schedule_desc vvi_linear_decay =
    VVI_SCHEDULE("linear_decay", "A straight line from alpha_i to alpha_f.", "", linear_fields,
                 linear_factor, end_check);

/* ---- cosine ---- */
static vv_status cosine_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                               double *out)
{
    const vv_schedule_settings *o = opts;
    const vvi_when when = {axis, ssr, batch};
    double tau = 0.0;
    VV_TRY(passed(o, &when, &tau));
    *out = vvi_curve_cosine(o, tau);
    return VV_OK;
}

static const vv_field cosine_fields[] = {VVI_FIELD_T_MAX, VVI_FIELD_ALPHA_F, VVI_FIELD_END};
const vv_schedule_desc vvi_cosine_decay =
    VVI_SCHEDULE("cosine_decay", "Half a cosine from 1 to alpha_f.",
                 "Loshchilov & Hutter, arXiv 1608.03983", cosine_fields, cosine_factor, end_check);

/* ---- cosine with warm restarts: intervals of t_0, int(t_0 m), int(int(t_0 m) m), ... batches ----
 */
static vv_status restart_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                                double *out)
{
    const vv_schedule_settings *o = opts;
    const vvi_when when = {axis, ssr, batch};
    double length = 0.0, rest = batch;
    VV_TRY(vvi_schedule_length(&length, "t_0", o->t_0, &when, true));
    while (rest >= length) {
        double next = floor(length * o->t_mult + 1e-9);
        if (next < 1.0 && o->t_mult < 1.0)
            return vv_fail(VV_EINVAL,
                           "an interval of %g batches times t_mult %g leaves none, so the schedule "
                           "stops at batch %g; raise t_mult or t_0",
                           length, o->t_mult, batch - rest + length);
        if (next <= length && o->t_mult >= 1.0) { /* the length stays from here on */
            rest = fmod(rest, length);
            break;
        }
        rest -= length;
        length = next;
    }
    *out = vvi_cosine(rest / length, o->alpha_f);
    return VV_OK;
}

static vv_status restart_check(const void *opts, const vv_axis *axis, double ssr)
{
    double factor, last = fmax(0.0, vv_axis_length(axis) - 1.0);
    return restart_factor(opts, axis, ssr, last, &factor);
}

static const vv_field restart_fields[] = {
    VVI_FIELD(t_0, VV_FIELD_TIME, NULL, 0, 0, "length of the first interval"),
    VVI_FIELD(t_mult, VV_FIELD_FLOAT, "1", 0, 1e6, "each interval is this many times the last"),
    VVI_FIELD_ALPHA_F,
    VVI_FIELD_END,
};
const vv_schedule_desc vvi_cosine_warmrestart = VVI_SCHEDULE(
    "cosine_warmrestart", "A cosine that starts again after each interval.",
    "Loshchilov & Hutter, arXiv 1608.03983", restart_fields, restart_factor, restart_check);

/* ---- polynomial ---- */
static vv_status polynomial_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                                   double *out)
{
    const vv_schedule_settings *o = opts;
    const vvi_when when = {axis, ssr, batch};
    double tau = 0.0;
    VV_TRY(passed(o, &when, &tau));
    *out = vvi_curve_power(o, tau);
    return VV_OK;
}

static const vv_field polynomial_fields[] = {
    VVI_FIELD(power, VV_FIELD_FLOAT, NULL, 0, 1e3, "exponent of the remaining share of time"),
    VVI_FIELD_T_MAX,
    VVI_FIELD_ALPHA_F,
    VVI_FIELD_END,
};
const vv_schedule_desc vvi_polynomial =
    VVI_SCHEDULE("polynomial", "Falls from 1 to alpha_f as a power of the time that is left.", "",
                 polynomial_fields, polynomial_factor, end_check);
