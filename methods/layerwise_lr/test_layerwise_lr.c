/* test_layerwise_lr.c - what must hold: layers are counted as fine-tuning counts them, in ResNets,
 * ViTs, EfficientNets, BERT and GPT-2; each layer's group has its learning rate, the last its own;
 * groups that were there are split each by itself; the log has each group's rate; a step is scaled
 * by exactly that; a resumed run is bit-equal. */
#include "method_world.h"

#include <vivace/in_memory.h>

#include "layerwise_lr.h"

static vv_model *build(const char *name, const char *settings, bool tokens)
{
    const vv_model_desc *desc;
    vv_model *model;
    void *opts;
    vv_sample_spec spec = {.input_dtype = tokens ? VV_I32 : VV_U8, .target_dtype = VV_I32,
                           .input_ndim = tokens ? 1 : 3, .target_ndim = tokens ? 1 : 0,
                           .classes = 8};
    for (int i = 0; i < 3; i++)
        spec.input_shape[i] = tokens ? 16 : i == 2 ? 3 : 64;
    spec.target_shape[0] = spec.tokens = tokens ? 16 : 0;
    spec.vocabulary = tokens ? 8 : 0;
    assert_ok(vv_model_find(&desc, name));
    assert_ok(vv_alloc(&opts, desc->desc.opts_size + 1));
    assert_ok(vv_opts_init(&desc->desc, opts));
    assert_ok(vv_opts_set_all(&desc->desc, opts, settings));
    assert_ok(vv_model_build(&model, desc, opts, &spec, 1));
    vv_opts_fini(&desc->desc, opts);
    vv_dealloc(opts);
    return model;
}

typedef struct expected {
    const char *model, *settings;
    bool tokens;
    int layers;
    struct {
        const char *path;
        int layer;
    } at[9];
} expected;

static const expected nets[] = {
    {"resnet", "depth=18", false, 10,
     {{"conv1.weight", 0}, {"bn1.weight", 0}, {"layer1.0.conv1.weight", 1},
      {"layer2.0.downsample.0.weight", 3}, {"layer4.1.bn2.bias", 8}, {"fc.weight", 9},
      {"fc.bias", 9}, {"none", -1}}},
    {"vit", "width=32,depth=3,heads=2", false, 5,
     {{"cls_token", 0}, {"pos_embed", 0}, {"patch_embed.proj.weight", 0},
      {"blocks.0.attn.qkv.weight", 1}, {"blocks.2.mlp.fc2.bias", 3}, {"norm.weight", 4},
      {"head.weight", 4}}},
    {"efficientnet", "width=0.25", false, 19,
     {{"features.0.0.weight", 0}, {"features.1.0.block.0.0.weight", 1},
      {"features.2.0.block.0.0.weight", 2}, {"features.2.1.block.0.0.weight", 3},
      {"classifier.1.weight", 18}}},
    {"bert", "d=16,layers=3,heads=2,context=16,head=masked_lm", true, 5,
     {{"bert.embeddings.word_embeddings.weight", 0},
      {"bert.encoder.layer.0.attention.self.query.weight", 1},
      {"bert.encoder.layer.2.output.dense.weight", 3}}},
    {"gpt2", "d=16,layers=2,heads=2", true, 5,
     {{"transformer.wte.weight", 0}, {"transformer.wpe.weight", 1},
      {"transformer.h.0.ln_1.weight", 2}, {"transformer.h.1.attn.c_attn.weight", 3},
      {"transformer.ln_f.weight", 4}}},
};

static void layers(void **unused)
{
    (void)unused;
    for (size_t n = 0; n < sizeof nets / sizeof *nets; n++) {
        const expected *e = &nets[n];
        vv_model *model = build(e->model, e->settings, e->tokens);
        if (vv_layer_count(model->net) != e->layers)
            fail_msg("%s: %d layers", e->model, vv_layer_count(model->net));
        for (int i = 0; e->at[i].path; i++)
            if (vv_layer_of(model->net, e->at[i].path) != e->at[i].layer)
                fail_msg("%s: %s is in layer %d", e->model, e->at[i].path,
                         vv_layer_of(model->net, e->at[i].path));
        vv_model_free(model);
    }
}

