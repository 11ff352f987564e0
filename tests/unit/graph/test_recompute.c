/* test_recompute.c - activations computed again instead of kept: the same bits in loss, gradients
 * and running statistics, with random nodes too; less memory, as planned; nothing is computed again
 * where the whole fits; the smallest sufficient set is taken; structures that keep changing do not
 * fill the plan cache. */
#include "vv_test.h"

#include <vivace/nn.h>
#include <vivace/ops.h>
#include <vivace/rng.h>

enum { ROWS = 32, WIDTH = 48, LAYERS = 32 };

typedef struct outcome {
    double loss;
    vv_tensor *grads[2 * LAYERS];
    int count;
    vv_graph_stats stats;
    vv_plan_cost cost;
} outcome;

static void free_outcome(outcome *o)
{
    for (int i = 0; i < o->count; i++)
        vv_tensor_free(o->grads[i]);
}

static void assert_same_bits(const outcome *a, const outcome *b)
{
    assert_true(a->loss == b->loss);
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++)
        assert_memory_equal(a->grads[i]->data, b->grads[i]->data, a->grads[i]->bytes);
}

static void fill(vv_tensor *t, const char *stream, double scale, double shift)
{
    vv_rng rng = vv_rng_at(7, stream, 0);
    for (int64_t i = 0; i < t->count; i++)
        vv_tensor_set(t, i, shift + scale * vv_rng_normal(&rng));
}

static vv_graph *new_graph(vv_precision precision, vv_recompute mode, size_t limit)
{
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.precision = precision;
    vv_graph *g;
    assert_ok(vv_graph_new(&g, &opts));
    vv_graph_set_memory(g, mode, limit);
    return g;
}

static void evaluate(vv_graph *g, vv_node *loss, vv_node *const *wrt, int count, outcome *o)
{
    vv_node *outs[2 * LAYERS + 1] = {loss};
    assert_true(count <= 2 * LAYERS);
    assert_ok(vv_grad(g, loss, wrt, count, outs + 1));
    assert_ok(vv_graph_plan_cost(g, outs, count + 1, &o->cost));
    assert_ok(vv_eval(g, outs, count + 1));
    assert_ok(vv_node_item(loss, &o->loss));
    for (int i = 0; i < count; i++)
        assert_ok(vv_node_keep(outs[i + 1], &o->grads[i]));
    o->count = count;
    vv_graph_get_stats(g, &o->stats);
    assert_int_equal(o->stats.planned_bytes, o->cost.slab_bytes);
    assert_int_equal(o->stats.planned_bytes, o->stats.peak_bytes);
    assert_int_equal(o->stats.recompute_flops, o->cost.recompute_flops);
}

/* Linear, GELU and dropout, LAYERS times. */
static outcome run_mlp(vv_precision precision, vv_recompute mode, size_t limit)
{
    outcome o = {0};
    vv_graph *g = new_graph(precision, mode, limit);
    vv_tensor *x, *w[LAYERS];
    assert_ok(vv_tensor_new(&x, VV_F32, 2, (int64_t[]){ROWS, WIDTH}));
    fill(x, "x", 1, 0);
    vv_graph_set_rng(g, 11, 3, 0);
    vv_node *h = vv_leaf(g, x), *wrt[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        char stream[16];
        snprintf(stream, sizeof stream, "w%d", i);
        assert_ok(vv_tensor_new(&w[i], VV_F32, 2, (int64_t[]){WIDTH, WIDTH}));
        fill(w[i], stream, 1.5 / sqrt(WIDTH), 0);
        wrt[i] = vv_leaf(g, w[i]);
        h = vv_dropout(vv_gelu(vv_linear(h, wrt[i], NULL)), 0.1);
    }
    evaluate(g, vv_mean_all(vv_square(h)), wrt, LAYERS, &o);
    vv_graph_free(g);
    vv_tensor_free(x);
    for (int i = 0; i < LAYERS; i++)
        vv_tensor_free(w[i]);
    return o;
}

