/* run_plan.c - the plan: what a run will do, resolved and printed before it starts (G4). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "data/layout.h"
#include "trainer_impl.h"

/* Beyond this many batches the points of evaluation and saving are not counted one by one. */
#define VVI_COUNTED_BATCHES 20000000

bool vvi_points_known(const vv_trainer *t, const vvi_interval *interval)
{
    return t->train && !interval->never && interval->every.unit != VV_UNIT_SECOND &&
           t->state.axis.total_batches >= 0 && t->state.axis.total_batches <= VVI_COUNTED_BATCHES;
}

int64_t vvi_points_after(const vv_trainer *t, const vvi_interval *interval, int64_t batch)
{
    return vvi_points_known(t, interval) ? vvi_points_count(t, *interval, batch).count : 0;
}

/* Runs the clock alone, without training. */
vvi_points vvi_points_count(const vv_trainer *t, vvi_interval interval, int64_t after)
{
    const vv_axis *axis = &t->state.axis;
    vvi_points p = {0};
    int64_t tokens = t->state.input_spec.tokens;
    vv_timestamp now = {0}, previous = {0};
    vv_event batch_event = interval.checkpoint ? VV_EVENT_BATCH_CHECKPOINT : VV_EVENT_BATCH_END;
    vv_event epoch_event = interval.checkpoint ? VV_EVENT_EPOCH_CHECKPOINT : VV_EVENT_EPOCH_END;
    vv_event iteration_event =
        interval.checkpoint ? VV_EVENT_ITERATION_CHECKPOINT : VV_EVENT_ITERATION_END;
    interval.last_batch = -1;
    int64_t per_epoch = vv_axis_epoch_batches(axis, 0);
    int64_t rest = t->samples_per_epoch - (axis->batches_per_epoch - 1) * t->batch_size;
    for (int64_t i = 0; i < axis->total_batches; i++) {
        bool last_of_epoch = now.batch_in_epoch == per_epoch - 1;
        previous = now;
        int64_t samples = last_of_epoch ? rest : t->batch_size;
        if (t->stage_count)
            samples =
                vvi_layout_at(vvi_loader_layout(t->train), now.epoch, now.batch_in_epoch).rows;
        vv_timestamp_next_batch(&now, samples, samples * tokens, 0.0);
        bool due = vvi_interval_due(&interval, batch_event, &previous, &now, t->max_duration, axis);
        if (last_of_epoch) {
            previous = now;
            vv_timestamp_next_epoch(&now, 0.0);
            per_epoch = vv_axis_epoch_batches(axis, now.epoch);
            due = due || vvi_interval_due(&interval, epoch_event, &previous, &now, t->max_duration,
                                          axis);
        }
        if (vvi_iteration_ends(t->iteration_length, &now)) {
            previous = now;
            vvi_iteration_next(&now);
            due = due || vvi_interval_due(&interval, iteration_event, &previous, &now,
                                          t->max_duration, axis);
        }
        if (i == axis->total_batches - 1)
            due = due || vvi_interval_due(&interval, VV_EVENT_FIT_END, &previous, &now,
                                          t->max_duration, axis);
        if (!due)
            continue;
        interval.last_batch = now.batch;
        if (now.batch <= after)
            continue;
        p.first = p.count++ ? p.first : now.batch;
        p.last = now.batch;
    }
    return p;
}

static void add_points(const vv_trainer *t, const vvi_interval *interval, vv_str *out)
{
    char every[64];
    if (interval->never) {
        vv_str_add(out, "never\n");
        return;
    }
    bool at_end = interval->every.unit != VV_UNIT_DURATION && interval->every.count == 0;
    if (at_end)
        vv_str_add(out, "at the end");
    else
        vv_str_addf(out, "every %s", vv_time_text(interval->every, every, sizeof every));
    if (!vvi_points_known(t, interval)) {
        vv_str_add(out, "\n");
        return;
    }
    vvi_points p = vvi_points_count(t, *interval, 0);
    vv_str_addf(out,
                ": %" PRId64 " time%s, first after batch %" PRId64 ", last after %" PRId64 "\n",
                p.count, p.count == 1 ? "" : "s", p.first, p.last);
}

