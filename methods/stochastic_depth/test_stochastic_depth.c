/* test_stochastic_depth.c - what must hold: a branch left out adds no node; rate 1 gives the input
 * itself, rate 0 is bit-equal to the plain block; training averages to what evaluation gives; rates
 * are the distribution's and warm-up ends at the full one; draws do not depend on microbatches. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/resnet.h>
#include <vivace/resnet_cifar.h>
#include <vivace/train.h>

#include "stochastic_depth.h"

static vv_graph *new_graph(void)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *graph;
    assert_ok(vv_graph_new(&graph, &opts));
    return graph;
}

/* A block whose branch is x + 5: with x = 5 the skip is 5 and the branch 10. */
static int branches;
static vv_node *five_more(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)module;
    (void)graph;
    branches++;
    return vv_affine(x, 1, 5);
}
static const vv_residual bare = {five_more, -1, false}, with_relu = {five_more, -1, true};
static const vv_residual with_child = {five_more, 0, true};
static const vv_module_class block_class = {"Block", vv_residual_forward, NULL};

static vv_module *one_block(const vv_residual *parts, bool child)
{
    vv_module *net, *block, *layer;
    assert_ok(vv_sequential_new(&net));
    assert_ok(vv_module_new(&block, &block_class, 0));
    vv_module_set_residual(block, parts);
    if (child) {
        assert_ok(vv_linear_new(&layer, 1, 1, false));
        assert_ok(vv_module_init_default(layer, 3));
        vv_tensor_fill(vv_module_param(layer, "weight")->value, -2);
        assert_ok(vv_module_add_child(block, "downsample", layer));
    }
    assert_ok(vv_sequential_push(net, VV_OK, block));
    return net;
}

static void apply_rate(vv_module *net, vv_depth_method method, double rate)
{
    vv_stochastic_depth_opts opts = VV_STOCHASTIC_DEPTH_DEFAULTS;
    int count;
    opts.stochastic_method = method;
    opts.drop_rate = rate;
    assert_ok(vv_apply_stochastic_depth(net, &opts, NULL, &count));
    assert_int_equal(count, 1);
}

static vv_node *fives(vv_graph *graph, int64_t rows)
{
    const int64_t shape[] = {rows, 1};
    return vv_full(graph, VV_F32, 2, shape, 5);
}

/* Case B20: skip 5, branch 10, keep 0.8: evaluation gives 13, which is what training averages. */
static void expectation(void **unused)
{
    (void)unused;
    enum { DRAWS = 100000 };
    vv_graph *graph = new_graph();
    for (int method = 0; method < 2; method++) {
        vv_module *net = one_block(&bare, false);
        double mean = 0, value;
        apply_rate(net, (vv_depth_method)method, 0.2);
        vv_module_set_training(net, false);
        vv_graph_reset(graph);
        assert_ok(vv_node_item(vv_module_forward(net, graph, fives(graph, 1)), &value));
        assert_near(value, 13, 1e-5, 0);
        vv_module_set_training(net, true);
        if (method == VV_DEPTH_SAMPLE) {
            vv_graph_reset(graph);
            vv_graph_set_rng(graph, 1, 2, 0);
            vv_node *y = vv_module_forward(net, graph, fives(graph, DRAWS));
            assert_ok(vv_node_item(vv_mean_all(y), &mean));
        } else {
            for (uint64_t i = 0; i < DRAWS; i++) {
                vv_graph_reset(graph);
                vv_graph_set_rng(graph, 1, i, 0);
                vv_node *x = fives(graph, 1);
                const int before = branches;
                const vv_node *y = vv_module_forward(net, graph, x);
                assert_int_equal(branches - before, y != x); /* the branch adds nodes, or none */
                mean += (y == x ? 5.0 : 15.0) / DRAWS;
            }
        }
        assert_near(mean, 13, 0.05, 0);
        vv_module_free(net);
    }
    vv_graph_free(graph);
}

static void extremes(void **unused)
{
    (void)unused;
    vv_graph *graph = new_graph();
    for (int method = 0; method < 2; method++) {
        double value;
        /* Rate 1: the input itself; with ReLU behind, as blocks have it before, the same values. */
        vv_module *net = one_block(&with_relu, false);
        apply_rate(net, (vv_depth_method)method, 1);
        vv_graph_reset(graph);
        vv_node *x = fives(graph, 1), *y = vv_module_forward(net, graph, x);
        assert_true(method == VV_DEPTH_SAMPLE || y == x);
        assert_ok(vv_node_item(y, &value));
        assert_true(value == 5);
        vv_module_free(net);
        /* Rate 0: the plain block, in training and evaluation. */
        net = one_block(&with_relu, false);
        apply_rate(net, (vv_depth_method)method, 0);
        for (int training = 0; training < 2; training++) {
            vv_module_set_training(net, training);
            vv_graph_reset(graph);
            assert_ok(vv_node_item(vv_module_forward(net, graph, fives(graph, 1)), &value));
            assert_true(value == 15);
        }
        vv_module_free(net);
    }
    /* A layer on the shortcut: relu(-2 * 5) = 0. */
    vv_module *net = one_block(&with_child, true);
    double value;
    apply_rate(net, VV_DEPTH_BLOCK, 1);
    vv_graph_reset(graph);
    assert_ok(vv_node_item(vv_module_forward(net, graph, fives(graph, 1)), &value));
    assert_true(value == 0);
    vv_module_free(net);
    vv_graph_free(graph);
}

