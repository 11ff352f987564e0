/* test_sweep.c - which trainings a sweep file means; mistakes in it are told with their line;
 * halving and bandit decide from results alone, and the same whatever ended first. Results are put
 * into the runs' folders by hand. */
#include "vv_test.h"
#include "vv_test_files.h"

#include <vivace/memory.h>
#include <vivace/sweep.h>

#include "sweep/sweep_impl.h"

static char folder[256];

static const char *in_folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const char recipe[] = "model: {name: mlp, width: 8}\n"
                             "dataset: {name: synthetic, like: mnist, count: 64}\n"
                             "batch_size: 32\nmax_duration: 2ep\n";

static vv_status load(vv_sweep **out, const char *text)
{
    write_file(folder, "recipe.yaml", recipe, strlen(recipe));
    write_file(folder, "sweep.yaml", text, strlen(text));
    return vv_sweep_load(out, in_folder("sweep.yaml"), NULL, 0);
}

static bool has(const vv_sweep *s, int trial, const char *override)
{
    const vv_trial t = vv_sweep_trial(s, trial);
    for (int i = 0; i < t.override_count; i++)
        if (strcmp(t.overrides[i], override) == 0)
            return true;
    return false;
}

static int count_with(const vv_sweep *s, const char *override)
{
    int count = 0;
    for (int i = 0; i < vv_sweep_known(s); i++)
        count += has(s, i, override);
    return count;
}

#define SPACE                                                                \
    "parameters:\n  optimizer.lr: [0.1, 0.2, 0.4]\n  batch_size: [16, 32]\n" \
    "methods: {label_smoothing: {smoothing: 0.2}, mixup: {}}\n"

static void test_grid(void **unused)
{
    (void)unused;
    vv_sweep *s;
    assert_ok(load(&s, "recipe: recipe.yaml\nseeds: [1, 2]\nset: {max_duration: 1ep}\n" SPACE));
    assert_int_equal(vv_sweep_known(s), 3 * 2 * 2 * 2 * 2);
    assert_int_equal(vv_sweep_total(s), 48);
    assert_string_equal(vv_sweep_name(s), "sweep");
    assert_int_equal(count_with(s, "max_duration=1ep"), 48);
    assert_int_equal(count_with(s, "optimizer.lr=0.4"), 16);
    assert_int_equal(count_with(s, "methods.mixup=off"), 24);
    assert_int_equal(count_with(s, "methods.label_smoothing.smoothing=0.2"), 24);
    assert_int_equal(count_with(s, "seed=2"), 24);
    for (int i = 0; i < 48; i++) /* each has a folder of its own */
        for (int j = 0; j < i; j++)
            assert_string_not_equal(vv_sweep_trial(s, i).name, vv_sweep_trial(s, j).name);
    vv_sweep_free(s);
}

static void test_other_designs(void **unused)
{
    (void)unused;
    vv_sweep *s, *again;
    assert_ok(load(&s, "recipe: recipe.yaml\nstrategy: one_at_a_time\n" SPACE));
    assert_int_equal(vv_sweep_known(s), 1 + 2 + 1 + 1 + 1);
    assert_int_equal(count_with(s, "optimizer.lr=0.1"), 4);
    assert_int_equal(count_with(s, "methods.mixup=on"), 1);
    vv_sweep_free(s);
    assert_ok(load(&s, "recipe: recipe.yaml\nstrategy: factorial\n" SPACE));
    assert_int_equal(vv_sweep_known(s), 16);
    assert_int_equal(count_with(s, "optimizer.lr=0.2"), 0);
    vv_sweep_free(s);
    assert_ok(load(&s, "recipe: recipe.yaml\nstrategy: random\nsamples: 9\n" SPACE));
    assert_ok(load(&again, "recipe: recipe.yaml\nstrategy: random\nsamples: 9\n" SPACE));
    assert_int_equal(vv_sweep_known(s), 9);
    for (int i = 0; i < 9; i++)
        assert_string_equal(vv_sweep_trial(s, i).name, vv_sweep_trial(again, i).name);
    vv_sweep_free(s);
    vv_sweep_free(again);
    assert_ok(load(&s, "recipe: recipe.yaml\nstrategy: random\nsamples: 500\n" SPACE));
    assert_int_equal(vv_sweep_known(s), 24); /* there are no more */
    vv_sweep_free(s);
}

