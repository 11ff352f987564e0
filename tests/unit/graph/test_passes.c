/* test_passes.c - the passes change speed and memory, never results:
 * fusion on or off, in place or not, gives the same losses and gradients on every backend; norm
 * fusion really happens (residual + ReLU + its mask); element-wise chains become one instruction;
 * amp_bf16 and bf16 store activations in half the bytes (how exact they are: tests/golden); in
 * place saves memory;
 * planned memory is what was used. */
#include "vv_test.h"

#include <vivace/ext/backend.h>
#include <vivace/rng.h>

enum { N = 4, H = 6, C = 8, CLASSES = 5 };

typedef struct net {
    vv_tensor *x, *w1, *w2, *gamma1, *beta1, *gamma2, *beta2, *fc, *target;
} net;

static vv_tensor *random_tensor(vv_rng *rng, int ndim, const int64_t *shape, double scale,
                                double shift)
{
    vv_tensor *t;
    assert_ok(vv_tensor_new(&t, VV_F32, ndim, shape));
    for (int64_t i = 0; i < t->count; i++)
        vv_tensor_set(t, i, shift + scale * vv_rng_normal(rng));
    return t;
}

static net make_net(void)
{
    vv_rng rng = vv_rng_at(5, "test", 0);
    int64_t x[4] = {N, H, H, C}, w[4] = {C, C, 3, 3}, c[1] = {C}, fc[2] = {CLASSES, C}, n[1] = {N};
    net m;
    m.x = random_tensor(&rng, 4, x, 1, 0);
    m.w1 = random_tensor(&rng, 4, w, 0.2, 0);
    m.w2 = random_tensor(&rng, 4, w, 0.2, 0);
    m.gamma1 = random_tensor(&rng, 1, c, 0.1, 1);
    m.beta1 = random_tensor(&rng, 1, c, 0.1, 0);
    m.gamma2 = random_tensor(&rng, 1, c, 0.1, 1);
    m.beta2 = random_tensor(&rng, 1, c, 0.1, 0);
    m.fc = random_tensor(&rng, 2, fc, 0.3, 0);
    assert_ok(vv_tensor_new(&m.target, VV_I32, 1, n));
    for (int i = 0; i < N; i++)
        vv_tensor_set(m.target, i, i % CLASSES);
    return m;
}

static void free_net(net *m)
{
    vv_tensor *all[] = {m->x,      m->w1,    m->w2, m->gamma1, m->beta1,
                        m->gamma2, m->beta2, m->fc, m->target};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        vv_tensor_free(all[i]);
}

enum { WRT = 8 };
typedef struct outcome {
    double loss;
    vv_tensor *grads[WRT];
    vv_graph_stats stats;
    vv_str plan;
} outcome;

/* A residual block as in ResNet, a head, and an element-wise tail: loss and all gradients. */
static outcome run(const vv_backend *backend, vv_precision precision, bool fuse, bool in_place)
{
    outcome o = {0};
    net m = make_net();
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = backend;
    opts.precision = precision;
    opts.fuse = fuse;
    opts.in_place = in_place;
    vv_graph *g;
    assert_ok(vv_graph_new(&g, &opts));
    vv_conv_opts conv = VV_CONV_DEFAULTS;
    conv.pad[0] = conv.pad[1] = 1;
    vv_node *wrt[WRT] = {vv_leaf(g, m.x),     vv_leaf(g, m.w1),    vv_leaf(g, m.gamma1),
                         vv_leaf(g, m.beta1), vv_leaf(g, m.w2),    vv_leaf(g, m.gamma2),
                         vv_leaf(g, m.beta2), vv_leaf(g, m.fc)};
    vv_node *h = vv_conv2d(wrt[0], wrt[1], NULL, &conv);
    h = vv_relu(vv_batch_norm(h, wrt[2], wrt[3], 1e-5, NULL, NULL));
    h = vv_conv2d(h, wrt[4], NULL, &conv);
    h = vv_relu(vv_add(vv_batch_norm(h, wrt[5], wrt[6], 1e-5, NULL, NULL), wrt[0]));
    h = vv_reshape(vv_adaptive_avg_pool2d(h, 1, 1), 2, (int64_t[]){N, C});
    vv_node *logits = vv_linear(h, wrt[7], NULL);
    logits = vv_affine(vv_tanh(vv_affine(logits, 0.25, 0.0)), 4.0, 0.0);
    vv_node *loss = vv_mean_all(vv_cross_entropy(logits, vv_leaf(g, m.target), NULL, -100));
    vv_node *outs[WRT + 1] = {loss};
    assert_ok(vv_grad(g, loss, wrt, WRT, outs + 1));
    assert_ok(vv_eval(g, outs, WRT + 1));
    assert_ok(vv_node_item(loss, &o.loss));
    for (int i = 0; i < WRT; i++)
        assert_ok(vv_node_keep(outs[i + 1], &o.grads[i]));
    vv_graph_get_stats(g, &o.stats);
    vv_graph_describe_plan(g, &o.plan);
    vv_graph_free(g);
    free_net(&m);
    return o;
}

