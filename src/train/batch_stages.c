/* batch_stages.c - batches that change in size in the course of a run: when, resolved on the run's
 * axis before step 0, and what that makes of the axis. */
#include <math.h>
#include <string.h>

#include <jansson.h>

#include "data/layout.h"
#include "trainer_impl.h"

/* A stage's beginning in the run's own unit: shares of the duration count what it counts, and what
   is no share grows with the scale-schedule ratio as schedules do. */
static vv_status settle(const vv_trainer *t, vv_time from, vv_time *out)
{
    char text[48];
    *out = from;
    if (from.unit == VV_UNIT_DURATION) { /* "0.3333dur" of 9 batches is 3 */
        const double count = rint(from.fraction * (double)t->max_duration.count);
        if (!(count >= 0.0 && count < 9e15))
            return vv_fail(VV_EINVAL, "%s is not within the run",
                           vv_time_text(from, text, sizeof text));
        *out = vv_time_of((int64_t)count, t->max_duration.unit);
        return VV_OK;
    }
    if (from.unit != VV_UNIT_EPOCH && from.unit != VV_UNIT_BATCH && from.unit != VV_UNIT_SAMPLE &&
        from.unit != VV_UNIT_TOKEN)
        return vv_fail(VV_EINVAL, "%s; give dur, ep, ba, sp or tok",
                       vv_time_text(from, text, sizeof text));
    *out = vv_time_scale(from, t->ssr);
    return VV_OK;
}

/* Where in the loader's samples a time lies, as the stages so far cut them. A share of a number of
   epochs may lie within one. */
static vv_status position_of(const vv_trainer *t, vv_time from, int64_t *out)
{
    const vvi_layout *layout = vvi_loader_layout(t->train);
    const int64_t tokens = t->tokens_per_sample;
    vv_time time;
    VV_TRY(settle(t, from, &time));
    *out = 0;
    if (from.unit == VV_UNIT_DURATION && time.unit == VV_UNIT_EPOCH) {
        *out = (int64_t)rint(from.fraction * (double)t->max_duration.count *
                             (double)layout->count);
        return VV_OK;
    }
    int64_t count = time.count;
    if (count < 0 || count > INT64_MAX / 4 / layout->count)
        return vv_fail(VV_EINVAL, "it is negative or too late");
    if (time.unit == VV_UNIT_EPOCH) {
        *out = count * layout->count;
        return VV_OK;
    }
    if (time.unit == VV_UNIT_TOKEN && tokens < 1)
        return vv_fail(VV_EINVAL, "the training set \"%s\" does not say how many tokens a sample "
                                  "has; give ep, ba or sp",
                       vv_loader_dataset(t->train)->name);
    if (time.unit == VV_UNIT_TOKEN)
        count = count / tokens + (count % tokens != 0);
    if (time.unit != VV_UNIT_BATCH)
        count = vvi_layout_batches_for(layout, count);
    const vvi_place at = vvi_layout_find(layout, count);
    *out = at.epoch * layout->count + at.first;
    return VV_OK;
}

/* The loader gets the stages one by one: where each begins depends on those before it. One that
   begins where the next does, in a short run, has no batches and is left out. */
static vv_status set_stages(vv_trainer *t, const vv_batch_stage *given, int count,
                            vv_loader_stage *stages)
{
    int n = 0;
    for (int i = 0; i < count; i++) {
        vv_loader_stage stage = {0, given[i].size};
        if (!(given[i].lr_factor > 0.0) || !isfinite(given[i].lr_factor))
            return vv_fail(VV_EINVAL, "stage %d: the learning rate's factor %g must be above 0",
                           i + 1, given[i].lr_factor);
        if (i > 0)
            VV_TRY(vv_fail_within(position_of(t, given[i].from, &stage.from), "stage %d", i + 1));
        if (n > 0 && stage.from < stages[n - 1].from)
            return vv_fail(VV_EINVAL, "stage %d begins before stage %d", i + 1, i);
        if (n > 0 && stage.from == stages[n - 1].from)
            n--;
        t->stages[n].size = given[i].size;
        t->stages[n].lr_factor = given[i].lr_factor;
        stages[n++] = stage;
        VV_TRY(vv_fail_within(vv_loader_set_stages(t->train, stages, n), "stage %d", i + 1));
    }
    t->stage_count = n;
    return VV_OK;
}

vv_status vvi_stages_set(vv_trainer *t, const vv_batch_stage *given, int count)
{
    vv_status status = VV_OK;
    vv_loader_stage *stages = NULL;
    if (count < 1 || !t->train)
        return VV_OK;
    if (t->max_duration.unit == VV_UNIT_SECOND)
        return vv_fail(VV_EINVAL,
                       "batch sizes cannot change on a budget of time or money: how many batches "
                       "fit in is not known before; give max_duration in ep, ba, sp or tok");
    if (!vv_time_is_none(t->iteration_length) && t->iteration_length.unit != VV_UNIT_BATCH)
        return vv_fail(VV_EINVAL, "iteration_length: give it in ba where batch sizes change");
    VV_GO(vv_alloc_array(&stages, (size_t)count, sizeof *stages));
    VV_GO(vv_alloc_array(&t->stages, (size_t)count, sizeof *t->stages));
    t->stages_set = true;
    VV_GO(vv_fail_within(set_stages(t, given, count, stages), "batch sizes"));
    for (int i = 0; i < t->stage_count; i++)
        t->stages[i].first_batch =
            vvi_layout_batches_to(vvi_loader_layout(t->train), stages[i].from);
out:
    vv_dealloc(stages);
    return status;
}

