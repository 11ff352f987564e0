/* run_plan.c - the plan: what a run will do, resolved and printed before it starts (G4). */
#include <inttypes.h>

#include "trainer_impl.h"

/* Beyond this many batches the points of evaluation and saving are not counted one by one. */
#define VVI_COUNTED_BATCHES 20000000

typedef struct points {
    int64_t count, first, last; /* in batches */
} points;

/* Runs the clock alone, without training; counts what lies after batch `after`. */
static points count_points(const vv_trainer *t, vvi_interval interval, int64_t after)
{
    const vv_axis *axis = &t->state.axis;
    points p = {0};
    vv_timestamp now = {0}, previous = {0};
    vv_event batch_event = interval.checkpoint ? VV_EVENT_BATCH_CHECKPOINT : VV_EVENT_BATCH_END;
    vv_event epoch_event = interval.checkpoint ? VV_EVENT_EPOCH_CHECKPOINT : VV_EVENT_EPOCH_END;
    interval.last_batch = -1;
    int64_t rest = t->samples_per_epoch - (axis->batches_per_epoch - 1) * t->batch_size;
    for (int64_t i = 0; i < axis->total_batches; i++) {
        bool last_of_epoch = now.batch_in_epoch == axis->batches_per_epoch - 1;
        previous = now;
        vv_timestamp_next_batch(&now, last_of_epoch ? rest : t->batch_size, 0, 0.0);
        bool due = vvi_interval_due(&interval, batch_event, &previous, &now, t->max_duration, axis);
        if (last_of_epoch) {
            previous = now;
            vv_timestamp_next_epoch(&now, 0.0);
            due = due || vvi_interval_due(&interval, epoch_event, &previous, &now, t->max_duration,
                                          axis);
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

static bool is_counted(const vv_trainer *t, const vvi_interval *interval)
{
    return t->train && interval->every.unit != VV_UNIT_SECOND &&
           t->state.axis.total_batches <= VVI_COUNTED_BATCHES;
}

int64_t vvi_points_after(const vv_trainer *t, const vvi_interval *interval, int64_t batch)
{
    if (interval->never || !is_counted(t, interval))
        return 0;
    return count_points(t, *interval, batch).count;
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
    if (!is_counted(t, interval)) {
        vv_str_add(out, "\n");
        return;
    }
    points p = count_points(t, *interval, 0);
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
    vv_str_addf(out,
                "duration    %s = %" PRId64 " batches of %" PRId64 " (%" PRId64
                " batches, %" PRId64 " samples per epoch)",
                duration, axis->total_batches, t->batch_size, axis->batches_per_epoch,
                t->samples_per_epoch);
    if (t->ssr != 1.0)
        vv_str_addf(out, ", scaled by %g", t->ssr);
    int64_t dropped = vv_loader_dataset(t->train)->count - t->samples_per_epoch;
    if (dropped > 0)
        vv_str_addf(out, "; %" PRId64 " samples of the set are left out of each epoch", dropped);
    vv_str_add(out, "\n");
}

static vv_status add_learning_rate(vv_trainer *t, vv_str *out)
{
    static const double at[] = {0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0};
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
    if (!t->train)
        return VV_OK;
    int64_t last = s->axis.total_batches - 1, previous = -1;
    for (int group = 0; group < vv_optimizer_group_count(s->optimizer); group++) {
        vv_str_addf(out, "lr group %d ", group);
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            int64_t batch = (int64_t)(at[i] * (double)last);
            if (i && batch == previous)
                continue;
            previous = batch;
            double factor;
            VV_TRY(vvi_lr_factor(t, (double)batch, &factor));
            vv_optimizer_set_lr_factor(s->optimizer, factor);
            vv_str_addf(out, " %g @ %" PRId64 "%s", vv_optimizer_lr(s->optimizer, group), batch,
                        batch == last ? "" : ",");
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
        vv_str_addf(out, "evaluation  \"%s\", %" PRId64 " samples (", e->label,
                    vv_loader_sample_count(e->loader));
        for (int j = 0; j < e->metric_count; j++)
            vv_str_addf(out, "%s%s", j ? ", " : "", e->metrics[j].type->name);
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
    vv_str_add(out, "\n");
}

static const char *phase_name(vv_phase phase)
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
        vv_str_addf(out, "  %d. %s [%s] at", i + 1, m->type->desc.name, phase_name(m->type->phase));
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

static vv_status add_cost(vv_trainer *t, vv_str *out)
{
    vv_state *s = &t->state;
    totals params = {0};
    vv_module_each_param(s->model->net, add_param, &params);
    vv_str_addf(out, "model       %s, %" PRId64 " parameters", s->model->name ? s->model->name : "",
                params.all);
    if (params.frozen)
        vv_str_addf(out, " (%" PRId64 " frozen)", params.frozen);
    vv_str_add(out, "\n");
    if (t->train) {
        int64_t rows = t->batch_size;
        if (t->microbatch > 0 && t->microbatch < rows)
            rows = t->microbatch;
        size_t slab = 0;
        int64_t flops = 0;
        VV_TRY(vvi_step_probe(t, rows, &slab, &flops));
        int64_t states = s->optimizer ? vv_optimizer_type(s->optimizer)->state_count : 0;
        double weights = (double)params.all * (double)sizeof(float) * (double)(2 + states);
        double per_step = (double)flops * (double)t->batch_size / (double)rows;
        vv_str_addf(out,
                    "memory      %.1f MiB for a step of %" PRId64
                    " rows at the full size, %.1f MiB for weights, gradients and optimizer\n",
                    (double)slab / 1048576.0, rows, weights / 1048576.0);
        vv_str_addf(out, "compute     %.3f GFLOP per batch, %.4g for the run\n", per_step / 1e9,
                    per_step * (double)s->axis.total_batches / 1e9);
    }
    vv_str_addf(out, "machine     backend %s, precision %s, %d thread%s\n",
                vv_backend_name(t->backend), vvi_precision_name(s->precision), vv_threads(),
                vv_threads() == 1 ? "" : "s");
    return VV_OK;
}

vv_status vv_trainer_plan(vv_trainer *t, vv_str *out)
{
    if (t->fitting)
        return vv_fail(VV_ESTATE, "vv_trainer_plan: not while fit runs");
    if (t->run_name)
        vv_str_addf(out, "run         %s\n", t->run_name);
    VV_TRY(add_cost(t, out));
    add_schedule(t, out);
    VV_TRY(add_learning_rate(t, out));
    add_evaluation(t, out);
    add_methods(t, out);
    if (t->state.time.batch > 0)
        vv_str_addf(out, "position    batch %" PRId64 " of %" PRId64 " is done\n",
                    t->state.time.batch, t->state.axis.total_batches);
    return vv_str_status(out);
}
