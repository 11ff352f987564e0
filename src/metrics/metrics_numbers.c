/* metrics_numbers.c - metrics that are sums of numbers, or need every item's: cross-entropy,
 * perplexity, squared error, rank correlation. */
#include <math.h>
#include <stdlib.h>

#include <vivace/memory.h>

#include "metrics/metric_impl.h"

/* ---- cross-entropy: without class weights, for it measures the model, not the training ---- */

static vv_status size_nll(const vv_metric *m, int64_t *sums, int64_t *counts)
{
    *sums = *counts = 1;
    return vvi_metric_need_classes(m, 1, INT64_MAX);
}

static vv_status build_nll(const vv_metric *m, vv_node *output, vv_node *target, vv_node **nodes)
{
    VV_TRY(vvi_metric_check_classes(m, output, target));
    nodes[0] = vv_cross_entropy(output, target, NULL, m->model->ignore_index);
    nodes[1] = target;
    return vvi_metric_built(output, nodes, 2);
}

static vv_status add_nll(vv_metric *m, const vv_tensor *const *values)
{
    for (int64_t i = 0; i < values[0]->count; i++) {
        if (vvi_metric_class(m, values[1], i) == VVI_NO_CLASS)
            continue;
        m->tally.sums[0] += vv_tensor_get(values[0], i);
        m->tally.counts[0]++;
    }
    return VV_OK;
}

static vv_status value_mean(const vv_metric *m, double *out)
{
    if (m->tally.counts[0])
        *out = m->tally.sums[0] / (double)m->tally.counts[0];
    return VV_OK;
}

static vv_status value_perplexity(const vv_metric *m, double *out)
{
    VV_TRY(value_mean(m, out));
    *out = exp(*out);
    return VV_OK;
}

/* ---- numbers: output and target of the same count; [N,1] and [N] fit ---- */

static vv_status size_numbers(const vv_metric *m, int64_t *sums, int64_t *counts)
{
    *sums = *counts = 1;
    return vvi_metric_need_numbers(m);
}

static vv_status build_numbers(const vv_metric *m, vv_node *output, vv_node *target,
                               vv_node **nodes)
{
    vv_node *fitting = vv_model_numbers(output, target);
    if (!fitting)
        return vv_fail_within(vv_graph_status(vv_node_graph(output)), "metric %s", m->name);
    nodes[0] = fitting;
    nodes[1] = target;
    return VV_OK;
}

static vv_status add_squares(vv_metric *m, const vv_tensor *const *values)
{
    for (int64_t i = 0; i < values[0]->count; i++) {
        const double off = vv_tensor_get(values[0], i) - vv_tensor_get(values[1], i);
        m->tally.sums[0] += off * off;
    }
    m->tally.counts[0] += values[0]->count;
    return VV_OK;
}

/* ---- Spearman: the pairs are kept, {guess, target} after {guess, target} ---- */

static vv_status size_pairs(const vv_metric *m, int64_t *sums, int64_t *counts)
{
    *sums = *counts = 0;
    return vvi_metric_need_numbers(m);
}

static vv_status add_pairs(vv_metric *m, const vv_tensor *const *values)
{
    for (int64_t i = 0; i < values[0]->count; i++) {
        VV_TRY(vvi_tally_push(&m->tally, vv_tensor_get(values[0], i)));
        VV_TRY(vvi_tally_push(&m->tally, vv_tensor_get(values[1], i)));
    }
    return VV_OK;
}

typedef struct placed {
    double value;
    int64_t item;
} placed;

static int by_value(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

/* rank[i] = place of item i among all, less the mean place; equals share the mean of their
   places. false if an item is NaN. */
static bool rank_items(const double *pairs, int64_t count, placed *order, double *rank)
{
    for (int64_t i = 0; i < count; i++) {
        order[i] = (placed){pairs[2 * i], i};
        if (isnan(order[i].value))
            return false;
    }
    qsort(order, (size_t)count, sizeof *order, by_value);
    for (int64_t first = 0, last; first < count; first = last) {
        for (last = first + 1; last < count && order[last].value == order[first].value; last++)
            ;
        const double place = 0.5 * (double)(first + last - 1) - 0.5 * (double)(count - 1);
        for (int64_t i = first; i < last; i++)
            rank[order[i].item] = place;
    }
    return true;
}

/* Pearson's correlation of the ranks; NaN with fewer than two items, or where all are equal. */
static vv_status value_spearman(const vv_metric *m, double *out)
{
    const int64_t count = m->tally.value_count / 2;
    const double *pairs = m->tally.values;
    placed *order = NULL;
    double *a = NULL, *b = NULL, aa = 0.0, bb = 0.0, ab = 0.0;
    vv_status status = VV_OK;
    VV_GO(vv_alloc_array(&order, (size_t)count, sizeof *order));
    VV_GO(vv_alloc_array(&a, (size_t)count, sizeof *a));
    VV_GO(vv_alloc_array(&b, (size_t)count, sizeof *b));
    if (count > 1 && rank_items(pairs, count, order, a) && rank_items(pairs + 1, count, order, b)) {
        for (int64_t i = 0; i < count; i++) {
            aa += a[i] * a[i];
            bb += b[i] * b[i];
            ab += a[i] * b[i];
        }
        if (aa > 0.0 && bb > 0.0)
            *out = ab / (sqrt(aa) * sqrt(bb));
    }
out:
    vv_dealloc(order);
    vv_dealloc(a);
    vv_dealloc(b);
    return status;
}

/* ---- the table's rows ---- */

static const vv_field no_fields[] = {{.name = NULL}};

#define DESC(text, help, paper, where) {"metric", text, help, paper, where, no_fields, 0}
const vv_metric_desc vvi_metric_cross_entropy = {
    DESC("cross_entropy", "Mean negative log-likelihood of the target in nats.", "", "any"),
    false, size_nll, build_nll, add_nll, value_mean};
const vv_metric_desc vvi_metric_perplexity = {
    DESC("perplexity", "Exponential of the cross-entropy: as if guessing among so many.", "",
         "nlp"),
    false, size_nll, build_nll, add_nll, value_perplexity};
const vv_metric_desc vvi_metric_mse = {
    DESC("mse", "Mean squared difference of output and target.", "", "any"),
    false, size_numbers, build_numbers, add_squares, value_mean};
const vv_metric_desc vvi_metric_spearman = {
    DESC("spearman", "Correlation of the ranks of output and target, equals sharing a rank.",
         "Spearman, The Proof and Measurement of Association between Two Things (1904)", "any"),
    true, size_pairs, build_numbers, add_pairs, value_spearman};
