/* test_train_intervals.c - the table of spec trainer.md 3.5, exactly: 10 samples in batches of 2.
 * The number of evaluations and of saved checkpoints, the one at the end included and never twice;
 * "0ep" is only at the end, "" never. */
#include "train_test.h"

static vv_status count_evals(void *ctx, vv_event event, vv_state *state)
{
    (void)state;
    *(int *)ctx += event == VV_EVENT_EVAL_START;
    return VV_OK;
}

static int files_in(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        const char *end = strstr(entry->d_name, ".safetensors");
        count += end && strcmp(end, ".safetensors") == 0;
    }
    closedir(dir);
    return count;
}

static void check(const char *every, const char *duration, int expected)
{
    char folder[256], inner[300];
    tt_folder(folder, sizeof folder);
    snprintf(inner, sizeof inner, "%s/checkpoints", folder);
    tt_data train, eval;
    tt_data_init(&train, 10, 2, false);
    tt_data_init(&eval, 2, 2, false);
    int evals = 0;
    vv_callback *callbacks[] = {tt_listen_with(count_evals, &evals), NULL};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = train.loader;
    opts.eval = eval.loader;
    opts.max_duration = duration;
    opts.eval_interval = every;
    opts.save_interval = every;
    opts.run_dir = folder;
    opts.callbacks = callbacks;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    vv_trainer_free(trainer);
    int saves = files_in(inner);
    if (evals != expected || saves != expected)
        fail_msg("every \"%s\" over %s: %d evaluations, %d checkpoints, expected %d", every,
                 duration, evals, saves, expected);
    tt_data_fini(&train);
    tt_data_fini(&eval);
    tt_remove(folder);
}

static void test_table(void **unused)
{
    (void)unused;
    check("1ep", "5ep", 5);
    check("1ep", "4ep", 4);
    check("2ep", "8ep", 4);
    check("10ba", "8ep", 4);
    check(".25dur", "4ep", 4);
    check("5ba", "4ep", 4);
    check("5ba", "10ba", 2);
    check(".35dur", "4ep", 3);
    check(".01dur", "100ba", 100);
    check(".10dur", "70sp", 10);
    check(".05dur", "80sp", 20);
}

static void test_ends(void **unused)
{
    (void)unused;
    check("0ep", "2ep", 1);
    check("", "2ep", 0);
    check("3ep", "4ep", 2);
    check("3ba", "7ba", 3);
    check("3sp", "1ep", 3); /* at 4, 6 and 10 samples: several multiples in one batch fire once */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
