/* test_fused_layernorm.c - what must hold: it is accepted, changes nothing, says so, and is not
 * taken for a method without an effect. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "fused_layernorm.h"

static void changes_nothing(void **unused)
{
    (void)unused;
    vv_module *net, *layer;
    vv_model *model;
    vv_trainer *trainer;
    vv_str text = {0};
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_layer_norm_new(&layer, 16, 1e-5);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_apply_fused_layernorm(net));
    assert_fails(vv_apply_fused_layernorm(NULL), VV_EINVAL);
    assert_ok(vv_classifier_new(&model, net, 16));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = model;
    opts.methods = VV_LIST(vv_fused_layernorm());
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ptr_equal(vv_module_child(net, 0), layer);
    assert_ptr_equal(vv_module_type(layer), &vv_layer_norm_class);
    assert_int_equal(vv_module_param(layer, "weight")->value->shape[0], 16);
    assert_ok(vv_trainer_plan(trainer, &text));
    assert_non_null(strstr(vv_str_text(&text), "nothing to do"));
    vv_str_fini(&text);
    vv_trainer_free(trainer);
}

static void has_no_settings(void **unused)
{
    (void)unused;
    vv_method *method;
    assert_fails(vv_method_make(&method, "fused_layernorm", "apply_at=init"), VV_ENOTFOUND);
    assert_null(method);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_nothing),
        cmocka_unit_test(has_no_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
