/* test_onnx.c - an exported model, read back and computed by the operators' public meaning, gives
 * the model's own outputs for any number of rows; images need one transpose; what cannot be
 * expressed is named; a file is whole or absent; no memory is lost when it runs out. The same files
 * through onnxruntime: check_onnx.py, where Python has it. */
#include "vv_test.h"

#include "vvi_config.h"

#include <unistd.h>

#include <vivace/export.h>
#include <vivace/mlp.h>
#include <vivace/resnet9.h>
#include <vivace/safetensors.h>

static const vv_sample_spec image_spec = {.input_dtype = VV_U8, .target_dtype = VV_I32,
                                          .input_ndim = 3, .input_shape = {16, 16, 3},
                                          .classes = 5};

static bool shake(void *ctx, const char *name, vv_tensor *tensor)
{
    vv_rng *rng = ctx;
    bool variance = strstr(name, "running_var") != NULL;
    if (strstr(name, "running") || strstr(name, "bn."))
        for (int64_t i = 0; i < tensor->count && tensor->dtype == VV_F32; i++)
            vv_tensor_set(tensor, i, (variance ? 1.0 : 0.5) + 0.4 * vv_rng_uniform(rng));
    return true;
}

/* Weights and statistics as training leaves them, not zeros and ones. */
static vv_model *trained(vv_module *net)
{
    vv_model *model;
    vv_rng rng = vv_rng_at(3, "export", 0);
    assert_ok(vv_classifier_build(&model, net, 5, 7));
    vv_module_each_state(net, shake, &rng);
    return model;
}

static vv_model *make_resnet9(void)
{
    vv_module *net;
    assert_ok(vv_resnet9_new(&net, 3, 5, 8, 0.125));
    return trained(net);
}

static vv_model *make_mlp(void)
{
    vv_module *net;
    assert_ok(vv_mlp_new(&net, 16 * 16 * 3, 5, NULL));
    return trained(net);
}

static void push(vv_module *net, vv_status made, vv_module *layer)
{
    assert_ok(vv_sequential_push(net, made, layer));
}

/* What the two models above do not have. */
static vv_model *make_mixture(void)
{
    vv_module *net, *layer;
    vv_conv_opts conv = {{2, 1}, {1, 2}, {1, 2}, 1, {0, 0}};
    vv_pool_opts pool = {{3, 3}, {2, 2}, {1, 1}, false, false};
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_conv2d_new(&layer, 3, 6, 3, &conv, true);
    push(net, made, layer);
    made = vv_activation_new(&layer, VV_ACT_GELU, 0.0);
    push(net, made, layer);
    made = vv_avg_pool_new(&layer, &pool);
    push(net, made, layer);
    made = vv_activation_new(&layer, VV_ACT_SILU, 0.0);
    push(net, made, layer);
    made = vv_adaptive_avg_pool_new(&layer, 1, 1);
    push(net, made, layer);
    made = vv_flatten_new(&layer);
    push(net, made, layer);
    made = vv_layer_norm_new(&layer, 6, 1e-5);
    push(net, made, layer);
    made = vv_activation_new(&layer, VV_ACT_GELU_TANH, 0.0);
    push(net, made, layer);
    made = vv_linear_new(&layer, 6, 5, true);
    push(net, made, layer);
    return trained(net);
}

/* The image's rows as a sequence of 16. */
static vv_node *rows_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)module;
    (void)graph;
    return vv_reshape(x, 3, (const int64_t[]){-1, 16, 48});
}
static const vv_module_class rows_class = {"Rows", rows_forward, NULL};

/* Queries, keys and values from a linear layer, every option that a file can hold. */
static vv_model *make_attention(void)
{
    vv_module *net, *layer;
    const vv_attention_layer plain = {.heads = 2, .kv_heads = 2, .head_dim = 4};
    const vv_attention_layer rich = {.heads = 6, .kv_heads = 2, .head_dim = 3, .causal = true,
                                     .window = 5, .scale = 0.7, .alibi = true};
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_module_new(&layer, &rows_class, 0);
    push(net, made, layer);
    made = vv_linear_new(&layer, 48, 3 * 2 * 4, true);
    push(net, made, layer);
    made = vv_attention_new(&layer, &plain);
    push(net, made, layer);
    made = vv_linear_new(&layer, 2 * 4, (6 + 2 * 2) * 3, true);
    push(net, made, layer);
    made = vv_attention_new(&layer, &rich);
    push(net, made, layer);
    made = vv_flatten_new(&layer);
    push(net, made, layer);
    made = vv_linear_new(&layer, 16 * 6 * 3, 5, true);
    push(net, made, layer);
    return trained(net);
}

static vv_node *sums_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)module;
    (void)graph;
    return vv_softcap(vv_cumsum(x, true), 4.0);
}
static const vv_module_class sums_class = {"Sums", sums_forward, NULL};

