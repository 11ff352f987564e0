/* schedule.c - schedules as pure functions of time: driver, units, the table of built-in ones. */
#include "optim/schedule.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

struct vv_schedule {
    const vv_schedule_desc *type;
    void *opts;
};

/* ---- units ---- */
const char *vvi_axis_word(const vv_axis *axis)
{
    return axis->budget_seconds > 0.0 ? "seconds" : "batches";
}

vv_status vvi_schedule_batches(double *out, const char *field, vv_time time, const vvi_when *when,
                               bool scaled)
{
    double batches = 0.0;
    *out = 0.0;
    vv_status status = vv_time_to_axis(&batches, time, when->axis);
    if (status != VV_OK)
        return vv_fail_within(status, "%s", field);
    if (scaled && time.unit != VV_UNIT_DURATION)
        batches *= when->ssr;
    if (!isfinite(batches) || batches < 0.0)
        return vv_fail(VV_EINVAL, "%s: %g %s is no length of time; give 0 or more", field, batches,
                       vvi_axis_word(when->axis));
    /* 0.29 * 100 is 28.999999999999996: what rounding alone keeps from a whole number is whole. */
    double whole = round(batches);
    if (fabs(batches - whole) <= 1e-9 * (whole > 1.0 ? whole : 1.0))
        batches = whole;
    else if (batches > 1.0 && when->axis->budget_seconds <= 0.0 && time.unit != VV_UNIT_SAMPLE &&
             time.unit != VV_UNIT_TOKEN)
        batches = floor(batches);
    *out = batches;
    return VV_OK;
}

vv_status vvi_schedule_length(double *out, const char *field, vv_time time, const vvi_when *when,
                              bool scaled)
{
    VV_TRY(vvi_schedule_batches(out, field, time, when, scaled));
    if (*out == 0.0)
        return vv_fail(VV_EINVAL, "%s is 0 %s long; give a length above 0", field,
                       vvi_axis_word(when->axis));
    return VV_OK;
}

/* ---- driver ---- */
static vv_status check_required(const vv_desc *desc)
{
    for (const vv_field *field = desc->fields; field && field->name; field++)
        if (!field->fallback)
            return vv_fail(VV_EINVAL, "%s must be given: %s", field->name, field->help);
    return VV_OK;
}

vv_status vv_schedule_new(vv_schedule **out, const vv_schedule_desc *desc, const void *opts)
{
    vv_schedule *schedule = NULL;
    vv_status status = VV_OK;
    *out = NULL;
    if (!desc || !desc->factor)
        return vv_fail(VV_EINVAL, "schedule: no descriptor with a factor function given");
    if (!opts)
        VV_GO(check_required(&desc->desc));
    VV_GO(vv_alloc(&schedule, sizeof *schedule));
    VV_GO(vv_alloc(&schedule->opts, desc->desc.opts_size));
    VV_GO(opts ? vv_opts_copy(&desc->desc, schedule->opts, opts)
               : vv_opts_init(&desc->desc, schedule->opts));
    schedule->type = desc; /* from here on the options are released by their table */
    VV_GO(vv_opts_check(&desc->desc, schedule->opts));
    *out = schedule;
    schedule = NULL;
out:
    vv_schedule_free(schedule);
    return vv_fail_within(status, "schedule %s", desc->desc.name);
}

void vv_schedule_free(vv_schedule *schedule)
{
    if (!schedule)
        return;
    if (schedule->type)
        vv_opts_fini(&schedule->type->desc, schedule->opts);
    vv_dealloc(schedule->opts);
    vv_dealloc(schedule);
}

static vv_status check_ratio(double ssr)
{
    if (!(ssr > 0.0) || !isfinite(ssr))
        return vv_fail(VV_EINVAL, "scale_schedule_ratio %g must be a number above 0", ssr);
    return VV_OK;
}

vv_status vv_schedule_check(const vv_schedule *schedule, const vv_axis *axis, double ssr)
{
    const vv_schedule_desc *type = schedule->type;
    vv_status status = check_ratio(ssr);
    if (status == VV_OK && type->check)
        status = type->check(schedule->opts, axis, ssr);
    return vv_fail_within(status, "schedule %s", type->desc.name);
}

vv_status vv_schedule_factor(const vv_schedule *schedule, const vv_axis *axis, double ssr,
                             double batch, double *out)
{
    const vv_schedule_desc *type = schedule->type;
    vv_status status = check_ratio(ssr);
    *out = 0.0;
    if (status == VV_OK && !(batch >= 0.0 && isfinite(batch)))
        status = vv_fail(VV_EINVAL, "batch %g is no point in time; give 0 or more", batch);
    if (status == VV_OK)
        status = type->factor(schedule->opts, axis, ssr, batch, out);
    if (status == VV_OK && !isfinite(*out))
        status = vv_fail(VV_ENUMERIC, "the factor at batch %g is %g; check gamma and power", batch,
                         *out);
    return vv_fail_within(status, "schedule %s", type->desc.name);
}

const vv_schedule_desc *vv_schedule_type(const vv_schedule *schedule)
{
    return schedule->type;
}

const void *vv_schedule_opts(const vv_schedule *schedule)
{
    return schedule->opts;
}

/* ---- table ---- */
static const vv_schedule_desc *const table[] = {
    &vvi_constant,
    &vvi_constant_with_warmup,
    &vvi_cosine_decay,
    &vvi_cosine_decay_with_warmup,
    &vvi_cosine_warmrestart,
    &vvi_exponential,
    &vvi_linear_decay,
    &vvi_linear_decay_with_warmup,
    &vvi_multistep,
    &vvi_multistep_with_warmup,
    &vvi_one_cycle,
    &vvi_polynomial,
    &vvi_polynomial_with_warmup,
    &vvi_step,
    NULL,
};

const vv_schedule_desc *const *vv_schedule_table(void)
{
    return table;
}

const vv_schedule_desc *vv_schedule_find(const char *name)
{
    for (int i = 0; table[i]; i++)
        if (strcmp(table[i]->desc.name, name) == 0)
            return table[i];
    return NULL;
}
