/* threshold_stopper.c - the threshold_stopper callback: a target reached is time saved. */
#include "threshold_stopper.h"

#include <string.h>

static const char *const directions[] = {"auto", "less", "greater", NULL};
static const vv_field fields[] = {
    {"monitor", "The metric to watch; loss with label train.", VV_FIELD_STRING,
     offsetof(vv_threshold_stopper_opts, monitor), "accuracy", 0, 0, NULL},
    {"label", "The evaluator's label, or train.", VV_FIELD_STRING,
     offsetof(vv_threshold_stopper_opts, label), "eval", 0, 0, NULL},
    {"threshold", "The run ends when the metric is better than this.", VV_FIELD_FLOAT,
     offsetof(vv_threshold_stopper_opts, threshold), NULL, 0, 0, NULL},
    {"direction", "What is better; auto asks the metric.", VV_FIELD_CHOICE,
     offsetof(vv_threshold_stopper_opts, direction), "auto", 0, 0, directions},
    {"stop_on_batch", "With label train: look after each batch, not each epoch.", VV_FIELD_BOOL,
     offsetof(vv_threshold_stopper_opts, stop_on_batch), "false", 0, 0, NULL},
    {.name = NULL},
};

static bool on_train(const vv_threshold_stopper_opts *opts)
{
    return strcmp(opts->label, "train") == 0;
}

static bool less_is_better(const vv_threshold_stopper_opts *opts)
{
    const vv_metric_desc *metric = vv_metric_find(opts->monitor);
    return opts->direction == 1 || (opts->direction == 0 && (!metric || !metric->higher_is_better));
}

/* A wrong name is told now, not after the first epoch. */
static vv_status check(const vv_threshold_stopper_opts *opts, const vv_state *state)
{
    double value;
    if (!opts->monitor || !opts->label)
        return vv_fail(VV_EINVAL, "monitor and label must be given");
    if (on_train(opts))
        return strcmp(opts->monitor, "loss") == 0
                   ? VV_OK
                   : vv_fail(VV_EINVAL, "monitor: with label train only loss can be watched");
    vv_status status = vv_state_metric(state, opts->label, opts->monitor, &value);
    return status == VV_ESTATE ? VV_OK : status; /* not evaluated yet */
}

static void judge(const vv_threshold_stopper_opts *opts, vv_state *state, double value)
{
    bool reached = less_is_better(opts) ? value < opts->threshold : value > opts->threshold;
    if (!reached || state->stop)
        return;
    state->stop = true;
    vv_str text = {0};
    vv_str_addf(&text, "threshold_stopper: %s/%s is %g, better than %g; the run ends", opts->label,
                opts->monitor, value, opts->threshold);
    vv_log_message(state, vv_str_text(&text));
    vv_str_fini(&text);
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    const vv_threshold_stopper_opts *opts = callback->opts;
    double value;
    if (event == VV_EVENT_FIT_START)
        return check(opts, state);
    if (on_train(opts)) {
        if (event == (opts->stop_on_batch ? VV_EVENT_BATCH_END : VV_EVENT_EPOCH_END))
            judge(opts, state, state->train_loss);
        return VV_OK;
    }
    if (event != VV_EVENT_EVAL_AFTER_ALL)
        return VV_OK;
    VV_TRY(vv_state_metric(state, opts->label, opts->monitor, &value));
    judge(opts, state, value);
    return VV_OK;
}

const vv_callback_desc vv_callback_threshold_stopper = {
    .desc = {"callback", "threshold_stopper", "Ends a run whose metric has reached a target.", "",
             "any", fields, sizeof(vv_threshold_stopper_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BATCH_END) |
              VV_EVENT_BIT(VV_EVENT_EPOCH_END) | VV_EVENT_BIT(VV_EVENT_EVAL_AFTER_ALL),
    .apply = apply,
};
