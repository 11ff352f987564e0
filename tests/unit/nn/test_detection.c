/* test_detection.c - what must hold of boxes: overlap and offsets by formula, and back; each box
 * gets a default box of its own, the largest overlap first, crowds and padding none; the loss is
 * PyTorch's (models/ssd tests whole nets), its gradients are those of finite differences, images
 * without boxes have none; of what is found, overlapping boxes of a class go and the best stay;
 * JSON in pixels; wrong targets and shapes are told; an allocation that fails is an error. */
#include "vv_test.h"

#include <vivace/detection.h>

static void overlap(void **state)
{
    (void)state;
    const float a[4] = {0, 0, 0.4f, 0.5f}, b[4] = {0.2f, 0.25f, 0.6f, 0.75f};
    const float away[4] = {0.5f, 0.6f, 0.7f, 0.8f}, line[4] = {0.1f, 0.1f, 0.1f, 0.4f};
    assert_near(vv_box_iou(a, b), 0.05 / 0.35, 1e-6, 0);
    assert_near(vv_box_iou(a, a), 1.0, 1e-9, 0);
    assert_near(vv_box_iou(a, away), 0.0, 0, 0);
    assert_near(vv_box_iou(a, line), 0.0, 0, 0);
}

static void offsets(void **state)
{
    (void)state;
    const float prior[4] = {0.5f, 0.4f, 0.2f, 0.4f}, box[4] = {0.5f, 0.3f, 0.7f, 0.5f};
    float off[4], back[4];
    vv_box_encode(off, box, prior);
    assert_near((double)off[0], 0.1 / 0.2 / 0.1, 1e-4, 0);
    assert_near((double)off[1], 0.0, 1e-5, 0);
    assert_near((double)off[2], 0.0, 1e-5, 0);
    assert_near((double)off[3], log(0.5) / 0.2, 1e-4, 0);
    vv_box_decode(back, off, prior);
    for (int k = 0; k < 4; k++)
        assert_near((double)back[k], (double)box[k], 1e-6, 0);
    const float wild[4] = {0, 0, 1e9f, -1e9f};
    vv_box_decode(back, wild, prior); /* no infinite box */
    assert_true(isfinite(back[0]) && isfinite(back[2]) && back[1] <= back[3]);
}

static void matching(void **state)
{
    (void)state;
    /* Centres .25 and .75, sides .5; and one that fits the second box exactly. */
    static const float priors[4][4] = {{0.25f, 0.25f, 0.5f, 0.5f}, {0.75f, 0.25f, 0.5f, 0.5f},
                                       {0.25f, 0.3f, 0.5f, 0.5f}, {0.9f, 0.9f, 0.1f, 0.1f}};
    static const float target[6][6] = {
        {0, 0, 0, 0, -1, 0},                  /* no box */
        {0.0f, 0.0f, 0.5f, 0.48f, 1, 0},      /* overlaps default box 0 most */
        {0.0f, 0.0f, 0.5f, 0.5f, 2, 0},       /* and so does this, entirely */
        {0.8f, 0.8f, 1.0f, 1.0f, 3, 1},       /* a crowd */
        {0.93f, 0.93f, 0.95f, 0.95f, 4, 0},   /* little, but its own */
        {0.501f, 0.6f, 0.502f, 0.61f, 5, 0},  /* overlaps nothing */
    };
    int32_t match[4];
    assert_ok(vv_boxes_match(match, &priors[0][0], 4, &target[0][0], 6, 0.5));
    assert_int_equal(match[0], 2);  /* the larger overlap takes it */
    assert_int_equal(match[2], 1);  /* the other finds its next best */
    assert_int_equal(match[3], 4);  /* below the threshold, but forced */
    assert_int_equal(match[1], -1);
    assert_ok(vv_boxes_match(match, &priors[0][0], 4, &target[0][0], 0, 0.5));
    assert_int_equal(match[0], -1);
    vv_memory_fail_at(1);
    assert_fails(vv_boxes_match(match, &priors[0][0], 4, &target[0][0], 6, 0.5), VV_ENOMEM);
    vv_memory_fail_at(0);
}

/* ---- the loss ---- */

enum { N = 2, B = 9, K = 3, M = 2 };

static float priors9[B][4];
static const float targets[N][M][6] = {
    {{0.05f, 0.05f, 0.4f, 0.42f, 1, 0}, {0.6f, 0.6f, 0.98f, 0.9f, 2, 0}},
    {{0, 0, 0, 0, -1, 0}, {0, 0, 0, 0, -1, 0}},
};

static void make_priors(void)
{
    for (int i = 0; i < B; i++) {
        priors9[i][0] = (float)(i % 3) / 3.0f + 0.166f;
        priors9[i][1] = (float)(i / 3) / 3.0f + 0.166f;
        priors9[i][2] = priors9[i][3] = 0.4f;
    }
}

