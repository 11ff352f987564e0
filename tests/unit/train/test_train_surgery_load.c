/* test_train_surgery_load.c - a checkpoint made with a method that changes the model: a run without
 * that method gets it again, with its settings, in the recorded order and before the weights are
 * taken, says so, and keeps it; also by hand, on a model and optimizer that exist. Without a way to
 * find methods, or if the user leaves it out, the sentence names it. Saved state of callbacks finds
 * them by name. */
#include "train_test.h"

/* ---- a method that puts a linear layer of its own into the place of the dropout ---- */

typedef struct widen_opts {
    double scale;
    const char *note;
    bool twice;
} widen_opts;

#define WIDEN(field) offsetof(widen_opts, field)
static const vv_field widen_fields[] = {
    {.name = "scale", .help = "first value", .type = VV_FIELD_FLOAT, .offset = WIDEN(scale),
     .fallback = "1"},
    {.name = "note", .help = "a text", .type = VV_FIELD_STRING, .offset = WIDEN(note),
     .fallback = ""},
    {.name = "twice", .help = "nothing", .type = VV_FIELD_BOOL, .offset = WIDEN(twice),
     .fallback = "false"},
    {.name = NULL},
};

static vv_status replace(void *ctx, vv_module *layer, int index, vv_module **out)
{
    const widen_opts *opts = ctx;
    (void)layer;
    (void)index;
    VV_TRY(vv_linear_new(out, 16, 16, false));
    vv_tensor_fill(vv_module_param(*out, "weight")->value, opts->scale);
    return VV_OK;
}

static vv_status widen(vv_method *method, vv_event event, vv_state *state)
{
    (void)event;
    const vv_policy policy = {.type = &vv_dropout_class, .replace = replace, .ctx = method->opts};
    return vv_module_replace(state->model->net, &policy, 1, state->optimizer, &method->effect);
}

static const vv_method_desc widen_desc = {
    .desc = {"method", "widen", "For a test.", "", "any", widen_fields, sizeof(widen_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .required_on_load = true,
    .apply = widen,
};

static vv_status find(const vv_method_desc **out, const char *name)
{
    *out = strcmp(name, "widen") == 0 ? &widen_desc : NULL;
    return *out ? VV_OK : vv_fail(VV_ENOTFOUND, "there is no method \"%s\"", name);
}

static vv_trainer_opts run_opts(tt_data *data, const vv_sgd_opts *sgd)
{
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.2);
    opts.optimizer_desc = vv_optimizer_find("sgd");
    opts.optimizer_opts = sgd;
    opts.train = data->loader;
    opts.max_duration = "2ep";
    opts.backend = vv_backend_find("ref");
    return opts;
}

/* Trains one epoch with the method and saves. */
static tt_weights make_checkpoint(tt_data *data, const vv_sgd_opts *sgd, const char *path,
                                  bool weights_only)
{
    const widen_opts settings = {0.25, "a, b=[c]", true};
    vv_method *method;
    vv_trainer *trainer;
    assert_ok(vv_method_new(&method, &widen_desc, &settings));
    vv_trainer_opts opts = run_opts(data, sgd);
    opts.max_duration = "1ep";
    opts.methods = VV_LIST(method);
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    if (weights_only)
        assert_ok(vv_trainer_save_weights(trainer, path));
    else
        assert_ok(vv_trainer_save(trainer, path));
    tt_weights w = tt_weights_of(trainer);
    vv_trainer_free(trainer);
    return w;
}

static void check_applied(vv_trainer *trainer, const tt_weights *expected)
{
    const vv_state *state = vv_trainer_state(trainer);
    assert_int_equal(state->method_count, 1);
    assert_string_equal(state->methods[0]->type->desc.name, "widen");
    const widen_opts *settings = state->methods[0]->opts;
    assert_true(settings->scale == 0.25 && settings->twice);
    assert_string_equal(settings->note, "a, b=[c]");
    tt_weights w = tt_weights_of(trainer);
    assert_same_bits(expected, &w);
    free(w.values);
    assert_int_equal(vv_optimizer_param_count(state->optimizer), 5);
    assert_ok(vv_optimizer_check(state->optimizer, state->model->net));
}

static void test_applied_again(void **unused)
{
    (void)unused;
    char folder[256], path[300], again[300];
    tt_data data;
    const vv_sgd_opts sgd = {.lr = 0.1, .momentum = 0.9};
    tt_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    snprintf(again, sizeof again, "%s/b.safetensors", folder);
    for (int weights_only = 0; weights_only < 2; weights_only++) {
        tt_data_init(&data, 10, 5, true);
        tt_weights expected = make_checkpoint(&data, &sgd, path, weights_only);
        vv_trainer *trainer;

        vv_trainer_opts opts = run_opts(&data, &sgd);
        opts.load_path = path;
        opts.load_weights_only = weights_only;
        opts.load.find_method = find;
        assert_ok(vv_trainer_new(&trainer, &opts));
        check_applied(trainer, &expected);
        assert_ok(vv_trainer_save(trainer, again));
        assert_ok(vv_trainer_fit(trainer)); /* it trains */
        vv_trainer_free(trainer);

        /* The method stays with what was saved from there. */
        opts = run_opts(&data, &sgd);
        opts.load_path = again;
        opts.load.find_method = find;
        assert_ok(vv_trainer_new(&trainer, &opts));
        check_applied(trainer, &expected);
        vv_trainer_free(trainer);

        /* By hand, when the optimizer exists already. Twice is once. */
        opts = run_opts(&data, &sgd);
        opts.load.find_method = find;
        assert_ok(vv_trainer_new(&trainer, &opts));
        for (int i = 0; i < 2; i++) {
            assert_ok(vv_trainer_load(trainer, path, weights_only));
            check_applied(trainer, &expected);
        }
        vv_trainer_free(trainer);
        free(expected.values);
        tt_data_fini(&data);
    }
    tt_remove(folder);
}

static void test_refused(void **unused)
{
    (void)unused;
    char folder[256], path[300];
    tt_data data;
    const vv_sgd_opts sgd = {.lr = 0.1, .momentum = 0.9};
    vv_trainer *trainer;
    tt_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    tt_data_init(&data, 10, 5, true);
    tt_weights w = make_checkpoint(&data, &sgd, path, false);
    free(w.values);
    vv_trainer_opts opts = run_opts(&data, &sgd);
    opts.load_path = path;
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("add widen to the run's methods");
    opts = run_opts(&data, &sgd);
    opts.load_path = path;
    opts.load.find_method = find;
    opts.load.exclude_methods = "blurpool, wid*";
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EFORMAT); /* so the weights do not fit */
    assert_says("2.weight");
    tt_data_fini(&data);
    tt_remove(folder);
}

