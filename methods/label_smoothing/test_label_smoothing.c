/* test_label_smoothing.c - what must hold: the target is (1 - s) * label + s / K; ignored rows have
 * no loss; a soft target is smoothed once, and smoothing commutes with mixing; the batch's own
 * target is back after the loss, so evaluation never sees a smoothed one; bad settings are
 * refused. */
#include "vv_test.h"

#include <vivace/registry.h>

#include "label_smoothing.h"

static const float logits_row[4] = {2, 1, 0, -1};

typedef struct bench { /* a classifier of 4 classes and a graph with an output */
    vv_model *model;
    vv_graph *graph;
    vv_state state;
} bench;

static void bench_init(bench *b, int64_t rows, const float *logits)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[2] = {rows, 4};
    vv_module *net;
    memset(b, 0, sizeof *b);
    assert_ok(vv_identity_new(&net));
    assert_ok(vv_classifier_new(&b->model, net, 4));
    assert_ok(vv_graph_new(&b->graph, &opts));
    b->state.model = b->model;
    b->state.graph = b->graph;
    b->state.output = vv_data(b->graph, VV_F32, 2, shape, logits);
}

static void bench_fini(bench *b)
{
    vv_graph_free(b->graph);
    vv_model_free(b->model);
}

static vv_node *indices(bench *b, int64_t rows, const int32_t *index)
{
    return vv_data(b->graph, VV_I32, 1, &rows, index);
}

static void node_is(vv_node *node, const double *expected, int count)
{
    const vv_tensor *value = NULL;
    assert_ok(vv_node_value(node, &value));
    assert_int_equal(value->count, count);
    for (int i = 0; i < count; i++)
        assert_near(vv_tensor_get(value, i), expected[i], 1e-6, 0);
}

static double loss_sum(bench *b)
{
    double sum;
    assert_ok(vv_node_item(
        vv_sum_all(vv_model_loss(b->model, b->state.output, b->state.target)), &sum));
    return sum;
}

/* Class 0 of 4, s = 0.1: (0.925, 0.025, 0.025, 0.025), loss 0.590190; unsmoothed 0.440190. */
static void value(void **unused)
{
    (void)unused;
    static const int32_t class_0[] = {0};
    static const double smoothed[] = {0.925, 0.025, 0.025, 0.025}, hard[] = {1, 0, 0, 0};
    static const double uniform[] = {0.25, 0.25, 0.25, 0.25};
    bench b;
    bench_init(&b, 1, logits_row);
    vv_node *target = indices(&b, 1, class_0);
    node_is(vv_smooth_labels(target, 4, 0.1), smoothed, 4);
    node_is(vv_smooth_labels(vv_one_hot(target, 4), 4, 0.1), smoothed, 4);
    node_is(vv_smooth_labels(target, 4, 0.0), hard, 4);
    node_is(vv_smooth_labels(target, 4, 1.0), uniform, 4);
    b.state.target = vv_smooth_labels(target, 4, 0.1);
    assert_near(loss_sum(&b), 0.590190, 1e-6, 0);
    b.state.target = target;
    assert_near(loss_sum(&b), 0.440190, 1e-6, 0);
    assert_null(vv_smooth_labels(target, 4, 1.5));
    assert_says("1.5");
    assert_null(vv_smooth_labels(NULL, 4, 0.1));
    bench_fini(&b);
}

/* Ten classes, 0.1: 0.91 for the right one, 0.01 for each other. */
static void ten_classes(void **unused)
{
    (void)unused;
    static const int32_t class_3[] = {3};
    bench b;
    double expected[10];
    for (int k = 0; k < 10; k++)
        expected[k] = k == 3 ? 0.91 : 0.01;
    bench_init(&b, 1, logits_row);
    node_is(vv_smooth_labels(indices(&b, 1, class_3), 10, 0.1), expected, 10);
    bench_fini(&b);
}

/* The second row has no loss; if all are ignored the loss is 0. An ignore_index that is a class too
   means the same. */
static void ignored_rows(void **unused)
{
    (void)unused;
    static const float logits[] = {2, 1, 0, -1, 5, 0, 0, 0};
    static const int32_t targets[][2] = {{0, -100}, {-100, -100}, {0, 2}};
    static const double sums[] = {0.740190, 0.0, 0.740190};
    vv_method *method = vv_label_smoothing(0.2);
    for (int i = 0; i < 3; i++) {
        bench b;
        bench_init(&b, 2, logits);
        if (i == 2)
            b.model->ignore_index = 2;
        b.state.target = indices(&b, 2, targets[i]);
        assert_ok(method->type->apply(method, VV_EVENT_BEFORE_LOSS, &b.state));
        assert_near(loss_sum(&b), sums[i], 1e-6, 0);
        bench_fini(&b);
    }
    vv_method_free(method);
}

