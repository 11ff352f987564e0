/* test_ema.c - what must hold: the average follows its formula in all three forms; half of it is
 * renewed in a half-life; the weight seen outside evaluation, prediction and saving is the trained
 * one to the bit, whatever happens inside; files hold the average as the model and give the trained
 * weights back; a start from loaded weights; settings that say nothing or two are refused. */
#include "method_world.h"

#include <vivace/safetensors.h>

#include "ema.h"

/* ---- formulas ---- */

/* The average of one weight that is always 1, from a start of 0. */
static double after(int updates, double smoothing, bool corrected)
{
    const float zero = 0, one = 1;
    vv_module *net = mw_bare(&zero, 1);
    vv_weights *average;
    assert_ok(vv_weights_new(&average, net));
    memcpy(vv_module_param(net, "weight")->value->data, &one, sizeof one);
    for (int n = 1; n <= updates; n++)
        if (corrected)
            vv_ema_update_corrected(average, smoothing, n);
        else
            vv_ema_update(average, smoothing);
    const double value = vv_tensor_get(vv_weights_find(average, "weight"), 0);
    vv_weights_free(average);
    vv_module_free(net);
    return value;
}

static void formulas(void **unused)
{
    (void)unused;
    assert_near(vv_ema_smoothing(1, 10), 0.933032991536807, 1e-15, 0);
    assert_near(vv_ema_smoothing(1, 1), 0.5, 0, 0);
    assert_near(after(10, 0.99, false), 0.095618, 1e-6, 0);
    assert_near(after(10, vv_ema_smoothing(1, 10), false), 0.5, 1e-6, 0);
    assert_near(after(2, vv_ema_smoothing(5, 10), false), 0.5, 1e-6, 0);
    for (int n = 1; n < 20; n++)
        assert_true(after(n, 0.999, true) == 1.0);
    assert_true(after(3, 0.0, false) == 1.0); /* smoothing 0: the weights themselves */
    assert_true(after(3, 1.0, false) == 0.0); /* smoothing 1: never moves */
}

/* Bias-corrected: sum of s^(n-i) w_i over sum of s^(n-i), the start value nowhere. */
static void corrected_mean(void **unused)
{
    (void)unused;
    const double s = 0.8;
    const float start = 100;
    vv_module *net = mw_bare(&start, 1);
    vv_weights *average;
    double sum = 0, weight = 0;
    assert_ok(vv_weights_new(&average, net));
    for (int n = 1; n <= 12; n++) {
        const double w = n * n - 3.0;
        vv_tensor_set(vv_module_param(net, "weight")->value, 0, w);
        vv_ema_update_corrected(average, s, n);
        sum = s * sum + w;
        weight = s * weight + 1;
        assert_near(vv_tensor_get(vv_weights_find(average, "weight"), 0), sum / weight, 1e-5, 1e-5);
    }
    vv_weights_free(average);
    vv_module_free(net);
}

/* Buffers are averaged in their type: a counter is cut to a whole number. */
static void buffers(void **unused)
{
    (void)unused;
    vv_module *net = mw_net(true);
    vv_weights *average;
    vv_tensor *counter = vv_module_buffer(vv_module_child(net, 1), "num_batches_tracked");
    vv_tensor *mean = vv_module_buffer(vv_module_child(net, 1), "running_mean");
    assert_ok(vv_weights_new(&average, net));
    vv_tensor_set(counter, 0, 7);
    vv_tensor_fill(mean, 2);
    vv_ema_update(average, 0.5);
    assert_int_equal(vv_weights_find(average, "1.num_batches_tracked")->dtype, VV_I64);
    assert_true(vv_tensor_get(vv_weights_find(average, "1.num_batches_tracked"), 0) == 3.0);
    assert_near(vv_tensor_get(vv_weights_find(average, "1.running_mean"), 0), 1, 0, 0);
    vv_weights_free(average);
    vv_module_free(net);
}

/* ---- in a run ---- */

/* Follows a run by the formula, and looks at the model during evaluation. */
typedef struct witness {
    double average[1024];
    mw_weights trained, seen;
    double smoothing;
    int every, updates, evals;
    bool fail_eval;
    const char *save_in_eval;
} witness;
static witness *the_witness;

