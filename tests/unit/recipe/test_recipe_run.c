/* test_recipe_run.c - a recipe becomes a run that trains, evaluates and writes its folder; the same
 * command again has nothing left to do; what cannot work says so; the caller's loggers are taken
 * even on failure; a failing allocation gives a status and leaves nothing behind. */
#include "vv_test_files.h"

#include <vivace/recipe.h>

static const char tiny[] =
    "name: tiny\n"
    "model: {name: mlp, width: 4, layers: 1}\n"
    "dataset: {name: synthetic, like: mnist, height: 6, width: 6, count: 64, pool: 64}\n"
    "optimizer: {name: sgd, lr: 0.5}\n"
    "schedules: {linear_decay: {}}\n"
    "methods: {label_smoothing: {smoothing: 0.1}}\n"
    "callbacks: [lr_monitor]\n"
    "initializers: kaiming_normal\n"
    "batch_size: 32\neval_batch_size: 20\nmax_duration: 2ba\n"
    "precision: fp32\nthreads: 1\nworkers: 0\n";

static vv_recipe *recipe_of(const char *text, const char *override)
{
    vv_recipe *recipe = NULL;
    assert_ok(vv_recipe_parse(&recipe, text, "tiny.yaml", &override, override != NULL));
    return recipe;
}

/* ---- a logger that counts what it hears and whether it was freed ---- */

typedef struct counter_opts {
    const char *note; /* an owned text: lost if the logger is */
} counter_opts;
static const vv_field counter_fields[] = {
    {"note", "for a test", VV_FIELD_STRING, offsetof(counter_opts, note), "x", 0, 0, NULL},
    {.name = NULL},
};
static int numbers_heard;

static vv_status counter_metric(vv_logger *logger, const vv_state *state, const char *name,
                                double value)
{
    (void)logger;
    (void)state;
    (void)name;
    (void)value;
    numbers_heard++;
    return VV_OK;
}

static const vv_logger_desc counter_desc = {
    .desc = {"logger", "counter", "For a test.", "", "any", counter_fields, sizeof(counter_opts)},
    .metric = counter_metric,
};

static vv_logger *new_counter(void)
{
    vv_logger *logger = NULL;
    assert_ok(vv_logger_new(&logger, &counter_desc, NULL));
    return logger;
}

/* ---- tests ---- */

static void trains_evaluates_and_is_finished(void **state)
{
    (void)state;
    char dir[256], run_dir[300], path[400];
    temp_dir(dir);
    snprintf(run_dir, sizeof run_dir, "%s/run", dir);
    vv_recipe *recipe = recipe_of(tiny, NULL);
    for (int again = 0; again < 2; again++) {
        vv_logger *loggers[] = {new_counter(), new_counter(), NULL};
        vv_run_opts opts = VV_RUN_DEFAULTS;
        opts.run_dir = run_dir;
        opts.command = "a test";
        opts.loggers = loggers;
        vv_run *run = NULL;
        vv_str plan = {0};
        assert_ok(vv_run_new(&run, recipe, &opts));
        assert_null(loggers[0]); /* taken */
        vv_trainer *trainer = vv_run_trainer(run);
        vv_state *s = vv_trainer_state(trainer);
        assert_int_equal(s->time.batch, again ? 2 : 0);
        assert_ok(vv_trainer_plan(trainer, &plan));
        assert_non_null(strstr(vv_str_text(&plan), "label_smoothing"));
        vv_str_fini(&plan);
        numbers_heard = 0;
        assert_ok(vv_trainer_fit(trainer));
        assert_int_equal(s->time.batch, 2);
        assert_int_equal(s->time.sample, 64);
        if (!again) {
            double accuracy = -1;
            assert_true(numbers_heard > 0 && numbers_heard % 2 == 0); /* both loggers alike */
            assert_ok(vv_state_metric(s, "eval", "accuracy", &accuracy));
            assert_true(accuracy >= 0 && accuracy <= 1);
        }
        assert_ok(vv_trainer_eval(trainer));
        assert_int_equal(vv_loader_sample_count(vv_run_eval_loader(run)), 64);
        vv_run_free(run);
    }
    static const char *const files[] = {"recipe.yaml", "summary.json", "log.jsonl", "plan.txt",
                                        "checkpoints"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", run_dir, files[i]);
        assert_int_equal(access(path, R_OK), 0);
    }
    /* the folder holds the resolved recipe */
    vv_recipe *stored = NULL;
    vv_str before = {0}, after = {0};
    snprintf(path, sizeof path, "%s/recipe.yaml", run_dir);
    assert_ok(vv_recipe_load(&stored, path, NULL, 0));
    assert_ok(vv_recipe_text(recipe, &before));
    assert_ok(vv_recipe_text(stored, &after));
    assert_string_equal(vv_str_text(&before), vv_str_text(&after));
    vv_str_fini(&before);
    vv_str_fini(&after);
    vv_recipe_free(stored);
    vv_recipe_free(recipe);
    remove_dir(dir);
}

