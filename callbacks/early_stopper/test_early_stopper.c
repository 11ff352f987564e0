/* test_early_stopper.c - with patience P the run ends at the first evaluation more than P after the
 * best value; an improvement must exceed min_delta; less-is-better metrics are known; a wrong name
 * is told at the start; what it remembers survives a resume. */
#include <vivace/early_stopper.h>
#include "unit/train/train_test.h"

/* The callback fed with epochs' values of the training loss; returns the epoch at which it stops, 0
   if it does not. With `break_at` its memory goes through a record before that epoch. */
static int stops_at(const char *patience, double min_delta, const double *losses, int count,
                    int break_at)
{
    const vv_callback_desc *type = &vv_callback_early_stopper;
    vv_early_stopper_opts opts = VV_EARLY_STOPPER_DEFAULTS;
    opts.monitor = "loss";
    opts.label = "train";
    opts.min_delta = min_delta;
    assert_ok(vv_time_parse(&opts.patience, patience, VV_UNIT_NONE));
    vv_callback *callback;
    assert_ok(vv_callback_new(&callback, type, &opts));
    tt_data train; /* a trainer, so that messages have somewhere to go */
    tt_data_init(&train, 4, 2, false);
    vv_trainer_opts trainer_opts = VV_TRAINER_DEFAULTS;
    trainer_opts.model = tt_mlp(0.0);
    trainer_opts.train = train.loader;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &trainer_opts));
    vv_state *state = vv_trainer_state(trainer);
    assert_ok(type->apply(callback, VV_EVENT_FIT_START, state));
    for (int epoch = 1; epoch <= count && !state->stop; epoch++) {
        if (epoch == break_at) {
            vv_record *record;
            assert_ok(vv_record_new(&record));
            assert_ok(type->save(callback, record));
            vv_callback_free(callback);
            assert_ok(vv_callback_new(&callback, type, &opts));
            assert_ok(type->load(callback, record));
            vv_record_free(record);
        }
        state->time.epoch = epoch;
        state->time.batch = 2 * epoch;
        state->train_loss = losses[epoch - 1];
        assert_ok(type->apply(callback, VV_EVENT_BATCH_END, state));
        assert_ok(type->apply(callback, VV_EVENT_EPOCH_END, state));
    }
    int stopped = state->stop ? (int)state->time.epoch : 0;
    vv_callback_free(callback);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    return stopped;
}

static void test_patience(void **unused)
{
    (void)unused;
    const double worse[] = {5, 4, 6, 6, 6, 6, 6, 6, 6, 6}; /* best at epoch 2 */
    assert_int_equal(stops_at("3ep", 0.0, worse, 10, 0), 6);
    assert_int_equal(stops_at("0ep", 0.0, worse, 10, 0), 3);
    assert_int_equal(stops_at("9ep", 0.0, worse, 10, 0), 0);
    assert_int_equal(stops_at("3ba", 0.0, worse, 10, 0), 4); /* two batches an epoch */
    assert_int_equal(stops_at("3ep", 0.0, worse, 10, 5), 6);
}

static void test_min_delta(void **unused)
{
    (void)unused;
    const double slow[] = {5.0, 4.9, 4.8, 4.7, 4.6, 4.5};
    assert_int_equal(stops_at("1ep", 0.0, slow, 6, 0), 0);
    assert_int_equal(stops_at("1ep", 0.15, slow, 6, 0), 0); /* 4.8 is better than 5.0 by enough */
    assert_int_equal(stops_at("1ep", 0.25, slow, 6, 0), 3);
    const double nans[] = {(double)NAN, 5.0, 4.0, 3.0};
    assert_int_equal(stops_at("1ep", 0.0, nans, 4, 0), 0);
}

