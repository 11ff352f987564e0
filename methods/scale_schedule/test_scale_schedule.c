/* test_scale_schedule.c - what must hold: the method does what scale_schedule_ratio does: whole
 * part of the duration, and at ratio * t the learning rate that the unscaled run has at t; both at
 * once are refused, as is a ratio that is not above 0 or leaves nothing. */
#include "method_world.h"

#include "scale_schedule.h"

static double rates[64];
static vv_status watch(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    rates[state->time.batch] = vv_optimizer_lr(state->optimizer, 0);
    return VV_OK;
}
static const vv_callback_desc watcher =
    MW_CALLBACK("watcher", VV_EVENT_BIT(VV_EVENT_BATCH_START), watch);

/* Batches trained with milestones at 4 and 6 epochs of two batches. */
static int64_t run(double method_ratio, double trainer_ratio, const char *duration)
{
    mw_data d;
    vv_trainer *trainer;
    vv_schedule *schedules[2] = {NULL, NULL};
    vv_callback *callbacks[2] = {mw_callback(&watcher), NULL};
    vv_schedule_settings settings;
    const vv_schedule_desc *desc = vv_schedule_find("multistep");
    mw_open(&d, 12, 6);
    assert_ok(vv_opts_init(&desc->desc, &settings));
    assert_ok(vv_opts_set(&desc->desc, &settings, "milestones", "[4ep, 6ep]"));
    assert_ok(vv_schedule_new(&schedules[0], desc, &settings));
    vv_opts_fini(&desc->desc, &settings);
    vv_trainer_opts opts = mw_opts(&d, false, duration);
    vv_method *method = method_ratio > 0 ? vv_scale_schedule(method_ratio) : NULL;
    opts.methods = (vv_method_list){&method, method ? 1 : 0};
    opts.schedules = schedules;
    opts.callbacks = callbacks;
    opts.scale_schedule_ratio = trainer_ratio;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    const int64_t batches = vv_trainer_state(trainer)->time.batch;
    vv_trainer_free(trainer);
    mw_close(&d);
    return batches;
}

static void scales(void **unused)
{
    (void)unused;
    double whole[64], ratio[64];
    assert_int_equal(run(0, 1.0, "8ep"), 16);
    memcpy(whole, rates, sizeof rates);
    assert_int_equal(run(0, 0.5, "8ep"), 8);
    memcpy(ratio, rates, sizeof rates);
    assert_int_equal(run(0.5, 1.0, "8ep"), 8);
    for (int b = 0; b < 8; b++) {
        assert_true(rates[b] == ratio[b]);
        assert_near(rates[b], whole[2 * b], 1e-15, 0);
    }
    assert_true(rates[0] > rates[4] && rates[4] > rates[6]);
    assert_int_equal(run(2.0, 1.0, "8ep"), 32);
    assert_int_equal(run(0.45, 1.0, "8ep"), 6); /* int(3.6) epochs */
    assert_int_equal(run(1.0, 1.0, "8ep"), 16);
}

static void refusals(void **unused)
{
    (void)unused;
    assert_null(vv_scale_schedule(0));
    assert_says("ratio");
    assert_null(vv_scale_schedule(-1));
    mw_data d;
    vv_trainer *trainer;
    mw_open(&d, 12, 6);
    static const struct {
        double method, trainer;
        const char *says;
    } cases[] = {
        {0.5, 0.5, "already"}, {0.01, 1.0, "leaves nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vv_schedule *schedules[2] = {NULL, NULL};
        assert_ok(vv_schedule_new(&schedules[0], vv_schedule_find("linear_decay"), NULL));
        vv_trainer_opts opts = mw_opts(&d, false, "8ep");
        opts.methods = VV_LIST(vv_scale_schedule(cases[i].method));
        opts.schedules = schedules;
        opts.scale_schedule_ratio = cases[i].trainer;
        assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
        assert_says(cases[i].says);
    }
    mw_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scales), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
