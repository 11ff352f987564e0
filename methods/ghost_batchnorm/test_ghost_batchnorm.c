/* test_ghost_batchnorm.c - what must hold: each chunk has mean 0 and variance 1 per channel; a
 * ghost batch as large as the batch, a smaller batch and evaluation are plain batch norm; running
 * statistics move once towards the chunks' average; gradients are those of the chunks; wrapping
 * twice is wrapping once. */
#include "vv_test.h"

#include <vivace/registry.h>
#include <vivace/train.h>

#include "ghost_batchnorm.h"

enum { C = 3, SIDE = 4, VALUES = SIDE * SIDE };

static void chunks(void **unused)
{
    (void)unused;
    static const int64_t cases[][4] = {
        /* rows, ghost, chunks, size */
        {10, 4, 3, 4}, {9, 4, 3, 3}, {8, 4, 2, 4}, {3, 4, 1, 3}, {4, 4, 1, 4},
        {1, 32, 1, 1}, {7, 1, 7, 1}, {9, 2, 5, 2}, {21, 4, 6, 4}, {25, 7, 4, 7},
        {10, 3, 4, 3}, {16, 5, 4, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t size;
        assert_int_equal(vv_ghost_chunks(cases[i][0], cases[i][1], &size), cases[i][2]);
        assert_int_equal(size, cases[i][3]);
    }
}

static vv_tensor *noise(int64_t rows)
{
    const int64_t shape[] = {rows, SIDE, SIDE, C};
    vv_rng rng = vv_rng_at(7, "rows", 0);
    vv_tensor *x;
    assert_ok(vv_tensor_new(&x, VV_F32, 4, shape));
    for (int64_t i = 0; i < x->count; i++)
        vv_tensor_set(x, i, 2 * vv_rng_normal(&rng) + (double)(i % C) + (double)i / 200);
    return x;
}

static vv_graph *new_graph(void)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *graph;
    assert_ok(vv_graph_new(&graph, &opts));
    return graph;
}

/* Mean and biased variance of channel c of rows [first, last). */
static void moments(const vv_tensor *x, int64_t first, int64_t last, int c, double out[2])
{
    const double n = (double)((last - first) * VALUES);
    out[0] = out[1] = 0;
    for (int64_t i = first * VALUES; i < last * VALUES; i++)
        out[0] += vv_tensor_get(x, i * C + c) / n;
    for (int64_t i = first * VALUES; i < last * VALUES; i++)
        out[1] += pow(vv_tensor_get(x, i * C + c) - out[0], 2) / n;
}

static vv_module *new_norm(void)
{
    vv_module *bn;
    assert_ok(vv_batch_norm_new(&bn, C, 1e-5, 0.1));
    return bn;
}

static void statistics_of(int64_t rows, int64_t ghost)
{
    vv_module *bn = new_norm(), *module;
    vv_graph *graph = new_graph();
    vv_tensor *x = noise(rows);
    const vv_tensor *y;
    int64_t size;
    const int64_t count = vv_ghost_chunks(rows, ghost, &size);
    assert_ok(vv_ghost_batchnorm_new(&module, bn, ghost));
    assert_ok(vv_node_value(vv_module_forward(module, graph, vv_leaf(graph, x)), &y));
    for (int c = 0; c < C; c++) {
        double mean = 0, var = 0, now[2];
        for (int64_t i = 0; i < count; i++) {
            const int64_t last = (i + 1) * size < rows ? (i + 1) * size : rows;
            const double n = (double)((last - i * size) * VALUES);
            const double share = (double)(last - i * size) / (double)rows;
            moments(y, i * size, last, c, now);
            assert_near(now[0], 0, 1e-5, 0);
            assert_near(now[1], 1, 1e-4, 0);
            moments(x, i * size, last, c, now);
            mean += share * now[0];
            var += share * now[1] * n / (n - 1);
        }
        assert_near(vv_tensor_get(vv_module_buffer(bn, "running_mean"), c), 0.1 * mean, 1e-6, 1e-5);
        assert_near(vv_tensor_get(vv_module_buffer(bn, "running_var"), c), 0.9 + 0.1 * var, 1e-6,
                    1e-5);
    }
    assert_int_equal(vv_tensor_get(vv_module_buffer(bn, "num_batches_tracked"), 0), 1);
    vv_graph_free(graph);
    vv_tensor_free(x);
    vv_module_free(module);
    vv_module_free(bn);
}

