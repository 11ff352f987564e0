/* test_factorize.c - what must hold: break-even and latent widths are the formulas'; shapes stay;
 * the right layers are replaced, once; svd starts as the best approximation; ranks can be lowered
 * again with an error that grows as the rank falls. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include <vivace/gpt2.h>

#include "factorize.h"

static void widths(void **unused)
{
    (void)unused;
    assert_int_equal(vv_factorize_break_even(512, 512), 255);
    assert_int_equal(vv_factorize_break_even(512, 2048), 409);
    assert_int_equal(vv_factorize_break_even(256 * 9, 256), 230);
    assert_int_equal(vv_factorize_latent(0.25, 512, 1024), 128);
    assert_int_equal(vv_factorize_latent(128, 512, 512), 128);
    assert_int_equal(vv_factorize_latent(0.01, 10, 10), 1);
    for (int64_t in = 1; in < 40; in++)
        for (int64_t out = 1; out < 40; out++) { /* the largest that is strictly cheaper */
            const int64_t r = vv_factorize_break_even(in, out);
            assert_true(r * (in + out) < in * out);
            assert_true((r + 1) * (in + out) >= in * out);
        }
}

static vv_graph *new_graph(void)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *graph;
    assert_ok(vv_graph_new(&graph, &opts));
    return graph;
}

static vv_node *image(vv_graph *graph, int64_t channels)
{
    const int64_t shape[] = {2, 7, 6, channels};
    vv_tensor *x;
    vv_rng rng = vv_rng_at(3, "image", 0);
    assert_ok(vv_tensor_new(&x, VV_F32, 4, shape));
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, vv_rng_normal(&rng));
    vv_node *node = vv_leaf(graph, x);
    vv_tensor_free(x);
    return node;
}

/* Mean squared difference of the outputs over the variance of the first. */
static double nmse(vv_module *a, vv_module *b, int64_t channels)
{
    vv_graph *graph = new_graph();
    const vv_tensor *x, *y;
    double error = 0, mean = 0, square = 0;
    vv_node *in = image(graph, channels);
    if (vv_module_type(a) == &vv_linear_class)
        in = vv_reshape(in, 2, (const int64_t[]){84, channels});
    vv_node *const both[2] = {vv_module_forward(a, graph, in), vv_module_forward(b, graph, in)};
    assert_ok(vv_eval(graph, both, 2));
    assert_ok(vv_node_value(both[0], &x));
    assert_ok(vv_node_value(both[1], &y));
    assert_true(vv_tensor_same_shape(x, y));
    for (int64_t i = 0; i < x->count; i++) {
        error += pow(vv_tensor_get(x, i) - vv_tensor_get(y, i), 2);
        mean += vv_tensor_get(x, i) / (double)x->count;
        square += pow(vv_tensor_get(x, i), 2);
    }
    const double variance = square - (double)x->count * mean * mean;
    vv_graph_free(graph);
    return error / variance;
}

/* A layer whose weight has rank 3 is met exactly at latent 3; below, the error grows. */
static void approximation(void **unused)
{
    (void)unused;
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    vv_module *layers[2], *pair, *thinner;
    conv.stride[0] = conv.stride[1] = 2;
    conv.pad[0] = conv.pad[1] = 1;
    assert_ok(vv_conv2d_new(&layers[0], 8, 12, 3, &conv, true));
    assert_ok(vv_linear_new(&layers[1], 8, 12, true));
    for (int k = 0; k < 2; k++) {
        assert_ok(vv_module_init_default(layers[k], 4));
        vv_tensor *w = vv_module_param(layers[k], "weight")->value;
        const int64_t cols = w->count / 12;
        for (int64_t i = 3; i < 12; i++) /* rows 3.. are mixtures of the first three */
            for (int64_t j = 0; j < cols; j++)
                vv_tensor_set(w, i * cols + j,
                              sin((double)i) * vv_tensor_get(w, j) +
                                  cos((double)(3 * i)) * vv_tensor_get(w, cols + j) +
                                  0.3 * vv_tensor_get(w, 2 * cols + j));
        double before = 1e-9;
        if (k == 0)
            assert_ok(vv_factorized_conv2d_new(&pair, layers[k], 3, VV_FACTORIZE_SVD));
        else
            assert_ok(vv_factorized_linear_new(&pair, layers[k], 3, VV_FACTORIZE_SVD));
        assert_true(nmse(layers[k], pair, 8) < before);
        for (int64_t rank = 3; rank >= 1; rank--) {
            assert_ok(vv_factorized_set_rank(&thinner, pair, rank));
            const double now = nmse(layers[k], thinner, 8);
            assert_true(now < 1 && now >= (rank == 3 ? 0 : before));
            assert_true(rank == 3 ? now < 1e-9 : now > 1e-4);
            before = now;
            vv_module_free(thinner);
        }
        assert_fails(vv_factorized_set_rank(&thinner, pair, 4), VV_EINVAL);
        assert_fails(vv_factorized_set_rank(&thinner, pair, 0), VV_EINVAL);
        assert_fails(vv_factorized_set_rank(&thinner, layers[k], 1), VV_EINVAL);
        vv_module_free(pair);
    }
    assert_fails(vv_factorized_conv2d_new(&pair, layers[0], 11, VV_FACTORIZE_FRESH), VV_EINVAL);
    assert_fails(vv_factorized_linear_new(&pair, layers[1], 5, VV_FACTORIZE_FRESH), VV_EINVAL);
    assert_fails(vv_factorized_linear_new(&pair, layers[0], 1, VV_FACTORIZE_FRESH), VV_EINVAL);
    vv_module_free(layers[0]);
    vv_module_free(layers[1]);
    conv.groups = 2;
    assert_ok(vv_conv2d_new(&layers[0], 8, 12, 3, &conv, true));
    assert_fails(vv_factorized_conv2d_new(&pair, layers[0], 2, VV_FACTORIZE_FRESH),
                 VV_EUNSUPPORTED);
    vv_module_free(layers[0]);
}

