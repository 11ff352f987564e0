/* test_dirac_init.c - what must hold: the first filters hand the channels on, to the bit; the
 * others, and convolutions that do not match, stay as they were; nothing matching is an error in
 * training. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "dirac_init.h"

static vv_module *conv(int64_t in, int64_t out, int64_t kernel, int64_t groups)
{
    vv_conv_opts opts = VV_CONV_DEFAULTS;
    vv_module *layer;
    opts.pad[0] = opts.pad[1] = kernel / 2;
    opts.groups = groups;
    assert_ok(vv_conv2d_new(&layer, in, out, kernel, &opts, false));
    assert_ok(vv_module_init_default(layer, 5));
    return layer;
}

static void identity(void **unused)
{
    (void)unused;
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {2, 5, 4, 6};
    vv_module *layer = conv(6, 9, 3, 1);
    const vv_tensor *w = vv_module_param(layer, "weight")->value;
    vv_tensor *before, *x;
    vv_graph *graph;
    const vv_tensor *y;
    assert_ok(vv_tensor_clone(&before, w));
    assert_int_equal(vv_apply_dirac_init(layer, NULL), 1);
    assert_memory_equal((float *)w->data + 6 * 6 * 9, (float *)before->data + 6 * 6 * 9,
                        3 * 6 * 9 * sizeof(float));
    assert_ok(vv_graph_new(&graph, &graph_opts));
    assert_ok(vv_tensor_new(&x, VV_F32, 4, shape));
    vv_rng rng = vv_rng_at(1, "x", 0);
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, vv_rng_normal(&rng));
    assert_ok(vv_node_value(vv_module_forward(layer, graph, vv_leaf(graph, x)), &y));
    for (int64_t i = 0; i < x->count; i++)
        assert_near(vv_tensor_get(y, i / 6 * 9 + i % 6), vv_tensor_get(x, i), 1e-6, 0);
    vv_graph_free(graph);
    vv_tensor_free(x);
    vv_tensor_free(before);
    vv_module_free(layer);
}

static void who_matches(void **unused)
{
    (void)unused;
    static const struct {
        int64_t in, out, kernel, groups;
        int matches;
    } cases[] = {{3, 16, 3, 1, 0}, {8, 4, 3, 1, 0}, {8, 8, 2, 1, 0},
                 {8, 8, 3, 2, 0},  {4, 4, 1, 1, 1}, {8, 8, 5, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vv_module *layer = conv(cases[i].in, cases[i].out, cases[i].kernel, cases[i].groups);
        const vv_tensor *w = vv_module_param(layer, "weight")->value;
        vv_tensor *before;
        assert_ok(vv_tensor_clone(&before, w));
        assert_int_equal(vv_apply_dirac_init(layer, NULL), cases[i].matches);
        assert_int_equal(memcmp(w->data, before->data, w->bytes) != 0, cases[i].matches);
        vv_tensor_free(before);
        vv_module_free(layer);
    }
}

static void method(void **unused)
{
    (void)unused;
    const vv_dirac_init_opts defaults = VV_DIRAC_INIT_DEFAULTS;
    vv_trainer *trainer;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_new(&opts.model, conv(8, 8, 3, 1), 8));
    opts.methods = VV_LIST(vv_dirac_init(NULL));
    assert_ok(vv_trainer_new(&trainer, &opts));
    const vv_state *state = vv_trainer_state(trainer);
    assert_int_equal(state->methods[0]->effect, 1);
    assert_near(vv_tensor_get(vv_module_param(state->model->net, "weight")->value, 4), 1, 0, 0);
    vv_trainer_free(trainer);
    assert_ok(vv_classifier_new(&opts.model, conv(3, 8, 3, 1), 8));
    opts.methods = VV_LIST(vv_dirac_init(NULL));
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("nothing to change");
    vv_str ours = {0}, table = {0};
    vv_method *m = vv_dirac_init(NULL);
    vv_opts_to_json(&m->type->desc, m->opts, &table);
    vv_opts_to_json(&m->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(identity), cmocka_unit_test(who_matches),
                                       cmocka_unit_test(method)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
