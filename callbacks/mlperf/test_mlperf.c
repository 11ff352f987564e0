/* test_mlperf.c - the result file has the lines of an MLPerf log in their order, with the run's own
 * numbers; the run succeeds when the target is passed, and only then; a result is never written
 * over; a resumed run goes on in its own file. */
#include "callbacks/callback_test.h"

#include <vivace/mlperf.h>

static char folder[256];

static vv_status run(double target, bool exit_at_target, const char *duration, const char *run_dir,
                     int64_t *batches)
{
    vv_mlperf_opts opts = VV_MLPERF_DEFAULTS;
    char dir[300];
    snprintf(dir, sizeof dir, "%s/out", folder);
    opts.dir = dir;
    opts.target = target;
    opts.exit_at_target = exit_at_target;
    opts.system_name = "bench \"1\"";
    vv_callback *callbacks[2] = {NULL};
    assert_ok(vv_callback_new(&callbacks[0], &vv_callback_mlperf, &opts));
    tt_data train, eval;
    tt_data_init(&train, 10, 2, true);
    tt_data_init(&eval, 4, 2, false);
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    o.model = tt_mlp(0.0);
    o.train = train.loader;
    o.eval = eval.loader;
    o.max_duration = duration;
    o.callbacks = callbacks;
    o.run_dir = run_dir;
    o.save_interval = "1ep";
    o.resume = run_dir != NULL;
    o.seed = 5;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &o));
    vv_status status = vv_trainer_fit(trainer);
    if (batches)
        *batches = vv_trainer_state(trainer)->time.batch;
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_data_fini(&eval);
    return status;
}

/* Keys of the result file in order, "a b c"; *text = the whole file. */
static void keys_of(char *keys, size_t bytes, char *text, size_t text_bytes)
{
    char path[512], line[1024];
    snprintf(path, sizeof path, "%s/out/results/bench \"1\"/resnet/result_0.txt", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    keys[0] = text[0] = '\0';
    while (fgets(line, sizeof line, file)) {
        static const char head[] = ":::MLLOG {\"namespace\": \"\", \"time_ms\": ";
        char key[64];
        assert_int_equal(strncmp(line, head, sizeof head - 1), 0);
        const char *at = strstr(line, "\"key\": \"");
        assert_non_null(at);
        assert_int_equal(sscanf(at + 8, "%63[^\"]", key), 1);
        snprintf(keys + strlen(keys), bytes - strlen(keys), "%s%s", keys[0] ? " " : "", key);
        snprintf(text + strlen(text), text_bytes - strlen(text), "%s", line);
    }
    fclose(file);
}

#define HEAD                                                                                       \
    "init_start submission_benchmark submission_org submission_division submission_status "        \
    "submission_platform seed global_batch_size train_samples eval_samples init_stop run_start "
#define EPOCH                                                                                      \
    "epoch_start block_start epoch_stop eval_start eval_stop eval_accuracy block_stop "

static void test_lines(void **unused)
{
    (void)unused;
    char keys[2048], text[16384];
    int64_t batches;
    tt_folder(folder, sizeof folder);
    assert_ok(run(-1.0, true, "3ep", NULL, &batches)); /* any accuracy will do */
    assert_int_equal(batches, 5);
    keys_of(keys, sizeof keys, text, sizeof text);
    assert_string_equal(keys, HEAD EPOCH "run_stop");
    assert_non_null(strstr(text, "\"key\": \"seed\", \"value\": 5,"));
    assert_non_null(strstr(text, "\"key\": \"global_batch_size\", \"value\": 2,"));
    assert_non_null(strstr(text, "\"key\": \"train_samples\", \"value\": 10,"));
    assert_non_null(strstr(text, "\"key\": \"eval_samples\", \"value\": 4,"));
    assert_non_null(strstr(text, "\"value\": \"bench \\\"1\\\"\","));
    assert_non_null(strstr(text, "\"key\": \"block_stop\", \"value\": null, \"metadata\": "
                                 "{\"epoch_num\": 1}"));
    assert_non_null(strstr(text, "\"status\": \"success\""));
    char path[512];
    snprintf(path, sizeof path, "%s/out/systems/bench \"1\".json", folder);
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(run(-1.0, true, "1ep", NULL, NULL), VV_EEXIST);
    assert_says("result_0.txt is there already");
    tt_remove(folder);
}

static void test_resume(void **unused)
{
    (void)unused;
    char keys[2048], text[16384], run_dir[300];
    tt_folder(folder, sizeof folder);
    snprintf(run_dir, sizeof run_dir, "%s/run", folder);
    assert_ok(run(2.0, false, "1ep", run_dir, NULL)); /* out of reach */
    assert_ok(run(2.0, false, "2ep", run_dir, NULL));
    keys_of(keys, sizeof keys, text, sizeof text);
    assert_string_equal(keys, HEAD EPOCH "run_stop " EPOCH "run_stop");
    assert_null(strstr(text, "success"));
    tt_remove(folder);
}

static void test_refusals(void **unused)
{
    (void)unused;
    vv_mlperf_opts opts = VV_MLPERF_DEFAULTS;
    vv_callback *callback;
    vv_timestamp end;
    assert_ok(vv_callback_new(&callback, &vv_callback_mlperf, &opts));
    assert_int_equal(callback_run(callback, "1ep", NULL, NULL, NULL, &end), VV_EINVAL);
    assert_says("dir must be given");
    opts.monitor = "acuracy";
    assert_ok(vv_callback_new(&callback, &vv_callback_mlperf, &opts));
    assert_int_equal(callback_run(callback, "1ep", NULL, NULL, NULL, &end), VV_ENOTFOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
