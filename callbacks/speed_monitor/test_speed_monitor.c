/* test_speed_monitor.c - rates come from training time over the window and appear once it is full;
 * evaluation time is apart and survives a record. */
#include "callbacks/callback_test.h"
#include <vivace/speed_monitor.h>

static vv_status slow(void *ctx, vv_event event, vv_state *state)
{
    (void)ctx;
    (void)state;
    if (event == VV_EVENT_BATCH_START)
        usleep(10000);
    if (event == VV_EVENT_EVAL_START)
        usleep(50000);
    return VV_OK;
}

static void test_numbers(void **unused)
{
    (void)unused;
    vv_speed_monitor_opts opts = {3};
    vv_callback *callback;
    vv_timestamp end;
    numbers got = {0};
    assert_ok(vv_callback_new(&callback, &vv_callback_speed_monitor, &opts));
    assert_ok(callback_run(callback, "2ep", slow, NULL, &got, &end));
    int rates = 0, trains = 0;
    double val = 0.0;
    for (int i = 0; i < got.count; i++) {
        if (strcmp(got.names[i], "throughput/samples_per_sec") == 0) {
            rates++;
            assert_true(got.batches[i] > 3);
            assert_true(got.values[i] > 0.0 && got.values[i] < 200.0); /* 2 in at least 10 ms */
        }
        if (strcmp(got.names[i], "throughput/flops_per_sec") == 0)
            assert_true(got.values[i] > 0.0);
        trains += strcmp(got.names[i], "time/train") == 0;
        if (strcmp(got.names[i], "time/val") == 0)
            val = got.values[i];
    }
    assert_int_equal(rates, 7);
    assert_int_equal(trains, 10);
    assert_true(val >= 0.05 && val < 0.1 + 5.0); /* one evaluation lies before the last batch */
    assert_true(end.total_seconds >= 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
