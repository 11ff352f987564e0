/* test_batch_size_schedule.c - what must hold: settings become stages; batches have the sizes the
 * plan told, from the batch it told on, in runs of any unit; the clock's samples, the run's length
 * and evaluation points agree with what happens; the learning rate is scaled; neither microbatches
 * nor interruptions change the training; what cannot work is refused before it starts. */
#include "method_world.h"

#include "batch_size_schedule.h"

static void settings(void **unused)
{
    (void)unused;
    vv_method *method = mw_method("batch_size_schedule", NULL);
    vv_batch_stage stages[VV_BATCH_SIZE_STAGES];
    int count;
    assert_ok(vv_batch_size_stages(stages, &count, method->opts, 10));
    assert_int_equal(count, 3);
    assert_int_equal(stages[0].size, 2); /* 2.5, to even */
    assert_int_equal(stages[1].size, 5);
    assert_int_equal(stages[2].size, 10);
    assert_near(stages[1].from.fraction, 0.3333, 0, 0);
    assert_near(stages[0].lr_factor, 1, 0, 0);
    vv_method_free(method);
    method = mw_method("batch_size_schedule", "scales=[0.1, 0.25 ,2],at=[3ba,2ep],lr_power=0.5");
    assert_ok(vv_batch_size_stages(stages, &count, method->opts, 4));
    assert_int_equal(stages[0].size, 1);
    assert_int_equal(stages[2].size, 8);
    assert_int_equal(stages[2].from.unit, VV_UNIT_EPOCH);
    assert_near(stages[1].lr_factor, 0.5, 0, 1e-15);
    assert_near(stages[2].lr_factor, sqrt(2), 0, 1e-15);
    vv_method_free(method);
    static const char *const bad[] = {"scales=0.5", "scales=0.5;1", "scales=", "scales=[0,1,2]",
                                      "scales=-1,1,1", "at=0.5dur", "scales=a,b,c"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(vv_method_make(&method, "batch_size_schedule", bad[i]), VV_EINVAL);
}

/* ---- what happens, beside what was planned ---- */
typedef struct seen {
    int64_t rows[64];
    double lr[64];
    int count, evaluations;
    int64_t evaluated_at[64];
} seen;
static seen *watched;

static vv_status watch(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    if (event == VV_EVENT_EVAL_END) {
        watched->evaluated_at[watched->evaluations++] = state->time.batch;
        return VV_OK;
    }
    assert_true(watched->count < 64);
    watched->rows[watched->count] = state->batch->count;
    watched->lr[watched->count++] = vv_optimizer_lr(state->optimizer, 0);
    return VV_OK;
}
static const vv_callback_desc watcher = MW_CALLBACK(
    "watcher", VV_EVENT_BIT(VV_EVENT_BATCH_START) | VV_EVENT_BIT(VV_EVENT_EVAL_END), watch);

/* 12 samples an epoch, batches of at most 6. */
static vv_timestamp run(const char *duration, const char *method_settings, const char *eval,
                        seen *what, char *plan_text, size_t bytes)
{
    mw_data d;
    vv_trainer *trainer;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, false, duration);
    vv_method *m = mw_method("batch_size_schedule", method_settings);
    vv_callback *callbacks[2] = {mw_callback(&watcher), NULL};
    *what = (seen){.count = 0};
    watched = what;
    opts.methods = (vv_method_list){&m, 1};
    opts.callbacks = callbacks;
    opts.eval = d.eval;
    opts.eval_interval = eval;
    assert_ok(vv_trainer_new(&trainer, &opts));
    vv_str plan = {0};
    assert_ok(vv_trainer_plan(trainer, &plan));
    snprintf(plan_text, bytes, "%s", vv_str_text(&plan));
    vv_str_fini(&plan);
    assert_int_equal(vv_trainer_state(trainer)->axis.samples_per_batch, what->rows[0] ? 0 : 2);
    assert_ok(vv_trainer_fit(trainer));
    const vv_state *state = vv_trainer_state(trainer);
    const vv_timestamp time = state->time;
    assert_int_equal(time.batch, state->axis.total_batches);
    for (int64_t e = 0; e < time.epoch; e++) {
        double at;
        assert_ok(vv_time_to_batches(&at, vv_time_of(e + 1, VV_UNIT_EPOCH), &state->axis));
        assert_near(at, rint(at), 0, 0);
        assert_near(vv_axis_epochs(&state->axis, at), (double)e + 1, 1e-12, 0);
    }
    vv_trainer_free(trainer);
    assert_int_equal(vv_loader_batch_count(d.train), 2); /* the loader is as it was */
    mw_close(&d);
    return time;
}

