/* test_blurpool.c - what must hold: the filter is [1 2 1; 2 4 2; 1 2 1] / 16 with zeros around; the
 * new layers have the old ones' shapes and weights; the right layers are replaced, once; the
 * optimizer keeps their state; nothing matching is an error in training. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "blurpool.h"

static vv_graph *new_graph(void)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *graph;
    assert_ok(vv_graph_new(&graph, &opts));
    return graph;
}

static void filter(void **unused)
{
    (void)unused;
    static const double kernel[] = {1, 2, 1, 2, 4, 2, 1, 2, 1};
    static const double ones[] = {9, 12, 9, 12, 16, 12, 9, 12, 9}; /* borders darken */
    const int64_t shape[] = {1, 3, 3, 2}, dot_shape[] = {1, 1, 1, 1}, two[] = {2, 2};
    float x[18] = {0};
    for (int i = 0; i < 9; i++) {
        x[2 * i] = i == 4;
        x[2 * i + 1] = 1;
    }
    vv_graph *graph = new_graph();
    const vv_tensor *value;
    vv_node *in = vv_data(graph, VV_F32, 4, shape, x);
    assert_ok(vv_node_value(vv_blur2d(in, NULL), &value));
    for (int i = 0; i < 9; i++) {
        assert_near(vv_tensor_get(value, 2 * i), kernel[i] / 16, 1e-7, 0);
        assert_near(vv_tensor_get(value, 2 * i + 1), ones[i] / 16, 1e-7, 0);
    }
    vv_node *strided = vv_blur2d(in, two);
    assert_int_equal(vv_node_shape(strided)[1], 2);
    assert_ok(vv_node_value(strided, &value));
    assert_near(vv_tensor_get(value, 0), 1.0 / 16, 1e-7, 0);
    /* A map of one pixel v gives v / 4. */
    const float dot = 3;
    assert_ok(vv_node_value(vv_blur2d(vv_data(graph, VV_F32, 4, dot_shape, &dot), NULL), &value));
    assert_near(vv_tensor_get(value, 0), 0.75, 1e-7, 0);
    assert_null(vv_blur2d(NULL, NULL));
    vv_graph_free(graph);
}

static vv_node *image(vv_graph *graph, int64_t channels)
{
    const int64_t shape[] = {2, 11, 14, channels};
    vv_tensor *x;
    vv_rng rng = vv_rng_at(3, "image", 0);
    assert_ok(vv_tensor_new(&x, VV_F32, 4, shape));
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, vv_rng_normal(&rng));
    vv_node *node = vv_leaf(graph, x);
    vv_tensor_free(x);
    return node;
}

static void same_shape(vv_graph *graph, vv_module *old, vv_module *new, vv_node *x)
{
    const vv_node *a = vv_module_forward(old, graph, x), *b = vv_module_forward(new, graph, x);
    assert_ok(vv_graph_status(graph));
    for (int i = 0; i < 4; i++)
        assert_int_equal(vv_node_shape(a)[i], vv_node_shape(b)[i]);
}

/* Kernels 1, 3, 5, 7 with "same" padding, strides 2 and 3, blur before and after. */
static void shapes_and_weights(void **unused)
{
    (void)unused;
    vv_graph *graph = new_graph();
    vv_node *x = image(graph, 4);
    for (int64_t kernel = 1; kernel <= 7; kernel += 2)
        for (int64_t stride = 2; stride <= 3; stride++)
            for (int first = 0; first < 2; first++) {
                vv_conv_opts conv = VV_CONV_DEFAULTS;
                vv_module *old, *new;
                conv.stride[0] = conv.stride[1] = stride;
                conv.pad[0] = conv.pad[1] = kernel / 2;
                conv.groups = 2;
                assert_ok(vv_conv2d_new(&old, 4, 6, kernel, &conv, true));
                assert_ok(vv_blur_conv2d_new(&new, old, first));
                const vv_module *inner = vv_module_find(new, "conv");
                assert_ptr_equal(vv_module_param(inner, "weight"), vv_module_param(old, "weight"));
                assert_ptr_equal(vv_module_param(inner, "bias"), vv_module_param(old, "bias"));
                same_shape(graph, old, new, x);
                vv_module_free(old);
                vv_module_free(new);
            }
    for (int64_t stride = 1; stride <= 2; stride++) {
        const vv_pool_opts pool = {.kernel = {3, 3}, .stride = {stride, stride}, .pad = {1, 1}};
        vv_module *old, *new;
        assert_ok(vv_max_pool_new(&old, &pool));
        assert_ok(vv_blur_max_pool_new(&new, &pool));
        same_shape(graph, old, new, x);
        vv_module_free(old);
        vv_module_free(new);
    }
    vv_graph_free(graph);
}

