/* test_train_events.c - what the loop promises about events: their order within a batch, an epoch
 * and an evaluation; their counts for E epochs of B batches in M microbatches (spec: trainer.md 1);
 * the clock at each; LOAD events without a checkpoint; and stopping from a callback. */
#include "train_test.h"

typedef struct trace {
    int counts[VV_EVENT_COUNT];
    char text[4096]; /* names, one a line */
    int64_t batch_at_start, batch_at_end; /* the clock at BATCH_START and BATCH_END of batch 4 */
    int64_t epoch_at_end;                 /* the clock at the first EPOCH_END */
    int64_t stop_at;                      /* sets state.stop at the end of this batch; 0 = never */
    double progress_half;
} trace;

static vv_status note(void *ctx, vv_event event, vv_state *state)
{
    trace *t = ctx;
    t->counts[event]++;
    size_t length = strlen(t->text);
    snprintf(t->text + length, sizeof t->text - length, "%s\n", vv_event_name(event));
    if (event == VV_EVENT_BATCH_START && t->counts[event] == 4)
        t->batch_at_start = state->time.batch;
    if (event == VV_EVENT_BATCH_END && t->counts[event] == 4)
        t->batch_at_end = state->time.batch;
    if (event == VV_EVENT_BATCH_END && t->counts[event] == 5)
        t->progress_half = state->progress;
    if (event == VV_EVENT_EPOCH_END && t->counts[event] == 1)
        t->epoch_at_end = state->time.epoch;
    if (event == VV_EVENT_BATCH_END && t->stop_at && state->time.batch == t->stop_at)
        state->stop = true;
    return VV_OK;
}

/* 10 samples in batches of 2, trained for `duration` in microbatches of 1, with evaluation on 4. */
static void run(trace *t, const char *duration, bool with_eval)
{
    tt_data train, eval;
    tt_data_init(&train, 10, 2, true);
    tt_data_init(&eval, 4, 3, false);
    vv_callback *callbacks[] = {tt_listen_with(note, t), NULL};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = train.loader;
    opts.eval = with_eval ? eval.loader : NULL;
    opts.max_duration = duration;
    opts.microbatch = 1;
    opts.callbacks = callbacks;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    tt_data_fini(&eval);
}

