/* test_swa.c - what must hold: the mean is the arithmetic mean of the weights visited; nothing
 * happens before the start; at the end the weights are the mean, and batch norms have the
 * statistics of training data at these weights, also if training goes on or is stopped; the
 * learning rate follows its formula and the main schedule rests; a run resumes bit-equal; bad
 * settings are refused. */
#include "method_world.h"

#include "swa.h"

static void formulas(void **unused)
{
    (void)unused;
    const float start = 5;
    vv_module *net = mw_bare(&start, 1);
    vv_weights *mean;
    assert_ok(vv_weights_new(&mean, net));
    for (int n = 1; n <= 4; n++) {
        vv_tensor_set(vv_module_param(net, "weight")->value, 0, n * n);
        vv_swa_update(mean, n);
    }
    assert_near(vv_tensor_get(vv_weights_find(mean, "weight"), 0), (1 + 4 + 9 + 16) / 4.0, 1e-6,
                0);
    vv_weights_free(mean);
    vv_module_free(net);

    assert_near(vv_swa_lr(VV_SWA_LINEAR, 10, 0.5, 0.1, 0), 0.5, 1e-12, 0);
    assert_near(vv_swa_lr(VV_SWA_LINEAR, 10, 0.5, 0.1, 5), 0.3, 1e-12, 0);
    assert_near(vv_swa_lr(VV_SWA_LINEAR, 10, 0.5, 0.1, 25), 0.1, 1e-12, 0);
    assert_near(vv_swa_lr(VV_SWA_COS, 4, 0.5, 0.1, 1),
                0.5 - 0.4 * (1 - cos(0.7853981633974483)) / 2, 1e-12, 0);
    assert_near(vv_swa_lr(VV_SWA_COS, 4, 0.5, 0.1, 4), 0.1, 1e-12, 0);
}

/* ---- runs ---- */

typedef struct witness {
    mw_weights ends[16];    /* at BATCH_END, after methods acted */
    mw_weights evaluated;
    double lr[16];
    int64_t stop_at;
} witness;
static witness *w;

static vv_status watch(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    const int64_t batch = state->time.batch;
    assert_true(batch < 16);
    if (event == VV_EVENT_BEFORE_TRAIN_BATCH) {
        w->lr[batch] = vv_optimizer_lr(state->optimizer, 0);
    } else if (event == VV_EVENT_EVAL_START) {
        w->evaluated = mw_of(state->model->net);
    } else {
        w->ends[batch] = mw_of(state->model->net);
        if (batch == w->stop_at)
            state->stop = true;
    }
    return VV_OK;
}
static const vv_callback_desc watcher =
    MW_CALLBACK("watcher",
                VV_EVENT_BIT(VV_EVENT_BEFORE_TRAIN_BATCH) | VV_EVENT_BIT(VV_EVENT_BATCH_END) |
                    VV_EVENT_BIT(VV_EVENT_EVAL_START),
                watch);

/* Two batches an epoch. The trainer is the caller's to look at. */
static vv_trainer *run(const mw_data *d, witness *to, const char *settings, const char *duration,
                       const char *schedule)
{
    vv_trainer *trainer;
    vv_trainer_opts opts = mw_opts(d, true, duration);
    vv_method *method = settings ? mw_method("swa", settings) : NULL;
    vv_callback *callbacks[2] = {mw_callback(&watcher), NULL};
    vv_schedule *schedules[2] = {NULL, NULL};
    if (schedule)
        assert_ok(vv_schedule_new(&schedules[0], vv_schedule_find(schedule), NULL));
    w = to;
    opts.methods = (vv_method_list){&method, settings ? 1 : 0};
    opts.callbacks = callbacks;
    opts.schedules = schedules;
    opts.eval = d->eval;
    opts.eval_interval = "1ep";
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    return trainer;
}

/* Parameters only: state of the net in order: conv, 4 x 4 numbers of the batch norm, the rest. */
static bool is_buffer(int i)
{
    return i >= 108 + 8 && i < 108 + 16;
}

/* Running statistics are those of the training set at the net's weights: recomputed here by hand
   over the epoch of the loader, batch by batch. */
