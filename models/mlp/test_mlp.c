/* test_mlp.c - what must hold of mlp: parameter counts follow from its settings, images of any
 * shape are flattened, and it trains. */
#include "model_test.h"

#include "mlp.h"

static void sizes_follow_the_settings(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(28, 28, 1, 10);

    assert_int_equal(model_size(&vv_model_mlp, NULL, &spec),
                     784 * 128 + 128 + 128 * 128 + 128 + 128 * 10 + 10);
    assert_int_equal(model_size(&vv_model_mlp, "layers=0", &spec), 7850);
    assert_int_equal(model_size(&vv_model_mlp, "layers=1,width=10,dropout=0.2", &spec),
                     7850 + 10 * 10 + 10);
}

static void names(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(4, 4, 3, 5);
    vv_model *model = model_make(&vv_model_mlp, "width=7", &spec);

    net_has_names(model->net, "fc1.weight fc1.bias fc2.weight fc2.bias out.weight out.bias");
    vv_model_free(model);
}

static void trains(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(4, 4, 3, 5);
    vv_model *model = model_make(&vv_model_mlp, "width=16,dropout=0.1", &spec);

    model_trains(model, &spec, 8);
    vv_model_free(model);
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(4, 4, 3, 5);
    const vv_mlp_opts many = {8, -1, 0.0};
    vv_module *net = NULL;

    model_desc_is_sane(&vv_model_mlp, &spec, 1);
    assert_fails(vv_mlp_new(&net, 4, 2, &many), VV_EINVAL);
    assert_fails(vv_mlp_new(&net, 0, 2, NULL), VV_EINVAL);
    assert_null(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_the_settings),
        cmocka_unit_test(names),
        cmocka_unit_test(trains),
        cmocka_unit_test(descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
