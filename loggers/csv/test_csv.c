/* test_csv.c - a row per step with every number of that step, bit-equal; a new name becomes a
 * column at the right end and old rows get an empty cell; names with commas and quotes come back;
 * a run that was killed and resumed, anywhere, leaves the columns and rows of one that was not; a
 * foreign file is refused; no allocation that fails leaks. */
#include "loggers/logger_test.h"

#include <vivace/csv.h>

static char folder[256];

static vv_logger *open_at(bool resumed, const vv_state *s)
{
    vv_logger *logger;
    assert_ok(vv_logger_new(&logger, &vv_logger_csv, NULL));
    assert_ok(vv_logger_csv.open(logger, folder, resumed));
    assert_ok(vv_logger_csv.event(logger, VV_EVENT_AFTER_LOAD, s));
    return logger;
}

static void put(vv_logger *logger, int64_t epoch, int64_t batch, const char *name, double value)
{
    vv_state s = {.time = {.epoch = epoch, .batch = batch, .sample = 3 * batch,
                           .total_seconds = 0.25 * (double)batch}};
    assert_ok(vv_logger_csv.metric(logger, &s, name, value));
}

static void finish(vv_logger *logger)
{
    vv_logger_csv.close(logger);
    vv_logger_free(logger);
}

static void check_file(const char *expected)
{
    char *text = slurp_file(folder, "metrics.csv", NULL);
    assert_string_equal(text, expected);
    test_free(text);
}

static void test_rows_and_columns(void **unused)
{
    (void)unused;
    const vv_state zero = {0};
    vv_logger *logger = open_at(false, &zero);
    check_file("epoch,batch,sample,seconds\n");
    put(logger, 0, 1, "loss", 0.1);
    put(logger, 0, 1, "lr", 1e-3);
    put(logger, 0, 2, "loss", (double)INFINITY);
    assert_ok(vv_logger_csv.event(logger, VV_EVENT_BATCH_CHECKPOINT, &zero));
    put(logger, 1, 2, "a,\"b\"", (double)NAN);
    assert_ok(vv_logger_csv.event(logger, VV_EVENT_EVAL_END, &zero));
    check_file("epoch,batch,sample,seconds,loss,lr,\"a,\"\"b\"\"\"\n"
               "0,1,3,0.250000,0.10000000000000001,0.001,\n"
               "0,2,6,0.500000,inf,,nan\n");
    put(logger, 1, 2, "lr", 0.5); /* the same row, once more */
    put(logger, 1, 3, "lr", 0.25);
    finish(logger);
    check_file("epoch,batch,sample,seconds,loss,lr,\"a,\"\"b\"\"\"\n"
               "0,1,3,0.250000,0.10000000000000001,0.001,\n"
               "0,2,6,0.500000,inf,0.5,nan\n"
               "1,3,9,0.750000,,0.25,\n");

    /* Resumed at batch 2: row 3 goes, row 2 goes on, names are known, a new one is added. */
    const vv_state two = {.time = {.epoch = 0, .batch = 2, .sample = 6}};
    logger = open_at(true, &two);
    put(logger, 1, 2, "a,\"b\"", 7.0);
    put(logger, 1, 3, "new", 8.0);
    finish(logger);
    check_file("epoch,batch,sample,seconds,loss,lr,\"a,\"\"b\"\"\",new\n"
               "0,1,3,0.250000,0.10000000000000001,0.001,,\n"
               "0,2,6,0.500000,inf,0.5,7,\n"
               "1,3,9,0.750000,,,,8\n");

    /* A fresh run starts again. */
    finish(open_at(false, &zero));
    check_file("epoch,batch,sample,seconds\n");
}

