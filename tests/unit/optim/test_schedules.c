/* test_schedules.c - the factor each schedule must give.
 *
 * The vectors of trainer.md section 7.4 and of fault case B23, at exact batches; schedules stay
 * where they ended; scale_warmup holds for the whole rise; what cannot work on an axis is refused
 * with a sentence that names schedule and setting. */
#include "vv_test.h"

#include <vivace/optim.h>

static const vv_axis million = {1000, 1, -1,   1000000,
                                -1,   0, NULL, 0}; /* 1000 epochs of 1000 batches */

static vv_schedule *make(const char *name, const char *settings)
{
    const vv_schedule_desc *desc = vv_schedule_find(name);
    assert_non_null(desc);
    vv_schedule_settings opts;
    assert_int_equal(desc->desc.opts_size, sizeof opts);
    assert_ok(vv_opts_init(&desc->desc, &opts));
    assert_ok(vv_opts_set_all(&desc->desc, &opts, settings));
    vv_schedule *schedule = NULL;
    assert_ok(vv_schedule_new(&schedule, desc, &opts));
    vv_opts_fini(&desc->desc, &opts);
    return schedule;
}

typedef struct point {
    double batch, factor;
} point;

#define MAX_POINTS 9
typedef struct curve {
    const char *name, *settings;
    double ssr;
    point points[MAX_POINTS]; /* ends with batch -1 */
} curve;

static void run(const curve *c, const vv_axis *axis, double tolerance)
{
    vv_schedule *schedule = make(c->name, c->settings);
    for (int i = 0; i < MAX_POINTS && c->points[i].batch >= 0.0; i++) {
        double factor = -1.0;
        assert_ok(vv_schedule_factor(schedule, axis, c->ssr, c->points[i].batch, &factor));
        if (!(fabs(factor - c->points[i].factor) <= tolerance))
            fail_msg("%s %s: factor %.9g at batch %g, expected %.9g", c->name, c->settings, factor,
                     c->points[i].batch, c->points[i].factor);
    }
    vv_schedule_free(schedule);
}

#define END   \
    {         \
        -1, 0 \
    }