static void has(const char *plan, const char *words)
{
    if (!strstr(plan, words))
        fail_msg("the plan lacks \"%s\":\n%s", words, plan);
}

static void in_epochs(void **unused)
{
    (void)unused;
    char plan[8192];
    seen w;
    /* 24 of 48 samples in twos, 12 in threes, 12 in sixes; the third epoch is the threes' */
    const vv_timestamp end = run("4ep", "scales=[0.3334,0.5,1],at=[0.5dur,0.75dur],lr_power=1",
                                 "1ep", &w, plan, sizeof plan);
    static const int64_t rows[] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 6, 6};
    static const int64_t evaluated[] = {6, 12, 16, 18};
    assert_int_equal(end.batch, 18);
    assert_int_equal(end.sample, 48);
    assert_int_equal(end.epoch, 4);
    assert_int_equal(w.count, 18);
    for (int i = 0; i < 18; i++) {
        assert_int_equal(w.rows[i], rows[i]);
        assert_near(w.lr[i], 0.05 * (rows[i] == 2 ? 0.3334 : rows[i] == 3 ? 0.5 : 1), 1e-15, 0);
    }
    assert_int_equal(w.evaluations, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(w.evaluated_at[i], evaluated[i]);
    has(plan, "4ep = 18 batches of 2, 3 from batch 12 on, 6 from batch 16 on, 48 samples in all");
    has(plan, "every 1ep: 4 times, first after batch 6, last after 18");
    has(plan, "batches of 2 (learning rate times 0.3334), 3 from batch 12 on");
    has(plan, "lr group 0  0.01667 @ 0");
    has(plan, "0.05 @ 17");
}

/* A stage that begins within an epoch, and evaluation by samples. */
static void within_an_epoch(void **unused)
{
    (void)unused;
    char plan[8192];
    seen w;
    vv_timestamp end = run("2ep", "scales=[0.3334,0.8333],at=[7sp]", "10sp", &w, plan, sizeof plan);
    static const int64_t rows[] = {2, 2, 2, 2, 4, 5, 5, 2}; /* the short last of each epoch */
    assert_int_equal(w.count, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(w.rows[i], rows[i]);
    assert_int_equal(end.sample, 24);
    assert_int_equal(end.epoch, 2);
    assert_int_equal(w.evaluations, 3); /* after samples 10, 20 and the end */
    assert_int_equal(w.evaluated_at[0], 5);
    assert_int_equal(w.evaluated_at[1], 7);
    has(plan, "2ep = 8 batches of 2, 5 from batch 4 on, 24 samples in all (5 batches, 12 samples");
    has(plan, "every 10sp: 3 times, first after batch 5, last after 8");
    /* In batches a share of the run is one of its batches; in samples one of its samples. */
    end = run("9ba", "scales=[0.3334,1],at=[0.3333dur]", "0ep", &w, plan, sizeof plan);
    assert_int_equal(end.batch, 9);
    assert_int_equal(w.rows[2], 2);
    assert_int_equal(w.rows[3], 6);
    has(plan, "6 from batch 3 on");
    end = run("30sp", "scales=[0.3334,1],at=[0.2dur]", "0ep", &w, plan, sizeof plan);
    assert_int_equal(end.batch, 7); /* 2 2 2 6 | 6 6 | 6 */
    assert_int_equal(end.sample, 30);
    end = run("4ba", "scales=[0.3334,1],at=[100ba]", "0ep", &w, plan, sizeof plan); /* never */
    assert_int_equal(end.sample, 8);
}

static void guarantees(void **unused)
{
    (void)unused;
    const char *how = "scales=[0.3334,0.5,1],at=[8sp,2ep],lr_power=0.5";
    const mw_weights whole = mw_run(false, "3ep", 0, "batch_size_schedule", how);
    const mw_weights micro = mw_run(false, "3ep", 1, "batch_size_schedule", how);
    const mw_weights parts = mw_run_resumed(false, "3ep", "batch_size_schedule", how);
    const mw_weights plain = mw_run(false, "3ep", 0, NULL, NULL);
    assert_true(mw_difference(&whole, &micro) < 1e-5);
    assert_true(mw_equal(&whole, &parts));
    assert_false(mw_equal(&whole, &plain));
}

static vv_status try(const char *duration, const char *how, const char *iteration)
{
    mw_data d;
    vv_trainer *trainer;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, false, duration);
    vv_method *m = mw_method("batch_size_schedule", how);
    opts.methods = (vv_method_list){&m, 1};
    opts.iteration_length = iteration;
    vv_error_clear();
    const vv_status status = vv_trainer_new(&trainer, &opts);
    vv_trainer_free(trainer);
    assert_int_equal(vv_loader_batch_count(d.train), 2);
    mw_close(&d);
    return status;
}