static void test_ranges(void **unused)
{
    (void)unused;
    vv_sweep *s;
    assert_ok(load(&s, "recipe: recipe.yaml\nparameters:\n"
                       "  optimizer.lr: {min: 0.001, max: 1, steps: 4, log: true}\n"));
    assert_int_equal(vv_sweep_known(s), 4);
    assert_int_equal(count_with(s, "optimizer.lr=0.001"), 1);
    assert_int_equal(count_with(s, "optimizer.lr=0.01"), 1);
    assert_int_equal(count_with(s, "optimizer.lr=0.1"), 1);
    assert_int_equal(count_with(s, "optimizer.lr=1"), 1);
    vv_sweep_free(s);
}

static void refused(const char *text, vv_status code, const char *says)
{
    vv_sweep *s;
    assert_fails(load(&s, text), code);
    assert_says(says);
    assert_null(s);
}

static void test_mistakes(void **unused)
{
    (void)unused;
    refused("recipe: recipe.yaml\nstratgy: grid\n", VV_EINVAL, "sweep.yaml:2: key 'stratgy'");
    refused("recipe: recipe.yaml\nstrategy: gird\n", VV_EINVAL, "did you mean 'grid'");
    refused("strategy: grid\n", VV_EINVAL, "`recipe` must name");
    refused("recipe: none.yaml\n", VV_ENOTFOUND, "none.yaml");
    refused("recipe: recipe.yaml\nparameters: {optimizer.lrr: [1]}\n", VV_ENOTFOUND, "lrr");
    refused("recipe: recipe.yaml\nparameters: {optimizer.lr: 1}\n", VV_EINVAL, "give a list");
    refused("recipe: recipe.yaml\nparameters: {seed: [1]}\n", VV_EINVAL, "seeds");
    refused("recipe: recipe.yaml\nparameters: {optimizer.lr: {min: 0, max: 1, log: true}}\n",
            VV_EINVAL, "above 0");
    refused("recipe: recipe.yaml\nmethods: [mixupp]\n", VV_ENOTFOUND, "mixup");
    refused("recipe: recipe.yaml\nmetric: eval/acuracy\n", VV_EINVAL, "acuracy");
    refused("recipe: recipe.yaml\nstrategy: halving\n" SPACE, VV_EINVAL, "ratios");
    refused("recipe: recipe.yaml\nratios: [1, 0.5]\n" SPACE, VV_EINVAL, "must grow");
    refused("recipe: recipe.yaml\nstrategy: bandit\n" SPACE, VV_EINVAL, "question");
    refused("recipe: recipe.yaml\nbudget: 3\n" SPACE, VV_EINVAL, "60sec");
    refused("recipe: recipe.yaml\nasynchronous: maybe\n" SPACE, VV_EINVAL, "true or false");
    refused("- a\n", VV_EFORMAT, "a sweep is a map");
}

/* A result in the training's folder, as the training would leave it. */
static void put_result(vv_sweep *s, int i, double quality, double seconds)
{
    char path[512], text[256];
    const vv_trial t = vv_sweep_trial(s, i);
    snprintf(path, sizeof path, "%s/%s", folder, t.name);
    mkdir(path, 0777);
    snprintf(text, sizeof text,
             "{\"status\":\"done\",\"train_seconds\":%g,\"metrics\":{\"eval\":{\"accuracy\":%g}}}",
             seconds, quality);
    write_file(path, "summary.json", text, strlen(text));
    assert_ok(vvi_trial_read(s, i, folder));
}