static void add_knot(vv_trainer *t, int64_t batch, double epoch, int64_t sample)
{
    t->knots[t->state.axis.knot_count++] =
        (vv_axis_knot){(double)batch, epoch, (double)sample};
}

/* A knot at the start of each stretch of epochs that are cut alike, and in other epochs at each
   stage that begins there. */
vv_status vvi_stages_axis(vv_trainer *t)
{
    vv_axis *axis = &t->state.axis;
    const vvi_layout *layout = vvi_loader_layout(t->train);
    if (t->stage_count == 0)
        return VV_OK;
    /* Each stage: its own knot, and a stretch before and behind its epoch. */
    VV_TRY(vv_alloc_array(&t->knots, 3 * (size_t)t->stage_count + 2, sizeof *t->knots));
    axis->knot_count = 0;
    for (int64_t epoch = 0;;) {
        const int64_t many = vvi_layout_alike(layout, epoch);
        int64_t batches, samples;
        vvi_layout_before(layout, epoch, &batches, &samples);
        add_knot(t, batches, (double)epoch, samples);
        for (int i = 1; i < t->stage_count && many == 1; i++) {
            const int64_t within = layout->stages[i].from - epoch * layout->count;
            if (within <= 0 || within >= layout->count)
                continue;
            const int64_t first = vvi_layout_batches_to(layout, layout->stages[i].from);
            const vvi_place at = vvi_layout_find(layout, first);
            if (at.epoch == epoch)
                add_knot(t, first, (double)epoch + (double)at.first / (double)layout->count,
                         samples + at.first);
        }
        if (many == INT64_MAX) {
            add_knot(t, batches + vvi_layout_epoch_batches(layout, epoch), (double)epoch + 1.0,
                     samples + vvi_layout_epoch_samples(layout, epoch));
            break;
        }
        epoch += many;
    }
    axis->knots = t->knots;
    return VV_OK;
}

static const vvi_batch_stage *stage_at(const vv_trainer *t, double batch)
{
    const vvi_batch_stage *stage = t->stages;
    for (int i = 1; i < t->stage_count; i++)
        if (batch >= (double)t->stages[i].first_batch)
            stage = &t->stages[i];
    return stage;
}

double vvi_stages_lr_factor(const vv_trainer *t, double batch)
{
    return t->stage_count ? stage_at(t, batch)->lr_factor : 1.0;
}

int64_t vvi_stages_largest(const vv_trainer *t)
{
    int64_t largest = 0;
    for (int i = 0; i < t->stage_count; i++)
        largest = t->stages[i].size > largest ? t->stages[i].size : largest;
    return t->stage_count ? largest : vv_loader_batch_size(t->train);
}

int64_t vvi_stages_samples(const vv_trainer *t, int64_t batches)
{
    int64_t before;
    const vvi_layout *layout = vvi_loader_layout(t->train);
    const vvi_place at = vvi_layout_find(layout, batches);
    vvi_layout_before(layout, at.epoch, NULL, &before);
    return before + at.first;
}

bool vv_state_batch_stage(const vv_state *state, int i, int64_t *first_batch, int64_t *size,
                          double *lr_factor)
{
    const vv_trainer *t = state->trainer;
    if (!t || i < 0 || i >= t->stage_count)
        return false;
    *first_batch = t->stages[i].first_batch;
    *size = t->stages[i].size;
    *lr_factor = t->stages[i].lr_factor;
    return true;
}

void vvi_stages_fini(vv_trainer *t)
{
    if (t->stages_set) /* giving them back needs no memory */
        (void)!vv_loader_set_stages(t->train, NULL, 0);
    vv_dealloc(t->stages);
    vv_dealloc(t->knots);
}

/* ---- in checkpoints ---- */

void vvi_stages_json(const vv_trainer *t, vv_str *out)
{
    vv_loader_stage stage;
    vv_str_add(out, "[");
    for (int i = 0; t->stage_count && vv_loader_stage_at(t->train, i, &stage); i++)
        vv_str_addf(out, "%s[%lld,%lld]", i ? "," : "", (long long)stage.from,
                    (long long)stage.size);
    vv_str_add(out, "]");
}

bool vvi_stages_same(const vv_trainer *t, const json_t *saved)
{
    if ((int)json_array_size(saved) != t->stage_count)
        return false;
    for (int i = 0; i < t->stage_count; i++) {
        vv_loader_stage stage;
        const json_t *one = json_array_get(saved, (size_t)i);
        if (!vv_loader_stage_at(t->train, i, &stage) ||
            json_integer_value(json_array_get(one, 0)) != stage.from ||
            json_integer_value(json_array_get(one, 1)) != stage.size)
            return false;
    }
    return true;
}
