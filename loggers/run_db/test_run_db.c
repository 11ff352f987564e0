/* test_run_db.c - a run has its row beside its folder: what it is from the start, evaluations and
 * numbers as they come, how it ended; a resumed run stays one row with nothing twice; a store that
 * cannot be written is told and harms nothing. */
#include "unit/train/train_test.h"
#include <vivace/label_smoothing.h>
#include <vivace/run_db.h>
#include <vivace/run_store.h>

typedef struct found {
    int runs;
    char id[128], status[32], model[32], dataset[32], optimizer[32];
    double started, ended, train_seconds, usd, progress;
    int64_t batches, samples, seed, parameters;
} found;

static bool see(void *ctx, const vv_run_row *row)
{
    found *f = ctx;
    f->runs++;
    snprintf(f->id, sizeof f->id, "%s", row->id);
    snprintf(f->status, sizeof f->status, "%s", row->status);
    snprintf(f->model, sizeof f->model, "%s", row->model);
    snprintf(f->dataset, sizeof f->dataset, "%s", row->dataset);
    snprintf(f->optimizer, sizeof f->optimizer, "%s", row->optimizer);
    f->started = row->started;
    f->ended = row->ended;
    f->train_seconds = row->train_seconds;
    f->usd = row->usd;
    f->progress = row->progress;
    f->batches = row->batches;
    f->samples = row->samples;
    f->seed = row->seed;
    f->parameters = row->parameters;
    return true;
}

typedef struct numbers_found {
    int evals, accuracies, points, losses, methods;
    int64_t last_batch;
    char settings[128];
} numbers_found;

static bool see_eval(void *ctx, const vv_run_eval *eval)
{
    numbers_found *n = ctx;
    n->evals++;
    n->accuracies += strcmp(eval->metric, "accuracy") == 0 && eval->higher_is_better;
    n->last_batch = eval->batch;
    return true;
}

static bool see_point(void *ctx, const vv_run_point *point)
{
    numbers_found *n = ctx;
    n->points++;
    n->losses += strcmp(point->name, "loss/train/total") == 0;
    return true;
}

static bool see_method(void *ctx, const vv_run_method *method)
{
    numbers_found *n = ctx;
    n->methods += strcmp(method->name, "label_smoothing") == 0;
    snprintf(n->settings, sizeof n->settings, "%s", method->settings);
    return true;
}

static bool see_setting(void *ctx, const vv_run_setting *setting)
{
    return ++*(int *)ctx, strcmp(setting->key, "optimizer.lr") == 0;
}

static vv_status read_store(const char *folder, found *f, numbers_found *n)
{
    char path[512];
    vv_run_store *store;
    *f = (found){0};
    *n = (numbers_found){0};
    snprintf(path, sizeof path, "%s/runs.db", folder);
    VV_TRY(vv_run_store_open(&store, path, false));
    vv_status status = vv_run_store_each(store, see, f);
    if (status == VV_OK)
        status = vv_run_store_evals(store, f->id, see_eval, n);
    if (status == VV_OK)
        status = vv_run_store_points(store, f->id, see_point, n);
    if (status == VV_OK)
        status = vv_run_store_methods(store, f->id, see_method, n);
    vv_run_store_close(store);
    return status;
}

static bool late; /* the one evaluation comes behind the last batch, and takes long */

static vv_status kill_at(void *ctx, vv_event event, vv_state *state)
{
    const int64_t *batch = ctx;
    if (late && event == VV_EVENT_EVAL_START)
        usleep(1100000); /* longer than from one heartbeat to the next */
    return event == VV_EVENT_BATCH_START && *batch && state->time.batch == *batch
               ? vv_fail(VV_EIO, "killed")
               : VV_OK;
}

/* Ten samples in batches of 2 for three epochs in folder/run. */
static vv_status run_in(const char *folder, const char *db, int64_t kill)
{
    char run_dir[300];
    vv_run_db_opts opts = VV_RUN_DB_DEFAULTS;
    vv_logger *loggers[2] = {NULL, NULL};
    vv_callback *callbacks[] = {tt_listen_with(kill_at, &kill), NULL};
    tt_data train, eval;
    snprintf(run_dir, sizeof run_dir, "%s/run", folder);
    opts.db = db;
    opts.facts =
        "{\"scale_schedule_ratio\":0.5,\"settings\":{\"optimizer.lr\":\"0.1\"},"
        "\"price\":{\"kind\":\"spot\",\"region\":\"r\",\"date\":\"2022\",\"source\":\"s\"}}";
    assert_ok(vv_logger_new(&loggers[0], &vv_logger_run_db, &opts));
    tt_data_init(&train, 10, 2, true);
    tt_data_init(&eval, 4, 2, false);
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    o.model = tt_mlp(0.0);
    o.train = train.loader;
    o.eval = eval.loader;
    o.max_duration = "3ep";
    o.methods = VV_LIST(vv_label_smoothing(0.2));
    o.callbacks = callbacks;
    o.loggers = loggers;
    o.run_dir = run_dir;
    o.run_name = "small run";
    o.save_interval = "1ep";
    o.eval_interval = late ? "0ep" : "1ep";
    o.resume = true;
    o.usd_per_hour = 3600.0;
    vv_trainer *trainer;
    vv_status status = vv_trainer_new(&trainer, &o);
    if (status == VV_OK)
        status = vv_trainer_fit(trainer);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_data_fini(&eval);
    return status;
}