/* RMS norms with and without gains, rotary positions, running sums, a soft cap. */
static vv_model *make_sequence(void)
{
    vv_module *net, *layer;
    const vv_attention_layer turned = {.heads = 2, .kv_heads = 1, .head_dim = 6, .causal = true,
                                       .qk_norm = true, .rotary_base = 100.0,
                                       .rotary_share = 0.7};
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_module_new(&layer, &rows_class, 0);
    push(net, made, layer);
    made = vv_rms_norm_new(&layer, 48, 1e-5, true);
    push(net, made, layer);
    made = vv_linear_new(&layer, 48, (2 + 2) * 6, true);
    push(net, made, layer);
    made = vv_attention_new(&layer, &turned);
    push(net, made, layer);
    made = vv_module_new(&layer, &sums_class, 0);
    push(net, made, layer);
    made = vv_flatten_new(&layer);
    push(net, made, layer);
    made = vv_linear_new(&layer, 16 * 12, 5, true);
    push(net, made, layer);
    return trained(net);
}

/* Outputs of the model itself, in evaluation mode; free both. */
static vv_tensor *infer(vv_model *model, int64_t rows, vv_tensor **input)
{
    const int64_t shape[4] = {rows, 16, 16, 3};
    vv_rng rng = vv_rng_at(5, "input", 0);
    vv_graph *graph;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_tensor *output;
    assert_ok(vv_tensor_new(input, VV_F32, 4, shape));
    for (int64_t i = 0; i < (*input)->count; i++)
        vv_tensor_set(*input, i, vv_rng_normal(&rng));
    assert_ok(vv_graph_new(&graph, &opts));
    vv_module_set_training(model->net, false);
    assert_ok(vv_node_keep(vv_module_forward(model->net, graph, vv_leaf(graph, *input)), &output));
    vv_graph_free(graph);
    return output;
}

static char folder[] = "/tmp/vivace-onnx-XXXXXX";

#if VVI_HAVE_PROTOBUF
#include "onnx_reader_test.h"

static vv_model *(*const makers[])(void) = {make_mlp, make_resnet9, make_mixture, make_attention,
                                            make_sequence};
static const char *const names[] = {"mlp", "resnet9", "mixture", "attention", "sequence"};
enum { MODELS = 5 };

static void same_outputs(void **unused)
{
    (void)unused;
    for (int m = 0; m < MODELS; m++)
        for (int64_t rows = 1; rows <= 5; rows += 4) {
            char path[256];
            vv_model *model = makers[m]();
            vv_tensor *input, *expected = infer(model, rows, &input);
            snprintf(path, sizeof path, "%s/%s.onnx", folder, names[m]);
            vv_module_set_training(model->net, true); /* a mode that export must leave alone */
            assert_ok(vv_export_onnx(model, &image_spec, path));
            assert_true(vv_module_training(model->net));
            onnx_reader r;
            reader_open(&r, path);
            const vv_tensor *got = reader_run(&r, input);
            assert_true(vv_tensor_same_shape(got, expected));
            for (int64_t i = 0; i < got->count; i++)
                assert_near(vv_tensor_get(got, i), vv_tensor_get(expected, i), 1e-5, 1e-4);
            assert_int_equal(r.model->opset_import[0]->version, 20);
            const VviOnnxPb__ValueInfoProto *in = r.model->graph->input[0];
            assert_string_equal(in->type->tensor_type->shape->dim[0]->dim_param, "N");
            assert_int_equal(in->type->tensor_type->shape->dim[3]->dim_value, 3);
            if (m == 1) /* one at the input, one at the pooled end */
                assert_true(r.transposes <= 2);
            reader_close(&r);
            vv_tensor_free(input);
            vv_tensor_free(expected);
            vv_model_free(model);
        }
}

/* Parameters keep their names, so that other programs find them. */
static void keeps_names(void **unused)
{
    (void)unused;
    char path[256];
    vv_model *model = make_resnet9();
    snprintf(path, sizeof path, "%s/names.onnx", folder);
    assert_ok(vv_export_onnx(model, &image_spec, path));
    onnx_reader r;
    reader_open(&r, path);
    bool conv = false, fc = false;
    for (size_t i = 0; i < r.model->graph->n_initializer; i++) {
        const VviOnnxPb__TensorProto *t = r.model->graph->initializer[i];
        conv = conv || strcmp(t->name, "prep.conv.weight") == 0;
        if (strcmp(t->name, "fc.weight") != 0)
            continue;
        fc = true;
        const vv_tensor *w = vv_module_param(vv_module_find(model->net, "fc"), "weight")->value;
        assert_int_equal(t->raw_data.len, w->bytes);
        assert_memory_equal(t->raw_data.data, w->data, w->bytes);
    }
    assert_true(conv && fc);
    reader_close(&r);
    vv_model_free(model);
}

/* The largest of a row have no form here. */
static vv_node *largest_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)module;
    (void)graph;
    return vv_topk(x, 2, NULL);
}
static const vv_module_class largest_class = {"Largest", largest_forward, NULL};