static const curve vectors[] = {
    {"step", "step_size=10ba", 1, {{5, 1}, {15, 0.1}, {35, 0.001}, END}},
    {"step", "step_size=0.002dur,gamma=0.8", 1, {{1000, 1}, {3000, 0.8}, {7000, 0.512}, END}},
    {"multistep",
     "milestones=[100ba,1ep,0.01dur],gamma=0.5",
     4,
     {{200, 1}, {2000, 0.5}, {20000, 0.25}, {200000, 0.125}, END}},
    {"linear_decay",
     "alpha_i=0,alpha_f=1,t_max=0.25dur",
     1,
     {{100000, 0.4}, {200000, 0.8}, {400000, 1}, END}},
    {"exponential", "gamma=0.5", 1, {{1000, 0.5}, {2000, 0.25}, {4000, 0.0625}, END}},
    {"exponential", "gamma=0.5", 2, {{2000, 0.5}, {4000, 0.25}, {8000, 0.0625}, END}},
    {"cosine_decay",
     "",
     1,
     {{0, 1}, {333333, 0.75}, {500000, 0.5}, {666667, 0.25}, {1000000, 0}, END}},
    {"cosine_decay",
     "t_max=30ba,alpha_f=0.5",
     0.2,
     {{0, 1}, {2, 0.875}, {3, 0.75}, {4, 0.625}, {6, 0.5}, {10, 0.5}, END}},
    {"cosine_warmrestart",
     "t_0=30ba",
     1,
     {{0, 1}, {10, 0.75}, {15, 0.5}, {20, 0.25}, {30, 1}, {40, 0.75}, {999970, 0.75}, END}},
    {"cosine_warmrestart",
     "t_0=0.003dur,t_mult=1.5",
     1,
     {{0, 1}, {1000, 0.75}, {3000, 1}, {4500, 0.75}, {7500, 1}, {14250, 1}, END}},
    {"polynomial", "power=2", 1, {{0, 1}, {100000, 0.81}, {200000, 0.64}, {500000, 0.25}, END}},
    {"multistep_with_warmup",
     "t_warmup=10ba,milestones=[20ba,40ba]",
     1,
     {{0, 0}, {5, 0.5}, {15, 1}, {25, 0.1}, {45, 0.01}, END}},
    {"linear_decay_with_warmup",
     "t_warmup=500ep",
     1,
     {{0, 0}, {250000, 0.5}, {500000, 1}, {750000, 0.5}, {1000000, 0}, END}},
    {"cosine_decay_with_warmup",
     "t_warmup=0.9dur",
     1,
     {{0, 0}, {450000, 0.5}, {900000, 1}, {933333, 0.75}, {950000, 0.5}, {1000000, 0}, END}},
    {"polynomial_with_warmup",
     "t_warmup=0.9dur",
     1,
     {{913397, 0.75}, {929289, 0.5}, {0, 0}, {1000000, 0}, END}},
    {"constant", "alpha=0.3,t_max=10ba", 1, {{0, 0.3}, {9, 0.3}, {10, 0.3}, {500, 0.3}, END}},
    {"constant_with_warmup",
     "t_warmup=10ba,alpha=3",
     1,
     {{0, 0}, {5, 1.5}, {10, 3}, {1000000, 3}, END}},
    {"one_cycle",
     "t_peak=200ep,alpha_i=0.2,alpha_f=0.1",
     1,
     {{0, 0.2}, {100000, 0.6}, {200000, 1}, {600000, 0.55}, {1000000, 0.1}, {2000000, 0.1}, END}},
    {"one_cycle", "t_peak=5ba,t_max=24ba", 2, {{0, 0}, {5, 0.5}, {10, 1}, {29, 0.5}, {48, 0}, END}},
};

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        vv_axis axis = million; /* the duration is scaled before schedules see it */
        axis.total_batches = (int64_t)(1e6 * vectors[i].ssr);
        run(&vectors[i], &axis, 1e-3);
    }
    /* half the run: 500 epochs; the warm-up keeps its length */
    const vv_axis half = {1000, 1, -1, 500000, -1, 0, NULL, 0};
    const curve scaled = {
        "linear_decay_with_warmup",
        "t_warmup=500ep,alpha_i=3,alpha_f=2,t_max=1002ep",
        0.5,
        {{0, 0}, {250000, 1.5}, {500000, 3}, {500500, 2.5}, {501000, 2}, {502000, 2}, END}};
    run(&scaled, &half, 1e-3);
}

/* A warm-up over the whole training, for every schedule that has one. */
static void test_all_warmup(void **state)
{
    (void)state;
    const char *names[] = {"linear_decay_with_warmup", "cosine_decay_with_warmup",
                           "polynomial_with_warmup", "constant_with_warmup"};
    for (int i = 0; i < 4; i++) {
        const curve c = {
            names[i], "t_warmup=1000ep", 1, {{0, 0}, {100000, 0.1}, {1000000, 1}, END}};
        run(&c, &million, 1e-9);
    }
    const curve steps = {"multistep_with_warmup",
                         "t_warmup=1000ep,milestones=[1500ep]",
                         1,
                         {{0, 0}, {100000, 0.1}, {1000000, 1}, END}};
    run(&steps, &million, 1e-9);
}