/* Without opts nothing is written; intervals `none` mean never. */
static void runs_without_a_folder(void **state)
{
    (void)state;
    vv_recipe *recipe = recipe_of(tiny, "eval_interval=none");
    vv_run *run;
    assert_ok(vv_run_new(&run, recipe, NULL));
    assert_ok(vv_trainer_fit(vv_run_trainer(run)));
    double accuracy;
    assert_fails(
        vv_state_metric(vv_trainer_state(vv_run_trainer(run)), "eval", "accuracy", &accuracy),
        VV_ESTATE);
    vv_run_free(run);
    vv_recipe_free(recipe);
    vv_run_free(NULL);
}

/* `synthetic` gives the shape and size of a set whose files are not there. */
static void stands_in_for_missing_data(void **state)
{
    (void)state;
    vv_recipe *recipe =
        recipe_of("model: {name: mlp, width: 4}\ndataset: {name: cifar10, dir: /nowhere}\n"
                  "threads: 1\n",
                  NULL);
    vv_run *run;
    vv_run_opts opts = VV_RUN_DEFAULTS;
    assert_fails(vv_run_new(&run, recipe, &opts), VV_ENOTFOUND);
    assert_null(run);
    opts.synthetic = true;
    assert_ok(vv_run_new(&run, recipe, &opts));
    const vv_state *s = vv_trainer_state(vv_run_trainer(run));
    assert_int_equal(s->input_spec.input_shape[2], 3);
    assert_int_equal(s->axis.batches_per_epoch, 50000 / 128);
    vv_run_free(run);
    vv_recipe_free(recipe);
}

/* Two evaluators, one on part of the training set; metrics of training are logged. */
static void several_evaluators(void **state)
{
    (void)state;
    static const char text[] =
        "model: {name: mlp, width: 4, layers: 1}\n"
        "dataset: {name: synthetic, like: mnist, height: 6, width: 6, count: 64, pool: 64}\n"
        "batch_size: 32\neval_batch_size: 20\nmax_duration: 2ba\nthreads: 1\nworkers: 0\n"
        "train_metrics: accuracy\n"
        "evaluators:\n  test: {metrics: [accuracy, top3]}\n"
        "  seen: {split: train, subset: 30sp, metrics: perplexity, microbatch: 7}\n";
    vv_recipe *recipe = recipe_of(text, NULL);
    vv_run *run;
    assert_ok(vv_run_new(&run, recipe, NULL));
    vv_trainer *trainer = vv_run_trainer(run);
    const vv_state *s = vv_trainer_state(trainer);
    assert_ok(vv_trainer_fit(trainer));
    double value;
    assert_ok(vv_state_metric(s, "test", "top3", &value));
    assert_ok(vv_state_metric(s, "seen", "perplexity", &value));
    assert_true(value > 1.0);
    assert_fails(vv_state_metric(s, "eval", "accuracy", &value), VV_ENOTFOUND);
    assert_ok(vv_state_metric(s, "train", "accuracy", &value));
    assert_int_equal(vv_loader_sample_count(vv_run_eval_loader(run)), 64);
    vv_run_free(run);
    vv_recipe_free(recipe);

    static const char *const wrong[][2] = {
        {"evaluators.test.metrics=mse", "evaluator test: metric mse"},
        {"evaluators.seen.dataset={name: synthetic, like: cifar10}",
         "tiny.yaml: evaluators.seen: its samples are"},
        {"evaluators.seen.interval=-1ep", "evaluator seen: interval"},
    };
    for (int i = 0; i < 3; i++) {
        recipe = recipe_of(text, wrong[i][0]);
        vv_error_clear();
        assert_int_not_equal(vv_run_new(&run, recipe, NULL), VV_OK);
        assert_says(wrong[i][1]);
        vv_recipe_free(recipe);
    }
}

