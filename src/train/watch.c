/* watch.c - what callbacks that watch a run have in common: which number, and when. */
#include <math.h>
#include <string.h>

#include "trainer_impl.h"

const char *const vv_watch_directions[] = {"auto", "less", "greater", NULL};

bool vv_watch_on_train(const vv_watch *watch)
{
    return watch->label && strcmp(watch->label, "train") == 0;
}

bool vv_watch_less_is_better(const vv_watch *watch)
{
    if (watch->direction != 0)
        return watch->direction == 1;
    const vv_metric_desc *metric = vv_metric_find(watch->monitor);
    return !metric || !metric->higher_is_better;
}

vv_status vv_watch_check(const vv_watch *watch, const vv_state *state)
{
    double value;
    if (!watch->monitor || !watch->label)
        return vv_fail(VV_EINVAL, "monitor and label must be given");
    if (vv_watch_on_train(watch))
        return strcmp(watch->monitor, "loss") == 0
                   ? VV_OK
                   : vv_fail(VV_EINVAL, "monitor: with label train only loss can be watched");
    vv_status status = vv_state_metric(state, watch->label, watch->monitor, &value);
    return status == VV_ESTATE ? VV_OK : status; /* not evaluated yet */
}

vv_status vv_watch_value(const vv_watch *watch, const vv_state *state, double *out)
{
    if (!vv_watch_on_train(watch))
        return vv_state_metric(state, watch->label, watch->monitor, out);
    *out = state->train_loss;
    return VV_OK;
}

vv_status vv_state_due(bool *out, const vv_state *state, vv_time every, int64_t batch)
{
    *out = false;
    bool fraction = every.unit == VV_UNIT_DURATION;
    if (vv_time_is_none(every) || (fraction ? every.fraction == 0.0 : every.count == 0))
        return VV_OK;
    double size = 0.0;
    VV_TRY(vv_time_to_batches(&size, every, &state->axis));
    if (!(size > 0.0))
        return vv_fail(VV_EINVAL, "an interval must not be negative");
    *out = batch == 0 || floor((double)batch / size) > floor((double)(batch - 1) / size);
    return VV_OK;
}

double vv_state_wall_seconds(const vv_state *state)
{
    return vvi_wall_seconds(state->trainer);
}

int64_t vv_state_eval_samples(const vv_state *state, const char *label)
{
    const vv_trainer *t = state->trainer;
    for (int i = 0; i < t->evaluator_count; i++)
        if (strcmp(t->evaluators[i].label, label) == 0)
            return vv_loader_sample_count(t->evaluators[i].loader);
    return -1;
}

double vv_state_eval_seconds(const vv_state *state)
{
    return state->trainer->eval_seconds;
}
