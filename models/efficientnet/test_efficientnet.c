/* test_efficientnet.c - what must hold of efficientnet: torchvision's sizes from B0 to B7 and its
 * names; its logits and every gradient with its weights; timm's logits with weights under timm's
 * names; blocks skipped with rates that grow over all blocks; the start; and it trains. */
#include "language_test.h"

#include "efficientnet.h"

#define HERE VV_SOURCE_ROOT "/models/efficientnet"

/* Counts of torchvision's efficientnet_b0 to b7; the largest without making them would not show
   more than their tables. */
static void sizes(void **state)
{
    (void)state;
    const struct {
        const char *settings;
        int64_t count;
    } rows[] = {{"size=b0", 5288548}, {"size=b1", 7794184}, {"size=b2", 9109994},
                {"size=b3", 12233232}, {"size=b4", 19341616}, {"size=b5", 30389784}};
    const vv_sample_spec spec = image_spec(32, 32, 3, 1000);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(model_size(&vv_model_efficientnet, rows[i].settings, &spec),
                         rows[i].count);
}

static void names(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(32, 32, 3, 10);
    vv_model *model = model_make(&vv_model_efficientnet, NULL, &spec);
    const vv_conv2d_layer *deep =
        vv_module_self(vv_module_find(model->net, "features.3.0.block.1.0"));

    net_has_names(model->net,
                  "features.0.0.weight features.0.1.weight features.1.0.block.0.0.weight "
                  "features.1.0.block.1.fc1.weight features.1.0.block.1.fc2.bias "
                  "features.1.0.block.2.1.bias features.2.1.block.0.0.weight "
                  "features.6.3.block.2.fc1.bias features.7.0.block.3.0.weight "
                  "features.8.0.weight features.8.1.bias classifier.1.weight classifier.1.bias");
    assert_int_equal(vv_module_count(model->net, &vv_mb_conv_class), 16);
    assert_int_equal(deep->conv.groups, 144);
    assert_int_equal(deep->kernel[0], 5);
    assert_int_equal(deep->conv.stride[0], 2);
    /* A shortcut where shapes allow one: 9 of 16 blocks. */
    assert_int_equal(vv_module_count(model->net, &vv_drop_path_class), 9);
    assert_null(vv_module_residual(vv_module_find(model->net, "features.3.0")));
    assert_non_null(vv_module_residual(vv_module_find(model->net, "features.3.1")));
    assert_int_equal(vv_module_count(vv_module_find(model->net, "features.1.0.block.2"),
                                     &vv_activation_class), 0);
    vv_model_free(model);
    model = model_make(&vv_model_efficientnet, "width=0.1,activate_projection=true", &spec);
    assert_int_equal(vv_module_count(vv_module_find(model->net, "features.1.0.block.2"),
                                     &vv_activation_class), 1);
    assert_int_equal(vv_module_count(vv_module_find(model->net, "features.2.0.block.3"),
                                     &vv_activation_class), 0);
    vv_model_free(model);
}

/* Block i of N skips with probability 0.2 i / N, with the N of the size. */
static void rates(void **state)
{
    (void)state;
    const struct {
        const char *settings, *path;
        double rate;
    } rows[] = {
        {"width=0.1", "features.2.1", 0.2 * 2 / 16},
        {"width=0.1", "features.6.3", 0.2 * 14 / 16},
        {"width=0.1,depth=2", "features.7.1", 0.2 * 31 / 32},
        {"width=0.1,depth=2,drop_connect=0.4", "features.1.1", 0.4 * 1 / 32},
        {"width=0.1,size=b1", "features.7.1", 0.2 * 22 / 23},
    };
    const vv_sample_spec spec = image_spec(32, 32, 3, 10);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vv_model *model = model_make(&vv_model_efficientnet, rows[i].settings, &spec);
        char path[64];

        snprintf(path, sizeof path, "%s.stochastic_depth", rows[i].path);

        vv_module *drop = vv_module_find(model->net, path);

        assert_non_null(drop);
        assert_near(*(double *)vv_module_self(drop), rows[i].rate, 1e-12, 0.0);
        vv_model_free(model);
    }
}

static vv_safetensors *open_golden(const char *name, vv_model *model)
{
    char path[512];
    vv_safetensors *file = NULL;

    snprintf(path, sizeof path, "%s/%s.safetensors", HERE, name);
    assert_ok(vv_safetensors_open(&file, path));
    assert_ok(vv_model_load(model, file, true, "grad/*,input,targets,logits", NULL, NULL));
    return file;
}