static void names_what_is_missing(void **unused)
{
    (void)unused;
    char path[256];
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_module_new(&layer, &largest_class, 0);
    push(net, made, layer);
    vv_model *model = trained(net);
    snprintf(path, sizeof path, "%s/missing.onnx", folder);
    assert_fails(vv_export_onnx(model, &image_spec, path), VV_EUNSUPPORTED);
    assert_says("no form for topk");
    assert_int_equal(access(path, F_OK), -1);
    assert_fails(vv_export_onnx(model, &image_spec, NULL), VV_EUNSUPPORTED);
    vv_model_free(model);
    model = make_mlp();
    assert_ok(vv_export_onnx(model, &image_spec, NULL)); /* looks only */
    assert_fails(vv_export_onnx(model, &image_spec, "/nowhere/x.onnx"), VV_ENOTFOUND);
    vv_model_free(model);
}

static void survives_failing_allocations(void **unused)
{
    (void)unused;
    char path[256];
    vv_model *model = make_mixture();
    snprintf(path, sizeof path, "%s/memory.onnx", folder);
    int64_t live = vv_memory_live_count();
    vv_status status = VV_ENOMEM;
    for (uint64_t nth = 1; nth < 2000 && status != VV_OK; nth++) {
        vv_memory_fail_at(nth);
        status = vv_export_onnx(model, &image_spec, path);
        vv_memory_fail_at(0);
        assert_true(status == VV_OK || status == VV_ENOMEM);
        assert_int_equal(vv_memory_live_count(), live);
        assert_int_equal(access(path, F_OK), status == VV_OK ? 0 : -1);
    }
    assert_ok(status);
    vv_model_free(model);
}

static void write_floats(const char *name, const char *kind, const vv_tensor *t)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, kind);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(t->data, 1, t->bytes, file), t->bytes);
    fclose(file);
}

/* Left out where Python, onnx or onnxruntime is missing ($VIVACE_PYTHON names another Python). */
static void agrees_with_onnxruntime(void **unused)
{
    (void)unused;
    const char *python = getenv("VIVACE_PYTHON");
    char command[1024];
    python = python && python[0] ? python : "python3";
    snprintf(command, sizeof command, "%s -c 'import onnx, onnxruntime' 2>/dev/null", python);
    if (system(command) != 0)
        skip();
    for (int m = 0; m < MODELS; m++) {
        char path[256];
        vv_model *model = makers[m]();
        vv_tensor *input, *expected = infer(model, 5, &input);
        snprintf(path, sizeof path, "%s/%s.onnx", folder, names[m]);
        assert_ok(vv_export_onnx(model, &image_spec, path));
        write_floats(names[m], "input", input);
        write_floats(names[m], "output", expected);
        vv_tensor_free(input);
        vv_tensor_free(expected);
        vv_model_free(model);
    }
    snprintf(command, sizeof command,
             "%s %s/tests/unit/export/check_onnx.py %s mlp resnet9 mixture attention sequence",
             python, VV_SOURCE_ROOT, folder);
    assert_int_equal(system(command), 0);
}
#else
static void says_what_the_build_lacks(void **unused)
{
    (void)unused;
    vv_model *model = make_mlp();
    assert_false(vv_export_has_onnx());
    assert_fails(vv_export_onnx(model, &image_spec, "x.onnx"), VV_EUNSUPPORTED);
    assert_says("protobuf-c");
    vv_model_free(model);
    vv_tensor *input;
    model = make_resnet9();
    vv_tensor_free(infer(model, 1, &input));
    vv_tensor_free(input);
    vv_model_free(model);
    vv_model_free(make_mixture());
}
#endif

static void weights_alone(void **unused)
{
    (void)unused;
    char path[256];
    vv_model *model = make_resnet9();
    snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    assert_ok(vv_export_safetensors(model, path));
    vv_safetensors *file;
    assert_ok(vv_safetensors_open(&file, path));
    for (int i = 0; i < vv_safetensors_count(file); i++)
        assert_int_not_equal(strncmp(vv_safetensors_name(file, i), "vivace/", 7), 0);
    const vv_tensor *w = vv_module_param(vv_module_find(model->net, "fc"), "weight")->value;
    const vv_tensor *got = vv_safetensors_find(file, "fc.weight");
    assert_true(got && vv_tensor_same_shape(got, w));
    assert_memory_equal(got->data, w->data, w->bytes);
    assert_non_null(vv_safetensors_find(file, "prep.bn.running_var"));
    vv_safetensors_close(file);
    vv_model_free(model);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_alone),
#if VVI_HAVE_PROTOBUF
        cmocka_unit_test(same_outputs),
        cmocka_unit_test(keeps_names),
        cmocka_unit_test(names_what_is_missing),
        cmocka_unit_test(survives_failing_allocations),
        cmocka_unit_test(agrees_with_onnxruntime),
#else
        cmocka_unit_test(says_what_the_build_lacks),
#endif
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 || failed;
}