static void test_halving(void **unused)
{
    (void)unused;
    vv_sweep *s;
    assert_ok(load(&s,
                   "recipe: recipe.yaml\nstrategy: halving\nsamples: 6\nratios: [0.25, 0.5, 1]\n"
                   "keep: 0.5\n" SPACE));
    assert_int_equal(vv_sweep_known(s), 6);
    assert_int_equal(vv_sweep_total(s), 6 + 3 + 2);
    assert_int_equal(count_with(s, "scale_schedule_ratio=0.25"), 6);
    const double quality[] = {0.1, 0.9, 0.3, 0.8, 0.8, 0.2};
    for (int i = 5; i > 0; i--)
        put_result(s, i, quality[i], 1.0);
    assert_ok(vvi_sweep_next(s, 1));
    assert_int_equal(vv_sweep_known(s), 6); /* one is still open */
    put_result(s, 0, quality[0], 1.0);
    assert_ok(vvi_sweep_next(s, 1));
    assert_int_equal(vv_sweep_known(s), 9);
    assert_int_equal(count_with(s, "scale_schedule_ratio=0.5"), 3);
    const int best[] = {1, 3, 4}; /* of equals the earlier */
    for (int i = 0; i < 3; i++)
        assert_memory_equal(s->configs[6 + i].choice, s->configs[best[i]].choice, 4 * sizeof(int));
    assert_ok(vvi_sweep_next(s, 1));
    assert_int_equal(vv_sweep_known(s), 9);
    vv_sweep_free(s);
}

/* ---- asynchronous halving, played: `jobs` trainings at once end in an order that `seed` draws
   ---- */

#define HALVING                                                                               \
    "recipe: recipe.yaml\nstrategy: halving\nsamples: 12\nratios: [0.25, 0.5, 1]\nkeep: 0.4\n" \
    SPACE

static double played_quality(const vv_sweep *s, int i)
{
    const vv_trial t = vv_sweep_trial(s, i);
    unsigned sum = 0; /* a number of its settings alone */
    for (int j = 0; j < t.override_count; j++)
        for (const char *c = t.overrides[j]; *c; c++)
            sum = sum * 31 + (unsigned char)*c;
    return (double)(sum % 1000) / 1000.0;
}

/* Returns how many trainings ended; stops after `most`. */
static int play(vv_sweep *s, int jobs, unsigned seed, int most)
{
    int running[8], count = 0, ended = 0;
    bool begun[256] = {false};
    while (ended < most) {
        while (count < jobs) {
            int trial = -1;
            assert_ok(vvi_sweep_next(s, jobs));
            for (int n = 0; (trial = vvi_sweep_in_order(s, n)) >= 0 && begun[trial];)
                n++;
            if (trial < 0)
                break;
            assert_in_range(trial, 0, 255);
            begun[trial] = true;
            assert_ok(vvi_trial_read(s, trial, folder));
            if (s->trials[trial].status == VV_TRIAL_DONE) /* from before */
                continue;
            s->trials[trial].status = VV_TRIAL_RUNNING;
            running[count++] = trial;
        }
        if (count == 0)
            break;
        seed = seed * 1664525u + 1013904223u;
        const int which = (int)((seed >> 16) % (unsigned)count), trial = running[which];
        running[which] = running[--count];
        s->trials[trial].status = VV_TRIAL_WAITING;
        put_result(s, trial, played_quality(s, trial), 1.0);
        ended++;
    }
    return ended;
}

static void list_names(const vv_sweep *s, vv_str *out)
{
    vv_str_clear(out);
    for (int i = 0; i < vv_sweep_known(s); i++)
        vv_str_addf(out, "%s %d\n", vv_sweep_trial(s, i).name, s->configs[i].rung);
}

static void start_over(void)
{
    remove_dir(folder);
    mkdir(folder, 0777); /* of the same name: it is part of what trainings are named by */
}

/* Whatever ends first, and wherever it is killed and started anew, the trainings are the same, in
   the same order. */
static void test_halving_without_waiting(void **unused)
{
    (void)unused;
    for (int jobs = 1; jobs <= 5; jobs += 2) {
        vv_str wanted = {0}, got = {0};
        const char *text = HALVING "asynchronous: true\n";
        for (unsigned seed = 0; seed < 8; seed++) {
            vv_sweep *s;
            start_over();
            for (int killed = 0; seed > 0 && killed < 3; killed++) {
                assert_ok(load(&s, text));
                play(s, jobs, seed + 100u * (unsigned)killed, (int)seed);
                vv_sweep_free(s);
            }
            assert_ok(load(&s, text));
            play(s, jobs, seed, 1000);
            list_names(s, seed ? &got : &wanted);
            vv_sweep_free(s);
            if (seed)
                assert_string_equal(vv_str_text(&got), vv_str_text(&wanted));
        }
        vv_str_fini(&wanted);
        vv_str_fini(&got);
    }
}

