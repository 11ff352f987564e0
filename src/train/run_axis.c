/* run_axis.c - the run's one axis: duration, iterations and budget, in whatever unit they were
 * given, resolved before step 0 (spec: trainer.md 3, 7.3).
 *
 * A duration in seconds or dollars makes an axis of seconds: learning rates and the methods'
 * progress follow the time that was trained, so that the run ends at full decay when time or money
 * do (Cramming, Geiping & Goldstein, arXiv 2212.14034). Only training counts: fetching batches and
 * steps; not evaluation, saving, or what happens before the first batch. */
#include <math.h>

#include "data/layout.h"
#include "trainer_impl.h"

static vv_status no_tokens(const vv_trainer *t, const char *what, const char *text)
{
    return vv_fail(
        VV_EINVAL,
        "%s: %s counts tokens, but the training set \"%s\" does not say how many tokens a "
        "sample has; give ep, ba or sp",
        what, text, vv_loader_dataset(t->train)->name);
}

static vv_status set_iterations(vv_trainer *t, const char *text)
{
    t->iteration_length = vv_time_none();
    if (!text || !text[0])
        return VV_OK;
    vv_status status = vv_time_parse(&t->iteration_length, text, VV_UNIT_EPOCH);
    VV_TRY(vv_fail_within(status, "iteration_length"));
    vv_unit unit = t->iteration_length.unit;
    if ((unit != VV_UNIT_EPOCH && unit != VV_UNIT_BATCH && unit != VV_UNIT_TOKEN) ||
        t->iteration_length.count < 1)
        return vv_fail(VV_EINVAL,
                       "iteration_length: %s; give epochs (ep), batches (ba) or tokens (tok), at "
                       "least 1",
                       text);
    return VV_OK;
}

static vv_status no_iterations(const char *what, const char *text)
{
    return vv_fail(VV_EINVAL,
                   "%s: %s counts iterations, but the run has none; set iteration_length, for "
                   "example to 2ep",
                   what, text);
}

/* Money and iterations in the units that the clock has. */
static vv_status settle_unit(const vv_trainer *t, const char *text, vv_time *duration)
{
    if (duration->unit == VV_UNIT_USD) {
        double price = t->state.usd_per_hour;
        if (!(price > 0.0))
            return vv_fail(
                VV_EINVAL,
                "max_duration: %s is a sum of money, but the price of the hardware is not "
                "known; set usd_per_hour, or name hardware that is in the price table",
                text);
        double seconds = duration->fraction / price * 3600.0;
        if (!(seconds < 9e15))
            return vv_fail(VV_EINVAL, "max_duration: %s is too long", text);
        *duration = vv_time_of((int64_t)seconds, VV_UNIT_SECOND);
        if (duration->count < 1)
            return vv_fail(VV_EINVAL,
                           "max_duration: %s buys less than a second at %g USD per hour", text,
                           price);
    }
    if (duration->unit == VV_UNIT_ITERATION) {
        if (vv_time_is_none(t->iteration_length))
            return no_iterations("max_duration", text);
        if (duration->count > INT64_MAX / t->iteration_length.count)
            return vv_fail(VV_EINVAL, "max_duration: %s is too long", text);
        *duration = vv_time_of(duration->count * t->iteration_length.count,
                               t->iteration_length.unit);
    }
    return VV_OK;
}

static vv_status set_duration(vv_trainer *t, const char *text)
{
    vv_time duration;
    VV_TRY(vv_fail_within(vv_time_parse(&duration, text, VV_UNIT_EPOCH), "max_duration"));
    if (duration.unit == VV_UNIT_DURATION || vv_time_is_none(duration))
        return vv_fail(VV_EINVAL,
                       "max_duration: %s; give epochs (ep), batches (ba), samples (sp), tokens "
                       "(tok), iterations (iter), seconds (sec, 1h20m) or dollars (usd)",
                       text);
    VV_TRY(settle_unit(t, text, &duration));
    duration = vv_time_scale(duration, t->ssr);
    if (duration.count < 1)
        return vv_fail(VV_EINVAL, "max_duration: %s leaves nothing to train", text);
    t->state.max_duration = t->max_duration = duration;
    return VV_OK;
}

/* A duration in ep, sp or tok as batches: whole epochs, whose last batch may be smaller, and the
   batches of the rest. */
static vv_status count_batches(vv_trainer *t, int64_t per_epoch, const char *text)
{
    vv_time duration = t->max_duration;
    int64_t tokens = t->tokens_per_sample, size = 1, batch = 1;
    const bool samples = duration.unit == VV_UNIT_SAMPLE;
    if (t->stage_count && (samples || (duration.unit == VV_UNIT_TOKEN && tokens > 0))) {
        const int64_t most = samples ? duration.count : (duration.count - 1) / tokens + 1;
        t->state.axis.total_batches =
            vvi_layout_batches_for(vvi_loader_layout(t->train), most);
        return VV_OK;
    }
    if (t->stage_count) {
        vvi_layout_before(vvi_loader_layout(t->train), duration.count,
                          &t->state.axis.total_batches, NULL);
        return VV_OK;
    }
    if (duration.unit == VV_UNIT_SAMPLE || duration.unit == VV_UNIT_TOKEN) {
        size = t->samples_per_epoch;
        batch = t->batch_size;
    }
    if (duration.unit == VV_UNIT_TOKEN) {
        if (tokens < 1)
            return no_tokens(t, "max_duration", text);
        if (size > INT64_MAX / tokens || batch > INT64_MAX / tokens)
            return vv_fail(VV_EINVAL, "max_duration: an epoch has too many tokens to count");
        size *= tokens;
        batch *= tokens;
    }
    int64_t whole = duration.count / size, rest = duration.count % size;
    if (whole > INT64_MAX / 2 / per_epoch)
        return vv_fail(VV_EINVAL, "max_duration: %s is too long", text);
    t->state.axis.total_batches = whole * per_epoch + rest / batch + (rest % batch != 0);
    return VV_OK;
}