static void test_refused(void **unused)
{
    (void)unused;
    char path[300];
    snprintf(path, sizeof path, "%s/metrics.csv", folder);
    FILE *file = fopen(path, "w");
    fputs("my own table\n1,2,3\n", file);
    fclose(file);
    vv_logger *logger;
    const vv_state zero = {0};
    assert_ok(vv_logger_new(&logger, &vv_logger_csv, NULL));
    assert_ok(vv_logger_csv.open(logger, folder, true));
    assert_fails(vv_logger_csv.event(logger, VV_EVENT_AFTER_LOAD, &zero), VV_EFORMAT);
    assert_says("metrics.csv is not a table of this logger");
    finish(logger);
    check_file("my own table\n1,2,3\n");
    unlink(path);
    assert_ok(vv_logger_new(&logger, &vv_logger_csv, &(vv_csv_opts){"/nowhere/x.csv"}));
    assert_ok(vv_logger_csv.open(logger, folder, false));
    assert_fails(vv_logger_csv.event(logger, VV_EVENT_AFTER_LOAD, &zero), VV_EIO);
    assert_says("/nowhere/x.csv");
    finish(logger);
}

/* The table of a run in `name` that is cut at each of `cuts` and gone on with. */
static char *table_of(const char *name, const logger_cut *cuts, int count)
{
    char dir[600];
    snprintf(dir, sizeof dir, "%s/%s", folder, name);
    for (int i = 0; i <= count; i++) {
        vv_logger *loggers[2] = {NULL, NULL};
        assert_ok(vv_logger_new(&loggers[0], &vv_logger_csv, NULL));
        vv_status status = logger_run(loggers, dir, i < count ? &cuts[i] : NULL);
        assert_int_equal(status, i < count ? VV_ESTATE : VV_OK);
    }
    return slurp_file(dir, "metrics.csv", NULL);
}

/* Leaves out the column of seconds. */
static void forget_seconds(char *text)
{
    int column = 0;
    char *to = text;
    for (const char *p = text; *p; p++) {
        column = *p == '\n' ? -1 : column;
        column += *p == ',' || column == -1;
        if (column != 3)
            *to++ = *p;
    }
    *to = '\0';
}

static void test_resumed_run(void **unused)
{
    (void)unused;
    static const logger_cut cuts[] = {
        {VV_EVENT_BATCH_START, 5}, {VV_EVENT_BATCH_END, 8},      {VV_EVENT_EPOCH_END, 8},
        {VV_EVENT_EVAL_END, 8},    {VV_EVENT_BATCH_CHECKPOINT, 9}, {VV_EVENT_FIT_END, 12},
    };
    char *whole = table_of("whole", NULL, 0), *cut = table_of("cut", cuts, 6);
    int rows = 0;
    for (const char *p = whole; *p; p++)
        rows += *p == '\n';
    assert_int_equal(rows, 13); /* a header and 12 batches */
    assert_non_null(strstr(whole, "loss/train/total"));
    assert_non_null(strstr(whole, "metrics/eval/accuracy"));
    forget_seconds(whole);
    forget_seconds(cut);
    assert_string_equal(whole, cut);
    test_free(whole);
    test_free(cut);
}

static void test_memory_failures(void **unused)
{
    (void)unused;
    for (uint64_t nth = 1; nth <= 40; nth++) {
        int64_t live = vv_memory_live_count();
        vv_logger *logger = NULL;
        vv_state s = {.time = {.batch = 1}};
        assert_ok(vv_logger_new(&logger, &vv_logger_csv, NULL));
        vv_memory_fail_at(nth);
        vv_status status = vv_logger_csv.open(logger, folder, true);
        bool opened = status == VV_OK;
        if (status == VV_OK)
            status = vv_logger_csv.metric(logger, &s, "early", 1.0);
        if (status == VV_OK)
            status = vv_logger_csv.event(logger, VV_EVENT_AFTER_LOAD, &s);
        for (int b = 1; b < 4 && status == VV_OK; b++) {
            s.time.batch = b;
            status = vv_logger_csv.metric(logger, &s, b % 2 ? "a" : "b", 0.5);
        }
        vv_memory_fail_at(0);
        assert_true(status == VV_OK || status == VV_ENOMEM);
        if (opened)
            vv_logger_csv.close(logger);
        vv_logger_free(logger);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

static int make_folder(void **unused)
{
    (void)unused;
    tt_folder(folder, sizeof folder);
    return 0;
}

static int remove_folder(void **unused)
{
    (void)unused;
    tt_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_and_columns),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_resumed_run),
        cmocka_unit_test(test_memory_failures),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
