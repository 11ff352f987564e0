/* test_train_engine.c - the order of methods: phase, then `after`, then the user's; clean-up events
 * in reverse, AFTER_DATALOADER not; INIT hears loggers, callbacks, methods, every other event
 * methods, callbacks, loggers. Duplicates, conflicts, impossible orders, failed constructors and
 * surgery without an effect are refused at start with a sentence. */
#include "train_test.h"

/* Every method of this test writes its name and the event into one text. */
static char said[2048];
static const char *const only_init = "init";

static void say(const char *who, vv_event event)
{
    size_t length = strlen(said);
    snprintf(said + length, sizeof said - length, "%s.%s ", who, vv_event_name(event));
}

static vv_status method_says(vv_method *method, vv_event event, vv_state *state)
{
    if (!state->dry) /* what is planned is not done */
        say(method->type->desc.name, event);
    return VV_OK;
}

static vv_status surgery_changes(vv_method *method, vv_event event, vv_state *state)
{
    method->effect = 2;
    return method_says(method, event, state);
}

#define EVENTS                                                                                     \
    (VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER) |                       \
     VV_EVENT_BIT(VV_EVENT_BEFORE_LOSS) | VV_EVENT_BIT(VV_EVENT_AFTER_LOSS))
#define METHOD(symbol, text, ...)                                                                  \
    static const vv_method_desc symbol = {                                                         \
        .desc = {"method", text, "For a test.", "", "any", tt_no_fields, 0},                       \
        .events = EVENTS, .apply = method_says, __VA_ARGS__}

static const char *const after_b[] = {"b", NULL};
static const char *const after_c[] = {"c", NULL};
static const vv_conflict against_b[] = {{"b", "they hate each other"}, {NULL, NULL}};
METHOD(desc_a, "a", .phase = VV_PHASE_MIX, .after = after_b);
METHOD(desc_b, "b", .phase = VV_PHASE_MIX);
METHOD(desc_c, "c", .phase = VV_PHASE_SELECT);
METHOD(desc_enemy, "enemy", .phase = VV_PHASE_TARGET, .conflicts = against_b);
METHOD(desc_x, "x", .phase = VV_PHASE_MIX, .after = after_c);
METHOD(desc_late, "late", .phase = VV_PHASE_SELECT, .after = after_b);
METHOD(desc_idle, "idle", .phase = VV_PHASE_SURGERY);
static const char *const after_two[] = {"two", NULL}, *const after_one[] = {"one", NULL};
METHOD(desc_one, "one", .phase = VV_PHASE_MIX, .after = after_two);
METHOD(desc_two, "two", .phase = VV_PHASE_MIX, .after = after_one);
static const vv_method_desc desc_busy = {
    .desc = {"method", "busy", "For a test.", "", "any", tt_no_fields, 0},
    .phase = VV_PHASE_SURGERY, .events = VV_EVENT_BIT(VV_EVENT_INIT), .apply = surgery_changes};

static vv_method *make(const vv_method_desc *desc)
{
    vv_method *method;
    assert_ok(vv_method_new(&method, desc, NULL));
    return method;
}

static vv_status callback_says(void *ctx, vv_event event, vv_state *state)
{
    (void)state;
    if (!ctx || strcmp(vv_event_name(event), ctx) == 0)
        say("callback", event);
    return VV_OK;
}

static vv_status logger_says(vv_logger *logger, vv_event event, const vv_state *state)
{
    (void)state;
    (void)logger;
    if (event == VV_EVENT_INIT || event == VV_EVENT_AFTER_DATALOADER)
        say("logger", event);
    return VV_OK;
}
static const vv_logger_desc desc_logger = {
    .desc = {"logger", "teller", "For a test.", "", "any", tt_no_fields, 0},
    .event = logger_says};

/* Trains one batch with the methods; the status of vv_trainer_new. */
static vv_status run_opts(vv_trainer_opts *opts, vv_method_list methods)
{
    tt_data train;
    tt_data_init(&train, 4, 2, false);
    said[0] = '\0';
    opts->model = tt_mlp(0.0);
    opts->train = train.loader;
    opts->max_duration = "1ba";
    opts->methods = methods;
    vv_trainer *trainer;
    vv_status status = vv_trainer_new(&trainer, opts);
    if (status == VV_OK) {
        assert_ok(vv_trainer_fit(trainer));
        vv_trainer_free(trainer);
    } else {
        assert_null(trainer);
    }
    tt_data_fini(&train);
    return status;
}

static vv_status run(vv_method_list methods)
{
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    return run_opts(&opts, methods);
}

static void test_order(void **unused)
{
    (void)unused;
    assert_ok(run(VV_LIST(make(&desc_a), make(&desc_x), make(&desc_b), make(&desc_c))));
    /* c: earliest phase. a waits for b; x and b keep the user's order. */
    assert_string_equal(said, "c.init x.init b.init a.init "
                              "c.after_dataloader x.after_dataloader b.after_dataloader "
                              "a.after_dataloader "
                              "c.before_loss x.before_loss b.before_loss a.before_loss "
                              "a.after_loss b.after_loss x.after_loss c.after_loss ");
}