static vv_status set_axis(vv_trainer *t, const char *text)
{
    vv_axis *axis = &t->state.axis;
    int64_t per_epoch = vv_loader_batch_count(t->train);
    int64_t tokens = t->tokens_per_sample;
    if (per_epoch < 1)
        return vv_fail(VV_EINVAL,
                       "train: the loader has no batches; its set has fewer samples than "
                       "one batch and drop_last is on, or none at all");
    t->batch_size = vvi_stages_largest(t);
    t->samples_per_epoch = vv_loader_sample_count(t->train);
    axis->batches_per_epoch = per_epoch;
    axis->samples_per_batch = t->stage_count ? t->stages[0].size : t->batch_size;
    if (tokens > 0 && t->batch_size <= INT64_MAX / tokens)
        axis->tokens_per_batch = axis->samples_per_batch * tokens;
    VV_TRY(vvi_stages_axis(t));
    if (t->max_duration.unit == VV_UNIT_BATCH)
        axis->total_batches = t->max_duration.count;
    else if (t->max_duration.unit == VV_UNIT_SECOND)
        axis->budget_seconds = (double)t->max_duration.count;
    else
        VV_TRY(count_batches(t, per_epoch, text));
    if (vv_time_is_none(t->iteration_length))
        return VV_OK;
    double length = 0.0;
    char words[48];
    vv_time_text(t->iteration_length, words, sizeof words);
    if (t->iteration_length.unit == VV_UNIT_TOKEN && tokens < 1)
        return no_tokens(t, "iteration_length", words);
    VV_TRY(vv_time_to_batches(&length, t->iteration_length, axis));
    if (length > 9e15)
        return vv_fail(VV_EINVAL, "iteration_length: %s is too long", words);
    axis->batches_per_iteration = (int64_t)ceil(length);
    return VV_OK;
}

vv_status vvi_axis_resolve(vv_trainer *t, const vv_trainer_opts *o)
{
    const char *text = o->max_duration ? o->max_duration : "1ep";
    t->state.axis = (vv_axis)VV_AXIS_UNKNOWN;
    t->ssr = o->scale_schedule_ratio;
    t->state.usd_per_hour = o->usd_per_hour;
    VV_TRY(set_iterations(t, o->iteration_length));
    VV_TRY(set_duration(t, text));
    if (!t->train)
        return VV_OK;
    t->tokens_per_sample = vv_loader_dataset(t->train)->spec.tokens;
    VV_TRY(vvi_stages_set(t, o->batch_stages, o->batch_stage_count));
    VV_TRY(set_axis(t, text));
    for (int i = 0; i < t->schedule_count; i++)
        VV_TRY(vv_schedule_check(t->schedules[i], &t->state.axis, t->ssr));
    return VV_OK;
}

/* An interval in a unit that this run's clock never counts would never fire. */
static vv_status check_interval(const vv_trainer *t, const vvi_interval *interval, const char *what)
{
    char text[48];
    vv_time_text(interval->every, text, sizeof text);
    if (interval->never || !t->train)
        return VV_OK;
    if (interval->every.unit == VV_UNIT_TOKEN && t->state.axis.tokens_per_batch < 1)
        return no_tokens(t, what, text);
    if (interval->every.unit == VV_UNIT_ITERATION && vv_time_is_none(t->iteration_length))
        return no_iterations(what, text);
    return VV_OK;
}

vv_status vvi_axis_check_intervals(const vv_trainer *t)
{
    for (int i = 0; i < t->evaluator_count; i++)
        VV_TRY(check_interval(t, &t->evaluators[i].interval, "eval_interval"));
    return check_interval(t, &t->save_every, "save_interval");
}

/* ---- iterations: spans of the run that callbacks hear of ---- */

bool vvi_iteration_ends(vv_time length, const vv_timestamp *now)
{
    switch (length.unit) {
    case VV_UNIT_EPOCH:
        return now->epoch_in_iteration >= length.count;
    case VV_UNIT_BATCH:
        return now->batch_in_iteration >= length.count;
    case VV_UNIT_TOKEN:
        return now->token_in_iteration >= length.count;
    default:
        return false;
    }
}

void vvi_iteration_next(vv_timestamp *now)
{
    const vv_timestamp before = *now;
    vv_timestamp_next_iteration(now, 0.0);
    /* One that ends within an epoch leaves the epoch as it is: its data go on where they were. */
    now->batch_in_epoch = before.batch_in_epoch;
    now->sample_in_epoch = before.sample_in_epoch;
    now->token_in_epoch = before.token_in_epoch;
    now->epoch_seconds = before.epoch_seconds;
    now->batch_seconds = before.batch_seconds;
}