/* blur first: conv(blur(x)); else blur(conv(x)) with the stride; max pooling likewise. */
static void values(void **unused)
{
    (void)unused;
    const int64_t two[] = {2, 2};
    vv_graph *graph = new_graph();
    vv_node *x = image(graph, 4), *expected[3], *got[3];
    vv_conv_opts strided = VV_CONV_DEFAULTS, full = VV_CONV_DEFAULTS;
    vv_pool_opts pool = {.kernel = {2, 2}};
    vv_module *conv, *layers[3];
    strided.stride[0] = strided.stride[1] = 2;
    assert_ok(vv_conv2d_new(&conv, 4, 5, 3, &strided, false));
    assert_ok(vv_module_init_default(conv, 1));
    assert_ok(vv_blur_conv2d_new(&layers[0], conv, true));
    assert_ok(vv_blur_conv2d_new(&layers[1], conv, false));
    assert_ok(vv_blur_max_pool_new(&layers[2], &pool));
    vv_node *weight = vv_module_param_node(conv, graph, "weight");
    expected[0] = vv_conv2d(vv_blur2d(x, NULL), weight, NULL, &strided);
    expected[1] = vv_blur2d(vv_conv2d(x, weight, NULL, &full), two);
    pool.stride[0] = pool.stride[1] = 1;
    expected[2] = vv_blur2d(vv_max_pool2d(x, &pool), two);
    for (int i = 0; i < 3; i++) {
        const vv_tensor *a, *b;
        got[i] = vv_module_forward(layers[i], graph, x);
        assert_ok(vv_node_value(got[i], &a));
        assert_ok(vv_node_value(expected[i], &b));
        assert_true(vv_tensor_same_shape(a, b));
        for (int64_t k = 0; k < a->count; k++)
            assert_near(vv_tensor_get(a, k), vv_tensor_get(b, k), 1e-6, 1e-6);
        vv_module_free(layers[i]);
    }
    vv_module_free(conv);
    vv_graph_free(graph);
}

static void push(vv_module *net, vv_status made, vv_module *layer)
{
    assert_ok(vv_sequential_push(net, made, layer));
}

/* 3-16 strided (too few channels), 16-16 strided, 16-16 of stride 1, max pooling, average to
   1x1. */
static vv_module *small_net(void)
{
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    const vv_pool_opts pool = {.kernel = {2, 2}};
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    conv.pad[0] = conv.pad[1] = 1;
    conv.stride[0] = conv.stride[1] = 2;
    vv_status made = vv_conv2d_new(&layer, 3, 16, 3, &conv, true);
    push(net, made, layer);
    made = vv_conv2d_new(&layer, 16, 16, 3, &conv, true);
    push(net, made, layer);
    conv.stride[0] = conv.stride[1] = 1;
    made = vv_conv2d_new(&layer, 16, 16, 3, &conv, true);
    push(net, made, layer);
    made = vv_max_pool_new(&layer, &pool);
    push(net, made, layer);
    made = vv_adaptive_avg_pool_new(&layer, 1, 1);
    push(net, made, layer);
    made = vv_flatten_new(&layer);
    push(net, made, layer);
    assert_ok(vv_module_init_default(net, 8));
    return net;
}

