/* train_metrics.c - metrics of training batches, and their true averages over an epoch.
 *
 * They come from the training pass itself: in training mode (dropout on, batch statistics), before
 * the step. A mixed batch is measured against its mixed targets. The average of an epoch weighs
 * each item alike, whatever batches it came in, and survives in checkpoints. */
#include <math.h>
#include <string.h>

#include <jansson.h>

#include "trainer_impl.h"

vv_status vvi_train_metrics_init(vv_trainer *t, const char *names)
{
    vvi_train_metrics *m = &t->train_metrics;
    m->loss = (double)NAN;
    if (!names || !names[0])
        return VV_OK;
    vv_status status = vvi_metrics_make(&m->batch, &m->count, names, NULL, t->state.model);
    int count = 0;
    if (status == VV_OK)
        status = vvi_metrics_make(&m->epoch, &count, names, NULL, t->state.model);
    if (status != VV_OK) { /* both lists are as long as `count` says */
        vvi_metrics_free(m->epoch, count);
        m->epoch = NULL;
    }
    return vv_fail_within(status, "train_metrics");
}

void vvi_train_metrics_fini(vv_trainer *t)
{
    vvi_train_metrics *m = &t->train_metrics;
    vvi_metrics_free(m->batch, m->count);
    if (m->epoch)
        vvi_metrics_free(m->epoch, m->count);
}

void vvi_train_metrics_begin(vv_trainer *t)
{
    for (int i = 0; i < t->train_metrics.count; i++)
        vv_metric_reset(t->train_metrics.batch[i].metric);
}

/* The target that the loss is of: mixed, where the batch is. */
static vv_node *target_of(const vv_state *s)
{
    if (!s->mix_target)
        return s->target;
    if (s->model->task == VV_TASK_REGRESS)
        return vvi_mix_items(vv_cast(s->target, VV_F32), vv_cast(s->mix_target, VV_F32),
                             s->mix_weight);
    return vvi_mix_items(vv_model_dense_target(s->model, s->output, s->target),
                         vv_model_dense_target(s->model, s->output, s->mix_target), s->mix_weight);
}

vv_status vvi_train_metrics_build(vv_trainer *t, vv_node **nodes, int *count)
{
    vvi_train_metrics *m = &t->train_metrics;
    *count = 0;
    if (m->count == 0)
        return VV_OK;
    vv_node *target = target_of(&t->state);
    VV_TRY(vv_graph_status(t->graph));
    for (int i = 0; i < m->count; i++) {
        VV_TRY(vv_metric_build(m->batch[i].metric, t->state.output, target, nodes + *count,
                               &m->node_counts[i]));
        *count += m->node_counts[i];
    }
    return vv_graph_status(t->graph);
}

vv_status vvi_train_metrics_add(vv_trainer *t, vv_node *const *nodes)
{
    vvi_train_metrics *m = &t->train_metrics;
    for (int i = 0; i < m->count; nodes += m->node_counts[i++])
        VV_TRY(vv_metric_add(m->batch[i].metric, nodes, m->node_counts[i]));
    return VV_OK;
}

static vv_status log_value(vv_trainer *t, const char *label, vvi_metric *m)
{
    vv_str name = {0};
    vv_status status = vv_metric_value(m->metric, &m->value);
    vv_str_addf(&name, "metrics/%s/%s", label, m->name);
    if (status == VV_OK)
        status = vv_str_status(&name);
    if (status == VV_OK)
        vv_log_metric(&t->state, vv_str_text(&name), m->value);
    m->valid = true;
    vv_str_fini(&name);
    return status;
}

vv_status vvi_train_metrics_batch(vv_trainer *t)
{
    vvi_train_metrics *m = &t->train_metrics;
    const vv_state *s = &t->state;
    if (s->loss_item_count > 0) {
        m->loss_sum += s->train_loss * (double)s->loss_item_count;
        m->loss_items += s->loss_item_count;
    }
    for (int i = 0; i < m->count; i++) {
        VV_TRY(log_value(t, "train", &m->batch[i]));
        VV_TRY(vv_metric_merge(m->epoch[i].metric, &m->batch[i].metric->tally));
    }
    return VV_OK;
}

vv_status vvi_train_metrics_epoch(vv_trainer *t)
{
    vvi_train_metrics *m = &t->train_metrics;
    if (m->loss_items > 0) {
        m->loss = m->loss_sum / (double)m->loss_items;
        vv_log_metric(&t->state, "loss/train_epoch/total", m->loss);
    }
    m->loss_sum = 0.0;
    m->loss_items = 0;
    for (int i = 0; i < m->count; i++) {
        VV_TRY(log_value(t, "train_epoch", &m->epoch[i]));
        vv_metric_reset(m->epoch[i].metric);
    }
    return VV_OK;
}

/* ---- reading ---- */

bool vvi_train_metrics_label(const char *label)
{
    return strcmp(label, "train") == 0 || strcmp(label, "train_epoch") == 0;
}

