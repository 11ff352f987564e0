/* test_composer_resnet9.c - what must hold of composer_resnet9: its size, the two momenta of its
 * batch norms, and that it trains. */
#include "model_test.h"

#include "composer_resnet9.h"

static double momentum(vv_model *model, const char *path)
{
    return ((const vv_batch_norm_layer *)vv_module_self(vv_module_find(model->net, path)))
        ->momentum;
}

static void size_and_names(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(32, 32, 3, 10);
    vv_model *model = model_make(&vv_model_composer_resnet9, NULL, &spec);

    /* Convolutions 3-64-128, 128-128 twice, 128-256-256, 256-256 twice; batch norms; linear. */
    assert_int_equal(vv_module_param_count(model->net),
                     9 * (3 * 64 + 64 * 128 + 2 * 128 * 128 + 128 * 256 + 3 * 256 * 256) +
                         2 * (64 + 3 * 128 + 4 * 256) + 256 * 10 + 10);
    assert_int_equal(vv_module_param_count(model->net), 2440266);
    net_has_names(model->net, "stem1.conv.weight stem1.bn.weight block1.conv2.weight stem4.bn.bias "
                              "block2.bn2.bias fc.weight fc.bias");
    assert_near(momentum(model, "stem1.bn"), 0.9, 0.0, 0.0);
    assert_near(momentum(model, "stem4.bn"), 0.9, 0.0, 0.0);
    assert_near(momentum(model, "block1.bn1"), 0.1, 0.0, 0.0);
    assert_near(momentum(model, "block2.bn2"), 0.1, 0.0, 0.0);
    vv_model_free(model);
}

static void trains(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(16, 16, 3, 4);
    vv_model *model = model_make(&vv_model_composer_resnet9, NULL, &spec);

    model_trains(model, &spec, 2);
    vv_model_free(model);
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(32, 32, 3, 10);

    model_desc_is_sane(&vv_model_composer_resnet9, &spec, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size_and_names),
        cmocka_unit_test(trains),
        cmocka_unit_test(descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