static void rates(void **unused)
{
    (void)unused;
    for (int l = 0; l < 16; l++) {
        assert_near(vv_depth_rate_at(0.2, VV_DEPTH_LINEAR, l, 16), 0.0125 * (l + 1), 1e-12, 0);
        assert_near(vv_depth_rate_at(0.2, VV_DEPTH_UNIFORM, l, 16), 0.2, 0, 0);
    }
    vv_stochastic_depth_opts opts = VV_STOCHASTIC_DEPTH_DEFAULTS;
    opts.drop_rate = 1.5;
    assert_null(vv_stochastic_depth(&opts));
    opts.drop_rate = 0.5;
    opts.stochastic_method = VV_DEPTH_SAMPLE;
    opts.drop_warmup = vv_time_fraction(0.1);
    assert_null(vv_stochastic_depth(&opts));
    assert_says("drop_warmup");
    opts.drop_warmup = vv_time_none();
    vv_method *method = vv_stochastic_depth(&opts);
    assert_non_null(method);
    vv_method_free(method);
}

static bool names_of(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)owner;
    (void)param;
    vv_str_add(ctx, path);
    return true;
}

/* Basic, bottleneck and CIFAR blocks: all of them, once, with the names they had. */
static void surgery(void **unused)
{
    (void)unused;
    for (int i = 0; i < 3; i++) {
        static const int blocks[] = {8, 16, 9};
        const vv_resnet_opts resnet = {i ? VV_RESNET_50 : VV_RESNET_18, VV_RESNET_STEM_CIFAR, 1,
                                       64};
        vv_module *net;
        vv_str before = {0}, after = {0};
        int count;
        if (i < 2)
            assert_ok(vv_resnet_new(&net, 3, 4, &resnet));
        else
            assert_ok(vv_resnet_cifar_new(&net, 3, 4, NULL));
        vv_module_each_param(net, names_of, &before);
        assert_int_equal(vv_stochastic_depth_matches(net), blocks[i]);
        assert_ok(vv_apply_stochastic_depth(net, NULL, NULL, &count));
        assert_int_equal(count, blocks[i]);
        assert_int_equal(vv_module_count(net, &vv_stochastic_block_class), blocks[i]);
        assert_near(vv_stochastic_depth_rate(vv_module_find(net, "layer1.0")), 0.2 / blocks[i],
                    1e-12, 0);
        assert_true(isnan(vv_stochastic_depth_rate(net)));
        vv_module_each_param(net, names_of, &after);
        assert_string_equal(vv_str_text(&before), vv_str_text(&after));
        assert_int_equal(vv_stochastic_depth_matches(net), 0);
        assert_ok(vv_apply_stochastic_depth(net, NULL, NULL, &count));
        assert_int_equal(count, 0);
        vv_str_fini(&before);
        vv_str_fini(&after);
        vv_module_free(net);
    }
    assert_fails(vv_apply_stochastic_depth(NULL, NULL, NULL, NULL), VV_EINVAL);
}

/* Surgery that runs out of memory leaves the net as it was. */
static void out_of_memory(void **unused)
{
    (void)unused;
    vv_module *net = one_block(&with_child, true);
    const int64_t live = vv_memory_live_count();
    const vv_module *block = vv_module_child(net, 0);
    vv_status status = VV_ENOMEM;
    for (uint64_t nth = 1; status != VV_OK; nth++) {
        vv_memory_fail_at(nth);
        status = vv_apply_stochastic_depth(net, NULL, NULL, NULL);
        vv_memory_fail_at(0);
        if (status == VV_OK)
            break;
        assert_int_equal(status, VV_ENOMEM);
        assert_int_equal(vv_memory_live_count(), live);
        assert_ptr_equal(vv_module_child(net, 0), block);
    }
    vv_module_free(net);
}

/* ---- through the Trainer ---- */

#define BATCHES 6

typedef struct seen {
    double rate[BATCHES + 1];
} seen;
static seen *sight;

