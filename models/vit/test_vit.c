/* test_vit.c - what must hold of vit: timm's sizes, names and start; logits and every gradient of
 * timm's and torchvision's networks with their weights, read from files with their names; positions
 * resampled as timm does it; other image sizes; samples that skip branches; and it trains. */
#include "language_test.h"

#include "vit.h"
#include "vit_grid.h"

#define HERE VV_SOURCE_ROOT "/models/vit"

static const char small[] = "patch_size=4,width=16,depth=2,heads=2";

/* timm's vit_tiny, vit_small and vit_base_patch16_224, counted without making the largest: blocks
   are alike. */
static void sizes(void **state)
{
    (void)state;
    const struct {
        const vv_model_desc *desc;
        const char *name;
        int64_t count;
    } rows[] = {{&vv_model_vit_ti, "vit-ti", 5717416},
                {&vv_model_vit_s, "vit-s", 22050664},
                {&vv_model_vit, "vit", 22050664},
                {&vv_model_vit_b, "vit-b", 86567656}};
    const vv_sample_spec spec = image_spec(224, 224, 3, 1000);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int64_t one = model_size(rows[i].desc, "depth=1", &spec);
        const int64_t two = model_size(rows[i].desc, "depth=2", &spec);

        assert_string_equal(rows[i].desc->desc.name, rows[i].name);
        assert_int_equal(one + 11 * (two - one), rows[i].count);
    }
}

static double spread(vv_module *net, const char *path, const char *name)
{
    const vv_tensor *w = vv_module_param(path[0] ? vv_module_find(net, path) : net, name)->value;
    double square = 0.0;

    for (int64_t i = 0; i < w->count; i++)
        square += vv_tensor_get(w, i) * vv_tensor_get(w, i);
    return sqrt(square / (double)w->count);
}

static void names_and_start(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(32, 64, 3, 10);
    vv_model *model = model_make(&vv_model_vit, "depth=2,head_bias=-2.5", &spec);

    net_has_names(model->net, "cls_token pos_embed patch_embed.proj.weight patch_embed.proj.bias "
                              "blocks.0.norm1.weight blocks.0.attn.qkv.weight "
                              "blocks.1.attn.qkv.bias blocks.1.attn.proj.bias "
                              "blocks.1.norm2.bias blocks.1.mlp.fc1.weight blocks.1.mlp.fc2.bias "
                              "norm.weight norm.bias head.weight head.bias");
    assert_int_equal(vv_module_param(model->net, "pos_embed")->value->shape[1], 1 + 2 * 4);
    assert_near(spread(model->net, "", "pos_embed"), 0.02, 0.0, 0.05);
    assert_near(spread(model->net, "", "cls_token"), 1e-6, 0.0, 0.3);
    assert_near(spread(model->net, "blocks.0.attn.qkv", "weight"), 0.02, 0.0, 0.02);
    assert_near(spread(model->net, "blocks.1.mlp.fc2", "weight"), 0.02, 0.0, 0.02);
    assert_near(spread(model->net, "blocks.1.mlp.fc1", "bias"), 0.0, 0.0, 0.0);
    assert_near(spread(model->net, "head", "bias"), 2.5, 0.0, 1e-6);
    /* U(+-1/sqrt(3 * 16 * 16)) */
    assert_near(spread(model->net, "patch_embed.proj", "weight"), 1.0 / sqrt(3.0 * 768.0), 0.0,
                0.02);
    assert_int_equal(vv_module_count(model->net, &vv_vit_block_class), 2);
    assert_int_equal(vv_module_count(model->net, &vv_attention_class), 2);
    vv_model_free(model);
    model = model_make(&vv_model_vit, "depth=1,pool=mean,qkv_bias=false", &spec);
    net_has_names(model->net, "pos_embed fc_norm.weight head.bias");
    assert_null(vv_module_param(model->net, "cls_token"));
    assert_null(vv_module_find(model->net, "norm"));
    assert_null(vv_module_param(vv_module_find(model->net, "blocks.0.attn.qkv"), "bias"));
    vv_model_free(model);
}

