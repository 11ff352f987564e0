/* test_console.c - blocks come at the first batch and then by the interval, in batches or epochs,
 * with the newest values; an evaluation shows some eleven of its batches and a block of its
 * metrics; the recipe is printed at a start and not at a resume; other units are refused. */
#include "loggers/logger_test.h"

#include <vivace/console.h>

/* What the logger writes to stderr in a run of 12 batches, 3 epochs. */
static char *run_with(const char *interval, bool recipe)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    vv_console_opts opts = {.stream = VV_CONSOLE_STDERR, .recipe = recipe};
    assert_ok(vv_time_parse(&opts.interval, interval, VV_UNIT_NONE));
    vv_logger *loggers[2] = {NULL, NULL};
    assert_ok(vv_logger_new(&loggers[0], &vv_logger_console, &opts));
    fflush(stderr);
    int saved = dup(2);
    dup2(fileno(file), 2);
    vv_status status = logger_run(loggers, NULL, NULL);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    assert_int_equal(status, VV_OK);
    long size = ftell(file);
    char *text = test_calloc((size_t)size + 1, 1);
    rewind(file);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    fclose(file);
    return text;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

static void test_batches(void **unused)
{
    (void)unused;
    char *text = run_with("5ba", true);
    assert_int_equal(count(text, "Train loss/train/total: "), 3); /* batches 1, 5, 10 */
    assert_non_null(strstr(text, "[epoch=0][batch=1/4]:\n    Train loss/train/total: "));
    assert_non_null(strstr(text, "    Train test/twice: 2\n"));
    assert_non_null(strstr(text, "[epoch=1][batch=1/4]:\n"));
    assert_non_null(strstr(text, "    Train test/twice: 10\n"));
    assert_int_equal(count(text, "Eval metrics/eval/accuracy: "), 3);
    assert_int_equal(count(text, "[Eval batch=1/2] Eval on eval data\n"), 3);
    assert_int_equal(count(text, "[Eval batch=2/2] Eval on eval data\n"), 3);
    assert_int_equal(count(text, "******************************\n"), 2);
    assert_non_null(strstr(text, "Recipe:\nname: \"small\"\nseed: 17\n"));
    test_free(text);
}

static void test_epochs(void **unused)
{
    (void)unused;
    char *text = run_with("2ep", false);
    assert_int_equal(count(text, "Train loss/train/total: "), 2); /* batch 1, epoch 2 */
    assert_non_null(strstr(text, "[epoch=2][batch=0/4]:\n    Train loss/train/total: "));
    assert_non_null(strstr(text, "    Train test/twice: 16\n"));
    assert_int_equal(count(text, "***"), 0);
    test_free(text);
}

static void test_eval_lines_and_units(void **unused)
{
    (void)unused;
    FILE *file = tmpfile();
    assert_non_null(file);
    vv_console_opts opts = {.interval = vv_time_of(1, VV_UNIT_BATCH), .recipe = true};
    vv_logger *logger;
    const vv_logger_desc *type = &vv_logger_console;
    assert_ok(vv_logger_new(&logger, type, &opts));
    vv_state s = {.max_duration = vv_time_of(500, VV_UNIT_SAMPLE), .eval_label = "test",
                  .eval_batch_count = 95, .train_loss = 3e-5};
    s.time.sample = 20;
    fflush(stderr);
    int saved = dup(2);
    dup2(fileno(file), 2);
    vv_status status = type->open(logger, NULL, true);
    for (s.eval_batch = 1; s.eval_batch <= 95 && status == VV_OK; s.eval_batch++)
        status = type->event(logger, VV_EVENT_EVAL_BATCH_END, &s);
    if (status == VV_OK)
        status = type->event(logger, VV_EVENT_BATCH_END, &s);
    if (status == VV_OK)
        status = type->message(logger, &s, "mind the gap");
    type->close(logger);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    assert_int_equal(status, VV_OK);
    vv_logger_free(logger);
    char text[4096] = "";
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_int_equal(count(text, "Eval on test data\n"), 10); /* 10, 20, ..., 90, 95 */
    assert_non_null(strstr(text, "[Eval batch=95/95] Eval on test data\n"));
    assert_non_null(strstr(text, "[sp=20/500]:\n    Train loss/train/total: 3e-05\n"));
    assert_non_null(strstr(text, "\nmind the gap\n"));

    opts.interval = vv_time_of(10, VV_UNIT_SAMPLE);
    assert_ok(vv_logger_new(&logger, type, &opts));
    assert_fails(type->open(logger, NULL, false), VV_EINVAL);
    assert_says("such as 100ba or 1ep");
    vv_logger_free(logger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_eval_lines_and_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
