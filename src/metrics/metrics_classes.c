/* metrics_classes.c - metrics that compare the class with the largest logit to the target's:
 * accuracies, overlap (mIoU, Dice), F1, Matthews. */
#include <math.h>

#include <vivace/memory.h>

#include "metrics/metric_impl.h"

/* nodes: class given to each item, and the target. */
static vv_status build_guess(const vv_metric *m, vv_node *output, vv_node *target, vv_node **nodes)
{
    VV_TRY(vvi_metric_check_classes(m, output, target));
    nodes[0] = vv_argmax(vvi_metric_logits(m, output), -1);
    nodes[1] = target;
    return vvi_metric_built(output, nodes, 2);
}

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : (double)NAN;
}

/* ---- accuracies: counts are {right, items} ---- */

static vv_status size_accuracy(const vv_metric *m, int64_t *sums, int64_t *counts)
{
    *sums = 0;
    *counts = 2;
    return vvi_metric_need_classes(m, 1, INT64_MAX);
}

/* values[0] has `k` guesses for each item. */
static vv_status add_accuracy(vv_metric *m, const vv_tensor *const *values)
{
    const vv_tensor *guess = values[0];
    const bool soft = vv_dtype_is_float(values[1]->dtype);
    const int64_t items = soft ? values[1]->count / m->model->classes : values[1]->count;
    const int64_t k = items ? guess->count / items : 0;
    const int32_t *at = guess->data;
    for (int64_t i = 0; i < items; i++, at += k) {
        const int64_t class = vvi_metric_class(m, values[1], i);
        if (class == VVI_NO_CLASS)
            continue;
        m->tally.counts[1]++;
        for (int64_t j = 0; j < k; j++)
            m->tally.counts[0] += at[j] == class;
    }
    return VV_OK;
}

static vv_status value_accuracy(const vv_metric *m, double *out)
{
    *out = share(m->tally.counts[0], m->tally.counts[1]);
    return VV_OK;
}

static vv_status build_topk(const vv_metric *m, vv_node *output, vv_node *target, vv_node **nodes)
{
    const vvi_topk_opts *opts = m->opts;
    VV_TRY(vvi_metric_check_classes(m, output, target));
    const int64_t k = opts->k < m->model->classes ? opts->k : m->model->classes;
    vv_topk(vv_cast(vvi_metric_logits(m, output), VV_F32), k, &nodes[0]);
    nodes[1] = target;
    return vvi_metric_built(output, nodes, 2);
}

/* ---- metrics over classes: counts are {hits, guesses, targets} of each class ---- */

static vv_status size_per_class(const vv_metric *m, int64_t *sums, int64_t *counts)
{
    *sums = 0;
    *counts = 3 * m->model->classes;
    return vvi_metric_need_classes(m, 1, INT64_MAX / 3);
}

/* Items first..last of the microbatch into `counts`; *counted = how many have a class. */
static vv_status count_classes(const vv_metric *m, const vv_tensor *const *values, int64_t first,
                               int64_t last, int64_t *counts, int64_t *counted)
{
    const int64_t classes = m->model->classes;
    const int32_t *guess = values[0]->data;
    *counted = 0;
    for (int64_t i = first; i < last; i++) {
        const int64_t class = vvi_metric_class(m, values[1], i);
        if (class == VVI_NO_CLASS)
            continue;
        if (class < 0 || class >= classes)
            return vv_fail(VV_EINVAL,
                           "the target of item %lld is %lld, classes are 0..%lld (and %lld is "
                           "ignored)", (long long)i, (long long)class, (long long)(classes - 1),
                           (long long)m->model->ignore_index);
        counts[3 * guess[i] + 1]++;
        counts[3 * class + 2]++;
        counts[3 * class] += guess[i] == class;
        (*counted)++;
    }
    return VV_OK;
}

static vv_status add_per_class(vv_metric *m, const vv_tensor *const *values)
{
    int64_t counted;
    return count_classes(m, values, 0, values[0]->count, m->tally.counts, &counted);
}

/* Mean over the classes that occur of intersection / union. */
static vv_status value_miou(const vv_metric *m, double *out)
{
    const int64_t *c = m->tally.counts;
    double sum = 0.0;
    int64_t present = 0;
    for (int64_t k = 0; k < m->model->classes; k++, c += 3) {
        const int64_t all = c[1] + c[2] - c[0];
        if (all == 0)
            continue;
        sum += (double)c[0] / (double)all;
        present++;
    }
    *out = present ? sum / (double)present : (double)NAN;
    return VV_OK;
}

static vv_status size_f1(const vv_metric *m, int64_t *sums, int64_t *counts)
{
    VV_TRY(size_per_class(m, sums, counts));
    return vvi_metric_need_classes(m, 2, 2);
}

/* TP / (TP + (FP + FN) / 2) of class 1. */
static vv_status value_f1(const vv_metric *m, double *out)
{
    const int64_t *none = m->tally.counts, *c = none + 3;
    const int64_t both = c[1] + c[2]; /* 2 TP + FP + FN */
    if (both)
        *out = 2.0 * (double)c[0] / (double)both;
    else
        *out = none[2] ? 0.0 : (double)NAN;
    return VV_OK;
}