static vv_safetensors *open_golden(const char *name)
{
    char path[512];
    vv_safetensors *file = NULL;

    snprintf(path, sizeof path, "%s/%s.safetensors", HERE, name);
    assert_ok(vv_safetensors_open(&file, path));
    return file;
}

/* The file holds more than weights: what the model does not know is told and left out. */
static void load(vv_model *model, const vv_safetensors *file)
{
    model_names *names = calloc(1, sizeof *names);
    vv_str told = {0};
    int loaded;

    assert_non_null(names);
    vv_module_each_param(model->net, model_take_param, names);
    assert_ok(vv_model_load(model, file, true,
                            "grad/*,input*,targets,logits*,resampled", &told, &loaded));
    assert_int_equal(loaded, names->count);
    vv_str_fini(&told);
    free(names);
}

static void check_golden(const char *name, const char *settings, int64_t height, int64_t width)
{
    const vv_sample_spec spec = image_spec(height, width, 3, 5);
    vv_model *model = model_make(&vv_model_vit, settings, &spec);
    vv_safetensors *file = open_golden(name);
    model_names *names = calloc(1, sizeof *names);
    vv_tensor *input = golden_tensor(file, "input"), *targets = golden_tensor(file, "targets");

    assert_non_null(names);
    load(model, file);

    vv_tensor *logits = language_output(model->net, input);

    assert_same_numbers("logits", logits, vv_safetensors_find(file, "logits"), false, 1e-5);
    language_step(model, input, targets);
    vv_module_each_param(model->net, model_take_param, names);

    const char *at = names->text;

    for (int i = 0; i < names->count; i++) {
        const size_t length = strcspn(at, " ");
        char grad[256];

        snprintf(grad, sizeof grad, "grad/%.*s", (int)length, at);
        assert_same_numbers(grad, names->params[i]->grad, vv_safetensors_find(file, grad), false,
                            1e-4);
        at += length + 1;
    }
    vv_tensor_free(logits);
    vv_tensor_free(input);
    vv_tensor_free(targets);
    vv_safetensors_close(file);
    vv_model_free(model);
    free(names);
}

static void timm(void **state)
{
    (void)state;
    check_golden("vit_timm", small, 16, 12);
}

static void timm_mean(void **state)
{
    (void)state;
    check_golden("vit_mean", "patch_size=4,width=16,depth=2,heads=2,pool=mean,qkv_bias=false", 16,
                 16);
}

static void norm_after(void **state)
{
    (void)state;
    vv_sample_spec spec = image_spec(16, 16, 3, 5);
    vv_model *model = model_make(&vv_model_vit, "patch_size=4,width=16,depth=2,heads=2,norm=post",
                                 &spec);

    assert_null(vv_module_residual(vv_module_find(model->net, "blocks.0")));
    vv_model_free(model);
    check_golden("vit_post", "patch_size=4,width=16,depth=2,heads=2,norm=post", 16, 16);
}

static void torchvision(void **state)
{
    (void)state;
    check_golden("vit_torchvision", small, 16, 16);
}

/* An image of another size is seen with resampled positions, as by a model of that size that got
   the weights of a file. */
