/* test_airbench.c - what must hold of airbench: sizes of the three variants, names, frozen scales
 * that training leaves at 1, other sizes of images, and it trains. */
#include "model_test.h"

#include "airbench.h"

static void sizes(void **state)
{
    (void)state;
    const vv_sample_spec cifar = image_spec(32, 32, 3, 10);

    /* whiten 312; 24-64-64, 64-256-256, 256-256-256 with two norms each; head 2560. */
    assert_int_equal(model_size(&vv_model_airbench, NULL, &cifar), 1972792);
    const int64_t w95 = 312 + 9 * (24 * 128 + 128 * 128 + 128 * 384 + 3 * 384 * 384) +
                        4 * (128 + 384 + 384) + 3840;
    assert_int_equal(model_size(&vv_model_airbench, "variant=95", &cifar), w95);
    const int64_t w96 = 312 +
                        9 * (24 * 128 + 2 * 128 * 128 + 128 * 384 + 2 * 384 * 384 + 384 * 512 +
                             2 * 512 * 512) +
                        6 * (128 + 384 + 512) + 5120;
    assert_int_equal(model_size(&vv_model_airbench, "variant=96", &cifar), w96);
}

static void names(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(16, 16, 3, 10);
    vv_model *model =
        model_make(&vv_model_airbench, "variant=96,width1=4,width2=6,width3=8", &spec);

    net_has_names(model->net, "whiten.weight whiten.bias group1.conv1.weight group1.norm1.weight "
                              "group2.norm3.bias group3.conv3.weight head.weight");
    assert_null(vv_module_param(vv_module_find(model->net, "head"), "bias"));
    const vv_module *norm = vv_module_find(model->net, "group3.norm2");
    assert_true(vv_module_param(norm, "weight")->frozen);
    assert_false(vv_module_param(norm, "bias")->frozen);
    assert_int_equal(vv_module_param(norm, "bias")->value->count, 8);
    vv_model_free(model);
}

static void trains(void **state)
{
    (void)state;
    static const char *const settings[] = {"width1=4,width2=4,width3=6",
                                           "variant=96,width1=4,width2=4,width3=6"};

    for (int i = 0; i < 2; i++) {
        const vv_sample_spec spec = image_spec(i ? 9 : 28, i ? 12 : 28, 1, 10);
        vv_model *model = model_make(&vv_model_airbench, settings[i], &spec);

        model_trains(model, &spec, 4);
        const vv_tensor *scale =
            vv_module_param(vv_module_find(model->net, "group1.norm1"), "weight")->value;
        for (int64_t k = 0; k < scale->count; k++)
            assert_true(vv_tensor_get(scale, k) == 1.0);
        vv_model_free(model);
    }
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(32, 32, 3, 10);
    const vv_airbench_opts bad = {7, 0, 0, 0, 1};
    vv_module *net = NULL;

    model_desc_is_sane(&vv_model_airbench, &spec, 4 + 14);
    assert_fails(vv_airbench_new(&net, 3, 10, &bad), VV_EINVAL);
    assert_null(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(names),
                                       cmocka_unit_test(trains), cmocka_unit_test(descriptor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
