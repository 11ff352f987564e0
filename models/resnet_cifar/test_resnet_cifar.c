/* test_resnet_cifar.c - what must hold of resnet_cifar: 0.27 M and 0.85 M parameters, blocks with
 * shortcuts only where the shape changes, and it trains. */
#include "model_test.h"

#include "resnet_cifar.h"

static void sizes(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(32, 32, 3, 10);

    assert_int_equal(model_size(&vv_model_resnet_cifar, NULL, &spec), 272474);
    assert_int_equal(model_size(&vv_model_resnet_cifar, "depth=56", &spec), 855770);
}

static void names(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(32, 32, 3, 10);
    vv_model *model = model_make(&vv_model_resnet_cifar, NULL, &spec);

    net_has_names(model->net, "conv1.weight bn1.weight layer1.0.conv1.weight layer1.2.bn2.bias "
                              "layer2.0.downsample.0.weight layer2.0.downsample.1.bias "
                              "layer3.2.conv2.weight fc.weight fc.bias");
    assert_int_equal(vv_module_count(model->net, &vv_cifar_block_class), 9);
    assert_null(vv_module_find(model->net, "layer1.0.downsample"));
    assert_null(vv_module_find(model->net, "layer2.1.downsample"));
    assert_int_equal(vv_module_count(model->net, &vv_conv2d_class), 19 + 2);
    vv_model_free(model);
}

static void trains(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(8, 8, 3, 10);
    vv_model *model = model_make(&vv_model_resnet_cifar, NULL, &spec);

    model_trains(model, &spec, 4);
    vv_model_free(model);
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(32, 32, 3, 10);
    const vv_resnet_cifar_opts wrong = {7};
    vv_module *net = NULL;

    model_desc_is_sane(&vv_model_resnet_cifar, &spec, 1);
    assert_fails(vv_resnet_cifar_new(&net, 3, 10, &wrong), VV_EINVAL);
    assert_null(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(names),
        cmocka_unit_test(trains),
        cmocka_unit_test(descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
