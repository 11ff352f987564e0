/* test_optimizer_monitor.c - the norms are those of the gradient before clipping, of the weights
 * after the step, of their change, and of the optimizer's state; they come at the interval only; a
 * step that is not taken has an update of 0; a unit that cannot be resolved is refused. */
#include "callbacks/callback_test.h"

#include <vivace/optimizer_monitor.h>

static double value_of(const numbers *got, const char *name, int64_t batch)
{
    for (int i = 0; i < got->count; i++)
        if (got->batches[i] == batch && strcmp(got->names[i], name) == 0)
            return got->values[i];
    return (double)NAN;
}

typedef struct expected {
    double before[48], grad[16], param[16], update[16]; /* of 3.weight; by batch */
    int64_t skip;
} expected;

static vv_status watch(void *ctx, vv_event event, vv_state *state)
{
    expected *e = ctx;
    const vv_param *p = vv_module_param(vv_module_find(state->model->net, "3"), "weight");
    int64_t batch = state->time.batch;
    double sum = 0.0, change = 0.0;
    if (event == VV_EVENT_BATCH_START)
        for (int64_t i = 0; i < p->value->count; i++)
            e->before[i] = vv_tensor_get(p->value, i);
    if (event == VV_EVENT_AFTER_TRAIN_BATCH) {
        for (int64_t i = 0; i < p->grad->count; i++)
            sum += pow(vv_tensor_get(p->grad, i), 2.0);
        e->grad[batch + 1] = sqrt(sum);
        state->skip_step = batch + 1 == e->skip;
    }
    if (event == VV_EVENT_BATCH_END) {
        for (int64_t i = 0; i < p->value->count; i++) {
            sum += pow(vv_tensor_get(p->value, i), 2.0);
            change += pow(vv_tensor_get(p->value, i) - e->before[i], 2.0);
        }
        e->param[batch] = sqrt(sum);
        e->update[batch] = sqrt(change);
    }
    return VV_OK;
}

static vv_status run(const char *interval, bool layers, double clip, expected *e, numbers *got)
{
    vv_optimizer_monitor_opts opts = VV_OPTIMIZER_MONITOR_DEFAULTS;
    assert_ok(vv_time_parse(&opts.interval, interval, VV_UNIT_NONE));
    opts.layers = layers;
    vv_callback *callbacks[3] = {NULL};
    vv_logger *loggers[2] = {NULL};
    assert_ok(vv_callback_new(&callbacks[0], &vv_callback_optimizer_monitor, &opts));
    callbacks[1] = tt_listen_with(watch, e);
    assert_ok(vv_logger_new(&loggers[0], &hearing_desc, NULL));
    tt_data train;
    tt_data_init(&train, 10, 2, true);
    vv_trainer_opts o = VV_TRAINER_DEFAULTS;
    o.model = tt_mlp(0.0);
    o.train = train.loader;
    o.max_duration = "2ep";
    o.callbacks = callbacks;
    o.loggers = loggers;
    o.grad_clip_norm = clip;
    o.optimizer_desc = vv_optimizer_find("decoupled_adamw");
    heard = got;
    vv_trainer *trainer;
    assert_ok(vv_trainer_new(&trainer, &o));
    vv_status status = vv_trainer_fit(trainer);
    vv_trainer_free(trainer);
    tt_data_fini(&train);
    return status;
}

static void test_norms(void **unused)
{
    (void)unused;
    expected e = {.skip = 6};
    numbers got = {0};
    assert_ok(run("3ba", true, 0.01, &e, &got));
    for (int64_t b = 1; b <= 10; b++) {
        double grad = value_of(&got, "l2_norm/grad/3.weight", b - 1);
        double param = value_of(&got, "l2_norm/param/3.weight", b);
        double update = value_of(&got, "l2_norm/update/3.weight", b);
        double moment = value_of(&got, "l2_norm/moment/3.weight", b);
        assert_int_equal(isnan(param), b % 3 != 0);
        assert_int_equal(isnan(grad), b % 3 != 0);
        if (b % 3)
            continue;
        assert_near(grad, e.grad[b], 0.0, 1e-6);
        assert_near(param, e.param[b], 0.0, 1e-6);
        assert_near(update, e.update[b], 1e-12, 1e-6);
        assert_int_equal(update == 0.0, b == 6);
        assert_true(moment > 0.0 && moment <= 0.01); /* of clipped gradients */
        assert_true(value_of(&got, "l2_norm/grad/global", b - 1) > grad);
        assert_true(value_of(&got, "l2_norm/update/global", b) >= update);
    }
}

static void test_whole(void **unused)
{
    (void)unused;
    expected e = {0};
    numbers got = {0};
    assert_ok(run("1ep", false, 0.0, &e, &got));
    int count = 0;
    for (int i = 0; i < got.count; i++)
        if (strncmp(got.names[i], "l2_norm/", 8) == 0) {
            assert_non_null(strstr(got.names[i], "/global"));
            count++;
        }
    assert_int_equal(count, 6); /* grad, param, update at batches 5 and 10 */
    assert_true(value_of(&got, "l2_norm/param/global", 5) > e.param[5]);
    assert_int_not_equal(run("3iter", false, 0.0, &e, &got), VV_OK);
    assert_says("interval");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
