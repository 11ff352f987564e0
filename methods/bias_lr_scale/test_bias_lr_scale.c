/* test_bias_lr_scale.c - what must hold: the chosen biases form a group whose learning rates and
 * decay are scaled, and only they; a bias steps exactly lr_scale times as far; scales of norms keep
 * their bits; groups of the user's own are split each by itself; the plan shows the groups; a
 * resumed run is bit-equal; a net without such biases is an error. */
#include "method_world.h"

#include "bias_lr_scale.h"

static vv_param *param_at(vv_module *net, const char *layer, const char *name)
{
    return vv_module_param(vv_module_find(net, layer), name);
}

static void groups(void **unused)
{
    (void)unused;
    const vv_sgd_opts sgd = {.lr = 0.5, .momentum = 0.9, .weight_decay = 0.25};
    vv_bias_lr_scale_opts opts = VV_BIAS_LR_SCALE_DEFAULTS;
    vv_module *net = mw_net(true);
    vv_optimizer *optimizer;
    int count;
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), &sgd, net));
    opts.weight_decay_scale = 0.5;
    assert_ok(vv_scale_bias_lr(optimizer, net, &opts, &count));
    assert_int_equal(count, 1);
    assert_int_equal(vv_optimizer_group_count(optimizer), 2);
    const vv_sgd_opts *second = vv_optimizer_group_opts(optimizer, 1);
    assert_near(second->lr, 32, 0, 0);
    assert_near(second->weight_decay, 0.125, 0, 0);
    assert_near(second->momentum, 0.9, 0, 0);
    assert_near(vv_optimizer_lr(optimizer, 0), 0.5, 0, 0);
    assert_int_equal(vv_optimizer_group_of(optimizer, param_at(net, "1", "bias")), 1);
    assert_int_equal(vv_optimizer_group_of(optimizer, param_at(net, "1", "weight")), 0);
    assert_int_equal(vv_optimizer_group_of(optimizer, param_at(net, "3", "bias")), 0);
    assert_int_equal(vv_optimizer_group_size(optimizer, 1), 1);
    assert_int_equal(vv_optimizer_group_size(optimizer, 0), 6);

    /* all biases: those of the first group, then those of the second */
    opts = (vv_bias_lr_scale_opts){.lr_scale = 2, .weight_decay_scale = 1, .which = VV_BIAS_ALL};
    assert_ok(vv_scale_bias_lr(optimizer, net, &opts, &count));
    assert_int_equal(count, 3);
    assert_int_equal(vv_optimizer_group_count(optimizer), 4);
    assert_near(vv_optimizer_lr(optimizer, 2), 1, 0, 0);
    assert_near(vv_optimizer_lr(optimizer, 3), 64, 0, 0);
    assert_int_equal(vv_optimizer_group_of(optimizer, param_at(net, "1", "bias")), 3);
    assert_ok(vv_optimizer_check(optimizer, net));
    assert_null(vv_optimizer_group_opts(optimizer, 4));
    vv_optimizer_free(optimizer);
    vv_module_free(net);

    net = mw_net(false); /* no norm */
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), &sgd, net));
    assert_fails(vv_scale_bias_lr(optimizer, net, NULL, &count), VV_ENOTFOUND);
    assert_int_equal(count, 0);
    assert_fails(vv_scale_bias_lr(NULL, net, NULL, NULL), VV_EINVAL);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
}

/* Every learning rate of a group's options is scaled, whatever it is called. */
static void several_rates(void **unused)
{
    (void)unused;
    const vv_optimizer_desc *muon = vv_optimizer_find("muon");
    vv_muon_opts base;
    vv_module *net = mw_net(true);
    vv_optimizer *optimizer;
    assert_ok(vv_opts_init(&muon->desc, &base));
    assert_ok(vv_optimizer_new(&optimizer, muon, &base, net));
    assert_ok(vv_scale_bias_lr(optimizer, net, NULL, NULL));
    const vv_muon_opts *scaled = vv_optimizer_group_opts(optimizer, 1);
    assert_near(scaled->lr, 64 * base.lr, 0, 1e-15);
    assert_near(scaled->fallback_lr, 64 * base.fallback_lr, 0, 1e-15);
    assert_near(scaled->beta2, base.beta2, 0, 0);
    assert_near(scaled->fallback_weight_decay, base.fallback_weight_decay, 0, 0);
    vv_opts_fini(&muon->desc, &base);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
}

