/* test_train_clock.c - durations in every unit end where they must; iterations are told of where
 * they begin and end; a budget of time or money puts rates and progress on the clock, which a test
 * turns by hand; and all of it goes on after a resume as if nothing had happened. */
#include "train_test.h"

#define TOKENS 8

/* 10 samples of 8 tokens in batches of 2 (5 batches an epoch), or `count` of them. */
static void data_with_tokens(tt_data *data, int64_t count, int64_t tokens)
{
    tt_data_init(data, count, 2, false);
    data->set->spec.tokens = tokens;
}

typedef struct world {
    tt_data train, eval;
    char folder[256];
    /* what happened */
    char events[4096];
    double lr[64], position[64], progress[64];
    int batches, evals, eval_batches;
    int interrupt_eval; /* at this batch of evaluation, counted over the run */
    double tick; /* what a batch takes on the test's clock; 0 = the real one */
    int interrupt_at;
} world;

static void note(world *w, const char *text)
{
    size_t used = strlen(w->events);
    snprintf(w->events + used, sizeof w->events - used, "%s ", text);
}

static vv_status listen(void *ctx, vv_event event, vv_state *s)
{
    world *w = ctx;
    char text[32];
    switch (event) {
    case VV_EVENT_ITERATION_START:
        note(w, "(");
        break;
    case VV_EVENT_EPOCH_START:
        note(w, "[");
        break;
    case VV_EVENT_BATCH_START:
        if (w->batches < 64) {
            w->lr[w->batches] = vv_optimizer_lr(s->optimizer, 0);
            w->position[w->batches] = vv_timestamp_position(&s->time, &s->axis);
            w->progress[w->batches] = s->progress;
        }
        w->batches++;
        break;
    case VV_EVENT_BATCH_END:
        snprintf(text, sizeof text, "%lld", (long long)s->time.batch);
        note(w, text);
        if (w->tick > 0.0)
            s->time.total_seconds = (double)s->time.batch * w->tick;
        if (s->time.batch == w->interrupt_at)
            vv_trainer_interrupt(s->trainer);
        break;
    case VV_EVENT_EVAL_BATCH_END:
        if (++w->eval_batches == w->interrupt_eval)
            vv_trainer_interrupt(s->trainer);
        break;
    case VV_EVENT_EPOCH_END:
        note(w, "]");
        break;
    case VV_EVENT_ITERATION_END:
        note(w, ")");
        break;
    case VV_EVENT_EVAL_START:
        w->evals++;
        note(w, "e");
        break;
    default:
        break;
    }
    return VV_OK;
}

static void world_init(world *w, int64_t samples, int64_t tokens)
{
    *w = (world){0};
    tt_folder(w->folder, sizeof w->folder);
    data_with_tokens(&w->train, samples, tokens);
    tt_data_init(&w->eval, 2, 2, false);
}

static void world_fini(world *w)
{
    tt_data_fini(&w->train);
    tt_data_fini(&w->eval);
    tt_remove(w->folder);
}

static vv_trainer_opts options(world *w, const char *duration)
{
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.train = w->train.loader;
    opts.max_duration = duration;
    opts.eval_interval = "";
    return opts;
}

static vv_status run(world *w, vv_trainer_opts opts, vv_timestamp *end)
{
    vv_callback *callbacks[] = {tt_listen_with(listen, w), NULL};
    vv_schedule *schedules[] = {NULL, NULL};
    if (opts.schedules == NULL) {
        assert_ok(vv_schedule_new(&schedules[0], vv_schedule_find("linear_decay"), NULL));
        opts.schedules = schedules;
    }
    opts.model = tt_mlp(0.0);
    opts.callbacks = callbacks;
    vv_trainer *trainer;
    vv_status status = vv_trainer_new(&trainer, &opts);
    if (status == VV_OK)
        status = vv_trainer_fit(trainer);
    if (end && trainer)
        *end = vv_trainer_state(trainer)->time;
    vv_trainer_free(trainer);
    return status;
}

static void ends_after(const char *duration, const char *iteration, int64_t batches)
{
    world w;
    world_init(&w, 10, TOKENS);
    vv_trainer_opts opts = options(&w, duration);
    opts.iteration_length = iteration;
    vv_timestamp end;
    assert_ok(run(&w, opts, &end));
    if (end.batch != batches)
        fail_msg("%s ended after %lld batches, expected %lld", duration, (long long)end.batch,
                 (long long)batches);
    assert_int_equal(end.token, end.sample * TOKENS);
    /* the axis was right: the last batch's progress is one batch before the end */
    assert_near(w.progress[batches - 1], (double)(batches - 1) / (double)batches, 1e-12, 0);
    world_fini(&w);
}

