/* test_train_averages.c - what must hold where the weights that are evaluated are not the trained
 * ones: a schedule-free optimizer's average is seen in evaluation and in files, the trained weights
 * everywhere else, to the bit, also after failures; runs resume bit-equal; averages of methods and
 * of optimizers are not mixed; running statistics are made anew while training goes on as it
 * was. */
#include "method_world.h"

#include <vivace/safetensors.h>

typedef struct witness {
    mw_weights trained, seen;
    bool fail_eval;
} witness;
static witness *the_witness;

static vv_status watch(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    witness *w = the_witness;
    const mw_weights now = mw_of(state->model->net);
    if (event == VV_EVENT_BATCH_END)
        w->trained = now;
    else if (event == VV_EVENT_BATCH_START)
        assert_true(w->trained.count == 0 || mw_equal(&now, &w->trained));
    else if (event == VV_EVENT_EVAL_BATCH_START) {
        w->seen = now;
        if (w->fail_eval)
            return vv_fail(VV_EIO, "the test's evaluation breaks");
    }
    return VV_OK;
}
static const vv_callback_desc watcher =
    MW_CALLBACK("watcher",
                VV_EVENT_BIT(VV_EVENT_BATCH_START) | VV_EVENT_BIT(VV_EVENT_BATCH_END) |
                    VV_EVENT_BIT(VV_EVENT_EVAL_BATCH_START),
                watch);

static vv_trainer *start(const mw_data *d, witness *w, const char *optimizer, const char *load)
{
    vv_trainer *trainer;
    vv_trainer_opts opts = mw_opts(d, false, "6ba");
    vv_callback *callbacks[2] = {mw_callback(&watcher), NULL};
    the_witness = w;
    opts.optimizer_desc = vv_optimizer_find(optimizer);
    opts.optimizer_opts = NULL;
    opts.callbacks = callbacks;
    opts.eval = d->eval;
    opts.eval_interval = "2ba";
    opts.load_path = load;
    assert_ok(vv_trainer_new(&trainer, &opts));
    return trainer;
}

/* x of the formulas, from the trained weights y and the state z: y = 0.9 x + 0.1 z. */
typedef struct states {
    mw_weights x, z;
} states;
static bool take_state(void *ctx, const char *name, vv_tensor *tensor)
{
    states *s = ctx;
    const size_t n = strlen(name);
    if (n > 2 && (strcmp(name + n - 2, ".x") == 0 || strcmp(name + n - 2, ".z") == 0)) {
        mw_weights *to = name[n - 1] == 'x' ? &s->x : &s->z;
        memcpy(to->values + to->count, tensor->data, tensor->bytes);
        to->count += (int)tensor->count;
    }
    return true;
}

static void schedule_free(void **unused)
{
    (void)unused;
    static const char *const optimizers[] = {"schedule_free_sgd", "schedule_free_adamw"};
    for (int k = 0; k < 2; k++) {
        mw_data d;
        witness w = {.fail_eval = false};
        char path[256];
        vv_safetensors *file;
        mw_path(path);
        mw_open(&d, 12, 6);
        vv_trainer *trainer = start(&d, &w, optimizers[k], NULL);
        vv_state *state = vv_trainer_state(trainer);
        const mw_weights first = mw_of_trainer(trainer);
        assert_ok(vv_trainer_eval(trainer)); /* before any step both are one */
        assert_true(mw_equal(&w.seen, &first));
        assert_ok(vv_trainer_fit(trainer));

        states s = {.x = {.count = 0}};
        assert_ok(vv_optimizer_each_state(state->optimizer, state->model->net, take_state, &s));
        const mw_weights trained = mw_of_trainer(trainer);
        assert_true(mw_equal(&trained, &w.trained));
        assert_true(mw_equal(&w.seen, &s.x));
        assert_true(mw_difference(&w.seen, &trained) > 1e-5);
        for (int i = 0; i < trained.count; i++)
            assert_near((double)trained.values[i],
                        0.9 * (double)s.x.values[i] + 0.1 * (double)s.z.values[i], 1e-5, 1e-5);

        w.fail_eval = true;
        assert_fails(vv_trainer_eval(trainer), VV_EIO);
        mw_weights now = mw_of_trainer(trainer);
        assert_true(mw_equal(&now, &trained));
        w.fail_eval = false;

        /* The file's model is the average; a loaded run has both in their places. */
        assert_ok(vv_trainer_save(trainer, path));
        now = mw_of_trainer(trainer);
        assert_true(mw_equal(&now, &trained));
        assert_ok(vv_safetensors_open(&file, path));
        assert_memory_equal(vv_safetensors_find(file, "0.weight")->data, s.x.values,
                            108 * sizeof(float));
        vv_safetensors_close(file);
        vv_trainer_free(trainer);
        trainer = start(&d, &w, optimizers[k], path);
        now = mw_of_trainer(trainer);
        assert_true(mw_equal(&now, &trained));
        assert_ok(vv_trainer_eval(trainer));
        assert_true(mw_equal(&w.seen, &s.x));
        vv_trainer_free(trainer);
        unlink(path);
        mw_close(&d);
    }
}

