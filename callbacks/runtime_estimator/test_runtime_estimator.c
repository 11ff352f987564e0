/* test_runtime_estimator.c - the estimate is the formula's value on the Trainer's clock; it comes
 * from the second batch on, in the unit asked for; evaluations still to come are in it, also after
 * the last batch. */
#include "callbacks/callback_test.h"

#include <vivace/runtime_estimator.h>

typedef struct clock_marks {
    double train[32], eval_before[32]; /* seconds of training and of evaluation, by batch */
} clock_marks;

static vv_status watch(void *ctx, vv_event event, vv_state *state)
{
    clock_marks *m = ctx;
    if (event == VV_EVENT_BATCH_START)
        usleep(1000);
    if (event == VV_EVENT_EVAL_START)
        usleep(5000);
    if (event == VV_EVENT_BATCH_END) {
        m->train[state->time.batch] = state->time.total_seconds;
        m->eval_before[state->time.batch] = vv_state_eval_seconds(state);
    }
    return VV_OK;
}

static void run(int unit, double scale)
{
    vv_runtime_estimator_opts opts = {unit};
    vv_callback *callback;
    vv_timestamp end;
    numbers got = {0};
    clock_marks m = {.train = {0}};
    assert_ok(vv_callback_new(&callback, &vv_callback_runtime_estimator, &opts));
    assert_ok(callback_run(callback, "3ep", watch, &m, &got, &end)); /* 15 batches, 3 evaluations */
    int64_t batch = 1;
    for (int i = 0; i < got.count; i++) {
        if (strcmp(got.names[i], "time/remaining_estimate") != 0)
            continue;
        assert_int_equal(got.batches[i], ++batch);
        double rate = (m.train[batch] - m.train[1]) / ((double)(batch - 1) / 15.0);
        double expected = rate * (1.0 - (double)batch / 15.0);
        int64_t runs = (batch - 1) / 5; /* evaluated after batches 5, 10, 15 */
        double first = m.eval_before[6], rest = m.eval_before[11] - m.eval_before[6];
        if (runs == 1)
            expected += 2.0 * first;
        if (runs == 2)
            expected += rest;
        assert_near(got.values[i] * scale, expected, 1e-9, 1e-9);
    }
    assert_int_equal(batch, 15);
}

static void test_estimate(void **unused)
{
    (void)unused;
    run(0, 1.0);
    run(1, 60.0);
    run(2, 3600.0);
    run(3, 86400.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_estimate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
