/* test_layers.c - what must hold of layers: constructors refuse what cannot work, weights have
 * PyTorch's shapes, flatten puts channels first, dropout rests in evaluation, and batch norm keeps
 * unbiased running statistics in training, uses them in evaluation, and leaves them alone when its
 * parameters are frozen. */
#include "nn_test.h"

static const float *values(vv_node *node)
{
    const vv_tensor *tensor = NULL;

    assert_non_null(node);
    assert_ok(vv_node_value(node, &tensor));
    assert_int_equal(tensor->dtype, VV_F32);
    return tensor->data;
}

static void assert_shape(const vv_tensor *tensor, int ndim, const int64_t *shape)
{
    assert_int_equal(tensor->ndim, ndim);
    for (int i = 0; i < ndim; i++)
        assert_int_equal(tensor->shape[i], shape[i]);
}

static void weights_have_the_shapes_of_pytorch(void **state)
{
    (void)state;
    const vv_conv_opts grouped = {{1, 1}, {0, 0}, {1, 1}, 2, {0, 0}};
    vv_module *m = NULL;

    assert_ok(vv_conv2d_new(&m, 6, 4, 3, &grouped, true));
    assert_shape(vv_module_param(m, "weight")->value, 4, (int64_t[]){4, 3, 3, 3});
    assert_shape(vv_module_param(m, "bias")->value, 1, (int64_t[]){4});
    assert_int_equal(((vv_conv2d_layer *)vv_module_self(m))->conv.groups, 2);
    vv_module_free(m);
    assert_ok(vv_conv_transpose2d_new(&m, 6, 4, 3, &grouped, true));
    assert_shape(vv_module_param(m, "weight")->value, 4, (int64_t[]){6, 2, 3, 3});
    assert_shape(vv_module_param(m, "bias")->value, 1, (int64_t[]){4});
    vv_module_free(m);
    assert_ok(vv_linear_new(&m, 6, 4, false));
    assert_shape(vv_module_param(m, "weight")->value, 2, (int64_t[]){4, 6});
    assert_null(vv_module_param(m, "bias"));
    vv_module_free(m);
    assert_ok(vv_embedding_new(&m, 6, 4));
    assert_shape(vv_module_param(m, "weight")->value, 2, (int64_t[]){6, 4});
    vv_module_free(m);
    assert_ok(vv_batch_norm_new(&m, 5, 1e-5, 0.1));
    assert_shape(vv_module_buffer(m, "num_batches_tracked"), 0, NULL);
    assert_int_equal(vv_module_buffer(m, "num_batches_tracked")->dtype, VV_I64);
    assert_true(vv_tensor_get(vv_module_param(m, "weight")->value, 4) == 1.0);
    assert_true(vv_tensor_get(vv_module_buffer(m, "running_var"), 4) == 1.0);
    vv_module_free(m);
}

static void what_cannot_work_is_refused(void **state)
{
    (void)state;
    const vv_conv_opts stride0 = {{0, 1}, {0, 0}, {1, 1}, 1, {0, 0}};
    const vv_conv_opts groups3 = {{1, 1}, {0, 0}, {1, 1}, 3, {0, 0}};
    const vv_pool_opts pad = {.kernel = {2, 2}, .pad = {2, 0}}, kernel0 = {.kernel = {0, 2}};
    vv_module *m = (vv_module *)state;

    assert_fails(vv_conv2d_new(&m, 0, 4, 3, NULL, true), VV_EINVAL);
    assert_null(m);
    assert_fails(vv_conv2d_new(&m, 4, 4, 3, &stride0, true), VV_EINVAL);
    assert_fails(vv_conv2d_new(&m, 4, 4, 3, &groups3, true), VV_EINVAL);
    assert_says("groups");
    assert_fails(vv_conv_transpose2d_new(&m, 4, 4, 0, NULL, true), VV_EINVAL);
    assert_fails(vv_linear_new(&m, 4, 0, true), VV_EINVAL);
    assert_fails(vv_embedding_new(&m, -1, 2), VV_EINVAL);
    assert_fails(vv_batch_norm_new(&m, 4, 1e-5, 1.5), VV_EINVAL);
    assert_fails(vv_batch_norm_new(&m, 4, -1.0, 0.1), VV_EINVAL);
    assert_fails(vv_batch_norm_new(&m, 0, 1e-5, 0.1), VV_EINVAL);
    assert_fails(vv_group_norm_new(&m, 3, 4, 1e-5), VV_EINVAL);
    assert_fails(vv_layer_norm_new(&m, 0, 1e-5), VV_EINVAL);
    assert_fails(vv_max_pool_new(&m, &pad), VV_EINVAL);
    assert_fails(vv_avg_pool_new(&m, &kernel0), VV_EINVAL);
    assert_fails(vv_max_pool_new(&m, NULL), VV_EINVAL);
    assert_fails(vv_adaptive_avg_pool_new(&m, 0, 1), VV_EINVAL);
    assert_fails(vv_dropout_new(&m, 1.0), VV_EINVAL);
    assert_fails(vv_dropout_new(&m, -0.1), VV_EINVAL);
    assert_fails(vv_activation_new(&m, (vv_activation)99, 0.0), VV_EINVAL);
    assert_null(m);
    assert_fails(vv_sequential_push(NULL, VV_OK, new_identity()), VV_EINVAL);
    assert_int_equal(vv_sequential_push(NULL, VV_ENOMEM, NULL), VV_ENOMEM);
}