static void free_outcome(outcome *o)
{
    for (int i = 0; i < WRT; i++)
        vv_tensor_free(o->grads[i]);
    vv_str_fini(&o->plan);
}

static double difference(const vv_tensor *a, const vv_tensor *b)
{
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < a->count; i++) {
        double d = vv_tensor_get(a, i) - vv_tensor_get(b, i);
        diff += d * d;
        norm += vv_tensor_get(b, i) * vv_tensor_get(b, i);
    }
    return sqrt(diff / (norm + 1e-30));
}

static void compare(const outcome *a, const outcome *b, double tolerance)
{
    assert_near(a->loss, b->loss, tolerance, tolerance);
    for (int i = 0; i < WRT; i++) {
        double d = difference(a->grads[i], b->grads[i]);
        if (d > tolerance)
            fail_msg("gradient %d differs by %g", i, d);
    }
}

static int count_of(const outcome *o, const char *text)
{
    int count = 0;
    for (const char *at = vv_str_text(&o->plan); (at = strstr(at, text)); at++)
        count++;
    return count;
}

static void test_results_do_not_depend_on_passes(void **state)
{
    (void)state;
    outcome plain = run(vv_backend_find("ref"), VV_PRECISION_FP32, false, false);
    const char *backends[] = {"ref", "cpu"};
    for (int b = 0; b < 2; b++) {
        const vv_backend *backend = vv_backend_find(backends[b]);
        for (int mode = 0; backend && mode < 4; mode++) {
            outcome o = run(backend, VV_PRECISION_FP32, mode & 1, mode & 2);
            compare(&o, &plain, 2e-5);
            assert_int_equal(o.stats.planned_bytes, o.stats.peak_bytes);
            free_outcome(&o);
        }
    }
    free_outcome(&plain);
}

static void test_norms_swallow_residual_and_relu(void **state)
{
    (void)state;
    outcome plain = run(vv_backend_find("ref"), VV_PRECISION_FP32, false, true);
    outcome fused = run(vv_backend_find("ref"), VV_PRECISION_FP32, true, true);
    /* the two ReLUs, the addition and the two masks are gone */
    assert_int_equal(count_of(&fused, "[unary "), count_of(&plain, "[unary ") - 2);
    assert_int_equal(count_of(&fused, "[binary "), count_of(&plain, "[binary ") - 1);
    assert_int_equal(count_of(&fused, "[unary_grad "), count_of(&plain, "[unary_grad ") - 2);
    free_outcome(&plain);
    free_outcome(&fused);
}

static void test_in_place_saves_memory(void **state)
{
    (void)state;
    vv_backend const *backend = vv_backend_default();
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    size_t bytes[2];
    for (int in_place = 0; in_place < 2; in_place++) {
        opts.backend = backend;
        opts.fuse = false;
        opts.in_place = in_place;
        vv_graph *g;
        assert_ok(vv_graph_new(&g, &opts));
        int64_t shape[1] = {100000};
        vv_node *x = vv_random_uniform(g, 1, shape);
        vv_node *loss = vv_sum_all(vv_square(vv_tanh(vv_exp(x))));
        vv_plan_cost planned;
        assert_ok(vv_graph_plan_cost(g, &loss, 1, &planned));
        bytes[in_place] = planned.slab_bytes;
        double value;
        assert_ok(vv_node_item(loss, &value));
        assert_true(value > 0);
        vv_graph_free(g);
    }
    assert_true(bytes[1] <= bytes[0]);
    if (vv_backend_find("cpu"))
        assert_true(bytes[1] < bytes[0]);
}

static void test_chains_become_one_instruction(void **state)
{
    (void)state;
    const vv_backend *backend = vv_backend_find("cpu");
    if (!backend)
        skip();
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = backend;
    vv_graph *g;
    assert_ok(vv_graph_new(&g, &opts));
    vv_rng rng = vv_rng_at(1, "chain", 0);
    int64_t shape[2] = {37, 19}, c[1] = {19};
    vv_tensor *a = random_tensor(&rng, 2, shape, 1, 0), *b = random_tensor(&rng, 1, c, 1, 0);
    vv_node *x = vv_leaf(g, a);
    vv_node *y = vv_add(vv_mul(vv_tanh(x), vv_leaf(g, b)), vv_scalar(g, 0.5));
    vv_node *z = vv_mul(y, vv_sigmoid(y));
    vv_node *outs[2] = {z, y};
    assert_ok(vv_eval(g, outs, 2));
    vv_str plan = {0};
    vv_graph_describe_plan(g, &plan);
    assert_non_null(strstr(vv_str_text(&plan), "1 instructions"));
    vv_str_fini(&plan);
    const vv_tensor *vz, *vy;
    assert_ok(vv_node_value(z, &vz));
    assert_ok(vv_node_value(y, &vy));
    for (int64_t i = 0; i < a->count; i++) {
        double want = tanh(vv_tensor_get(a, i)) * vv_tensor_get(b, i % 19) + 0.5;
        assert_near(vv_tensor_get(vy, i), want, 1e-6, 1e-5);
        assert_near(vv_tensor_get(vz, i), want / (1 + exp(-want)), 1e-6, 1e-5);
    }
    vv_tensor_free(a);
    vv_tensor_free(b);
    vv_graph_free(g);
}

