/* test_weight_standardization.c - what must hold: filters have mean 0 and variance 1, and gradients
 * flow through mean and variance; the last layers in order of execution (not of the tree) stay
 * plain; applying twice changes nothing; the exported net computes the same; a checkpoint needs the
 * method. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "weight_standardization.h"

static vv_graph *new_graph(void)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *graph;
    assert_ok(vv_graph_new(&graph, &opts));
    return graph;
}

static void standardised(void **unused)
{
    (void)unused;
    enum { O = 3, F = 12 };
    const int64_t shape[] = {O, 3, 2, 2};
    float w[O * F];
    double by_hand[O * F], sum = 0;
    vv_rng rng = vv_rng_at(1, "w", 0);
    for (int i = 0; i < O * F; i++)
        w[i] = (float)(3 + i / F * vv_rng_normal(&rng) + 0.1 * vv_rng_normal(&rng));
    vv_graph *graph = new_graph();
    vv_node *in = vv_data(graph, VV_F32, 4, shape, w), *grad;
    vv_node *out = vv_standardize_weight(in);
    const vv_tensor *y, *g;
    assert_ok(vv_node_value(out, &y));
    for (int o = 0; o < O; o++) {
        double mean = 0, var = 0;
        for (int k = 0; k < F; k++)
            mean += vv_tensor_get(y, o * F + k) / F;
        for (int k = 0; k < F; k++)
            var += pow(vv_tensor_get(y, o * F + k) - mean, 2) / F;
        assert_near(mean, 0, 1e-5, 0);
        assert_near(var, 1, 1e-4, 0);
    }
    /* d sum(c y) / dw by differences, c = 1, 2, 3, ... */
    float c[O * F];
    for (int i = 0; i < O * F; i++)
        c[i] = (float)(i % 7);
    vv_node *loss = vv_sum_all(vv_mul(out, vv_data(graph, VV_F32, 4, shape, c)));
    assert_ok(vv_grad(graph, loss, &in, 1, &grad));
    assert_ok(vv_node_value(grad, &g));
    for (int i = 0; i < O * F; i++) {
        by_hand[i] = 0;
        for (int side = -1; side <= 1; side += 2) {
            const int o = i / F;
            double v[F], mean = 0, var = 0;
            for (int k = 0; k < F; k++) {
                v[k] = (double)w[o * F + k] + (k == i % F ? side * 1e-5 : 0);
                mean += v[k] / F;
            }
            for (int k = 0; k < F; k++)
                var += pow(v[k] - mean, 2) / F;
            for (int k = 0; k < F; k++)
                by_hand[i] +=
                    side * (double)c[o * F + k] * (v[k] - mean) / sqrt(var + 1e-10) / 2e-5;
        }
        assert_near(vv_tensor_get(g, i), by_hand[i], 2e-3, 1e-3);
        sum += fabs(by_hand[i]);
    }
    assert_true(sum > 1);
    assert_null(vv_standardize_weight(NULL));
    vv_graph_free(graph);
}

/* Children run in the order last, first, middle. */
static vv_node *jumble(vv_module *module, vv_graph *graph, vv_node *x)
{
    static const int order[] = {2, 0, 1};
    for (int i = 0; i < 3; i++)
        x = vv_module_forward(vv_module_child(module, order[i]), graph, x);
    return x;
}
static const vv_module_class jumble_class = {"Jumble", jumble, NULL};

static vv_module *jumbled_net(void)
{
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    vv_module *net, *layer;
    static const char *const names[] = {"a", "b", "c"};
    conv.pad[0] = conv.pad[1] = 1;
    assert_ok(vv_module_new(&net, &jumble_class, 0));
    for (int i = 0; i < 3; i++) {
        assert_ok(vv_conv2d_new(&layer, 4, 4, 3, &conv, i == 1));
        assert_ok(vv_module_add_child(net, names[i], layer));
    }
    assert_ok(vv_module_init_default(net, 8));
    return net;
}

static vv_node *image(vv_graph *graph)
{
    static const int64_t shape[] = {2, 5, 5, 4};
    vv_tensor *x;
    vv_rng rng = vv_rng_at(3, "image", 0);
    assert_ok(vv_tensor_new(&x, VV_F32, 4, shape));
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, vv_rng_normal(&rng));
    vv_node *node = vv_leaf(graph, x);
    vv_tensor_free(x);
    return node;
}

/* Whether child i standardises: its output does not change if its weight is doubled. */
static bool standardises(vv_module *net, int i)
{
    vv_graph *graph = new_graph();
    vv_tensor *w = vv_module_param(vv_module_child(net, i), "weight")->value;
    const vv_tensor *a, *b;
    bool same = true;
    assert_ok(vv_node_value(vv_module_forward(vv_module_child(net, i), graph, image(graph)), &a));
    vv_tensor *before;
    assert_ok(vv_tensor_clone(&before, a));
    for (int64_t k = 0; k < w->count; k++)
        vv_tensor_set(w, k, 2 * vv_tensor_get(w, k));
    vv_graph_reset(graph);
    assert_ok(vv_node_value(vv_module_forward(vv_module_child(net, i), graph, image(graph)), &b));
    for (int64_t k = 0; k < b->count; k++)
        same = same && fabs(vv_tensor_get(before, k) - vv_tensor_get(b, k)) < 1e-4;
    for (int64_t k = 0; k < w->count; k++)
        vv_tensor_set(w, k, vv_tensor_get(w, k) / 2);
    vv_tensor_free(before);
    vv_graph_free(graph);
    return same;
}

