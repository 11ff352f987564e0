/* test_resnet9.c - what must hold of resnet9: 6.57 M parameters at width 64, a size that follows
 * from the width, images that are not 32x32, and it trains. */
#include "model_test.h"

#include "resnet9.h"

static void sizes(void **state)
{
    (void)state;
    const vv_sample_spec cifar = image_spec(32, 32, 3, 10), grey = image_spec(28, 28, 1, 10);

    assert_int_equal(model_size(&vv_model_resnet9, NULL, &cifar), 6573130);
    assert_int_equal(model_size(&vv_model_resnet9, "width=8", &grey), 103810);
}

static void names(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(8, 8, 3, 10);
    vv_model *model = model_make(&vv_model_resnet9, "width=2", &spec);

    net_has_names(model->net,
                  "prep.conv.weight prep.bn.weight layer1.conv.weight res1.0.conv.weight "
                  "res1.1.bn.bias layer2.conv.weight layer3.bn.bias res3.1.conv.weight "
                  "fc.weight fc.bias");
    assert_int_equal(vv_module_count(model->net, &vv_conv2d_class), 8);
    assert_int_equal(vv_module_count(model->net, &vv_max_pool_class), 3);
    assert_null(vv_module_param(vv_module_find(model->net, "prep.conv"), "bias"));
    vv_model_free(model);
}

static void trains(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(28, 28, 1, 10);
    vv_model *model = model_make(&vv_model_resnet9, "width=4", &spec);

    model_trains(model, &spec, 4);
    vv_model_free(model);
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(32, 32, 3, 10);
    vv_module *net = NULL;

    model_desc_is_sane(&vv_model_resnet9, &spec, 11);
    assert_fails(vv_resnet9_new(&net, 3, 10, 0, 1.0), VV_EINVAL);
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