/* All that waiting would have taken further are: of a full rung the better ones went on. And some
   began on a longer rung before the shortest was done, which is what not waiting is for. */
static void test_halving_takes_the_better_ones(void **unused)
{
    (void)unused;
    vv_sweep *s;
    assert_ok(load(&s, HALVING));
    play(s, 3, 5, 1000);
    assert_int_equal(s->asynchronous, 1); /* by itself, with several jobs */
    for (int rung = 0; rung < 2; rung++) {
        vvi_ranked list[64];
        int count = 0;
        for (int i = 0; i < s->config_count; i++)
            if (s->configs[i].rung == rung)
                list[count++] = (vvi_ranked){i, vvi_config_quality(s, i)};
        vvi_rank(list, count);
        assert_true(count >= (rung ? 5 : 12));
        for (int i = 0; i < vvi_halving_kept(s, count); i++)
            assert_true(vvi_sweep_has(s, s->configs[list[i].item].choice, rung + 1));
    }
    int early = 0;
    for (int n = 0, rest = 0; n < s->slot_count; n++) {
        const int rung = s->configs[s->slots[s->slot_count - 1 - n].config].rung;
        rest += rung == 0;
        early += rung > 0 && rest > 0;
    }
    assert_true(early > 0);
    assert_true(vv_sweep_total(s) >= vv_sweep_known(s));
    vv_sweep_free(s);
}

/* Whichever allocation fails, loading and deciding tell so, and nothing leaks. */
static void test_without_memory(void **unused)
{
    (void)unused;
    const int64_t live = vv_memory_live_count();
    vv_status status = VV_ENOMEM;
    for (uint64_t nth = 1; status != VV_OK; nth += 7) { /* a recipe per training: many */
        vv_sweep *s;
        vv_memory_fail_at(nth);
        status = load(
            &s, "recipe: recipe.yaml\nstrategy: halving\nsamples: 3\nratios: [0.5, 1]\n" SPACE);
        vv_memory_fail_at(0);
        if (status != VV_OK)
            assert_int_equal(status, VV_ENOMEM);
        vv_sweep_free(s);
        assert_int_equal(vv_memory_live_count(), live);
        assert_true(nth < 100000);
    }
    status = VV_ENOMEM;
    for (uint64_t nth = 1; status != VV_OK; nth++) {
        vv_sweep *s;
        assert_ok(load(
            &s, "recipe: recipe.yaml\nstrategy: halving\nsamples: 3\nratios: [0.5, 1]\n" SPACE));
        for (int i = 0; i < 3; i++)
            put_result(s, i, 0.1 * i, 1.0);
        vv_memory_fail_at(nth);
        status = vvi_sweep_next(s, 2);
        vv_memory_fail_at(0);
        if (status != VV_OK)
            assert_int_equal(status, VV_ENOMEM);
        else
            assert_true(vv_sweep_known(s) > 3);
        vv_sweep_free(s);
        assert_int_equal(vv_memory_live_count(), live);
        assert_true(nth < 10000);
    }
}

/* A failed one never goes on, and counts as the worst of its rung. */
static void test_halving_with_failures(void **unused)
{
    (void)unused;
    vv_sweep *s;
    assert_ok(
        load(&s, "recipe: recipe.yaml\nstrategy: halving\nsamples: 4\nratios: [0.5, 1]\n" SPACE));
    assert_ok(vvi_sweep_next(s, 2));
    for (int i = 0; i < 4; i++) {
        s->trials[i].status = VV_TRIAL_FAILED;
        assert_ok(vvi_sweep_next(s, 2));
    }
    assert_int_equal(vv_sweep_known(s), 4);
    assert_int_equal(vvi_sweep_in_order(s, 4), -1);
    vv_sweep_free(s);
}

