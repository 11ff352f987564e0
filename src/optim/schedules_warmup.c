/* schedules_warmup.c - a linear rise from 0, then one of the other curves.
 *
 * scale_warmup acts on the length of the rise everywhere it is used: for the rise itself, for the
 * moment it ends, and for what is left to the curve after it. */
#include <math.h>
#include <stddef.h>

#include "optim/schedule.h"

static vv_status warmup_length(const vv_schedule_settings *o, const vvi_when *when, double *out)
{
    return vvi_schedule_batches(out, "t_warmup", o->t_warmup, when, o->scale_warmup);
}

/* The rise goes to where the curve starts; the curve has the time between t_warmup and t_max. */
static vv_status rise_then(vvi_curve *curve, const vv_schedule_settings *o, vvi_when when,
                           double *out)
{
    double warmup = 0.0, end = 0.0, tau = 0.0;
    VV_TRY(warmup_length(o, &when, &warmup));
    VV_TRY(vvi_schedule_batches(&end, "t_max", o->t_max, &when, true));
    if (when.batch < warmup) {
        *out = curve(o, 0.0) * when.batch / warmup;
        return VV_OK;
    }
    if (end > warmup)
        tau = fmin(1.0, (when.batch - warmup) / (end - warmup));
    *out = curve(o, tau);
    return VV_OK;
}

/* A rise that goes on beyond the end of training never reaches the rate that was asked for. */
static vv_status check_warmup(const vv_schedule_settings *o, const vvi_when *when)
{
    double warmup = 0.0, length = vv_axis_length(when->axis);
    const char *word = vvi_axis_word(when->axis);
    VV_TRY(warmup_length(o, when, &warmup));
    if (warmup == 0.0)
        return vv_fail(VV_EINVAL, "t_warmup is 0 %s long; give a length above 0 or take the "
                                  "schedule without warm-up", word);
    if (length >= 0.0 && warmup > length)
        return vv_fail(VV_EINVAL,
                       "t_warmup is %g %s, but the whole run has only %g; shorten t_warmup or give "
                       "it in dur, train longer, or leave the schedule out (schedules=off)",
                       warmup, word, length);
    return VV_OK;
}

/* A curve that ended before training does is a mistake in one of the two. */
static vv_status check_end(const void *opts, const vv_axis *axis, double ssr)
{
    const vv_schedule_settings *o = opts;
    const vvi_when when = {axis, ssr, 0.0};
    double end = 0.0, length = vv_axis_length(axis);
    VV_TRY(check_warmup(o, &when));
    VV_TRY(vvi_schedule_batches(&end, "t_max", o->t_max, &when, true));
    if (ceil(end) < length)
        return vv_fail(VV_EINVAL,
                       "t_max is %g %s, but training takes %g; give t_max 1dur or at least the "
                       "duration",
                       end, vvi_axis_word(axis), length);
    return VV_OK;
}

/* ---- the curves ---- */
static double flat(const vv_schedule_settings *o, double tau)
{
    (void)tau;
    return o->alpha;
}

static vv_status constant_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                                 double *out)
{
    return rise_then(flat, opts, (vvi_when){axis, ssr, batch}, out);
}

static vv_status linear_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                               double *out)
{
    return rise_then(vvi_curve_line, opts, (vvi_when){axis, ssr, batch}, out);
}

static vv_status cosine_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                               double *out)
{
    return rise_then(vvi_curve_cosine, opts, (vvi_when){axis, ssr, batch}, out);
}

static vv_status polynomial_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                                   double *out)
{
    return rise_then(vvi_curve_power, opts, (vvi_when){axis, ssr, batch}, out);
}

static vv_status multistep_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                                  double *out)
{
    const vv_schedule_settings *o = opts;
    const vvi_when when = {axis, ssr, batch};
    double warmup = 0.0;
    VV_TRY(warmup_length(o, &when, &warmup));
    VV_TRY(vvi_multistep_factor(o, &when, out));
    if (batch < warmup)
        *out = batch / warmup;
    return VV_OK;
}

static vv_status multistep_check(const void *opts, const vv_axis *axis, double ssr)
{
    const vvi_when when = {axis, ssr, 0.0};
    VV_TRY(check_warmup(opts, &when));
    return vvi_multistep_check(opts, &when);
}

/* ---- one cycle: up to the peak, then down, both straight; scaled as a whole ---- */
static vv_status cycle_factor(const void *opts, const vv_axis *axis, double ssr, double batch,
                              double *out)
{
    const vv_schedule_settings *o = opts;
    const vvi_when when = {axis, ssr, batch};
    double peak = 0.0, end = 0.0;
    VV_TRY(vvi_schedule_batches(&peak, "t_peak", o->t_peak, &when, true));
    VV_TRY(vvi_schedule_batches(&end, "t_max", o->t_max, &when, true));
    if (batch < peak)
        *out = o->alpha_i + (1.0 - o->alpha_i) * batch / peak;
    else if (batch < end)
        *out = 1.0 + (o->alpha_f - 1.0) * (batch - peak) / (end - peak);
    else
        *out = end > peak ? o->alpha_f : 1.0;
    return VV_OK;
}

