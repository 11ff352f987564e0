/* test_logit_scale.c - what must hold: z becomes scale * z, or softcap * tanh(scale * z / softcap),
 * in training, evaluation and prediction alike; the method's output is the function's. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "logit_scale.h"

static void formula(void **unused)
{
    (void)unused;
    static const float z[] = {-40, -1, 0, 0.5, 100};
    static const vv_logit_scale_opts cases[] = {{0.25, 0}, {1, 15}, {0.5, 30}};
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {1, 5};
    vv_graph *graph;
    const vv_tensor *y;
    assert_ok(vv_graph_new(&graph, &graph_opts));
    vv_node *in = vv_data(graph, VV_F32, 2, shape, z);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(vv_node_value(vv_scale_logits(in, &cases[i]), &y));
        for (int k = 0; k < 5; k++) {
            const double scaled = cases[i].scale * (double)z[k], cap = cases[i].softcap;
            assert_near(vv_tensor_get(y, k), cap > 0 ? cap * tanh(scaled / cap) : scaled, 1e-5,
                        1e-5);
        }
    }
    assert_null(vv_scale_logits(NULL, NULL));
    vv_graph_free(graph);
}

/* Predictions and the evaluated loss are those of scaled logits. */
static void everywhere(void **unused)
{
    (void)unused;
    const vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 1,
                                 .input_shape = {2}, .classes = 2};
    static const float inputs[2] = {4, 1};
    static const int32_t target = 0;
    vv_dataset *set;
    vv_loader *train, *eval;
    vv_module *net;
    vv_trainer *trainer;
    vv_tensor *out;
    double loss;
    const vv_loader_opts loading = VV_LOADER_DEFAULTS;
    const vv_logit_scale_opts half = {0.5, 0};
    assert_ok(vv_dataset_from_arrays(&set, &spec, 1, inputs, &target));
    assert_ok(vv_loader_new(&train, set, &loading));
    assert_ok(vv_loader_new(&eval, set, &loading));
    assert_ok(vv_identity_new(&net));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_new(&opts.model, net, 2));
    opts.eval = eval;
    opts.methods = VV_LIST(vv_logit_scale(&half));
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_eval(trainer));
    assert_ok(vv_state_metric(vv_trainer_state(trainer), "eval", "cross_entropy", &loss));
    assert_near(loss, log(1 + exp(-1.5)), 1e-6, 0);
    assert_ok(vv_trainer_predict(trainer, train, &out));
    assert_near(vv_tensor_get(out, 0), 2, 1e-6, 0);
    assert_near(vv_tensor_get(out, 1), 0.5, 1e-6, 0);
    vv_tensor_free(out);
    vv_trainer_free(trainer);
    vv_loader_free(train);
    vv_loader_free(eval);
    vv_dataset_free(set);
}

static void settings(void **unused)
{
    (void)unused;
    const vv_logit_scale_opts defaults = VV_LOGIT_SCALE_DEFAULTS, zero = {0, 0};
    vv_str ours = {0}, table = {0};
    vv_method *m = vv_logit_scale(NULL);
    vv_opts_to_json(&m->type->desc, m->opts, &table);
    vv_opts_to_json(&m->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(m);
    assert_null(vv_logit_scale(&zero));
    assert_says("scale");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(formula), cmocka_unit_test(everywhere),
                                       cmocka_unit_test(settings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