static vv_status run(const char *monitor, const char *patience, int64_t *epochs)
{
    vv_early_stopper_opts opts = VV_EARLY_STOPPER_DEFAULTS;
    opts.monitor = monitor;
    opts.min_delta = 1e9; /* nothing is ever an improvement */
    assert_ok(vv_time_parse(&opts.patience, patience, VV_UNIT_NONE));
    vv_callback *callbacks[2] = {NULL, NULL};
    assert_ok(vv_callback_new(&callbacks[0], &vv_callback_early_stopper, &opts));
    tt_data train, eval;
    tt_data_init(&train, 10, 2, true);
    tt_data_init(&eval, 4, 2, false);
    vv_trainer_opts trainer_opts = VV_TRAINER_DEFAULTS;
    trainer_opts.model = tt_mlp(0.0);
    trainer_opts.train = train.loader;
    trainer_opts.eval = eval.loader;
    trainer_opts.max_duration = "9ep";
    trainer_opts.callbacks = callbacks;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &trainer_opts));
    vv_status status = vv_trainer_fit(trainer);
    *epochs = vv_trainer_state(trainer)->time.epoch;
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_data_fini(&eval);
    return status;
}

static void test_in_a_run(void **unused)
{
    (void)unused;
    int64_t epochs;
    assert_ok(run("accuracy", "2ep", &epochs));
    assert_int_equal(epochs, 4); /* best at epoch 1 */
    assert_int_equal(run("acuracy", "2ep", &epochs), VV_ENOTFOUND);
    assert_int_equal(epochs, 0);
    assert_int_equal(run("accuracy", "2sp", &epochs), VV_EINVAL);
}

/* ---- a run that is killed and resumed stops where an uninterrupted one does ---- */

static vv_status kill_at(void *ctx, vv_event event, vv_state *state)
{
    const int64_t *batch = ctx;
    return event == VV_EVENT_BATCH_START && *batch && state->time.batch == *batch
               ? vv_fail(VV_EIO, "killed")
               : VV_OK;
}

static vv_status run_in(const char *folder, int64_t kill, int64_t *epochs)
{
    vv_early_stopper_opts opts = VV_EARLY_STOPPER_DEFAULTS;
    opts.min_delta = 1e9;
    assert_ok(vv_time_parse(&opts.patience, "3ep", VV_UNIT_NONE));
    vv_callback *callbacks[3] = {NULL};
    assert_ok(vv_callback_new(&callbacks[0], &vv_callback_early_stopper, &opts));
    callbacks[1] = tt_listen_with(kill_at, &kill);
    tt_data train, eval;
    tt_data_init(&train, 10, 2, true);
    tt_data_init(&eval, 4, 2, false);
    vv_trainer_opts trainer_opts = VV_TRAINER_DEFAULTS;
    trainer_opts.model = tt_mlp(0.0);
    trainer_opts.train = train.loader;
    trainer_opts.eval = eval.loader;
    trainer_opts.max_duration = "9ep";
    trainer_opts.callbacks = callbacks;
    trainer_opts.run_dir = folder;
    trainer_opts.save_interval = "1ep";
    trainer_opts.resume = true;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &trainer_opts));
    vv_status status = vv_trainer_fit(trainer);
    *epochs = vv_trainer_state(trainer)->time.epoch;
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_data_fini(&eval);
    return status;
}

static void test_resumed(void **unused)
{
    (void)unused;
    char folder[256];
    int64_t epochs;
    tt_folder(folder, sizeof folder);
    assert_int_equal(run_in(folder, 8, &epochs), VV_EIO);
    assert_int_equal(run_in(folder, 18, &epochs), VV_EIO);
    assert_ok(run_in(folder, 0, &epochs));
    assert_int_equal(epochs, 5); /* best at epoch 1, more than 3 epochs later */
    assert_ok(run_in(folder, 0, &epochs)); /* and stays stopped */
    assert_int_equal(epochs, 5);
    tt_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_min_delta),
        cmocka_unit_test(test_in_a_run),
        cmocka_unit_test(test_resumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
