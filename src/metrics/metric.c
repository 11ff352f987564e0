/* metric.c - metrics by name, and their tallies: sums in double, counts in int64. */
#include <math.h>
#include <string.h>

#include <vivace/memory.h>

#include "metrics/metric_impl.h"

static const vv_metric_desc *const table[] = {
    &vvi_metric_accuracy,      &vvi_metric_topk,       &vvi_metric_cross_entropy,
    &vvi_metric_perplexity,    &vvi_metric_masked_accuracy, &vvi_metric_miou,
    &vvi_metric_dice,          &vvi_metric_f1,         &vvi_metric_matthews,
    &vvi_metric_spearman,      &vvi_metric_mse,        &vvi_metric_map,
    &vvi_metric_map50,         &vvi_metric_map75,      &vvi_metric_map_small,
    &vvi_metric_map_medium,    &vvi_metric_map_large,  &vvi_metric_mar1,
    &vvi_metric_mar10,         &vvi_metric_mar100,     NULL,
};
enum { COUNT = sizeof table / sizeof *table - 1 };

const vv_metric_desc *const *vv_metric_table(void)
{
    return table;
}

/* k of "top3_accuracy" or "top3"; 0 if the name is not of that form. */
static int64_t topk_of(const char *name)
{
    int64_t k = 0;
    if (strncmp(name, "top", 3) != 0)
        return 0;
    for (name += 3; *name >= '0' && *name <= '9' && k < 1000000; name++)
        k = 10 * k + (*name - '0');
    return name[0] == '\0' || strcmp(name, "_accuracy") == 0 ? k : 0;
}

const vv_metric_desc *vv_metric_find(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (strcmp(table[i]->desc.name, name) == 0)
            return table[i];
    return topk_of(name) > 0 ? &vvi_metric_topk : NULL;
}

static const char *name_at(const void *ctx, int i)
{
    (void)ctx;
    return i < COUNT ? table[i]->desc.name : "top5_accuracy";
}

static vv_status unknown(const char *name)
{
    int near = vv_nearest(name, name_at, NULL, COUNT + 1);
    if (near < 0)
        return vv_fail(VV_ENOTFOUND, "metric \"%s\" does not exist; see `vivace list metrics`",
                       name);
    return vv_fail(VV_ENOTFOUND, "metric \"%s\" does not exist; did you mean \"%s\"?", name,
                   name_at(NULL, near));
}

/* ---- life ---- */

static vv_status make(vv_metric **out, const vv_metric_desc *desc, const char *name,
                      const void *opts, const vv_model *model)
{
    vv_metric *m = NULL;
    vv_status status = VV_OK;
    *out = NULL;
    if (!model)
        return vv_fail(VV_EINVAL, "metric %s: no model", desc->desc.name);
    VV_GO(vv_alloc(&m, sizeof *m));
    m->type = desc;
    m->model = model;
    VV_GO(vv_strdup(&m->name, name));
    void *own = NULL;
    VV_GO(vv_alloc(&own, desc->desc.opts_size + 1));
    status = opts ? vv_opts_copy(&desc->desc, own, opts) : vv_opts_init(&desc->desc, own);
    if (status != VV_OK) {
        vv_dealloc(own);
        goto out;
    }
    m->opts = own;
    VV_GO(vv_fail_within(vv_opts_check(&desc->desc, own), "metric %s", name));
    VV_GO(desc->size(m, &m->tally.sum_count, &m->tally.count_count));
    VV_GO(vv_alloc_array(&m->tally.sums, (size_t)m->tally.sum_count, sizeof(double)));
    VV_GO(vv_alloc_array(&m->tally.counts, (size_t)m->tally.count_count, sizeof(int64_t)));
    *out = m;
    m = NULL;
out:
    vv_metric_free(m);
    return status;
}

vv_status vv_metric_new(vv_metric **out, const vv_metric_desc *desc, const void *opts,
                        const vv_model *model)
{
    return make(out, desc, desc->desc.name, opts, model);
}

vv_status vv_metric_make(vv_metric **out, const char *name, const vv_model *model)
{
    *out = NULL;
    const vv_metric_desc *desc = vv_metric_find(name);
    if (!desc)
        return unknown(name);
    const vvi_topk_opts topk = {topk_of(name)};
    return make(out, desc, name, topk.k > 0 ? &topk : NULL, model);
}

void vv_metric_free(vv_metric *m)
{
    if (!m)
        return;
    if (m->opts)
        vv_opts_fini(&m->type->desc, m->opts);
    vv_dealloc(m->opts);
    vv_dealloc(m->name);
    vv_dealloc(m->tally.sums);
    vv_dealloc(m->tally.counts);
    vv_dealloc(m->tally.values);
    vv_dealloc(m);
}

/* ---- tallies ---- */

void vv_metric_reset(vv_metric *m)
{
    for (int64_t i = 0; i < m->tally.sum_count; i++)
        m->tally.sums[i] = 0.0;
    for (int64_t i = 0; i < m->tally.count_count; i++)
        m->tally.counts[i] = 0;
    m->tally.value_count = 0;
}

vv_status vvi_tally_push(vv_tally *tally, double value)
{
    if (tally->value_count == tally->value_capacity) {
        int64_t capacity = tally->value_capacity ? 2 * tally->value_capacity : 256;
        VV_TRY(vv_realloc_array(&tally->values, (size_t)capacity, sizeof(double)));
        tally->value_capacity = capacity;
    }
    tally->values[tally->value_count++] = value;
    return VV_OK;
}

