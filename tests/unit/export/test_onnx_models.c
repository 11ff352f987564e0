/* test_onnx_models.c - every model of the registry can be written as ONNX, by itself or with a
 * sentence that says why not; onnxruntime, where Python has it, computes the same outputs for any
 * number of rows, also with the file's ends as other programs want them: [N,C,H,W], pixels,
 * probabilities. $VIVACE_PYTHON names another Python. */
#include "vv_test.h"

#include "vvi_config.h"

#include <unistd.h>

#include <vivace/export.h>
#include <vivace/registry.h>

#if VVI_HAVE_PROTOBUF
static char folder[] = "/tmp/vivace-onnx-models-XXXXXX";

enum { ROWS = 3, TOKENS = 12, VOCABULARY = 30 };

/* How a model is made small; models that are not listed are built with their defaults, for images
   of 32x32. */
typedef struct row {
    const char *name, *settings;
    int64_t side;
    bool tokens;
} row;
static const row rows[] = {
    {"bert", "d=16,layers=2,heads=2,context=12,pad_id=-1", 0, true},
    {"deeplabv3", "width=8", 64, false},
    {"efficientnet", "width=0.25", 64, false},
    {"gpt", "d=16,layers=2,heads=2", 0, true},
    {"gpt2", "d=16,layers=2,heads=2", 0, true},
    {"resnet", "depth=50,width_per_group=16", 64, false},
    {"ssd", "width=8,levels=4", 96, false},
    {"unet", NULL, 64, false},
    {"vit", "width=32,depth=2,heads=2", 64, false},
    {NULL, NULL, 32, false},
};

static const row *row_of(const char *name)
{
    const row *r = rows;
    while (r->name && strcmp(r->name, name) != 0)
        r++;
    return r;
}

static vv_sample_spec spec_of(const row *r)
{
    vv_sample_spec spec = {.target_dtype = VV_I32, .classes = 5, .mean = {0.4f, 0.5f, 0.6f},
                           .std = {0.2f, 0.25f, 0.3f}};
    spec.input_dtype = r->tokens ? VV_I32 : VV_U8;
    spec.input_ndim = r->tokens ? 1 : 3;
    spec.input_shape[0] = r->tokens ? TOKENS : r->side;
    if (r->tokens) {
        spec.target_ndim = 1;
        spec.target_shape[0] = spec.tokens = TOKENS;
        spec.classes = spec.vocabulary = VOCABULARY;
    } else {
        spec.input_shape[1] = r->side;
        spec.input_shape[2] = 3;
    }
    return spec;
}

/* Targets in the forms that models may ask for: classes, a mask, boxes. */
static void set_target(vv_sample_spec *spec, int form)
{
    spec->target_dtype = form == 2 ? VV_F32 : VV_I32;
    spec->target_ndim = form ? 2 : 0;
    spec->target_shape[0] = form == 2 ? 10 : spec->input_shape[0];
    spec->target_shape[1] = form == 2 ? 6 : spec->input_shape[1];
}

static bool shake(void *ctx, const char *name, vv_tensor *tensor)
{
    vv_rng *rng = ctx;
    if (strstr(name, "running"))
        for (int64_t i = 0; i < tensor->count && tensor->dtype == VV_F32; i++)
            vv_tensor_set(tensor, i,
                          (strstr(name, "var") ? 0.7 : -0.2) + 0.4 * vv_rng_uniform(rng));
    return true;
}

static vv_model *make(const vv_model_desc *desc, vv_sample_spec *spec)
{
    const row *r = row_of(desc->desc.name);
    unsigned char opts[512] = {0};
    vv_model *model = NULL;
    vv_rng rng = vv_rng_at(3, "export models", 0);
    vv_status status = VV_EINVAL;
    *spec = spec_of(r);
    assert_true(desc->desc.opts_size <= sizeof opts);
    assert_ok(vv_opts_init(&desc->desc, opts));
    if (r->settings)
        assert_ok(vv_opts_set_all(&desc->desc, opts, r->settings));
    for (int form = 0; form < 3 && status != VV_OK; form++) {
        if (!r->tokens)
            set_target(spec, form);
        status = vv_model_build(&model, desc, opts, spec, 17);
    }
    if (status != VV_OK)
        fail_msg("%s: %s; it needs a row of its own above", desc->desc.name, vv_error());
    vv_opts_fini(&desc->desc, opts);
    vv_module_each_state(model->net, shake, &rng);
    return model;
}

