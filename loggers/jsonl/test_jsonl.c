/* test_jsonl.c - the jsonl logger: a line per number with the clock; numbers read back exactly;
 * what was logged before the start is there; a resumed run cuts what lies after its position, half
 * lines too. */
#include "vv_test.h"

#include <unistd.h>

#include <vivace/jsonl.h>

static char folder[256];

static void slurp(char *text, size_t bytes)
{
    char path[300];
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    fclose(file);
}

static vv_logger *open_at(vv_state *s, bool resumed)
{
    vv_logger *logger;
    assert_ok(vv_logger_new(&logger, &vv_logger_jsonl, NULL));
    assert_ok(vv_logger_jsonl.open(logger, folder, resumed));
    assert_ok(vv_logger_jsonl.metric(logger, s, "early", 1.0));
    assert_ok(vv_logger_jsonl.event(logger, VV_EVENT_AFTER_LOAD, s));
    return logger;
}

static void put(vv_logger *logger, int64_t epoch, int64_t batch, double value)
{
    vv_state s = {.time = {.epoch = epoch, .batch = batch}};
    assert_ok(vv_logger_jsonl.metric(logger, &s, "x", value));
}

static void finish(vv_logger *logger)
{
    vv_logger_jsonl.close(logger);
    vv_logger_free(logger);
}

static void test_lines_and_resume(void **unused)
{
    (void)unused;
    char text[4096];
    vv_state s = {0};
    vv_logger *logger = open_at(&s, false);
    put(logger, 0, 1, 0.1);
    put(logger, 0, 2, (double)NAN);
    put(logger, 1, 2, 2.0); /* after the epoch's end */
    put(logger, 1, 3, 3.0);
    finish(logger);
    slurp(text, sizeof text);
    assert_non_null(strstr(text, "{\"name\":\"early\",\"value\":1,\"epoch\":0,\"batch\":0"));
    assert_non_null(strstr(text, "\"value\":0.10000000000000001,\"epoch\":0,\"batch\":1"));
    assert_non_null(strstr(text, "\"value\":null,\"epoch\":0,\"batch\":2"));

    /* From a checkpoint at batch 2, before the epoch ended. */
    s.time.batch = 2;
    logger = open_at(&s, true);
    put(logger, 1, 2, 20.0);
    finish(logger);
    slurp(text, sizeof text);
    assert_non_null(strstr(text, "\"value\":null"));
    assert_null(strstr(text, "\"value\":2,"));
    assert_null(strstr(text, "\"value\":3,"));
    assert_non_null(strstr(text, "\"value\":20,\"epoch\":1"));
    const char *early = strstr(text, "early"); /* once */
    assert_null(strstr(early + 1, "early"));

    /* A half line of a killed process is cut. */
    char path[300];
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *file = fopen(path, "a");
    fputs("{\"name\":\"x\",\"val", file);
    fclose(file);
    s.time.batch = 9;
    s.time.epoch = 9;
    logger = open_at(&s, true);
    put(logger, 9, 10, 4.5);
    finish(logger);
    slurp(text, sizeof text);
    assert_null(strstr(text, "\"val{"));
    assert_non_null(strstr(text, "\"value\":20,"));
    assert_non_null(strstr(text, "\"value\":4.5,"));
    unlink(path);
}

static int make_folder(void **unused)
{
    (void)unused;
    snprintf(folder, sizeof folder, "/tmp/vivace-jsonl-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **unused)
{
    (void)unused;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines_and_resume)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