/* A residual stream that begins in fp32: amp_bf16 keeps it there, bf16 does not. */
static vv_plan_cost run_stream(const vv_backend *backend, vv_precision precision, double *loss)
{
    enum { ROWS = 256, WIDTH = 64 }; /* activations outweigh the scratch of kernels */
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = backend;
    opts.precision = precision;
    vv_graph *g;
    assert_ok(vv_graph_new(&g, &opts));
    vv_rng rng = vv_rng_at(5, "stream", 0);
    vv_tensor *x = random_tensor(&rng, 2, (int64_t[]){ROWS, WIDTH}, 1, 0);
    vv_tensor *w = random_tensor(&rng, 2, (int64_t[]){WIDTH, WIDTH}, 0.1, 0);
    vv_tensor *one = random_tensor(&rng, 1, (int64_t[]){WIDTH}, 0, 1);
    vv_tensor *zero = random_tensor(&rng, 1, (int64_t[]){WIDTH}, 0, 0);
    vv_node *h = vv_leaf(g, x), *weight = vv_leaf(g, w), *outs[2];
    for (int i = 0; i < 6; i++)
        h = vv_add(h, vv_linear(vv_layer_norm(h, vv_leaf(g, one), vv_leaf(g, zero), 1e-5), weight,
                                NULL));
    outs[0] = vv_mean_all(vv_square(h));
    assert_ok(vv_grad(g, outs[0], &weight, 1, outs + 1));
    vv_plan_cost cost;
    assert_ok(vv_graph_plan_cost(g, outs, 2, &cost));
    assert_ok(vv_eval(g, outs, 2));
    assert_ok(vv_node_item(outs[0], loss));
    vv_graph_free(g);
    vv_tensor *all[] = {x, w, one, zero};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        vv_tensor_free(all[i]);
    return cost;
}

static void test_bf16_stores_the_stream_in_half(void **state)
{
    (void)state;
    const char *backends[] = {"ref", "cpu"};
    for (int b = 0; b < 2; b++) {
        const vv_backend *backend = vv_backend_find(backends[b]);
        if (!backend)
            continue;
        double single, amp, half;
        vv_plan_cost whole = run_stream(backend, VV_PRECISION_FP32, &single);
        vv_plan_cost some = run_stream(backend, VV_PRECISION_AMP_BF16, &amp);
        vv_plan_cost all = run_stream(backend, VV_PRECISION_BF16, &half);
        print_message("# %s: fp32 %zu, amp_bf16 %zu, bf16 %zu bytes\n", backends[b],
                      whole.slab_bytes, some.slab_bytes, all.slab_bytes);
        assert_true(all.slab_bytes < some.slab_bytes);
        assert_true(all.slab_bytes < whole.slab_bytes);
        assert_true(amp != single && half != amp);
        /* per layer a norm, a matmul and a sum are rounded to eight bits */
        assert_near(amp, single, 0, 18.0 / 512.0);
        assert_near(half, single, 0, 18.0 / 512.0);
    }
}

static void test_bf16_is_close_and_smaller(void **state)
{
    (void)state;
    const char *backends[] = {"ref", "cpu"};
    for (int b = 0; b < 2; b++) {
        const vv_backend *backend = vv_backend_find(backends[b]);
        if (!backend)
            continue;
        outcome single = run(backend, VV_PRECISION_FP32, true, true);
        outcome half = run(backend, VV_PRECISION_AMP_BF16, true, true);
        /* six roundings to eight bits of mantissa between input and logits */
        assert_near(half.loss, single.loss, 0, 6.0 / 512.0);
        for (int i = 0; i < WRT; i++)
            assert_int_equal(half.grads[i]->dtype, VV_F32);
        assert_true(count_of(&half, "bf16[4,6,6,8]") > 4);
        free_outcome(&single);
        free_outcome(&half);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_do_not_depend_on_passes),
        cmocka_unit_test(test_norms_swallow_residual_and_relu),
        cmocka_unit_test(test_in_place_saves_memory),
        cmocka_unit_test(test_chains_become_one_instruction),
        cmocka_unit_test(test_bf16_is_close_and_smaller),
        cmocka_unit_test(test_bf16_stores_the_stream_in_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