static vv_status look(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    sight->rate[state->time.batch - 1] =
        vv_stochastic_depth_rate(vv_module_find(state->model->net, "layer3.2"));
    return VV_OK;
}
static const vv_field no_fields[] = {{.name = NULL}};
static const vv_callback_desc looker = {
    .desc = {"callback", "looker", "Notes the rate.", "", "any", no_fields, 0},
    .events = VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .apply = look,
};

/* *weights of the classifier after six batches of four images. */
static void train(const char *settings, int64_t microbatch, seen *out, float weights[64 * 3])
{
    static uint8_t images[8 * 12 * 12 * 3];
    static const int32_t classes[8] = {0, 1, 2, 0, 1, 2, 0, 1};
    const vv_sample_spec spec = {.input_dtype = VV_U8, .target_dtype = VV_I32, .input_ndim = 3,
                                 .input_shape = {12, 12, 3}, .classes = 3};
    vv_rng rng = vv_rng_at(1, "images", 0);
    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)vv_rng_below(&rng, 256);
    vv_dataset *set;
    vv_loader *loader;
    vv_module *net;
    vv_trainer *trainer;
    vv_method *method;
    vv_callback *callbacks[2] = {NULL, NULL};
    vv_loader_opts loading = VV_LOADER_DEFAULTS;
    loading.batch_size = 4;
    loading.workers = 0;
    assert_ok(vv_dataset_from_arrays(&set, &spec, 8, images, classes));
    assert_ok(vv_loader_new(&loader, set, &loading));
    assert_ok(vv_resnet_cifar_new(&net, 3, 3, NULL));
    assert_ok(vv_module_init_default(net, 5));
    vv_module_set_frozen(net, true); /* batch norms: rows do not depend on each other */
    vv_module_set_frozen(vv_module_find(net, "fc"), false);
    assert_ok(vv_method_make(&method, "stochastic_depth", settings));
    assert_ok(vv_callback_new(&callbacks[0], &looker, NULL));
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_new(&opts.model, net, 3));
    opts.train = loader;
    opts.max_duration = "6ba";
    opts.microbatch = microbatch;
    opts.seed = 9;
    opts.callbacks = callbacks;
    opts.methods = (vv_method_list){&method, 1};
    sight = out;
    assert_ok(vv_trainer_new(&trainer, &opts));
    out->rate[BATCHES] = vv_stochastic_depth_rate(vv_module_find(net, "layer3.2"));
    assert_ok(vv_trainer_fit(trainer));
    const vv_tensor *w = vv_module_param(vv_module_find(net, "fc"), "weight")->value;
    memcpy(weights, w->data, w->bytes);
    vv_trainer_free(trainer);
    vv_loader_free(loader);
    vv_dataset_free(set);
}

static void training(void **unused)
{
    (void)unused;
    static const char *const settings[] = {
        "drop_rate=0.5,drop_warmup=0.6666666666666666dur", "drop_rate=0.5,drop_warmup=4ba",
        "drop_rate=0.5,drop_distribution=uniform", "drop_rate=0.5,stochastic_method=sample"};
    for (int i = 0; i < 4; i++) {
        seen whole, parts;
        float a[64 * 3], b[64 * 3];
        train(settings[i], 0, &whole, a);
        train(settings[i], 3, &parts, b);
        for (int k = 0; k < 64 * 3; k++)
            assert_near((double)a[k], (double)b[k], 1e-5, 1e-5);
        for (int k = 0; k < BATCHES; k++)
            assert_near(whole.rate[k], i < 2 && k < 4 ? 0.5 * k / 4 : 0.5, 1e-12, 0);
        assert_true(whole.rate[4] == 0.5); /* exactly, from the end of warm-up on */
        assert_near(whole.rate[BATCHES], i < 2 ? 0 : 0.5, 0, 0);
    }
}

static void settings(void **unused)
{
    (void)unused;
    const vv_stochastic_depth_opts defaults = VV_STOCHASTIC_DEPTH_DEFAULTS;
    vv_str ours = {0}, table = {0}, line = {0};
    vv_method *method = vv_stochastic_depth(NULL);
    vv_opts_to_json(&method->type->desc, method->opts, &table);
    vv_opts_to_json(&method->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_module *net = one_block(&bare, false);
    vv_model *model;
    assert_ok(vv_classifier_new(&model, net, 1));
    const vv_state state = {.model = model, .axis = {-1, -1, -1, -1}};
    assert_ok(method->type->plan(method, &state, &line));
    assert_non_null(strstr(vv_str_text(&line), "1 residual block, for whole batches"));
    vv_model_free(model);
    vv_str_fini(&line);
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(method);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expectation), cmocka_unit_test(extremes),      cmocka_unit_test(rates),
        cmocka_unit_test(surgery),     cmocka_unit_test(out_of_memory), cmocka_unit_test(training),
        cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
