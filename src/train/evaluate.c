/* evaluate.c - evaluation and prediction: each sample once, sums in double, counts in int64. */
#include <math.h>
#include <string.h>

#include "profile.h"

#define VVI_MAX_METRICS 16

static const char *metric_name_at(const void *ctx, int i)
{
    (void)ctx;
    return vv_metric_table()[i]->name;
}

static vv_status find_metric(const vv_metric_desc **out, const char *name)
{
    *out = vv_metric_find(name);
    if (*out)
        return VV_OK;
    int count = 0;
    while (vv_metric_table()[count])
        count++;
    int near = vv_nearest(name, metric_name_at, NULL, count);
    if (near < 0)
        return vv_fail(VV_ENOTFOUND, "metric \"%s\" does not exist", name);
    return vv_fail(VV_ENOTFOUND, "metric \"%s\" does not exist; did you mean \"%s\"?", name,
                   metric_name_at(NULL, near));
}

static vv_status parse_metrics(vvi_evaluator *e, const char *text)
{
    VV_TRY(vv_alloc_array(&e->metrics, VVI_MAX_METRICS, sizeof *e->metrics));
    while (*text) {
        char name[64];
        size_t length = strcspn(text, ",");
        const char *start = text;
        text += length + (text[length] == ',');
        while (length && *start == ' ')
            start++, length--;
        while (length && start[length - 1] == ' ')
            length--;
        if (length == 0)
            continue;
        if (length >= sizeof name)
            return vv_fail(VV_EINVAL, "metrics: a name of %zu letters is too long", length);
        memcpy(name, start, length);
        name[length] = '\0';
        if (e->metric_count == VVI_MAX_METRICS)
            return vv_fail(VV_EINVAL, "metrics: more than %d", VVI_MAX_METRICS);
        VV_TRY(find_metric(&e->metrics[e->metric_count].type, name));
        e->metrics[e->metric_count++].best_batch = -1;
    }
    if (e->metric_count == 0)
        return vv_fail(VV_EINVAL, "evaluator %s: no metric is named", e->label);
    return VV_OK;
}

vv_status vvi_evaluator_init(vvi_evaluator *out, const char *label, vv_loader *loader,
                             const char *metrics, const char *interval)
{
    *out = (vvi_evaluator){.loader = loader};
    if (!loader)
        return vv_fail(VV_EINVAL, "evaluator %s: no loader", label ? label : "eval");
    VV_TRY(vv_strdup(&out->label, label && label[0] ? label : "eval"));
    VV_TRY(vv_fail_within(vvi_interval_parse(&out->interval, interval, false), "eval_interval"));
    return parse_metrics(out, metrics ? metrics : "accuracy,cross_entropy");
}

void vvi_evaluator_fini(vvi_evaluator *e)
{
    vv_dealloc(e->label);
    vv_dealloc(e->metrics);
    *e = (vvi_evaluator){0};
}

static void forget_micro(vv_state *s)
{
    s->input = s->target = s->output = NULL;
    vv_batch_free(s->micro);
    s->micro = NULL;
}

/* The model's output for rows of the current batch; `before` and `after` fire around it. */
static vv_status forward_rows(vv_trainer *t, int64_t first, int64_t count, vv_event before,
                              vv_event after)
{
    vv_state *s = &t->state;
    VV_TRY(vv_batch_rows(&s->micro, s->batch, first, count));
    s->micro_first = first;
    vv_graph_reset(t->graph);
    vv_graph_set_rng(t->graph, s->seed, (uint64_t)s->time.batch, first);
    vv_graph_set_updates(t->graph, false);
    s->input = vv_leaf(t->graph, s->micro->input);
    s->target = vv_leaf(t->graph, s->micro->target);
    VV_TRY(vvi_engine_fire(t, before));
    s->output = vv_module_forward(s->model->net, t->graph, s->input);
    VV_TRY(vvi_engine_fire(t, after));
    return vv_graph_status(t->graph);
}

/* All metrics of the microbatch in one run of the graph. */
static vv_status add_metrics(vv_trainer *t, vvi_evaluator *e)
{
    vv_node *nodes[2 * VVI_MAX_METRICS];
    for (int i = 0; i < e->metric_count; i++)
        VV_TRY(e->metrics[i].type->build(t->state.model, t->state.output, t->state.target,
                                         &nodes[2 * i], &nodes[2 * i + 1]));
    VV_TRY(vv_graph_status(t->graph));
    VV_TRY(vv_eval(t->graph, nodes, 2 * e->metric_count));
    for (int i = 0; i < e->metric_count; i++) {
        double sum = 0.0, count = 0.0;
        VV_TRY(vv_node_item(nodes[2 * i], &sum));
        VV_TRY(vv_node_item(nodes[2 * i + 1], &count));
        e->metrics[i].sum += sum;
        e->metrics[i].count += llround(count);
    }
    return VV_OK;
}

static vv_status eval_batch(vv_trainer *t, vvi_evaluator *e)
{
    vv_state *s = &t->state;
    VV_TRY(vvi_engine_fire(t, VV_EVENT_EVAL_BATCH_START));
    int64_t rows = s->batch->count;
    int64_t size = t->eval_microbatch > 0 && t->eval_microbatch < rows ? t->eval_microbatch : rows;
    for (int64_t first = 0; first < rows; first += size) {
        int64_t count = rows - first < size ? rows - first : size;
        vv_status status = forward_rows(t, first, count, VV_EVENT_EVAL_BEFORE_FORWARD,
                                        VV_EVENT_EVAL_AFTER_FORWARD);
        if (status == VV_OK)
            status = add_metrics(t, e);
        forget_micro(s);
        VV_TRY(status);
    }
    s->eval_batch++;
    return vvi_engine_fire(t, VV_EVENT_EVAL_BATCH_END);
}