/* Fault case B23. */
static void test_b23(void **state)
{
    (void)state;
    const vv_axis axis = {10, 4, -1, 110, -1, 0, NULL, 0},
                  hundred = {10, 4, -1, 100, -1, 0, NULL, 0},
                  fifty = {10, 4, -1, 50, -1, 0, NULL, 0};
    const curve warm = {
        "cosine_decay_with_warmup",
        "t_warmup=10ba,t_max=110ba",
        1,
        {{0, 0}, {5, 0.5}, {10, 1}, {35, 0.853553}, {60, 0.5}, {85, 0.146447}, {110, 0}, END}};
    run(&warm, &axis, 1e-6);
    const curve ended = {"cosine_decay", "t_max=50ba", 1, {{25, 0.5}, {75, 0}, {100, 0}, END}};
    run(&ended, &hundred, 1e-6);
    const curve ended_warm = {"cosine_decay_with_warmup",
                              "t_warmup=10ba,t_max=50ba",
                              1,
                              {{10, 1}, {30, 0.5}, {75, 0}, {100, 0}, END}};
    run(&ended_warm, &hundred, 1e-6);

    /* "10ba" and a tenth of 100 batches agree; halved they agree with scale_warmup, and without it
       the first stays 10 batches while the second is a tenth of 50 */
    const char *names[] = {"linear_decay_with_warmup", "cosine_decay_with_warmup",
                           "polynomial_with_warmup", "constant_with_warmup"};
    for (int i = 0; i < 4; i++) {
        vv_schedule *ba = make(names[i], "t_warmup=10ba,scale_warmup=true");
        vv_schedule *dur = make(names[i], "t_warmup=0.1dur,scale_warmup=true");
        vv_schedule *unscaled = make(names[i], "t_warmup=10ba");
        for (int b = 0; b <= 100; b++) {
            double x, y;
            assert_ok(vv_schedule_factor(ba, &hundred, 1.0, b, &x));
            assert_ok(vv_schedule_factor(dur, &hundred, 1.0, b, &y));
            assert_near(x, y, 1e-12, 0);
            assert_ok(vv_schedule_factor(ba, &fifty, 0.5, b, &x));
            assert_ok(vv_schedule_factor(dur, &fifty, 0.5, b, &y));
            assert_near(x, y, 1e-12, 0);
        }
        double factor;
        assert_ok(vv_schedule_factor(ba, &fifty, 0.5, 5, &factor));
        assert_near(factor, 1.0, 1e-12, 0);
        assert_ok(vv_schedule_factor(unscaled, &fifty, 0.5, 5, &factor));
        assert_near(factor, 0.5, 1e-12, 0);
        vv_schedule_free(ba);
        vv_schedule_free(dur);
        vv_schedule_free(unscaled);
    }
}

/* With scale_warmup the rise is neither cut short (ssr 2) nor followed by a rest at the peak
   (0.5). */
static void test_scale_warmup(void **state)
{
    (void)state;
    const char *settings = "t_warmup=10ba,t_max=110ba,scale_warmup=true";
    const vv_axis twice = {10, 4, -1, 220, -1, 0, NULL, 0}, half = {10, 4, -1, 55, -1, 0, NULL, 0};
    const curve longer = {"linear_decay_with_warmup",
                          settings,
                          2,
                          {{0, 0}, {10, 0.5}, {19, 0.95}, {20, 1}, {120, 0.5}, {220, 0}, END}};
    run(&longer, &twice, 1e-9);
    const curve shorter = {"linear_decay_with_warmup",
                           settings,
                           0.5,
                           {{0, 0}, {2.5, 0.5}, {5, 1}, {10, 0.9}, {30, 0.5}, {55, 0}, END}};
    run(&shorter, &half, 1e-9);
    const curve drops = {"multistep_with_warmup",
                         "t_warmup=10ba,milestones=[20ba],scale_warmup=true",
                         2,
                         {{10, 0.5}, {20, 1}, {39, 1}, {40, 0.1}, END}};
    run(&drops, &twice, 1e-9);
}

/* The rule for units: samples and tokens resolve too, epochs in between, no rounding loss. */
static void test_units(void **state)
{
    (void)state;
    const vv_axis axis = {100, 8, 64, 100, -1, 0, NULL, 0};
    const curve curves[] = {
        {"linear_decay", "t_max=800sp", 1, {{0, 1}, {50, 0.5}, {100, 0}, END}},
        {"linear_decay", "t_max=6400tok", 1, {{25, 0.75}, {99.5, 0.005}, END}},
        {"linear_decay", "t_max=1ep", 1, {{12.5, 0.875}, END}},
        /* 0.29 * 100 is 28.999999999999996: still batch 29 */
        {"multistep", "milestones=[0.29dur]", 1, {{28, 1}, {29, 0.1}, END}},
        /* 15 * 0.5 is cut to 7 batches */
        {"multistep", "milestones=[15ba]", 0.5, {{6, 1}, {7, 0.1}, END}},
        /* less than a batch stays a fraction */
        {"constant_with_warmup", "t_warmup=0.002dur", 1, {{0, 0}, {0.1, 0.5}, {1, 1}, END}},
    };
    for (size_t i = 0; i < sizeof curves / sizeof curves[0]; i++)
        run(&curves[i], &axis, 1e-12);
}

