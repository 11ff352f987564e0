/* test_gyro_dropout.c - what must hold: y = x * mask / (1 - p) exactly; rows of a group share a
 * mask, the rest takes the last; masks stay for a period and come from at most sigma; evaluation is
 * the identity; neither microbatches nor a resume change the draws; inputs may have spatial
 * axes. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "gyro_dropout.h"

enum { C = 40 };

static void arithmetic(void **unused)
{
    (void)unused;
    const vv_gyro_dropout_opts opts = VV_GYRO_DROPOUT_DEFAULTS;
    assert_int_equal(vv_gyro_dropout_period(2560, &opts), 160);
    assert_int_equal(vv_gyro_dropout_period(2815, &opts), 160);
    assert_int_equal(vv_gyro_dropout_period(10, &opts), 16); /* fewer batches than masks */
    for (int64_t i = 0; i < 10; i++) /* 10 rows, 4 masks: 2, 2, 2 and the rest */
        assert_int_equal(vv_gyro_dropout_group(i, 10, 4), i < 6 ? i / 2 : 3);
    for (int64_t i = 0; i < 3; i++) /* fewer rows than masks: one each */
        assert_int_equal(vv_gyro_dropout_group(i, 3, 4), i);
}

static vv_module *dropouts(int count)
{
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    for (int i = 0; i < count; i++) {
        const vv_status made = vv_dropout_new(&layer, 0.1);
        assert_ok(vv_sequential_push(net, made, layer));
    }
    return net;
}

/* Output for ones, at one step: [rows,C]. */
static void ones(vv_module *net, int64_t step, int64_t first, int64_t rows, int64_t batch,
                 float *out)
{
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {rows, C};
    vv_graph *graph;
    const vv_tensor *y;
    assert_ok(vv_graph_new(&graph, &graph_opts));
    vv_gyro_dropout_set_step(net, step, first, batch);
    vv_node *x = vv_full(graph, VV_F32, 2, shape, 1);
    assert_ok(vv_node_value(vv_module_forward(net, graph, x), &y));
    memcpy(out, y->data, y->bytes);
    vv_graph_free(graph);
}

static void masks(void **unused)
{
    (void)unused;
    const vv_gyro_dropout_opts opts = {0.75, 3, 2};
    enum { ROWS = 5, STEPS = 40, PERIOD = 6 }; /* 10 batches, 3 masks: 3 * 2 */
    vv_module *net = dropouts(1);
    float y[ROWS * C], before[ROWS * C], known[4][C];
    int count, kinds = 0, kept = 0;
    assert_ok(vv_apply_gyro_dropout(net, &opts, 5, 10, &count));
    assert_int_equal(count, 1);
    for (int step = 0; step < STEPS; step++) {
        ones(net, step, 0, ROWS, ROWS, y);
        for (int i = 0; i < ROWS * C; i++)
            assert_true(y[i] == 0.0f || y[i] == 4.0f);
        assert_memory_equal(y, y + C, sizeof(float) * C); /* rows 0, 1; then 2, 3, 4 */
        assert_memory_equal(y + 2 * C, y + 3 * C, sizeof(float) * C);
        assert_memory_equal(y + 2 * C, y + 4 * C, sizeof(float) * C);
        if (step % PERIOD)
            assert_memory_equal(y, before, sizeof y);
        memcpy(before, y, sizeof y);
        for (int g = 0; g < 2; g++) { /* at most sigma different rows */
            int k = 0;
            while (k < kinds && memcmp(known[k], y + 2 * g * C, sizeof known[k]) != 0)
                k++;
            if (k == kinds) {
                assert_true(kinds < 3);
                memcpy(known[kinds++], y + 2 * g * C, sizeof known[0]);
            }
        }
        /* Parts of the batch get what they get in the whole. */
        float part[3 * C];
        ones(net, step, 1, 3, ROWS, part);
        assert_memory_equal(part, y + C, sizeof part);
    }
    assert_true(kinds > 1);
    for (int k = 0; k < kinds; k++)
        for (int c = 0; c < C; c++)
            kept += known[k][c] > 0;
    assert_near((double)kept / kinds / C, 0.25, 0.2, 0);
    /* A step reached directly draws the same. */
    vv_module *fresh = dropouts(1);
    assert_ok(vv_apply_gyro_dropout(fresh, &opts, 5, 10, NULL));
    ones(fresh, STEPS - 1, 0, ROWS, ROWS, y);
    assert_memory_equal(y, before, sizeof y);
    vv_module_set_training(net, false);
    ones(net, 0, 0, ROWS, ROWS, y);
    for (int i = 0; i < ROWS * C; i++)
        assert_true(y[i] == 1.0f);
    vv_module_free(net);
    vv_module_free(fresh);
}

