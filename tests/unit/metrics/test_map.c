/* test_map.c - what must hold of a detector's metrics: they give what pycocotools gives, for
 * crowds, ties, boxes of every size and images without any; as metrics of a model the same, however
 * the data are cut into batches and merged; models that find no boxes are refused, and metrics of
 * classes refuse a detector. */
#include "vv_test.h"

#include <vivace/detection.h>
#include <vivace/metrics.h>

#include "golden/coco_ap_golden.h"
#include "metrics/coco_ap.h"

enum { CASE_COUNT = sizeof cases / sizeof *cases };

static const char *const names[9] = {"map",       "map50", "map75", "map_small", "map_medium",
                                     "map_large", "mar1",  "mar10", "mar100"};
static const vvi_coco_opts kinds[9] = {
    {0.0, {0, 1e10}, 100, false},      {0.5, {0, 1e10}, 100, false},
    {0.75, {0, 1e10}, 100, false},     {0.0, {0, 1024}, 100, false},
    {0.0, {1024, 9216}, 100, false},   {0.0, {9216, 1e10}, 100, false},
    {0.0, {0, 1e10}, 1, true},         {0.0, {0, 1e10}, 10, true},
    {0.0, {0, 1e10}, 100, true},
};

static vvi_coco_box box_of(const int *row, bool there)
{
    const double x = row[2], y = row[3], w = row[4], h = row[5];
    vvi_coco_box box = {.edge = {x, y, x + w, y + h}, .image = row[0], .label = row[1]};
    if (there)
        box.area = row[6];
    else
        box.score = row[6] / 4096.0;
    return box;
}

static void as_pycocotools(void **state)
{
    (void)state;
    for (int c = 0; c < CASE_COUNT; c++) {
        vvi_coco_box *truth = calloc((size_t)cases[c].truths + 1, sizeof *truth);
        vvi_coco_box *found = calloc((size_t)cases[c].founds + 1, sizeof *found);
        assert_non_null(truth);
        assert_non_null(found);
        for (int k = 0; k < 9; k++) {
            double value;
            for (int i = 0; i < cases[c].truths; i++) {
                truth[i] = box_of(cases[c].truth[i], true);
                truth[i].crowd = cases[c].truth[i][7];
            }
            for (int i = 0; i < cases[c].founds; i++)
                found[i] = box_of(cases[c].found[i], false);
            assert_ok(vvi_coco_ap(&value, truth, cases[c].truths, found, cases[c].founds,
                                  cases[c].classes + 1, &kinds[k]));
            if (isnan(value))
                value = -1; /* as pycocotools says it */
            if (!(fabs(value - cases[c].stats[k]) < 1e-12))
                fail_msg("case %d: %s is %.15g, pycocotools has %.15g", c, names[k], value,
                         cases[c].stats[k]);
        }
        free(truth);
        free(found);
    }
}

/* ---- as metrics of a model ---- */

enum { IMAGES = 7, BOXES = 30, LABELS = 3, ROWS = 4, SIDE = 200 };

/* A net that is no net: its default boxes are given, and its output is its input. */
static float priors[BOXES][4];

static const float *get_priors(vv_module *net, int64_t count, int64_t size[2])
{
    (void)net;
    if (count != BOXES)
        return NULL;
    if (size)
        size[0] = size[1] = SIDE;
    return &priors[0][0];
}

static const vv_detector told = {get_priors};

static vv_model *detector_new(void)
{
    vv_module *net;
    vv_model *model;
    vv_rng rng = vv_rng_at(1, "priors", 0);
    for (int i = 0; i < BOXES; i++)
        for (int k = 0; k < 2; k++) {
            priors[i][k] = (float)vv_rng_uniform_in(&rng, 0.2, 0.8);
            priors[i][k + 2] = (float)vv_rng_uniform_in(&rng, 0.1, 0.6);
        }
    assert_ok(vv_identity_new(&net));
    vv_module_set_detector(net, &told);
    assert_ok(vv_classifier_new(&model, net, LABELS + 1));
    model->task = VV_TASK_DETECT;
    return model;
}

/* Outputs that find some of the boxes, near enough. */
static void make_data(float output[IMAGES][BOXES][5 + LABELS], float target[IMAGES][ROWS][6])
{
    vv_rng rng = vv_rng_at(2, "map", 0);
    for (int n = 0; n < IMAGES; n++) {
        for (int r = 0; r < ROWS; r++) {
            const float *p = priors[vv_rng_below(&rng, BOXES)];
            float *row = target[n][r];
            for (int k = 0; k < 2; k++) {
                row[k] = p[k] - 0.5f * p[k + 2];
                row[k + 2] = p[k] + 0.5f * p[k + 2];
            }
            row[4] = n == 3 || r > n % 4 ? -1.0f : (float)(1 + vv_rng_below(&rng, LABELS));
            row[5] = vv_rng_uniform(&rng) < 0.1;
        }
        for (int i = 0; i < BOXES; i++)
            for (int k = 0; k < 5 + LABELS; k++)
                output[n][i][k] = (float)(vv_rng_normal(&rng) * (k < 4 ? 0.4 : 2.0));
    }
}