/* ---- callbacks ---- */

static vv_status save_number(vv_callback *callback, vv_record *record)
{
    return vv_record_set_int(record, "number", *(const int64_t *)callback->self);
}

static vv_status load_number(vv_callback *callback, const vv_record *record)
{
    return vv_record_get_int(record, "number", callback->self);
}

static const vv_callback_desc one_desc = {
    .desc = {"callback", "one", "For a test.", "", "any", tt_no_fields, 0},
    .self_size = sizeof(int64_t), .save = save_number, .load = load_number};
static const vv_callback_desc two_desc = {
    .desc = {"callback", "two", "For a test.", "", "any", tt_no_fields, 0},
    .self_size = sizeof(int64_t), .save = save_number, .load = load_number};

static vv_callback *make(const vv_callback_desc *desc, int64_t number)
{
    vv_callback *callback;
    assert_ok(vv_callback_new(&callback, desc, NULL));
    *(int64_t *)callback->self = number;
    return callback;
}

static void test_callbacks(void **unused)
{
    (void)unused;
    char folder[256], path[300];
    tt_data data;
    const vv_sgd_opts sgd = {.lr = 0.1, .momentum = 0.9};
    vv_trainer *trainer;
    tt_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    tt_data_init(&data, 10, 5, true);
    vv_callback *first[] = {make(&one_desc, 1), make(&two_desc, 2), make(&one_desc, 3), NULL};
    vv_trainer_opts opts = run_opts(&data, &sgd);
    opts.callbacks = first;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_save(trainer, path));
    vv_trainer_free(trainer);

    vv_callback *second[] = {make(&two_desc, 0), make(&one_desc, 0), make(&one_desc, 0),
                             make(&two_desc, 9), NULL};
    opts = run_opts(&data, &sgd);
    opts.callbacks = second;
    opts.load_path = path;
    assert_ok(vv_trainer_new(&trainer, &opts));
    const int64_t expected[] = {2, 1, 3, 9};
    for (int i = 0; i < 4; i++)
        assert_int_equal(*(const int64_t *)second[i]->self, expected[i]);
    vv_trainer_free(trainer);

    vv_callback *third[] = {make(&one_desc, 7), NULL};
    opts = run_opts(&data, &sgd);
    opts.callbacks = third;
    opts.load_path = path;
    opts.load.ignore = "callbacks/*";
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_int_equal(*(const int64_t *)third[0]->self, 7);
    vv_trainer_free(trainer);
    tt_data_fini(&data);
    tt_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_applied_again), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_callbacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
