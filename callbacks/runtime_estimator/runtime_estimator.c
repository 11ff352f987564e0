/* runtime_estimator.c - the runtime_estimator callback: the Trainer's own estimate, logged. */
#include "runtime_estimator.h"

#include <math.h>

static const char *const units[] = {"seconds", "minutes", "hours", "days", NULL};
static const double unit_seconds[] = {1.0, 60.0, 3600.0, 86400.0};
static const vv_field fields[] = {
    {"unit", "What the estimate is logged in.", VV_FIELD_CHOICE,
     offsetof(vv_runtime_estimator_opts, unit), "seconds", 0, 0, units},
    {.name = NULL},
};

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    const vv_runtime_estimator_opts *opts = callback->opts;
    (void)event;
    double seconds = vv_state_remaining_seconds(state);
    if (!isnan(seconds))
        vv_log_metric(state, "time/remaining_estimate", seconds / unit_seconds[opts->unit]);
    return VV_OK;
}

const vv_callback_desc vv_callback_runtime_estimator = {
    .desc = {"callback", "runtime_estimator", "Logs how long the run will still take.", "", "any",
             fields, sizeof(vv_runtime_estimator_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .apply = apply,
};
