/* test_squeeze_excite.c - what must hold: channels are scaled by sigmoid(W2 relu(W1 mean)); W2 = 0
 * halves the output; the shape stays; every convolution that is wide enough gets one block, once;
 * the optimizer follows; a share gives at least one latent channel. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "squeeze_excite.h"

static vv_graph *new_graph(void)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *graph;
    assert_ok(vv_graph_new(&graph, &opts));
    return graph;
}

static vv_node *image(vv_graph *graph, int64_t channels)
{
    const int64_t shape[] = {2, 3, 5, channels};
    vv_tensor *x;
    vv_rng rng = vv_rng_at(3, "image", 0);
    assert_ok(vv_tensor_new(&x, VV_F32, 4, shape));
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, vv_rng_normal(&rng));
    vv_node *node = vv_leaf(graph, x);
    vv_tensor_free(x);
    return node;
}

static double weight_of(vv_module *se, const char *layer, int64_t i)
{
    return vv_tensor_get(vv_module_param(vv_module_find(se, layer), "weight")->value, i);
}

static void formula(void **unused)
{
    (void)unused;
    enum { C = 4, L = 2, HW = 15 };
    vv_module *se;
    const vv_tensor *x, *y;
    vv_graph *graph = new_graph();
    assert_ok(vv_squeeze_excite2d_new(&se, C, 0.5));
    assert_ok(vv_module_init_default(se, 5));
    assert_int_equal(vv_module_param_count(se), 2 * C * L);
    vv_node *in = image(graph, C);
    assert_ok(vv_node_value(in, &x));
    assert_ok(vv_node_value(vv_module_forward(se, graph, in), &y));
    for (int n = 0; n < 2; n++) {
        double mean[C] = {0}, hidden[L] = {0};
        for (int k = 0; k < HW * C; k++)
            mean[k % C] += vv_tensor_get(x, n * HW * C + k) / HW;
        for (int l = 0; l < L; l++) {
            for (int c = 0; c < C; c++)
                hidden[l] += weight_of(se, "fc1", l * C + c) * mean[c];
            hidden[l] = fmax(hidden[l], 0);
        }
        for (int k = 0; k < HW * C; k++) {
            double z = 0;
            for (int l = 0; l < L; l++)
                z += weight_of(se, "fc2", (k % C) * L + l) * hidden[l];
            assert_near(vv_tensor_get(y, n * HW * C + k),
                        vv_tensor_get(x, n * HW * C + k) / (1 + exp(-z)), 1e-5, 1e-5);
        }
    }
    /* W2 = 0: sigmoid(0) = 1/2. */
    vv_tensor_fill(vv_module_param(vv_module_find(se, "fc2"), "weight")->value, 0);
    vv_graph_reset(graph);
    in = image(graph, C);
    assert_ok(vv_node_value(in, &x));
    assert_ok(vv_node_value(vv_module_forward(se, graph, in), &y));
    for (int64_t i = 0; i < x->count; i++)
        assert_near(vv_tensor_get(y, i), 0.5 * vv_tensor_get(x, i), 1e-7, 1e-6);
    assert_null(vv_module_forward(se, graph, NULL));
    vv_module_free(se);
    vv_graph_free(graph);
}

static void latent_width(void **unused)
{
    (void)unused;
    vv_module *se;
    assert_ok(vv_squeeze_excite2d_new(&se, 8, 0.01));
    assert_int_equal(vv_module_param_count(se), 16);
    vv_module_free(se);
    assert_ok(vv_squeeze_excite2d_new(&se, 8, 6.9));
    assert_int_equal(vv_module_param_count(se), 2 * 8 * 6);
    vv_module_free(se);
    assert_fails(vv_squeeze_excite2d_new(&se, 8, 0), VV_EINVAL);
    assert_fails(vv_squeeze_excite2d_new(&se, 0, 1), VV_EINVAL);
    assert_fails(vv_squeeze_excite_conv2d_new(&se, NULL, 1), VV_EINVAL);
}

/* conv 3-16, conv 16-8, conv 16-16, all inside; with min_channels 8 the last two match. */
static vv_module *small_net(void)
{
    static const int64_t widths[] = {3, 16, 8, 16};
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    vv_module *net, *layer;
    conv.pad[0] = conv.pad[1] = 1;
    assert_ok(vv_sequential_new(&net));
    for (int i = 0; i < 3; i++) {
        const vv_status made = vv_conv2d_new(&layer, widths[i], widths[i + 1], 3, &conv, true);
        assert_ok(vv_sequential_push(net, made, layer));
    }
    assert_ok(vv_module_init_default(net, 8));
    return net;
}

