/* test_timm.c - what must hold: config.json names timm's architecture, its numbers, the data's
 * mean, cut and class names; timm, where Python has it ($VIVACE_PYTHON names another), makes the
 * model from the folder and computes the same; what timm does not have is refused, and nothing is
 * written. */
#include "vv_test.h"
#include "vv_test_files.h"

#include <vivace/export.h>
#include <vivace/registry.h>

static char folder[256];
enum { SIDE = 64, ROWS = 2 };

static vv_model *build(const char *name, const char *settings, const vv_sample_spec *spec)
{
    const vv_model_desc *desc;
    vv_model *model;
    void *opts;
    assert_ok(vv_model_find(&desc, name));
    assert_ok(vv_alloc(&opts, desc->desc.opts_size + 1));
    assert_ok(vv_opts_init(&desc->desc, opts));
    assert_ok(vv_opts_set_all(&desc->desc, opts, settings));
    assert_ok(vv_model_build(&model, desc, opts, spec, 3));
    vv_opts_fini(&desc->desc, opts);
    vv_dealloc(opts);
    return model;
}

static char first[] = "a \"b\"", second[] = "c", third[] = "d";
static char *class_names[] = {first, second, third};

static vv_saved_input make_input(void)
{
    vv_saved_input in = {.normalise = true, .class_names = class_names};
    in.spec = (vv_sample_spec){.input_dtype = VV_U8, .target_dtype = VV_I32, .input_ndim = 3,
                               .input_shape = {SIDE, SIDE, 3}, .classes = 3,
                               .mean = {0.5f, 0.25f, 0.125f}, .std = {0.5f, 0.5f, 0.25f}};
    in.prepare = (vv_image_prepare){.resize = 80, .filter = 1 + VV_IMAGE_BICUBIC};
    return in;
}

static void write_floats(const char *name, const vv_tensor *t)
{
    write_file(folder, name, t->data, t->bytes);
}

static void has(const char *text)
{
    char path[512], config[4096] = {0};
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_true(fread(config, 1, sizeof config - 1, file) > 0);
    fclose(file);
    if (!strstr(config, text))
        fail_msg("no %s in %s", text, config);
}

static void compare(vv_model *model)
{
    const char *python = getenv("VIVACE_PYTHON");
    char command[1024];
    const int64_t shape[4] = {ROWS, SIDE, SIDE, 3};
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_rng rng = vv_rng_at(5, "input", 0);
    vv_graph *graph;
    vv_tensor *input, *output;
    python = python && python[0] ? python : "python3";
    snprintf(command, sizeof command, "%s -c 'import timm, torch' 2>/dev/null", python);
    if (system(command) != 0)
        return;
    assert_ok(vv_tensor_new(&input, VV_F32, 4, shape));
    for (int64_t i = 0; i < input->count; i++)
        vv_tensor_set(input, i, vv_rng_normal(&rng));
    assert_ok(vv_graph_new(&graph, &opts));
    vv_module_set_training(model->net, false);
    assert_ok(vv_node_keep(vv_module_forward(model->net, graph, vv_leaf(graph, input)), &output));
    write_floats("input", input);
    write_floats("output", output);
    snprintf(command, sizeof command, "%s %s/tests/unit/export/check_timm.py %s %d 2>/dev/null",
             python, VV_SOURCE_ROOT, folder, SIDE);
    assert_int_equal(system(command), 0);
    vv_graph_free(graph);
    vv_tensor_free(input);
    vv_tensor_free(output);
}

static void models(void **unused)
{
    (void)unused;
    static const struct {
        const char *name, *settings, *says;
    } nets[] = {
        {"resnet", "depth=18", "\"architecture\": \"resnet18\""},
        {"resnet", "depth=50,groups=2,width_per_group=16", "\"cardinality\": 2, \"base_width\": 16"},
        {"vit", "width=32,depth=2,heads=4,mlp_width=96,patch_size=8",
         "\"embed_dim\": 32, \"depth\": 2, \"num_heads\": 4, \"mlp_ratio\": 3"},
    };
    const vv_saved_input in = make_input();
    for (int i = 0; i < 3; i++) {
        vv_model *model = build(nets[i].name, nets[i].settings, &in.spec);
        assert_ok(vv_export_timm(model, &in, folder));
        has(nets[i].says);
        has("\"num_classes\": 3");
        has("\"label_names\": [\"a \\\"b\\\"\", \"c\", \"d\"]");
        has("\"crop_pct\": 0.8, \"crop_mode\": \"center\", \"interpolation\": \"bicubic\"");
        has("\"mean\": [0.5, 0.25, 0.125]");
        compare(model);
        vv_model_free(model);
    }
}

static void refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *name, *settings;
    } nets[] = {{"resnet", "stem=cifar"}, {"vit", "width=32,heads=4,pool=mean"},
                {"resnet9", "width=8"}};
    const vv_saved_input in = make_input();
    char path[512];
    for (int i = 0; i < 3; i++) {
        vv_model *model = build(nets[i].name, nets[i].settings, &in.spec);
        snprintf(path, sizeof path, "%s/none", folder);
        assert_fails(vv_export_timm(model, &in, path), VV_EUNSUPPORTED);
        assert_says("timm has no");
        snprintf(path, sizeof path, "%s/none/model.safetensors", folder);
        assert_int_equal(access(path, F_OK), -1);
        vv_model_free(model);
    }
}

int main(void)
{
    temp_dir(folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models),
        cmocka_unit_test(refused),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_dir(folder);
    return failed;
}
