/* test_progress.c - the progress logger writes where it was told: a line per epoch and evaluation
 * with loss, rate and metrics; a redrawn bar in style bar, in evaluations too; the last metrics
 * stay in sight; the cost is told when a price is known, or logged; times as people read them. */
#include "vv_test.h"

#include <unistd.h>

#include <vivace/progress.h>

/* What the logger writes to stderr during a short life with made-up states. */
static void capture(int style, double price, bool logged, char *text, size_t bytes)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int saved = dup(2);
    dup2(fileno(file), 2);
    vv_progress_opts opts = VV_PROGRESS_DEFAULTS;
    opts.style = style;
    opts.interval = 0.0;
    opts.usd_per_hour = price;
    vv_logger *logger = NULL;
    vv_status status = vv_logger_new(&logger, &vv_logger_progress, &opts);
    vv_state s = {.axis = {5, 2, -1, 10}, .train_loss = 1.25};
    const vv_logger_desc *type = &vv_logger_progress;
    if (status == VV_OK)
        status = type->open(logger, NULL, false);
    if (status == VV_OK)
        status = type->event(logger, VV_EVENT_FIT_START, &s);
    s.time.batch = 5;
    s.time.sample = 10;
    s.time.epoch = 1;
    s.time.total_seconds = 2.0;
    s.progress = 0.5;
    if (status == VV_OK)
        status = type->event(logger, VV_EVENT_EPOCH_END, &s);
    if (status == VV_OK)
        status = type->metric(logger, &s, "metrics/eval/accuracy", 0.75);
    if (status == VV_OK)
        status = type->metric(logger, &s, "loss/train/total", 1.25);
    if (status == VV_OK)
        status = type->event(logger, VV_EVENT_EVAL_END, &s);
    if (status == VV_OK)
        status = type->message(logger, &s, "mind the gap");
    if (status == VV_OK && logged)
        status = type->metric(logger, &s, "cost/usd", 12.345);
    s.time.batch = 6;
    s.progress = 0.6;
    if (status == VV_OK)
        status = type->event(logger, VV_EVENT_EPOCH_END, &s);
    s.eval_label = "eval";
    s.eval_batch = 2;
    s.eval_batch_count = 7;
    usleep(110000); /* a bar is redrawn ten times a second at most */
    if (status == VV_OK)
        status = type->event(logger, VV_EVENT_EVAL_BATCH_END, &s);
    if (logger)
        type->close(logger);
    vv_logger_free(logger);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    assert_int_equal(status, VV_OK);
    rewind(file);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    fclose(file);
}

static void test_lines(void **unused)
{
    (void)unused;
    char text[4096];
    capture(VV_PROGRESS_AUTO, 0.0, false, text, sizeof text); /* a file is no terminal */
    assert_null(strchr(text, '\r'));
    assert_non_null(
        strstr(text, " 50%  epoch 1  batch 5/10  loss 1.2500  5.00 samples/s  left 0:00\n"));
    assert_non_null(strstr(text, "epoch 1  batch 5  eval/accuracy 0.7500\n"));
    assert_non_null(strstr(text, "mind the gap\n"));
    assert_non_null(strstr(text, "batch 6/10  loss 1.2500  5.00 samples/s  left 0:00  "
                                 "eval/accuracy 0.7500\n"));
    assert_null(strstr(text, "$"));
    assert_null(strstr(text, "evaluating")); /* lines are for what is done */
}

static void test_bar(void **unused)
{
    (void)unused;
    char text[4096];
    capture(VV_PROGRESS_BAR, 0.0, false, text, sizeof text);
    assert_non_null(strstr(text, "\r[############>...........]  50%  epoch 1  batch 5/10"));
    /* The evaluation's line takes the bar's place. */
    assert_non_null(strstr(text, "\r\033[Kepoch 1  batch 5  eval/accuracy 0.7500\n"));
    assert_non_null(strstr(text, "epoch 1  evaluating eval  batch 2/7\033[K"));
}

static void test_cost(void **unused)
{
    (void)unused;
    char text[4096];
    capture(VV_PROGRESS_LINES, 1.0, false, text, sizeof text); /* an instant at a dollar an hour */
    assert_non_null(strstr(text, "left 0:00  $0.0000\n"));
    capture(VV_PROGRESS_LINES, 1.0, true, text, sizeof text);
    assert_non_null(strstr(text, "left 0:00  $12.35  eval/accuracy 0.7500\n"));
}

static void test_time(void **unused)
{
    (void)unused;
    char buf[32];
    assert_string_equal(vv_progress_time(0.4, buf, sizeof buf), "0:00");
    assert_string_equal(vv_progress_time(245.0, buf, sizeof buf), "4:05");
    assert_string_equal(vv_progress_time(3723.0, buf, sizeof buf), "1:02:03");
    assert_string_equal(vv_progress_time(-1.0, buf, sizeof buf), "?");
    assert_string_equal(vv_progress_time((double)NAN, buf, sizeof buf), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_bar),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