static void add_schedule(const vv_trainer *t, vv_str *out)
{
    const vv_axis *axis = &t->state.axis;
    char duration[64];
    vv_time_text(t->max_duration, duration, sizeof duration);
    if (!t->train) {
        vv_str_add(out, "duration    nothing to train: no training data\n");
        return;
    }
    if (axis->budget_seconds > 0.0)
        vv_str_addf(
            out,
            "duration    a budget of %s of training (evaluation and saving come on top), in "
            "batches of %" PRId64,
            duration, t->batch_size);
    else
        vv_str_addf(out, "duration    %s = %" PRId64 " batches of %" PRId64, duration,
                    axis->total_batches, t->stage_count ? t->stages[0].size : t->batch_size);
    for (int i = 1; i < t->stage_count; i++)
        vv_str_addf(out, ", %" PRId64 " from batch %" PRId64 " on", t->stages[i].size,
                    t->stages[i].first_batch);
    if (t->stage_count)
        vv_str_addf(out, ", %" PRId64 " samples in all",
                    vvi_stages_samples(t, axis->total_batches));
    vv_str_addf(out, " (%" PRId64 " batches, %" PRId64 " samples", axis->batches_per_epoch,
                t->samples_per_epoch);
    if (axis->tokens_per_batch > 0)
        vv_str_addf(out, ", %" PRId64 " tokens", t->samples_per_epoch * t->state.input_spec.tokens);
    vv_str_add(out, t->stage_count ? " in the first epoch)" : " per epoch)");
    if (t->ssr != 1.0)
        vv_str_addf(out, "; stretched by scale_schedule_ratio %g, with the schedules", t->ssr);
    if (axis->batches_per_iteration > 0)
        vv_str_addf(out, "; iterations of %s = %" PRId64 " batches",
                    vv_time_text(t->iteration_length, duration, sizeof duration),
                    axis->batches_per_iteration);
    int64_t dropped = vv_loader_dataset(t->train)->count - t->samples_per_epoch;
    if (dropped > 0)
        vv_str_addf(out, "; %" PRId64 " samples of the set are left out of each epoch", dropped);
    vv_str_add(out, "\n");
}

int vvi_plan_positions(const vv_trainer *t, double *at)
{
    static const double shares[VVI_PLAN_POINTS] = {0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0};
    const vv_axis *axis = &t->state.axis;
    int count = 0;
    for (int i = 0; t->train && i < VVI_PLAN_POINTS; i++) {
        /* The last batch's rate is that of its start. */
        double where = axis->budget_seconds > 0.0
                           ? shares[i] * axis->budget_seconds
                           : floor(shares[i] * (double)(axis->total_batches - 1));
        if (!count || where > at[count - 1])
            at[count++] = where;
    }
    return count;
}

vv_status vvi_plan_lr(vv_trainer *t, int group, double position, double *out)
{
    double factor = 1.0;
    VV_TRY(vvi_lr_factor(t, position, &factor));
    vv_optimizer_set_lr_factor(t->state.optimizer, factor);
    *out = vv_optimizer_lr(t->state.optimizer, group);
    return VV_OK;
}