static void statistics_fit(vv_trainer *trainer, const mw_data *d, const mw_weights *have,
                           int64_t epoch)
{
    vv_module *net = vv_trainer_state(trainer)->model->net;
    vv_module *conv = vv_module_child(net, 0);
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    vv_graph *graph;
    double mean[4] = {0}, var[4] = {0};
    int batches = 0;
    assert_ok(vv_graph_new(&graph, &graph_opts));
    assert_ok(vv_loader_seek(d->train, epoch, 0));
    for (;; batches++) {
        vv_batch *batch;
        const vv_tensor *out;
        assert_ok(vv_loader_next(d->train, &batch));
        if (!batch)
            break;
        vv_graph_reset(graph);
        vv_node *y = vv_module_forward(conv, graph, vv_leaf(graph, batch->input));
        assert_ok(vv_node_value(y, &out));
        const int64_t n = out->count / 4;
        for (int c = 0; c < 4; c++) {
            double sum = 0, squares = 0;
            for (int64_t i = 0; i < n; i++)
                sum += vv_tensor_get(out, i * 4 + c);
            for (int64_t i = 0; i < n; i++)
                squares += pow(vv_tensor_get(out, i * 4 + c) - sum / (double)n, 2);
            mean[c] += sum / (double)n;
            var[c] += squares / (double)(n - 1);
        }
        vv_graph_reset(graph);
        vv_batch_free(batch);
    }
    assert_int_equal(batches, 2);
    for (int c = 0; c < 4; c++) {
        assert_near((double)have->values[116 + c], mean[c] / batches, 1e-5, 1e-5);
        assert_near((double)have->values[120 + c], var[c] / batches, 1e-5, 1e-5);
    }
    vv_graph_free(graph);
}

/* The mean of the plain run's weights after these batches; buffers are left out. */
static void is_mean(const mw_weights *have, const witness *plain, const int *batches, int n)
{
    for (int i = 0; i < have->count; i++) {
        double sum = 0;
        for (int k = 0; k < n; k++)
            sum += (double)plain->ends[batches[k]].values[i];
        if (!is_buffer(i))
            assert_near((double)have->values[i], sum / n, 1e-6, 1e-5);
    }
}