static void other_sizes(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(16, 12, 3, 5), square = image_spec(16, 16, 3, 5);
    const vv_sample_spec large = image_spec(24, 8, 3, 5);
    vv_safetensors *file = open_golden("vit_timm"), *other = open_golden("vit_torchvision");
    vv_model *model = model_make(&vv_model_vit, small, &spec);
    vv_tensor *input = golden_tensor(file, "input_large");
    vv_str told = {0};

    load(model, file);

    vv_tensor *logits = language_output(model->net, input);

    assert_same_numbers("logits", logits, vv_safetensors_find(file, "logits_large"), false, 1e-5);
    vv_tensor_free(logits);
    vv_tensor_free(input);
    vv_model_free(model);

    /* 4 x 4 -> 6 x 2: in the graph and from the file. */
    const int64_t shape[4] = {2, 24, 8, 3};
    vv_rng rng = vv_rng_at(1, "vit", 0);

    assert_ok(vv_tensor_new(&input, VV_F32, 4, shape));
    for (int64_t i = 0; i < input->count; i++)
        vv_tensor_set(input, i, vv_rng_normal(&rng));
    model = model_make(&vv_model_vit, small, &square);
    load(model, other);

    vv_tensor *resampled = language_output(model->net, input);

    vv_model_free(model);
    model = model_make(&vv_model_vit, small, &large);
    assert_ok(vv_model_load(model, other, true, "grad/*,input*,targets,logits*", &told, NULL));
    assert_non_null(strstr(vv_str_text(&told),
                           "positions of a grid of 4x4 are resampled (bicubic) to 6x2"));
    logits = language_output(model->net, input);
    assert_same_numbers("logits", logits, resampled, false, 1e-5);
    vv_str_fini(&told);
    vv_tensor_free(logits);
    vv_tensor_free(resampled);
    vv_tensor_free(input);
    vv_model_free(model);
    vv_safetensors_close(file);
    vv_safetensors_close(other);
}

/* 4 x 3 -> 5 x 2: the table that timm makes. */
static void table_of_timm(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(20, 8, 3, 5);
    vv_model *model = model_make(&vv_model_vit, small, &spec);
    vv_safetensors *file = open_golden("vit_timm");

    /* 4 x 3 is no square, so the file's table cannot be taken as one. */
    assert_fails(vv_model_load(model, file, false, NULL, NULL, NULL), VV_ESHAPE);
    assert_says("pos_embed");
    vv_safetensors_close(file);
    vv_model_free(model);

    const vv_tensor *want, *got;
    vv_graph *graph = language_graph();
    vv_tensor *table;
    file = open_golden("vit_timm");
    want = vv_safetensors_find(file, "resampled");
    table = golden_tensor(file, "pos_embed");

    const int64_t in[2] = {4, 3}, out[2] = {5, 2};
    vv_node *rows = vv_slice(vv_leaf(graph, table), 1, 1, 13, 1);
    vv_node *y = vvi_grid_resampled(graph, rows, in, out);

    assert_ok(vv_node_value(y, &got));
    for (int64_t i = 0; i < got->count; i++)
        assert_near(vv_tensor_get(got, i), vv_tensor_get(want, i + 16), 1e-6, 1e-5);
    vv_graph_free(graph);
    vv_tensor_free(table);
    vv_safetensors_close(file);
}

/* Branches left out: the sum over many samples stays as it was, on average. */
static void drop_path(void **state)
{
    (void)state;
    const int64_t shape[2] = {4000, 3};
    vv_module *layer;
    vv_tensor *x, *y;
    int zero = 0;

    assert_fails(vv_drop_path_new(&layer, 1.0), VV_EINVAL);
    assert_ok(vv_drop_path_new(&layer, 0.25));
    assert_ok(vv_tensor_new(&x, VV_F32, 2, shape));
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, 3.0);
    y = language_output(layer, x);
    for (int64_t row = 0; row < shape[0]; row++) {
        const double value = vv_tensor_get(y, 3 * row);

        assert_true(value == 0.0 || fabs(value - 4.0) < 1e-6);
        assert_true(vv_tensor_get(y, 3 * row + 2) == value);
        zero += value == 0.0;
    }
    assert_near(zero, 1000.0, 120.0, 0.0); /* more than 4 deviations */
    vv_tensor_free(y);
    vv_module_set_training(layer, false);
    y = language_output(layer, x);
    assert_memory_equal(y->data, x->data, x->bytes);
    vv_tensor_free(y);
    vv_tensor_free(x);
    vv_module_free(layer);

    /* Rates grow from 0 to the one given. */
    const vv_sample_spec spec = image_spec(16, 16, 3, 5);
    vv_model *model = model_make(&vv_model_vit, "width=16,heads=1,depth=5,drop_path=0.2", &spec);
    const double want[] = {0.0, 0.05, 0.1, 0.15, 0.2};

    for (int i = 0; i < 5; i++) {
        char path[64];

        snprintf(path, sizeof path, "blocks.%d.drop_path2", i);
        assert_near(*(double *)vv_module_self(vv_module_find(model->net, path)), want[i], 1e-12,
                    0.0);
    }
    vv_model_free(model);
}

