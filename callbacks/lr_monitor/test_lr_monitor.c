/* test_lr_monitor.c - one number per batch and group, named after the optimizer, equal to the rate
 * the batch was trained with. */
#include "callbacks/callback_test.h"
#include <vivace/lr_monitor.h>

static void test_numbers(void **unused)
{
    (void)unused;
    vv_callback *callback;
    vv_timestamp end;
    numbers got = {0};
    assert_ok(vv_callback_new(&callback, &vv_callback_lr_monitor, NULL));
    assert_ok(callback_run(callback, "2ep", NULL, NULL, &got, &end));
    int count = 0;
    for (int i = 0; i < got.count; i++)
        if (strcmp(got.names[i], "lr-decoupled_sgdw/group0") == 0) {
            assert_near(got.values[i], 0.1, 1e-12, 0.0);
            assert_int_equal(got.batches[i], ++count);
        }
    assert_int_equal(count, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
