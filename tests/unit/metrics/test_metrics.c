/* test_metrics.c - what must hold of metrics: they give a sum and a count over the items of a
 * batch, take class indices and soft targets alike, and leave ignored items out of both. */
#include "vv_test.h"

#include <vivace/model.h>

/* Four items, six classes. Largest: 0, 5, 2, 1; ranks of class 0: 1, 6, 2, 3. */
static const float logits[] = {
    9, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 5, 1, 6, 2, 3, 4, 4, 6, 5, 3, 2, 1,
};

typedef struct fixture {
    vv_graph *graph;
    vv_model *model;
} fixture;

static fixture open_fixture(void)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_module *net = NULL;
    fixture f = {NULL, NULL};

    assert_ok(vv_graph_new(&f.graph, &opts));
    assert_ok(vv_identity_new(&net));
    assert_ok(vv_classifier_new(&f.model, net, 6));
    return f;
}

static void close_fixture(fixture *f)
{
    vv_model_free(f->model);
    vv_graph_free(f->graph);
}

static void check(const fixture *f, const char *name, vv_node *target, double sum, double count)
{
    const vv_metric_desc *metric = vv_metric_find(name);
    vv_node *output = vv_data(f->graph, VV_F32, 2, (int64_t[]){4, 6}, logits);
    vv_node *nodes[2] = {NULL, NULL};
    double got;

    assert_non_null(metric);
    assert_ok(metric->build(f->model, output, target, &nodes[0], &nodes[1]));
    assert_ok(vv_eval(f->graph, nodes, 2));
    assert_ok(vv_node_item(nodes[0], &got));
    assert_near(got, sum, 1e-5, 1e-5);
    assert_ok(vv_node_item(nodes[1], &got));
    assert_near(got, count, 0.0, 0.0);
}

static double nll(int row, int class)
{
    double sum = 0.0;

    for (int k = 0; k < 6; k++)
        sum += exp((double)logits[6 * row + k]);
    return log(sum) - (double)logits[6 * row + class];
}

static void indices(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const int32_t zeros[] = {0, 0, 0, 0}, some[] = {0, -100, 2, 5};
    const int64_t wide[] = {0, 5, 2, 0};
    vv_node *target = vv_data(f.graph, VV_I32, 1, (int64_t[]){4}, zeros);

    check(&f, "accuracy", target, 1, 4);
    check(&f, "top5_accuracy", target, 3, 4);
    check(&f, "cross_entropy", target, nll(0, 0) + nll(1, 0) + nll(2, 0) + nll(3, 0), 4);
    target = vv_data(f.graph, VV_I32, 1, (int64_t[]){4}, some);
    check(&f, "accuracy", target, 2, 3);
    check(&f, "top5_accuracy", target, 2, 3);
    check(&f, "cross_entropy", target, nll(0, 0) + nll(2, 2) + nll(3, 5), 3);
    check(&f, "accuracy", vv_data(f.graph, VV_I64, 1, (int64_t[]){4}, wide), 3, 4);
    close_fixture(&f);
}

static void an_ignored_class_is_never_right(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const int32_t target[] = {0, 5, 0, 0}; /* classes 0 are ignored, though row 0 predicts one */

    f.model->ignore_index = 0;
    check(&f, "accuracy", vv_data(f.graph, VV_I32, 1, (int64_t[]){4}, target), 1, 1);
    check(&f, "top5_accuracy", vv_data(f.graph, VV_I32, 1, (int64_t[]){4}, target), 1, 1);
    close_fixture(&f);
}

static void soft_targets(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const float soft[] = {0.9f, 0.1f, 0, 0, 0, 0, 0.25f, 0, 0, 0,    0,    0.75f,
                          0,    0,    0, 0, 0, 0, 0.5f,  0, 0, 0.4f, 0.1f, 0};
    vv_node *target = vv_data(f.graph, VV_F32, 2, (int64_t[]){4, 6}, soft);

    check(&f, "accuracy", target, 2, 3);
    check(&f, "top5_accuracy", target, 3, 3);
    check(&f, "cross_entropy", target,
          0.9 * nll(0, 0) + 0.1 * nll(0, 1) + 0.25 * nll(1, 0) + 0.75 * nll(1, 5) +
              0.5 * nll(3, 0) + 0.4 * nll(3, 3) + 0.1 * nll(3, 4),
          3);
    close_fixture(&f);
}

static void few_classes_and_wrong_shapes(void **state)
{
    (void)state;
    fixture f = open_fixture();
    const int32_t target[] = {0, 0, 1, 1, 1, 1};
    vv_node *output = vv_data(f.graph, VV_F32, 2, (int64_t[]){6, 2}, logits);
    vv_node *sum = NULL, *count = NULL;
    double got;

    assert_ok(vv_metric_find("top5_accuracy")
                  ->build(f.model, output, vv_data(f.graph, VV_I32, 1, (int64_t[]){6}, target),
                          &sum, &count));
    assert_ok(vv_node_item(sum, &got));
    assert_near(got, 6.0, 0.0, 0.0); /* with two classes everything is among the first five */
    for (int i = 0; vv_metric_table()[i]; i++) {
        const vv_metric_desc *metric = vv_metric_table()[i];
        vv_node *wrong = vv_data(f.graph, VV_I32, 2, (int64_t[]){3, 2}, target);

        assert_fails(metric->build(f.model, output, wrong, &sum, &count), VV_ESHAPE);
        assert_says(metric->name);
        assert_fails(metric->build(f.model, NULL, wrong, &sum, &count), VV_EINVAL);
        assert_ptr_equal(vv_metric_find(metric->name), metric);
        assert_true(metric->summary[0] != '\0');
    }
    assert_null(vv_metric_find("acuracy"));
    assert_false(vv_metric_find("cross_entropy")->higher_is_better);
    assert_true(vv_metric_find("accuracy")->higher_is_better);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indices),
        cmocka_unit_test(an_ignored_class_is_never_right),
        cmocka_unit_test(soft_targets),
        cmocka_unit_test(few_classes_and_wrong_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