vv_status vv_metric_merge(vv_metric *m, const vv_tally *part)
{
    if (part->sum_count != m->tally.sum_count || part->count_count != m->tally.count_count)
        return vv_fail(VV_EINVAL, "metric %s: the part's tally is of another metric or model",
                       m->name);
    for (int64_t i = 0, n = part->value_count; i < n; i++)
        VV_TRY(vvi_tally_push(&m->tally, part->values[i]));
    for (int64_t i = 0; i < part->sum_count; i++)
        m->tally.sums[i] += part->sums[i];
    for (int64_t i = 0; i < part->count_count; i++)
        m->tally.counts[i] += part->counts[i];
    return VV_OK;
}

vv_status vv_metric_build(const vv_metric *m, vv_node *output, vv_node *target, vv_node **nodes,
                          int *count)
{
    *count = 0;
    for (int i = 0; i < VV_METRIC_NODES; i++)
        nodes[i] = NULL;
    if (!output || !target)
        return vv_fail(VV_EINVAL, "metric %s: output or target is missing", m->name);
    VV_TRY(m->type->build(m, output, target, nodes));
    while (*count < VV_METRIC_NODES && nodes[*count])
        (*count)++;
    return VV_OK;
}

vv_status vv_metric_add(vv_metric *m, vv_node *const *nodes, int count)
{
    const vv_tensor *values[VV_METRIC_NODES] = {NULL};
    for (int i = 0; i < count && i < VV_METRIC_NODES; i++)
        VV_TRY(vv_node_value(nodes[i], &values[i]));
    return vv_fail_within(m->type->add(m, values), "metric %s", m->name);
}

vv_status vv_metric_value(const vv_metric *m, double *out)
{
    *out = (double)NAN;
    return m->type->value(m, out);
}

/* ---- what metrics share ---- */

vv_status vvi_metric_need_classes(const vv_metric *m, int64_t min, int64_t max)
{
    if (m->model->task == VV_TASK_DETECT)
        return vv_fail(VV_EINVAL, "metric %s measures classes, the model finds boxes; use map or "
                                  "map50", m->name);
    if (m->model->task != VV_TASK_CLASSIFY)
        return vv_fail(VV_EINVAL, "metric %s measures classes, the model gives numbers; use mse or "
                                  "spearman", m->name);
    if (m->model->classes >= min && m->model->classes <= max)
        return VV_OK;
    if (min == max)
        return vv_fail(VV_EINVAL, "metric %s is for %lld classes, the model has %lld", m->name,
                       (long long)min, (long long)m->model->classes);
    return vv_fail(VV_EINVAL, "metric %s needs at least %lld classes, the model has %lld", m->name,
                   (long long)min, (long long)m->model->classes);
}

vv_status vvi_metric_need_numbers(const vv_metric *m)
{
    if (m->model->task == VV_TASK_REGRESS)
        return VV_OK;
    return vv_fail(VV_EINVAL, "metric %s measures numbers, the model gives %s", m->name,
                   m->model->task == VV_TASK_DETECT
                       ? "boxes; use map or map50"
                       : "classes; use accuracy or cross_entropy");
}

vv_status vvi_metric_check_classes(const vv_metric *m, const vv_node *output,
                                   const vv_node *target)
{
    char have[96], want[96];
    const int items = vv_node_ndim(output) - 1, ndim = vv_node_ndim(target);
    const bool soft = vv_dtype_is_float(vv_node_dtype(target));
    const int64_t width = items >= 0 ? vv_node_shape(output)[items] : 0;
    const bool wide = soft ? width == m->model->classes : width >= m->model->classes;
    if (items >= 0 && wide && ndim == items + soft &&
        !memcmp(vv_node_shape(output), vv_node_shape(target), (size_t)ndim * sizeof(int64_t)))
        return VV_OK;
    return vv_fail(
        VV_ESHAPE,
        "metric %s: target %s does not fit output %s of %lld classes; a class index has one "
        "dimension less, a soft target the same shape",
        m->name, vv_shape_text(ndim, vv_node_shape(target), have, sizeof have),
        vv_shape_text(items + 1, vv_node_shape(output), want, sizeof want),
        (long long)m->model->classes);
}

vv_node *vvi_metric_logits(const vv_metric *m, vv_node *output)
{
    const int last = output ? vv_node_ndim(output) - 1 : 0;
    if (!output || vv_node_shape(output)[last] == m->model->classes)
        return output;
    return vv_slice(output, last, 0, m->model->classes, 1);
}

static int64_t index_at(const vv_tensor *t, int64_t i)
{
    if (t->dtype == VV_I32)
        return ((const int32_t *)t->data)[i];
    return (int64_t)vv_tensor_get(t, i);
}

int64_t vvi_metric_class(const vv_metric *m, const vv_tensor *target, int64_t item)
{
    if (!vv_dtype_is_float(target->dtype)) {
        const int64_t class = index_at(target, item);
        return class == m->model->ignore_index ? VVI_NO_CLASS : class;
    }
    const int64_t classes = m->model->classes;
    double best = vv_tensor_get(target, item * classes), mass = 0.0;
    int64_t at = 0;
    for (int64_t k = 0; k < classes; k++) {
        const double share = vv_tensor_get(target, item * classes + k);
        mass += fabs(share);
        at = share > best ? k : at;
        best = share > best ? share : best;
    }
    return mass == 0.0 ? VVI_NO_CLASS : at;
}

vv_status vvi_metric_built(vv_node *output, vv_node **nodes, int count)
{
    for (int i = 0; i < count; i++)
        if (!nodes[i])
            return vv_graph_status(vv_node_graph(output));
    return VV_OK;
}