/* The answer lies at one corner: cheap and good with lr 0.4 and mixup. */
static void put_answer(vv_sweep *s, int i)
{
    const bool good = has(s, i, "optimizer.lr=0.4"), mixed = has(s, i, "methods.mixup=on");
    put_result(s, i, 0.5 + 0.3 * good + 0.1 * mixed, 10.0 - 4.0 * mixed + (double)(i % 3) * 0.01);
}

static void test_bandit(void **unused)
{
    (void)unused;
    static const char text[] =
        "recipe: recipe.yaml\nstrategy: bandit\nsamples: 16\nreach: 0.85\n" SPACE;
    vv_sweep *s, *again;
    assert_ok(load(&s, text));
    assert_int_equal(vv_sweep_known(s), 4);
    assert_int_equal(vv_sweep_total(s), 16);
    for (int i = 0; i < 16; i++) {
        if (i >= vv_sweep_known(s))
            assert_ok(vvi_sweep_next(s, 1));
        assert_true(i < vv_sweep_known(s));
        put_answer(s, i);
    }
    assert_ok(vvi_sweep_next(s, 1));
    assert_int_equal(vv_sweep_known(s), 16);
    /* It looked where the answer is more often than chance would: 4 of 24 lie there. */
    int there = 0;
    for (int i = 4; i < 16; i++)
        there += has(s, i, "optimizer.lr=0.4") && has(s, i, "methods.mixup=on");
    assert_true(there >= 3);
    for (int i = 0; i < 16; i++) /* nothing twice */
        for (int j = 0; j < i; j++)
            assert_string_not_equal(vv_sweep_trial(s, i).name, vv_sweep_trial(s, j).name);
    /* Read again from the folders, it decides the same. */
    assert_ok(load(&again, text));
    for (int i = 0; i < 16; i++) {
        if (i >= vv_sweep_known(again))
            assert_ok(vvi_sweep_next(again, 1));
        assert_string_equal(vv_sweep_trial(again, i).name, vv_sweep_trial(s, i).name);
        assert_ok(vvi_trial_read(again, i, folder));
    }
    vv_sweep_free(s);
    vv_sweep_free(again);
}

static void test_table(void **unused)
{
    (void)unused;
    vv_sweep *s;
    vv_str text = {0};
    assert_ok(load(&s, "recipe: recipe.yaml\nname: tab\nseeds: [1]\n"
                       "parameters: {optimizer.lr: [0.1, 0.2]}\n"
                       "methods: {mixup: {alpha: 0.3}}\n"));
    put_result(s, 1, 0.75, 2.5);
    assert_ok(vv_sweep_table(s, folder, false, &text));
    assert_non_null(strstr(vv_str_text(&text),
                           "training,status,optimizer.lr,mixup,ratio,seed,eval/accuracy,"
                           "train_seconds,usd\n"));
    assert_non_null(strstr(vv_str_text(&text), ",done,0.1,on alpha=0.3,,1,0.75,2.5,\n"));
    assert_non_null(strstr(vv_str_text(&text), ",waiting,0.2,off,,1,,,\n"));
    vv_str_fini(&text);
    vv_sweep_free(s);
}

static int enter(void **unused)
{
    (void)unused;
    temp_dir(folder);
    return 0;
}

static int leave(void **unused)
{
    (void)unused;
    remove_dir(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_grid, enter, leave),
        cmocka_unit_test_setup_teardown(test_other_designs, enter, leave),
        cmocka_unit_test_setup_teardown(test_ranges, enter, leave),
        cmocka_unit_test_setup_teardown(test_mistakes, enter, leave),
        cmocka_unit_test_setup_teardown(test_halving, enter, leave),
        cmocka_unit_test_setup_teardown(test_halving_without_waiting, enter, leave),
        cmocka_unit_test_setup_teardown(test_halving_takes_the_better_ones, enter, leave),
        cmocka_unit_test_setup_teardown(test_halving_with_failures, enter, leave),
        cmocka_unit_test_setup_teardown(test_without_memory, enter, leave),
        cmocka_unit_test_setup_teardown(test_bandit, enter, leave),
        cmocka_unit_test_setup_teardown(test_table, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
