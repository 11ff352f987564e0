/* test_patch_whitening.c - what must hold: the filters' outputs over the patches have second
 * moments value / (value + eps), no correlation, and the negatives follow; the weight is frozen and
 * stays through training, the bias learns for its time; other first layers are refused. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "patch_whitening.h"

enum { N = 20, SIDE = 8, C = 3, VALUES = 12, PIXELS = SIDE * SIDE * C };

/* Smooth images: neighbours and channels are alike. */
static void fill(uint8_t *out)
{
    vv_rng rng = vv_rng_at(6, "pixels", 0);
    for (int i = 0; i < N * PIXELS; i++) {
        const int x = i / C % SIDE, y = i / C / SIDE % SIDE;
        out[i] = (uint8_t)(40 + 9 * x + 7 * y + (int)vv_rng_below(&rng, 30));
    }
}

static vv_module *net_of(int64_t filters, int64_t kernel)
{
    const vv_conv_opts valid = VV_CONV_DEFAULTS;
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_conv2d_new(&layer, C, filters, kernel, &valid, true);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_adaptive_avg_pool_new(&layer, 1, 1);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_flatten_new(&layer);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, filters, 2, true);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_module_init_default(net, 4));
    return net;
}

static void whitens(void **unused)
{
    (void)unused;
    static uint8_t raw[N * PIXELS];
    const vv_patch_whitening_opts opts = {1, 1e-6, {VV_UNIT_NONE, 0, 0}};
    const vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;
    const int64_t shape[] = {N, SIDE, SIDE, C};
    vv_module *net = net_of(26, 2), *conv = vv_patch_whitening_layer(net, C);
    vv_tensor *images, *before;
    vv_graph *graph;
    const vv_tensor *y;
    fill(raw);
    assert_ok(vv_tensor_new(&images, VV_F32, 4, shape));
    for (int64_t i = 0; i < images->count; i++)
        vv_tensor_set(images, i, raw[i] / 255.0);
    const vv_param *weight = vv_module_param(conv, "weight");
    assert_ok(vv_tensor_clone(&before, weight->value));
    assert_ok(vv_whiten_patches(conv, images, &opts));
    assert_true(weight->frozen);
    vv_tensor_fill(vv_module_param(conv, "bias")->value, 0);
    assert_ok(vv_graph_new(&graph, &graph_opts));
    assert_ok(vv_node_value(vv_module_forward(conv, graph, vv_leaf(graph, images)), &y));
    const int64_t patches = y->count / 26;
    for (int a = 0; a < VALUES; a++)
        for (int b = 0; b <= a; b++) {
            double moment = 0;
            for (int64_t i = 0; i < patches; i++)
                moment += vv_tensor_get(y, i * 26 + a) * vv_tensor_get(y, i * 26 + b) /
                          (double)patches;
            assert_near(moment, a == b, 5e-3, 0);
        }
    for (int64_t k = 0; k < VALUES * VALUES; k++) /* the negatives; two filters are left */
        assert_near(vv_tensor_get(weight->value, VALUES * VALUES + k),
                    -vv_tensor_get(weight->value, k), 0, 0);
    assert_memory_equal((float *)weight->value->data + 2 * VALUES * VALUES,
                        (float *)before->data + 2 * VALUES * VALUES, 2 * VALUES * sizeof(float));
    assert_null(vv_patch_whitening_layer(net, 1));
    vv_module *narrow = net_of(11, 2);
    assert_null(vv_patch_whitening_layer(narrow, C));
    assert_fails(vv_whiten_patches(vv_module_child(narrow, 0), images, NULL), VV_EINVAL);
    assert_fails(vv_whiten_patches(NULL, images, NULL), VV_EINVAL);
    vv_module_free(narrow);
    vv_graph_free(graph);
    vv_tensor_free(before);
    vv_tensor_free(images);
    vv_module_free(net);
}

static void training(void **unused)
{
    (void)unused;
    static uint8_t raw[N * PIXELS];
    static int32_t classes[N];
    const vv_sample_spec spec = {.input_dtype = VV_U8, .target_dtype = VV_I32, .input_ndim = 3,
                                 .input_shape = {SIDE, SIDE, C}, .classes = 2};
    float bias[2][24];
    fill(raw);
    for (int i = 0; i < N; i++)
        classes[i] = i % 2;
    vv_dataset *set;
    vv_loader *loader;
    vv_loader_opts loading = VV_LOADER_DEFAULTS;
    loading.batch_size = 10;
    assert_ok(vv_dataset_from_arrays(&set, &spec, N, raw, classes));
    assert_ok(vv_loader_new(&loader, set, &loading));
    for (int run = 0; run < 2; run++) { /* the bias learns for one epoch: one and three are alike */
        vv_trainer *trainer;
        vv_method *method;
        vv_tensor *before;
        vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
        assert_ok(vv_classifier_new(&opts.model, net_of(24, 2), 2));
        assert_ok(vv_method_make(&method, "patch_whitening", "bias_time=1ep"));
        opts.train = loader;
        opts.max_duration = run ? "3ep" : "1ep";
        opts.methods = (vv_method_list){&method, 1};
        assert_ok(vv_trainer_new(&trainer, &opts));
        vv_module *conv = vv_module_child(vv_trainer_state(trainer)->model->net, 0);
        const vv_tensor *weight = vv_module_param(conv, "weight")->value;
        assert_ok(vv_tensor_clone(&before, weight));
        memcpy(bias[run], vv_module_param(conv, "bias")->value->data, sizeof bias[run]);
        assert_ok(vv_trainer_fit(trainer));
        assert_memory_equal(before->data, weight->data, weight->bytes);
        const vv_tensor *now = vv_module_param(conv, "bias")->value;
        assert_true(memcmp(bias[run], now->data, now->bytes) != 0);
        memcpy(bias[run], now->data, sizeof bias[run]);
        vv_tensor_free(before);
        vv_trainer_free(trainer);
    }
    assert_memory_equal(bias[0], bias[1], sizeof bias[0]);
    /* Too few filters. */
    vv_trainer *trainer;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_new(&opts.model, net_of(8, 3), 2));
    opts.train = loader;
    opts.methods = VV_LIST(vv_patch_whitening(NULL));
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("nothing to change");
    vv_loader_free(loader);
    vv_dataset_free(set);
    const vv_patch_whitening_opts defaults = VV_PATCH_WHITENING_DEFAULTS;
    vv_str ours = {0}, table = {0};
    vv_method *m = vv_patch_whitening(NULL);
    vv_opts_to_json(&m->type->desc, m->opts, &table);
    vv_opts_to_json(&m->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_method_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whitens), cmocka_unit_test(training)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
