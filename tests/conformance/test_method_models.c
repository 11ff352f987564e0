/* test_method_models.c - methods that act on a model's parts, on models of other kinds than the
 * small nets of test_conformance.c: each trains three steps with a finite loss and says how much it
 * found, or is refused with a reason; a gated or factorised Vision Transformer works too. */
#include "conformance.h"

#include <vivace/efficientnet.h>
#include <vivace/registry.h>
#include <vivace/vit.h>

static const struct {
    const vv_model_desc *desc;
    const char *settings;
} models[] = {
    {&vv_model_vit, "patch_size=4,width=32,depth=2,heads=2"},
    {&vv_model_vit, "patch_size=8,width=32,depth=2,heads=2,pool=mean,norm=post,drop_path=0.2"},
    {&vv_model_efficientnet, "width=0.1,depth=0.4"},
};
enum { MODELS = sizeof models / sizeof models[0] };

static vv_model *make(const data *d, int i)
{
    unsigned char opts[512];
    const vv_desc *desc = &models[i].desc->desc;
    vv_model *model;
    assert_true(desc->opts_size <= sizeof opts);
    assert_ok(vv_opts_init(desc, opts));
    assert_ok(vv_opts_set_all(desc, opts, models[i].settings));
    assert_ok(vv_model_build(&model, models[i].desc, opts, &d->set->spec, 11));
    vv_opts_fini(desc, opts);
    return model;
}

static const struct {
    const char *method, *settings;
    bool finds[MODELS]; /* something to change */
} rows[] = {
    {"stochastic_depth", "drop_rate=0.5", {true, false, true}},
    {"squeeze_excite", "min_channels=8,latent_channels=4", {false, false, true}},
    {"blurpool", "min_channels=4", {false, false, true}},
    {"factorize", "min_features=16,min_channels=16,latent_features=0.25,latent_channels=0.25",
     {true, true, true}},
    {"gated_linear_units", "", {true, true, false}},
    {"layer_freezing", "freeze_start=0,freeze_level=0.5", {true, true, true}},
    {"ema", "half_life=1ba", {true, true, true}},
    {"sam", "", {true, true, true}},
    {"gradient_clipping", "clipping_type=adaptive,clipping_threshold=0.01", {true, true, true}},
};

/* *effect = what the method says; VV_OK or what it was refused with. */
static vv_status train(vv_method *method, const data *d, int i, int *effect)
{
    vv_trainer_opts opts = trainer_opts(NET_PLAIN, d, "3ba");
    vv_method *methods[] = {method};
    vv_trainer *trainer = NULL;
    vv_model_free(opts.model);
    opts.model = make(d, i);
    opts.methods = (vv_method_list){methods, 1};
    *effect = 0;
    VV_TRY(vv_trainer_new(&trainer, &opts));
    const vv_status status = vv_trainer_fit(trainer);
    if (status == VV_OK) {
        assert_int_equal(vv_trainer_state(trainer)->time.batch, 3);
        assert_true(isfinite(vv_trainer_state(trainer)->train_loss));
        *effect = method->effect;
    }
    vv_trainer_free(trainer);
    return status;
}

static void methods_on_models(void **unused)
{
    (void)unused;
    const int64_t live = vv_memory_live_count();
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int i = 0; i < MODELS; i++) {
            data d;
            vv_method *method;
            int effect;
            data_init(&d, false);
            assert_ok(vv_method_make(&method, rows[r].method, rows[r].settings));
            vv_error_clear();
            const vv_status status = train(method, &d, i, &effect);
            if (status != VV_OK && (rows[r].finds[i] || !vv_error()[0]))
                fail_msg("%s on model %d: %s \"%s\"", rows[r].method, i, vv_status_name(status),
                         vv_error());
            if ((effect > 0) != rows[r].finds[i])
                fail_msg("%s on model %d: effect %d", rows[r].method, i, effect);
            data_fini(&d);
        }
    assert_int_equal(vv_memory_live_count(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(methods_on_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