/* The same batches in sittings of one, through files. */
static void resuming(void **unused)
{
    (void)unused;
    static const char *const optimizers[] = {"schedule_free_sgd", "schedule_free_adamw", "muon",
                                             "normuon", "soap"};
    static const vv_callback_desc stopper =
        MW_CALLBACK("stopper", VV_EVENT_BIT(VV_EVENT_BATCH_END), mw_interrupt);
    for (size_t k = 0; k < sizeof optimizers / sizeof *optimizers; k++) {
        mw_data d;
        mw_weights ends[2];
        char path[256];
        mw_path(path);
        mw_open(&d, 12, 6);
        for (int parts = 0; parts < 2; parts++)
            for (int i = 0;; i++) {
                vv_trainer *trainer;
                vv_trainer_opts opts = mw_opts(&d, true, "4ba");
                vv_callback *callbacks[2] = {parts ? mw_callback(&stopper) : NULL, NULL};
                opts.optimizer_desc = vv_optimizer_find(optimizers[k]);
                opts.optimizer_opts = NULL;
                opts.callbacks = callbacks;
                opts.load_path = i ? path : NULL;
                assert_ok(vv_trainer_new(&trainer, &opts));
                const vv_status status = vv_trainer_fit(trainer);
                ends[parts] = mw_of_trainer(trainer);
                if (status != VV_OK) {
                    assert_int_equal(status, VV_EINTERRUPTED);
                    assert_ok(vv_trainer_save(trainer, path));
                }
                vv_trainer_free(trainer);
                if (status == VV_OK)
                    break;
            }
        assert_true(mw_equal(&ends[0], &ends[1]));
        unlink(path);
        mw_close(&d);
    }
}

static void not_mixed(void **unused)
{
    (void)unused;
    static const char *const methods[] = {"ema", "swa", "lookahead"};
    for (int i = 0; i < 3; i++) {
        mw_data d;
        vv_trainer *trainer;
        mw_open(&d, 12, 6);
        vv_trainer_opts opts = mw_opts(&d, false, "2ba");
        vv_method *method = mw_method(methods[i], NULL);
        opts.methods = (vv_method_list){&method, 1};
        opts.optimizer_desc = vv_optimizer_find("schedule_free_sgd");
        opts.optimizer_opts = NULL;
        assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
        assert_says("averages the weights itself");
        mw_close(&d);
    }
}

/* ---- going back ---- */

static mw_weights history[8];
static int went_back;
static vv_status go_back(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    if (event == VV_EVENT_BATCH_END) {
        history[state->time.batch] = mw_of(state->model->net);
        return VV_OK;
    }
    if (state->time.batch != 3 || went_back++)
        return VV_OK;
    int64_t to;
    VV_TRY(vv_state_roll_back(state, &to));
    assert_int_equal(to, 2);
    const mw_weights now = mw_of(state->model->net);
    assert_true(mw_equal(&now, &history[2]));
    return VV_OK;
}

