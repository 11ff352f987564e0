/* threshold_stopper.c - the threshold_stopper callback: a target reached is time saved. */
#include "threshold_stopper.h"

static const vv_field fields[] = {
    {"monitor", "The metric to watch; loss with label train.", VV_FIELD_STRING,
     offsetof(vv_threshold_stopper_opts, monitor), "accuracy", 0, 0, NULL},
    {"label", "The evaluator's label, or train.", VV_FIELD_STRING,
     offsetof(vv_threshold_stopper_opts, label), "eval", 0, 0, NULL},
    {"threshold", "The run ends when the metric is better than this.", VV_FIELD_FLOAT,
     offsetof(vv_threshold_stopper_opts, threshold), NULL, 0, 0, NULL},
    {"direction", "What is better; auto asks the metric.", VV_FIELD_CHOICE,
     offsetof(vv_threshold_stopper_opts, direction), "auto", 0, 0, vv_watch_directions},
    {"stop_on_batch", "With label train: look after each batch, not each epoch.", VV_FIELD_BOOL,
     offsetof(vv_threshold_stopper_opts, stop_on_batch), "false", 0, 0, NULL},
    {.name = NULL},
};

static vv_watch watch_of(const vv_threshold_stopper_opts *opts)
{
    return (vv_watch){opts->monitor, opts->label, opts->direction};
}

static void judge(const vv_threshold_stopper_opts *opts, vv_state *state, double value)
{
    vv_watch watch = watch_of(opts);
    bool reached =
        vv_watch_less_is_better(&watch) ? value < opts->threshold : value > opts->threshold;
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
    vv_watch watch = watch_of(opts);
    double value;
    if (event == VV_EVENT_FIT_START)
        return vv_watch_check(&watch, state);
    vv_event when = !vv_watch_on_train(&watch) ? VV_EVENT_EVAL_AFTER_ALL
                    : opts->stop_on_batch      ? VV_EVENT_BATCH_END
                                               : VV_EVENT_EPOCH_END;
    if (event != when)
        return VV_OK;
    VV_TRY(vv_watch_value(&watch, state, &value));
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