static void trains(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(16, 8, 3, 5);
    vv_model *model = model_make(&vv_model_vit, small, &spec);

    model_trains(model, &spec, 4);
    vv_model_free(model);
    model = model_make(&vv_model_vit,
                       "patch_size=4,width=16,depth=2,heads=2,dropout=0.1,attention_dropout=0.1,"
                       "drop_path=0.2,pool=mean,norm=post", &spec);
    model_trains(model, &spec, 8);
    vv_model_free(model);
}

static void residual_is_the_block(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(16, 8, 3, 5);
    vv_model *model = model_make(&vv_model_vit, small, &spec);
    vv_module *block = vv_module_find(model->net, "blocks.1");
    const int64_t shape[] = {2, 6, 16};
    vv_graph *graph = language_graph();
    vv_tensor *x = NULL;
    const vv_tensor *plain = NULL, *told = NULL;

    assert_ok(vv_tensor_new(&x, VV_F32, 3, shape));
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, sin((double)i));

    vv_node *nodes[2] = {vv_module_forward(block, graph, vv_leaf(graph, x)),
                         vv_residual_forward(block, graph, vv_leaf(graph, x))};

    assert_ok(vv_eval(graph, nodes, 2));
    assert_ok(vv_node_value(nodes[0], &plain));
    assert_ok(vv_node_value(nodes[1], &told));
    assert_same_numbers("block", told, plain, false, 1e-6);
    vv_graph_free(graph);
    vv_tensor_free(x);
    vv_model_free(model);
}

static void bad_input(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(16, 16, 3, 5), odd = image_spec(30, 32, 3, 5);
    const int64_t shape[] = {1, 18, 16, 3};
    vv_vit_opts opts = VV_VIT_DEFAULTS;
    vv_model *model = NULL;
    vv_module *net = NULL;
    vv_tensor *input = NULL;
    vv_graph *graph = language_graph();

    assert_fails(vv_model_build(&model, &vv_model_vit, NULL, &odd, 1), VV_EINVAL);
    assert_says("30x32");
    opts.heads = 5;
    assert_fails(vv_vit_new(&net, 32, 32, 3, 10, &opts, 1), VV_EINVAL);
    assert_says("heads=6");
    opts.heads = 0;
    opts.norm = 7;
    assert_fails(vv_vit_new(&net, 32, 32, 3, 10, &opts, 1), VV_EINVAL);
    assert_null(net);
    model = model_make(&vv_model_vit, small, &spec);
    assert_ok(vv_tensor_new(&input, VV_F32, 4, shape));
    assert_null(vv_module_forward(model->net, graph, vv_leaf(graph, input)));
    assert_fails(vv_graph_status(graph), VV_ESHAPE);
    assert_says("multiples of the patch of 4");
    vv_graph_free(graph);
    vv_tensor_free(input);
    vv_model_free(model);
}

static void descriptor(void **state)
{
    (void)state;
    const vv_sample_spec spec = image_spec(16, 16, 3, 4);

    model_desc_is_sane(&vv_model_vit_ti, &spec, 29);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),         cmocka_unit_test(names_and_start),
        cmocka_unit_test(timm),          cmocka_unit_test(timm_mean),
        cmocka_unit_test(norm_after),    cmocka_unit_test(torchvision),
        cmocka_unit_test(other_sizes),   cmocka_unit_test(table_of_timm),
        cmocka_unit_test(drop_path),     cmocka_unit_test(trains),
        cmocka_unit_test(residual_is_the_block), cmocka_unit_test(bad_input),
        cmocka_unit_test(descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
