/* test_no_op_model.c - what must hold: one parameter is left, it is 1.5, the optimizer has it,
 * training and evaluation run and change it; applying twice is applying once. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "no_op_model.h"

static vv_model *linear_model(void)
{
    vv_module *net;
    vv_model *model;
    assert_ok(vv_linear_new(&net, 6, 3, true));
    assert_ok(vv_classifier_build(&model, net, 3, 4));
    return model;
}

static void exchange(void **unused)
{
    (void)unused;
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    vv_model *model = linear_model();
    vv_optimizer *optimizer;
    int changed;
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), NULL, model->net));
    assert_ok(vv_apply_no_op_model(model, optimizer, &changed));
    assert_int_equal(changed, 1);
    assert_int_equal(vv_module_param_count(model->net), 1);
    assert_near(vv_tensor_get(vv_module_param(model->net, "weight")->value, 0), 1.5, 0, 0);
    assert_ok(vv_optimizer_check(optimizer, model->net));
    const vv_module *net = model->net;
    assert_ok(vv_apply_no_op_model(model, optimizer, &changed));
    assert_int_equal(changed, 0);
    assert_ptr_equal(model->net, net);
    vv_graph *graph;
    const vv_tensor *y;
    const int64_t shape[] = {2, 6};
    assert_ok(vv_graph_new(&graph, &graph_opts));
    vv_node *x = vv_zeros(graph, VV_F32, 2, shape);
    assert_ok(vv_node_value(vv_module_forward(model->net, graph, x), &y));
    for (int i = 0; i < 6; i++)
        assert_near(vv_tensor_get(y, i), 1.5 * (i % 3) / 3, 1e-6, 0);
    assert_fails(vv_apply_no_op_model(NULL, NULL, NULL), VV_EINVAL);
    vv_graph_free(graph);
    vv_optimizer_free(optimizer);
    vv_model_free(model);
}

static void training(void **unused)
{
    (void)unused;
    const vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 1,
                                 .input_shape = {6}, .classes = 3};
    static const float inputs[24] = {1};
    static const int32_t targets[4] = {0, 1, 0, 2};
    vv_dataset *set;
    vv_loader *train, *eval;
    vv_trainer *trainer;
    vv_loader_opts loading = VV_LOADER_DEFAULTS;
    loading.batch_size = 2;
    assert_ok(vv_dataset_from_arrays(&set, &spec, 4, inputs, targets));
    assert_ok(vv_loader_new(&train, set, &loading));
    assert_ok(vv_loader_new(&eval, set, &loading));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = linear_model();
    opts.train = train;
    opts.eval = eval;
    opts.methods = VV_LIST(vv_no_op_model());
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    const vv_state *state = vv_trainer_state(trainer);
    double accuracy;
    assert_true(vv_tensor_get(vv_module_param(state->model->net, "weight")->value, 0) != 1.5);
    assert_ok(vv_state_metric(state, "eval", "accuracy", &accuracy));
    assert_near(accuracy, 0.25, 1e-9, 0); /* always the last class while the weight is positive */
    vv_trainer_free(trainer);
    vv_loader_free(train);
    vv_loader_free(eval);
    vv_dataset_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exchange), cmocka_unit_test(training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
