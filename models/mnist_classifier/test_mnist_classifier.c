/* test_mnist_classifier.c - what must hold: 21,610 parameters, and it trains. */
#include "model_test.h"

#include "mnist_classifier.h"

static void size_and_names(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(28, 28, 1, 10);
    vv_model *model = model_make(&vv_model_mnist_classifier, NULL, &spec);

    assert_int_equal(vv_module_param_count(model->net), 21610);
    net_has_names(model->net, "conv1.weight conv1.bias conv2.weight conv2.bias bn.weight bn.bias "
                              "fc1.weight fc1.bias fc2.weight fc2.bias");
    vv_model_free(model);
}

static void trains(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(12, 10, 2, 3);
    vv_model *model = model_make(&vv_model_mnist_classifier, NULL, &spec);

    model_trains(model, &spec, 4);
    vv_model_free(model);
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(28, 28, 1, 10), small = image_spec(7, 28, 1, 10);
    vv_model *model = NULL;

    model_desc_is_sane(&vv_model_mnist_classifier, &spec, 1);
    assert_fails(vv_model_build(&model, &vv_model_mnist_classifier, NULL, &small, 1), VV_EINVAL);
    assert_says("8x8");
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