static void refusals(void **unused)
{
    (void)unused;
    assert_int_equal(try("10sec", NULL, NULL), VV_EINVAL);
    assert_says("budget");
    assert_int_equal(try("2ep", NULL, "1ep"), VV_EINVAL);
    assert_says("iteration_length");
    assert_int_equal(try("2ep", NULL, "3ba"), VV_OK);
    assert_int_equal(try("2ep", "at=[0.6dur,0.5dur]", NULL), VV_EINVAL);
    assert_says("stage 3");
    assert_int_equal(try("1ba", NULL, NULL), VV_OK); /* no room for three stages */
    assert_int_equal(try("2ep", "at=[0.5dur,5tok]", NULL), VV_EINVAL);
    assert_says("tokens");
    assert_int_equal(try("2ep", "at=[0.5dur,5sec]", NULL), VV_EINVAL);
}

/* A checkpoint within an epoch goes on with its own stages only. */
static void other_stages(void **unused)
{
    (void)unused;
    mw_data d;
    vv_trainer *trainer;
    char path[256];
    mw_path(path);
    mw_open(&d, 12, 6);
    for (int i = 0; i < 3; i++) {
        static const char *const how[] = {"at=[0.5dur,0.7dur]", "at=[0.3dur,0.7dur]",
                                          "at=[0.5dur,0.7dur]"};
        vv_trainer_opts opts = mw_opts(&d, false, "8ba");
        vv_method *m = mw_method("batch_size_schedule", how[i]);
        static const vv_callback_desc stopper =
            MW_CALLBACK("stopper", VV_EVENT_BIT(VV_EVENT_BATCH_END), mw_interrupt);
        vv_callback *callbacks[2] = {i == 0 ? mw_callback(&stopper) : NULL, NULL};
        opts.methods = (vv_method_list){&m, 1};
        opts.callbacks = callbacks;
        opts.load_path = i ? path : NULL;
        if (i == 1) {
            assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
            assert_says("other points");
            continue;
        }
        assert_ok(vv_trainer_new(&trainer, &opts));
        assert_int_equal(vv_trainer_fit(trainer), i ? VV_OK : VV_EINTERRUPTED);
        if (i == 0)
            assert_ok(vv_trainer_save(trainer, path));
        vv_trainer_free(trainer);
    }
    unlink(path);
    mw_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings),        cmocka_unit_test(in_epochs),
        cmocka_unit_test(within_an_epoch), cmocka_unit_test(guarantees),
        cmocka_unit_test(refusals),        cmocka_unit_test(other_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
