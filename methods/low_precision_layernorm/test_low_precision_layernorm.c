/* test_low_precision_layernorm.c - what must hold: nothing changes in fp32, with a message instead
 * of an error; in half precision every layer norm is replaced, once, its result is bf16 and near
 * the fp32 norm, its weights are the same objects; a net without layer norms is the usual error. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "low_precision_layernorm.h"

static vv_module *small_net(bool norms)
{
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_linear_new(&layer, 6, 8, true);
    assert_ok(vv_sequential_push(net, made, layer));
    for (int i = 0; i < 2 && norms; i++) {
        made = vv_layer_norm_new(&layer, 8, 1e-5);
        assert_ok(vv_sequential_push(net, made, layer));
    }
    assert_ok(vv_module_init_default(net, 8));
    return net;
}

static void values(void **unused)
{
    (void)unused;
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {3, 4, 4, 8}, eight = 8;
    vv_graph *graph;
    vv_tensor *x, *gamma;
    const vv_tensor *a, *b;
    assert_ok(vv_graph_new(&graph, &graph_opts));
    assert_ok(vv_tensor_new(&x, VV_F32, 4, shape));
    assert_ok(vv_tensor_new(&gamma, VV_F32, 1, &eight));
    vv_rng rng = vv_rng_at(3, "x", 0);
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, 1 + vv_rng_normal(&rng));
    for (int64_t i = 0; i < 8; i++)
        vv_tensor_set(gamma, i, 1.001 + 0.1 * (double)i);
    vv_node *in = vv_leaf(graph, x), *scale = vv_leaf(graph, gamma);
    vv_node *low = vv_low_precision_layer_norm(in, scale, NULL, 1e-5);
    assert_int_equal(vv_node_dtype(low), VV_BF16);
    assert_ok(vv_node_value(low, &a));
    assert_ok(vv_node_value(vv_layer_norm(in, scale, NULL, 1e-5), &b));
    bool differs = false;
    for (int64_t i = 0; i < a->count; i++) {
        assert_near(vv_tensor_get(a, i), vv_tensor_get(b, i), 0.03, 0.02);
        differs = differs || vv_tensor_get(a, i) != vv_tensor_get(b, i);
    }
    assert_true(differs);
    vv_tensor_free(x);
    vv_tensor_free(gamma);
    vv_graph_free(graph);
}

static void surgery(void **unused)
{
    (void)unused;
    vv_module *net = small_net(true);
    vv_optimizer *optimizer;
    int count;
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), NULL, net));
    const vv_param *weight = vv_module_param(vv_module_child(net, 1), "weight");
    assert_ok(vv_apply_low_precision_layernorm(net, VV_PRECISION_FP32, optimizer, &count));
    assert_int_equal(count, 0);
    assert_int_equal(vv_module_count(net, &vv_layer_norm_class), 2);
    assert_ok(vv_apply_low_precision_layernorm(net, VV_PRECISION_AMP_BF16, optimizer, &count));
    assert_int_equal(count, 2);
    assert_ptr_equal(vv_module_param(vv_module_child(net, 1), "weight"), weight);
    assert_int_equal(weight->owners, 1);
    assert_ok(vv_optimizer_check(optimizer, net));
    assert_ok(vv_apply_low_precision_layernorm(net, VV_PRECISION_AMP_BF16, optimizer, &count));
    assert_int_equal(count, 0);
    assert_int_equal(vv_module_count(net, &vv_low_precision_layernorm_class), 2);
    assert_fails(vv_apply_low_precision_layernorm(NULL, VV_PRECISION_AMP_BF16, NULL, NULL),
                 VV_EINVAL);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
}

static int replaced(vv_precision precision, const char *settings, bool norms)
{
    vv_trainer *trainer;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    vv_method *method;
    assert_ok(vv_method_make(&method, "low_precision_layernorm", settings));
    assert_ok(vv_classifier_new(&opts.model, small_net(norms), 8));
    opts.precision = precision;
    opts.methods = (vv_method_list){&method, 1};
    vv_error_clear();
    if (vv_trainer_new(&trainer, &opts) != VV_OK)
        return -1;
    const int count = vv_module_count(vv_trainer_state(trainer)->model->net,
                                      &vv_low_precision_layernorm_class);
    vv_trainer_free(trainer);
    return count;
}

static void method(void **unused)
{
    (void)unused;
    const vv_low_precision_layernorm_opts defaults = VV_LOW_PRECISION_LAYERNORM_DEFAULTS;
    static const char *const settings[] = {"", "apply_at=after_load"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(replaced(VV_PRECISION_FP32, settings[i], true), 0);
        assert_int_equal(replaced(VV_PRECISION_FP32, settings[i], false), 0);
        assert_int_equal(replaced(VV_PRECISION_AMP_BF16, settings[i], true), 2);
        assert_int_equal(replaced(VV_PRECISION_BF16, settings[i], true), 2);
        assert_int_equal(replaced(VV_PRECISION_AMP_BF16, settings[i], false), -1);
        assert_says("nothing to change");
    }
    vv_str ours = {0}, table = {0};
    vv_method *m = vv_low_precision_layernorm(NULL);
    vv_opts_to_json(&m->type->desc, m->opts, &table);
    vv_opts_to_json(&m->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(surgery),
                                       cmocka_unit_test(method)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
