/* test_gated_linear_units.c - what must hold: a block's output is the formula's, for each
 * activation and bias; all blocks of GPT-2 and BERT are found, once; new weights are drawn as the
 * old ones were, others stay; widths; the optimizer is kept in step; runs depend on neither
 * microbatches nor interruptions. */
#include "language_world.h"

#include "gated_linear_units.h"

static double act(int kind, double x)
{
    switch (kind) {
    case VV_GLU_RELU: return x > 0 ? x : 0;
    case VV_GLU_SIGMOID: return 1 / (1 + exp(-x));
    case VV_GLU_SILU: return x / (1 + exp(-x));
    case VV_GLU_GELU: return 0.5 * x * (1 + erf(x / sqrt(2)));
    default: /* GPT-2's own is the tanh form */
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    }
}

static double get(vv_module *module, const char *path, const char *name, int64_t i)
{
    const vv_param *param = vv_module_param(vv_module_find(module, path), name);
    return param ? vv_tensor_get(param->value, i) : 0.0;
}

static void formula(void **unused)
{
    (void)unused;
    enum { D = 8, FF = 32 };
    for (int kind = VV_GLU_OWN; kind <= VV_GLU_SIGMOID; kind++) {
        const vv_gated_linear_units_opts opts = {kind, kind % 2 == 0, kind % 3 == 0, false};
        const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
        const int64_t shape[] = {1, D};
        vv_module *net = lw_net(0), *mlp;
        vv_graph *graph;
        const vv_tensor *value;
        float x[D];
        int count;
        assert_ok(vv_apply_gated_linear_units(net, &opts, 3, NULL, &count));
        assert_int_equal(count, 2);
        mlp = vv_module_find(net, "transformer.h.1.mlp");
        static const char *const layers[] = {"c_fc.gate", "c_fc.value", "c_proj"};
        vv_rng rng = vv_rng_at(8, "x", 0);
        for (int i = 0; i < D; i++)
            x[i] = (float)vv_rng_normal(&rng);
        for (int l = 0; l < 3; l++) { /* biases that show, weights that bend */
            vv_param *b = vv_module_param(vv_module_find(mlp, layers[l]), "bias");
            vv_param *w = vv_module_param(vv_module_find(mlp, layers[l]), "weight");
            assert_int_equal(b != NULL, l == 2 || (l == 0 ? opts.gated_layer_bias
                                                          : opts.non_gated_layer_bias));
            for (int64_t i = 0; b && i < b->value->count; i++)
                vv_tensor_set(b->value, i, vv_rng_normal(&rng));
            for (int64_t i = 0; i < w->value->count; i++)
                vv_tensor_set(w->value, i, 20 * vv_tensor_get(w->value, i));
        }
        assert_ok(vv_graph_new(&graph, &graph_opts));
        vv_module_set_training(net, false);
        assert_ok(vv_node_value(vv_module_forward(mlp, graph, vv_data(graph, VV_F32, 2, shape, x)),
                                &value));
        double hidden[FF];
        for (int j = 0; j < FF; j++) {
            double g = get(mlp, "c_fc.gate", "bias", j), v = get(mlp, "c_fc.value", "bias", j);
            for (int i = 0; i < D; i++) {
                g += (double)x[i] * get(mlp, "c_fc.gate", "weight", j * D + i);
                v += (double)x[i] * get(mlp, "c_fc.value", "weight", j * D + i);
            }
            hidden[j] = act(kind == VV_GLU_OWN ? VV_GLU_GELU_TANH : kind, g) * v;
        }
        for (int k = 0; k < D; k++) {
            double y = get(mlp, "c_proj", "bias", k);
            for (int j = 0; j < FF; j++)
                y += hidden[j] * get(mlp, "c_proj", "weight", k * FF + j);
            assert_near(vv_tensor_get(value, k), y, 1e-5, 1e-4);
        }
        vv_graph_free(graph);
        vv_module_free(net);
    }
}

static double deviation(vv_module *module, const char *path)
{
    const vv_tensor *w = vv_module_param(vv_module_find(module, path), "weight")->value;
    double sum = 0;
    for (int64_t i = 0; i < w->count; i++)
        sum += vv_tensor_get(w, i) * vv_tensor_get(w, i);
    return sqrt(sum / (double)w->count);
}

