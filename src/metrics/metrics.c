/* metrics.c - accuracy, top-5 accuracy and cross-entropy as sums over the items of a batch.
 *
 * Items whose target is the ignore index (or an all-zero distribution) are neither right nor wrong:
 * they are not counted. */
#include <vivace/model.h>

#include <string.h>

static bool is_soft(const vv_node *target)
{
    return vv_dtype_is_float(vv_node_dtype(target));
}

/* 1 for each item that counts, 0 for the others; f32 with one element per item. */
static vv_node *counted(const vv_model *model, vv_node *target)
{
    static const int last[] = {-1};
    vv_graph *graph = vv_node_graph(target);
    vv_node *skip;

    if (is_soft(target)) {
        vv_node *mass = vv_sum(vv_abs(vv_cast(target, VV_F32)), last, 1, false);

        skip = vv_equal(mass, vv_scalar(graph, 0.0));
    } else {
        skip = vv_equal(vv_cast(target, VV_F32), vv_scalar(graph, (double)model->ignore_index));
    }
    return vv_affine(vv_cast(skip, VV_F32), -1.0, 1.0);
}

/* Class of each item as f32 (exact up to 2^24 classes): the target itself, or its largest share. */
static vv_node *class_of(vv_node *target)
{
    return vv_cast(is_soft(target) ? vv_argmax(target, -1) : target, VV_F32);
}

static vv_status check_shapes(const char *metric, vv_node *output, vv_node *target)
{
    char have[96], want[96];
    int items, ndim;

    if (!output || !target)
        return vv_fail(VV_EINVAL, "%s: output or target is missing", metric);
    items = vv_node_ndim(output) - 1;
    ndim = vv_node_ndim(target);
    if (items >= 0 && ndim == items + is_soft(target) &&
        !memcmp(vv_node_shape(output), vv_node_shape(target), (size_t)ndim * sizeof(int64_t)))
        return VV_OK;
    return vv_fail(
        VV_ESHAPE,
        "%s: target %s does not fit output %s; a class index has one dimension less, a soft "
        "target the same shape",
        metric, vv_shape_text(ndim, vv_node_shape(target), have, sizeof have),
        vv_shape_text(items + 1, vv_node_shape(output), want, sizeof want));
}

/* The sums of a metric: items given, weighted by whether they count. */
static vv_status give(vv_node *items, vv_node *mask, vv_node **sum, vv_node **count)
{
    *sum = vv_sum_all(vv_mul(items, mask));
    *count = vv_sum_all(mask);
    return *sum && *count ? VV_OK : vv_graph_status(vv_node_graph(mask));
}

static vv_status build_accuracy(const vv_model *model, vv_node *output, vv_node *target,
                                vv_node **sum, vv_node **count)
{
    vv_node *guess, *right, *mask;

    VV_TRY(check_shapes("accuracy", output, target));
    mask = counted(model, target);
    guess = vv_cast(vv_argmax(output, -1), VV_F32);
    right = vv_cast(vv_equal(guess, class_of(target)), VV_F32);
    return give(right, mask, sum, count);
}

static vv_status build_top5(const vv_model *model, vv_node *output, vv_node *target, vv_node **sum,
                            vv_node **count)
{
    static const int last[] = {-1};
    vv_node *guesses = NULL, *right, *mask;
    int64_t classes, shape[VV_MAX_DIMS];
    int ndim;

    VV_TRY(check_shapes("top5_accuracy", output, target));
    ndim = vv_node_ndim(output);
    classes = vv_node_shape(output)[ndim - 1];
    for (int i = 0; i < ndim; i++)
        shape[i] = i < ndim - 1 ? vv_node_shape(output)[i] : 1;
    mask = counted(model, target);
    vv_topk(vv_cast(output, VV_F32), classes < 5 ? classes : 5, &guesses);
    right = vv_equal(vv_cast(guesses, VV_F32), vv_reshape(class_of(target), ndim, shape));
    return give(vv_sum(vv_cast(right, VV_F32), last, 1, false), mask, sum, count);
}

static vv_status build_cross_entropy(const vv_model *model, vv_node *output, vv_node *target,
                                     vv_node **sum, vv_node **count)
{
    VV_TRY(check_shapes("cross_entropy", output, target));
    return give(vv_cross_entropy(output, target, NULL, model->ignore_index), counted(model, target),
                sum, count);
}

static const vv_metric_desc accuracy = {
    "accuracy", "Share of items whose largest logit is the target's class.", true, build_accuracy};
static const vv_metric_desc top5_accuracy = {
    "top5_accuracy", "Share of items whose class is among the five largest logits.", true,
    build_top5};
static const vv_metric_desc cross_entropy = {"cross_entropy",
                                             "Mean negative log-likelihood of the target in nats.",
                                             false, build_cross_entropy};

static const vv_metric_desc *const table[] = {&accuracy, &top5_accuracy, &cross_entropy, NULL};

const vv_metric_desc *const *vv_metric_table(void)
{
    return table;
}

const vv_metric_desc *vv_metric_find(const char *name)
{
    for (int i = 0; table[i]; i++)
        if (!strcmp(table[i]->name, name))
            return table[i];
    return NULL;
}