static void order(void **unused)
{
    (void)unused;
    static const int64_t shape[] = {2, 5, 5, 4}, wrong[] = {2, 5, 5, 7};
    /* Left out of a, b, c: executed c, a, b. */
    static const struct {
        const int64_t *shape;
        int64_t n;
        bool traced, a, b, c;
        int count;
    } cases[] = {
        {shape, 0, false, true, true, true, 3},   {shape, 1, true, true, false, true, 2},
        {shape, 2, true, false, false, true, 1},  {shape, 7, true, false, false, false, 0},
        {NULL, 1, false, true, true, false, 2},   {wrong, 1, false, true, true, false, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const vv_weight_standardization_opts opts = {cases[i].n};
        vv_module *net = jumbled_net();
        int count;
        bool traced;
        assert_ok(vv_apply_weight_standardization(net, &opts, 4, cases[i].shape, NULL, &count,
                                                  &traced));
        assert_int_equal(count, cases[i].count);
        assert_int_equal(traced, cases[i].traced);
        assert_int_equal(standardises(net, 0), cases[i].a);
        assert_int_equal(standardises(net, 1), cases[i].b);
        assert_int_equal(standardises(net, 2), cases[i].c);
        vv_module_free(net);
    }
}

static void surgery(void **unused)
{
    (void)unused;
    static const int64_t shape[] = {2, 5, 5, 4};
    const vv_weight_standardization_opts opts = {1}, bad = {-1};
    vv_module *net = jumbled_net();
    vv_optimizer *optimizer;
    const vv_tensor *a, *b;
    int count;
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), NULL, net));
    const vv_param *weight = vv_module_param(vv_module_child(net, 0), "weight");
    assert_ok(vv_apply_weight_standardization(net, &opts, 4, shape, optimizer, &count, NULL));
    assert_int_equal(count, 2);
    assert_ptr_equal(vv_module_param(vv_module_find(net, "a"), "weight"), weight);
    assert_int_equal(weight->owners, 1);
    assert_ok(vv_optimizer_check(optimizer, net));
    vv_graph *graph = new_graph();
    assert_ok(vv_node_value(vv_module_forward(net, graph, image(graph)), &a));
    assert_ok(vv_apply_weight_standardization(net, NULL, 4, shape, optimizer, &count, NULL));
    assert_int_equal(count, 0);
    assert_ok(vv_node_value(vv_module_forward(net, graph, image(graph)), &b));
    assert_memory_equal(a->data, b->data, a->bytes);
    vv_tensor *before;
    assert_ok(vv_tensor_clone(&before, a));
    /* Export. */
    assert_ok(vv_remove_weight_standardization(net, optimizer, &count));
    assert_int_equal(count, 3);
    assert_int_equal(vv_module_count(net, &vv_conv2d_class), 3);
    assert_ok(vv_optimizer_check(optimizer, net));
    vv_graph_reset(graph);
    assert_ok(vv_node_value(vv_module_forward(net, graph, image(graph)), &b));
    for (int64_t i = 0; i < b->count; i++)
        assert_near(vv_tensor_get(b, i), vv_tensor_get(before, i), 1e-4, 1e-4);
    assert_fails(vv_apply_weight_standardization(net, &bad, 4, shape, NULL, NULL, NULL), VV_EINVAL);
    assert_fails(vv_apply_weight_standardization(NULL, NULL, 4, shape, NULL, NULL, NULL),
                 VV_EINVAL);
    assert_fails(vv_remove_weight_standardization(NULL, NULL, NULL), VV_EINVAL);
    vv_tensor_free(before);
    vv_graph_free(graph);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
}

static void method(void **unused)
{
    (void)unused;
    const vv_weight_standardization_opts defaults = VV_WEIGHT_STANDARDIZATION_DEFAULTS;
    vv_str text = {0}, ours = {0}, table = {0};
    vv_trainer *trainer;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_new(&opts.model, jumbled_net(), 4));
    opts.methods = VV_LIST(vv_weight_standardization(NULL));
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_plan(trainer, &text));
    assert_non_null(strstr(vv_str_text(&text), "filters of 3 of 3 convolutions"));
    const vv_method *m = vv_trainer_state(trainer)->methods[0];
    assert_int_equal(m->effect, 3);
    assert_true(m->type->required_on_load);
    vv_opts_to_json(&m->type->desc, m->opts, &table);
    vv_opts_to_json(&m->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&text);
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_trainer_free(trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(standardised), cmocka_unit_test(order),
        cmocka_unit_test(surgery),      cmocka_unit_test(method),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