static vv_tensor *output_of(const vv_model *model, vv_tensor *input, bool softmax)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *graph;
    vv_tensor *output;
    assert_ok(vv_graph_new(&graph, &opts));
    vv_module_set_training(model->net, false);
    vv_node *y = vv_module_forward(model->net, graph, vv_leaf(graph, input));
    assert_ok(vv_node_keep(softmax ? vv_softmax(y) : y, &output));
    vv_graph_free(graph);
    return output;
}

static void write_values(const char *name, const char *kind, const vv_tensor *t)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, kind);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(t->data, 1, t->bytes, file), t->bytes);
    fclose(file);
}

static bool have_onnxruntime(const char **python)
{
    char command[512];
    *python = getenv("VIVACE_PYTHON");
    *python = *python && (*python)[0] ? *python : "python3";
    snprintf(command, sizeof command, "%s -c 'import onnx, onnxruntime' 2>/dev/null", *python);
    return system(command) == 0;
}

static int check(const char *python, const char *name)
{
    char command[1024];
    snprintf(command, sizeof command, "%s %s/tests/unit/export/check_onnx.py %s %s", python,
             VV_SOURCE_ROOT, folder, name);
    return system(command);
}

/* As the loader gives it; with `pixels` also the bytes it came from, channels first. */
static vv_tensor *input_of(const vv_sample_spec *spec, vv_tensor **pixels)
{
    int64_t shape[VV_MAX_DIMS] = {ROWS};
    vv_tensor *input;
    vv_rng rng = vv_rng_at(5, "input", 0);
    memcpy(shape + 1, spec->input_shape, (size_t)spec->input_ndim * sizeof *shape);
    const bool tokens = spec->input_dtype == VV_I32;
    const int64_t height = shape[1], width = shape[2];
    assert_ok(vv_tensor_new(&input, tokens ? VV_I32 : VV_F32, spec->input_ndim + 1, shape));
    for (int64_t i = 0; tokens && i < input->count; i++)
        vv_tensor_set(input, i, (double)vv_rng_below(&rng, VOCABULARY));
    if (tokens)
        return input;
    const int64_t first[4] = {ROWS, 3, height, width};
    assert_ok(vv_tensor_new(pixels, VV_U8, 4, first));
    for (int64_t i = 0; i < input->count; i++) {
        const int64_t c = i % 3, at = i / 3 % (height * width), n = i / 3 / (height * width);
        const double pixel = (double)vv_rng_below(&rng, 256);
        vv_tensor_set(input, i, (pixel / 255.0 - (double)spec->mean[c]) / (double)spec->std[c]);
        vv_tensor_set(*pixels, (n * 3 + c) * height * width + at, pixel);
    }
    return input;
}

static void every_model(void **unused)
{
    (void)unused;
    const char *python;
    const bool run = have_onnxruntime(&python);
    char path[256];
    vv_str names = {0};
    for (int i = 0; vv_registry_at("model", i); i++) {
        const vv_desc *desc = vv_registry_at("model", i);
        if (strchr(desc->name, '-'))
            continue; /* a size of another entry */
        vv_sample_spec spec;
        vv_model *model = make((const vv_model_desc *)(const void *)desc, &spec);
        vv_tensor *pixels = NULL, *input = input_of(&spec, &pixels);
        snprintf(path, sizeof path, "%s/%s.onnx", folder, desc->name);
        assert_ok(vv_export_onnx(model, &spec, path));
        if (run) {
            vv_tensor *output = output_of(model, input, false);
            write_values(desc->name, "input", input);
            write_values(desc->name, "output", output);
            vv_tensor_free(output);
            vv_str_addf(&names, " %s", desc->name);
        }
        vv_tensor_free(input);
        vv_tensor_free(pixels);
        vv_model_free(model);
    }
    if (run)
        assert_int_equal(check(python, vv_str_text(&names)), 0);
    vv_str_fini(&names);
}