static vv_status watch(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    witness *w = the_witness;
    const mw_weights now = mw_of(state->model->net);
    if (event == VV_EVENT_INIT) {
        for (int i = 0; i < now.count; i++)
            w->average[i] = (double)now.values[i];
    } else if (event == VV_EVENT_BATCH_END) {
        w->trained = now;
        if (state->time.batch % w->every == 0)
            for (int i = 0; i < now.count; i++)
                w->average[i] =
                    w->smoothing * w->average[i] + (1 - w->smoothing) * (double)now.values[i];
    } else if (event == VV_EVENT_BATCH_START) {
        assert_true(w->trained.count == 0 || mw_equal(&now, &w->trained));
    } else if (event == VV_EVENT_EVAL_BATCH_START) {
        w->evals++;
        w->seen = now;
        if (w->save_in_eval)
            VV_TRY(vv_trainer_save(state->trainer, w->save_in_eval));
        if (w->fail_eval)
            return vv_fail(VV_EIO, "the test's evaluation breaks");
    }
    return VV_OK;
}
static const vv_callback_desc watcher =
    MW_CALLBACK("watcher",
                VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_BATCH_START) |
                    VV_EVENT_BIT(VV_EVENT_BATCH_END) | VV_EVENT_BIT(VV_EVENT_EVAL_BATCH_START),
                watch);

static vv_trainer *start(const mw_data *d, witness *w, const char *settings, const char *load)
{
    vv_trainer *trainer;
    vv_trainer_opts opts = mw_opts(d, true, "6ba");
    vv_method *method = mw_method("ema", settings);
    vv_callback *callbacks[2] = {mw_callback(&watcher), NULL};
    the_witness = w;
    opts.methods = (vv_method_list){&method, 1};
    opts.callbacks = callbacks;
    opts.eval = d->eval;
    opts.eval_interval = "2ba";
    opts.load_path = load;
    assert_ok(vv_trainer_new(&trainer, &opts));
    return trainer;
}

static void agrees(const witness *w)
{
    for (int i = 0; i < w->seen.count; i++)
        assert_near((double)w->seen.values[i], w->average[i], 1e-5, 1e-5);
}