static vv_status add_learning_rate(vv_trainer *t, vv_str *out)
{
    vv_state *s = &t->state;
    if (!s->optimizer)
        return VV_OK;
    vv_str_addf(out, "optimizer   %s, %d parameters in %d group%s\n",
                vv_optimizer_type(s->optimizer)->desc.name, vv_optimizer_param_count(s->optimizer),
                vv_optimizer_group_count(s->optimizer),
                vv_optimizer_group_count(s->optimizer) == 1 ? "" : "s");
    vv_str_add(out, "schedules  ");
    for (int i = 0; i < t->schedule_count; i++)
        vv_str_addf(out, "%s%s", i ? " x " : " ", vv_schedule_type(t->schedules[i])->desc.name);
    vv_str_add(out, t->schedule_count ? "\n" : " constant\n");
    double at[VVI_PLAN_POINTS];
    int count = vvi_plan_positions(t, at);
    for (int group = 0; count && group < vv_optimizer_group_count(s->optimizer); group++) {
        const int size = vv_optimizer_group_size(s->optimizer, group);
        vv_str_addf(out, "lr group %d ", group);
        if (vv_optimizer_group_count(s->optimizer) > 1)
            vv_str_addf(out, "(%d parameter%s)", size, size == 1 ? "" : "s");
        for (int i = 0; i < count; i++) {
            double lr;
            VV_TRY(vvi_plan_lr(t, group, at[i], &lr));
            vv_str_addf(out, "%s %g @ %.10g%s", i ? "," : "", lr, at[i],
                        s->axis.budget_seconds > 0.0 ? "sec" : "");
        }
        vv_str_add(out, "\n");
    }
    return VV_OK;
}

static void add_evaluation(const vv_trainer *t, vv_str *out)
{
    if (t->evaluator_count == 0)
        vv_str_add(out, "evaluation  none: no evaluation data\n");
    for (int i = 0; i < t->evaluator_count; i++) {
        const vvi_evaluator *e = &t->evaluators[i];
        vv_str_addf(out, "evaluation  \"%s\", ", e->label);
        if (e->subset)
            vv_str_addf(out, "%" PRId64 " of ", e->subset);
        vv_str_addf(out, "%" PRId64 " samples (", vv_loader_sample_count(e->loader));
        for (int j = 0; j < e->metric_count; j++)
            vv_str_addf(out, "%s%s", j ? ", " : "", e->metrics[j].name);
        vv_str_add(out, ") ");
        add_points(t, &e->interval, out);
    }
    vv_str_add(out, "saving      ");
    if (!t->run_dir) {
        vv_str_add(out, "nothing: no run folder\n");
        return;
    }
    add_points(t, &t->save_every, out);
    vv_str_addf(out, "run folder  %s%s", t->run_dir, t->resumed ? ", resumed" : "");
    if (t->save_keep > 0)
        vv_str_addf(out, "; the newest %d checkpoints are kept", t->save_keep);
    if (t->saver.keep_best > 0) {
        const vvi_evaluator *e = &t->evaluators[t->saver.evaluator];
        vv_str_addf(out, "%s the %d with the %s %s/%s",
                    t->save_keep > 0 ? " and" : "; also saved are", t->saver.keep_best,
                    t->saver.higher ? "highest" : "lowest", e->label,
                    e->metrics[t->saver.metric].name);
    }
    vv_str_add(out, "\n");
}

const char *vvi_phase_name(vv_phase phase)
{
    static const char *const names[] = {"select", "resize",   "augment", "mix",    "target",
                                        "surgery", "layout", "gradient", "weights"};
    return (unsigned)phase < sizeof names / sizeof *names ? names[phase] : "?";
}

static void add_methods(const vv_trainer *t, vv_str *out)
{
    if (t->method_count == 0)
        vv_str_add(out, "methods     none\n");
    else
        vv_str_add(out, "methods     in this order (clean-up after forward, loss and backward in "
                        "reverse):\n");
    for (int i = 0; i < t->method_count; i++) {
        const vv_method *m = t->methods[i];
        vv_str_addf(out, "  %d. %s [%s] at", i + 1, m->type->desc.name,
                    vvi_phase_name(m->type->phase));
        for (int event = 0; event < VV_EVENT_COUNT; event++)
            if (m->type->events & VV_EVENT_BIT(event))
                vv_str_addf(out, " %s", vv_event_name((vv_event)event));
        if (m->surgery)
            vv_str_addf(out, "; changed %d", m->effect);
        vv_str_add(out, "\n");
        if (t->method_lines[i] && t->method_lines[i][0])
            vv_str_addf(out, "     %s\n", t->method_lines[i]);
    }
    if (t->callback_count) {
        vv_str_add(out, "callbacks  ");
        for (int i = 0; i < t->callback_count; i++)
            vv_str_addf(out, "%s%s", i ? ", " : " ", t->callbacks[i]->type->desc.name);
        vv_str_add(out, "\n");
    }
}

