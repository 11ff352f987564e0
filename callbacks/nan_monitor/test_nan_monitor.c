/* test_nan_monitor.c - a run whose loss or gradients are no longer numbers ends with a sentence
 * that names the batch and the first bad tensor, and with the weights it had before that batch;
 * skip leaves the step out and goes on; roll_back goes on with the checkpoint's weights; each gives
 * up after `tolerance`; every Trainer has it unless it is waived; a killed run does the same
 * again. */
#include "callbacks/callback_test.h"

#include <vivace/nan_monitor.h>

typedef struct spoiler {
    double value; /* put somewhere in batches [first, last] */
    int64_t first, last;
    enum { INPUT, ACTIVATION, GRADIENT, WEIGHT, LAYER } where;
    bool finite; /* the weights when last seen */
    double norm; /* of the first weight, likewise */
    double norm_before[16], norm_after[16];
} spoiler;

static vv_tensor *first_weight(vv_state *state)
{
    return vv_module_param(vv_module_find(state->model->net, "0"), "weight")->value;
}

static vv_status spoil(void *ctx, vv_event event, vv_state *state)
{
    spoiler *s = ctx;
    int64_t batch = state->time.batch;
    bool now = batch >= s->first && batch <= s->last;
    vv_module *net = state->model->net;
    if (event == VV_EVENT_BATCH_START && now && s->where == INPUT)
        vv_tensor_set(state->batch->input, TT_FEATURES + 2, s->value);
    if (event == VV_EVENT_BATCH_START && now && s->where == WEIGHT)
        vv_tensor_set(vv_module_param(vv_module_find(net, "3"), "bias")->value, 0, s->value);
    if (event == VV_EVENT_BATCH_START && now && s->where == LAYER)
        vv_tensor_fill(first_weight(state), s->value);
    if (event == VV_EVENT_AFTER_BACKWARD && now && s->where == GRADIENT)
        vv_tensor_set(vv_module_param(vv_module_find(net, "3"), "bias")->grad, 1, s->value);
    if (event == VV_EVENT_AFTER_FORWARD && now && s->where == ACTIVATION)
        state->output = vv_affine(state->output, s->value, 0.0);
    if (event != VV_EVENT_BATCH_START && event != VV_EVENT_BATCH_END)
        return VV_OK;
    const vv_tensor *w = first_weight(state);
    s->finite = true;
    s->norm = 0.0;
    for (int64_t i = 0; i < w->count; i++) {
        s->finite = s->finite && isfinite(vv_tensor_get(w, i));
        s->norm += fabs(vv_tensor_get(w, i));
    }
    if (event == VV_EVENT_BATCH_START && batch < 16)
        s->norm_before[batch] = s->norm;
    if (event == VV_EVENT_BATCH_END && batch <= 16)
        s->norm_after[batch - 1] = s->norm;
    return VV_OK;
}

static vv_status run(spoiler *s, const vv_nan_monitor_opts *opts, vv_timestamp *end)
{
    vv_callback *callback = NULL;
    if (opts)
        assert_ok(vv_callback_new(&callback, &vv_callback_nan_monitor, opts));
    else
        callback = tt_listen_with(NULL, NULL);
    return callback_run(callback, "2ep", spoil, s, NULL, end);
}

static void test_stop(void **unused)
{
    (void)unused;
    vv_nan_monitor_opts opts = VV_NAN_MONITOR_DEFAULTS;
    vv_timestamp end;
    spoiler s = {.value = (double)NAN, .first = 2, .last = 2, .where = INPUT};
    assert_int_equal(run(&s, &opts, &end), VV_ENUMERIC);
    assert_says("the loss of batch 2 (epoch 0) is");
    assert_says("the input, in row 1 of the batch (sample ");
    assert_true(s.finite);
    assert_int_equal(end.batch, 2);

    s.where = WEIGHT;
    assert_int_equal(run(&s, &opts, &end), VV_ENUMERIC);
    assert_says("the parameter 3.bias");
    s.where = GRADIENT;
    assert_int_equal(run(&s, &opts, &end), VV_ENUMERIC);
    assert_says("the gradient's norm of batch 2");
    assert_says("the gradient of 3.bias");
    s.where = ACTIVATION; /* behind every module */
    assert_int_equal(run(&s, &opts, &end), VV_ENUMERIC);
    assert_says("the gradient of 3.bias");

    /* Finite weights whose sums overflow. */
    s = (spoiler){.value = 3e38, .first = 1, .last = 1, .where = LAYER};
    assert_int_equal(run(&s, &opts, &end), VV_ENUMERIC);
    assert_says("the output of 0 (Linear)");

    s = (spoiler){.value = 0.5, .first = 2, .last = 2, .where = INPUT};
    assert_ok(run(&s, &opts, &end));
    assert_true(s.finite);
}