/* conv 3-16, conv 16-16 of stride 2, grouped conv 16-16, pooling, linear 16-16 without bias, linear
   16-3. */
static vv_module *small_net(void)
{
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    vv_module *net, *layer;
    conv.pad[0] = conv.pad[1] = 1;
    assert_ok(vv_sequential_new(&net));
    vv_status made = vv_conv2d_new(&layer, 3, 16, 3, &conv, true);
    assert_ok(vv_sequential_push(net, made, layer));
    conv.stride[0] = conv.stride[1] = 2;
    made = vv_conv2d_new(&layer, 16, 16, 3, &conv, false);
    assert_ok(vv_sequential_push(net, made, layer));
    conv.groups = 2;
    made = vv_conv2d_new(&layer, 16, 16, 3, &conv, true);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_adaptive_avg_pool_new(&layer, 1, 1);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_flatten_new(&layer);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, 16, 16, false);
    assert_ok(vv_sequential_push(net, made, layer));
    made = vv_linear_new(&layer, 16, 3, true);
    assert_ok(vv_sequential_push(net, made, layer));
    assert_ok(vv_module_init_default(net, 8));
    return net;
}

static void surgery(void **unused)
{
    (void)unused;
    const vv_factorize_opts opts = {true, true, 8, 0.5, 8, 7, VV_FACTORIZE_FRESH};
    vv_module *net = small_net();
    vv_optimizer *optimizer;
    vv_factorize_counts counts;
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), NULL, net));
    vv_graph *graph = new_graph();
    const vv_node *before = vv_module_forward(net, graph, image(graph, 3));
    vv_factorize_matches(net, &opts, &counts);
    assert_int_equal(counts.convs, 1);
    assert_int_equal(counts.linears, 1);
    assert_ok(vv_apply_factorization(net, &opts, 2, optimizer, &counts));
    assert_int_equal(counts.convs, 1);
    assert_int_equal(counts.linears, 1);
    const vv_node *after = vv_module_forward(net, graph, image(graph, 3));
    assert_ok(vv_graph_status(graph));
    assert_int_equal(vv_node_shape(before)[1], vv_node_shape(after)[1]);
    assert_ptr_equal(vv_module_type(vv_module_child(net, 1)), &vv_factorized_conv2d_class);
    assert_int_equal(vv_module_param(vv_module_find(net, "1.module0"), "weight")->value->shape[0],
                     8);
    assert_null(vv_module_param(vv_module_find(net, "1.module0"), "bias"));
    assert_non_null(vv_module_param(vv_module_find(net, "1.module1"), "bias"));
    assert_null(vv_module_param(vv_module_find(net, "5.module1"), "bias"));
    assert_ok(vv_optimizer_check(optimizer, net));
    vv_factorize_matches(net, &opts, &counts);
    assert_int_equal(counts.convs + counts.linears, 0);
    assert_ok(vv_apply_factorization(net, &opts, 2, optimizer, &counts));
    assert_int_equal(counts.convs + counts.linears, 0);
    vv_graph_free(graph);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
}