static void run(void **unused)
{
    (void)unused;
    static const struct {
        const char *settings;
        double smoothing;
        int every;
    } cases[] = {
        {"half_life=2ba", 0.70710678118654752, 1},
        {"half_life=3ba,update_interval=2ba", 0.62996052494743658, 2},
        {"smoothing=0.9", 0.9, 1},
        {"half_life=none,smoothing=0.9,update_interval=3ba", 0.9, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mw_data d;
        witness w = {.smoothing = cases[i].smoothing, .every = cases[i].every};
        mw_open(&d, 12, 6);
        vv_trainer *trainer = start(&d, &w, cases[i].settings, NULL);
        assert_ok(vv_trainer_fit(trainer));
        const mw_weights end = mw_of_trainer(trainer);
        assert_int_equal(w.evals, 6);
        agrees(&w);
        assert_true(mw_equal(&end, &w.trained)); /* the trained weights stay in the model */
        assert_true(mw_difference(&w.seen, &end) > 1e-4);
        vv_trainer_free(trainer);
        mw_close(&d);
    }
}

/* Epochs as the unit: updates at EPOCH_END. */
static void epochs(void **unused)
{
    (void)unused;
    mw_data d;
    witness w = {.smoothing = 0.5, .every = 2}; /* two batches are an epoch */
    mw_open(&d, 12, 6);
    vv_trainer *trainer = start(&d, &w, "half_life=1ep", NULL);
    assert_ok(vv_trainer_fit(trainer));
    assert_ok(vv_trainer_eval(trainer)); /* the one of batch 6 came before the last update */
    agrees(&w);
    vv_trainer_free(trainer);
    mw_close(&d);
}

/* Before its start the method does nothing; then it begins at the weights of that moment. */
static void late_start(void **unused)
{
    (void)unused;
    mw_data d;
    witness w = {.smoothing = 0, .every = 1};
    mw_open(&d, 12, 6);
    vv_trainer *trainer = start(&d, &w, "smoothing=0.999999,ema_start=0.5dur", NULL);
    const vv_method *method = vv_trainer_state(trainer)->methods[0];
    const vv_tensor *found;
    assert_fails(vv_ema_find(&found, method, "6.bias"), VV_ESTATE);
    assert_ok(vv_trainer_fit(trainer));
    vv_trainer_free(trainer);
    /* So slow an average is still what was trained at half of the run, batch 3. */
    mw_weights third = mw_run(true, "3ba", 0, NULL, NULL);
    assert_true(mw_difference(&w.seen, &third) < 1e-5);
    mw_close(&d);
}

static void swapping(void **unused)
{
    (void)unused;
    mw_data d;
    witness w = {.smoothing = 0.9, .every = 1};
    mw_open(&d, 12, 6);
    vv_trainer *trainer = start(&d, &w, "smoothing=0.9", NULL);
    const mw_weights first = mw_of_trainer(trainer);
    assert_ok(vv_trainer_eval(trainer)); /* before the first fit */
    mw_weights now = mw_of_trainer(trainer);
    assert_true(mw_equal(&now, &first));
    assert_true(mw_equal(&w.seen, &first));

    assert_ok(vv_trainer_fit(trainer));
    const mw_weights trained = w.trained, average = w.seen;
    assert_ok(vv_trainer_eval(trainer));
    assert_ok(vv_trainer_eval(trainer));
    now = mw_of_trainer(trainer);
    assert_true(mw_equal(&now, &trained));
    assert_true(mw_equal(&w.seen, &average));

    w.fail_eval = true; /* half way through */
    assert_fails(vv_trainer_eval(trainer), VV_EIO);
    now = mw_of_trainer(trainer);
    assert_true(mw_equal(&now, &trained));
    w.fail_eval = false;
    assert_ok(vv_trainer_eval(trainer));
    assert_true(mw_equal(&w.seen, &average));

    /* The average by name, and into another net. */
    const vv_method *method = vv_trainer_state(trainer)->methods[0];
    const vv_tensor *found;
    vv_module *other = mw_net(true);
    assert_ok(vv_ema_find(&found, method, "0.weight"));
    assert_true(((const float *)found->data)[0] == average.values[0]);
    assert_fails(vv_ema_find(&found, method, "no.such"), VV_ENOTFOUND);
    assert_ok(vv_ema_copy_to(method, other));
    now = mw_of(other);
    assert_true(mw_equal(&now, &average));
    vv_module_free(other);

    /* Predictions come from what is evaluated. */
    vv_tensor *ours, *theirs;
    assert_ok(vv_trainer_predict(trainer, d.eval, &ours));
    now = mw_of_trainer(trainer);
    assert_true(mw_equal(&now, &trained));
    assert_ok(vv_ema_copy_to(method, vv_trainer_state(trainer)->model->net));
    vv_trainer_state(trainer)->methods[0]->type->swap(vv_trainer_state(trainer)->methods[0], true);
    vv_trainer_state(trainer)->methods[0]->type->swap(vv_trainer_state(trainer)->methods[0], false);
    assert_ok(vv_trainer_predict(trainer, d.eval, &theirs));
    assert_memory_equal(ours->data, theirs->data, ours->bytes);
    vv_tensor_free(ours);
    vv_tensor_free(theirs);
    vv_trainer_free(trainer);
    mw_close(&d);
}

typedef struct names {
    const vv_safetensors *file;
    const char *prefix;
    mw_weights weights;
} names;

static bool from_file(void *ctx, const char *name, vv_tensor *tensor)
{
    names *n = ctx;
    char full[256];
    if (tensor->dtype != VV_F32)
        return true;
    snprintf(full, sizeof full, "%s%s", n->prefix, name);
    const vv_tensor *saved = vv_safetensors_find(n->file, full);
    assert_non_null(saved);
    memcpy(n->weights.values + n->weights.count, saved->data, saved->bytes);
    n->weights.count += (int)saved->count;
    return true;
}

/* A file written inside an evaluation, or outside, holds both sets in their places. */
static void files(void **unused)
{
    (void)unused;
    for (int inside = 0; inside < 2; inside++) {
        mw_data d;
        char path[256];
        witness w = {.smoothing = 0.9, .every = 1};
        mw_path(path);
        mw_open(&d, 12, 6);
        vv_trainer *trainer = start(&d, &w, "smoothing=0.9", NULL);
        if (inside)
            w.save_in_eval = path; /* the last one stays */
        assert_ok(vv_trainer_fit(trainer));
        if (!inside)
            assert_ok(vv_trainer_save(trainer, path));
        const mw_weights trained = mw_of_trainer(trainer), average = w.seen;
        assert_true(mw_equal(&trained, &w.trained));

        vv_safetensors *file;
        assert_ok(vv_safetensors_open(&file, path));
        names model = {.file = file, .prefix = ""};
        names state = {.file = file, .prefix = "vivace/method/ema/trained."};
        vv_module_each_state(vv_trainer_state(trainer)->model->net, from_file, &model);
        vv_module_each_state(vv_trainer_state(trainer)->model->net, from_file, &state);
        assert_true(mw_equal(&model.weights, &average));
        assert_true(mw_equal(&state.weights, &trained));
        vv_safetensors_close(file);
        vv_trainer_free(trainer);

        witness again = {.smoothing = 0.9, .every = 1};
        trainer = start(&d, &again, "smoothing=0.9", path);
        const mw_weights loaded = mw_of_trainer(trainer);
        assert_true(mw_equal(&loaded, &trained));
        assert_ok(vv_trainer_eval(trainer));
        assert_true(mw_equal(&again.seen, &average));
        vv_trainer_free(trainer);
        unlink(path);
        mw_close(&d);
    }
}

/* A checkpoint without the method, and weights only: the average starts at what was loaded, and so
   does one that loads by hand in the middle. */
static void loaded_start(void **unused)
{
    (void)unused;
    mw_data d;
    char path[256];
    vv_trainer *trainer;
    mw_path(path);
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, true, "3ba");
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    assert_ok(vv_trainer_save(trainer, path));
    const mw_weights saved = mw_of_trainer(trainer);
    vv_trainer_free(trainer);

    witness w = {.smoothing = 0.9, .every = 1};
    trainer = start(&d, &w, "smoothing=0.9", path);
    assert_ok(vv_trainer_eval(trainer));
    assert_true(mw_equal(&w.seen, &saved));
    vv_trainer_free(trainer);

    trainer = start(&d, &w, "smoothing=0.9", NULL);
    w.trained.count = 0;
    assert_ok(vv_trainer_fit(trainer));
    assert_ok(vv_trainer_load(trainer, path, true));
    assert_ok(vv_trainer_eval(trainer));
    assert_true(mw_equal(&w.seen, &saved));
    vv_trainer_free(trainer);
    unlink(path);
    mw_close(&d);
}