static void finish_metric(vv_trainer *t, vvi_metric *m)
{
    m->value = m->count > 0 ? m->sum / (double)m->count : (double)NAN;
    bool better = !m->valid || isnan(m->best) ||
                  (m->type->higher_is_better ? m->value > m->best : m->value < m->best);
    if (better) {
        m->best = m->value;
        m->best_batch = t->state.time.batch;
    }
    m->valid = true;
}

static vv_status eval_batches(vv_trainer *t, vvi_evaluator *e, int64_t *samples)
{
    vv_state *s = &t->state;
    VV_TRY(vvi_engine_fire(t, VV_EVENT_EVAL_START));
    VV_TRY(vv_loader_seek(e->loader, 0, 0));
    for (int i = 0; i < e->metric_count; i++) {
        e->metrics[i].sum = 0.0;
        e->metrics[i].count = 0;
    }
    for (;;) {
        if (vvi_interrupted(t))
            return vv_fail(VV_EINTERRUPTED, "stopped by the user");
        VV_TRY(vv_loader_next(e->loader, &s->batch));
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
        finish_metric(t, &e->metrics[i]);
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
    for (int i = 0; i < t->evaluator_count; i++) {
        const vvi_evaluator *e = &t->evaluators[i];
        if (strcmp(e->label, label) != 0)
            continue;
        for (int j = 0; j < e->metric_count; j++)
            if (strcmp(e->metrics[j].type->name, name) == 0) {
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

/* ---- prediction ---- */

typedef struct parts {
    vv_tensor **items;
    int count, capacity;
} parts;

static vv_status add_part(parts *p, vv_tensor *part)
{
    if (p->count == p->capacity) {
        int capacity = p->capacity ? 2 * p->capacity : 16;
        vv_status status = vv_realloc_array(&p->items, (size_t)capacity, sizeof *p->items);
        if (status != VV_OK) {
            vv_tensor_free(part);
            return status;
        }
        p->capacity = capacity;
    }
    p->items[p->count++] = part;
    return VV_OK;
}

/* The parts one below the other. */
static vv_status join_parts(const parts *p, vv_tensor **out)
{
    if (p->count == 0)
        return vv_fail(VV_EINVAL, "vv_trainer_predict: the loader has no samples");
    const vv_tensor *like = p->items[0];
    int64_t shape[VV_MAX_DIMS];
    if (like->ndim < 1)
        return vv_fail(VV_ESHAPE, "vv_trainer_predict: the model's output has no rows");
    memcpy(shape, like->shape, sizeof shape);
    shape[0] = 0;
    for (int i = 0; i < p->count; i++)
        shape[0] += p->items[i]->shape[0];
    VV_TRY(vv_tensor_new(out, VV_F32, like->ndim, shape));
    char *at = (*out)->data;
    for (int i = 0; i < p->count; i++) {
        memcpy(at, p->items[i]->data, p->items[i]->bytes);
        at += p->items[i]->bytes;
    }
    return VV_OK;
}

static vv_status predict_batch(vv_trainer *t, parts *p)
{
    vv_state *s = &t->state;
    VV_TRY(vvi_engine_fire(t, VV_EVENT_PREDICT_BATCH_START));
    int64_t rows = s->batch->count;
    int64_t size = t->eval_microbatch > 0 && t->eval_microbatch < rows ? t->eval_microbatch : rows;
    for (int64_t first = 0; first < rows; first += size) {
        int64_t count = rows - first < size ? rows - first : size;
        vv_tensor *part = NULL;
        vv_status status = forward_rows(t, first, count, VV_EVENT_PREDICT_BEFORE_FORWARD,
                                        VV_EVENT_PREDICT_AFTER_FORWARD);
        if (status == VV_OK) {
            vv_node *output = s->output;
            if (vv_node_dtype(output) != VV_F32)
                output = vv_cast(output, VV_F32);
            status = output ? vv_node_keep(output, &part) : vv_graph_status(t->graph);
        }
        forget_micro(s);
        VV_TRY(status);
        VV_TRY(add_part(p, part));
    }
    return vvi_engine_fire(t, VV_EVENT_PREDICT_BATCH_END);
}

static vv_status predict_batches(vv_trainer *t, vv_loader *loader, parts *p)
{
    vv_state *s = &t->state;
    VV_TRY(vvi_engine_fire(t, VV_EVENT_PREDICT_START));
    VV_TRY(vv_loader_seek(loader, 0, 0));
    for (;;) {
        VV_TRY(vv_loader_next(loader, &s->batch));
        if (!s->batch)
            return vvi_engine_fire(t, VV_EVENT_PREDICT_END);
        vv_status status = predict_batch(t, p);
        vv_graph_reset(t->graph);
        vv_batch_free(s->batch);
        s->batch = NULL;
        VV_TRY(status);
    }
}

vv_status vv_trainer_predict(vv_trainer *t, vv_loader *loader, vv_tensor **out)
{
    *out = NULL;
    if (!loader || t->fitting)
        return vv_fail(loader ? VV_ESTATE : VV_EINVAL,
                       "vv_trainer_predict: %s", loader ? "not while fit runs" : "no loader");
    parts p = {0};
    bool training = vv_module_training(t->state.model->net);
    bool averaged = vvi_weights_average(t, true);
    vv_module_set_training(t->state.model->net, false);
    vv_status status = predict_batches(t, loader, &p);
    vv_module_set_training(t->state.model->net, training);
    vvi_weights_average(t, averaged);
    if (status == VV_OK)
        status = join_parts(&p, out);
    for (int i = 0; i < p.count; i++)
        vv_tensor_free(p.items[i]);
    vv_dealloc(p.items);
    return status;
}
