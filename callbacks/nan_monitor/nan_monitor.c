/* nan_monitor.c - the nan_monitor callback. It looks once the batch's loss is known and before the
 * optimizer steps, so the weights and the last checkpoint stay sound, and no value is read that the
 * step does not read anyway. */
#include "nan_monitor.h"

#include <math.h>

static const vv_field fields[] = {
    {"infinity", "Stop at infinities too.", VV_FIELD_BOOL, offsetof(vv_nan_monitor_opts, infinity),
     "true", 0, 0, NULL},
    {.name = NULL},
};

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)event;
    const vv_nan_monitor_opts *opts = callback->opts;
    if (!isnan(state->train_loss) && !(opts->infinity && isinf(state->train_loss)))
        return VV_OK;
    return vv_fail(VV_ENUMERIC,
                   "the loss of batch %lld (epoch %lld) is %g; lower the learning rate, clip the "
                   "gradients, or run with VV_EAGER=1 to see which layer makes it",
                   (long long)state->time.batch, (long long)state->time.epoch, state->train_loss);
}

const vv_callback_desc vv_callback_nan_monitor = {
    .desc = {"callback", "nan_monitor", "Ends a run whose loss is no longer a number.", "", "any",
             fields, sizeof(vv_nan_monitor_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_TRAIN_BATCH),
    .apply = apply,
};
