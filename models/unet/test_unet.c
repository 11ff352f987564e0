/* test_unet.c - what must hold of unet: the sizes of its levels, names, its start, images of any
 * size and how they are padded, and it trains; numbers are compared in test_segmentation_golden. */
#include "segment_test.h"

#include "unet.h"

static vv_tensor *forward(vv_module *net, int64_t height, int64_t width)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {1, height, width, 1};
    vv_graph *graph = NULL;
    vv_tensor *x = NULL, *out = NULL;
    const vv_tensor *value = NULL;

    assert_ok(vv_tensor_new(&x, VV_F32, 4, shape));
    for (int64_t y = 0; y < 5 && y < height; y++)
        for (int64_t i = 0; i < 5 && i < width; i++)
            vv_tensor_set(x, y * width + i, (double)(y - 2 * i));
    assert_ok(vv_graph_new(&graph, &opts));
    assert_ok(vv_node_value(vv_module_forward(net, graph, vv_leaf(graph, x)), &value));
    assert_ok(vv_tensor_clone(&out, value));
    vv_graph_free(graph);
    vv_tensor_free(x);
    return out;
}

static void levels_and_names(void **state)
{
    (void)state;
    vv_module *net = NULL;

    /* Six levels of 32, 64, 128, 256, 512, 512 filters. */
    assert_ok(vv_unet_new(&net, 4, 4, NULL));
    net_has_names(net, "input_block.conv1.weight input_block.norm2.bias input_block.conv3.weight "
                       "downsamples.0.conv3.weight downsamples.4.conv2.weight "
                       "upsamples.0.transp_conv.bias upsamples.4.norm2.weight "
                       "output_block.weight output_block.bias");
    const vv_conv2d_layer *last = vv_module_self(vv_module_find(net, "downsamples.4.conv1"));

    assert_int_equal(last->in_channels, 512);
    assert_int_equal(last->out_channels, 512);
    assert_int_equal(last->conv.stride[0], 2);
    assert_null(vv_module_find(net, "downsamples.5"));
    assert_int_equal(vv_module_count(net, &vv_unet_down_class), 6);
    assert_int_equal(vv_module_count(net, &vv_unet_up_class), 5);
    vv_module_free(net);
}

/* Images that 2^(depth - 1) does not divide are padded with zeros: the logits are those of the
   padded image. */
static void any_size(void **state)
{
    (void)state;
    const vv_sample_spec spec = mask_spec(16, 16, 1, 3);
    vv_model *model = model_make(&vv_model_unet, "filters=4,depth=4", &spec);

    vv_module_set_training(model->net, false);
    vv_tensor *odd = forward(model->net, 5, 11), *even = forward(model->net, 8, 16);
    for (int64_t y = 0; y < 5; y++)
        for (int64_t x = 0; x < 11; x++)
            for (int64_t k = 0; k < 3; k++)
                assert_near(vv_tensor_get(odd, (y * 11 + x) * 3 + k),
                            vv_tensor_get(even, (y * 16 + x) * 3 + k), 1e-5, 1e-5);
    vv_tensor_free(odd);
    vv_tensor_free(even);
    vv_model_free(model);
}

static void starts_and_trains(void **state)
{
    (void)state;
    const vv_sample_spec spec = mask_spec(24, 19, 3, 4);
    vv_model *model = model_make(&vv_model_unet, "filters=16,depth=3", &spec);
    const vv_tensor *w = vv_module_param(vv_module_find(model->net, "downsamples.0.conv2"),
                                         "weight")->value;
    double square = 0.0;

    for (int64_t i = 0; i < w->count; i++)
        square += vv_tensor_get(w, i) * vv_tensor_get(w, i);
    assert_near(square / (double)w->count, 2.0 / (1.0001 * 32 * 9), 0.0, 0.08);
    w = vv_module_param(vv_module_find(model->net, "upsamples.0.transp_conv"), "bias")->value;
    assert_near(vv_tensor_get(w, 3), 0.0, 0.0, 0.0);
    segmenter_trains(model, &spec, 2);
    assert_string_equal(model->metrics, "miou,accuracy,cross_entropy");
    vv_model_free(model);
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = mask_spec(8, 8, 3, 4), image = image_spec(8, 8, 3, 4);
    const vv_unet_opts wrong[] = {{0, 512, 6}, {32, 16, 6}, {32, 512, 1}, {32, 512, 11}};
    vv_module *net = NULL;
    vv_model *model = NULL;

    model_desc_is_sane(&vv_model_unet, &spec, 61);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(vv_unet_new(&net, 3, 10, &wrong[i]), VV_EINVAL);
    assert_null(net);
    assert_fails(vv_model_build(&model, &vv_model_unet, NULL, &image, 1), VV_EINVAL);
    assert_says("mask");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_and_names),
        cmocka_unit_test(any_size),
        cmocka_unit_test(starts_and_trains),
        cmocka_unit_test(descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
