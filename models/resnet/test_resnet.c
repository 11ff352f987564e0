/* test_resnet.c - what must hold of resnet: torchvision's parameter counts and names at every
 * depth, strides in the 3x3 convolution of bottlenecks, both stems, its start, and it trains. */
#include "model_test.h"

#include "resnet.h"

/* Counts of torchvision's resnet18, 34, 50 and resnext50_32x4d. The deepest are made with narrow
   blocks, which is quick, and their blocks counted. */
static void sizes_are_those_of_torchvision(void **state)
{
    (void)state;
    const struct {
        vv_resnet_opts opts;
        int64_t count;
    } rows[] = {
        {{VV_RESNET_18, VV_RESNET_STEM_IMAGENET, 1, 64}, 11689512},
        {{VV_RESNET_34, VV_RESNET_STEM_IMAGENET, 1, 64}, 21797672},
        {{VV_RESNET_50, VV_RESNET_STEM_IMAGENET, 1, 64}, 25557032},
        {{VV_RESNET_50, VV_RESNET_STEM_IMAGENET, 32, 4}, 25028904},
    };
    const vv_resnet_opts deep[] = {{VV_RESNET_101, VV_RESNET_STEM_IMAGENET, 1, 1},
                                   {VV_RESNET_152, VV_RESNET_STEM_IMAGENET, 1, 1}};
    const int blocks[] = {3 + 4 + 23 + 3, 3 + 8 + 36 + 3};
    vv_module *net = NULL;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_ok(vv_resnet_new(&net, 3, 1000, &rows[i].opts));
        assert_int_equal(vv_module_param_count(net), rows[i].count);
        vv_module_free(net);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_ok(vv_resnet_new(&net, 3, 10, &deep[i]));
        assert_int_equal(vv_module_count(net, &vv_bottleneck_class), blocks[i]);
        vv_module_free(net);
    }
}

static void names_are_those_of_torchvision(void **state)
{
    (void)state;
    const vv_resnet_opts deep = {VV_RESNET_50, VV_RESNET_STEM_IMAGENET, 1, 64};
    const vv_resnet_opts small = {VV_RESNET_18, VV_RESNET_STEM_CIFAR, 1, 64};
    vv_module *net = NULL;

    assert_ok(vv_resnet_new(&net, 3, 10, &deep));
    net_has_names(net, "conv1.weight bn1.weight bn1.bias layer1.0.conv1.weight layer1.0.bn3.bias "
                       "layer1.0.downsample.0.weight layer1.0.downsample.1.weight "
                       "layer4.2.conv3.weight fc.weight fc.bias");
    assert_int_equal(vv_module_count(net, &vv_bottleneck_class), 16);
    assert_int_equal(vv_module_count(net, &vv_max_pool_class), 1);
    const vv_conv2d_layer *conv1 = vv_module_self(vv_module_find(net, "layer2.0.conv1"));
    const vv_conv2d_layer *conv2 = vv_module_self(vv_module_find(net, "layer2.0.conv2"));

    assert_int_equal(conv1->conv.stride[0], 1);
    assert_int_equal(conv2->conv.stride[0], 2); /* the "v1.5" form */
    assert_null(vv_module_find(net, "layer1.1.downsample"));
    vv_module_free(net);

    assert_ok(vv_resnet_new(&net, 3, 10, &small));
    assert_int_equal(vv_module_count(net, &vv_basic_block_class), 8);
    assert_int_equal(vv_module_count(net, &vv_max_pool_class), 0);
    assert_null(vv_module_find(net, "layer1.0.downsample"));
    assert_int_equal(vv_module_param(vv_module_find(net, "conv1"), "weight")->value->shape[2], 3);
    assert_int_equal(vv_module_param_count(net), 11173962);
    vv_module_free(net);
}

static void trains_with_both_stems_and_blocks(void **state)
{
    (void)state;
    const vv_sample_spec imagenet = image_spec(40, 33, 3, 10), cifar = image_spec(8, 8, 3, 10);
    vv_model *model = model_make(&vv_model_resnet, NULL, &imagenet);
    const vv_tensor *w =
        vv_module_param(vv_module_find(model->net, "layer2.0.conv1"), "weight")->value;
    double square = 0.0;

    /* Convolutions start ~ N(0, 2 / fan out). */
    for (int64_t i = 0; i < w->count; i++)
        square += vv_tensor_get(w, i) * vv_tensor_get(w, i);
    assert_near(square / (double)w->count, 2.0 / (128 * 9), 0.0, 0.05);
    model_trains(model, &imagenet, 2);
    vv_model_free(model);
    model = model_make(&vv_model_resnet, "stem=cifar,depth=50,width_per_group=8", &cifar);
    model_trains(model, &cifar, 3);
    vv_model_free(model);
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(16, 16, 3, 4);
    const vv_resnet_opts wrong[] = {
        {9, 0, 1, 64}, {0, 5, 1, 64}, {0, 0, 2, 64}, {0, 0, 1, 32}, {VV_RESNET_50, 0, 0, 64}};
    vv_module *net = NULL;

    model_desc_is_sane(&vv_model_resnet, &spec, 61);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(vv_resnet_new(&net, 3, 10, &wrong[i]), VV_EINVAL);
    assert_null(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_torchvision),
        cmocka_unit_test(names_are_those_of_torchvision),
        cmocka_unit_test(trains_with_both_stems_and_blocks),
        cmocka_unit_test(descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