/* On an axis of seconds the same curves run over seconds, and nothing is cut to whole ones: 5
   seconds, a tenth of which is half a second. */
static void test_seconds(void **state)
{
    (void)state;
    vv_axis axis = VV_AXIS_UNKNOWN;
    axis.budget_seconds = 5.0;
    const curve curves[] = {
        {"linear_decay", "", 1, {{0, 1}, {1.25, 0.75}, {5, 0}, {6, 0}, END}},
        {"linear_decay_with_warmup", "t_warmup=0.1dur", 1, {{0.25, 0.5}, {0.5, 1}, {2.75, 0.5}, END}},
        {"cosine_decay_with_warmup", "t_warmup=1sec", 1, {{0.5, 0.5}, {1, 1}, {3, 0.5}, {5, 0}, END}},
        {"one_cycle", "t_peak=0.3dur", 1, {{0.75, 0.5}, {1.5, 1}, {3.25, 0.5}, {5, 0}, END}},
        {"multistep", "milestones=[0.5dur,4sec]", 1, {{2.4, 1}, {2.5, 0.1}, {4, 0.01}, END}},
        /* stretched: seconds are, shares were with the duration */
        {"multistep", "milestones=[0.5dur,8sec]", 0.5, {{2.4, 1}, {2.5, 0.1}, {4, 0.01}, END}},
    };
    for (size_t i = 0; i < sizeof curves / sizeof curves[0]; i++)
        run(&curves[i], &axis, 1e-12);
}

/* ---- what cannot work ---- */
static void refuse(const char *name, const char *settings, const vv_axis *axis, double ssr,
                   const char *says)
{
    vv_schedule *schedule = make(name, settings);
    vv_error_clear();
    vv_status status = vv_schedule_check(schedule, axis, ssr);
    if (status == VV_OK)
        fail_msg("%s %s was accepted", name, settings);
    assert_says(name);
    assert_says(says);
    vv_schedule_free(schedule);
}

static void test_checks(void **state)
{
    (void)state;
    const vv_axis axis = {10, 4, -1, 100, -1, 0, NULL, 0},
                  unknown = {-1, -1, -1, 100, -1, 0, NULL, 0};
    refuse("cosine_decay_with_warmup", "t_warmup=5ba,t_max=50ba", &axis, 1, "t_max is 50 batches");
    refuse("linear_decay_with_warmup", "t_warmup=5ba,t_max=9ep", &axis, 1, "training takes 100");
    refuse("polynomial_with_warmup", "t_warmup=5ba,t_max=100ba", &axis, 0.5, "t_max is 50 batches");
    refuse("constant_with_warmup", "t_warmup=5ba,t_max=50ba", &axis, 1, "t_max");
    refuse("cosine_decay_with_warmup", "t_warmup=0ba", &axis, 1, "t_warmup is 0 batches");
    refuse("multistep_with_warmup", "t_warmup=0ba,milestones=[5ba]", &axis, 1, "t_warmup");
    refuse("multistep", "milestones=[]", &axis, 1, "milestones");
    refuse("step", "step_size=0ba", &axis, 1, "step_size");
    refuse("step", "step_size=3sec", &axis, 1, "step_size");
    refuse("exponential", "gamma=0.5,decay_period=0ba", &axis, 1, "decay_period");
    refuse("exponential", "gamma=0.5", &unknown, 1, "decay_period");
    refuse("cosine_decay", "t_max=0ba", &axis, 1, "t_max");
    refuse("cosine_warmrestart", "t_0=30ba,t_mult=0.5", &axis, 1, "t_mult");
    refuse("cosine_warmrestart", "t_0=0ba", &axis, 1, "t_0");
    refuse("constant", "", &axis, 0, "scale_schedule_ratio");
    refuse("constant", "", &axis, NAN, "scale_schedule_ratio");
    /* what the run's length makes good */
    const char *fine[][2] = {{"cosine_decay_with_warmup", "t_warmup=5ba"},
                             {"cosine_decay_with_warmup", "t_warmup=5ba,t_max=10ep"},
                             {"linear_decay_with_warmup", "t_warmup=5ba,t_max=400sp"},
                             {"cosine_decay", "t_max=50ba"},
                             {"cosine_warmrestart", "t_0=80ba,t_mult=0.5"},
                             {"one_cycle", "t_peak=15ba"},
                             {"constant", ""}};
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        vv_schedule *schedule = make(fine[i][0], fine[i][1]);
        assert_ok(vv_schedule_check(schedule, &axis, 1.0));
        vv_schedule_free(schedule);
    }
}