static void other_ends(void **unused)
{
    (void)unused;
    const char *python;
    const bool run = have_onnxruntime(&python);
    const vv_onnx_opts opts = {.nchw = true, .pixels = true, .normalise = true, .softmax = true};
    const vv_model_desc *desc;
    vv_sample_spec spec;
    char path[256];
    assert_ok(vv_model_find(&desc, "resnet_cifar"));
    vv_model *model = make(desc, &spec);
    vv_tensor *pixels = NULL, *input = input_of(&spec, &pixels);
    snprintf(path, sizeof path, "%s/ends.onnx", folder);
    assert_ok(vv_export_onnx_with(model, &spec, path, &opts));
    if (run) {
        vv_tensor *output = output_of(model, input, true);
        write_values("ends", "input", pixels);
        write_values("ends", "output", output);
        vv_tensor_free(output);
        assert_int_equal(check(python, "ends"), 0);
    }
    spec.std[1] = 0;
    assert_fails(vv_export_onnx_with(model, &spec, path, &opts), VV_EINVAL);
    assert_says("channel 1");
    spec.input_dtype = VV_F32;
    assert_fails(vv_export_onnx_with(model, &spec, path, &opts), VV_EINVAL);
    assert_says("nchw is for models of images");
    model->task = VV_TASK_REGRESS;
    assert_fails(vv_export_onnx_with(model, &spec, path, &(vv_onnx_opts){.softmax = true}),
                 VV_EINVAL);
    assert_says("models of classes");
    vv_tensor_free(input);
    vv_tensor_free(pixels);
    vv_model_free(model);
}

/* Ops that no model of ours has in its inference graph. */
static vv_node *rare_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)module;
    const vv_conv_opts conv = {{2, 2}, {1, 1}, {1, 1}, 2, {1, 1}};
    float numbers[6 * 3 * 9];
    for (int i = 0; i < 6 * 3 * 9; i++)
        numbers[i] = (float)(i % 11) / 11.0f - 0.4f;
    vv_node *weight = vv_data(graph, VV_F32, 4, (const int64_t[]){6, 3, 3, 3}, numbers);
    vv_node *six = vv_data(graph, VV_F32, 1, (const int64_t[]){6}, numbers + 3);
    vv_node *y = vv_concat((vv_node *[]){x, vv_neg(x)}, 2, 3);      /* [N,32,32,6] */
    y = vv_conv_transpose2d(y, weight, six, &conv);                 /* [N,64,64,6] */
    y = vv_group_norm(y, vv_affine(six, 1.0, 2.0), six, 3, 1e-5);
    y = vv_add(y, vv_resize(vv_adaptive_avg_pool2d(y, 5, 3), 64, 64, VV_RESIZE_BILINEAR));
    y = vv_concat((vv_node *[]){y, vv_resize(vv_slice(y, 1, 3, 60, 2), 64, 64, VV_RESIZE_NEAREST)},
                  2, 3);
    y = vv_pad(y, (const int64_t[]){0, 1, 2, 0}, (const int64_t[]){0, 2, 1, 0}, 0.5);
    y = vv_where(vv_less(y, vv_scalar(graph, 0.1)), vv_hardswish(y), vv_silu(y));
    y = vv_mul(y, vv_sigmoid(vv_mean(y, (const int[]){1, 2}, 2, true)));
    y = vv_mean(vv_softmax(y), (const int[]){1, 2}, 2, false);      /* [N,12] */
    vv_node *token = vv_broadcast_to(vv_slice(six, 0, 0, 4, 1), 2, (const int64_t[]){
        vv_node_shape(y)[0], 4});
    return vv_concat((vv_node *[]){token, y}, 2, 1);                /* a class token */
}
static const vv_module_class rare_class = {"Rare", rare_forward, NULL};

static void rare_ops(void **unused)
{
    (void)unused;
    const char *python;
    char path[256];
    const row plain = {NULL, NULL, 32, false};
    const vv_sample_spec spec = spec_of(&plain);
    vv_module *net;
    vv_model *model;
    vv_tensor *pixels = NULL, *input = input_of(&spec, &pixels);
    assert_ok(vv_module_new(&net, &rare_class, 0));
    assert_ok(vv_regressor_new(&model, net));
    snprintf(path, sizeof path, "%s/rare.onnx", folder);
    assert_ok(vv_export_onnx(model, &spec, path));
    if (have_onnxruntime(&python)) {
        vv_tensor *output = output_of(model, input, false);
        write_values("rare", "input", input);
        write_values("rare", "output", output);
        vv_tensor_free(output);
        assert_int_equal(check(python, "rare"), 0);
    }
    vv_tensor_free(input);
    vv_tensor_free(pixels);
    vv_model_free(model);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model),
        cmocka_unit_test(other_ends),
        cmocka_unit_test(rare_ops),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 || failed;
}
#else
static void says_what_the_build_lacks(void **unused)
{
    (void)unused;
    assert_false(vv_export_has_onnx());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_the_build_lacks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
