/* segment_test.h - what the tests of models for masks check alike. */
#ifndef SEGMENT_TEST_H
#define SEGMENT_TEST_H

#include "model_test.h"

/* Images of these sizes with a mask each. */
static inline vv_sample_spec mask_spec(int64_t height, int64_t width, int64_t channels,
                                       int64_t classes)
{
    vv_sample_spec spec = image_spec(height, width, channels, classes);

    spec.target_ndim = 2;
    spec.target_shape[0] = height;
    spec.target_shape[1] = width;
    return spec;
}

/* Forward and backward on `batch` random images and masks with ignored pixels: logits of the
   images' size, a loss near ln(classes), and a finite gradient for every parameter, not all zero
   together. */
static inline void segmenter_trains(vv_model *model, const vv_sample_spec *spec, int64_t batch)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    model_names *names = calloc(1, sizeof *names);
    const int64_t shape[] = {batch, spec->input_shape[0], spec->input_shape[1],
                             spec->input_shape[2]};
    vv_node *leaves[MODEL_TEST_MAX_PARAMS], *outs[MODEL_TEST_MAX_PARAMS + 1];
    vv_graph *graph = NULL;
    vv_tensor *input = NULL, *target = NULL;
    vv_rng rng = vv_rng_at(3, "segment_test", 0);
    double loss, whole = 0.0;

    assert_non_null(names);
    assert_int_equal(model->ignore_index, -1);
    vv_module_each_param(model->net, model_take_param, names);
    assert_ok(vv_tensor_new(&input, VV_F32, 4, shape));
    assert_ok(vv_tensor_new(&target, VV_I32, 3, shape));
    for (int64_t i = 0; i < input->count; i++)
        vv_tensor_set(input, i, vv_rng_normal(&rng));
    for (int64_t i = 0; i < target->count; i++)
        vv_tensor_set(target, i, (double)(i / 5 % (model->classes + 1) - 1));
    assert_ok(vv_model_check_target(model, target));
    assert_ok(vv_graph_new(&graph, &opts));

    vv_node *output = vv_module_forward(model->net, graph, vv_leaf(graph, input));
    vv_node *sum = vv_sum_all(vv_model_loss(model, output, vv_leaf(graph, target)));
    vv_node *mean = vv_div(sum, vv_scalar(graph, (double)vv_model_loss_items(model, target)));

    assert_ok(vv_graph_status(graph));
    assert_int_equal(vv_node_ndim(output), 4);
    assert_memory_equal(vv_node_shape(output), shape, 3 * sizeof *shape);
    assert_int_equal(vv_node_shape(output)[3], model->classes);
    for (int i = 0; i < names->count; i++)
        leaves[i] = vv_leaf(graph, names->params[i]->value);
    assert_ok(vv_grad(graph, mean, leaves, names->count, outs));
    outs[names->count] = mean;
    assert_ok(vv_eval(graph, outs, names->count + 1));
    assert_ok(vv_node_item(mean, &loss));
    assert_true(isfinite(loss) && loss > 0.0 && loss < 3.0 * log((double)model->classes) + 3.0);
    for (int i = 0; i < names->count; i++) {
        const vv_tensor *grad = NULL;

        assert_ok(vv_node_value(outs[i], &grad));
        assert_true(vv_tensor_same_shape(grad, names->params[i]->value));
        for (int64_t k = 0; k < grad->count; k++)
            whole += fabs(vv_tensor_get(grad, k));
    }
    assert_true(isfinite(whole) && whole > 0.0);
    vv_graph_free(graph);
    vv_tensor_free(input);
    vv_tensor_free(target);
    free(names);
}

#endif