/* A run that goes back to its last checkpoint goes on from the trained weights of it. */
static void rolling_back(void **unused)
{
    (void)unused;
    static const vv_callback_desc backer =
        MW_CALLBACK("backer",
                    VV_EVENT_BIT(VV_EVENT_AFTER_TRAIN_BATCH) | VV_EVENT_BIT(VV_EVENT_BATCH_END),
                    go_back);
    for (int k = 0; k < 2; k++) {
        mw_data d;
        vv_trainer *trainer;
        char dir[256], command[300];
        mw_path(dir);
        unlink(dir);
        mw_open(&d, 12, 6);
        vv_trainer_opts opts = mw_opts(&d, true, "5ba");
        vv_method *method = k ? NULL : mw_method("ema", "half_life=1ba");
        vv_callback *callbacks[2] = {mw_callback(&backer), NULL};
        if (k) {
            opts.optimizer_desc = vv_optimizer_find("schedule_free_sgd");
            opts.optimizer_opts = NULL;
        }
        opts.methods = (vv_method_list){&method, k ? 0 : 1};
        opts.callbacks = callbacks;
        opts.run_dir = dir;
        opts.save_interval = "2ba";
        opts.eval = d.eval;
        opts.eval_interval = "1ba";
        went_back = 0;
        assert_ok(vv_trainer_new(&trainer, &opts));
        assert_ok(vv_trainer_fit(trainer));
        assert_int_equal(went_back > 0, 1);
        assert_true(mw_equal(&history[4], &history[2])); /* the step was left out, too */
        assert_true(mw_difference(&history[5], &history[4]) > 1e-6);
        vv_trainer_free(trainer);
        mw_close(&d);
        snprintf(command, sizeof command, "rm -rf '%s'", dir);
        assert_int_equal(system(command), 0);
    }
}

/* ---- running statistics ---- */

static vv_status recompute(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    int count = -1;
    VV_TRY(vv_state_recompute_norms(state, 1, &count));
    assert_int_equal(count, vv_module_count(state->model->net, &vv_batch_norm_class));
    return VV_OK;
}

/* In the middle of an epoch the loader goes on where it was: the parameters train as without. */
static void norms(void **unused)
{
    (void)unused;
    static const vv_callback_desc recomputer =
        MW_CALLBACK("recomputer", VV_EVENT_BIT(VV_EVENT_BATCH_END), recompute);
    for (int norm = 0; norm < 2; norm++) {
        mw_data d;
        vv_trainer *trainer;
        mw_open(&d, 18, 6);
        vv_trainer_opts opts = mw_opts(&d, norm, "7ba");
        vv_callback *callbacks[2] = {mw_callback(&recomputer), NULL};
        opts.callbacks = callbacks;
        assert_ok(vv_trainer_new(&trainer, &opts));
        assert_ok(vv_trainer_fit(trainer));
        const mw_weights with = mw_of_trainer(trainer);
        vv_trainer_free(trainer);
        opts = mw_opts(&d, norm, "7ba");
        assert_ok(vv_trainer_new(&trainer, &opts));
        assert_ok(vv_trainer_fit(trainer));
        const mw_weights without = mw_of_trainer(trainer);
        for (int i = 0; i < with.count; i++)
            if (!norm || i < 116 || i >= 124) /* buffers of the batch norm */
                assert_true(with.values[i] == without.values[i]);
        if (norm)
            assert_true(memcmp(with.values + 116, without.values + 116, 8 * sizeof(float)) != 0);
        vv_trainer_free(trainer);
        mw_close(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedule_free), cmocka_unit_test(resuming), cmocka_unit_test(not_mixed),
        cmocka_unit_test(rolling_back), cmocka_unit_test(norms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