/* Correlation of guess and target, from the confusion matrix's margins (Gorodkin 2004, for two
   classes Matthews 1975): (c s - sum p t) / sqrt((s^2 - sum p^2) (s^2 - sum t^2)). */
static vv_status value_matthews(const vv_metric *m, double *out)
{
    const int64_t *c = m->tally.counts;
    double right = 0.0, all = 0.0, pt = 0.0, pp = 0.0, tt = 0.0;
    for (int64_t k = 0; k < m->model->classes; k++, c += 3) {
        const double p = (double)c[1], t = (double)c[2];
        right += (double)c[0];
        all += t;
        pt += p * t;
        pp += p * p;
        tt += t * t;
    }
    const double spread = (all * all - pp) * (all * all - tt);
    if (all > 0.0)
        *out = spread > 0.0 ? (right * all - pt) / sqrt(spread) : 0.0;
    return VV_OK;
}

/* ---- Dice: a mean over samples, so that its tally is one sum and one count ---- */

static vv_status size_dice(const vv_metric *m, int64_t *sums, int64_t *counts)
{
    *sums = *counts = 1;
    return vvi_metric_need_classes(m, 2, INT64_MAX / 3);
}

/* Mean over the classes but 0 of 2 TP / (2 TP + FP + FN); 1 for one that is neither there nor
   guessed. */
static double dice_of(const int64_t *c, int64_t classes)
{
    double sum = 0.0;
    for (int64_t k = 1; k < classes; k++) {
        const int64_t both = c[3 * k + 1] + c[3 * k + 2];
        sum += both ? 2.0 * (double)c[3 * k] / (double)both : 1.0;
    }
    return sum / (double)(classes - 1);
}

static vv_status add_dice(vv_metric *m, const vv_tensor *const *values)
{
    const int64_t classes = m->model->classes, samples = values[0]->ndim ? values[0]->shape[0] : 1;
    const int64_t size = samples ? values[0]->count / samples : 0;
    int64_t *counts = NULL;
    VV_TRY(vv_alloc_array(&counts, (size_t)(3 * classes), sizeof *counts));
    vv_status status = VV_OK;
    for (int64_t i = 0; i < samples && status == VV_OK; i++) {
        int64_t counted = 0;
        for (int64_t k = 0; k < 3 * classes; k++)
            counts[k] = 0;
        status = count_classes(m, values, i * size, (i + 1) * size, counts, &counted);
        if (status != VV_OK || !counted)
            continue;
        m->tally.sums[0] += dice_of(counts, classes);
        m->tally.counts[0]++;
    }
    vv_dealloc(counts);
    return status;
}

static vv_status value_dice(const vv_metric *m, double *out)
{
    if (m->tally.counts[0])
        *out = m->tally.sums[0] / (double)m->tally.counts[0];
    return VV_OK;
}

/* ---- the table's rows ---- */

static const vv_field no_fields[] = {{.name = NULL}};
static const vv_field topk_fields[] = {
    {"k", "How many of the largest logits count; as a name: top3_accuracy.", VV_FIELD_INT,
     offsetof(vvi_topk_opts, k), "5", 1, 1e6, NULL},
    {.name = NULL},
};

#define DESC(text, help, paper, where) {"metric", text, help, paper, where, no_fields, 0}
const vv_metric_desc vvi_metric_accuracy = {
    DESC("accuracy", "Share of items whose largest logit is the target's class.", "", "any"),
    true, size_accuracy, build_guess, add_accuracy, value_accuracy};
const vv_metric_desc vvi_metric_masked_accuracy = {
    DESC("masked_accuracy",
         "Accuracy over the items that are not ignored (masked language models).", "", "nlp"),
    true, size_accuracy, build_guess, add_accuracy, value_accuracy};
const vv_metric_desc vvi_metric_topk = {
    {"metric", "topk_accuracy", "Share of items whose class is among the k largest logits.", "",
     "any", topk_fields, sizeof(vvi_topk_opts)},
    true, size_accuracy, build_topk, add_accuracy, value_accuracy};
const vv_metric_desc vvi_metric_miou = {
    DESC("miou", "Mean over classes of intersection over union, over all pixels together.", "",
         "cv"),
    true, size_per_class, build_guess, add_per_class, value_miou};
const vv_metric_desc vvi_metric_dice = {
    DESC("dice", "Mean over samples and foreground classes of the Dice coefficient.",
         "Dice, Measures of the Amount of Ecologic Association Between Species (1945)", "cv"),
    true, size_dice, build_guess, add_dice, value_dice};
const vv_metric_desc vvi_metric_f1 = {
    DESC("f1", "Harmonic mean of precision and recall of class 1, for two classes.", "", "any"),
    true, size_f1, build_guess, add_per_class, value_f1};
const vv_metric_desc vvi_metric_matthews = {
    DESC("matthews", "Matthews correlation of guess and target, for any number of classes.",
         "Gorodkin, Comparing two K-category assignments by a K-category correlation coefficient "
         "(2004)", "any"),
    true, size_per_class, build_guess, add_per_class, value_matthews};