static void options(void **unused)
{
    (void)unused;
    vv_factorize_opts opts = {false, true, 8, 0.5, 8, 7, VV_FACTORIZE_FRESH};
    vv_module *net = small_net();
    vv_factorize_counts counts;
    vv_factorize_matches(net, &opts, &counts);
    assert_int_equal(counts.convs, 0);
    opts.latent_features = 8; /* 16 -> 8 -> 16 saves nothing */
    vv_factorize_matches(net, &opts, &counts);
    assert_int_equal(counts.linears, 0);
    opts.factorize_linears = false;
    assert_fails(vv_apply_factorization(net, &opts, 2, NULL, &counts), VV_EINVAL);
    assert_null(vv_factorize(&opts));
    assert_says("both false");
    assert_fails(vv_apply_factorization(NULL, NULL, 2, NULL, NULL), VV_EINVAL);
    vv_module_free(net);
}

/* Surgery that runs out of memory leaves the net as it was. */
static void out_of_memory(void **unused)
{
    (void)unused;
    vv_factorize_opts opts = {true, true, 8, 0.5, 8, 7, VV_FACTORIZE_FRESH};
    for (int start = 0; start < 2; start++) {
        vv_module *net = small_net();
        const int64_t live = vv_memory_live_count();
        const vv_module *conv = vv_module_child(net, 1);
        vv_status status = VV_ENOMEM;
        opts.start = start;
        for (uint64_t nth = 1; status != VV_OK; nth++) {
            vv_memory_fail_at(nth);
            status = vv_apply_factorization(net, &opts, 1, NULL, NULL);
            vv_memory_fail_at(0);
            if (status == VV_OK)
                break;
            assert_int_equal(status, VV_ENOMEM);
            assert_int_equal(vv_memory_live_count(), live);
            assert_ptr_equal(vv_module_child(net, 1), conv);
        }
        vv_module_free(net);
    }
}

static void method(void **unused)
{
    (void)unused;
    const vv_factorize_opts defaults = VV_FACTORIZE_DEFAULTS;
    vv_factorize_opts small = VV_FACTORIZE_DEFAULTS;
    vv_str text = {0}, ours = {0}, table = {0};
    vv_trainer *trainer;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    small.min_channels = 8;
    assert_ok(vv_classifier_new(&opts.model, small_net(), 3));
    opts.methods = VV_LIST(vv_factorize(&small));
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_plan(trainer, &text));
    assert_non_null(strstr(vv_str_text(&text), "replaces 1 convolution and 0 linear layers"));
    assert_int_equal(vv_trainer_state(trainer)->methods[0]->effect, 1);
    vv_trainer_free(trainer);
    vv_method *plain = vv_factorize(NULL);
    vv_opts_to_json(&plain->type->desc, plain->opts, &table);
    vv_opts_to_json(&plain->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_method_free(plain);
    vv_str_fini(&text);
    vv_str_fini(&ours);
    vv_str_fini(&table);
}

/* GPT-2's linear layers become pairs under their names; the head, which is the table of tokens,
   stays; the net still computes. */
static void transformer(void **unused)
{
    (void)unused;
    vv_gpt2_opts size = VV_GPT2_DEFAULTS;
    vv_factorize_opts opts = VV_FACTORIZE_DEFAULTS;
    vv_factorize_counts counts, expected;
    const int64_t shape[] = {1, 4};
    static const int32_t tokens[] = {3, 1, 2, 0};
    vv_module *net;
    const vv_tensor *logits;
    size.d = 32;
    size.layers = size.heads = 2;
    size.context = 8;
    opts.min_features = 32;
    opts.latent_features = 8;
    assert_ok(vv_gpt2_new(&net, 64, &size, 1));
    vv_module *head = vv_module_find(net, "lm_head");
    vv_factorize_matches(net, &opts, &expected);
    assert_ok(vv_apply_factorization(net, &opts, 2, NULL, &counts));
    assert_int_equal(counts.linears, 8); /* c_attn, two c_proj and c_fc of two blocks */
    assert_int_equal(expected.linears, 8);
    assert_int_equal(counts.convs, 0);
    assert_ptr_equal(vv_module_find(net, "lm_head"), head);
    vv_module *pair = vv_module_find(net, "transformer.h.1.mlp.c_fc");
    assert_int_equal(vv_module_param(vv_module_find(pair, "module0"), "weight")->value->shape[0],
                     8);
    assert_int_equal(vv_module_param(vv_module_find(pair, "module1"), "weight")->value->shape[0],
                     128);
    vv_graph *graph = new_graph();
    vv_module_set_training(net, false);
    assert_ok(vv_node_value(vv_module_forward(net, graph, vv_data(graph, VV_I32, 2, shape, tokens)),
                            &logits));
    assert_int_equal(logits->shape[2], 64);
    vv_graph_free(graph);
    vv_module_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widths),  cmocka_unit_test(transformer), cmocka_unit_test(approximation),
        cmocka_unit_test(surgery), cmocka_unit_test(options),     cmocka_unit_test(out_of_memory),
        cmocka_unit_test(method),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