/* It is there without being asked for, and can be waived. */
static void test_default(void **unused)
{
    (void)unused;
    vv_timestamp end;
    spoiler s = {.value = (double)NAN, .first = 2, .last = 2, .where = INPUT};
    assert_int_equal(run(&s, NULL, &end), VV_ENUMERIC);
    assert_says("callback nan_monitor");
    for (int waive = 0; waive < 2; waive++) {
        tt_data train;
        tt_data_init(&train, 10, 2, true);
        vv_callback *callbacks[] = {tt_listen_with(spoil, &s), NULL};
        vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
        opts.model = tt_mlp(0.0);
        opts.train = train.loader;
        opts.callbacks = callbacks;
        opts.no_default_callbacks = waive;
        vv_trainer *trainer;
        assert_ok(vv_trainer_new(&trainer, &opts));
        assert_int_equal(vv_trainer_fit(trainer), waive ? VV_OK : VV_ENUMERIC);
        assert_int_equal(s.finite, !waive);
        vv_trainer_free(trainer);
        tt_data_fini(&train);
    }
}

static void test_settings(void **unused)
{
    (void)unused;
    vv_timestamp end;
    vv_nan_monitor_opts opts = VV_NAN_MONITOR_DEFAULTS;
    opts.gradients = false;
    spoiler s = {.value = (double)NAN, .first = 2, .last = 2, .where = GRADIENT};
    assert_int_equal(run(&s, &opts, &end), VV_ENUMERIC); /* a batch later, in the weights */
    assert_says("the loss of batch 3");
    assert_says("the parameter ");
    opts = (vv_nan_monitor_opts)VV_NAN_MONITOR_DEFAULTS;
    opts.infinity = false;
    s = (spoiler){.value = HUGE_VAL, .first = 9, .last = 9, .where = GRADIENT};
    assert_ok(run(&s, &opts, &end)); /* the last batch: nobody sees what it did */
    assert_false(isnan(s.norm) && s.finite);
}

static void test_skip(void **unused)
{
    (void)unused;
    vv_timestamp end;
    vv_nan_monitor_opts opts = VV_NAN_MONITOR_DEFAULTS;
    opts.action = VV_NAN_SKIP;
    spoiler s = {.value = (double)NAN, .first = 2, .last = 4, .where = INPUT};
    assert_ok(run(&s, &opts, &end));
    assert_int_equal(end.batch, 10);
    for (int i = 0; i < 10; i++) {
        bool moved = s.norm_before[i] != s.norm_after[i];
        assert_int_equal(moved, i < 2 || i > 4);
    }
    s.last = 5; /* one more than is tolerated */
    assert_int_equal(run(&s, &opts, &end), VV_ENUMERIC);
    assert_int_equal(end.batch, 5);
    assert_says("skipped steps");
    s = (spoiler){.value = (double)NAN, .first = 2, .last = 2, .where = WEIGHT};
    assert_int_equal(run(&s, &opts, &end), VV_ENUMERIC); /* skipping does not help */
    assert_says("the parameter 3.bias");
}

/* A skipped batch leaves no trace in running statistics. */
static void test_skip_buffers(void **unused)
{
    (void)unused;
    vv_nan_monitor_opts opts = VV_NAN_MONITOR_DEFAULTS;
    opts.action = VV_NAN_SKIP;
    vv_callback *callbacks[3] = {NULL};
    spoiler s = {.value = (double)NAN, .first = 1, .last = 1, .where = INPUT};
    assert_ok(vv_callback_new(&callbacks[0], &vv_callback_nan_monitor, &opts));
    callbacks[1] = tt_listen_with(spoil, &s);
    tt_data train;
    tt_data_init(&train, 10, 2, true);
    vv_module *net, *layer;
    vv_trainer_opts trainer_opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_linear_new(&layer, TT_FEATURES, TT_CLASSES, true);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_batch_norm_new(&layer, TT_CLASSES, 1e-5, 0.1);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_classifier_build(&trainer_opts.model, net, TT_CLASSES, 5));
    trainer_opts.train = train.loader;
    trainer_opts.callbacks = callbacks;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &trainer_opts));
    assert_ok(vv_trainer_fit(trainer));
    tt_weights w = tt_weights_of(trainer);
    for (size_t i = 0; i < w.count; i++)
        assert_true(isfinite((double)w.values[i]));
    free(w.values);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
}

/* ---- roll_back ---- */

typedef struct stopper {
    spoiler *spoiler;
    int64_t kill_at; /* the run ends there as a killed one would; 0 = never */
} stopper;

static vv_status spoil_and_kill(void *ctx, vv_event event, vv_state *state)
{
    const stopper *s = ctx;
    if (s->kill_at && event == VV_EVENT_BATCH_START && state->time.batch == s->kill_at)
        return vv_fail(VV_EIO, "killed");
    return spoil(s->spoiler, event, state);
}

