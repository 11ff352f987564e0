/* plan_json.c - the plan as one JSON object, for programs; and how long the run will take. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "trainer_impl.h"

/* At most this many operations are timed at once: less than a tenth of a second on two cores. A
   larger microbatch is timed by fewer rows. */
#define TIMED_FLOPS 1e10
#define TIMED_FLOPS_REF 2e8 /* backend `ref` takes minutes for what `cpu` does in a moment */

/* ---- how long it will take ---- */

vvi_expected vvi_expect(const vv_trainer *t)
{
    vvi_expected out = {(double)NAN, (double)NAN, "there is no training data"};
    const vv_axis *axis = &t->state.axis;
    if (!t->train)
        return out;
    if (axis->budget_seconds > 0.0) {
        out.seconds = axis->budget_seconds;
        out.note = "the budget";
    } else if (t->batch_seconds_measured > 0.0) {
        out.seconds = t->batch_seconds_measured * vvi_whole_batches(t);
        out.note = "from one timed step at full size, without loader, optimizer and evaluation";
    } else {
        out.note = t->not_measured ? t->not_measured : "no step was timed";
    }
    if (t->state.usd_per_hour > 0.0)
        out.usd = out.seconds / 3600.0 * t->state.usd_per_hour;
    return out;
}

vv_status vv_trainer_time_step(vv_trainer *t)
{
    vvi_plan_cost cost;
    double seconds = 0.0;
    if (t->fitting)
        return vv_fail(VV_ESTATE, "vv_trainer_time_step: not while fit runs");
    if (!t->train)
        return VV_OK;
    VV_TRY(vvi_plan_cost_of(t, &cost));
    double row_flops = cost.batch_flops / (double)t->batch_size;
    double most = t->backend == vv_backend_find("ref") ? TIMED_FLOPS_REF : TIMED_FLOPS;
    int64_t rows = cost.rows;
    if (row_flops > most) {
        t->not_measured = "one row is too large to be timed before the run";
        return VV_OK;
    }
    if (row_flops * (double)rows > most)
        rows = (int64_t)(most / row_flops);
    VV_TRY(vv_fail_within(vvi_time_step(t, t->graph, rows, &seconds), "a timed step"));
    t->batch_seconds_measured = seconds * (double)t->batch_size / (double)rows;
    return VV_OK;
}

/* ---- JSON ---- */

static void key(vv_str *out, const char *name)
{
    vv_str_addf(out, ",\n  \"%s\": ", name);
}

static void add_number(vv_str *out, const char *name, double value)
{
    key(out, name);
    vvi_json_number(out, value);
}

static void add_text(vv_str *out, const char *name, const char *text)
{
    key(out, name);
    if (text)
        vv_str_add_json(out, text);
    else
        vv_str_add(out, "null");
}

/* A count, or null where it is not known. */
static void add_count(vv_str *out, const char *name, int64_t count)
{
    key(out, name);
    if (count >= 0)
        vv_str_addf(out, "%" PRId64, count);
    else
        vv_str_add(out, "null");
}

static vv_status add_schedule(vv_trainer *t, vv_str *out)
{
    const vv_state *s = &t->state;
    double at[VVI_PLAN_POINTS], length = vv_axis_length(&s->axis);
    int count = s->optimizer ? vvi_plan_positions(t, at) : 0;
    key(out, "schedule");
    vv_str_addf(out, "{\"axis\": \"%s\", \"length\": ",
                s->axis.budget_seconds > 0.0 ? "seconds" : "batches");
    vvi_json_number(out, t->train ? length : (double)NAN);
    vv_str_add(out, ", \"scale_schedule_ratio\": ");
    vvi_json_number(out, t->ssr);
    vv_str_add(out, ", \"names\": [");
    for (int i = 0; i < t->schedule_count; i++)
        vv_str_addf(out, "%s\"%s\"", i ? ", " : "", vv_schedule_type(t->schedules[i])->desc.name);
    vv_str_add(out, "], \"points\": [");
    for (int i = 0; i < count; i++) {
        vv_str_add(out, i ? ", {\"at\": " : "{\"at\": ");
        vvi_json_number(out, at[i]);
        vv_str_add(out, ", \"lr\": [");
        for (int group = 0; group < vv_optimizer_group_count(s->optimizer); group++) {
            double lr;
            VV_TRY(vvi_plan_lr(t, group, at[i], &lr));
            vv_str_add(out, group ? ", " : "");
            vvi_json_number(out, lr);
        }
        vv_str_add(out, "]}");
    }
    vv_str_add(out, "]}");
    return VV_OK;
}

/* "every": ..., "count": ..., "first": ..., "last": ...; null where it is not known. */
static void add_interval(const vv_trainer *t, const vvi_interval *interval, vv_str *out)
{
    char every[48];
    if (interval->never) {
        vv_str_add(out, "\"every\": null, \"count\": 0, \"first\": null, \"last\": null");
        return;
    }
    vv_str_addf(out, "\"every\": \"%s\"", vv_time_text(interval->every, every, sizeof every));
    if (!vvi_points_known(t, interval)) {
        vv_str_add(out, ", \"count\": null, \"first\": null, \"last\": null");
        return;
    }
    vvi_points p = vvi_points_count(t, *interval, 0);
    vv_str_addf(out, ", \"count\": %" PRId64 ", \"first\": %" PRId64 ", \"last\": %" PRId64,
                p.count, p.first, p.last);
}

