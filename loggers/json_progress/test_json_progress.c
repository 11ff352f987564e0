/* test_json_progress.c - every line is one JSON object with the clock; evaluations carry their
 * metrics and only theirs; NaN is null; `interval` thins batches and nothing else. */
#include "vv_test.h"

#include <jansson.h>
#include <unistd.h>

#include <vivace/json_progress.h>

#define MAX_LINES 16

/* Lines written during a short life with made-up states. */
static int capture(double interval, json_t **lines)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int saved = dup(2);
    dup2(fileno(file), 2);
    const vv_logger_desc *type = &vv_logger_json_progress;
    vv_json_progress_opts opts = {1, interval};
    vv_logger *logger = NULL;
    vv_state s = {.axis = {5, 2, -1, 10}, .train_loss = 1.25};
    vv_status status = vv_logger_new(&logger, type, &opts);
    if (status == VV_OK)
        status = type->open(logger, NULL, false);
    const vv_event events[] = {VV_EVENT_FIT_START, VV_EVENT_BATCH_END, VV_EVENT_BATCH_END,
                               VV_EVENT_EPOCH_END, VV_EVENT_EVAL_END,  VV_EVENT_EVAL_END,
                               VV_EVENT_FIT_END};
    for (size_t i = 0; i < sizeof events / sizeof *events && status == VV_OK; i++) {
        if (i == 4)
            status = type->metric(logger, &s, "metrics/eval/accuracy", 0.75);
        if (i == 5)
            status = type->metric(logger, &s, "metrics/eval/loss \"x\"", (double)NAN);
        if (status == VV_OK)
            status = type->event(logger, events[i], &s);
        s.time.batch++;
    }
    if (status == VV_OK)
        status = type->message(logger, &s, "mind \"the\" gap");
    if (logger)
        type->close(logger);
    vv_logger_free(logger);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    assert_int_equal(status, VV_OK);
    rewind(file);
    char text[1024];
    int count = 0;
    while (fgets(text, sizeof text, file) && count < MAX_LINES) {
        lines[count] = json_loads(text, 0, NULL);
        if (!lines[count++])
            fail_msg("not JSON: %s", text);
    }
    fclose(file);
    return count;
}

static const char *event_of(const json_t *line)
{
    return json_string_value(json_object_get(line, "event"));
}

static void test_lines(void **unused)
{
    (void)unused;
    json_t *lines[MAX_LINES];
    int count = capture(0.0, lines);
    const char *const expected[] = {"start", "batch", "batch", "epoch", "eval", "eval", "end",
                                    "message"};
    assert_int_equal(count, 8);
    for (int i = 0; i < count; i++) {
        assert_string_equal(event_of(lines[i]), expected[i]);
        assert_int_equal(json_integer_value(json_object_get(lines[i], "batch")), i);
        assert_int_equal(json_integer_value(json_object_get(lines[i], "batches")), 10);
    }
    assert_near(json_number_value(json_object_get(lines[1], "loss")), 1.25, 0.0, 0.0);
    assert_true(json_is_null(json_object_get(lines[1], "lr"))); /* no optimizer in this state */
    const json_t *metrics = json_object_get(lines[4], "metrics");
    assert_near(json_number_value(json_object_get(metrics, "eval/accuracy")), 0.75, 0.0, 0.0);
    metrics = json_object_get(lines[5], "metrics");
    assert_int_equal(json_object_size(metrics), 1);
    assert_true(json_is_null(json_object_get(metrics, "eval/loss \"x\"")));
    assert_string_equal(json_string_value(json_object_get(lines[7], "text")), "mind \"the\" gap");
    for (int i = 0; i < count; i++)
        json_decref(lines[i]);
}

static void test_interval(void **unused)
{
    (void)unused;
    json_t *lines[MAX_LINES];
    int count = capture(60.0, lines), batches = 0;
    for (int i = 0; i < count; i++) {
        batches += strcmp(event_of(lines[i]), "batch") == 0;
        json_decref(lines[i]);
    }
    assert_true(batches <= 1);
    assert_int_equal(count - batches, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