/* Every unit is the same run: 2 epochs = 10 batches = 20 samples = 160 tokens. What ends within a
   batch or an epoch is rounded up to the batch. */
static void test_durations(void **unused)
{
    (void)unused;
    ends_after("2ep", NULL, 10);
    ends_after("10ba", NULL, 10);
    ends_after("20sp", NULL, 10);
    ends_after("160tok", NULL, 10);
    ends_after("2iter", "1ep", 10);
    ends_after("5iter", "2ba", 10);
    ends_after("5iter", "32tok", 10);
    ends_after("13sp", NULL, 7);
    ends_after("97tok", NULL, 7);
    ends_after("3iter", "3ba", 9);
}

/* An epoch whose last batch is smaller: 5 samples in batches of 2 are 3 batches. */
static void test_short_batch(void **unused)
{
    (void)unused;
    world w;
    world_init(&w, 5, TOKENS);
    vv_timestamp end;
    assert_ok(run(&w, options(&w, "72tok"), &end)); /* 5 + 4 samples */
    assert_int_equal(end.batch, 5);
    assert_int_equal(end.token, 72);
    assert_near(w.progress[4], 0.8, 1e-12, 0);
    world_fini(&w);
}

static void tells(const char *iteration, const char *duration, const char *expected)
{
    world w;
    world_init(&w, 10, TOKENS);
    vv_trainer_opts opts = options(&w, duration);
    opts.iteration_length = iteration;
    vv_timestamp end;
    assert_ok(run(&w, opts, &end));
    if (strcmp(w.events, expected) != 0)
        fail_msg("iterations of %s over %s: %s\nexpected %s", iteration ? iteration : "none",
                 duration, w.events, expected);
    world_fini(&w);
}

/* ( ) iterations, [ ] epochs, numbers batches. The order of trainer.md section 1; an iteration that
   ends within an epoch leaves the epoch's data and events as they are. */
static void test_iteration_events(void **unused)
{
    (void)unused;
    tells(NULL, "2ep", "( [ 1 2 3 4 5 ] [ 6 7 8 9 10 ] ");
    tells("1ep", "2ep", "( [ 1 2 3 4 5 ] ) ( [ 6 7 8 9 10 ] ) ");
    tells("2ep", "3ep", "( [ 1 2 3 4 5 ] [ 6 7 8 9 10 ] ) ( [ 11 12 13 14 15 ] ");
    tells("3ba", "8ba", "( [ 1 2 3 ) ( 4 5 ] [ 6 ) ( 7 8 ");
    tells("5ba", "10ba", "( [ 1 2 3 4 5 ] ) ( [ 6 7 8 9 10 ] ) ");
    tells("40tok", "6ba", "( [ 1 2 3 ) ( 4 5 ] [ 6 ) ");
}

/* "2iter" with iterations of 2ep over 8ep: 2 evaluations (trainer.md 3.5), and 2 saves. */
static void test_iteration_intervals(void **unused)
{
    (void)unused;
    world w;
    world_init(&w, 10, 0);
    vv_trainer_opts opts = options(&w, "8ep");
    opts.iteration_length = "2ep";
    opts.eval = w.eval.loader;
    opts.eval_interval = "2iter";
    opts.save_interval = "2iter";
    opts.run_dir = w.folder;
    opts.model = tt_mlp(0.0);
    vv_callback *callbacks[] = {tt_listen_with(listen, &w), NULL};
    opts.callbacks = callbacks;
    vv_trainer *trainer;
    vv_str plan = {0};
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_plan(trainer, &plan));
    assert_non_null(strstr(vv_str_text(&plan), "every 2iter: 2 times, first after batch 20, last "
                                               "after 40"));
    assert_ok(vv_trainer_fit(trainer));
    assert_int_equal(w.evals, 2);
    vv_trainer_free(trainer);
    char path[400];
    snprintf(path, sizeof path, "%s/checkpoints/ep0004-ba00000020.safetensors", w.folder);
    assert_int_equal(access(path, F_OK), 0);
    vv_str_fini(&plan);
    world_fini(&w);
}