static void check_logits(vv_model *model, const vv_safetensors *file)
{
    vv_tensor *input = golden_tensor(file, "input");

    vv_module_set_training(model->net, false);

    vv_tensor *logits = language_output(model->net, input);

    vv_module_set_training(model->net, true);
    assert_same_numbers("logits", logits, vv_safetensors_find(file, "logits"), false, 2e-5);
    vv_tensor_free(logits);
    vv_tensor_free(input);
}

/* What a norm takes out again, as a bias in front of it, has no gradient but rounding. */
static void same_gradient(const char *name, const vv_tensor *got, const vv_tensor *want)
{
    double size = 0.0, rounding = 0.0;

    assert_non_null(want);
    for (int64_t i = 0; i < want->count; i++) {
        size += fabs(vv_tensor_get(want, i));
        rounding += fabs(vv_tensor_get(got, i));
    }
    if (size > 1e-9)
        assert_same_numbers(name, got, want, false, 3e-4);
    else
        assert_near(rounding, 0.0, 1e-5, 0.0);
}

static void torchvision(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(64, 32, 3, 5);
    vv_model *model = model_make(&vv_model_efficientnet,
                                 "width=0.05,depth=0.25,dropout=0,drop_connect=0", &spec);
    vv_safetensors *file = open_golden("efficientnet_torchvision", model);
    vv_tensor *input = golden_tensor(file, "input"), *targets = golden_tensor(file, "targets");
    model_names *list = calloc(1, sizeof *list);

    assert_non_null(list);
    check_logits(model, file);
    language_step(model, input, targets);
    vv_module_each_param(model->net, model_take_param, list);

    const char *at = list->text;

    for (int i = 0; i < list->count; i++) {
        const size_t length = strcspn(at, " ");
        char grad[256];

        snprintf(grad, sizeof grad, "grad/%.*s", (int)length, at);
        same_gradient(grad, list->params[i]->grad, vv_safetensors_find(file, grad));
        at += length + 1;
    }
    vv_tensor_free(input);
    vv_tensor_free(targets);
    vv_safetensors_close(file);
    vv_model_free(model);
    free(list);
}

static void timm(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(64, 32, 3, 5);
    vv_model *model = model_make(&vv_model_efficientnet, "width=0.05,depth=0.4", &spec);
    vv_safetensors *file = open_golden("efficientnet_timm", model);

    check_logits(model, file);
    vv_safetensors_close(file);
    vv_model_free(model);
}

/* N(0, 2 / (k k out / groups)): a depth-wise 5x5 has 2 / 25. */
static void start(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(32, 32, 3, 100);
    vv_model *model = model_make(&vv_model_efficientnet, NULL, &spec);
    const struct {
        const char *path;
        double square;
    } rows[] = {{"features.6.1.block.1.0", 2.0 / 25.0},
                {"features.8.0", 2.0 / 1280.0},
                {"classifier.1", 1.0 / 300.0}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const vv_tensor *w =
            vv_module_param(vv_module_find(model->net, rows[i].path), "weight")->value;
        double square = 0.0;

        for (int64_t k = 0; k < w->count; k++)
            square += vv_tensor_get(w, k) * vv_tensor_get(w, k);
        assert_near(square / (double)w->count, rows[i].square, 0.0, 0.04);
    }
    assert_true(vv_tensor_get(vv_module_param(vv_module_find(model->net, "classifier.1"),
                                              "bias")->value, 3) == 0.0);
    vv_model_free(model);
}

static void trains(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(64, 48, 3, 5);
    vv_model *model = model_make(&vv_model_efficientnet,
                                 "width=0.1,depth=0.5,drop_connect=0.4,activate_projection=true",
                                 &spec);

    model_trains(model, &spec, 6);
    vv_model_free(model);
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(16, 16, 3, 4);
    vv_efficientnet_opts opts = VV_EFFICIENTNET_DEFAULTS;
    vv_module *net = NULL;

    model_desc_is_sane(&vv_model_efficientnet, &spec, 197);
    opts.size = 8;
    assert_fails(vv_efficientnet_new(&net, 3, 10, &opts, 1), VV_EINVAL);
    opts.size = 0;
    opts.width = -1.0;
    assert_fails(vv_efficientnet_new(&net, 3, 10, &opts, 1), VV_EINVAL);
    assert_null(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes), cmocka_unit_test(names),       cmocka_unit_test(rates),
        cmocka_unit_test(timm),  cmocka_unit_test(torchvision), cmocka_unit_test(start),
        cmocka_unit_test(trains), cmocka_unit_test(descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
