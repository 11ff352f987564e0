/* test_metrics.c - what must hold of metrics: they give what PyTorch, torchmetrics, scikit-learn
 * and SciPy give, whatever the size of batches, the last one being smaller; tallies of parts add up
 * to that of the whole; ignored items are in nothing; soft targets count as their largest share;
 * outputs may be wider than the classes; where nothing counted the value is NaN; wrong names,
 * models and shapes are told. */
#include "vv_test.h"

#include <vivace/metrics.h>

#include "golden/metrics_golden.h"

typedef struct fixture {
    vv_graph *graph;
    vv_model *model;
} fixture;

/* classes 0 = numbers. */
static fixture open_fixture(int64_t classes)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_module *net = NULL;
    fixture f = {NULL, NULL};
    assert_ok(vv_graph_new(&f.graph, &opts));
    assert_ok(vv_identity_new(&net));
    if (classes)
        assert_ok(vv_classifier_new(&f.model, net, classes));
    else
        assert_ok(vv_regressor_new(&f.model, net));
    return f;
}

static void close_fixture(fixture *f)
{
    vv_model_free(f->model);
    vv_graph_free(f->graph);
}

/* Data of one test: outputs and targets of `count` samples. */
typedef struct data {
    int64_t count;
    int output_ndim, target_ndim; /* without the samples' axis */
    int64_t output_shape[4], target_shape[4];
    const float *output;
    vv_dtype target_dtype;
    const void *target;
} data;

static vv_node *rows(fixture *f, vv_dtype dtype, int ndim, const int64_t *inner, const void *all,
                     int64_t first, int64_t count)
{
    int64_t shape[5] = {count}, size = 1;
    for (int i = 0; i < ndim; i++)
        size *= shape[i + 1] = inner[i];
    return vv_data(f->graph, dtype, ndim + 1, shape,
                   (const char *)all + (size_t)(first * size) * vv_dtype_size(dtype));
}

static vv_status add_rows(fixture *f, vv_metric *metric, const data *d, int64_t first,
                          int64_t count)
{
    vv_node *nodes[VV_METRIC_NODES];
    int node_count;
    vv_graph_reset(f->graph);
    vv_node *output = rows(f, VV_F32, d->output_ndim, d->output_shape, d->output, first, count);
    vv_node *target = rows(f, d->target_dtype, d->target_ndim, d->target_shape, d->target, first,
                           count);
    VV_TRY(vv_graph_status(f->graph));
    VV_TRY(vv_metric_build(metric, output, target, nodes, &node_count));
    VV_TRY(vv_eval(f->graph, nodes, node_count));
    return vv_metric_add(metric, nodes, node_count);
}

/* In batches of 1, of 7, and all at once; and as two tallies that are merged. */
static void check(int64_t classes, const char *name, const data *d, double expected)
{
    const int64_t sizes[] = {1, 7, d->count};
    fixture f = open_fixture(classes);
    for (int i = 0; i < 4; i++) {
        vv_metric *metric, *part;
        double value;
        assert_ok(vv_metric_make(&metric, name, f.model));
        assert_ok(vv_metric_make(&part, name, f.model));
        const int64_t size = sizes[i % 3];
        for (int64_t first = 0; first < d->count; first += size)
            assert_ok(add_rows(&f, i == 3 && first > 2 ? part : metric, d, first,
                               d->count - first < size ? d->count - first : size));
        if (i == 3) {
            assert_ok(vv_metric_merge(metric, &part->tally));
            assert_string_equal(metric->name, name);
        }
        assert_ok(vv_metric_value(metric, &value));
        if (isnan(expected))
            assert_true(isnan(value));
        else
            assert_near(value, expected, 1e-6, 1e-6);
        vv_metric_reset(metric); /* then it is as new */
        assert_ok(add_rows(&f, metric, d, 0, d->count));
        assert_ok(vv_metric_value(metric, &value));
        assert_true(isnan(expected) || fabs(value - expected) <= 1e-6 * (1.0 + fabs(expected)));
        vv_metric_free(metric);
        vv_metric_free(part);
    }
    close_fixture(&f);
}

#define CLASSES(n, k, logits, index) {n, 1, 0, {k}, {0}, logits, VV_I32, index}