/* The events of a run that is stopped after any batch and resumed are those of one that is not. */
static void test_iteration_resume(void **unused)
{
    (void)unused;
    static const char *const lengths[] = {"3ba", "1ep", "40tok", "5ba"};
    for (int l = 0; l < 4; l++) {
        world whole;
        world_init(&whole, 10, TOKENS);
        vv_trainer_opts opts = options(&whole, "12ba");
        opts.iteration_length = lengths[l];
        assert_ok(run(&whole, opts, NULL));
        for (int at = 1; at < 12; at++) {
            world w;
            world_init(&w, 10, TOKENS);
            opts = options(&w, "12ba");
            opts.iteration_length = lengths[l];
            opts.run_dir = w.folder;
            opts.resume = true;
            w.interrupt_at = at;
            assert_fails(run(&w, opts, NULL), VV_EINTERRUPTED);
            w.interrupt_at = 0;
            assert_ok(run(&w, opts, NULL));
            if (strcmp(w.events, whole.events) != 0)
                fail_msg("iterations of %s, stopped after %d: %s\nexpected %s", lengths[l], at,
                         w.events, whole.events);
            world_fini(&w);
        }
        world_fini(&whole);
    }
}

/* A batch takes a quarter of a second: 2 seconds are 8 batches, rates and progress follow the time,
   and a resumed run has spent what it had spent. 2 USD at 3600 an hour are the same 2 seconds. */
static void test_budget(void **unused)
{
    (void)unused;
    static const char *const durations[] = {"2sec", "2usd", "0m2s"};
    for (int d = 0; d < 3; d++)
        for (int at = 0; at < 8; at += 3) {
            world w;
            world_init(&w, 10, 0);
            vv_trainer_opts opts = options(&w, durations[d]);
            opts.usd_per_hour = 3600.0;
            opts.eval = w.eval.loader;
            opts.eval_interval = "0.5dur";
            opts.run_dir = w.folder;
            opts.resume = true;
            w.tick = 0.25;
            w.interrupt_at = at;
            if (at)
                assert_fails(run(&w, opts, NULL), VV_EINTERRUPTED);
            w.interrupt_at = 0;
            vv_timestamp end;
            assert_ok(run(&w, opts, &end));
            assert_int_equal(end.batch, 8);
            assert_int_equal(w.batches, 8);
            assert_int_equal(w.evals, 2);
            for (int b = 0; b < 8; b++) {
                assert_near(w.position[b], b * 0.25, 1e-12, 0);
                assert_near(w.lr[b], 0.1 * (1.0 - b / 8.0), 1e-7, 0);
            }
            world_fini(&w);
        }
}