static void test_wrong_use(void **state)
{
    (void)state;
    const vv_axis axis = {10, 4, -1, 100, -1, 0, NULL, 0};
    vv_schedule *schedule = NULL;
    double factor;
    assert_fails(vv_schedule_new(&schedule, vv_schedule_find("step"), NULL), VV_EINVAL);
    assert_says("step_size must be given");
    assert_null(schedule);
    assert_fails(vv_schedule_new(&schedule, NULL, NULL), VV_EINVAL);
    assert_null(vv_schedule_find("cosine"));
    assert_ok(vv_schedule_new(&schedule, vv_schedule_find("cosine_decay"), NULL));
    assert_ptr_equal(vv_schedule_type(schedule), vv_schedule_find("cosine_decay"));
    const vv_schedule_settings *opts = vv_schedule_opts(schedule);
    assert_int_equal(opts->t_max.unit, VV_UNIT_DURATION);
    assert_fails(vv_schedule_factor(schedule, &axis, 1.0, -1.0, &factor), VV_EINVAL);
    assert_fails(vv_schedule_factor(schedule, &axis, -1.0, 1.0, &factor), VV_EINVAL);
    vv_schedule_free(schedule);
    vv_schedule_free(NULL);
    schedule = make("exponential", "gamma=1000");
    assert_fails(vv_schedule_factor(schedule, &axis, 1.0, 1e6, &factor), VV_ENUMERIC);
    assert_says("exponential");
    vv_schedule_free(schedule);
}

/* Every schedule of the table is found by its name and is described. */
static void test_table(void **state)
{
    (void)state;
    int count = 0;
    for (int i = 0; vv_schedule_table()[i]; i++, count++) {
        const vv_schedule_desc *desc = vv_schedule_table()[i];
        assert_ptr_equal(vv_schedule_find(desc->desc.name), desc);
        assert_string_equal(desc->desc.kind, "schedule");
        assert_true(desc->desc.summary[0] != 0);
        if (i > 0)
            assert_true(strcmp(vv_schedule_table()[i - 1]->desc.name, desc->desc.name) < 0);
    }
    assert_int_equal(count, 14);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    const vv_schedule_desc *desc = vv_schedule_find("multistep");
    vv_time items[] = {vv_time_of(5, VV_UNIT_BATCH), vv_time_of(1, VV_UNIT_EPOCH)};
    const vv_schedule_settings opts = {.milestones = {items, 2}, .gamma = 0.5};
    for (uint64_t nth = 1;; nth++) {
        vv_schedule *schedule = NULL;
        int64_t live = vv_memory_live_count();
        vv_memory_fail_at(nth);
        vv_status status = vv_schedule_new(&schedule, desc, &opts);
        vv_memory_fail_at(0);
        if (status != VV_OK) {
            assert_int_equal(status, VV_ENOMEM);
            assert_null(schedule);
        }
        vv_schedule_free(schedule);
        assert_int_equal(vv_memory_live_count(), live);
        if (status == VV_OK)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),       cmocka_unit_test(test_all_warmup),
        cmocka_unit_test(test_b23),           cmocka_unit_test(test_scale_warmup),
        cmocka_unit_test(test_units),         cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_checks),
        cmocka_unit_test(test_wrong_use),     cmocka_unit_test(test_table),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("schedules", tests, NULL, NULL);
}