static void set_output(vv_tensor *output)
{
    vv_rng rng = vv_rng_at(8, "output", 0);
    for (int64_t i = 0; i < output->count; i++)
        vv_tensor_set(output, i, vv_rng_normal(&rng));
}

/* Losses of both images and, if wanted, gradients of their sum. */
static void evaluate(vv_graph *graph, vv_tensor *output, double losses[N], vv_tensor **grad)
{
    const int64_t shape[3] = {N, M, 6};
    vv_node *nodes[2] = {NULL};
    const vv_tensor *value;
    vv_graph_reset(graph);
    vv_node *y = vv_leaf(graph, output);
    nodes[0] = vv_multibox_loss(y, vv_data(graph, VV_F32, 3, shape, targets), &priors9[0][0], NULL);
    assert_ok(vv_graph_status(graph));
    if (grad)
        assert_ok(vv_grad(graph, vv_sum_all(nodes[0]), &y, 1, &nodes[1]));
    assert_ok(vv_eval(graph, nodes, grad ? 2 : 1));
    assert_ok(vv_node_value(nodes[0], &value));
    assert_int_equal(value->count, N);
    for (int i = 0; i < N; i++)
        losses[i] = vv_tensor_get(value, i);
    if (grad)
        assert_ok(vv_node_keep(nodes[1], grad));
}

static void loss_and_finite_differences(void **state)
{
    (void)state;
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[3] = {N, B, 4 + K};
    vv_graph *graph;
    vv_tensor *output, *grad = NULL;
    double losses[N], up[N], down[N];
    make_priors();
    assert_ok(vv_graph_new(&graph, &opts));
    assert_ok(vv_tensor_new(&output, VV_F32, 3, shape));
    set_output(output);
    evaluate(graph, output, losses, &grad);
    assert_true(losses[0] > 0.1);
    assert_near(losses[1], 0.0, 0, 0);
    for (int64_t i = 0; i < output->count; i++) {
        const double x = vv_tensor_get(output, i), step = 1e-3;
        vv_tensor_set(output, i, x + step);
        evaluate(graph, output, up, NULL);
        vv_tensor_set(output, i, x - step);
        evaluate(graph, output, down, NULL);
        vv_tensor_set(output, i, x);
        assert_near(vv_tensor_get(grad, i), (up[0] + up[1] - down[0] - down[1]) / (2 * step), 2e-3,
                    2e-3);
    }
    vv_tensor_free(grad);
    vv_tensor_free(output);
    vv_graph_free(graph);
}

static void losses_of_wrong_shapes(void **state)
{
    (void)state;
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    const int64_t out[3] = {N, B, 4 + K}, narrow[3] = {N, M, 5};
    vv_graph *graph;
    assert_ok(vv_graph_new(&graph, &opts));
    vv_node *y = vv_zeros(graph, VV_F32, 3, out);
    assert_null(vv_multibox_loss(y, vv_zeros(graph, VV_F32, 3, narrow), &priors9[0][0], NULL));
    assert_fails(vv_graph_status(graph), VV_ESHAPE);
    assert_says("multibox_loss: target [2,2,5] of f32 does not fit output [2,9,7]");
    vv_graph_free(graph);
}

static void loss_survives_no_memory(void **state)
{
    (void)state;
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    const int64_t out[3] = {N, B, 4 + K}, in[3] = {N, M, 6};
    vv_graph *graph;
    bool made = false;
    const int64_t live = vv_memory_live_count();
    make_priors();
    assert_ok(vv_graph_new(&graph, &opts));
    for (uint64_t nth = 1; !made; nth++) {
        vv_graph_reset(graph);
        vv_node *y = vv_zeros(graph, VV_F32, 3, out), *t = vv_data(graph, VV_F32, 3, in, targets);
        assert_ok(vv_graph_status(graph));
        vv_memory_fail_at(nth);
        made = vv_multibox_loss(y, t, &priors9[0][0], NULL) != NULL;
        vv_memory_fail_at(0);
        if (!made)
            assert_fails(vv_graph_status(graph), VV_ENOMEM);
    }
    vv_graph_free(graph);
    assert_int_equal(vv_memory_live_count(), live);
}