/* Averaging of the tail: 8 batches, from half of the run on, to its end. */
static void tail(void **unused)
{
    (void)unused;
    static const struct {
        const char *settings;
        int batches[5], count;
    } cases[] = {
        {"swa_start=0.5dur,swa_end=1dur,update_interval=1ba", {4, 5, 6, 7, 8}, 5},
        {"swa_start=0.5dur,swa_end=1dur,update_interval=2ba", {4, 6, 8}, 3},
        {"swa_start=0.5dur,swa_end=1dur,update_interval=1ep", {4, 6, 8}, 3},
        {"swa_start=2ep,swa_end=4ep,update_interval=2ep", {4, 8}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mw_data d;
        static witness plain, ours;
        plain = ours = (witness){.stop_at = 0};
        mw_open(&d, 12, 6);
        vv_trainer_free(run(&d, &plain, NULL, "4ep", NULL));
        vv_trainer *trainer = run(&d, &ours, cases[i].settings, "4ep", NULL);
        for (int b = 1; b < 8; b++) /* until the exchange nothing is touched */
            assert_true(mw_equal(&plain.ends[b], &ours.ends[b]));
        const mw_weights end = mw_of_trainer(trainer);
        is_mean(&end, &plain, cases[i].batches, cases[i].count);
        assert_true(mw_equal(&end, &ours.evaluated)); /* the last evaluation sees it */
        statistics_fit(trainer, &d, &end, 3);
        vv_trainer_free(trainer);
        mw_close(&d);
    }
}

/* An exchange in the middle; then training goes on, and the last evaluation has new statistics. */
static void goes_on(void **unused)
{
    (void)unused;
    static const int batches[] = {2, 3, 4, 5};
    mw_data d;
    static witness plain, ours;
    plain = ours = (witness){.stop_at = 0};
    mw_open(&d, 12, 6);
    vv_trainer_free(run(&d, &plain, NULL, "8ba", NULL));
    vv_trainer *trainer =
        run(&d, &ours, "swa_start=0.25dur,swa_end=0.6dur,update_interval=1ba", "8ba", NULL);
    for (int b = 1; b < 5; b++)
        assert_true(mw_equal(&plain.ends[b], &ours.ends[b]));
    is_mean(&ours.ends[5], &plain, batches, 4);
    assert_true(mw_difference(&ours.ends[5], &ours.ends[8]) > 1e-4);
    const mw_weights end = mw_of_trainer(trainer);
    assert_true(mw_equal(&end, &ours.evaluated));
    statistics_fit(trainer, &d, &end, 3);
    vv_trainer_free(trainer);
    mw_close(&d);
}

/* Stopped while averaging: the run ends with the mean so far; stopped before: as it is. */
static void stopped(void **unused)
{
    (void)unused;
    static const int batches[] = {4, 5};
    mw_data d;
    static witness plain, ours, early;
    plain = (witness){.stop_at = 0};
    ours = (witness){.stop_at = 5};
    early = (witness){.stop_at = 3};
    mw_open(&d, 12, 6);
    vv_trainer_free(run(&d, &plain, NULL, "8ba", NULL));
    vv_trainer *trainer =
        run(&d, &ours, "swa_start=0.5dur,swa_end=1dur,update_interval=1ba", "8ba", NULL);
    mw_weights end = mw_of_trainer(trainer);
    is_mean(&end, &plain, batches, 2);
    statistics_fit(trainer, &d, &end, 2);
    vv_trainer_free(trainer);
    trainer = run(&d, &early, "swa_start=0.5dur,swa_end=1dur,update_interval=1ba", "8ba", NULL);
    end = mw_of_trainer(trainer);
    assert_true(mw_equal(&end, &plain.ends[3]));
    vv_trainer_free(trainer);
    mw_close(&d);
}

static void learning_rate(void **unused)
{
    (void)unused;
    mw_data d;
    static witness plain, ours;
    plain = ours = (witness){.stop_at = 0};
    mw_open(&d, 12, 6);
    vv_trainer_free(run(&d, &plain, NULL, "10ba", "linear_decay"));
    vv_trainer_free(run(&d, &ours,
                        "swa_start=0.3dur,swa_end=0.8dur,update_interval=2ba,schedule_swa_lr=true,"
                        "swa_lr=0.2,anneal_steps=2",
                        "10ba", "linear_decay"));
    /* Updates after batches 3, 5, 7; the exchange at 8 gives the rate back to the schedule. */
    const double lr0 = plain.lr[2];
    const double want[] = {plain.lr[0], plain.lr[1], plain.lr[2], (lr0 + 0.2) / 2, (lr0 + 0.2) / 2,
                           0.2,         0.2,         0.2,         plain.lr[8],     plain.lr[9]};
    for (int b = 0; b < 10; b++)
        assert_near(ours.lr[b], want[b], 1e-12, 1e-12);
    mw_close(&d);
}

static void resuming(void **unused)
{
    (void)unused;
    static const char *const settings[] = {
        "swa_start=0.3dur,swa_end=1dur,update_interval=1ba",
        "swa_start=0.2dur,swa_end=0.6dur,update_interval=1ep",
        "swa_start=0.2dur,swa_end=0.8dur,update_interval=2ba,schedule_swa_lr=true,swa_lr=0.2",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const mw_weights whole = mw_run(true, "7ba", 0, "swa", settings[i]);
        const mw_weights parts = mw_run_resumed(true, "7ba", "swa", settings[i]);
        assert_true(mw_equal(&whole, &parts));
    }
}

static void settings(void **unused)
{
    (void)unused;
    vv_method *method;
    static const char *const bad[] = {
        "swa_start=0.7dur,swa_end=3ep", "swa_start=3ba,swa_end=5ba", "swa_end=1.2dur",
        "swa_start=0.97dur", "swa_start=3ep,swa_end=3ep", "update_interval=0.1dur",
        "update_interval=0ep", "schedule_swa_lr=true", "swa_lr=0.1", "anneal_steps=0",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(vv_method_make(&method, "swa", bad[i]), VV_EINVAL);
    method = vv_swa("0.5dur", "1dur", "10ba");
    assert_non_null(method);
    vv_method_free(method);
    assert_null(vv_swa(NULL, "1dur", "10ba"));

    mw_data d;
    vv_trainer *trainer;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, true, "6ba");
    vv_method *both[2] = {mw_method("swa", NULL), mw_method("ema", NULL)};
    opts.methods = (vv_method_list){both, 2};
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("both average the weights");
    mw_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas),      cmocka_unit_test(tail),     cmocka_unit_test(goes_on),
        cmocka_unit_test(stopped),       cmocka_unit_test(learning_rate),
        cmocka_unit_test(resuming),      cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