/* A deep network takes much less memory, at the price of at most one more forward pass. */
static void test_deep_mlp(void **state)
{
    (void)state;
    for (int p = 0; p < 2; p++) {
        vv_precision precision = p ? VV_PRECISION_AMP_BF16 : VV_PRECISION_FP32;
        outcome whole = run_mlp(precision, VV_RECOMPUTE_OFF, 0);
        outcome full = run_mlp(precision, VV_RECOMPUTE_FULL, 0);
        size_t limit = whole.cost.slab_bytes * 3 / 5;
        outcome some = run_mlp(precision, VV_RECOMPUTE_AUTO, limit);
        assert_same_bits(&whole, &full);
        assert_same_bits(&whole, &some);
        assert_int_equal(whole.cost.recompute_flops, 0);
        assert_int_equal(whole.cost.whole_bytes, whole.cost.slab_bytes);
        assert_int_equal(full.cost.whole_bytes, whole.cost.slab_bytes);
        assert_int_equal(full.cost.flops, whole.cost.flops);
        print_message("# mlp: whole %zu, 60%% %zu (+%.1f%% flops), least %zu (+%.1f%% flops)\n",
                      whole.cost.slab_bytes, some.cost.slab_bytes,
                      100.0 * (double)some.cost.recompute_flops / (double)some.cost.flops,
                      full.cost.slab_bytes,
                      100.0 * (double)full.cost.recompute_flops / (double)full.cost.flops);
        assert_true(some.cost.slab_bytes <= limit);
        assert_true(full.cost.slab_bytes * 5 < whole.cost.slab_bytes * 2);
        /* the forward pass is a third of the work: never more than all of it again */
        assert_true(full.cost.recompute_flops * 5 <= full.cost.flops * 2);
        assert_true(some.cost.recompute_flops < full.cost.recompute_flops);
        free_outcome(&whole);
        free_outcome(&full);
        free_outcome(&some);
    }
}

/* Where the whole fits exactly nothing is computed again; one byte less, and a little is. */
static void test_nothing_without_need(void **state)
{
    (void)state;
    outcome whole = run_mlp(VV_PRECISION_FP32, VV_RECOMPUTE_OFF, 0);
    outcome fits = run_mlp(VV_PRECISION_FP32, VV_RECOMPUTE_AUTO, whole.cost.slab_bytes);
    outcome free_of_limit = run_mlp(VV_PRECISION_FP32, VV_RECOMPUTE_AUTO, 0);
    outcome tight = run_mlp(VV_PRECISION_FP32, VV_RECOMPUTE_AUTO, whole.cost.slab_bytes - 1);
    assert_int_equal(fits.cost.slab_bytes, whole.cost.slab_bytes);
    assert_int_equal(fits.cost.recompute_flops, 0);
    assert_int_equal(free_of_limit.cost.recompute_flops, 0);
    assert_true(tight.cost.slab_bytes < whole.cost.slab_bytes);
    assert_true(tight.cost.recompute_flops * 20 < whole.cost.flops);
    assert_same_bits(&whole, &tight);
    free_outcome(&whole);
    free_outcome(&fits);
    free_outcome(&free_of_limit);
    free_outcome(&tight);
}

/* A limit that cannot be reached gives the least memory, not a failure. */
static void test_impossible_limit(void **state)
{
    (void)state;
    outcome full = run_mlp(VV_PRECISION_FP32, VV_RECOMPUTE_FULL, 0);
    outcome tight = run_mlp(VV_PRECISION_FP32, VV_RECOMPUTE_AUTO, 1);
    assert_int_equal(tight.cost.slab_bytes, full.cost.slab_bytes);
    free_outcome(&full);
    free_outcome(&tight);
}

enum { BLOCKS = 6, CHANNELS = 16, SIDE = 12 };

