/* early_stopper.c - the early_stopper callback: patience since the best value so far. */
#include "early_stopper.h"

#include <math.h>

static const vv_field fields[] = {
    {"monitor", "The metric to watch; loss with label train.", VV_FIELD_STRING,
     offsetof(vv_early_stopper_opts, monitor), "accuracy", 0, 0, NULL},
    {"label", "The evaluator's label, or train.", VV_FIELD_STRING,
     offsetof(vv_early_stopper_opts, label), "eval", 0, 0, NULL},
    {"direction", "What is better; auto asks the metric.", VV_FIELD_CHOICE,
     offsetof(vv_early_stopper_opts, direction), "auto", 0, 0, vv_watch_directions},
    {"min_delta", "An improvement must be larger than this.", VV_FIELD_FLOAT,
     offsetof(vv_early_stopper_opts, min_delta), "0", 0, 1e30, NULL},
    {"patience", "Time without improvement (ep or ba) that is borne.", VV_FIELD_TIME,
     offsetof(vv_early_stopper_opts, patience), "1ep", 0, 0, NULL},
    {.name = NULL},
};

typedef struct early_stopper {
    bool valid; /* best holds something */
    double best;
    int64_t best_epoch, best_batch;
} early_stopper;

static vv_watch watch_of(const vv_early_stopper_opts *opts)
{
    return (vv_watch){opts->monitor, opts->label, opts->direction};
}

static void judge(vv_callback *callback, vv_state *state, double value)
{
    const vv_early_stopper_opts *opts = callback->opts;
    early_stopper *self = callback->self;
    vv_watch watch = watch_of(opts);
    double gain = vv_watch_less_is_better(&watch) ? self->best - value : value - self->best;
    if (!self->valid || (isnan(self->best) && !isnan(value)) || gain > opts->min_delta) {
        *self = (early_stopper){true, value, state->time.epoch, state->time.batch};
        return;
    }
    int64_t waited = opts->patience.unit == VV_UNIT_EPOCH ? state->time.epoch - self->best_epoch
                                                          : state->time.batch - self->best_batch;
    if (waited <= opts->patience.count || state->stop)
        return;
    state->stop = true;
    vv_str text = {0};
    vv_str_addf(&text, "early_stopper: %s/%s has not improved since batch %lld (%g); the run ends",
                opts->label, opts->monitor, (long long)self->best_batch, self->best);
    vv_log_message(state, vv_str_text(&text));
    vv_str_fini(&text);
}

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    const vv_early_stopper_opts *opts = callback->opts;
    vv_watch watch = watch_of(opts);
    bool in_epochs = opts->patience.unit == VV_UNIT_EPOCH;
    double value;
    if (event == VV_EVENT_FIT_START) {
        if (!in_epochs && opts->patience.unit != VV_UNIT_BATCH)
            return vv_fail(VV_EINVAL, "patience: give epochs (ep) or batches (ba)");
        return vv_watch_check(&watch, state);
    }
    vv_event when = !vv_watch_on_train(&watch) ? VV_EVENT_EVAL_AFTER_ALL
                    : in_epochs                ? VV_EVENT_EPOCH_END
                                               : VV_EVENT_BATCH_END;
    if (event != when)
        return VV_OK;
    VV_TRY(vv_watch_value(&watch, state, &value));
    judge(callback, state, value);
    return VV_OK;
}

static vv_status save(vv_callback *callback, vv_record *record)
{
    const early_stopper *self = callback->self;
    VV_TRY(vv_record_set_int(record, "valid", self->valid));
    VV_TRY(vv_record_set_double(record, "best", self->best));
    VV_TRY(vv_record_set_int(record, "best_epoch", self->best_epoch));
    return vv_record_set_int(record, "best_batch", self->best_batch);
}

static vv_status load(vv_callback *callback, const vv_record *record)
{
    early_stopper *self = callback->self;
    int64_t valid;
    VV_TRY(vv_record_get_int(record, "valid", &valid));
    VV_TRY(vv_record_get_double(record, "best", &self->best));
    VV_TRY(vv_record_get_int(record, "best_epoch", &self->best_epoch));
    VV_TRY(vv_record_get_int(record, "best_batch", &self->best_batch));
    self->valid = valid != 0;
    return VV_OK;
}

const vv_callback_desc vv_callback_early_stopper = {
    .desc = {"callback", "early_stopper", "Ends a run whose metric no longer improves.", "", "any",
             fields, sizeof(vv_early_stopper_opts)},
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START) | VV_EVENT_BIT(VV_EVENT_BATCH_END) |
              VV_EVENT_BIT(VV_EVENT_EPOCH_END) | VV_EVENT_BIT(VV_EVENT_EVAL_AFTER_ALL),
    .self_size = sizeof(early_stopper),
    .apply = apply,
    .save = save,
    .load = load,
};