static void resuming(void **unused)
{
    (void)unused;
    static const char *const settings[] = {
        "half_life=2ba", "half_life=1ep,bias_corrected=true", "smoothing=0.9,ema_start=0.5dur",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const mw_weights whole = mw_run(true, "6ba", 0, "ema", settings[i]);
        const mw_weights parts = mw_run_resumed(true, "6ba", "ema", settings[i]);
        const mw_weights plain = mw_run(true, "6ba", 0, NULL, NULL);
        assert_true(mw_equal(&whole, &parts));
        assert_true(mw_equal(&whole, &plain)); /* training itself is untouched */
    }
}

/* ---- words ---- */

static vv_str heard;
static vv_status hear(vv_logger *logger, const vv_state *state, const char *text)
{
    (void)logger;
    (void)state;
    vv_str_add(&heard, text);
    return VV_OK;
}
static const vv_logger_desc ear = {
    .desc = {"logger", "ear", "Hears messages.", "", "any", mw_no_fields, 0},
    .message = hear,
};

static bool warns(const char *settings)
{
    mw_data d;
    vv_trainer *trainer;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, true, "6ba");
    vv_method *method = mw_method("ema", settings);
    vv_logger *loggers[2] = {NULL, NULL};
    assert_ok(vv_logger_new(&loggers[0], &ear, NULL));
    opts.methods = (vv_method_list){&method, 1};
    opts.loggers = loggers;
    vv_str_clear(&heard);
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    const bool found = strstr(vv_str_text(&heard), "the start value still makes up") != NULL;
    vv_trainer_free(trainer);
    mw_close(&d);
    vv_str_fini(&heard);
    return found;
}

/* A start value that stays is told: 0.99999^25000 = 0.7788 of an average helps nobody. */
static void warnings(void **unused)
{
    (void)unused;
    assert_near(pow(0.99999, 25000), 0.7788, 1e-4, 0);
    assert_true(warns("half_life=1000ba"));
    assert_true(warns("smoothing=0.99999"));
    assert_false(warns("half_life=1ba"));
    assert_false(warns("smoothing=0.99999,bias_corrected=true"));
}

static void settings(void **unused)
{
    (void)unused;
    vv_method *method;
    static const char *const bad[] = {
        "smoothing=0.9,half_life=10ba", "half_life=none", "half_life=0ba", "half_life=1dur",
        "half_life=5sp", "smoothing=1", "half_life=10ba,update_interval=1ep", "update_interval=0ba",
        "update_interval=2sp",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(vv_method_make(&method, "ema", bad[i]), VV_EINVAL);
    assert_ok(vv_method_make(&method, "ema", "half_life=none,smoothing=0.5,update_interval=2ep"));
    vv_method_free(method);
    method = vv_ema("10ba");
    assert_non_null(method);
    vv_method_free(method);
    assert_null(vv_ema("soon"));
    assert_null(vv_ema(NULL));

    /* An optimizer or a method that averages too. */
    mw_data d;
    vv_trainer *trainer;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, true, "6ba");
    vv_optimizer_desc averaging = *vv_optimizer_find("sgd");
    averaging.evaluated_state = 1;
    opts.optimizer_desc = &averaging;
    opts.methods = VV_LIST(vv_ema("10ba"));
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("averages the weights itself");
    mw_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas),     cmocka_unit_test(corrected_mean),
        cmocka_unit_test(buffers),      cmocka_unit_test(run),
        cmocka_unit_test(epochs),       cmocka_unit_test(late_start),
        cmocka_unit_test(swapping),     cmocka_unit_test(files),
        cmocka_unit_test(loaded_start), cmocka_unit_test(resuming),
        cmocka_unit_test(warnings),     cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