/* After one batch: how far each parameter has gone. */
static void one_step(const char *settings, double *bias, double *scale, double *conv)
{
    mw_data d;
    vv_trainer *trainer;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, true, "1ba");
    vv_method *m = mw_method("bias_lr_scale", settings);
    opts.methods = (vv_method_list){&m, 1};
    assert_ok(vv_trainer_new(&trainer, &opts));
    vv_str plan = {0};
    assert_ok(vv_trainer_plan(trainer, &plan));
    assert_non_null(strstr(vv_str_text(&plan), "7 parameters in 2 groups"));
    assert_non_null(strstr(vv_str_text(&plan), "lr group 1 (1 parameter)"));
    vv_str_fini(&plan);
    assert_ok(vv_trainer_fit(trainer));
    vv_module *net = vv_trainer_state(trainer)->model->net;
    *bias = vv_tensor_get(param_at(net, "1", "bias")->value, 1);
    *scale = vv_tensor_get(param_at(net, "1", "weight")->value, 1);
    *conv = vv_tensor_get(param_at(net, "3", "weight")->value, 1);
    vv_trainer_free(trainer);
    mw_close(&d);
}

static void training(void **unused)
{
    (void)unused;
    double slow[3], fast[3];
    one_step("lr_scale=1,freeze_scales=false", &slow[0], &slow[1], &slow[2]);
    one_step("lr_scale=64", &fast[0], &fast[1], &fast[2]);
    assert_true(slow[0] != 0.0 && slow[1] != 1.0);
    assert_near(fast[0], 64 * slow[0], 0, 1e-6);
    assert_true(fast[1] == 1.0);
    assert_true(fast[2] == slow[2]);
}

static void resuming(void **unused)
{
    (void)unused;
    const char *settings = "lr_scale=8,which=all";
    const mw_weights whole = mw_run(true, "6ba", 0, "bias_lr_scale", settings);
    const mw_weights parts = mw_run_resumed(true, "6ba", "bias_lr_scale", settings);
    const mw_weights plain = mw_run(true, "6ba", 0, NULL, NULL);
    assert_true(mw_equal(&whole, &parts));
    assert_false(mw_equal(&whole, &plain));
}

/* Weights from a run without the method: scales are frozen all the same, groups made once. */
static void loading(void **unused)
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
    vv_trainer_free(trainer);
    opts = mw_opts(&d, true, "4ba");
    vv_method *m = mw_method("bias_lr_scale", NULL);
    opts.methods = (vv_method_list){&m, 1};
    opts.load_path = path;
    assert_ok(vv_trainer_new(&trainer, &opts));
    vv_state *state = vv_trainer_state(trainer);
    assert_true(param_at(state->model->net, "1", "weight")->frozen);
    assert_ok(vv_trainer_load(trainer, path, false));
    assert_true(param_at(state->model->net, "1", "weight")->frozen);
    assert_int_equal(vv_optimizer_group_count(state->optimizer), 2);
    assert_ok(vv_trainer_fit(trainer));
    vv_trainer_free(trainer);
    unlink(path);
    mw_close(&d);
}

static void settings(void **unused)
{
    (void)unused;
    const vv_bias_lr_scale_opts defaults = VV_BIAS_LR_SCALE_DEFAULTS;
    vv_str ours = {0}, table = {0};
    mw_data d;
    vv_trainer *trainer;
    vv_method *method = vv_bias_lr_scale(NULL);
    vv_opts_to_json(&method->type->desc, method->opts, &table);
    vv_opts_to_json(&method->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, false, "1ba");
    opts.methods = (vv_method_list){&method, 1};
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("nothing to change");
    mw_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups),   cmocka_unit_test(several_rates), cmocka_unit_test(training),
        cmocka_unit_test(resuming), cmocka_unit_test(loading),       cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
