/* evaluate.c - evaluators: each sample once, whatever the batches. */
#include <math.h>
#include <string.h>

#include "profile.h"

/* "10ba" or "500sp" as samples; 0 = all. */
static vv_status set_subset(vvi_evaluator *e, const char *text)
{
    vv_time subset;
    if (!text || !text[0])
        return VV_OK;
    VV_TRY(vv_time_parse(&subset, text, VV_UNIT_BATCH));
    const bool batches = subset.unit == VV_UNIT_BATCH;
    if ((!batches && subset.unit != VV_UNIT_SAMPLE) || subset.count < 1)
        return vv_fail(VV_EINVAL, "subset: %s; give batches (10ba) or samples (500sp)", text);
    const int64_t size = batches ? vv_loader_batch_size(e->loader) : 1;
    const int64_t all = vv_loader_sample_count(e->loader);
    e->subset_cut = subset.count > (all + size - 1) / size;
    e->subset = e->subset_cut || subset.count * size > all ? all : subset.count * size;
    return VV_OK;
}

static vv_status check_loader(const vv_loader *loader)
{
    if (!loader)
        return vv_fail(VV_EINVAL, "no loader");
    if (vv_loader_drops_last(loader))
        return vv_fail(VV_EINVAL,
                       "its loader leaves out an incomplete last batch; evaluation counts "
                       "each sample once: make it with drop_last = false");
    return VV_OK;
}

static vv_status init(vvi_evaluator *e, const vv_eval_set *set, const char *interval,
                      const vv_model *model)
{
    VV_TRY(check_loader(set->loader));
    if (set->microbatch < 0)
        return vv_fail(VV_EINVAL, "microbatch: must not be negative");
    e->microbatch = set->microbatch;
    VV_TRY(set_subset(e, set->subset));
    if (set->interval)
        interval = set->interval;
    VV_TRY(vv_fail_within(vvi_interval_parse(&e->interval, interval, false),
                          set->interval ? "interval" : "eval_interval"));
    return vvi_metrics_make(&e->metrics, &e->metric_count, set->metrics, set->own_metrics, model);
}

vv_status vvi_evaluator_init(vvi_evaluator *out, const vv_eval_set *set, const char *interval,
                             const vv_model *model)
{
    *out = (vvi_evaluator){.loader = set->loader};
    VV_TRY(vv_strdup(&out->label, set->label && set->label[0] ? set->label : "eval"));
    return vv_fail_within(init(out, set, interval, model), "evaluator %s", out->label);
}

void vvi_evaluator_fini(vvi_evaluator *e)
{
    vv_dealloc(e->label);
    vvi_metrics_free(e->metrics, e->metric_count);
    *e = (vvi_evaluator){0};
}

/* All metrics of the microbatch in one run of the graph. */
static vv_status add_metrics(vv_trainer *t, const vvi_evaluator *e)
{
    vv_node *nodes[VV_METRIC_NODES * VVI_MAX_METRICS];
    int counts[VVI_MAX_METRICS], count = 0, at = 0;
    for (int i = 0; i < e->metric_count; i++, count += counts[i - 1])
        VV_TRY(vv_metric_build(e->metrics[i].metric, t->state.output, t->state.target,
                               nodes + count, &counts[i]));
    VV_TRY(vv_graph_status(t->graph));
    VV_TRY(vv_eval(t->graph, nodes, count));
    for (int i = 0; i < e->metric_count; at += counts[i++])
        VV_TRY(vv_metric_add(e->metrics[i].metric, nodes + at, counts[i]));
    return VV_OK;
}