/* Residual blocks: convolution, batch norm with running statistics, ReLU. */
static outcome run_residual(vv_recompute mode, size_t limit, vv_tensor **mean)
{
    outcome o = {0};
    vv_graph *g = new_graph(VV_PRECISION_FP32, mode, limit);
    vv_tensor *x, *w[BLOCKS], *one, *zero;
    const int64_t c[1] = {CHANNELS};
    assert_ok(vv_tensor_new(&x, VV_F32, 4, (int64_t[]){8, SIDE, SIDE, CHANNELS}));
    assert_ok(vv_tensor_new(&one, VV_F32, 1, c));
    assert_ok(vv_tensor_new(&zero, VV_F32, 1, c));
    assert_ok(vv_tensor_new(mean, VV_F32, 1, c));
    fill(x, "x", 1, 0);
    vv_tensor_fill(one, 1.0);
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    conv.pad[0] = conv.pad[1] = 1;
    vv_node *h = vv_leaf(g, x), *wrt[BLOCKS];
    vv_node *running = vv_leaf(g, *mean);
    for (int i = 0; i < BLOCKS; i++) {
        vv_node *m = NULL, *v = NULL;
        assert_ok(vv_tensor_new(&w[i], VV_F32, 4, (int64_t[]){CHANNELS, CHANNELS, 3, 3}));
        fill(w[i], "w", 0.1, 0.01 * i);
        wrt[i] = vv_leaf(g, w[i]);
        vv_node *y = vv_batch_norm(vv_conv2d(h, wrt[i], NULL, &conv), vv_leaf(g, one),
                                   vv_leaf(g, zero), 1e-5, &m, &v);
        h = vv_relu(i % 2 ? vv_add(y, h) : y);
        running = vv_add(running, m);
    }
    assert_ok(vv_update(g, *mean, running));
    evaluate(g, vv_mean_all(vv_square(h)), wrt, BLOCKS, &o);
    vv_graph_free(g);
    vv_tensor_free(x);
    vv_tensor_free(one);
    vv_tensor_free(zero);
    for (int i = 0; i < BLOCKS; i++)
        vv_tensor_free(w[i]);
    return o;
}

static void test_residual_net(void **state)
{
    (void)state;
    vv_tensor *m0, *m1, *m2;
    outcome whole = run_residual(VV_RECOMPUTE_OFF, 0, &m0);
    size_t limit = whole.cost.slab_bytes * 3 / 4;
    outcome some = run_residual(VV_RECOMPUTE_AUTO, limit, &m1);
    outcome full = run_residual(VV_RECOMPUTE_FULL, 0, &m2);
    print_message("# residual: whole %zu, 75%% %zu (+%.1f%%), least %zu (+%.1f%%)\n",
                  whole.cost.slab_bytes, some.cost.slab_bytes,
                  100.0 * (double)some.cost.recompute_flops / (double)some.cost.flops,
                  full.cost.slab_bytes,
                  100.0 * (double)full.cost.recompute_flops / (double)full.cost.flops);
    assert_same_bits(&whole, &some);
    assert_same_bits(&whole, &full);
    assert_true(vv_tensor_get(m0, 0) != 0.0);
    assert_memory_equal(m0->data, m1->data, m0->bytes); /* moved once, by the same amount */
    assert_memory_equal(m0->data, m2->data, m0->bytes);
    assert_true(some.cost.slab_bytes <= limit);
    assert_true(full.cost.slab_bytes < some.cost.slab_bytes);
    free_outcome(&whole);
    free_outcome(&some);
    free_outcome(&full);
    vv_tensor_free(m0);
    vv_tensor_free(m1);
    vv_tensor_free(m2);
}