static void test_row(void **unused)
{
    (void)unused;
    char folder[256];
    found f;
    numbers_found n;
    tt_folder(folder, sizeof folder);
    assert_ok(run_in(folder, "", 0));
    assert_ok(read_store(folder, &f, &n));
    assert_int_equal(f.runs, 1);
    assert_string_equal(f.status, "done");
    assert_string_equal(f.optimizer, "decoupled_sgdw");
    assert_int_equal(strncmp(f.id, "small-run-s", 11), 0);
    assert_int_equal(f.batches, 15);
    assert_int_equal(f.samples, 30);
    assert_int_equal(f.parameters, 8 * 16 + 16 + 16 * 3 + 3);
    assert_true(f.ended >= f.started && f.progress == 1.0);
    assert_near(f.usd, f.train_seconds, 1e-12, 1e-12);
    assert_int_equal(n.evals, 6); /* accuracy and cross-entropy, thrice */
    assert_int_equal(n.accuracies, 3);
    assert_true(n.losses >= 1);
    assert_int_equal(n.methods, 1);
    assert_non_null(strstr(n.settings, "\"smoothing\":0.2"));
    char path[512];
    vv_run_store *store;
    int settings = 0;
    snprintf(path, sizeof path, "%s/runs.db", folder);
    assert_ok(vv_run_store_open(&store, path, false));
    assert_ok(vv_run_store_settings(store, f.id, see_setting, &settings));
    assert_int_equal(settings, 1);
    vv_run_store_close(store);
    tt_remove(folder);
}

static void test_resumed(void **unused)
{
    (void)unused;
    char folder[256], id[128];
    found f;
    numbers_found n;
    tt_folder(folder, sizeof folder);
    assert_int_equal(run_in(folder, "", 13), VV_EIO);
    assert_ok(read_store(folder, &f, &n));
    assert_string_equal(f.status, "failed");
    assert_int_equal(n.last_batch, 10);
    snprintf(id, sizeof id, "%s", f.id);
    const double started = f.started;
    assert_ok(run_in(folder, "", 0)); /* from batch 10 */
    assert_ok(read_store(folder, &f, &n));
    assert_int_equal(f.runs, 1);
    assert_string_equal(f.id, id);
    assert_string_equal(f.status, "done");
    assert_true(f.started == started);
    assert_int_equal(n.evals, 6);
    assert_ok(run_in(folder, "", 0)); /* finished: nothing to do, nothing changes */
    assert_ok(read_store(folder, &f, &n));
    assert_string_equal(f.status, "done");
    assert_int_equal(f.runs, 1);
    tt_remove(folder);
}

/* A long evaluation at the very end does not make a run that is done a running one again. */
static void test_late_evaluation(void **unused)
{
    (void)unused;
    char folder[256];
    found f;
    numbers_found n;
    tt_folder(folder, sizeof folder);
    late = true;
    assert_ok(run_in(folder, "", 0));
    late = false;
    assert_ok(read_store(folder, &f, &n));
    assert_string_equal(f.status, "done");
    assert_int_equal(n.evals, 2);
    tt_remove(folder);
}

static void test_no_store(void **unused)
{
    (void)unused;
    char folder[256], text[4096] = "";
    tt_folder(folder, sizeof folder);
    assert_ok(run_in(folder, "/nowhere/at/all/runs.db", 0)); /* told; the run is whole */
    snprintf(text, sizeof text, "%s/run/log.jsonl", folder);
    FILE *log = fopen(text, "r");
    assert_non_null(log);
    text[fread(text, 1, sizeof text - 1, log)] = '\0';
    fclose(log);
    assert_non_null(strstr(text, "run_db: /nowhere/at/all/runs.db"));
    tt_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row),
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_late_evaluation),
        cmocka_unit_test(test_no_store),
    };
    if (!vv_run_store_available()) {
        puts("1..0 # SKIP this build has no SQLite");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
