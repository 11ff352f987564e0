/* scale_schedule.c - the Trainer's scale_schedule_ratio under the name of a method. */
#include "scale_schedule.h"

#include <vivace/train.h>

static vv_status configure(vv_method *method, struct vv_trainer_opts *trainer)
{
    const vv_scale_schedule_opts *opts = method->opts;
    if (trainer->scale_schedule_ratio != 1.0)
        return vv_fail(VV_EINVAL,
                       "scale_schedule_ratio is %g already, and the method would scale once more; "
                       "give one of them",
                       trainer->scale_schedule_ratio);
    trainer->scale_schedule_ratio = opts->ratio;
    return VV_OK;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_scale_schedule_opts *opts = method->opts;
    (void)event;
    (void)state;
    method->effect = opts->ratio != 1.0;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_scale_schedule_opts *opts = method->opts;
    char text[64];
    vv_str_addf(line, "duration and schedule times %g: %s", opts->ratio,
                vv_time_text(state->max_duration, text, sizeof text));
    return vv_str_status(line);
}

static const vv_field fields[] = {
    {"ratio", "Factor of the duration and of every time in the schedules (not of warm-ups).",
     VV_FIELD_FLOAT, offsetof(vv_scale_schedule_opts, ratio), "1", 1e-6, 1e6, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_scale_schedule = {
    .desc = {.kind = "method",
             .name = "scale_schedule",
             .summary = "Shortens or stretches the run and its learning-rate schedule together.",
             .cite = "MosaicML Composer, scale-schedule ratio",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_scale_schedule_opts)},
    .phase = VV_PHASE_WEIGHTS,
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .apply = apply,
    .plan = plan,
    .configure = configure,
};

vv_method *vv_scale_schedule(double ratio)
{
    const vv_scale_schedule_opts opts = {ratio};
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_scale_schedule, &opts) == VV_OK ? method : NULL;
}
