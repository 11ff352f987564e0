/* test_g2_resume.c - guarantee G2: a run killed anywhere (SIGKILL) and started again with the same
 * command is bit-equal to one that was not: weights, averages, learning rate, losses, evaluations,
 * the log. Killed at random events; after batch 3, 7 and at an epoch's end (case B25); three times
 * in a row; with checkpoints at every batch and only at each epoch. The duration is absolute: a
 * finished run does nothing, a longer one does only what is missing. Ctrl-C saves and leaves.
 * Samples of an epoch are a permutation. */
#include "resume_world.h"

typedef struct killer {
    int64_t countdown; /* kills at the nth event from the start on */
    int64_t at_batch;  /* or: at this event of this batch */
    vv_event event;
} killer;

static vv_status maybe_kill(void *ctx, vv_event event, vv_state *state)
{
    (void)ctx;
    bool here = life_args[0] > 0 ? --life_args[0] == 0
                                 : state->time.batch == life_args[1] &&
                                       (int64_t)event == life_args[2];
    if (here)
        kill(getpid(), SIGKILL);
    return VV_OK;
}

static const life_kind kinds[] = {{"killed", maybe_kill, NULL}, {NULL, NULL, NULL}};

/* The uninterrupted run. */
static world reference(char *folder, size_t bytes, const char *duration, const char *save,
                       bool best_backend)
{
    tt_folder(folder, bytes);
    world w = {.run_dir = folder, .duration = duration, .save = save, .best_backend = best_backend};
    world_run(&w);
    assert_int_equal(w.status, VV_OK);
    return w;
}

static void check_equal(const world *a, const world *b)
{
    assert_int_equal(b->status, VV_OK);
    assert_int_equal(a->batches, b->batches);
    assert_int_equal(a->epochs, b->epochs);
    assert_same_bits(&a->weights, &b->weights);
    char *x = world_trace(a->run_dir), *y = world_trace(b->run_dir);
    assert_string_equal(x, y);
    free(x);
    free(y);
}

static void resume_after(const world *whole, const killer *kills, int count)
{
    char folder[256];
    tt_folder(folder, sizeof folder);
    for (int i = 0; i < count; i++) {
        world dying = {.run_dir = folder, .duration = whole->duration, .save = whole->save,
                       .best_backend = whole->best_backend};
        int how = life_end(life_start(&dying, "killed", kills[i].countdown, kills[i].at_batch,
                                      (int64_t)kills[i].event));
        if (!WIFSIGNALED(how) || WTERMSIG(how) != SIGKILL)
            fail_msg("life %d was to be killed, but ended with %d", i, how);
    }
    world last = {.run_dir = folder, .duration = whole->duration, .save = whole->save,
                  .best_backend = whole->best_backend};
    world_run(&last);
    check_equal(whole, &last);
    free(last.weights.values);
    tt_remove(folder);
}

static void test_known_points(void **unused)
{
    (void)unused;
    const char *const saves[] = {"1ba", "1ep", "2ba"};
    for (int i = 0; i < 3; i++) {
        char folder[256];
        world whole = reference(folder, sizeof folder, "4ep", saves[i], false);
        assert_int_equal(whole.batches, 20);
        killer kills[] = {
            {.at_batch = 3, .event = VV_EVENT_BATCH_CHECKPOINT},
            {.at_batch = 7, .event = VV_EVENT_BEFORE_FORWARD},
            {.at_batch = 10, .event = VV_EVENT_EPOCH_END},
            {.at_batch = 10, .event = VV_EVENT_EPOCH_CHECKPOINT},
            {.at_batch = 10, .event = VV_EVENT_EPOCH_START},
            {.at_batch = 15, .event = VV_EVENT_EVAL_START},
            {.at_batch = 20, .event = VV_EVENT_FIT_END},
        };
        for (size_t j = 0; i < 2 && j < sizeof kills / sizeof *kills; j++)
            resume_after(&whole, &kills[j], 1);
        resume_after(&whole, kills, 3); /* three times in a row */
        free(whole.weights.values);
        tt_remove(folder);
    }
}

static void test_random_points(void **unused)
{
    (void)unused;
    uint64_t seed = (uint64_t)getpid() * 2654435761u + (uint64_t)(vv_clock() * 1e6);
    print_message("# seed of the random points: %" PRIu64 "\n", seed);
    vv_rng rng = vv_rng_at(seed, "kill", 0);
    char folder[256];
    world whole = reference(folder, sizeof folder, "4ep", "1ba", true);
    for (int i = 0; i < 3; i++) {
        killer kills[3];
        for (int j = 0; j < 3;
             j++) /* each life is long enough to reach its end, and not the run's */
            kills[j] = (killer){.countdown = 4 + vv_rng_below(&rng, 100)};
        resume_after(&whole, kills, 3);
    }
    free(whole.weights.values);
    tt_remove(folder);
}

/* Stopped at 2 of 4 epochs; the same command ends at 4, not 6; a third trains nothing; 6 trains
   2. */
