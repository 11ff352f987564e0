/* test_input_noise.c - what must hold: the noise has mean 0 and the given deviation; deviation 0
 * changes nothing; the input is not written; the same draw gives the same noise; bad settings are
 * refused. */
#include "vv_test.h"

#include "input_noise.h"

static void noise(void **unused)
{
    (void)unused;
    const int64_t shape[] = {20, 500}, half[] = {10, 500};
    vv_tensor *input, *noisy = NULL, *again = NULL, *integers;
    double sum = 0, squares = 0;
    assert_ok(vv_tensor_new(&input, VV_F32, 2, shape));
    vv_tensor_fill(input, 3);
    vv_rng rng = vv_rng_at(1, "test", 0), same = rng;
    assert_ok(vv_input_noise_add(&noisy, input, 0.5, &rng));
    for (int64_t i = 0; i < input->count; i++) {
        const double e = vv_tensor_get(noisy, i) - 3;
        assert_true(vv_tensor_get(input, i) == 3.0);
        sum += e;
        squares += e * e;
    }
    assert_near(sum / 10000, 0, 0.025, 0); /* 5 deviations of the mean of 10,000 draws */
    assert_near(sqrt(squares / 10000), 0.5, 0.018, 0);
    assert_ok(vv_input_noise_add(&again, input, 0.5, &same));
    assert_memory_equal(noisy->data, again->data, noisy->bytes);
    assert_ok(vv_input_noise_add(&again, input, 0, &rng));
    assert_memory_equal(again->data, input->data, input->bytes);
    assert_ok(vv_tensor_new(&integers, VV_I32, 2, half));
    assert_fails(vv_input_noise_add(&again, integers, 0.5, &rng), VV_ETYPE);
    assert_fails(vv_input_noise_add(&again, again, 0.5, &rng), VV_EINVAL);
    vv_tensor_free(input);
    vv_tensor_free(integers);
    vv_tensor_free(noisy);
    vv_tensor_free(again);
}

static void settings(void **unused)
{
    (void)unused;
    const vv_input_noise_opts defaults = VV_INPUT_NOISE_DEFAULTS;
    vv_str ours = {0}, table = {0};
    vv_method *method = NULL;
    assert_ok(vv_method_new(&method, &vv_method_input_noise, NULL));
    vv_opts_to_json(&method->type->desc, method->opts, &table);
    vv_opts_to_json(&method->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(method);
    vv_error_clear();
    assert_null(vv_input_noise(-1));
    assert_says("std");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise),
        cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