static void add_evaluations(const vv_trainer *t, vv_str *out)
{
    key(out, "evaluations");
    vv_str_add(out, "[");
    for (int i = 0; i < t->evaluator_count; i++) {
        const vvi_evaluator *e = &t->evaluators[i];
        vv_str_add(out, i ? ", {\"label\": " : "{\"label\": ");
        vv_str_add_json(out, e->label);
        vv_str_addf(out, ", \"samples\": %" PRId64 ", \"metrics\": [",
                    e->subset ? e->subset : vv_loader_sample_count(e->loader));
        for (int j = 0; j < e->metric_count; j++)
            vv_str_addf(out, "%s\"%s\"", j ? ", " : "", e->metrics[j].name);
        vv_str_add(out, "], ");
        add_interval(t, &e->interval, out);
        vv_str_add(out, "}");
    }
    vv_str_add(out, "]");
    key(out, "saves");
    vv_str_add(out, "{\"folder\": ");
    if (t->checkpoint_dir)
        vv_str_add_json(out, t->checkpoint_dir);
    else
        vv_str_add(out, "null");
    vv_str_addf(out, ", \"keep\": %d, ", t->save_keep);
    add_interval(t, &t->save_every, out);
    vv_str_add(out, "}");
}

static void add_methods(const vv_trainer *t, vv_str *out)
{
    key(out, "methods");
    vv_str_add(out, "[");
    for (int i = 0; i < t->method_count; i++) {
        const vv_method *m = t->methods[i];
        vv_str_addf(out, "%s\n    {\"name\": \"%s\", \"phase\": \"%s\", \"events\": [",
                    i ? "," : "", m->type->desc.name, vvi_phase_name(m->type->phase));
        for (int event = 0, n = 0; event < VV_EVENT_COUNT; event++)
            if (m->type->events & VV_EVENT_BIT(event))
                vv_str_addf(out, "%s\"%s\"", n++ ? ", " : "", vv_event_name((vv_event)event));
        vv_str_add(out, "], \"matched\": ");
        if (m->surgery)
            vv_str_addf(out, "%d", m->effect);
        else
            vv_str_add(out, "null");
        vv_str_add(out, ", \"plan\": ");
        vv_str_add_json(out, t->method_lines[i] ? t->method_lines[i] : "");
        vv_str_add(out, "}");
    }
    vv_str_add(out, "]");
}

static void add_expected(const vv_trainer *t, vv_str *out)
{
    vvi_expected expected = vvi_expect(t);
    add_number(out, "expected_seconds", expected.seconds);
    add_number(out, "expected_usd", expected.usd);
    add_text(out, "expected_note", expected.note);
    add_text(out, "hardware", t->hardware);
    add_number(out, "usd_per_hour",
               t->state.usd_per_hour > 0.0 ? t->state.usd_per_hour : (double)NAN);
    add_text(out, "price_note", t->price_note);
}

vv_status vv_trainer_plan_json(vv_trainer *t, vv_str *out)
{
    const vv_state *s = &t->state;
    char text[48];
    vvi_plan_cost cost;
    if (t->fitting)
        return vv_fail(VV_ESTATE, "vv_trainer_plan_json: not while fit runs");
    VV_TRY(vvi_plan_cost_of(t, &cost));
    vv_str_add(out, "{\n  \"name\": ");
    vv_str_add_json(out, t->run_name ? t->run_name : "");
    add_text(out, "model", s->model->name);
    add_text(out, "max_duration", vv_time_text(t->max_duration, text, sizeof text));
    add_count(out, "steps", s->axis.total_batches);
    add_number(out, "budget_seconds",
               s->axis.budget_seconds > 0.0 ? s->axis.budget_seconds : (double)NAN);
    add_count(out, "steps_done", s->time.batch);
    add_count(out, "batch_size", t->train ? t->batch_size : -1);
    add_count(out, "batches_per_epoch", s->axis.batches_per_epoch);
    add_count(out, "batches_per_iteration", s->axis.batches_per_iteration);
    add_count(out, "samples_per_epoch", t->train ? t->samples_per_epoch : -1);
    add_count(out, "samples_left_out",
              t->train ? vv_loader_dataset(t->train)->count - t->samples_per_epoch : -1);
    if (t->stage_count) {
        key(out, "batch_stages");
        for (int i = 0; i < t->stage_count; i++)
            vv_str_addf(out, "%s{\"first_batch\": %" PRId64 ", \"batch_size\": %" PRId64 "}",
                        i ? ", " : "[", t->stages[i].first_batch, t->stages[i].size);
        vv_str_add(out, "]");
        add_count(out, "samples", vvi_stages_samples(t, s->axis.total_batches));
    }
    VV_TRY(add_schedule(t, out));
    add_evaluations(t, out);
    add_methods(t, out);
    add_text(out, "optimizer", s->optimizer ? vv_optimizer_type(s->optimizer)->desc.name : NULL);
    add_count(out, "parameters", cost.params);
    add_count(out, "frozen_parameters", cost.frozen);
    add_count(out, "planned_memory_bytes",
              t->train ? (int64_t)(cost.step_bytes + cost.weight_bytes) : -1);
    add_count(out, "microbatch", t->train ? cost.rows : -1);
    add_number(out, "batch_gflop", t->train ? cost.batch_flops / 1e9 : (double)NAN);
    add_text(out, "precision", vvi_precision_name(s->precision));
    add_text(out, "backend", vv_backend_name(t->backend));
    add_count(out, "threads", vv_threads());
    add_expected(t, out);
    vv_str_add(out, "\n}\n");
    return vv_str_status(out);
}