static void test_absolute_duration(void **unused)
{
    (void)unused;
    char folder[256];
    tt_folder(folder, sizeof folder);
    world w = {.run_dir = folder, .duration = "2ep", .save = "1ep"};
    const struct {
        const char *duration;
        int64_t batches;
    } lives[] = {{"2ep", 10}, {"4ep", 20}, {"4ep", 20}, {"6ep", 30}, {"6ep", 30}, {"3ep", 30}};
    for (size_t i = 0; i < sizeof lives / sizeof *lives; i++) {
        w.duration = lives[i].duration;
        world_run(&w);
        assert_int_equal(w.status, VV_OK);
        assert_int_equal(w.batches, lives[i].batches);
        free(w.weights.values);
    }
    char whole_folder[256];
    world whole = reference(whole_folder, sizeof whole_folder, "6ep", "1ep", false);
    world_run(&w); /* once more, to look at it */
    check_equal(&whole, &w);
    free(w.weights.values);
    free(whole.weights.values);
    tt_remove(folder);
    tt_remove(whole_folder);
}

static vv_status ctrl_c(void *ctx, vv_event event, vv_state *state)
{
    const int64_t *at = ctx;
    if (event == VV_EVENT_BEFORE_LOSS && state->time.batch == *at)
        vv_trainer_interrupt(state->trainer);
    return VV_OK;
}

static void test_interrupt(void **unused)
{
    (void)unused;
    char folder[256], other[256];
    world whole = reference(folder, sizeof folder, "4ep", "1ep", false);
    tt_folder(other, sizeof other);
    world w = {.run_dir = other, .duration = "4ep", .save = "1ep"};
    for (int64_t at = 2; at < 20; at += 7) { /* 2, 9 (an epoch's last batch), 16 */
        w.listen = ctrl_c;
        w.ctx = &at;
        world_run(&w);
        assert_int_equal(w.status, VV_EINTERRUPTED);
        assert_int_equal(w.batches, at + 1);
        free(w.weights.values);
    }
    w.listen = NULL;
    world_run(&w);
    check_equal(&whole, &w);
    free(w.weights.values);
    free(whole.weights.values);
    tt_remove(folder);
    tt_remove(other);
}

typedef struct samples {
    int seen[2][10];
} samples;

static vv_status note_samples(void *ctx, vv_event event, vv_state *state)
{
    samples *s = ctx;
    for (int64_t i = 0; event == VV_EVENT_BATCH_START && i < state->batch->count; i++)
        s->seen[state->time.epoch][state->batch->sample[i]]++;
    return VV_OK;
}

static void test_permutation(void **unused)
{
    (void)unused;
    char folder[256];
    tt_folder(folder, sizeof folder);
    samples s = {0};
    world w = {
        .run_dir = folder, .duration = "3ba", .save = "1ba", .listen = note_samples, .ctx = &s};
    world_run(&w);
    free(w.weights.values);
    w.duration = "2ep";
    world_run(&w);
    free(w.weights.values);
    for (int epoch = 0; epoch < 2; epoch++)
        for (int i = 0; i < 10; i++)
            assert_int_equal(s.seen[epoch][i], 1);
    tt_remove(folder);
}

/* ---- data that stop ---- */

static int reads_left;
static const vv_dataset_class *sound_class;

static vv_status stopping_read(vv_dataset *set, int64_t index, void *input, void *target)
{
    if (reads_left-- <= 0)
        return vv_fail(VV_EIO, "the server is gone");
    return sound_class->read(set, index, input, target);
}

static vv_dataset_class stopping_class;

static void stop_reading(vv_dataset *set)
{
    sound_class = set->type;
    stopping_class = *sound_class;
    stopping_class.read = stopping_read;
    set->type = &stopping_class;
}

/* A batch that cannot be had ends the run in that sentence; all that was trained is kept, although
   no checkpoint was due. */
static void test_data_that_stop(void **unused)
{
    (void)unused;
    char folder[256];
    world whole = reference(folder, sizeof folder, "3ep", "1ep", false);
    static const int reads[] = {1, 2, 5, 10, 11, 13, 24};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        char path[256];
        tt_folder(path, sizeof path);
        world w = {.run_dir = path, .duration = "3ep", .save = "1ep", .spoil = stop_reading};
        reads_left = reads[i];
        world_run(&w);
        assert_int_equal(w.status, VV_EIO);
        assert_int_equal(w.batches, reads[i] / 2);
        assert_says("the server is gone");
        const bool between = reads[i] / 2 % 5 != 0; /* else the epoch's checkpoint has it all */
        assert_int_equal(strstr(vv_error(), "is saved") != NULL, between);
        free(w.weights.values);
        world again = {.run_dir = path, .duration = "3ep", .save = "1ep"};
        world_run(&again);
        check_equal(&whole, &again);
        free(again.weights.values);
        tt_remove(path);
    }
    free(whole.weights.values);
    tt_remove(folder);
}

int main(int argc, char **argv)
{
    if (argc == LIFE_ARGC)
        return life_main(argv, kinds);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_points),      cmocka_unit_test(test_random_points),
        cmocka_unit_test(test_absolute_duration), cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_data_that_stop),
        cmocka_unit_test(test_permutation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