static void flatten_puts_channels_first(void **state)
{
    (void)state;
    /* [1,2,2,3] in NHWC; channel c of pixel p is 10 * c + p. */
    const float x[] = {0, 10, 20, 1, 11, 21, 2, 12, 22, 3, 13, 23};
    const float expected[] = {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};
    vv_graph *graph = new_graph();
    vv_module *m = NULL;
    vv_node *y;

    assert_ok(vv_flatten_new(&m));
    y = vv_module_forward(m, graph, vv_data(graph, VV_F32, 4, (int64_t[]){1, 2, 2, 3}, x));
    assert_memory_equal(values(y), expected, sizeof expected);
    assert_int_equal(vv_node_ndim(y), 2);
    assert_int_equal(vv_node_shape(y)[1], 12);
    y = vv_module_forward(m, graph, vv_data(graph, VV_F32, 2, (int64_t[]){2, 6}, x));
    assert_memory_equal(values(y), x, sizeof x);
    y = vv_module_forward(m, graph, vv_data(graph, VV_F32, 3, (int64_t[]){1, 4, 3}, x));
    assert_memory_equal(values(y), expected, sizeof expected);
    vv_module_free(m);
    vv_graph_free(graph);
}

static void layers_compute(void **state)
{
    (void)state;
    const float x[] = {-1, 2, 3, -4};
    const int64_t image[] = {1, 2, 2, 1}, flat[] = {2, 2};
    const vv_pool_opts pool = {.kernel = {2, 2}};
    vv_graph *graph = new_graph();
    vv_module *m = NULL;
    vv_node *in = vv_data(graph, VV_F32, 4, image, x);

    assert_ok(vv_max_pool_new(&m, &pool));
    assert_near(values(vv_module_forward(m, graph, in))[0], 3.0, 0.0, 0.0);
    vv_module_free(m);
    assert_ok(vv_avg_pool_new(&m, &pool));
    assert_near(values(vv_module_forward(m, graph, in))[0], 0.0, 1e-7, 0.0);
    vv_module_free(m);
    assert_ok(vv_adaptive_avg_pool_new(&m, 2, 1));
    assert_near(values(vv_module_forward(m, graph, in))[1], -0.5, 1e-7, 0.0);
    vv_module_free(m);
    assert_ok(vv_activation_new(&m, VV_ACT_LEAKY_RELU, 0.25));
    assert_near(values(vv_module_forward(m, graph, in))[3], -1.0, 1e-7, 0.0);
    vv_module_free(m);
    assert_ok(vv_activation_new(&m, VV_ACT_SIGMOID, 0.0));
    assert_near(values(vv_module_forward(m, graph, in))[1], 1.0 / (1.0 + exp(-2.0)), 1e-6, 0.0);
    vv_module_free(m);
    m = new_linear(2, 1);
    vv_tensor_set(vv_module_param(m, "weight")->value, 0, 2.0);
    vv_tensor_set(vv_module_param(m, "weight")->value, 1, 1.0);
    vv_tensor_set(vv_module_param(m, "bias")->value, 0, 0.5);
    assert_near(values(vv_module_forward(m, graph, vv_data(graph, VV_F32, 2, flat, x)))[1], 2.5,
                1e-6, 0.0);
    vv_module_free(m);
    assert_ok(vv_dropout_new(&m, 0.5));
    vv_module_set_training(m, false);
    assert_ptr_equal(vv_module_forward(m, graph, in), in);
    vv_module_free(m);
    m = new_identity();
    assert_ptr_equal(vv_module_forward(m, graph, in), in);
    vv_module_free(m);
    vv_graph_free(graph);
}

static void group_norm_layers_normalise(void **state)
{
    (void)state;
    const float x[] = {1, 3, 10, 30};
    vv_graph *graph = new_graph();
    vv_module *m = NULL;
    vv_node *in = vv_data(graph, VV_F32, 2, (int64_t[]){1, 4}, x);

    assert_ok(vv_group_norm_new(&m, 2, 4, 0.0));
    assert_near(values(vv_module_forward(m, graph, in))[0], -1.0, 1e-5, 0.0);
    assert_near(values(vv_module_forward(m, graph, in))[3], 1.0, 1e-5, 0.0);
    vv_module_free(m);
    assert_ok(vv_layer_norm_new(&m, 4, 0.0));
    assert_near(values(vv_module_forward(m, graph, in))[0], -10.0 / sqrt(131.5), 1e-5, 0.0);
    vv_module_free(m);
    vv_graph_free(graph);
}

