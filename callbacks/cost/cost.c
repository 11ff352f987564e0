/* cost.c - the cost callback: hours by price, so far and to the end. */
#include "cost.h"

#include <math.h>

static const vv_field fields[] = {
    {"usd_per_hour", "Price of the whole machine in US dollars per hour; 0 = the run's.",
     VV_FIELD_FLOAT, offsetof(vv_cost_opts, usd_per_hour), "0", 0, 1e6, NULL},
    {.name = NULL},
};

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    const vv_cost_opts *opts = callback->opts;
    double price = (opts->usd_per_hour > 0.0 ? opts->usd_per_hour : state->usd_per_hour) / 3600.0;
    if (event == VV_EVENT_FIT_START && !(price > 0.0))
        return vv_fail(VV_EINVAL, "the price is not known; name the run's hardware, or give "
                                  "usd_per_hour: what an hour of the machine costs");
    if (event == VV_EVENT_FIT_START)
        return VV_OK;
    double seconds = vv_state_wall_seconds(state), left = vv_state_remaining_seconds(state);
    vv_log_metric(state, "cost/usd", seconds * price);
    if (!isnan(left))
        vv_log_metric(state, "cost/usd_predicted", (seconds + left) * price);
    return VV_OK;
}

const vv_callback_desc vv_callback_cost = {
    .desc = {"callback", "cost", "Logs what the run has cost so far and will cost in all.", "",
             "any", fields, sizeof(vv_cost_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .apply = apply,
};
