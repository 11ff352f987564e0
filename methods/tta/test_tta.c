/* test_tta.c - what must hold: views are shifts with reflection and mirror images; the result is
 * the weighted mean of the views' logits; confident images keep their own; training is
 * untouched. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "tta.h"

static vv_graph *new_graph(void)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *graph;
    assert_ok(vv_graph_new(&graph, &opts));
    return graph;
}

static void views(void **unused)
{
    (void)unused;
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const struct {
        int64_t dy, dx;
        bool mirror;
        float y[6];
    } cases[] = {
        {0, 0, true, {3, 2, 1, 6, 5, 4}},   {0, 1, false, {2, 1, 2, 5, 4, 5}},
        {0, -1, false, {2, 3, 2, 5, 6, 5}}, {1, 0, false, {4, 5, 6, 1, 2, 3}},
        {-1, -1, true, {5, 6, 5, 2, 3, 2}}, {1, 1, true, {5, 4, 5, 2, 1, 2}},
    };
    const int64_t shape[] = {1, 2, 3, 1};
    vv_graph *graph = new_graph();
    vv_node *in = vv_data(graph, VV_F32, 4, shape, x);
    const vv_tensor *y;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(vv_node_value(vv_tta_view(in, cases[i].dy, cases[i].dx, cases[i].mirror), &y));
        assert_memory_equal(y->data, cases[i].y, sizeof x);
    }
    assert_null(vv_tta_view(NULL, 0, 0, true));
    assert_null(vv_tta_view(in, 2, 0, false));
    assert_fails(vv_graph_status(graph), VV_ESHAPE);
    vv_graph_free(graph);
}

/* Flatten and linear: the views' logits can be computed by hand. */
static vv_module *linear_net(void)
{
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_flatten_new(&layer);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, 9, 2, true);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_module_init_default(net, 3));
    return net;
}

enum { N = 40 };

static vv_tensor *images(void)
{
    const int64_t shape[] = {N, 3, 3, 1};
    vv_tensor *x;
    vv_rng rng = vv_rng_at(4, "x", 0);
    assert_ok(vv_tensor_new(&x, VV_F32, 4, shape));
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, 2 * vv_rng_normal(&rng));
    return x;
}

static void mean_and_gate(void **unused)
{
    (void)unused;
    static const double weights[2][6] = {{0.5, 0.5}, {0.25, 0.25, 0.125, 0.125, 0.125, 0.125}};
    static const int shifts[] = {0, 0, -1, -1, 1, 1};
    vv_module *net = linear_net();
    vv_tensor *x = images();
    vv_graph *graph = new_graph();
    vv_node *in = vv_leaf(graph, x), *own = vv_module_forward(net, graph, in), *gated;
    const vv_tensor *y, *view, *g, *plain;
    assert_ok(vv_node_value(own, &plain));
    for (int kind = 0; kind < 2; kind++) {
        vv_tta_opts opts = {kind, 0.8};
        double expected[2 * N] = {0};
        int64_t again, unsure = 0;
        for (int v = 0; v < (kind ? 6 : 2); v++) {
            vv_node *seen = vv_tta_view(in, shifts[v], shifts[v], v % 2);
            assert_ok(vv_node_value(vv_module_forward(net, graph, seen), &view));
            for (int i = 0; i < 2 * N; i++)
                expected[i] += weights[kind][v] * vv_tensor_get(view, i);
        }
        assert_ok(vv_node_value(vv_tta_forward(net, graph, in, kind ? own : NULL, &opts), &y));
        for (int i = 0; i < 2 * N; i++)
            assert_near(vv_tensor_get(y, i), expected[i], 1e-5, 1e-5);
        assert_ok(vv_tta_gated(&gated, net, graph, in, own, &opts, &again));
        assert_ok(vv_node_value(gated, &g));
        for (int i = 0; i < N; i++) {
            const double a = vv_tensor_get(plain, 2 * i), b = vv_tensor_get(plain, 2 * i + 1);
            const bool sure = 1 / (1 + exp(-fabs(a - b))) >= 0.8;
            for (int k = 2 * i; k < 2 * i + 2; k++)
                assert_near(vv_tensor_get(g, k), sure ? vv_tensor_get(plain, k) : expected[k], 1e-5,
                            1e-5);
            unsure += !sure;
        }
        assert_int_equal(again, unsure);
        assert_true(unsure > 0 && unsure < N);
        opts.confidence = 0; /* everybody is sure */
        assert_ok(vv_tta_gated(&gated, net, graph, in, own, &opts, &again));
        assert_ptr_equal(gated, own);
        assert_int_equal(again, 0);
    }
    vv_graph_free(graph);
    vv_tensor_free(x);
    vv_module_free(net);
}

/* Prediction gives the averaged logits, gated or not. */
static void method(void **unused)
{
    (void)unused;
    const vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 3,
                                 .input_shape = {3, 3, 1}, .classes = 2};
    static const int32_t classes[N] = {0};
    vv_tensor *x = images();
    for (int gate = 0; gate < 2; gate++) {
        const vv_tta_opts tta = {VV_TTA_FLIP, gate ? 0.8 : 1};
        vv_dataset *set;
        vv_loader *loader;
        vv_trainer *trainer;
        vv_tensor *out;
        const vv_tensor *y;
        vv_node *node;
        const vv_loader_opts loading = VV_LOADER_DEFAULTS;
        assert_ok(vv_dataset_from_arrays(&set, &spec, N, x->data, classes));
        assert_ok(vv_loader_new(&loader, set, &loading));
        vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
        assert_ok(vv_classifier_new(&opts.model, linear_net(), 2));
        opts.train = loader;
        opts.methods = VV_LIST(vv_tta(&tta));
        assert_ok(vv_trainer_new(&trainer, &opts));
        assert_ok(vv_trainer_predict(trainer, loader, &out));
        vv_module *net = vv_trainer_state(trainer)->model->net;
        vv_graph *graph = new_graph();
        vv_node *in = vv_leaf(graph, x), *own = vv_module_forward(net, graph, in);
        node = vv_tta_forward(net, graph, in, own, &tta);
        if (gate)
            assert_ok(vv_tta_gated(&node, net, graph, in, own, &tta, NULL));
        assert_ok(vv_node_value(node, &y));
        for (int64_t i = 0; i < out->count; i++)
            assert_near(vv_tensor_get(out, i), vv_tensor_get(y, i), 1e-6, 1e-6);
        assert_false(vv_trainer_state(trainer)->methods[0]->type->events &
                     VV_EVENT_BIT(VV_EVENT_AFTER_FORWARD));
        vv_tensor_free(out);
        vv_graph_free(graph);
        vv_trainer_free(trainer);
        vv_loader_free(loader);
        vv_dataset_free(set);
    }
    vv_tensor_free(x);
    const vv_tta_opts defaults = VV_TTA_DEFAULTS;
    vv_str ours = {0}, table = {0};
    vv_method *m = vv_tta(NULL);
    vv_opts_to_json(&m->type->desc, m->opts, &table);
    vv_opts_to_json(&m->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(views), cmocka_unit_test(mean_and_gate),
                                       cmocka_unit_test(method)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