static void test_counts(void **unused)
{
    (void)unused;
    trace t = {0};
    run(&t, "2ep", true);
    const int epochs = 2, batches = 5, micro = 2, evals = 2, eval_batches = 2;
    const struct {
        vv_event event;
        int count;
    } expected[] = {
        {VV_EVENT_INIT, 1},
        {VV_EVENT_BEFORE_LOAD, 1},
        {VV_EVENT_AFTER_LOAD, 1},
        {VV_EVENT_FIT_START, 1},
        {VV_EVENT_ITERATION_START, 1},
        {VV_EVENT_EPOCH_START, epochs},
        {VV_EVENT_BEFORE_DATALOADER, epochs * (batches + 1)},
        {VV_EVENT_AFTER_DATALOADER, epochs * batches},
        {VV_EVENT_BATCH_START, epochs * batches},
        {VV_EVENT_BEFORE_TRAIN_BATCH, epochs * batches},
        {VV_EVENT_BEFORE_FORWARD, epochs * batches * micro},
        {VV_EVENT_AFTER_FORWARD, epochs * batches * micro},
        {VV_EVENT_BEFORE_LOSS, epochs * batches * micro},
        {VV_EVENT_AFTER_LOSS, epochs * batches * micro},
        {VV_EVENT_BEFORE_BACKWARD, epochs * batches * micro},
        {VV_EVENT_AFTER_BACKWARD, epochs * batches * micro},
        {VV_EVENT_AFTER_TRAIN_BATCH, epochs * batches},
        {VV_EVENT_BATCH_END, epochs * batches},
        {VV_EVENT_BATCH_CHECKPOINT, epochs * batches},
        {VV_EVENT_EPOCH_END, epochs},
        {VV_EVENT_EPOCH_CHECKPOINT, epochs},
        {VV_EVENT_FIT_END, 1},
        {VV_EVENT_EVAL_BEFORE_ALL, evals},
        {VV_EVENT_EVAL_START, evals},
        {VV_EVENT_EVAL_BATCH_START, evals * eval_batches},
        {VV_EVENT_EVAL_BEFORE_FORWARD, evals * eval_batches},
        {VV_EVENT_EVAL_AFTER_FORWARD, evals * eval_batches},
        {VV_EVENT_EVAL_BATCH_END, evals * eval_batches},
        {VV_EVENT_EVAL_END, evals},
        {VV_EVENT_EVAL_AFTER_ALL, evals},
        {VV_EVENT_EVAL_STANDALONE_START, 0},
        {VV_EVENT_PREDICT_START, 0},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (t.counts[expected[i].event] != expected[i].count)
            fail_msg("%s fired %d times, expected %d", vv_event_name(expected[i].event),
                     t.counts[expected[i].event], expected[i].count);
    assert_int_equal(t.batch_at_start, 3);
    assert_int_equal(t.batch_at_end, 4);
    assert_int_equal(t.epoch_at_end, 1);
    assert_near(t.progress_half, 0.5, 0.0, 0.0);
}

static void test_order(void **unused)
{
    (void)unused;
    trace t = {0};
    run(&t, "1ba", true);
    assert_string_equal(
        t.text, "init\nbefore_load\nafter_load\nfit_start\niteration_start\nepoch_start\n"
                "before_dataloader\nafter_dataloader\nbatch_start\nbefore_train_batch\n"
                "before_forward\nafter_forward\nbefore_loss\nafter_loss\n"
                "before_backward\nafter_backward\n"
                "before_forward\nafter_forward\nbefore_loss\nafter_loss\n"
                "before_backward\nafter_backward\n"
                "after_train_batch\nbatch_end\nbatch_checkpoint\nfit_end\n"
                "eval_before_all\neval_start\n"
                "eval_batch_start\neval_before_forward\neval_after_forward\neval_batch_end\n"
                "eval_batch_start\neval_before_forward\neval_after_forward\neval_batch_end\n"
                "eval_end\neval_after_all\n");
}

/* In batches or samples, ending with an epoch's last batch still ends the epoch. */
static void test_epoch_end_at_last_batch(void **unused)
{
    (void)unused;
    trace whole = {0}, part = {0}, samples = {0};
    run(&whole, "5ba", false);
    run(&part, "7ba", false);
    run(&samples, "20sp", false);
    assert_int_equal(whole.counts[VV_EVENT_EPOCH_END], 1);
    assert_int_equal(whole.counts[VV_EVENT_BEFORE_DATALOADER], 5);
    assert_int_equal(part.counts[VV_EVENT_EPOCH_END], 1);
    assert_int_equal(part.counts[VV_EVENT_BATCH_END], 7);
    assert_int_equal(samples.counts[VV_EVENT_EPOCH_END], 2);
    assert_int_equal(samples.counts[VV_EVENT_BATCH_END], 10);
}

static void test_stop(void **unused)
{
    (void)unused;
    trace middle = {.stop_at = 3}, end = {.stop_at = 5};
    run(&middle, "4ep", true);
    assert_int_equal(middle.counts[VV_EVENT_BATCH_END], 3);
    assert_int_equal(middle.counts[VV_EVENT_EPOCH_END], 0);
    assert_int_equal(middle.counts[VV_EVENT_FIT_END], 1);
    assert_int_equal(middle.counts[VV_EVENT_EVAL_END], 1);
    run(&end, "4ep", true);
    assert_int_equal(end.counts[VV_EVENT_BATCH_END], 5);
    assert_int_equal(end.counts[VV_EVENT_EPOCH_END], 1);
    assert_int_equal(end.counts[VV_EVENT_EVAL_END], 1);
}

static vv_status refuse(void *ctx, vv_event event, vv_state *state)
{
    (void)ctx;
    (void)state;
    return event == VV_EVENT_AFTER_LOSS ? vv_fail(VV_ENUMERIC, "too bad") : VV_OK;
}

/* A failure names who and when, and leaves a trainer that can be freed. */
static void test_failure(void **unused)
{
    (void)unused;
    tt_data train;
    tt_data_init(&train, 10, 2, true);
    vv_callback *callbacks[] = {tt_listen_with(refuse, NULL), NULL};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = train.loader;
    opts.callbacks = callbacks;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_fails(vv_trainer_fit(trainer), VV_ENUMERIC);
    assert_string_equal(vv_error(), "callback listener at after_loss: too bad");
    vv_trainer_free(trainer);
    tt_data_fini(&train);
}

static void test_names(void **unused)
{
    (void)unused;
    assert_int_equal(VV_EVENT_COUNT, 40);
    assert_string_equal(vv_event_name(VV_EVENT_INIT), "init");
    assert_string_equal(vv_event_name(VV_EVENT_PREDICT_END), "predict_end");
    assert_string_equal(vv_event_name(VV_EVENT_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_epoch_end_at_last_batch),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
