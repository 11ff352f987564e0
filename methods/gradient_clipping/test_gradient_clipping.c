/* test_gradient_clipping.c - what must hold: the method clips once a step, on the whole gradient,
 * before the optimizer, for any microbatch size; the norm before clipping is in the state; a
 * gradient that is not finite is reported by name and not changed; bad settings are refused. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "gradient_clipping.h"

static const vv_field no_fields[] = {{.name = NULL}};

typedef struct seen {
    double norm, after; /* before clipping, and of the gradient as the optimizer finds it */
    int messages;
    char text[256];
} seen;
static seen *now;

/* Callbacks come after methods at the same event. */
static vv_status look(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback, (void)event;
    now->norm = state->grad_norm;
    return vv_grads_norm(state->model->net, &now->after);
}

static vv_status hear(vv_logger *logger, const vv_state *state, const char *text)
{
    (void)logger, (void)state;
    now->messages++;
    snprintf(now->text, sizeof now->text, "%s", text);
    return VV_OK;
}

static const vv_callback_desc watcher = {
    .desc = {"callback", "watcher", "Looks at the gradient.", "", "any", no_fields, 0},
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_TRAIN_BATCH),
    .apply = look,
};
static const vv_logger_desc listener = {
    .desc = {"logger", "hearer", "Keeps messages.", "", "any", no_fields, 0},
    .message = hear,
};

/* Two steps of a linear layer on six rows, inputs times `scale`. */
static seen train(vv_method *method, int64_t microbatch, float scale)
{
    vv_sample_spec spec = {.input_dtype = VV_F32, .target_dtype = VV_I32, .input_ndim = 1,
                           .input_shape = {2}, .classes = 2};
    const int32_t targets[] = {0, 1, 0, 0, 1, 1};
    float inputs[12];
    for (int i = 0; i < 12; i++)
        inputs[i] = scale * (float)(i % 5 - 2);
    vv_dataset *set;
    vv_loader *loader;
    vv_module *net;
    vv_model *model;
    vv_trainer *trainer;
    seen result = {0};
    now = &result;
    assert_ok(vv_dataset_from_arrays(&set, &spec, 6, inputs, targets));
    vv_loader_opts rows = VV_LOADER_DEFAULTS;
    rows.batch_size = 6;
    assert_ok(vv_loader_new(&loader, set, &rows));
    assert_ok(vv_linear_new(&net, 2, 2, true));
    assert_ok(vv_classifier_build(&model, net, 2, 1));
    vv_callback *callbacks[] = {NULL, NULL};
    vv_logger *loggers[] = {NULL, NULL};
    assert_ok(vv_callback_new(&callbacks[0], &watcher, NULL));
    assert_ok(vv_logger_new(&loggers[0], &listener, NULL));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    opts.model = model;
    opts.train = loader;
    opts.max_duration = "2ba";
    opts.microbatch = microbatch;
    opts.methods = VV_LIST(method);
    opts.callbacks = callbacks;
    opts.no_default_callbacks = true; /* one case is not finite on purpose */
    opts.loggers = loggers;
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_fit(trainer));
    vv_trainer_free(trainer);
    vv_loader_free(loader);
    vv_dataset_free(set);
    return result;
}

static void clips_the_whole_once(void **unused)
{
    (void)unused;
    const int64_t microbatches[] = {0, 1, 4};
    double norm = 0.0;
    for (int i = 0; i < 3; i++) {
        seen got = train(vv_gradient_clipping(VV_CLIPPING_NORM, 0.01), microbatches[i], 1.0f);
        assert_true(got.norm > 0.1);
        assert_near(got.after, 0.01, 0.0, 1e-5);
        if (i)
            assert_near(got.norm, norm, 0.0, 1e-5);
        norm = got.norm;
        assert_int_equal(got.messages, 0);
    }
    seen free = train(vv_gradient_clipping(VV_CLIPPING_NORM, 100.0), 0, 1.0f);
    assert_near(free.after, free.norm, 0.0, 0.0);
    seen value = train(vv_gradient_clipping(VV_CLIPPING_VALUE, 0.001), 0, 1.0f);
    assert_true(value.norm > 0.1 && value.after <= 0.001 * sqrt(6.0) * (1.0 + 1e-6));
    seen agc = train(vv_gradient_clipping(VV_CLIPPING_ADAPTIVE, 0.001), 0, 1.0f);
    assert_true(agc.norm > 0.1 && agc.after < 0.01);
}

static void reports_what_is_not_finite(void **unused)
{
    (void)unused;
    seen got = train(vv_gradient_clipping(VV_CLIPPING_NORM, 1.0), 0, INFINITY);
    assert_false(isfinite(got.norm));
    assert_int_equal(got.messages, 1); /* not for every step */
    assert_non_null(strstr(got.text, "weight"));
    assert_non_null(strstr(got.text, "not finite"));
}

static void settings(void **unused)
{
    (void)unused;
    const vv_gradient_clipping_opts defaults = VV_GRADIENT_CLIPPING_DEFAULTS;
    vv_str ours = {0}, table = {0};
    vv_method *method;
    assert_ok(vv_method_make(&method, "gradient_clipping", NULL));
    vv_opts_to_json(&method->type->desc, method->opts, &table);
    vv_opts_to_json(&method->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(method);
    assert_fails(vv_method_make(&method, "gradient_clipping", "clipping_type=nrm"), VV_EINVAL);
    assert_says("norm");
    assert_fails(vv_method_make(&method, "gradient_clipping", "clipping_threshold=0"), VV_EINVAL);
    assert_says("clipping_threshold");
    assert_null(vv_gradient_clipping(VV_CLIPPING_VALUE, -1.0));
    assert_null(vv_gradient_clipping(VV_CLIPPING_NORM, (double)NAN));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clips_the_whole_once),
        cmocka_unit_test(reports_what_is_not_finite),
        cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