static void chunk_statistics(void **unused)
{
    (void)unused;
    statistics_of(8, 4);
    statistics_of(10, 4); /* 4, 4, 2 */
    statistics_of(9, 4);  /* 3, 3, 3 */
    statistics_of(9, 2);  /* 2, 2, 2, 2, 1 */
    statistics_of(5, 1);
    statistics_of(3, 4);
}

/* Outputs and the norm's own buffers are bit-equal to the plain layer's. */
static void same_as_plain(int64_t rows, int64_t ghost, bool training, bool frozen)
{
    vv_module *bn = new_norm(), *plain = new_norm(), *module;
    vv_graph *graph = new_graph();
    vv_tensor *x = noise(rows);
    const vv_tensor *a, *b;
    assert_ok(vv_ghost_batchnorm_new(&module, bn, ghost));
    vv_module_set_training(module, training);
    vv_module_set_training(plain, training);
    vv_module_set_frozen(module, frozen);
    vv_module_set_frozen(plain, frozen);
    vv_tensor_fill(vv_module_buffer(bn, "running_mean"), 0.7);
    vv_tensor_fill(vv_module_buffer(plain, "running_mean"), 0.7);
    assert_ok(vv_node_value(vv_module_forward(module, graph, vv_leaf(graph, x)), &a));
    assert_ok(vv_node_value(vv_module_forward(plain, graph, vv_leaf(graph, x)), &b));
    assert_memory_equal(a->data, b->data, a->bytes);
    const vv_tensor *mine = vv_module_buffer(bn, "running_mean");
    assert_memory_equal(mine->data, vv_module_buffer(plain, "running_mean")->data, mine->bytes);
    assert_int_equal(vv_tensor_get(mine, 0) != (double)0.7f, training && !frozen);
    vv_graph_free(graph);
    vv_tensor_free(x);
    vv_module_free(module);
    vv_module_free(bn);
    vv_module_free(plain);
}

static void plain_cases(void **unused)
{
    (void)unused;
    same_as_plain(8, 8, true, false);
    same_as_plain(3, 8, true, false);
    same_as_plain(9, 4, false, false);
    same_as_plain(1, 4, false, false);
    same_as_plain(9, 4, true, true);
}

/* The gradient equals that of the chunks normalised one by one. */
static void gradients(void **unused)
{
    (void)unused;
    vv_module *bn = new_norm(), *module;
    vv_graph *graph = new_graph();
    vv_tensor *x = noise(5), *weights = noise(5);
    vv_param *gamma = vv_module_param(bn, "weight");
    const vv_tensor *a, *b;
    vv_node *got[2], *expected[2];
    for (int c = 0; c < C; c++)
        vv_tensor_set(gamma->value, c, 0.5 + c);
    assert_ok(vv_ghost_batchnorm_new(&module, bn, 2));
    vv_node *in = vv_leaf(graph, x), *wrt[2] = {in, vv_leaf(graph, gamma->value)};
    vv_node *parts[3], *beta = vv_module_param_node(bn, graph, "bias");
    for (int i = 0; i < 3; i++)
        parts[i] = vv_batch_norm(vv_slice(in, 0, 2 * i, i < 2 ? 2 * i + 2 : 5, 1), wrt[1], beta,
                                 1e-5, NULL, NULL);
    vv_node *const y[2] = {vv_module_forward(module, graph, in), vv_concat(parts, 3, 0)};
    vv_node *w = vv_leaf(graph, weights);
    assert_ok(vv_grad(graph, vv_sum_all(vv_mul(y[0], w)), wrt, 2, got));
    assert_ok(vv_grad(graph, vv_sum_all(vv_mul(y[1], w)), wrt, 2, expected));
    for (int i = 0; i < 2; i++) {
        assert_ok(vv_node_value(got[i], &a));
        assert_ok(vv_node_value(expected[i], &b));
        for (int64_t k = 0; k < a->count; k++)
            assert_near(vv_tensor_get(a, k), vv_tensor_get(b, k), 1e-4, 1e-4);
    }
    vv_graph_free(graph);
    vv_tensor_free(x);
    vv_tensor_free(weights);
    vv_module_free(module);
    vv_module_free(bn);
}