static void targets_are_checked(void **state)
{
    (void)state;
    static const struct {
        float row[6];
        const char *says; /* NULL = right */
    } rows[] = {
        {{0, 0, 0, 0, -1, 0}, NULL},
        {{0.1f, 0.1f, 0.5f, 0.5f, 2, 0}, NULL},
        {{0.1f, 0.1f, 0.5f, 0.5f, 3, 0}, "has class 3, classes are 1..2"},
        {{0.1f, 0.1f, 0.5f, 0.5f, 1.5f, 0}, "has class 1.5"},
        {{0.5f, 0.1f, 0.1f, 0.5f, 1, 0}, "with x0 < x1 and y0 < y1"},
        {{NAN, 0.1f, 0.1f, 0.5f, 1, 0}, "in shares of the image"},
        {{10, 10, 50, 50, 1, 0}, "in shares of the image"},
    };
    const int64_t shape[3] = {1, 1, 6};
    vv_module *net;
    vv_model *model;
    assert_ok(vv_identity_new(&net));
    assert_ok(vv_classifier_new(&model, net, K));
    model->task = VV_TASK_DETECT;
    model->loss = &vv_multibox_loss_class;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vv_tensor *target;
        assert_ok(vv_tensor_from(&target, VV_F32, 3, shape, rows[i].row));
        assert_int_equal(vv_model_loss_items(model, target), 1);
        if (rows[i].says) {
            assert_fails(vv_model_check_target(model, target), VV_EINVAL);
            assert_says("box 0 of row 0");
            assert_says(rows[i].says);
        } else {
            assert_ok(vv_model_check_target(model, target));
        }
        vv_tensor_free(target);
    }
    vv_model_free(model);
}

/* ---- what is found ---- */

/* Default boxes as they are, with these logits. */
static void finding(void **state)
{
    (void)state;
    static const float priors[4][4] = {{0.3f, 0.3f, 0.4f, 0.4f}, {0.32f, 0.3f, 0.4f, 0.4f},
                                       {0.8f, 0.8f, 0.6f, 0.6f}, {0.3f, 0.8f, 0.1f, 0.1f}};
    static const float output[4][7] = {{0, 0, 0, 0, 0, 3, 0},
                                       {0, 0, 0, 0, 0, 4, 2}, /* less sure, and overlaps the first */
                                       {0, 0, 0, 0, 0, 0, 5}, /* reaches beyond the image */
                                       {0, 0, 0, 0, 9, 0, 0}};
    const vv_detect_opts one = {0.05, 200, 0.5, 1}, all = {0.0, 200, 1.0, 200};
    vv_detection *found;
    vv_str text = {0};
    int64_t count;
    static const char *const names[] = {"background", "a \"cat\"", "dog"};
    assert_ok(vv_detect(&found, &count, &output[0][0], &priors[0][0], 4, 3, NULL));
    assert_int_equal(count, 3);
    assert_int_equal(found[0].label, 2);
    assert_near((double)found[0].score, exp(5) / (exp(5) + 2), 1e-6, 0);
    assert_near((double)found[0].box[0], 0.5, 1e-6, 0);
    assert_near((double)found[0].box[2], 1.0, 0, 0);
    assert_int_equal(found[1].label, 1);
    assert_near((double)found[1].box[0], 0.1, 1e-6, 0);
    for (int64_t i = 1; i < count; i++)
        assert_true(found[i].score <= found[i - 1].score && found[i].score > 0.05f);
    assert_ok(vv_detections_json(&text, found, 1, names, 100, 200));
    assert_string_equal(vv_str_text(&text), "[{\"label\":2,\"class\":\"dog\",\"score\":0.9867,"
                                            "\"box\":[100.00,50.00,200.00,100.00]}]");
    vv_str_clear(&text);
    assert_ok(vv_detections_json(&text, found + 1, 1, names, 10, 10));
    assert_non_null(strstr(vv_str_text(&text), "\"a \\\"cat\\\"\""));
    vv_str_fini(&text);
    vv_dealloc(found);
    assert_ok(vv_detect(&found, &count, &output[0][0], &priors[0][0], 4, 3, &one));
    assert_int_equal(count, 1);
    vv_dealloc(found);
    assert_ok(vv_detect(&found, &count, &output[0][0], &priors[0][0], 4, 3, &all));
    assert_int_equal(count, 8);
    vv_dealloc(found);
    assert_fails(vv_detect(&found, &count, &output[0][0], &priors[0][0], 4, 1, NULL), VV_EINVAL);
    for (uint64_t nth = 1; nth <= 4; nth++) {
        vv_memory_fail_at(nth);
        assert_fails(vv_detect(&found, &count, &output[0][0], &priors[0][0], 4, 3, NULL),
                     VV_ENOMEM);
        vv_memory_fail_at(0);
        assert_null(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap),
        cmocka_unit_test(offsets),
        cmocka_unit_test(matching),
        cmocka_unit_test(loss_and_finite_differences),
        cmocka_unit_test(losses_of_wrong_shapes),
        cmocka_unit_test(loss_survives_no_memory),
        cmocka_unit_test(targets_are_checked),
        cmocka_unit_test(finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
