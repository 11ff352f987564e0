/* test_speed_monitor.c - rates come from training time over the window and appear once it is full;
 * they agree with the clock; the share of the peak is the rate by the peak; evaluation time is
 * apart from training time, and both go on after a resume. */
#include "callbacks/callback_test.h"

#include <vivace/speed_monitor.h>

typedef struct clock_marks {
    double seconds[64]; /* training time at each batch's end */
} clock_marks;

static vv_status watch(void *ctx, vv_event event, vv_state *state)
{
    clock_marks *marks = ctx;
    if (event == VV_EVENT_BATCH_START)
        usleep(2000);
    if (event == VV_EVENT_EVAL_START)
        usleep(20000);
    if (event == VV_EVENT_BATCH_END)
        marks->seconds[state->time.batch] = state->time.total_seconds;
    return VV_OK;
}

static double value_of(const numbers *got, const char *name, int64_t batch)
{
    for (int i = 0; i < got->count; i++)
        if (got->batches[i] == batch && strcmp(got->names[i], name) == 0)
            return got->values[i];
    return (double)NAN;
}

static void test_rates(void **unused)
{
    (void)unused;
    vv_speed_monitor_opts opts = {3, true};
    vv_callback *callback;
    vv_timestamp end;
    numbers got = {0};
    clock_marks marks = {{0}};
    assert_ok(vv_callback_new(&callback, &vv_callback_speed_monitor, &opts));
    assert_ok(callback_run(callback, "2ep", watch, &marks, &got, &end));
    double ratio = (double)NAN;
    for (int64_t batch = 1; batch <= 10; batch++) {
        double samples = value_of(&got, "throughput/samples_per_sec", batch);
        double flops = value_of(&got, "throughput/flops_per_sec", batch);
        double mfu = value_of(&got, "throughput/mfu", batch);
        assert_int_equal(isnan(samples), batch <= 3);
        assert_true(isnan(value_of(&got, "throughput/tokens_per_sec", batch)));
        assert_near(value_of(&got, "time/train", batch), marks.seconds[batch], 0.0, 1e-12);
        if (batch <= 3)
            continue;
        double seconds = marks.seconds[batch] - marks.seconds[batch - 3];
        assert_near(samples, 6.0 / seconds, 0.0, 1e-9);
        assert_near(value_of(&got, "throughput/batches_per_sec", batch), 3.0 / seconds, 0.0, 1e-9);
        assert_true(flops > 0.0 && mfu > 0.0 && mfu < 1.0);
        if (batch > 4)
            assert_near(mfu / flops, ratio, 0.0, 1e-9); /* 1 / the peak */
        ratio = mfu / flops;
    }
    /* One evaluation lies before batch 6. */
    assert_true(value_of(&got, "time/val", 5) == 0.0);
    assert_true(value_of(&got, "time/val", 6) >= 0.02);
    assert_true(value_of(&got, "time/total", 10) >=
                value_of(&got, "time/train", 10) + value_of(&got, "time/val", 10));
}

static void fit_part(const char *folder, const char *duration, numbers *got)
{
    vv_speed_monitor_opts opts = {2, false};
    clock_marks marks = {{0}};
    vv_callback *callbacks[3] = {NULL};
    vv_logger *loggers[2] = {NULL};
    assert_ok(vv_callback_new(&callbacks[0], &vv_callback_speed_monitor, &opts));
    callbacks[1] = tt_listen_with(watch, &marks);
    assert_ok(vv_logger_new(&loggers[0], &hearing_desc, NULL));
    tt_data train, eval;
    tt_data_init(&train, 10, 2, true);
    tt_data_init(&eval, 4, 2, false);
    vv_trainer_opts trainer_opts = VV_TRAINER_DEFAULTS;
    trainer_opts.model = tt_mlp(0.0);
    trainer_opts.train = train.loader;
    trainer_opts.eval = eval.loader;
    trainer_opts.max_duration = duration;
    trainer_opts.callbacks = callbacks;
    trainer_opts.loggers = loggers;
    trainer_opts.run_dir = folder;
    trainer_opts.save_interval = "1ep";
    trainer_opts.resume = true;
    heard = got;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &trainer_opts));
    assert_ok(vv_trainer_fit(trainer));
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_data_fini(&eval);
}

static void test_resume(void **unused)
{
    (void)unused;
    char folder[256];
    tt_folder(folder, sizeof folder);
    numbers first = {0}, second = {0};
    fit_part(folder, "1ep", &first);
    fit_part(folder, "2ep", &second);
    assert_true(isnan(value_of(&first, "throughput/mfu", 5)));
    assert_true(value_of(&second, "time/train", 6) > value_of(&first, "time/train", 5));
    assert_true(value_of(&second, "time/val", 6) >= 0.02);
    assert_true(value_of(&second, "time/total", 6) > value_of(&first, "time/total", 5));
    assert_true(isnan(value_of(&second, "throughput/samples_per_sec", 7)));
    assert_false(isnan(value_of(&second, "throughput/samples_per_sec", 8)));
    tt_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
