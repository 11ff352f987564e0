/* test_lookahead.c - what must hold: the update follows its formula and leaves equal weights alone
 * to the bit; a run follows its formula and ends with the slow weights, also when it is
 * stopped early; it resumes bit-equal; it starts from loaded weights. */
#include "method_world.h"

#include "lookahead.h"

static void formula(void **unused)
{
    (void)unused;
    vv_lookahead_opts opts = VV_LOOKAHEAD_DEFAULTS;
    assert_near(vv_lookahead_share(&opts, 1.0), 0.7737809375, 1e-12, 0);
    assert_near(vv_lookahead_share(&opts, 0.5), 0.7737809375 / 8, 1e-12, 0);
    assert_true(vv_lookahead_share(&opts, 0.0) == 0.0);
    opts.power = 0;
    assert_near(vv_lookahead_share(&opts, 0.1), 0.7737809375, 1e-12, 0);

    static const float start[] = {1, 8, 0.1f}, moved[] = {3, 0, 0.1f};
    vv_module *net = mw_bare(start, 3);
    vv_weights *slow;
    float *w = vv_module_param(net, "weight")->value->data;
    assert_ok(vv_weights_new(&slow, net));
    memcpy(w, moved, sizeof moved);
    vv_lookahead_update(slow, 0.75);
    assert_near((double)w[0], 1.5, 1e-6, 0);
    assert_near((double)w[1], 6, 1e-6, 0);
    assert_true(w[2] == start[2]);
    memcpy(w, moved, sizeof moved);
    vv_lookahead_update(slow, 1.0);
    assert_near((double)w[0], 1.5, 1e-6, 0);
    memcpy(w, moved, sizeof moved);
    vv_lookahead_update(slow, 0.0);
    assert_memory_equal(w, moved, sizeof moved);
    vv_weights_free(slow);
    vv_module_free(net);
}

/* ---- runs ---- */

typedef struct replay { /* what a callback saw after the last batch, and when it is to stop */
    mw_weights now;
    int64_t stop_at;
} replay;
static replay *the_replay;

static vv_status watch(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    the_replay->now = mw_of(state->model->net);
    if (state->time.batch == the_replay->stop_at)
        state->stop = true;
    return VV_OK;
}
static const vv_callback_desc watcher =
    MW_CALLBACK("watcher", VV_EVENT_BIT(VV_EVENT_BATCH_END), watch);

static mw_weights run(const char *settings, const char *duration, int64_t stop_at,
                      mw_weights *last)
{
    mw_data d;
    vv_trainer *trainer;
    replay r = {.stop_at = stop_at};
    the_replay = &r;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, true, duration);
    vv_method *method = settings ? mw_method("lookahead", settings) : NULL;
    vv_callback *callbacks[2] = {mw_callback(&watcher), NULL};
    opts.methods = (vv_method_list){&method, settings ? 1 : 0};
    opts.callbacks = callbacks;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    const mw_weights end = mw_of_trainer(trainer);
    if (last)
        *last = r.now;
    vv_trainer_free(trainer);
    mw_close(&d);
    return end;
}

static void training(void **unused)
{
    (void)unused;
    vv_module *net = mw_net(true);
    const mw_weights start = mw_of(net), plain = run(NULL, "3ba", 0, NULL);
    mw_weights want = plain, last;
    vv_module_free(net);
    /* One update at the end, share s: s * start + (1 - s) * trained. */
    const mw_weights once = run("interval=3,decay=0.5,power=0", "3ba", 0, NULL);
    for (int i = 0; i < want.count; i++)
        want.values[i] = (float)(0.125 * (double)start.values[i] +
                                 0.875 * (double)plain.values[i]);
    assert_near(mw_difference(&once, &want), 0, 1e-6, 0);
    /* No update in the run: it ends where the slow weights still are, at its start. */
    const mw_weights none = run("interval=5", "3ba", 0, NULL);
    assert_true(mw_equal(&none, &start));
    /* Share 0: slow weights are the trained ones. */
    const mw_weights fast = run("interval=1,decay=0,power=0", "3ba", 0, NULL);
    assert_true(mw_equal(&fast, &plain));
    /* Stopped early, between updates: FIT_END does what the last batch would have. */
    const mw_weights stopped = run("interval=2,decay=0.5,power=0", "9ba", 3, &last);
    assert_true(mw_difference(&stopped, &last) > 1e-5);
    const mw_weights second = run("interval=2,decay=0.5,power=0", "2ba", 0, NULL);
    assert_true(mw_equal(&stopped, &second));
}

static void resuming(void **unused)
{
    (void)unused;
    const mw_weights whole = mw_run(true, "5ba", 0, "lookahead", "interval=2");
    const mw_weights parts = mw_run_resumed(true, "5ba", "lookahead", "interval=2");
    assert_true(mw_equal(&whole, &parts));
}

/* A file without slow weights: they begin at the loaded ones. */
static void loaded_start(void **unused)
{
    (void)unused;
    mw_data d;
    vv_trainer *trainer;
    char path[256];
    mw_path(path);
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, true, "2ba");
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    assert_ok(vv_trainer_save(trainer, path));
    const mw_weights saved = mw_of_trainer(trainer);
    vv_trainer_free(trainer);
    opts = mw_opts(&d, true, "3ba");
    opts.methods = VV_LIST(vv_lookahead(100));
    opts.load_path = path;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    const mw_weights end = mw_of_trainer(trainer);
    assert_true(mw_equal(&end, &saved)); /* never updated: the run ends with them */
    vv_trainer_free(trainer);
    unlink(path);
    mw_close(&d);
}

static void settings(void **unused)
{
    (void)unused;
    assert_null(vv_lookahead(0));
    assert_says("interval");
    mw_data d;
    vv_trainer *trainer;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, true, "6ba");
    vv_optimizer_desc averaging = *vv_optimizer_find("sgd");
    averaging.evaluated_state = 1;
    opts.optimizer_desc = &averaging;
    opts.methods = VV_LIST(vv_lookahead(5));
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("averages the weights itself");
    mw_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formula),      cmocka_unit_test(training), cmocka_unit_test(resuming),
        cmocka_unit_test(loaded_start), cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