/* Saves after batches 4 and 8; batch 6 is bad. */
static vv_status run_in(const char *folder, int64_t kill_at, const char *save, spoiler *s,
                        tt_weights *weights)
{
    vv_nan_monitor_opts opts = VV_NAN_MONITOR_DEFAULTS;
    opts.action = VV_NAN_ROLL_BACK;
    opts.tolerance = 1;
    stopper stop = {s, kill_at};
    vv_callback *callbacks[3] = {NULL};
    assert_ok(vv_callback_new(&callbacks[0], &vv_callback_nan_monitor, &opts));
    callbacks[1] = tt_listen_with(spoil_and_kill, &stop);
    tt_data train;
    tt_data_init(&train, 10, 2, true);
    vv_trainer_opts trainer_opts = VV_TRAINER_DEFAULTS;
    trainer_opts.model = tt_mlp(0.2);
    trainer_opts.train = train.loader;
    trainer_opts.max_duration = "2ep";
    trainer_opts.callbacks = callbacks;
    trainer_opts.run_dir = folder;
    trainer_opts.save_interval = save;
    trainer_opts.resume = true;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &trainer_opts));
    vv_status status = vv_trainer_fit(trainer);
    if (weights)
        *weights = tt_weights_of(trainer);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    return status;
}

static void test_roll_back(void **unused)
{
    (void)unused;
    char a[256], b[256];
    tt_folder(a, sizeof a);
    tt_folder(b, sizeof b);
    tt_weights whole, pieces;
    spoiler s = {.value = (double)NAN, .first = 6, .last = 6, .where = INPUT};
    assert_ok(run_in(a, 0, "4ba", &s, &whole));
    /* Batch 6 ended with the weights of the checkpoint after batch 4, and 7 went on from there. */
    assert_true(s.norm_after[6] == s.norm_after[3]);
    assert_true(s.norm_before[6] != s.norm_after[6]);
    assert_true(s.norm_before[7] == s.norm_after[6] && s.norm_after[7] != s.norm_before[7]);

    assert_int_equal(run_in(b, 6, "4ba", &s, NULL), VV_EIO);
    assert_int_equal(run_in(b, 7, "4ba", &s, NULL), VV_EIO); /* rolled back, nothing saved yet */
    assert_int_equal(run_in(b, 9, "4ba", &s, NULL), VV_EIO);
    assert_ok(run_in(b, 0, "4ba", &s, &pieces));
    assert_same_bits(&whole, &pieces);
    free(whole.values);
    free(pieces.values);
    tt_remove(a);
    tt_remove(b);
}

static void test_roll_back_fails(void **unused)
{
    (void)unused;
    char folder[256];
    tt_folder(folder, sizeof folder);
    spoiler s = {.value = (double)NAN, .first = 6, .last = 7, .where = INPUT};
    assert_int_equal(run_in(folder, 0, "4ba", &s, NULL), VV_ENUMERIC);
    assert_says("roll-backs");
    tt_remove(folder);
    tt_folder(folder, sizeof folder);
    assert_int_equal(run_in(folder, 0, "8ba", &s, NULL), VV_ENOTFOUND);
    assert_says("no checkpoint to go back to");
    tt_remove(folder);
    vv_timestamp end;
    vv_nan_monitor_opts opts = VV_NAN_MONITOR_DEFAULTS;
    opts.action = VV_NAN_ROLL_BACK;
    assert_int_equal(run(&s, &opts, &end), VV_ENOTFOUND);
    assert_says("the run has no folder");
}

/* Running out of memory at any allocation of a step that is skipped leaks nothing. */
static void test_no_memory(void **unused)
{
    (void)unused;
    vv_nan_monitor_opts opts = VV_NAN_MONITOR_DEFAULTS;
    opts.action = VV_NAN_SKIP;
    spoiler s = {.value = (double)NAN, .first = 1, .last = 1, .where = INPUT};
    vv_callback *callbacks[3] = {NULL};
    assert_ok(vv_callback_new(&callbacks[0], &vv_callback_nan_monitor, &opts));
    callbacks[1] = tt_listen_with(spoil, &s);
    tt_data train;
    tt_data_init(&train, 4, 2, true);
    vv_trainer_opts trainer_opts = VV_TRAINER_DEFAULTS;
    trainer_opts.model = tt_mlp(0.0);
    trainer_opts.train = train.loader;
    trainer_opts.callbacks = callbacks;
    trainer_opts.max_duration = "500ep";
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &trainer_opts));
    vv_state *state = vv_trainer_state(trainer);
    vv_status status = VV_ENOMEM;
    for (uint64_t nth = 1; nth < 400 && status != VV_OK; nth++) {
        s.first = s.last = state->time.batch;
        state->max_duration = vv_time_of(state->time.batch + 2, VV_UNIT_BATCH);
        vv_memory_fail_at(nth);
        status = vv_trainer_fit(trainer);
        vv_memory_fail_at(0);
        assert_true(status == VV_OK || status == VV_ENOMEM);
    }
    assert_ok(status);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_default),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_skip_buffers),
        cmocka_unit_test(test_roll_back),
        cmocka_unit_test(test_roll_back_fails),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
