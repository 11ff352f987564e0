/* test_curve.c - a run's log read back: each evaluation with the training time of the batch before
 * it, other evaluators and metrics left alone, an unfinished last line ignored, foreign files
 * refused. */
#include "vv_test.h"

#include <unistd.h>

#include <vivace/runs.h>

static char folder[64];

static void write_log(const char *text)
{
    char path[128];
    strcpy(folder, "/tmp/vv_curve_XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void remove_log(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    unlink(path);
    rmdir(folder);
}

static void test_points(void **state)
{
    (void)state;
    write_log(
        "{\"event\":\"batch\",\"epoch\":0,\"batch\":1,\"sample\":8,\"loss\":2,\"seconds\":1.5}\n"
        "{\"event\":\"eval\",\"epoch\":1,\"batch\":1,\"sample\":8,\"label\":\"eval\",\"metrics\":{"
        "\"accuracy\":0.5,\"loss\":2},\"seconds\":9}\n"
        "{\"event\":\"eval\",\"epoch\":1,\"batch\":1,\"sample\":8,\"label\":\"other\",\"metrics\":{"
        "\"accuracy\":0.9},\"seconds\":9}\n"
        "{\"event\":\"batch\",\"epoch\":1,\"batch\":2,\"sample\":16,\"loss\":1,\"seconds\":3.25}\n"
        "{\"event\":\"eval\",\"epoch\":2,\"batch\":2,\"sample\":16,\"label\":\"eval\",\"metrics\":{"
        "\"accuracy\":0.75,\"loss\":3},\"seconds\":9}\n"
        "{\"event\":\"eval\",\"epoch\":3,\"bat");
    vv_curve curve;
    assert_ok(vv_curve_read(&curve, folder, "eval", "accuracy"));
    assert_int_equal(curve.count, 2);
    assert_near(curve.points[0].train_seconds, 1.5, 0, 0);
    assert_near(curve.points[1].train_seconds, 3.25, 0, 0);
    assert_int_equal(curve.points[1].sample, 16);
    assert_near(vv_curve_reach(&curve, 0.6, true)->value, 0.75, 0, 0);
    assert_near(vv_curve_reach(&curve, 0.5, true)->value, 0.5, 0, 0);
    assert_null(vv_curve_reach(&curve, 0.8, true));
    assert_near(vv_curve_best(&curve, true)->value, 0.75, 0, 0);
    vv_curve_fini(&curve);
    assert_ok(vv_curve_read(&curve, folder, "eval", "loss"));
    assert_near(vv_curve_best(&curve, false)->value, 2, 0, 0);
    assert_near(vv_curve_reach(&curve, 2.5, false)->value, 2, 0, 0);
    vv_curve_fini(&curve);
    assert_fails(vv_curve_read(&curve, folder, "eval", "top5_accuracy"), VV_ENOTFOUND);
    remove_log();
}

static void test_foreign(void **state)
{
    (void)state;
    vv_curve curve;
    write_log("hello\n");
    assert_fails(vv_curve_read(&curve, folder, "eval", "accuracy"), VV_EFORMAT);
    remove_log();
    assert_fails(vv_curve_read(&curve, "/tmp/vv_no_such_run", "eval", "accuracy"), VV_ENOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points),
        cmocka_unit_test(test_foreign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