static vv_status cycle_check(const void *opts, const vv_axis *axis, double ssr)
{
    const vv_schedule_settings *o = opts;
    const vvi_when when = {axis, ssr, 0.0};
    double factor, peak = 0.0, length = vv_axis_length(axis);
    VV_TRY(cycle_factor(opts, axis, ssr, 0.0, &factor));
    VV_TRY(vvi_schedule_batches(&peak, "t_peak", o->t_peak, &when, true));
    if (length >= 0.0 && peak > length)
        return vv_fail(
            VV_EINVAL,
            "t_peak is %g %s, but the whole run has only %g; give an earlier t_peak, for "
            "example in dur, or train longer",
            peak, vvi_axis_word(axis), length);
    return VV_OK;
}

/* ---- tables ---- */
#define ALPHA VVI_FIELD(alpha, VV_FIELD_FLOAT, "1", 0, 1e6, "factor after the rise")
#define PEAK_ALPHA VVI_FIELD(alpha_i, VV_FIELD_FLOAT, "1", 0, 1e6, "factor at the end of the rise")

static const vv_field multistep_fields[] = {
    VVI_FIELD_WARMUP, VVI_FIELD(milestones, VV_FIELD_TIMES, NULL, 0, 0, "times of the drops"),
    VVI_FIELD_GAMMA,  VVI_FIELD_SCALE_WARMUP,
    VVI_FIELD_END,
};
static const vv_field constant_fields[] = {
    VVI_FIELD_WARMUP, ALPHA, VVI_FIELD_T_MAX, VVI_FIELD_SCALE_WARMUP, VVI_FIELD_END,
};
static const vv_field linear_fields[] = {
    VVI_FIELD_WARMUP,       PEAK_ALPHA,    VVI_FIELD_ALPHA_F, VVI_FIELD_T_MAX,
    VVI_FIELD_SCALE_WARMUP, VVI_FIELD_END,
};
static const vv_field cosine_fields[] = {
    VVI_FIELD_WARMUP, VVI_FIELD_T_MAX, VVI_FIELD_ALPHA_F, VVI_FIELD_SCALE_WARMUP, VVI_FIELD_END,
};
static const vv_field polynomial_fields[] = {
    VVI_FIELD_WARMUP,
    VVI_FIELD(power, VV_FIELD_FLOAT, "2", 0, 1e3, "exponent of the remaining share of time"),
    VVI_FIELD_T_MAX,
    VVI_FIELD_ALPHA_F,
    VVI_FIELD_SCALE_WARMUP,
    VVI_FIELD_END,
};
static const vv_field cycle_fields[] = {
    VVI_FIELD(t_peak, VV_FIELD_TIME, NULL, 0, 0, "when the factor is 1"),
    VVI_FIELD_T_MAX,
    VVI_FIELD(alpha_i, VV_FIELD_FLOAT, "0", 0, 1e6, "factor of the learning rate at the start"),
    VVI_FIELD_ALPHA_F,
    VVI_FIELD_END,
};

const vv_schedule_desc vvi_multistep_with_warmup =
    VVI_SCHEDULE("multistep_with_warmup", "Rises from 0, then drops by gamma at each milestone.",
                 "", multistep_fields, multistep_factor, multistep_check);
const vv_schedule_desc vvi_constant_with_warmup =
    VVI_SCHEDULE("constant_with_warmup", "Rises from 0 to alpha and stays there.", "",
                 constant_fields, constant_factor, check_end);
const vv_schedule_desc vvi_linear_decay_with_warmup =
    VVI_SCHEDULE("linear_decay_with_warmup", "Rises from 0 to alpha_i, then a line to alpha_f.", "",
                 linear_fields, linear_factor, check_end);
const vv_schedule_desc vvi_cosine_decay_with_warmup =
    VVI_SCHEDULE("cosine_decay_with_warmup", "Rises from 0 to 1, then half a cosine to alpha_f.",
                 "Loshchilov & Hutter, arXiv 1608.03983", cosine_fields, cosine_factor, check_end);
const vv_schedule_desc vvi_polynomial_with_warmup = VVI_SCHEDULE(
    "polynomial_with_warmup", "Rises from 0 to 1, then falls as a power of the time that is left.",
    "", polynomial_fields, polynomial_factor, check_end);
const vv_schedule_desc vvi_one_cycle =
    VVI_SCHEDULE("one_cycle", "A line from alpha_i up to 1 at t_peak, then a line to alpha_f.",
                 "Smith & Topin, arXiv 1708.07120", cycle_fields, cycle_factor, cycle_check);