static double measure(const char *name, const vv_model *model, int64_t size, bool merge,
                      const float *output, const float *target)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *graph;
    vv_metric *metric, *part;
    double value;
    assert_ok(vv_graph_new(&graph, &opts));
    assert_ok(vv_metric_make(&metric, name, model));
    assert_ok(vv_metric_make(&part, name, model));
    for (int64_t first = 0; first < IMAGES; first += size) {
        const int64_t count = first + size <= IMAGES ? size : IMAGES - first;
        const int64_t out[3] = {count, BOXES, 5 + LABELS}, in[3] = {count, ROWS, 6};
        vv_node *nodes[VV_METRIC_NODES];
        int node_count;
        vv_graph_reset(graph);
        vv_node *y = vv_data(graph, VV_F32, 3, out, output + first * BOXES * (5 + LABELS));
        vv_node *t = vv_data(graph, VV_F32, 3, in, target + first * ROWS * 6);
        assert_ok(vv_metric_build(metric, y, t, nodes, &node_count));
        assert_ok(vv_metric_add(merge && first >= 3 ? part : metric, nodes, node_count));
    }
    assert_ok(vv_metric_merge(metric, &part->tally));
    assert_ok(vv_metric_value(metric, &value));
    vv_metric_free(metric);
    vv_metric_free(part);
    vv_graph_free(graph);
    return value;
}

static void cuts_cannot_be_seen(void **state)
{
    (void)state;
    static float output[IMAGES][BOXES][5 + LABELS], target[IMAGES][ROWS][6];
    vv_model *model = detector_new();
    make_data(output, target);
    for (int k = 0; k < 9; k++) {
        const double whole =
            measure(names[k], model, IMAGES, false, &output[0][0][0], &target[0][0][0]);
        const double one = measure(names[k], model, 1, false, &output[0][0][0], &target[0][0][0]);
        const double merged = measure(names[k], model, 3, true, &output[0][0][0], &target[0][0][0]);
        assert_true(one == whole || (isnan(one) && isnan(whole)));
        assert_true(merged == whole || (isnan(merged) && isnan(whole)));
        assert_true(k != 1 || (whole > 0.0 && whole < 1.0));
    }
    /* An output that says what is there finds all but what overlaps another of its class. */
    for (int n = 0; n < IMAGES; n++)
        for (int i = 0; i < BOXES; i++) {
            float *row = output[n][i];
            memset(row, 0, sizeof output[n][i]);
            row[4] = 20.0f;
            for (int r = 0; r < ROWS; r++) {
                const float edges[4] = {priors[i][0] - 0.5f * priors[i][2],
                                        priors[i][1] - 0.5f * priors[i][3],
                                        priors[i][0] + 0.5f * priors[i][2],
                                        priors[i][1] + 0.5f * priors[i][3]};
                if (target[n][r][4] > 0 && vv_box_iou(edges, target[n][r]) > 0.999) {
                    row[4] = 0.0f;
                    row[4 + (int)target[n][r][4]] = 20.0f;
                }
            }
        }
    assert_near(measure("map", model, 2, false, &output[0][0][0], &target[0][0][0]), 1.0, 0.06, 0);
    assert_near(measure("mar100", model, 2, false, &output[0][0][0], &target[0][0][0]), 1.0, 0.06,
                0);
    vv_model_free(model);
}

static void wrong_models_are_told(void **state)
{
    (void)state;
    vv_model *model = detector_new();
    vv_metric *metric;
    assert_fails(vv_metric_make(&metric, "accuracy", model), VV_EINVAL);
    assert_says("the model finds boxes; use map");
    assert_fails(vv_metric_make(&metric, "mse", model), VV_EINVAL);
    assert_says("boxes; use map");
    model->task = VV_TASK_CLASSIFY;
    assert_fails(vv_metric_make(&metric, "map", model), VV_EINVAL);
    assert_says("metric map measures boxes, the model finds none");
    assert_null(metric);
    vv_model_free(model);
}

static void memory_may_end(void **state)
{
    (void)state;
    static float output[IMAGES][BOXES][5 + LABELS], target[IMAGES][ROWS][6];
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    const int64_t out[3] = {IMAGES, BOXES, 5 + LABELS}, in[3] = {IMAGES, ROWS, 6};
    vv_model *model = detector_new();
    vv_metric *metric;
    vv_graph *graph;
    vv_node *nodes[VV_METRIC_NODES];
    int count;
    double value;
    vv_status status = VV_ENOMEM;
    make_data(output, target);
    assert_ok(vv_metric_make(&metric, "map", model));
    assert_ok(vv_graph_new(&graph, &opts));
    assert_ok(vv_metric_build(metric, vv_data(graph, VV_F32, 3, out, output),
                              vv_data(graph, VV_F32, 3, in, target), nodes, &count));
    assert_ok(vv_eval(graph, nodes, count));
    for (uint64_t nth = 1; status != VV_OK; nth++) {
        vv_metric_reset(metric);
        vv_memory_fail_at(nth);
        status = vv_metric_add(metric, nodes, count);
        vv_memory_fail_at(0);
        if (status != VV_OK)
            assert_int_equal(metric->tally.value_count, 0);
    }
    const int64_t live = vv_memory_live_count();
    for (uint64_t nth = 1; nth <= 4; nth++) {
        vv_memory_fail_at(nth);
        assert_fails(vv_metric_value(metric, &value), VV_ENOMEM);
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), live);
    }
    assert_ok(vv_metric_value(metric, &value));
    vv_metric_free(metric);
    vv_graph_free(graph);
    vv_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_pycocotools),
        cmocka_unit_test(cuts_cannot_be_seen),
        cmocka_unit_test(wrong_models_are_told),
        cmocka_unit_test(memory_may_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