typedef struct totals {
    int64_t all, frozen;
} totals;

static bool add_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)path;
    (void)owner;
    totals *sum = ctx;
    sum->all += param->value->count;
    sum->frozen += param->frozen ? param->value->count : 0;
    return true;
}

/* What the largest step takes, as proven at the start. */
static void add_sizing(const vv_trainer *t, vv_str *out)
{
    const vvi_sizing *z = &t->sizing;
    char shape[128], step[24], fixed[24], whole[24], available[24];
    vv_str_addf(out, "microbatch  %" PRId64 " rows%s%s%s; largest input %s\n", z->rows,
                z->microbatch_note[0] ? " (" : "", z->microbatch_note,
                z->microbatch_note[0] ? ")" : "",
                vv_shape_text(z->largest_ndim, z->largest, shape, sizeof shape));
    vv_str_addf(out, "memory      %s for the largest step, %s for weights, gradients and optimizer",
                vv_bytes_text(z->cost.slab_bytes + z->cost.result_bytes, step, sizeof step),
                vv_bytes_text(z->fixed_bytes, fixed, sizeof fixed));
    if (z->available_bytes != SIZE_MAX)
        vv_str_addf(out, ", of %s%s", vv_bytes_text(z->available_bytes, available,
                                                    sizeof available),
                    z->limit_given ? " (memory_limit)" : "");
    vv_str_add(out, "\n");
    if (z->cost.slab_bytes < z->cost.whole_bytes)
        vv_str_addf(out, "recompute   activations are computed again: %s instead of %s, for %.1f%% "
                         "more FLOPs\n",
                    vv_bytes_text(z->cost.slab_bytes, step, sizeof step),
                    vv_bytes_text(z->cost.whole_bytes, whole, sizeof whole),
                    100.0 * (double)z->cost.recompute_flops /
                        (double)(z->cost.flops ? z->cost.flops : 1));
}

vv_status vvi_plan_cost_of(vv_trainer *t, vvi_plan_cost *out)
{
    const vvi_sizing *z = &t->sizing;
    totals params = {0};
    vv_module_each_param(t->state.model->net, add_param, &params);
    *out = (vvi_plan_cost){.params = params.all, .frozen = params.frozen};
    if (!z->known)
        return VV_OK;
    out->rows = z->rows;
    out->step_bytes = (double)(z->cost.slab_bytes + z->cost.result_bytes);
    out->weight_bytes = (double)z->fixed_bytes;
    out->batch_flops = (double)z->cost.flops * (double)t->batch_size / (double)z->rows;
    return VV_OK;
}

double vvi_whole_batches(const vv_trainer *t)
{
    const int64_t batches = t->state.axis.total_batches;
    return t->stage_count ? (double)vvi_stages_samples(t, batches) / (double)t->batch_size
                          : (double)batches;
}

static vv_status add_loss_note(const vv_model *model, vv_str *out)
{
    vv_str note = {0};
    vv_status status = vv_model_loss_note(model, &note);
    if (status == VV_OK && note.length)
        vv_str_addf(out, "note        %s\n", vv_str_text(&note));
    vv_str_fini(&note);
    return status;
}

