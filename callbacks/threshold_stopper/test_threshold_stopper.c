/* test_threshold_stopper.c - the run ends at the first evaluation (or epoch, or batch) whose value
 * is better than the threshold, in the metric's own direction; a threshold never reached changes
 * nothing; the threshold must be given; a wrong name is told at the start. */
#include "callbacks/callback_test.h"
#include <vivace/threshold_stopper.h>

static vv_timestamp run(const char *monitor, const char *label, double threshold, bool on_batch,
                        vv_status expected)
{
    vv_threshold_stopper_opts opts = VV_THRESHOLD_STOPPER_DEFAULTS;
    opts.monitor = monitor;
    opts.label = label;
    opts.threshold = threshold;
    opts.stop_on_batch = on_batch;
    vv_callback *callback;
    vv_timestamp end;
    assert_ok(vv_callback_new(&callback, &vv_callback_threshold_stopper, &opts));
    assert_int_equal(callback_run(callback, "3ep", NULL, NULL, NULL, &end), expected);
    return end;
}

static void test_targets(void **unused)
{
    (void)unused;
    assert_int_equal(run("accuracy", "eval", -1.0, false, VV_OK).epoch, 1); /* any is better */
    assert_int_equal(run("accuracy", "eval", 1.0, false, VV_OK).epoch, 3);  /* none is */
    assert_int_equal(run("cross_entropy", "eval", 1e9, false, VV_OK).epoch, 1);
    assert_int_equal(run("cross_entropy", "eval", 0.0, false, VV_OK).epoch, 3);
    assert_int_equal(run("loss", "train", 1e9, false, VV_OK).batch, 5);
    assert_int_equal(run("loss", "train", 1e9, true, VV_OK).batch, 1);
    assert_int_equal(run("loss", "train", 0.0, true, VV_OK).batch, 15);
}

static void test_names(void **unused)
{
    (void)unused;
    assert_int_equal(run("acuracy", "eval", 0.5, false, VV_ENOTFOUND).batch, 0);
    assert_int_equal(run("accuracy", "eva", 0.5, false, VV_ENOTFOUND).batch, 0);
    assert_int_equal(run("accuracy", "train", 0.5, false, VV_EINVAL).batch, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