static void classification(void **state)
{
    (void)state;
    const data d = CLASSES(G_ROWS, G_CLASSES, g_logits, g_target);
    check(G_CLASSES, "accuracy", &d, g_top1);
    check(G_CLASSES, "masked_accuracy", &d, g_top1);
    check(G_CLASSES, "top1_accuracy", &d, g_top1);
    check(G_CLASSES, "top3", &d, g_top3);
    check(G_CLASSES, "topk_accuracy", &d, g_top5);
    check(G_CLASSES, "top5_accuracy", &d, g_top5);
    check(G_CLASSES, "top100_accuracy", &d, 1.0); /* more than there are */
    check(G_CLASSES, "cross_entropy", &d, g_nll);
    check(G_CLASSES, "perplexity", &d, g_perplexity);
    check(G_CLASSES, "matthews", &d, g_matthews);
    int64_t wide[G_ROWS];
    for (int i = 0; i < G_ROWS; i++)
        wide[i] = g_target[i];
    data longs = d;
    longs.target_dtype = VV_I64;
    longs.target = wide;
    check(G_CLASSES, "accuracy", &longs, g_top1);
    check(G_CLASSES, "cross_entropy", &longs, g_nll);
}

/* Tables of tokens are padded: the output has a column more than there are classes. Nobody is
   taken to have guessed it; the loss counts it, and so does the cross-entropy. */
static void wider_outputs(void **state)
{
    (void)state;
    static const float logits[] = {2, 0, 0, 9, 0, 1, 0, 0, 0, 1, 0, 5, 1, 0, 0, 0};
    static const int32_t index[] = {0, 1, 2, -100};
    const data d = CLASSES(4, 4, logits, index);
    check(3, "accuracy", &d, 2.0 / 3);
    check(3, "top2_accuracy", &d, 2.0 / 3);
    check(3, "miou", &d, (1.0 / 1 + 1.0 / 2 + 0.0) / 3);
    check(3, "cross_entropy", &d,
          (log(exp(2) + 2 + exp(9)) - 2 + log(3 + exp(1)) - 1 + log(2 + exp(1) + exp(5))) / 3);
}

static void two_classes(void **state)
{
    (void)state;
    const data d = CLASSES(G_ROWS, 2, g_two, g_binary);
    check(2, "f1", &d, g_f1);
    check(2, "matthews", &d, g_matthews_two);
}

static void segmentation(void **state)
{
    (void)state;
    const data d = {G_IMAGES, 3, 2, {G_SIDE, G_SIDE, G_KINDS}, {G_SIDE, G_SIDE}, g_pixels, VV_I32,
                    g_mask};
    check(G_KINDS, "miou", &d, g_miou);
    check(G_KINDS, "dice", &d, g_dice);
    /* The loss of a model takes such targets too: one item a pixel. */
    fixture f = open_fixture(G_KINDS);
    const int64_t shape[] = {1, G_SIDE, G_SIDE};
    vv_tensor *mask;
    assert_ok(vv_tensor_from(&mask, VV_I32, 3, shape, g_mask + 2 * G_SIDE * G_SIDE));
    assert_int_equal(vv_model_loss_items(f.model, mask), G_SIDE * (G_SIDE - 1));
    vv_node *loss = vv_model_loss(
        f.model,
        vv_data(f.graph, VV_F32, 4, (const int64_t[]){1, G_SIDE, G_SIDE, G_KINDS}, g_pixels),
        vv_leaf(f.graph, mask));
    assert_int_equal(vv_node_ndim(loss), 3);
    assert_int_equal(vv_node_count(loss), G_SIDE * G_SIDE);
    vv_tensor_free(mask);
    close_fixture(&f);
}

static void numbers(void **state)
{
    (void)state;
    data d = {G_ROWS, 0, 0, {1}, {1}, g_score, VV_F32, g_truth};
    for (int i = 0; i < 4; i++) { /* [N] and [N,1] on either side */
        d.output_ndim = i & 1;
        d.target_ndim = i >> 1;
        check(0, "mse", &d, g_mse);
        check(0, "spearman", &d, g_spearman);
    }
    fixture f = open_fixture(0);
    vv_tensor *truth;
    double loss;
    assert_ok(vv_tensor_from(&truth, VV_F32, 1, (const int64_t[]){G_ROWS}, g_truth));
    assert_int_equal(vv_model_loss_items(f.model, truth), G_ROWS);
    assert_ok(vv_model_check_target(f.model, truth));
    vv_node *output = vv_data(f.graph, VV_F32, 2, (const int64_t[]){G_ROWS, 1}, g_score);
    vv_node *target = vv_leaf(f.graph, truth);
    assert_ok(vv_node_item(vv_mean_all(vv_model_loss(f.model, output, target)), &loss));
    assert_near(loss, g_mse, 0.0, 1e-6);
    assert_null(vv_model_dense_target(f.model, output, target)); /* nothing to smooth */
    assert_fails(vv_graph_status(f.graph), VV_EINVAL);
    assert_says("numbers");
    vv_graph_reset(f.graph);
    output = vv_data(f.graph, VV_F32, 2, (const int64_t[]){1, 2}, g_score);
    assert_null(vv_model_loss(f.model, output, vv_leaf(f.graph, truth)));
    assert_fails(vv_graph_status(f.graph), VV_ESHAPE);
    assert_says("[23]");
    vv_tensor_set(truth, 3, (double)NAN);
    assert_fails(vv_model_check_target(f.model, truth), VV_EINVAL);
    assert_says("row 3");
    vv_tensor_free(truth);
    close_fixture(&f);
}