static void shapes_and_settings(void **unused)
{
    (void)unused;
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    vv_gyro_dropout_opts opts = {0.5, 8, 2};
    const int64_t shape[] = {2, 3, 3, C}, flat[] = {C};
    vv_module *net = dropouts(1);
    vv_graph *graph;
    const vv_tensor *y;
    int count;
    assert_ok(vv_graph_new(&graph, &graph_opts));
    assert_ok(vv_apply_gyro_dropout(net, &opts, 5, 0, &count));
    vv_node *x = vv_full(graph, VV_F32, 4, shape, 1);
    assert_ok(vv_node_value(vv_module_forward(net, graph, x), &y));
    for (int i = 0; i < 2 * 9 * C; i++) /* every pixel of a row has the row's mask */
        assert_true(vv_tensor_get(y, i) == vv_tensor_get(y, i / (9 * C) * 9 * C + i % C));
    assert_null(vv_module_forward(net, graph, vv_full(graph, VV_F32, 1, flat, 1)));
    assert_fails(vv_graph_status(graph), VV_ESHAPE);
    vv_graph_free(graph);
    assert_ok(vv_apply_gyro_dropout(net, &opts, 5, 0, &count));
    assert_int_equal(count, 0);
    vv_module_free(net);
    /* p = 0 and p = 1. */
    float out[C];
    for (int p = 0; p < 2; p++) {
        net = dropouts(1);
        opts.p = p;
        assert_ok(vv_apply_gyro_dropout(net, &opts, 5, 0, NULL));
        ones(net, 0, 0, 1, 1, out);
        for (int i = 0; i < C; i++)
            assert_true(out[i] == (float)(1 - p));
        vv_module_free(net);
    }
    opts.p = 1.5;
    assert_fails(vv_apply_gyro_dropout(NULL, NULL, 5, 0, NULL), VV_EINVAL);
    assert_null(vv_gyro_dropout(&opts));
    assert_says("p");
    vv_str ours = {0}, table = {0};
    const vv_gyro_dropout_opts defaults = VV_GYRO_DROPOUT_DEFAULTS;
    vv_method *method = vv_gyro_dropout(NULL);
    vv_opts_to_json(&method->type->desc, method->opts, &table);
    vv_opts_to_json(&method->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(method);
}

/* Two layers drop different features. */
static void layers_differ(void **unused)
{
    (void)unused;
    const vv_gyro_dropout_opts opts = {0.5, 8, 1};
    vv_module *net = dropouts(2);
    float first[C], both[C];
    assert_ok(vv_apply_gyro_dropout(net, &opts, 5, 0, NULL));
    ones(vv_module_child(net, 0), 0, 0, 1, 1, first);
    ones(net, 0, 0, 1, 1, both);
    bool differ = false;
    for (int i = 0; i < C; i++)
        differ = differ || (first[i] > 0 && both[i] == 0.0f);
    assert_true(differ);
    vv_module_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(masks),
        cmocka_unit_test(shapes_and_settings),
        cmocka_unit_test(layers_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