static void surgery(void **unused)
{
    (void)unused;
    vv_gated_linear_units_opts opts = VV_GATED_LINEAR_UNITS_DEFAULTS;
    vv_module *net = lw_net(0), *same = lw_net(0);
    vv_optimizer *optimizer;
    int count;
    const vv_param *out =
        vv_module_param(vv_module_find(net, "transformer.h.0.mlp.c_proj"), "weight");
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), NULL, net));
    assert_ok(vv_apply_gated_linear_units(net, NULL, 3, optimizer, &count));
    assert_int_equal(count, 2);
    assert_ok(vv_optimizer_check(optimizer, net));
    assert_ptr_equal(vv_module_param(vv_module_find(net, "transformer.h.0.mlp.c_proj"), "weight"),
                     out);
    assert_int_equal(vv_module_count(net, &vv_gated_linear_class), 2);
    assert_near(deviation(net, "transformer.h.0.mlp.c_fc.gate"), 0.02, 0, 0.2);
    assert_near(deviation(net, "transformer.h.1.mlp.c_fc.value"), 0.02, 0, 0.2);
    assert_ok(vv_apply_gated_linear_units(net, NULL, 3, optimizer, &count));
    assert_int_equal(count, 0);
    assert_ok(vv_apply_gated_linear_units(same, NULL, 3, NULL, NULL)); /* a function of the seed */
    const vv_tensor *a =
        vv_module_param(vv_module_find(net, "transformer.h.0.mlp.c_fc.gate"), "weight")->value;
    const vv_tensor *b =
        vv_module_param(vv_module_find(same, "transformer.h.0.mlp.c_fc.gate"), "weight")->value;
    const vv_tensor *c =
        vv_module_param(vv_module_find(same, "transformer.h.1.mlp.c_fc.gate"), "weight")->value;
    assert_memory_equal(a->data, b->data, a->bytes);
    assert_memory_not_equal(b->data, c->data, b->bytes);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
    vv_module_free(same);

    assert_int_equal(vv_gated_width(3072), 2048);
    assert_int_equal(vv_gated_width(32), 24);
    assert_int_equal(vv_gated_width(6), 4);
    opts.scale_hidden = true;
    net = lw_net(0);
    assert_ok(vv_apply_gated_linear_units(net, &opts, 3, NULL, &count));
    assert_int_equal(vv_module_param(vv_module_find(net, "transformer.h.0.mlp.c_proj"), "weight")
                         ->value->shape[1],
                     24);
    assert_non_null(vv_module_param(vv_module_find(net, "transformer.h.0.mlp.c_proj"), "bias"));
    vv_module_free(net);
    assert_fails(vv_apply_gated_linear_units(NULL, NULL, 3, NULL, NULL), VV_EINVAL);
}

static void training(void **unused)
{
    (void)unused;
    const vv_gated_linear_units_opts defaults = VV_GATED_LINEAR_UNITS_DEFAULTS;
    lw_same_defaults(&vv_method_gated_linear_units, &defaults);
    const char *how = "scale_hidden=true,gated_layer_bias=true";
    const mw_weights whole = lw_run("3ba", 0, "gated_linear_units", how, NULL);
    const mw_weights micro = lw_run("3ba", 3, "gated_linear_units", how, NULL);
    const mw_weights parts = lw_run_resumed("3ba", "gated_linear_units", how);
    assert_true(mw_difference(&whole, &micro) < 1e-5);
    assert_true(mw_equal(&whole, &parts));
}

/* BERT's blocks lie apart: the first layer in "intermediate", the second in "output". */
static void bert(void **unused)
{
    (void)unused;
    vv_bert_opts opts = VV_BERT_DEFAULTS;
    vv_module *net;
    int count;
    const int32_t row[LW_TOKENS] = {1, 2, 3};
    opts.d = 8;
    opts.layers = opts.heads = 2;
    opts.d_ff = 32;
    opts.vocabulary = LW_VOCABULARY;
    assert_ok(vv_bert_new(&net, LW_VOCABULARY, &opts, 4));
    assert_ok(vv_apply_gated_linear_units(net, NULL, 3, NULL, &count));
    assert_int_equal(count, 2);
    assert_non_null(vv_module_find(net, "bert.encoder.layer.0.intermediate.dense.gate"));
    assert_ok(lw_logits(net, row, 1, LW_TOKENS, NULL));
    vv_module_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(formula), cmocka_unit_test(surgery),
                                       cmocka_unit_test(training), cmocka_unit_test(bert)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