static void test_listeners(void **unused)
{
    (void)unused;
    vv_logger *logger;
    assert_ok(vv_logger_new(&logger, &desc_logger, NULL));
    char word[16];
    snprintf(word, sizeof word, "%s", only_init);
    vv_callback *callbacks[] = {tt_listen_with(callback_says, word), NULL};
    vv_logger *loggers[] = {logger, NULL};
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.callbacks = callbacks;
    opts.loggers = loggers;
    assert_ok(run_opts(&opts, VV_LIST(make(&desc_b))));
    assert_string_equal(said, "logger.init callback.init b.init b.after_dataloader "
                              "logger.after_dataloader b.before_loss b.after_loss ");
}

static void test_refusals(void **unused)
{
    (void)unused;
    assert_fails(run(VV_LIST(make(&desc_b), make(&desc_c), make(&desc_b))), VV_EINVAL);
    assert_says("b is given twice");
    assert_fails(run(VV_LIST(make(&desc_b), make(&desc_enemy))), VV_EINVAL);
    assert_says("b and enemy cannot be used together: they hate each other; remove one");
    assert_fails(run(VV_LIST(make(&desc_enemy), make(&desc_b))), VV_EINVAL);
    assert_fails(run(VV_LIST(make(&desc_late), make(&desc_b))), VV_EINVAL);
    assert_says("phases forbid");
    assert_fails(run(VV_LIST(make(&desc_one), make(&desc_c), make(&desc_two))), VV_EINVAL);
    assert_says("wait for each other: one two");
    assert_ok(run(VV_LIST(make(&desc_enemy), make(&desc_c))));
}

/* A constructor that failed has left its sentence. */
static void test_null(void **unused)
{
    (void)unused;
    vv_method *broken = NULL;
    assert_fails(vv_method_new(&broken, NULL, NULL), VV_EINVAL);
    tt_data train;
    tt_data_init(&train, 4, 2, false);
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = train.loader;
    vv_method *good = make(&desc_b);
    assert_int_not_equal(vv_method_new(&broken, NULL, NULL), VV_OK);
    opts.methods = VV_LIST(good, broken);
    vv_trainer *trainer;
    assert_int_equal(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("vv_method_new: no descriptor");
    tt_data_fini(&train);
}

static void test_no_effect(void **unused)
{
    (void)unused;
    assert_ok(run(VV_LIST(make(&desc_busy))));
    assert_fails(run(VV_LIST(make(&desc_busy), make(&desc_idle))), VV_EINVAL);
    assert_says("idle found nothing to change");
    vv_method *waived = make(&desc_idle);
    waived->allow_no_effect = true;
    assert_ok(run(VV_LIST(waived)));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.allow_no_effect = true;
    assert_ok(run_opts(&opts, VV_LIST(make(&desc_idle))));
}

/* Settings that cannot work fail before step 0, and everything that was taken is freed. */
static void test_settings(void **unused)
{
    (void)unused;
    const struct {
        const char *duration, *eval, *save;
        double ratio, clip;
        const char *says;
    } bad[] = {
        {"2usd", "1ep", NULL, 1.0, 0.0, "set usd_per_hour"},
        {"64tok", "1ep", NULL, 1.0, 0.0, "does not say how many tokens a sample has"},
        {"2iter", "1ep", NULL, 1.0, 0.0, "set iteration_length"},
        {"1ep", "1ep", "8tok", 1.0, 0.0, "save_interval: 8tok counts tokens"},
        {"1ep", "1ep", "1usd", 1.0, 0.0, "money is no interval"},
        {"0.5dur", "1ep", NULL, 1.0, 0.0, "max_duration"},
        {"0ep", "1ep", NULL, 1.0, 0.0, "nothing to train"},
        {"1ep", "1ep", "2dur", 1.0, 0.0, "save_interval"},
        {"1ep", "1ep", NULL, 0.5, 0.0, "scale_schedule_ratio"},
        {"1ep", "1ep", NULL, 1.0, -1.0, "grad_clip_norm"},
        {"1ep", "1ep", "2iter", 1.0, 0.0, "iterations"},
    };
    tt_data train;
    tt_data_init(&train, 4, 2, false);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
        opts.model = tt_mlp(0.0);
        opts.train = train.loader;
        opts.max_duration = bad[i].duration;
        opts.eval_interval = bad[i].eval;
        opts.save_interval = bad[i].save;
        opts.scale_schedule_ratio = bad[i].ratio;
        opts.grad_clip_norm = bad[i].clip;
        vv_trainer *trainer;
        vv_status status = vv_trainer_new(&trainer, &opts);
        assert_int_not_equal(status, VV_OK);
        assert_says(bad[i].says);
        assert_null(trainer);
    }
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = tt_mlp(0.0);
    opts.train = train.loader;
    opts.eval = train.loader;
    vv_trainer *trainer;
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("a loader each");
    tt_data_fini(&train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),   cmocka_unit_test(test_listeners),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_null),
        cmocka_unit_test(test_no_effect), cmocka_unit_test(test_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