static void says_what_cannot_work(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"batch_size=65", "tiny.yaml: batch_size 65 is larger than the training set (64 samples)"},
        {"limit=10", "tiny.yaml: batch_size 32 is larger than the training set (10 samples)"},
        {"initializers=kaiming_norml", "tiny.yaml: initializers: there is no \"kaiming_norml\"; "
                                       "did you mean \"kaiming_normal\"?"},
        {"eval_metrics=acuracy", "acuracy"},
        {"save_interval=-1ep", "save_interval: interval -1ep: must not be negative"},
        {"eval_interval=-1ep", "eval_interval: interval -1ep: must not be negative"},
        {"methods={mixup: {}, cutmix: {}}", "mixup and cutmix cannot be used together"},
        {"schedules.step={step_size: 0ba}", "step"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vv_recipe *recipe = recipe_of(tiny, cases[i][0]);
        const int64_t live = vv_memory_live_count();
        vv_logger *loggers[] = {new_counter(), NULL};
        vv_run_opts opts = VV_RUN_DEFAULTS;
        opts.loggers = loggers;
        vv_run *run;
        vv_error_clear();
        assert_int_not_equal(vv_run_new(&run, recipe, &opts), VV_OK);
        assert_says(cases[i][1]);
        assert_null(run);
        assert_int_equal(vv_memory_live_count(), live); /* the logger too is gone */
        vv_recipe_free(recipe);
    }
}

static vv_status make_run(const vv_recipe *recipe, const char *run_dir)
{
    vv_logger *loggers[] = {new_counter(), NULL};
    vv_run_opts opts = VV_RUN_DEFAULTS;
    opts.run_dir = run_dir;
    opts.loggers = loggers;
    vv_run *run;
    vv_status status = vv_run_new(&run, recipe, &opts);
    assert_true((status == VV_OK) == (run != NULL));
    vv_run_free(run);
    return status;
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    char dir[256];
    temp_dir(dir);
    vv_recipe *recipe = recipe_of(tiny, NULL);
    assert_ok(make_run(recipe, dir)); /* what lasts as long as the process is made now */
    const int64_t live = vv_memory_live_count();
    const uint64_t before = vv_memory_alloc_count();
    assert_ok(make_run(recipe, dir));
    const uint64_t allocations = vv_memory_alloc_count() - before;
    assert_true(allocations > 100);
    assert_int_equal(vv_memory_live_count(), live);
    /* the first ones, which make the counter, would fail in this test itself */
    vv_logger *counter;
    const uint64_t counted = vv_memory_alloc_count();
    counter = new_counter();
    const uint64_t own = vv_memory_alloc_count() - counted;
    vv_logger_free(counter);
    const uint64_t step = allocations / 400 + 1;
    for (uint64_t n = own + 1; n <= allocations; n += step) {
        vv_memory_fail_at(n);
        vv_error_clear();
        const vv_status status = make_run(recipe, dir);
        vv_memory_fail_at(0);
        if (status == VV_OK || !vv_error()[0])
            fail_msg("allocation %llu of %llu failed: status %s, sentence \"%s\"",
                     (unsigned long long)n, (unsigned long long)allocations,
                     vv_status_name(status), vv_error());
        if (vv_memory_live_count() != live)
            fail_msg("allocation %llu: %lld blocks lost (%s)", (unsigned long long)n,
                     (long long)(vv_memory_live_count() - live), vv_error());
    }
    vv_recipe_free(recipe);
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_evaluators),
        cmocka_unit_test(trains_evaluates_and_is_finished),
        cmocka_unit_test(runs_without_a_folder),
        cmocka_unit_test(stands_in_for_missing_data),
        cmocka_unit_test(says_what_cannot_work),
        cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