/* A class that is ignored though the model may guess it; soft targets; an all-zero row has none. */
static void ignored_and_soft(void **state)
{
    (void)state;
    static const float logits[] = {9, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6,
                                   5, 1, 6, 2, 3, 4, 4, 6, 5, 3, 2, 1};
    static const float soft[] = {0.9f, 0.1f, 0, 0, 0, 0, 0.25f, 0, 0, 0,    0,    0.75f,
                                 0,    0,    0, 0, 0, 0, 0.5f,  0, 0, 0.4f, 0.1f, 0};
    static const int32_t target[] = {0, 5, 0, 0};
    fixture f = open_fixture(6);
    const data plain = CLASSES(4, 6, logits, target);
    vv_metric *metric;
    double value;
    f.model->ignore_index = 0;
    assert_ok(vv_metric_make(&metric, "accuracy", f.model));
    assert_ok(add_rows(&f, metric, &plain, 0, 4));
    assert_ok(vv_metric_value(metric, &value));
    assert_near(value, 1.0, 0.0, 0.0);
    assert_int_equal(metric->tally.counts[1], 1);
    vv_metric_free(metric);
    close_fixture(&f);

    const data d = {4, 1, 1, {6}, {6}, logits, VV_F32, soft};
    check(6, "accuracy", &d, 2.0 / 3.0);
    check(6, "top3_accuracy", &d, 1.0);
    double nll = 0.0;
    for (int i = 0; i < 4; i++) {
        double sum = 0.0;
        for (int k = 0; k < 6; k++)
            sum += exp((double)logits[6 * i + k]);
        for (int k = 0; k < 6; k++)
            nll += (double)soft[6 * i + k] * (log(sum) - (double)logits[6 * i + k]);
    }
    check(6, "cross_entropy", &d, nll / 3.0);
}

/* Uneven batches weigh by their items: the mean of the batches' means is another number. */
static void weighs_by_count(void **state)
{
    (void)state;
    static const float score[] = {1, 2, 3, 4, 10}, zero[] = {0, 0, 0, 0, 0};
    data d = {5, 0, 0, {1}, {1}, score, VV_F32, zero};
    fixture f = open_fixture(0);
    vv_metric *metric;
    double value;
    assert_ok(vv_metric_make(&metric, "mse", f.model));
    for (int64_t first = 0; first < 5; first += 2) /* 2, 2, 1 */
        assert_ok(add_rows(&f, metric, &d, first, first == 4 ? 1 : 2));
    assert_ok(vv_metric_value(metric, &value));
    assert_near(value, 26.0, 1e-12, 0.0); /* not (2.5 + 12.5 + 100) / 3 */
    vv_metric_free(metric);
    close_fixture(&f);
}

static void nothing_counts(void **state)
{
    (void)state;
    static const float logits[] = {1, 2, 3, 0, 1, 0, 0, 1, 2, 1, 3, 1};
    static const int32_t none[] = {-100, -100, -100, -100, -100, -100};
    static const int32_t zeros[] = {0, 0, 0, 0, 0, 0};
    static const float first[] = {2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1};
    static const float nan[] = {1, NAN, 2, 0, 3, 1}, rise[] = {1, 2, 3, 4, 5, 6};
    static const float same[] = {2, 2, 2, 2, 2, 2};
    static const char *const names[] = {"accuracy", "top2",  "cross_entropy", "perplexity", "miou",
                                        "dice",     "f1",    "matthews"};
    const data ignored = CLASSES(6, 2, logits, none), all_first = CLASSES(6, 2, first, zeros);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check(2, names[i], &ignored, (double)NAN);
    check(2, "f1", &all_first, 0.0); /* no positive anywhere */
    check(2, "matthews", &all_first, 0.0);
    check(2, "miou", &all_first, 1.0); /* class 1 is not there and not guessed */
    check(2, "dice", &all_first, 1.0);
    data d = {6, 0, 0, {1}, {1}, nan, VV_F32, rise};
    check(0, "spearman", &d, (double)NAN);
    check(0, "mse", &d, (double)NAN);
    d.output = same;
    check(0, "spearman", &d, (double)NAN);
    d.output = rise;
    check(0, "spearman", &d, 1.0);
    d.count = 1;
    check(0, "spearman", &d, (double)NAN);
}