static void surgery(void **unused)
{
    (void)unused;
    vv_squeeze_excite_opts opts = VV_SQUEEZE_EXCITE_DEFAULTS;
    vv_module *net = small_net();
    vv_optimizer *optimizer;
    int count;
    opts.min_channels = 8;
    opts.latent_channels = 4;
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), NULL, net));
    const vv_param *weight = vv_module_param(vv_module_child(net, 1), "weight");
    vv_graph *graph = new_graph();
    const vv_node *before = vv_module_forward(net, graph, image(graph, 3));
    assert_int_equal(vv_squeeze_excite_matches(net, NULL), 0);
    assert_int_equal(vv_squeeze_excite_matches(net, &opts), 2);
    assert_ok(vv_apply_squeeze_excite(net, &opts, 3, optimizer, &count));
    assert_int_equal(count, 2);
    const vv_node *after = vv_module_forward(net, graph, image(graph, 3));
    assert_ok(vv_graph_status(graph));
    for (int i = 0; i < 4; i++)
        assert_int_equal(vv_node_shape(before)[i], vv_node_shape(after)[i]);
    assert_ptr_equal(vv_module_type(vv_module_child(net, 0)), &vv_conv2d_class);
    assert_ptr_equal(vv_module_param(vv_module_find(net, "1.conv"), "weight"), weight);
    assert_int_equal(weight->owners, 1);
    assert_ok(vv_optimizer_check(optimizer, net));
    assert_int_equal(vv_optimizer_param_count(optimizer), 6 + 4);
    /* Blocks start differently, and the seed decides how. */
    assert_true(weight_of(net, "1.se.fc1", 0) != weight_of(net, "2.se.fc1", 0));
    assert_int_equal(vv_squeeze_excite_matches(net, &opts), 0);
    assert_ok(vv_apply_squeeze_excite(net, &opts, 3, optimizer, &count));
    assert_int_equal(count, 0);
    assert_int_equal(vv_module_count(net, &vv_squeeze_excite_conv2d_class), 2);
    vv_module *again = small_net();
    assert_ok(vv_apply_squeeze_excite(again, &opts, 3, NULL, NULL));
    assert_true(weight_of(net, "2.se.fc2", 1) == weight_of(again, "2.se.fc2", 1));
    opts.latent_channels = 0;
    assert_fails(vv_apply_squeeze_excite(net, &opts, 3, NULL, NULL), VV_EINVAL);
    assert_says("latent_channels");
    assert_fails(vv_apply_squeeze_excite(NULL, NULL, 3, NULL, NULL), VV_EINVAL);
    vv_graph_free(graph);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
    vv_module_free(again);
}

/* Surgery that runs out of memory leaves the net as it was. */
static void out_of_memory(void **unused)
{
    (void)unused;
    vv_squeeze_excite_opts opts = {2, 3};
    vv_module *net = small_net();
    const int64_t live = vv_memory_live_count();
    const vv_module *conv = vv_module_child(net, 1);
    vv_status status = VV_ENOMEM;
    for (uint64_t nth = 1; status != VV_OK; nth++) {
        vv_memory_fail_at(nth);
        status = vv_apply_squeeze_excite(net, &opts, 1, NULL, NULL);
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
    const vv_squeeze_excite_opts defaults = VV_SQUEEZE_EXCITE_DEFAULTS, narrow = {4, 8};
    vv_str text = {0}, ours = {0}, table = {0};
    vv_trainer *trainer;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_new(&opts.model, small_net(), 16));
    opts.methods = VV_LIST(vv_squeeze_excite(&narrow));
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_plan(trainer, &text));
    assert_non_null(strstr(vv_str_text(&text), "channels of 2 convolutions with 8 or more"));
    const vv_method *m = vv_trainer_state(trainer)->methods[0];
    assert_int_equal(m->effect, 2);
    vv_trainer_free(trainer);
    /* The C defaults are the table's. */
    vv_method *plain = vv_squeeze_excite(NULL);
    vv_opts_to_json(&plain->type->desc, plain->opts, &table);
    vv_opts_to_json(&plain->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_method_free(plain);
    vv_str_fini(&text);
    vv_str_fini(&ours);
    vv_str_fini(&table);

    assert_ok(vv_classifier_new(&opts.model, small_net(), 16)); /* nothing has 128 channels */
    opts.methods = VV_LIST(vv_squeeze_excite(NULL));
    assert_fails(vv_trainer_new(&trainer, &opts), VV_EINVAL);
    assert_says("squeeze_excite");
    assert_says("nothing to change");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formula), cmocka_unit_test(latent_width),  cmocka_unit_test(surgery),
        cmocka_unit_test(method),  cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