/* ---- batch norm ---- */

static void step(vv_graph *graph, vv_module *m, bool updates, const float *x, int64_t n, float *out)
{
    vv_node *y;

    vv_graph_reset(graph);
    vv_graph_set_updates(graph, updates);
    y = vv_module_forward(m, graph, vv_data(graph, VV_F32, 2, (int64_t[]){n, 1}, x));
    assert_non_null(y);
    assert_ok(vv_eval(graph, &y, 1));
    memcpy(out, values(y), (size_t)n * sizeof(float));
}

static void batch_norm_keeps_unbiased_running_statistics(void **state)
{
    (void)state;
    const float x[] = {8, 10, 12}; /* mean 10, biased variance 8/3, unbiased 4 */
    vv_graph *graph = new_graph();
    vv_module *m = NULL;
    float y[3];

    assert_ok(vv_batch_norm_new(&m, 1, 0.0, 0.1));
    const vv_tensor *mean = vv_module_buffer(m, "running_mean");
    const vv_tensor *var = vv_module_buffer(m, "running_var");
    const vv_tensor *count = vv_module_buffer(m, "num_batches_tracked");

    step(graph, m, true, x, 3, y);
    assert_near(y[0], -2.0 / sqrt(8.0 / 3.0), 1e-5, 0.0);
    assert_near(vv_tensor_get(mean, 0), 1.0, 1e-6, 0.0); /* 0.9 * 0 + 0.1 * 10 */
    assert_near(vv_tensor_get(var, 0), 0.9 + 0.1 * 4.0, 1e-6, 0.0);
    assert_near(vv_tensor_get(count, 0), 1.0, 0.0, 0.0);
    step(graph, m, true, x, 3, y);
    assert_near(vv_tensor_get(mean, 0), 1.9, 1e-6, 0.0);
    assert_near(vv_tensor_get(count, 0), 2.0, 0.0, 0.0);

    /* Evaluation reads them and changes nothing. */
    vv_module_set_training(m, false);
    double expected = (8.0 - vv_tensor_get(mean, 0)) / sqrt(vv_tensor_get(var, 0));

    step(graph, m, true, x, 3, y);
    assert_near(y[0], expected, 1e-5, 0.0);
    assert_near(vv_tensor_get(mean, 0), 1.9, 1e-6, 0.0);
    assert_near(vv_tensor_get(count, 0), 2.0, 0.0, 0.0);

    /* Neither does a second pass of the same step (updates off). */
    vv_module_set_training(m, true);
    step(graph, m, false, x, 3, y);
    assert_near(vv_tensor_get(mean, 0), 1.9, 1e-6, 0.0);
    vv_module_free(m);
    vv_graph_free(graph);
}

static void a_frozen_batch_norm_rests(void **state)
{
    (void)state;
    const float x[] = {9, 10, 11};
    vv_graph *graph = new_graph();
    vv_module *m = NULL;
    float y[3];

    assert_ok(vv_batch_norm_new(&m, 1, 0.0, 0.1));
    vv_module_set_frozen(m, true);
    step(graph, m, true, x, 3, y);
    /* Case B19: the running mean 0 stays 0 for a batch of mean 10, and is what the layer uses. */
    assert_true(vv_tensor_get(vv_module_buffer(m, "running_mean"), 0) == 0.0);
    assert_true(vv_tensor_get(vv_module_buffer(m, "running_var"), 0) == 1.0);
    assert_true(vv_tensor_get(vv_module_buffer(m, "num_batches_tracked"), 0) == 0.0);
    assert_near(y[0], 9.0, 1e-6, 0.0);
    /* Only one of the two frozen: the layer still trains. Thawed: as before. */
    vv_module_param(m, "bias")->frozen = false;
    step(graph, m, true, x, 3, y);
    assert_near(vv_tensor_get(vv_module_buffer(m, "running_mean"), 0), 1.0, 1e-6, 0.0);
    vv_module_free(m);
    vv_graph_free(graph);
}

static void one_value_per_channel_cannot_train(void **state)
{
    (void)state;
    const float x[] = {9};
    vv_graph *graph = new_graph();
    vv_module *m = NULL;

    assert_ok(vv_batch_norm_new(&m, 1, 1e-5, 0.1));
    assert_null(vv_module_forward(m, graph, vv_data(graph, VV_F32, 2, (int64_t[]){1, 1}, x)));
    assert_fails(vv_graph_status(graph), VV_ESHAPE);
    assert_says("more than one value per channel");
    vv_module_free(m);
    vv_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_have_the_shapes_of_pytorch),
        cmocka_unit_test(what_cannot_work_is_refused),
        cmocka_unit_test(flatten_puts_channels_first),
        cmocka_unit_test(layers_compute),
        cmocka_unit_test(group_norm_layers_normalise),
        cmocka_unit_test(batch_norm_keeps_unbiased_running_statistics),
        cmocka_unit_test(a_frozen_batch_norm_rests),
        cmocka_unit_test(one_value_per_channel_cannot_train),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
