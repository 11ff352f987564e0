/* test_train_memory.c - running out of memory is an ordinary error: whichever allocation of a run
 * fails (making the trainer, surgery of INIT, training, evaluating, saving, resuming), there is a
 * sentence, no crash, and nothing stays behind. */
#include "train_test.h"

/* A method with saved state, so that records are part of it. */
static vv_status touch(vv_method *method, vv_event event, vv_state *state)
{
    (void)event;
    vv_log_metric(state, "touched", 1.0);
    ++*(int64_t *)method->self;
    return VV_OK;
}

static vv_status save(vv_method *method, vv_record *record)
{
    VV_TRY(vv_record_set_text(record, "who", "touch"));
    return vv_record_set_int(record, "count", *(const int64_t *)method->self);
}

static vv_status load(vv_method *method, const vv_record *record)
{
    const char *who;
    VV_TRY(vv_record_get_text(record, "who", &who));
    return vv_record_get_int(record, "count", method->self);
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    (void)method;
    (void)state;
    vv_str_add(line, "touches every batch");
    return VV_OK;
}

static const vv_method_desc touch_desc = {
    .desc = {"method", "touch", "For a test.", "", "any", tt_no_fields, 0},
    .phase = VV_PHASE_WEIGHTS,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .self_size = sizeof(int64_t),
    .apply = touch,
    .plan = plan,
    .save = save,
    .load = load,
};

/* One run whose nth allocation fails; 0 = none. */
static vv_status run(tt_data *train, tt_data *eval, const char *folder, uint64_t nth)
{
    vv_callback *callbacks[] = {tt_listen_with(NULL, NULL), NULL};
    vv_method *method;
    assert_ok(vv_method_new(&method, &touch_desc, NULL));
    vv_schedule *schedules[2] = {NULL, NULL};
    const vv_schedule_desc *constant = vv_schedule_find("constant");
    assert_non_null(constant);
    assert_ok(vv_schedule_new(&schedules[0], constant, NULL));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.1);
    opts.train = train->loader;
    opts.eval = eval->loader;
    opts.max_duration = "2ba";
    opts.microbatch = 1;
    opts.methods = VV_LIST(method);
    opts.schedules = schedules;
    opts.callbacks = callbacks;
    opts.run_dir = folder;
    opts.run_name = "memory";
    opts.recipe_text = "a: b\n";
    opts.save_interval = "1ba";
    opts.save_keep = 1;
    opts.save.keep_best = 1;
    opts.save.name = "{run_name}-{batch}";
    opts.load.exclude_methods = "none*";
    opts.resume = true;
    opts.backend = vv_backend_find("ref");
    vv_trainer *trainer;
    vv_error_clear();
    vv_memory_fail_at(nth);
    vv_status status = vv_trainer_new(&trainer, &opts);
    if (status == VV_OK)
        status = vv_trainer_fit(trainer);
    vv_memory_fail_at(0);
    vv_trainer_free(trainer);
    return status;
}

static void each_allocation(const char *folder, bool fresh)
{
    tt_data train, eval;
    tt_data_init(&train, 4, 2, false);
    tt_data_init(&eval, 2, 2, false);
    char inner[300];
    snprintf(inner, sizeof inner, "%s/run", folder);
    assert_ok(run(&train, &eval, inner, 0)); /* pools of the loaders fill once */
    int64_t live = vv_memory_live_count();
    uint64_t start = vv_memory_alloc_count();
    tt_remove(inner);
    assert_ok(run(&train, &eval, inner, 0));
    uint64_t count = vv_memory_alloc_count() - start;
    assert_true(count > 100);
    assert_int_equal(vv_memory_live_count(), live);
    uint64_t step = count > 400 ? count / 400 + 1 : 1;
    int failed = 0;
    for (uint64_t nth = 1; nth <= count; nth += step) {
        if (fresh)
            tt_remove(inner);
        vv_status status = run(&train, &eval, inner, nth);
        if (status != VV_OK) {
            failed++;
            if (!vv_error()[0])
                fail_msg("allocation %d: %s without a sentence", (int)nth, vv_status_name(status));
        }
        if (vv_memory_live_count() != live)
            fail_msg("allocation %d of %d: %d blocks stay (%s: %s)", (int)nth, (int)count,
                     (int)(vv_memory_live_count() - live), vv_status_name(status), vv_error());
    }
    assert_true(failed > 20);
    tt_data_fini(&train);
    tt_data_fini(&eval);
}

static void test_fresh(void **unused)
{
    (void)unused;
    char folder[256];
    tt_folder(folder, sizeof folder);
    each_allocation(folder, true);
    tt_remove(folder);
}

/* From the second run on, the run is finished: loading it again is what runs out. */
static void test_resumed(void **unused)
{
    (void)unused;
    char folder[256];
    tt_folder(folder, sizeof folder);
    each_allocation(folder, false);
    tt_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fresh),
        cmocka_unit_test(test_resumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