static vv_status eval_batch(vv_trainer *t, vvi_evaluator *e)
{
    vv_state *s = &t->state;
    VV_TRY(vvi_engine_fire(t, VV_EVENT_EVAL_BATCH_START));
    int64_t rows = s->batch->count;
    int64_t size = e->microbatch ? e->microbatch : t->eval_microbatch;
    size = size > 0 && size < rows ? size : rows;
    for (int64_t first = 0; first < rows; first += size) {
        int64_t count = rows - first < size ? rows - first : size;
        vv_status status = vvi_forward_rows(t, first, count, VV_EVENT_EVAL_BEFORE_FORWARD,
                                            VV_EVENT_EVAL_AFTER_FORWARD);
        if (status == VV_OK)
            status = add_metrics(t, e);
        vvi_forget_micro(s);
        VV_TRY(status);
    }
    s->eval_batch++;
    return vvi_engine_fire(t, VV_EVENT_EVAL_BATCH_END);
}

static vv_status finish_metric(const vv_trainer *t, vvi_metric *m)
{
    VV_TRY(vv_metric_value(m->metric, &m->value));
    bool better = !m->valid || isnan(m->best) ||
                  (m->type->higher_is_better ? m->value > m->best : m->value < m->best);
    if (better) {
        m->best = m->value;
        m->best_batch = t->state.time.batch;
    }
    m->valid = true;
    return VV_OK;
}

/* The next batch, without what is beyond the subset; NULL at the end. */
static vv_status next_batch(vv_state *s, const vvi_evaluator *e, int64_t samples)
{
    if (e->subset && samples >= e->subset)
        return VV_OK;
    VV_TRY(vv_loader_next(e->loader, &s->batch));
    if (!s->batch || !e->subset || samples + s->batch->count <= e->subset)
        return VV_OK;
    vv_batch *whole = s->batch;
    vv_status status = vv_batch_rows(&s->batch, whole, 0, e->subset - samples);
    vv_batch_free(whole);
    return status;
}

static vv_status eval_batches(vv_trainer *t, vvi_evaluator *e, int64_t *samples)
{
    vv_state *s = &t->state;
    VV_TRY(vvi_engine_fire(t, VV_EVENT_EVAL_START));
    VV_TRY(vv_loader_seek(e->loader, 0, 0));
    for (int i = 0; i < e->metric_count; i++)
        vv_metric_reset(e->metrics[i].metric);
    for (;;) {
        if (vvi_interrupted(t))
            return vv_fail(VV_EINTERRUPTED, "stopped by the user");
        VV_TRY(next_batch(s, e, *samples));
        if (!s->batch)
            break;
        *samples += s->batch->count;
        vv_status status = eval_batch(t, e);
        vv_graph_reset(t->graph);
        vv_batch_free(s->batch);
        s->batch = NULL;
        VV_TRY(status);
    }
    for (int i = 0; i < e->metric_count; i++)
        VV_TRY(finish_metric(t, &e->metrics[i]));
    return VV_OK;
}

static vv_status evaluate(vv_trainer *t, vvi_evaluator *e)
{
    vv_state *s = &t->state;
    double start = vv_clock(), began = vvi_profile_begin(t);
    bool training = vv_module_training(s->model->net);
    vv_batch *outer = s->batch;
    int64_t samples = 0;
    s->batch = NULL;
    bool averaged = vvi_weights_average(t, true);
    s->eval_label = e->label;
    s->eval_batch = 0;
    s->eval_batch_count = vv_loader_batch_count(e->loader);
    if (e->subset) {
        const int64_t size = vv_loader_batch_size(e->loader);
        s->eval_batch_count = (e->subset + size - 1) / size;
    }
    vv_module_set_training(s->model->net, false);
    vv_status status = eval_batches(t, e, &samples);
    double seconds = vv_clock() - start;
    t->eval_seconds += seconds;
    if (status != VV_EINTERRUPTED) {
        e->times.first = e->times.runs++ ? e->times.first : seconds;
        e->times.sum += seconds;
    }
    if (status == VV_OK)
        status = vvi_log_eval(t, e, samples, seconds);
    if (status == VV_OK)
        status = vvi_engine_fire(t, VV_EVENT_EVAL_END);
    vv_module_set_training(s->model->net, training);
    vvi_weights_average(t, averaged);
    s->eval_label = NULL;
    s->batch = outer;
    vvi_profile_end(t, began, "evaluation", e->label, NULL);
    return vv_fail_within(status, "evaluator %s", e->label);
}

