/* test_in_memory.c - a series per name with values bit-equal and every field of the clock; names
 * in order of first appearance; unknown names tell the nearest; a limit keeps the newest in
 * order; messages are kept; a real run gives one loss a batch; no allocation may fail badly. */
#include "loggers/logger_test.h"

#include <vivace/in_memory.h>

static vv_logger *make(int64_t limit)
{
    vv_logger *logger;
    assert_ok(vv_logger_new(&logger, &vv_logger_in_memory, &(vv_in_memory_opts){limit}));
    return logger;
}

static void finish(vv_logger *logger)
{
    vv_logger_in_memory.close(logger);
    vv_logger_free(logger);
}

static vv_status put(vv_logger *logger, const char *name, int64_t batch, double value)
{
    vv_state s = {.time = {.epoch = batch / 4, .batch = batch, .sample = 8 * batch,
                           .token = 100 * batch, .batch_in_epoch = batch % 4,
                           .total_seconds = 0.5 * (double)batch}};
    return vv_logger_in_memory.metric(logger, &s, name, value);
}

static void test_series(void **unused)
{
    (void)unused;
    vv_logger *logger = make(0);
    for (int b = 1; b <= 100; b++) {
        assert_ok(put(logger, "loss/train/total", b, 1.0 / b));
        assert_ok(put(logger, "lr", b, b));
    }
    assert_ok(put(logger, "metrics/eval/accuracy", 100, (double)NAN));
    assert_int_equal(vv_in_memory_count(logger), 3);
    assert_string_equal(vv_in_memory_at(logger, 1).name, "lr");
    assert_null(vv_in_memory_at(logger, 3).name);
    assert_null(vv_in_memory_at(logger, -1).values);
    vv_in_memory_series s;
    assert_ok(vv_in_memory_find(&s, logger, "loss/train/total"));
    assert_int_equal(s.count, 100);
    for (int i = 0; i < 100; i++) {
        assert_true(s.values[i] == 1.0 / (i + 1));
        const vv_timestamp *t = &s.times[i];
        assert_int_equal(t->batch, i + 1);
        assert_int_equal(t->epoch, (i + 1) / 4);
        assert_int_equal(t->sample, 8 * (i + 1));
        assert_int_equal(t->token, 100 * (i + 1));
        assert_int_equal(t->batch_in_epoch, (i + 1) % 4);
        assert_true(t->total_seconds == 0.5 * (i + 1));
    }
    double value;
    vv_timestamp when;
    assert_ok(vv_in_memory_last(&value, &when, logger, "lr"));
    assert_true(value == 100.0);
    assert_int_equal(when.batch, 100);
    assert_ok(vv_in_memory_last(&value, NULL, logger, "metrics/eval/accuracy"));
    assert_true(isnan(value));
    assert_fails(vv_in_memory_find(&s, logger, "loss/train/totel"), VV_ENOTFOUND);
    assert_says("did you mean \"loss/train/total\"?");
    assert_int_equal(s.count, 0);
    assert_fails(vv_in_memory_find(&s, logger, "something else"), VV_ENOTFOUND);
    finish(logger);
}

static void test_limit(void **unused)
{
    (void)unused;
    vv_logger *logger = make(5);
    vv_in_memory_series s;
    for (int b = 1; b <= 83; b++) {
        assert_ok(put(logger, "x", b, b));
        assert_ok(vv_in_memory_find(&s, logger, "x"));
        assert_int_equal(s.count, b < 5 ? b : 5);
        for (int64_t i = 0; i < s.count; i++) {
            assert_true(s.values[i] == (double)(b - s.count + 1 + i));
            assert_int_equal(s.times[i].batch, b - s.count + 1 + i);
        }
    }
    finish(logger);
}

static void test_messages_and_others(void **unused)
{
    (void)unused;
    vv_logger *logger = make(0);
    vv_state s = {0};
    assert_ok(vv_logger_in_memory.message(logger, &s, "one"));
    assert_ok(vv_logger_in_memory.message(logger, &s, "two"));
    assert_int_equal(vv_in_memory_message_count(logger), 2);
    assert_string_equal(vv_in_memory_message(logger, 1), "two");
    assert_null(vv_in_memory_message(logger, 2));
    finish(logger);
    /* Another type of logger is refused, not read. */
    const vv_logger_desc other = {.desc = {"logger", "other", "", "", "any", NULL, 0}};
    vv_logger stranger = {&other, NULL, NULL};
    vv_in_memory_series series;
    assert_int_equal(vv_in_memory_count(&stranger), 0);
    assert_fails(vv_in_memory_find(&series, &stranger, "x"), VV_EINVAL);
}

/* What a test wants to see of a run's logger, before the trainer frees it. */
typedef struct last_look {
    const vv_logger *logger;
    int64_t losses, evaluations;
} last_look;

static vv_status look(void *ctx, vv_event event, vv_state *state)
{
    (void)state;
    last_look *l = ctx;
    vv_in_memory_series s;
    if (event != VV_EVENT_FIT_END)
        return VV_OK;
    VV_TRY(vv_in_memory_find(&s, l->logger, "loss/train/total"));
    l->losses = s.count;
    for (int64_t i = 0; i < s.count; i++)
        if (s.times[i].batch != i + 1)
            return vv_fail(VV_ESTATE, "loss %d at batch %d", (int)i, (int)s.times[i].batch);
    VV_TRY(vv_in_memory_find(&s, l->logger, "metrics/eval/accuracy"));
    l->evaluations = s.count;
    return VV_OK;
}

static void test_run(void **unused)
{
    (void)unused;
    vv_logger *logger = make(0), *loggers[] = {logger, NULL};
    last_look l = {logger, 0, 0};
    tt_data train, eval;
    tt_data_init(&train, 12, 3, true);
    tt_data_init(&eval, 4, 2, false);
    vv_callback *callbacks[] = {tt_listen_with(look, &l), NULL};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = train.loader;
    opts.eval = eval.loader;
    opts.max_duration = "3ep";
    opts.callbacks = callbacks;
    opts.loggers = loggers;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    assert_int_equal(l.losses, 12);
    assert_int_equal(l.evaluations, 3);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_data_fini(&eval);
}

static void test_memory_failures(void **unused)
{
    (void)unused;
    for (uint64_t nth = 1; nth <= 12; nth++) {
        int64_t live = vv_memory_live_count();
        vv_logger *logger = make(0);
        vv_memory_fail_at(nth);
        vv_status status = VV_OK;
        for (int b = 0; b < 20 && status == VV_OK; b++)
            status = put(logger, b % 2 ? "a" : "b", b, b);
        vv_memory_fail_at(0);
        assert_true(status == VV_OK || status == VV_ENOMEM);
        finish(logger);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_messages_and_others),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_memory_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