vv_status vvi_train_metrics_get(const vv_trainer *t, const char *label, const char *name,
                                double *out)
{
    const vvi_train_metrics *m = &t->train_metrics;
    const bool epoch = strcmp(label, "train") != 0;
    bool valid = epoch ? !isnan(m->loss) : t->state.time.batch > 0;
    *out = epoch ? m->loss : t->state.train_loss;
    if (strcmp(name, "loss") != 0) {
        const vvi_metric *found = NULL;
        for (int i = 0; i < m->count; i++)
            if (strcmp(m->batch[i].name, name) == 0)
                found = epoch ? &m->epoch[i] : &m->batch[i];
        if (!found)
            return vv_fail(VV_ENOTFOUND, "training does not compute the metric %s; name it in "
                                         "train_metrics", name);
        valid = found->valid;
        *out = found->value;
    }
    return valid ? VV_OK
                 : vv_fail(VV_ESTATE, "metric %s/%s: nothing has been trained yet", label, name);
}

/* ---- saving: sums are written exactly, so a resumed epoch has the same average ---- */

static void save_numbers(vv_str *out, const char *key, const double *items, int64_t count)
{
    vv_str_addf(out, ",\"%s\":[", key);
    for (int64_t i = 0; i < count; i++) {
        vv_str_add(out, i ? "," : "");
        vvi_json_number(out, items[i]);
    }
    vv_str_add(out, "]");
}

void vvi_train_metrics_save(const vv_trainer *t, vv_str *out)
{
    const vvi_train_metrics *m = &t->train_metrics;
    vv_str_addf(out, "{\"loss_items\":%lld", (long long)m->loss_items);
    save_numbers(out, "loss", (const double[]){m->loss_sum, m->loss}, 2);
    vv_str_add(out, ",\"metrics\":[");
    for (int i = 0; i < m->count; i++) {
        const vvi_metric *batch = &m->batch[i], *epoch = &m->epoch[i];
        const vv_tally *tally = &epoch->metric->tally;
        vv_str_addf(out, "%s{\"name\":\"%s\",\"valid\":[%d,%d]", i ? "," : "", epoch->name,
                    batch->valid, epoch->valid);
        save_numbers(out, "value", (const double[]){batch->value, epoch->value}, 2);
        save_numbers(out, "sums", tally->sums, tally->sum_count);
        save_numbers(out, "values", tally->values, tally->value_count);
        vv_str_add(out, ",\"counts\":[");
        for (int64_t k = 0; k < tally->count_count; k++)
            vv_str_addf(out, "%s%lld", k ? "," : "", (long long)tally->counts[k]);
        vv_str_add(out, "]}");
    }
    vv_str_add(out, "]}");
}

static double number_at(const json_t *list, size_t i)
{
    const json_t *value = json_array_get(list, i);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static vv_status load_tally(vv_metric *metric, const json_t *saved)
{
    const json_t *sums = json_object_get(saved, "sums"), *counts = json_object_get(saved, "counts");
    const json_t *values = json_object_get(saved, "values");
    const size_t count = json_array_size(values);
    vv_tally *own = &metric->tally;
    double *loaded;
    vv_metric_reset(metric);
    if (json_array_size(sums) != (size_t)own->sum_count ||
        json_array_size(counts) != (size_t)own->count_count)
        return vv_fail(VV_EFORMAT, "its sums of the training metric %s do not fit", metric->name);
    for (int64_t i = 0; i < own->sum_count; i++)
        own->sums[i] = number_at(sums, (size_t)i);
    for (int64_t i = 0; i < own->count_count; i++)
        own->counts[i] = json_integer_value(json_array_get(counts, (size_t)i));
    VV_TRY(vv_alloc_array(&loaded, count, sizeof(double)));
    for (size_t i = 0; i < count; i++)
        loaded[i] = number_at(values, i);
    vv_dealloc(own->values);
    own->values = loaded;
    own->value_count = own->value_capacity = (int64_t)count;
    return VV_OK;
}

vv_status vvi_train_metrics_load(vv_trainer *t, const json_t *saved)
{
    vvi_train_metrics *m = &t->train_metrics;
    size_t at;
    const json_t *entry, *loss = json_object_get(saved, "loss");
    m->loss_items = json_integer_value(json_object_get(saved, "loss_items"));
    m->loss_sum = m->loss_items ? number_at(loss, 0) : 0.0;
    m->loss = number_at(loss, 1);
    json_array_foreach(json_object_get(saved, "metrics"), at, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const json_t *valid = json_object_get(entry, "valid");
        const json_t *value = json_object_get(entry, "value");
        for (int i = 0; name && i < m->count; i++) {
            if (strcmp(m->epoch[i].name, name) != 0)
                continue;
            m->batch[i].valid = json_integer_value(json_array_get(valid, 0)) != 0;
            m->epoch[i].valid = json_integer_value(json_array_get(valid, 1)) != 0;
            m->batch[i].value = number_at(value, 0);
            m->epoch[i].value = number_at(value, 1);
            VV_TRY(load_tally(m->epoch[i].metric, entry));
        }
    }
    return VV_OK;
}
