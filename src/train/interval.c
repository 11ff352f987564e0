/* interval.c - when evaluation and saving are due (spec: trainer.md 3.5). */
#include <math.h>

#include "trainer_impl.h"

vv_status vvi_interval_parse(vvi_interval *out, const char *text, bool checkpoint)
{
    *out = (vvi_interval){.never = true, .checkpoint = checkpoint, .last_batch = -1};
    if (!text || !text[0])
        return VV_OK;
    VV_TRY(vv_time_parse(&out->every, text, VV_UNIT_EPOCH));
    if (out->every.unit == VV_UNIT_USD)
        return vv_fail(VV_EINVAL, "interval %s: money is no interval; give it in sec, ep or ba",
                       text);
    if (out->every.unit == VV_UNIT_DURATION &&
        !(out->every.fraction > 0.0 && out->every.fraction <= 1.0))
        return vv_fail(VV_EINVAL, "interval %s: a fraction of the duration must be in (0, 1]",
                       text);
    if (out->every.unit != VV_UNIT_DURATION && out->every.count < 0)
        return vv_fail(VV_EINVAL, "interval %s: must not be negative", text);
    out->never = vv_time_is_none(out->every);
    return VV_OK;
}

static int64_t clock_count(const vv_timestamp *now, vv_unit unit)
{
    switch (unit) {
    case VV_UNIT_ITERATION:
        return now->iteration;
    case VV_UNIT_EPOCH:
        return now->epoch;
    case VV_UNIT_BATCH:
        return now->batch;
    case VV_UNIT_SAMPLE:
        return now->sample;
    case VV_UNIT_TOKEN:
        return now->token;
    case VV_UNIT_SECOND:
        return (int64_t)now->total_seconds;
    default:
        return 0;
    }
}

double vvi_elapsed(const vv_timestamp *now, vv_time max_duration)
{
    if (max_duration.count <= 0)
        return 1.0;
    if (max_duration.unit == VV_UNIT_SECOND)
        return now->total_seconds / (double)max_duration.count;
    return (double)clock_count(now, max_duration.unit) / (double)max_duration.count;
}

/* Rounded up, but not because of the last bit of a product such as 0.1 * 70. */
static int64_t round_up(double x)
{
    int64_t n = (int64_t)ceil(x * (1.0 - 1e-12));
    return n > 0 ? n : 1;
}

/* A multiple of `every` lies in (previous, now]. */
static bool crossed(int64_t previous, int64_t now, int64_t every)
{
    return every > 0 && previous / every != now / every;
}

static bool fraction_due(const vvi_interval *interval, const vv_timestamp *previous,
                         const vv_timestamp *now, vv_time max_duration, const vv_axis *axis)
{
    double part = interval->every.fraction * (double)max_duration.count;
    switch (max_duration.unit) {
    case VV_UNIT_EPOCH:
        if (axis->knots) /* epochs have not the same number of batches */
            part = interval->every.fraction * (double)axis->total_batches;
        else
            part *= (double)axis->batches_per_epoch;
        return now->batch % round_up(part) == 0;
    case VV_UNIT_BATCH:
        return now->batch % round_up(part) == 0;
    case VV_UNIT_SECOND: /* time has no smallest step to round up to */
        return floor(previous->total_seconds / part) != floor(now->total_seconds / part);
    default:
        return crossed(clock_count(previous, max_duration.unit),
                       clock_count(now, max_duration.unit), round_up(part));
    }
}

bool vvi_interval_due(const vvi_interval *interval, vv_event event, const vv_timestamp *previous,
                      const vv_timestamp *now, vv_time max_duration, const vv_axis *axis)
{
    if (interval->never || now->batch == 0)
        return false;
    bool final_event = interval->checkpoint ? event == VV_EVENT_BATCH_CHECKPOINT ||
                                                  event == VV_EVENT_EPOCH_CHECKPOINT
                                            : event == VV_EVENT_FIT_END;
    if (now->batch == interval->last_batch)
        return false;
    if (final_event && vvi_elapsed(now, max_duration) >= 1.0)
        return true;

    vv_event batch_event = interval->checkpoint ? VV_EVENT_BATCH_CHECKPOINT : VV_EVENT_BATCH_END;
    vv_event epoch_event = interval->checkpoint ? VV_EVENT_EPOCH_CHECKPOINT : VV_EVENT_EPOCH_END;
    vv_event iteration_event =
        interval->checkpoint ? VV_EVENT_ITERATION_CHECKPOINT : VV_EVENT_ITERATION_END;
    vv_unit unit = interval->every.unit;
    if (event != (unit == VV_UNIT_EPOCH       ? epoch_event
                  : unit == VV_UNIT_ITERATION ? iteration_event
                                              : batch_event))
        return false;
    if (unit == VV_UNIT_DURATION)
        return fraction_due(interval, previous, now, max_duration, axis);
    return crossed(clock_count(previous, unit), clock_count(now, unit), interval->every.count);
}