/* The same two rows as tokens of one text: the ignored token has no loss, smoothed or not (case
   B6); the mean over the tokens that have one is the sum. */
static void ignored_tokens(void **unused)
{
    (void)unused;
    static const float logits[] = {2, 1, 0, -1, 5, 0, 0, 0};
    static const int32_t targets[] = {0, -100};
    const int64_t shape[] = {1, 2, 4};
    vv_method *method = vv_label_smoothing(0.2);
    bench b;
    bench_init(&b, 2, logits);
    b.state.output = vv_data(b.graph, VV_F32, 3, shape, logits);
    b.state.target = vv_data(b.graph, VV_I32, 2, shape, targets);
    assert_ok(method->type->apply(method, VV_EVENT_BEFORE_LOSS, &b.state));
    assert_near(loss_sum(&b), 0.740190, 1e-6, 0);
    bench_fini(&b);
    vv_method_free(method);
}

static void soft_targets(void **unused)
{
    (void)unused;
    static const float soft[] = {0.7f, 0.3f, 0, 0};
    static const int32_t pair[] = {0, 1};
    static const double once[] = {0.655, 0.295, 0.025, 0.025};
    const int64_t shape[] = {1, 4};
    bench b;
    bench_init(&b, 1, logits_row);
    node_is(vv_smooth_labels(vv_data(b.graph, VV_F32, 2, shape, soft), 4, 0.1), once, 4);
    vv_node *y0 = vv_smooth_labels(indices(&b, 1, pair), 4, 0.1);
    vv_node *y1 = vv_smooth_labels(indices(&b, 1, pair + 1), 4, 0.1);
    node_is(vv_lerp(y0, y1, vv_scalar(b.graph, 0.3)), once, 4);
    bench_fini(&b);
}

/* Both targets of a mixed batch are smoothed, and both are back afterwards. */
static void restores(void **unused)
{
    (void)unused;
    static const int32_t pair[] = {0, 3};
    static const float weight = 0.3f;
    const int64_t one = 1;
    bench b;
    double first, second;
    bench_init(&b, 1, logits_row);
    vv_method *method = vv_label_smoothing(0.1);
    vv_node *target = b.state.target = indices(&b, 1, pair);
    vv_node *mixed = b.state.mix_target = indices(&b, 1, pair + 1);
    b.state.mix_weight = vv_data(b.graph, VV_F32, 1, &one, &weight);
    assert_ok(method->type->apply(method, VV_EVENT_BEFORE_LOSS, &b.state));
    assert_ptr_not_equal(b.state.target, target);
    first = loss_sum(&b);
    b.state.target = b.state.mix_target;
    second = loss_sum(&b);
    /* Smoothing adds s * (mean of -log p - own -log p): mean is 1.940190. */
    assert_near(first, 0.9 * 0.440190 + 0.1 * 1.940190, 1e-5, 0);
    assert_near(second, 0.9 * 3.440190 + 0.1 * 1.940190, 1e-5, 0);
    assert_ok(method->type->apply(method, VV_EVENT_AFTER_LOSS, &b.state));
    assert_ptr_equal(b.state.target, target);
    assert_ptr_equal(b.state.mix_target, mixed);
    assert_near(loss_sum(&b), 0.440190, 1e-6, 0);
    assert_int_equal(method->effect, 1);
    vv_method_free(method);
    bench_fini(&b);
}

static void settings(void **unused)
{
    (void)unused;
    const vv_label_smoothing_opts defaults = VV_LABEL_SMOOTHING_DEFAULTS;
    vv_str ours = {0}, table = {0};
    vv_method *method;
    assert_ok(vv_method_make(&method, "label_smoothing", NULL));
    vv_opts_to_json(&method->type->desc, method->opts, &table);
    vv_opts_to_json(&method->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(method);
    vv_error_clear();
    assert_null(vv_label_smoothing(1.01));
    assert_says("smoothing");
    assert_null(vv_label_smoothing(-0.1));
    assert_null(vv_label_smoothing((double)NAN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value),        cmocka_unit_test(ten_classes),
        cmocka_unit_test(ignored_rows), cmocka_unit_test(ignored_tokens),
        cmocka_unit_test(soft_targets), cmocka_unit_test(restores),
        cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