/* [N,C]: a last chunk of one row would have no variance. */
static void one_value(void **unused)
{
    (void)unused;
    static const float data[] = {1, 5, 2, 9, 4};
    const int64_t shape[] = {5, 1};
    vv_module *bn, *module;
    vv_graph *graph = new_graph();
    const vv_tensor *y;
    assert_ok(vv_batch_norm_new(&bn, 1, 0, 0.1));
    assert_ok(vv_ghost_batchnorm_new(&module, bn, 2));
    vv_node *x = vv_data(graph, VV_F32, 2, shape, data);
    assert_ok(vv_node_value(vv_module_forward(module, graph, x), &y));
    for (int i = 3; i < 5; i++) /* chunks of 3 and 2: of two values one becomes 1, the other -1 */
        assert_near(vv_tensor_get(y, i), i == 3 ? 1 : -1, 1e-5, 0);
    vv_graph_free(graph);
    vv_module_free(module);
    vv_module_free(bn);
}

static vv_module *small_net(void)
{
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    vv_module *net, *layer;
    assert_ok(vv_sequential_new(&net));
    for (int i = 0; i < 2; i++) {
        vv_status made = vv_conv2d_new(&layer, C, C, 1, &conv, false);
        assert_ok(vv_sequential_push(net, made, layer));
        made = vv_batch_norm_new(&layer, C, 1e-5, 0.1);
        assert_ok(vv_sequential_push(net, made, layer));
    }
    assert_ok(vv_module_init_default(net, 8));
    return net;
}

static void surgery(void **unused)
{
    (void)unused;
    const vv_ghost_batchnorm_opts opts = {4}, none = {0};
    vv_module *net = small_net();
    vv_optimizer *optimizer;
    int count;
    assert_ok(vv_optimizer_new(&optimizer, vv_optimizer_find("sgd"), NULL, net));
    const vv_param *weight = vv_module_param(vv_module_child(net, 1), "weight");
    assert_int_equal(vv_ghost_batchnorm_matches(net), 2);
    assert_fails(vv_apply_ghost_batchnorm(net, &none, optimizer, &count), VV_EINVAL);
    assert_ptr_equal(vv_module_type(vv_module_child(net, 1)), &vv_batch_norm_class);
    assert_ok(vv_apply_ghost_batchnorm(net, &opts, optimizer, &count));
    assert_int_equal(count, 2);
    assert_ptr_equal(vv_module_type(vv_module_child(net, 1)), &vv_ghost_batchnorm_class);
    assert_ptr_equal(vv_module_param(vv_module_find(net, "1.bn"), "weight"), weight);
    assert_ok(vv_optimizer_check(optimizer, net));
    assert_int_equal(vv_ghost_batchnorm_matches(net), 0);
    assert_ok(vv_apply_ghost_batchnorm(net, &opts, optimizer, &count));
    assert_int_equal(count, 0);
    assert_int_equal(vv_module_count(net, &vv_ghost_batchnorm_class), 2);
    assert_fails(vv_apply_ghost_batchnorm(NULL, NULL, NULL, NULL), VV_EINVAL);
    vv_optimizer_free(optimizer);
    vv_module_free(net);
}

static void method(void **unused)
{
    (void)unused;
    const vv_ghost_batchnorm_opts defaults = VV_GHOST_BATCHNORM_DEFAULTS;
    vv_str text = {0}, ours = {0}, table = {0};
    vv_trainer *trainer;
    vv_trainer_opts opts = VV_TRAINER_DEFAULTS;
    assert_ok(vv_classifier_new(&opts.model, small_net(), C));
    opts.methods = VV_LIST(vv_ghost_batchnorm(NULL));
    assert_ok(vv_trainer_new(&trainer, &opts));
    assert_ok(vv_trainer_plan(trainer, &text));
    assert_non_null(strstr(vv_str_text(&text), "2 batch norms take statistics"));
    const vv_method *m = vv_trainer_state(trainer)->methods[0];
    assert_int_equal(m->effect, 2);
    assert_true(m->type->events == VV_EVENT_BIT(VV_EVENT_INIT));
    vv_opts_to_json(&m->type->desc, m->opts, &table);
    vv_opts_to_json(&m->type->desc, &defaults, &ours);
    assert_string_equal(vv_str_text(&ours), vv_str_text(&table));
    vv_str_fini(&text);
    vv_str_fini(&ours);
    vv_str_fini(&table);
    vv_trainer_free(trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks),    cmocka_unit_test(chunk_statistics),
        cmocka_unit_test(gradients), cmocka_unit_test(plain_cases),
        cmocka_unit_test(one_value), cmocka_unit_test(surgery),
        cmocka_unit_test(method),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