static void refusals(void **state)
{
    (void)state;
    fixture f = open_fixture(6), g = open_fixture(0);
    vv_metric *metric;
    const char *const classes[] = {"acuracy", "top5_acuracy", "top", "top0", "top5x", ""};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        assert_fails(vv_metric_make(&metric, classes[i], f.model), VV_ENOTFOUND);
    assert_fails(vv_metric_make(&metric, "acuracy", f.model), VV_ENOTFOUND);
    assert_says("did you mean \"accuracy\"");
    assert_null(metric);
    assert_fails(vv_metric_make(&metric, "f1", f.model), VV_EINVAL);
    assert_says("2 classes");
    assert_fails(vv_metric_make(&metric, "mse", f.model), VV_EINVAL);
    assert_says("numbers");
    assert_fails(vv_metric_make(&metric, "accuracy", g.model), VV_EINVAL);
    assert_says("mse");
    assert_null(vv_metric_find("acuracy"));
    for (int i = 0; vv_metric_table()[i]; i++) {
        const vv_metric_desc *desc = vv_metric_table()[i];
        assert_ptr_equal(vv_metric_find(desc->desc.name), desc);
        assert_string_equal(desc->desc.kind, "metric");
        assert_true(desc->desc.summary[0] != '\0');
    }
    assert_ptr_equal(vv_metric_find("top3"), vv_metric_find("topk_accuracy"));
    assert_false(vv_metric_find("perplexity")->higher_is_better);
    assert_true(vv_metric_find("miou")->higher_is_better);

    static const float logits[12] = {0};
    static const int32_t wrong[] = {0, 7};
    data d = CLASSES(2, 6, logits, wrong);
    assert_ok(vv_metric_make(&metric, "miou", f.model));
    assert_fails(add_rows(&f, metric, &d, 0, 2), VV_EINVAL); /* no class 7 */
    assert_says("item 1 is 7");
    d.target_ndim = 1;
    d.target_shape[0] = 2;
    assert_fails(add_rows(&f, metric, &d, 0, 1), VV_ESHAPE);
    assert_says("miou");
    vv_metric *other;
    assert_ok(vv_metric_make(&other, "accuracy", f.model));
    assert_fails(vv_metric_merge(metric, &other->tally), VV_EINVAL);
    vv_metric_free(other);
    vv_metric_free(metric);
    close_fixture(&f);
    close_fixture(&g);
}

/* Every allocation fails once: no crash, no leak. */
static void out_of_memory(void **state)
{
    (void)state;
    const data d = {G_ROWS, 0, 0, {1}, {1}, g_score, VV_F32, g_truth};
    const char *const names[] = {"spearman", "mse"};
    fixture f = open_fixture(0);
    for (int i = 0; i < 2; i++) {
        vv_status status = VV_ENOMEM;
        for (uint64_t nth = 1; status != VV_OK && nth < 500; nth++) {
            vv_metric *metric = NULL;
            double value;
            vv_graph_reset(f.graph);
            const int64_t live = vv_memory_live_count();
            vv_memory_fail_at(nth);
            status = vv_metric_make(&metric, names[i], f.model);
            if (status == VV_OK)
                status = add_rows(&f, metric, &d, 0, G_ROWS);
            if (status == VV_OK)
                status = vv_metric_value(metric, &value);
            vv_memory_fail_at(0);
            if (status != VV_OK && status != VV_ENOMEM)
                fail_msg("allocation %d: %s", (int)nth, vv_error());
            vv_metric_free(metric);
            vv_graph_reset(f.graph);
            if (status != VV_OK && nth < 4)
                assert_int_equal(vv_memory_live_count(), live);
        }
        assert_int_equal(status, VV_OK);
    }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classification), cmocka_unit_test(wider_outputs),
        cmocka_unit_test(two_classes),    cmocka_unit_test(segmentation),
        cmocka_unit_test(numbers),        cmocka_unit_test(ignored_and_soft),
        cmocka_unit_test(weighs_by_count), cmocka_unit_test(nothing_counts),
        cmocka_unit_test(refusals),       cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
