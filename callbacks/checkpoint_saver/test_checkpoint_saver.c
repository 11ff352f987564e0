/* test_checkpoint_saver.c - the series appears at its interval and at the end, keeps its newest,
 * goes on after a resume, loads, and tells a folder or name that cannot be before the first
 * batch. */
#include "unit/train/train_test.h"
#include <vivace/checkpoint_saver.h>

static vv_status kill_at(void *ctx, vv_event event, vv_state *state)
{
    const int64_t *batch = ctx;
    return event == VV_EVENT_BATCH_START && *batch && state->time.batch == *batch
               ? vv_fail(VV_EIO, "killed")
               : VV_OK;
}

/* Ten samples in batches of 2 for three epochs, in a folder. */
static vv_status run_in(const char *folder, const vv_checkpoint_saver_opts *opts, int64_t kill)
{
    vv_callback *callbacks[3] = {NULL};
    assert_ok(vv_callback_new(&callbacks[0], &vv_callback_checkpoint_saver, opts));
    callbacks[1] = tt_listen_with(kill_at, &kill);
    tt_data train;
    tt_data_init(&train, 10, 2, true);
    vv_trainer_opts trainer_opts = VV_TRAINER_DEFAULTS;
    trainer_opts.model = tt_mlp(0.1);
    trainer_opts.train = train.loader;
    trainer_opts.max_duration = "3ep";
    trainer_opts.callbacks = callbacks;
    trainer_opts.run_dir = folder;
    trainer_opts.save_interval = folder ? "1ep" : NULL;
    trainer_opts.resume = folder != NULL;
    vv_trainer *trainer;
    vv_status status = vv_trainer_new(&trainer, &trainer_opts);
    if (status == VV_OK)
        status = vv_trainer_fit(trainer);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    return status;
}

static int files_in(const char *folder, const char *sub)
{
    char path[512];
    int count = 0;
    snprintf(path, sizeof path, "%s/%s", folder, sub);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static bool there(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, R_OK) == 0;
}

static void test_series(void **unused)
{
    (void)unused;
    char folder[256], path[512];
    vv_checkpoint_saver_opts opts = VV_CHECKPOINT_SAVER_DEFAULTS;
    opts.interval = (vv_time){VV_UNIT_BATCH, 4, 0.0};
    opts.filename = "w-{batch}";
    opts.weights_only = true;
    tt_folder(folder, sizeof folder);
    assert_ok(run_in(folder, &opts, 0));
    assert_int_equal(files_in(folder, "saved"), 4); /* 4, 8, 12 and the last, 15 */
    assert_true(there(folder, "saved/w-4.safetensors"));
    assert_true(there(folder, "saved/w-15.safetensors"));
    int wrong;
    vv_str text = {0};
    snprintf(path, sizeof path, "%s/saved/w-12.safetensors", folder);
    assert_ok(vv_checkpoint_verify(&text, &wrong, path));
    assert_int_equal(wrong, 0);
    vv_str_fini(&text);
    vv_safetensors *file;
    assert_ok(vv_safetensors_open(&file, path));
    vv_model *model = tt_mlp(0.1);
    int loaded;
    assert_ok(vv_model_load(model, file, true, NULL, NULL, &loaded));
    assert_int_equal(loaded, 4);
    vv_model_free(model);
    vv_safetensors_close(file);
    tt_remove(folder);
}

static void test_keeps_the_newest_after_resumes(void **unused)
{
    (void)unused;
    char folder[256];
    vv_checkpoint_saver_opts opts = VV_CHECKPOINT_SAVER_DEFAULTS;
    opts.interval = (vv_time){VV_UNIT_BATCH, 2, 0.0};
    opts.keep = 2;
    opts.dir = "kept";
    opts.filename = "ba{batch}";
    tt_folder(folder, sizeof folder);
    assert_int_equal(run_in(folder, &opts, 8), VV_EIO);
    assert_int_equal(files_in(folder, "kept"), 2);
    assert_true(there(folder, "kept/ba6.safetensors") && there(folder, "kept/ba8.safetensors"));
    /* The run goes on from batch 5: 6 and 8 are written again. */
    assert_int_equal(run_in(folder, &opts, 13), VV_EIO);
    assert_true(there(folder, "kept/ba10.safetensors") && there(folder, "kept/ba12.safetensors"));
    assert_int_equal(files_in(folder, "kept"), 2);
    assert_ok(run_in(folder, &opts, 0));
    assert_true(there(folder, "kept/ba14.safetensors") && there(folder, "kept/ba15.safetensors"));
    assert_int_equal(files_in(folder, "kept"), 2);
    assert_ok(run_in(folder, &opts, 0)); /* finished: nothing is written any more */
    assert_int_equal(files_in(folder, "kept"), 2);
    tt_remove(folder);
}

/* A whole epoch's checkpoint of the series is one that a run can start from. */
static void test_continues_a_run(void **unused)
{
    (void)unused;
    char folder[256], path[512];
    vv_checkpoint_saver_opts opts = VV_CHECKPOINT_SAVER_DEFAULTS;
    tt_folder(folder, sizeof folder);
    assert_ok(run_in(folder, &opts, 0));
    assert_int_equal(files_in(folder, "saved"), 3);
    snprintf(path, sizeof path, "%s/saved/ep0002-ba00000010.safetensors", folder);
    tt_data train;
    tt_data_init(&train, 10, 2, true);
    vv_trainer_opts trainer_opts = VV_TRAINER_DEFAULTS;
    trainer_opts.model = tt_mlp(0.1);
    trainer_opts.train = train.loader;
    trainer_opts.max_duration = "3ep";
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &trainer_opts));
    assert_ok(vv_trainer_load(trainer, path, false));
    assert_int_equal(vv_trainer_state(trainer)->time.epoch, 2);
    assert_ok(vv_trainer_fit(trainer));
    assert_int_equal(vv_trainer_state(trainer)->time.batch, 15);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_remove(folder);
}

static void test_mistakes(void **unused)
{
    (void)unused;
    char folder[256];
    vv_checkpoint_saver_opts opts = VV_CHECKPOINT_SAVER_DEFAULTS;
    assert_int_equal(run_in(NULL, &opts, 0), VV_EINVAL); /* nowhere to write */
    assert_non_null(strstr(vv_error(), "dir"));
    tt_folder(folder, sizeof folder);
    opts.filename = "ba{bach}";
    assert_int_equal(run_in(folder, &opts, 0), VV_EINVAL);
    assert_non_null(strstr(vv_error(), "bach"));
    assert_false(there(folder, "checkpoints/latest"));
    tt_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_keeps_the_newest_after_resumes),
        cmocka_unit_test(test_continues_a_run),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