/* A result written over a weight that a second run would read again: nothing is computed twice. */
static void test_written_leaf_stays_whole(void **state)
{
    (void)state;
    vv_graph *g = new_graph(VV_PRECISION_FP32, VV_RECOMPUTE_FULL, 0);
    vv_tensor *x, *w;
    assert_ok(vv_tensor_new(&x, VV_F32, 2, (int64_t[]){64, 64}));
    assert_ok(vv_tensor_new(&w, VV_F32, 2, (int64_t[]){64, 64}));
    fill(x, "x", 1, 0);
    fill(w, "w", 0.1, 0);
    vv_node *h = vv_leaf(g, x), *leaf = vv_leaf(g, w), *grad;
    for (int i = 0; i < 6; i++)
        h = vv_gelu(vv_matmul(h, leaf, false, false));
    vv_node *loss = vv_mean_all(h);
    assert_ok(vv_grad(g, loss, &leaf, 1, &grad));
    vv_node *next = vv_sub(leaf, vv_affine(grad, 0.1, 0.0));
    assert_ok(vv_bind_output(next, w, VV_BIND_WRITE));
    vv_node *outs[2] = {loss, next};
    vv_plan_cost cost;
    assert_ok(vv_graph_plan_cost(g, outs, 2, &cost));
    assert_int_equal(cost.recompute_flops, 0);
    vv_graph_free(g);
    vv_tensor_free(x);
    vv_tensor_free(w);
}

/* 300 structures, of which most never come again: the memory held stays that of the most recent
   ones, and a plan that is used all the time is not forgotten. */
static void test_plans_are_bounded(void **state)
{
    (void)state;
    vv_graph *g = new_graph(VV_PRECISION_FP32, VV_RECOMPUTE_OFF, 0);
    int64_t after_100 = 0;
    for (int64_t i = 0; i < 300; i++) {
        const int64_t sizes[2] = {5, 400 - i};
        for (int k = 0; k < 2; k++) {
            vv_graph_reset(g);
            double value;
            assert_ok(vv_node_item(vv_sum_all(vv_exp(vv_full(g, VV_F32, 1, &sizes[k], 0.0))),
                                   &value));
            assert_near(value, (double)sizes[k], 0.0, 1e-6);
        }
        if (i == 100)
            after_100 = (int64_t)vv_memory_live_bytes();
    }
    assert_in_range(vv_memory_live_bytes(), 1, (size_t)after_100);
    vv_graph_stats stats;
    vv_graph_get_stats(g, &stats);
    assert_int_equal(stats.plan_count, 301); /* the one of 5 elements was made once */
    vv_graph_free(g);
}

static vv_status try_plan(vv_plan_cost *cost, size_t limit)
{
    vv_status status = VV_OK;
    vv_graph *g = NULL;
    vv_tensor *x = NULL;
    VV_GO(vv_graph_new(&g, NULL));
    vv_graph_set_memory(g, VV_RECOMPUTE_AUTO, limit);
    VV_GO(vv_tensor_new(&x, VV_F32, 2, (int64_t[]){64, 64}));
    vv_node *leaf = vv_leaf(g, x), *h = leaf, *outs[2];
    for (int i = 0; i < 4; i++)
        h = vv_gelu(vv_matmul(h, leaf, false, false));
    outs[0] = vv_mean_all(h);
    VV_GO(vv_grad(g, outs[0], &leaf, 1, outs + 1));
    VV_GO(vv_graph_plan_cost(g, outs, 2, cost));
out:
    vv_graph_free(g);
    vv_tensor_free(x);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    vv_plan_cost cost;
    assert_ok(try_plan(&cost, 0));
    size_t limit = cost.slab_bytes - 1;
    int64_t live = vv_memory_live_count();
    vv_status status = VV_ENOMEM;
    for (uint64_t n = 1; status != VV_OK && n < 10000; n++) {
        vv_memory_fail_at(n);
        vv_error_clear();
        status = try_plan(&cost, limit);
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), live);
        assert_true(status == VV_OK || (status == VV_ENOMEM && vv_error()[0]));
    }
    assert_int_equal(status, VV_OK);
    assert_true(cost.slab_bytes < cost.whole_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deep_mlp),
        cmocka_unit_test(test_nothing_without_need),
        cmocka_unit_test(test_impossible_limit),
        cmocka_unit_test(test_residual_net),
        cmocka_unit_test(test_written_leaf_stays_whole),
        cmocka_unit_test(test_plans_are_bounded),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