vv_status vvi_evaluate_due(vv_trainer *t, vv_event event)
{
    vv_state *s = &t->state;
    bool any = false;
    for (int i = 0; i < t->evaluator_count; i++) {
        vvi_evaluator *e = &t->evaluators[i];
        if (!vvi_interval_due(&e->interval, event, &t->previous, &s->time, s->max_duration,
                              &s->axis))
            continue;
        if (vvi_interrupted(t)) { /* first things first: the checkpoint */
            t->put_off = event;
            return vv_fail(VV_EINTERRUPTED, "stopped by the user");
        }
        if (!any)
            VV_TRY(vvi_engine_fire(t, VV_EVENT_EVAL_BEFORE_ALL));
        any = true;
        int64_t last_batch = e->interval.last_batch;
        e->interval.last_batch = s->time.batch;
        vv_status status = evaluate(t, e);
        if (status == VV_EINTERRUPTED) { /* made up for when the run goes on */
            e->interval.last_batch = last_batch;
            t->put_off = event;
        }
        VV_TRY(status);
    }
    if (!any)
        return VV_OK;
    VV_TRY(vvi_engine_fire(t, VV_EVENT_EVAL_AFTER_ALL));
    return vvi_summary_write(t, VVI_RUN_RUNNING);
}

vv_status vv_trainer_eval(vv_trainer *t)
{
    if (t->evaluator_count == 0)
        return vv_fail(VV_ESTATE,
                       "vv_trainer_eval: the trainer has no evaluation data; set `eval`");
    VV_TRY(vvi_engine_fire(t, VV_EVENT_EVAL_STANDALONE_START));
    for (int i = 0; i < t->evaluator_count; i++)
        VV_TRY(evaluate(t, &t->evaluators[i]));
    return vvi_engine_fire(t, VV_EVENT_EVAL_STANDALONE_END);
}

vv_status vv_state_metric(const vv_state *state, const char *label, const char *name, double *out)
{
    const vv_trainer *t = state->trainer;
    if (vvi_train_metrics_label(label))
        return vvi_train_metrics_get(t, label, name, out);
    for (int i = 0; i < t->evaluator_count; i++) {
        const vvi_evaluator *e = &t->evaluators[i];
        if (strcmp(e->label, label) != 0)
            continue;
        for (int j = 0; j < e->metric_count; j++)
            if (strcmp(e->metrics[j].name, name) == 0) {
                if (!e->metrics[j].valid)
                    return vv_fail(VV_ESTATE, "metric %s/%s: nothing has been evaluated yet",
                                   label, name);
                *out = e->metrics[j].value;
                return VV_OK;
            }
        return vv_fail(VV_ENOTFOUND, "evaluator %s does not compute the metric %s", label, name);
    }
    return vv_fail(VV_ENOTFOUND, "there is no evaluator %s", label);
}

bool vv_state_metric_at(const vv_state *state, int i, const char **label, const char **name,
                        double *value)
{
    const vv_trainer *t = state->trainer;
    for (int k = 0; i >= 0 && k < t->evaluator_count; i -= t->evaluators[k++].metric_count) {
        const vvi_evaluator *e = &t->evaluators[k];
        if (i >= e->metric_count)
            continue;
        *label = e->label;
        *name = e->metrics[i].name;
        *value = e->metrics[i].valid ? e->metrics[i].value : (double)NAN;
        return true;
    }
    return false;
}

void vvi_evaluators_tell(vv_trainer *t)
{
    for (int i = 0; i < t->evaluator_count; i++) {
        const vvi_evaluator *e = &t->evaluators[i];
        if (!e->subset_cut)
            continue;
        vv_str text = {0};
        vv_str_addf(&text, "evaluator %s: the subset is larger than the set; all %lld samples are "
                           "used", e->label, (long long)e->subset);
        vv_log_message(&t->state, vv_str_text(&text));
        vv_str_fini(&text);
    }
}