/* Lines of the log without their times: what happened, in order. */
static void read_log(const world *w, char *out, size_t bytes)
{
    char path[400], line[4096];
    snprintf(path, sizeof path, "%s/log.jsonl", w->folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    out[0] = '\0';
    while (fgets(line, sizeof line, file)) {
        char *times = strstr(line, ",\"seconds\":");
        if (times)
            *times = '\0';
        size_t used = strlen(out);
        snprintf(out + used, bytes - used, "%s\n", line);
    }
    fclose(file);
}

/* Whoever stops the run while it evaluates does not wait: the evaluation is put off, a checkpoint
   written, and the evaluation made up for when the run goes on. The log is that of a run that was
   not stopped, at whichever evaluation and event it was. */
static void test_evaluation_put_off(void **unused)
{
    (void)unused;
    static const char *const every[] = {"3ba", "1ep", "2iter"};
    static char expected[65536], got[65536];
    for (int e = 0; e < 3; e++)
        for (int at = 0; at < 10; at++) {
            world w;
            world_init(&w, 10, 0);
            tt_data eval;
            tt_data_init(&eval, 8, 2, false); /* 4 batches */
            vv_trainer_opts opts = options(&w, "11ba");
            opts.iteration_length = "2ba";
            opts.eval = eval.loader;
            opts.eval_interval = every[e];
            opts.save_interval = "3ba";
            opts.run_dir = w.folder;
            opts.resume = true;
            w.interrupt_eval = at;
            vv_timestamp stopped;
            if (at) {
                assert_fails(run(&w, opts, &stopped), VV_EINTERRUPTED);
                /* it went at once: no batch of evaluation, nor of training, came after */
                assert_int_equal(w.eval_batches, at);
                assert_int_equal(w.batches, stopped.batch);
                w.interrupt_eval = 0;
            }
            assert_ok(run(&w, opts, NULL));
            read_log(&w, at ? got : expected, sizeof expected);
            if (at && strcmp(expected, got) != 0)
                fail_msg("every %s, stopped at batch %d of evaluation:\n%s\nexpected\n%s", every[e],
                         at, got, expected);
            tt_data_fini(&eval);
            world_fini(&w);
        }
}

/* A deadline that no batch can keep is told, once. */
static void test_deadline(void **unused)
{
    (void)unused;
    static char log[65536];
    world w;
    world_init(&w, 10, 0);
    vv_trainer_opts opts = options(&w, "4ba");
    opts.run_dir = w.folder;
    opts.deadline_seconds = 1e-9;
    assert_ok(run(&w, opts, NULL));
    read_log(&w, log, sizeof log);
    const char *told = strstr(log, "the deadline after SIGTERM");
    assert_non_null(told);
    assert_null(strstr(told + 1, "the deadline after SIGTERM"));
    world_fini(&w);
}

/* On the real clock a budget ends too, and with all of it spent. */
static void test_real_budget(void **unused)
{
    (void)unused;
    world w;
    world_init(&w, 1000000, 0); /* an epoch that a second does not end */
    vv_timestamp end;
    w.tick = 0.0;
    assert_ok(run(&w, options(&w, "1s"), &end));
    assert_true(end.total_seconds >= 1.0);
    assert_true(end.batch_in_epoch > 0); /* an epoch's end would start batch_seconds anew */
    assert_true(end.total_seconds - end.batch_seconds < 1.0);
    world_fini(&w);
}

static void refused(const char *duration, const char *schedule, const char *settings,
                    const char *says)
{
    world w;
    world_init(&w, 10, 0);
    const vv_schedule_desc *desc = vv_schedule_find(schedule);
    vv_schedule_settings opts;
    assert_ok(vv_opts_init(&desc->desc, &opts));
    assert_ok(vv_opts_set_all(&desc->desc, &opts, settings));
    vv_schedule *schedules[] = {NULL, NULL};
    assert_ok(vv_schedule_new(&schedules[0], desc, &opts));
    vv_opts_fini(&desc->desc, &opts);
    vv_trainer_opts o = options(&w, duration);
    o.schedules = schedules;
    vv_status status = run(&w, o, NULL);
    if (status == VV_OK)
        fail_msg("%s with %s %s was accepted", duration, schedule, settings);
    assert_says(says);
    world_fini(&w);
}

/* What has no place on the run's axis is refused before step 0. */
static void test_axis_refusals(void **unused)
{
    (void)unused;
    refused("9sec", "linear_decay_with_warmup", "t_warmup=3ba", "give the time in sec or dur");
    refused("9sec", "linear_decay_with_warmup", "t_warmup=10sec", "t_warmup is 10 seconds");
    refused("9ba", "linear_decay_with_warmup", "t_warmup=10ba", "t_warmup is 10 batches, but the");
    refused("9ba", "multistep_with_warmup", "t_warmup=2ep,milestones=[3ep]",
            "whole run has only 9");
    refused("9ba", "one_cycle", "t_peak=2ep", "t_peak is 10 batches");
    refused("9ba", "linear_decay", "t_max=9sec", "cannot turn 9sec into batches");
    refused("9ba", "linear_decay", "t_max=64tok", "the number of tokens in a batch is not known");
    refused("9ba", "linear_decay", "t_max=2iter", "batches in an iteration is not known");
}

/* Durations are absolute: the same command does nothing more, a longer one goes on, a shorter one
   is over (fault case B25). */
static void test_absolute(void **unused)
{
    (void)unused;
    world w;
    world_init(&w, 10, 0);
    vv_trainer_opts opts = options(&w, "4ep");
    opts.run_dir = w.folder;
    opts.resume = true;
    opts.save_interval = "1ep";
    w.interrupt_at = 10;
    vv_timestamp end;
    assert_fails(run(&w, opts, &end), VV_EINTERRUPTED);
    assert_int_equal(end.batch, 10);
    w.interrupt_at = 0;
    assert_ok(run(&w, opts, &end));
    assert_int_equal(end.epoch, 4);
    w.batches = 0;
    assert_ok(run(&w, opts, &end));
    assert_int_equal(w.batches, 0);
    opts.max_duration = "6ep";
    assert_ok(run(&w, opts, &end));
    assert_int_equal(w.batches, 10);
    assert_int_equal(end.epoch, 6);
    opts.max_duration = "3ep";
    assert_ok(run(&w, opts, &end));
    assert_int_equal(w.batches, 10);
    assert_int_equal(end.epoch, 6);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),        cmocka_unit_test(test_short_batch),
        cmocka_unit_test(test_iteration_events), cmocka_unit_test(test_iteration_intervals),
        cmocka_unit_test(test_iteration_resume), cmocka_unit_test(test_budget),
        cmocka_unit_test(test_real_budget),      cmocka_unit_test(test_axis_refusals),
        cmocka_unit_test(test_absolute),
        cmocka_unit_test(test_evaluation_put_off), cmocka_unit_test(test_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