/* conv + norm, conv, linear: three layers. */
static void groups(void **unused)
{
    (void)unused;
    const vv_sgd_opts sgd = {.lr = 0.5, .momentum = 0.9};
    const vv_layerwise_lr_opts half = {0.5, 0.0}, held = {0.5, 0.4}, one = {1.0, 0.0};
    vv_module *net = mw_net(true);
    vv_optimizer *optimizer;
    int made;
    assert_int_equal(vv_layer_count(net), 3);
    assert_int_equal(vv_layer_of(net, "1.weight"), 0);
    for (int k = 0; k < 3; k++) {
        assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), &sgd, net));
        assert_ok(vv_scale_layer_lr(optimizer, net, k == 0 ? &half : k == 1 ? &held : &one, &made));
        assert_int_equal(made, k == 2 ? 0 : 2);
        const vv_param *first = vv_module_param(vv_module_child(net, 0), "weight");
        const vv_param *norm = vv_module_param(vv_module_child(net, 1), "bias");
        const vv_param *second = vv_module_param(vv_module_child(net, 3), "weight");
        const vv_param *last = vv_module_param(vv_module_child(net, 6), "weight");
        const double want[3] = {k == 0 ? 0.125 : k == 1 ? 0.2 : 0.5, k == 2 ? 0.5 : 0.25, 0.5};
        assert_near(vv_optimizer_lr(optimizer, vv_optimizer_group_of(optimizer, first)), want[0],
                    1e-12, 0);
        assert_near(vv_optimizer_lr(optimizer, vv_optimizer_group_of(optimizer, norm)), want[0],
                    1e-12, 0);
        assert_near(vv_optimizer_lr(optimizer, vv_optimizer_group_of(optimizer, second)), want[1],
                    1e-12, 0);
        assert_near(vv_optimizer_lr(optimizer, vv_optimizer_group_of(optimizer, last)), want[2],
                    1e-12, 0);
        assert_ok(vv_optimizer_check(optimizer, net));
        vv_optimizer_free(optimizer);
    }
    assert_fails(vv_scale_layer_lr(NULL, net, NULL, NULL), VV_EINVAL);
    vv_module_free(net);
}

/* One step with one rate: each layer has gone its factor of the way it would have gone. */
static void training(void **unused)
{
    (void)unused;
    vv_module *net = mw_net(true);
    const mw_weights start = mw_of(net);
    const mw_weights plain = mw_run(true, "1ba", 0, NULL, NULL);
    const mw_weights scaled = mw_run(true, "1ba", 0, "layerwise_lr", "decay=0.5");
    assert_true(fabsf((scaled.values[3] - start.values[3]) -
                      0.25f * (plain.values[3] - start.values[3])) < 1e-6f);
    const int last = plain.count - 1; /* the head's bias */
    assert_true(plain.values[last] == scaled.values[last]);
    assert_true(plain.values[last] != start.values[last]);
    vv_module_free(net);
}

static void logged(void **unused)
{
    (void)unused;
    mw_data d;
    vv_trainer *trainer;
    vv_logger *memory;
    const vv_callback_desc *monitor;
    mw_open(&d, 12, 6);
    vv_trainer_opts opts = mw_opts(&d, true, "2ba");
    vv_method *m = mw_method("layerwise_lr", "decay=0.1");
    vv_callback *callbacks[2] = {NULL, NULL};
    assert_ok(vv_callback_find(&monitor, "lr_monitor"));
    assert_ok(vv_callback_new(&callbacks[0], monitor, NULL));
    assert_ok(vv_logger_new(&memory, &vv_logger_in_memory, NULL));
    opts.methods = (vv_method_list){&m, 1};
    opts.callbacks = callbacks;
    opts.loggers = (vv_logger *[]){memory, NULL};
    assert_ok(vv_trainer_new(&trainer, &opts));
    vv_str plan = {0};
    assert_ok(vv_trainer_plan(trainer, &plan));
    assert_non_null(strstr(vv_str_text(&plan), "7 parameters in 3 groups"));
    assert_non_null(strstr(vv_str_text(&plan), "learning rate of 3 layers, from 0.01 times"));
    vv_str_fini(&plan);
    assert_ok(vv_trainer_fit(trainer));
    static const double want[3] = {0.05, 0.0005, 0.005};
    for (int g = 0; g < 3; g++) {
        char name[64];
        double value = 0.0;
        snprintf(name, sizeof name, "lr-sgd/group%d", g);
        assert_ok(vv_in_memory_last(&value, NULL, memory, name));
        assert_near(value, want[g], 1e-12, 0);
    }
    vv_trainer_free(trainer);
    mw_close(&d);
}

static void resuming(void **unused)
{
    (void)unused;
    const mw_weights whole = mw_run(true, "6ba", 0, "layerwise_lr", "decay=0.6");
    const mw_weights parts = mw_run_resumed(true, "6ba", "layerwise_lr", "decay=0.6");
    const mw_weights plain = mw_run(true, "6ba", 0, NULL, NULL);
    assert_true(mw_equal(&whole, &parts));
    assert_false(mw_equal(&whole, &plain));
}

static void settings(void **unused)
{
    (void)unused;
    assert_null(vv_layerwise_lr(0.0));
    assert_says("decay");
    assert_null(vv_layerwise_lr(1.5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers),   cmocka_unit_test(groups),   cmocka_unit_test(training),
        cmocka_unit_test(logged),   cmocka_unit_test(resuming), cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