static void surgery(void **unused)
{
    (void)unused;
    vv_module *net = small_net();
    vv_optimizer *optimizer;
    int count, convs, maxpools;
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), NULL, net));
    const vv_param *weight = vv_module_param(vv_module_child(net, 1), "weight");
    vv_blurpool_matches(net, NULL, &convs, &maxpools);
    assert_int_equal(convs, 1);
    assert_int_equal(maxpools, 1);
    assert_ok(vv_apply_blurpool(net, NULL, optimizer, &count));
    assert_int_equal(count, 2);
    assert_ptr_equal(vv_module_type(vv_module_child(net, 0)), &vv_conv2d_class);
    assert_ptr_equal(vv_module_type(vv_module_child(net, 1)), &vv_blur_conv2d_class);
    assert_ptr_equal(vv_module_type(vv_module_child(net, 2)), &vv_conv2d_class);
    assert_ptr_equal(vv_module_type(vv_module_child(net, 3)), &vv_blur_max_pool_class);
    assert_ptr_equal(vv_module_param(vv_module_find(net, "1.conv"), "weight"), weight);
    assert_int_equal(weight->owners, 1);
    assert_ok(vv_optimizer_check(optimizer, net));
    assert_int_equal(vv_optimizer_param_count(optimizer), 6);
    /* Twice is once. */
    vv_blurpool_matches(net, NULL, &convs, &maxpools);
    assert_int_equal(convs + maxpools, 0);
    assert_ok(vv_apply_blurpool(net, NULL, optimizer, &count));
    assert_int_equal(count, 0);
    assert_int_equal(vv_module_count(net, &vv_blur_conv2d_class), 1);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
}

static void options(void **unused)
{
    (void)unused;
    vv_blurpool_opts opts = VV_BLURPOOL_DEFAULTS;
    int count;
    opts.min_channels = 3;
    vv_module *net = small_net();
    assert_ok(vv_apply_blurpool(net, &opts, NULL, &count));
    assert_int_equal(count, 3);
    vv_module_free(net);
    opts.replace_maxpools = false;
    net = small_net();
    assert_ok(vv_apply_blurpool(net, &opts, NULL, &count));
    assert_int_equal(count, 2);
    vv_module_free(net);
    opts.replace_convs = false;
    net = small_net();
    assert_fails(vv_apply_blurpool(net, &opts, NULL, &count), VV_EINVAL);
    assert_null(vv_blurpool(&opts));
    assert_says("replace_maxpools");
    assert_fails(vv_apply_blurpool(NULL, NULL, NULL, NULL), VV_EINVAL);
    vv_module_free(net);
}

/* Surgery that runs out of memory leaves the net as it was. */
static void out_of_memory(void **unused)
{
    (void)unused;
    vv_module *net = small_net();
    const int64_t live = vv_memory_live_count();
    const vv_module *conv = vv_module_child(net, 1);
    vv_status status = VV_ENOMEM;
    for (uint64_t nth = 1; status != VV_OK; nth++) {
        vv_memory_fail_at(nth);
        status = vv_apply_blurpool(net, NULL, NULL, NULL);
        vv_memory_fail_at(0);
        if (status == VV_OK)
            break;
        assert_int_equal(status, VV_ENOMEM);
        assert_int_equal(vv_memory_live_count(), live);
        assert_ptr_equal(vv_module_child(net, 1), conv);
    }
    vv_module_free(net);
}

static void method(void **unused)
{
    (void)unused;
    const vv_blurpool_opts defaults = VV_BLURPOOL_DEFAULTS;
    vv_str text = {0}, ours = {0}, table = {0};
    vv_trainer *trainer;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_new(&opts.model, small_net(), 16));
    opts.methods = VV_LIST(vv_blurpool(NULL));
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_plan(trainer, &text));
    assert_non_null(
        strstr(vv_str_text(&text), "blurs before 1 strided convolution and in 1 max pooling"));
    const vv_method *m = vv_trainer_state(trainer)->methods[0];
    assert_int_equal(m->effect, 2);
    vv_opts_to_json(&m->type->desc, m->opts, &table);
    vv_opts_to_json(&m->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&text);
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_trainer_free(trainer);

    vv_module *net;
    assert_ok(vv_linear_new(&net, 4, 3, true));
    assert_ok(vv_classifier_new(&opts.model, net, 3));
    opts.methods = VV_LIST(vv_blurpool(NULL));
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("blurpool");
    assert_says("nothing to change");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filter),  cmocka_unit_test(shapes_and_weights),
        cmocka_unit_test(values),  cmocka_unit_test(surgery),
        cmocka_unit_test(options), cmocka_unit_test(out_of_memory),
        cmocka_unit_test(method),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