/* Unless by the usual rule: how kernels of convolutions are chosen, and what trials found. */
static vv_status add_convolutions(const vv_trainer *t, vv_str *out)
{
    vv_str trials = {0};
    if (t->conv == VV_CONV_DIRECT)
        vv_str_add(out, "conv        direct kernels only\n");
    if (t->conv == VV_CONV_WINOGRAD)
        vv_str_add(out, "conv        Winograd wherever it can be done\n");
    if (t->conv != VV_CONV_AUTO)
        return VV_OK;
    vv_graph_conv_choices(t->graph, &trials);
    vv_status status = vv_str_status(&trials);
    vv_str_add(out, "conv        by timed trials, kept in checkpoints\n");
    for (const char *line = vv_str_text(&trials); *line;) {
        const size_t length = strcspn(line, "\n");
        vv_str_add(out, "            ");
        vv_str_addn(out, line, length);
        vv_str_add(out, "\n");
        line += length + (line[length] == '\n');
    }
    vv_str_fini(&trials);
    return status;
}

static vv_status add_cost(vv_trainer *t, vv_str *out)
{
    const vv_state *s = &t->state;
    vvi_plan_cost cost;
    VV_TRY(vvi_plan_cost_of(t, &cost));
    vv_str_addf(out, "model       %s, %" PRId64 " parameters", s->model->name ? s->model->name : "",
                cost.params);
    if (cost.frozen)
        vv_str_addf(out, " (%" PRId64 " frozen)", cost.frozen);
    if (s->model->loss)
        vv_str_addf(out, ", loss %s", s->model->loss->name);
    vv_str_add(out, "\n");
    VV_TRY(add_loss_note(s->model, out));
    if (t->train) {
        add_sizing(t, out);
        vv_str_addf(out, "compute     %.3f GFLOP per batch", cost.batch_flops / 1e9);
        if (s->axis.total_batches >= 0)
            vv_str_addf(out, ", %.4g for the run", cost.batch_flops * vvi_whole_batches(t) / 1e9);
        vv_str_add(out, "\n");
    }
    const char *note = t->sizing.precision_note;
    vv_str_addf(out, "machine     backend %s, precision %s%s%s%s, %d thread%s\n",
                vv_backend_name(t->backend), vvi_precision_name(s->precision), note[0] ? " (" : "",
                note, note[0] ? ")" : "", vv_threads(), vv_threads() == 1 ? "" : "s");
    return add_convolutions(t, out);
}

static void add_expected(const vv_trainer *t, vv_str *out)
{
    double price = t->state.usd_per_hour;
    vvi_expected expected = vvi_expect(t);
    if (!t->train || (isnan(expected.seconds) && !(price > 0.0)))
        return;
    vv_str_add(out, "expected    ");
    if (isnan(expected.seconds))
        vv_str_add(out, "time not known before the run");
    else
        vv_str_addf(out, "%.4g s of training (%s)", expected.seconds, expected.note);
    if (price > 0.0) {
        if (!isnan(expected.usd))
            vv_str_addf(out, ", %.4g USD", expected.usd);
        vv_str_addf(out, " at %g USD per hour (%s%s%s)", price, t->hardware ? t->hardware : "",
                    t->hardware && t->price_note ? ": " : "", t->price_note ? t->price_note : "");
    }
    vv_str_add(out, "\n");
}

vv_status vv_trainer_plan(vv_trainer *t, vv_str *out)
{
    if (t->fitting)
        return vv_fail(VV_ESTATE, "vv_trainer_plan: not while fit runs");
    if (t->run_name)
        vv_str_addf(out, "run         %s\n", t->run_name);
    VV_TRY(add_cost(t, out));
    add_schedule(t, out);
    add_expected(t, out);
    VV_TRY(add_learning_rate(t, out));
    add_evaluation(t, out);
    add_methods(t, out);
    if (t->state.time.batch > 0)
        vv_str_addf(out, "position    batch %" PRId64 ", %.1f%% of the run is done\n",
                    t->state.time.batch, 100.0 * t->state.progress);
    return vv_str_status(out);
}
