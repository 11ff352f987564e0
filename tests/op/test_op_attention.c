/* test_op_attention.c - attention: PyTorch's values, the matrix over backends, wrong calls.
 *
 * What must hold: values and gradients are those of PyTorch (../golden/attention_golden.h); memory
 * grows linearly with the length, exactly; with every option, grouped heads, odd sizes and other
 * numbers of queries than keys, every backend gives what `ref` gives, forward and backward; a query
 * that sees nothing gives 0; the dropout of a row does not depend on the microbatch; a wrong call
 * fails with a sentence that names what does not fit; out of memory is an error, not a crash. */
#include "op_matrix.h"

#include "op_build_attention.h"

static void test_matrix(void **state)
{
    (void)state;
    /* clang-format off */
    static const attention_row rows[] = {
        {"plain", 2, 7, 7, 3, 3, 16, VV_ATTENTION_DEFAULTS},
        {"causal", 1, 70, 70, 2, 2, 8, {.causal = true}},
        {"long causal", 1, 200, 200, 1, 1, 64, {.causal = true}},
        {"one query", 2, 1, 33, 4, 2, 8, {.causal = true}},
        {"few queries", 2, 3, 200, 4, 2, 20, {.causal = true}},
        {"few queries, many options", 2, 8, 150, 4, 4, 7, {true, 90, 0.5, 0.2}, true, true},
        {"one key", 2, 5, 1, 2, 2, 5, VV_ATTENTION_DEFAULTS},
        {"width 1", 1, 9, 9, 2, 2, 1, {.causal = true}},
        {"width 80", 1, 20, 20, 2, 1, 80, {.causal = true}},
        {"width 128", 1, 66, 66, 1, 1, 128, VV_ATTENTION_DEFAULTS},
        {"width 13", 2, 19, 19, 2, 2, 13, {.scale = 0.3}},
        {"window", 1, 150, 150, 2, 1, 8, {.window = 20}},
        {"causal window", 1, 150, 150, 2, 1, 8, {.causal = true, .window = 70}},
        {"window of 1", 1, 40, 40, 1, 1, 4, {.causal = true, .window = 1}},
        {"dropout", 2, 67, 67, 2, 2, 8, {.causal = true, .dropout = 0.3}},
        {"all dropped", 1, 5, 5, 1, 1, 4, {.dropout = 1.0}},
        {"slopes", 2, 66, 66, 6, 3, 8, {.causal = true}, .slopes = true},
        {"slopes both ways", 1, 66, 66, 2, 2, 8, VV_ATTENTION_DEFAULTS, .slopes = true},
        {"mask", 3, 65, 65, 2, 2, 8, VV_ATTENTION_DEFAULTS, .bool_mask = true},
        {"mask of i32, causal", 2, 70, 70, 2, 2, 8, {.causal = true}, .int_mask = true},
        {"document", 2, 70, 70, 2, 1, 8, {.causal = true}, .document = true},
        {"grouped heads", 2, 65, 65, 8, 2, 16, {.causal = true}},
        {"more keys", 2, 30, 130, 2, 2, 8, {.causal = true, .window = 90}, .slopes = true},
        {"more queries: some see nothing", 1, 90, 70, 2, 2, 8, {.causal = true}},
        {"no batch", 0, 4, 4, 2, 2, 8, VV_ATTENTION_DEFAULTS},
        {"no keys", 2, 4, 0, 2, 2, 8, VV_ATTENTION_DEFAULTS},
        {"everything", 2, 97, 97, 4, 2, 24, {true, 40, 0.2, 0.1}, true, true, false, true},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        attention_case c = attention_of(&rows[i]);
        c.base.tolerance = 2;
        op_matrix(&c.base);
    }
}

/* ---- PyTorch ---- */

typedef struct attention_golden {
    const char *name;
    int64_t shape[6]; /* N, T, S, H, K, D */
    int causal;
    int64_t window;
    double scale;
    double slopes[4];
    int slope_count;
    int32_t mask[16];
    int mask_count;
    int32_t documents[16];
    int document_count;
    const double *out, *grad[3];
} attention_golden;

#include "../golden/attention_golden.h"

/* As in make_attention.py. */
static double pattern(int64_t i, int operand)
{
    const uint32_t mixed = (uint32_t)((i * 7919 + operand * 104729 + 12345) * (int64_t)2654435761);
    return (double)(mixed >> 24) / 64.0 - 2.0;
}

static vv_node *pattern_node(vv_graph *g, vv_dtype dtype, const int64_t *shape, int operand)
{
    vv_tensor *tensor = NULL;
    assert_ok(vv_tensor_new(&tensor, dtype, 4, shape));
    for (int64_t i = 0; i < tensor->count; i++)
        vv_tensor_set(tensor, i, pattern(i, operand));
    vv_node *node = vv_leaf(g, tensor);
    vv_tensor_free(tensor);
    return node;
}

static void check_values(const attention_golden *v, vv_node *node, const double *want,
                         double tolerance)
{
    const vv_tensor *got = NULL;
    assert_ok(vv_node_value(node, &got));
    for (int64_t i = 0; i < got->count; i++)
        if (!(fabs(vv_tensor_get(got, i) - want[i]) <= tolerance * (1.0 + fabs(want[i]))))
            fail_msg("%s: element %lld is %.10g, PyTorch has %.10g", v->name, (long long)i,
                     vv_tensor_get(got, i), want[i]);
}

static void check_golden(vv_graph *g, const attention_golden *v, vv_dtype dtype, double tolerance)
{
    vv_graph_reset(g);
    const int64_t *n = v->shape, q_shape[4] = {n[0], n[1], n[3], n[5]};
    const int64_t k_shape[4] = {n[0], n[2], n[4], n[5]}, per_key[2] = {n[0], n[2]};
    float slopes[4];
    for (int i = 0; i < 4; i++)
        slopes[i] = (float)v->slopes[i];
    const vv_attention_opts opts = {.causal = v->causal, .window = v->window, .scale = v->scale};
    vv_node *leaves[3], *grads[4] = {NULL};
    for (int i = 0; i < 3; i++)
        leaves[i] = pattern_node(g, dtype, i ? k_shape : q_shape, i);
    vv_node *y = vv_attention(
        leaves[0], leaves[1], leaves[2],
        v->slope_count ? vv_data(g, VV_F32, 1, &n[3], slopes) : NULL,
        v->mask_count ? vv_data(g, VV_I32, 2, per_key, v->mask) : NULL,
        v->document_count ? vv_data(g, VV_I32, 2, per_key, v->documents) : NULL, &opts);
    assert_ok(vv_graph_status(g));
    assert_ok(vv_grad_from(g, y, pattern_node(g, dtype, q_shape, 9), leaves, 3, grads));
    grads[3] = y;
    assert_ok(vv_eval(g, grads, 4));
    check_values(v, y, v->out, tolerance);
    for (int i = 0; i < 3; i++)
        check_values(v, grads[i], v->grad[i], tolerance);
}

static void test_pytorch(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", "cpu"};
    for (size_t b = 0; b < 2; b++) {
        vv_graph_opts opts = VV_GRAPH_DEFAULTS;
        opts.backend = vv_backend_find(backends[b]);
        vv_graph *g = NULL;
        if (!opts.backend)
            continue;
        assert_ok(vv_graph_new(&g, &opts));
        for (size_t i = 0; i < sizeof attention_goldens / sizeof *attention_goldens; i++) {
            /* slopes are f32 beside f64 too */
            check_golden(g, &attention_goldens[i], VV_F64,
                         attention_goldens[i].slope_count ? 1e-7 : 1e-8);
            check_golden(g, &attention_goldens[i], VV_F32, 1e-5);
        }
        vv_graph_free(g);
    }
}

static vv_node *zeros(vv_graph *g, vv_dtype dtype, int ndim, int64_t a, int64_t b, int64_t c,
                      int64_t d)
{
    return vv_zeros(g, dtype, ndim, (const int64_t[]){a, b, c, d});
}

#define BACKENDS_BEGIN                                                     \
    static const char *const backends[] = {"ref", "cpu"};                  \
    for (size_t b = 0; b < 2; b++) {                                       \
        vv_graph_opts graph_opts = VV_GRAPH_DEFAULTS;                      \
        graph_opts.backend = vv_backend_find(backends[b]);                 \
        vv_graph *g = NULL;                                                \
        if (!graph_opts.backend)                                           \
            continue;                                                      \
        assert_ok(vv_graph_new(&g, &graph_opts));
#define BACKENDS_END   \
    vv_graph_free(g);  \
    }

/* Batch row 0 has no key at all, row 1 all of them. The unseen values are not even finite. */
static void test_nothing_seen(void **state)
{
    (void)state;
    BACKENDS_BEGIN
    const int64_t shape[4] = {2, 3, 1, 2}, per_key[2] = {2, 3};
    const float q[12] = {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6};
    const float v[12] = {NAN, INFINITY, NAN, 1, 2, 3, 1, 1, 1, 1, 1, 1};
    const int32_t mask[6] = {0, 0, 0, 7, -1, 1};
    vv_node *nodes[4];
    for (int i = 0; i < 2; i++)
        nodes[i] = vv_data(g, VV_F32, 4, shape, q);
    nodes[2] = vv_data(g, VV_F32, 4, shape, v);
    vv_node *y = vv_attention(nodes[0], nodes[1], nodes[2], NULL,
                              vv_data(g, VV_I32, 2, per_key, mask), NULL, NULL);
    vv_node *grads[4];
    assert_ok(vv_grad(g, vv_sum_all(y), nodes, 3, grads));
    grads[3] = y;
    assert_ok(vv_eval(g, grads, 4));
    for (int k = 0; k < 4; k++) {
        const vv_tensor *got = NULL;
        assert_ok(vv_node_value(grads[k], &got));
        for (int64_t i = 0; i < 6; i++)
            assert_true(vv_tensor_get(got, i) == 0.0);
        for (int64_t i = 6; i < 12; i++)
            assert_true(isfinite(vv_tensor_get(got, i)));
        if (k == 3)
            assert_near(vv_tensor_get(got, 6), 1.0, 1e-6, 0.0);
    }
    BACKENDS_END
}

/* Large scores: only the difference to the largest counts. */
static void test_large_scores(void **state)
{
    (void)state;
    BACKENDS_BEGIN
    const int64_t shape[4] = {1, 2, 1, 1};
    const float q[2] = {1000, -1000}, k[2] = {1000, 999}, v[2] = {3, 5};
    vv_node *y = vv_attention(vv_data(g, VV_F32, 4, shape, q), vv_data(g, VV_F32, 4, shape, k),
                              vv_data(g, VV_F32, 4, shape, v), NULL, NULL, NULL, NULL);
    const vv_tensor *got = NULL;
    assert_ok(vv_node_value(y, &got));
    assert_near(vv_tensor_get(got, 0), 3.0, 1e-6, 0.0);
    assert_near(vv_tensor_get(got, 1), 5.0, 1e-6, 0.0);
    BACKENDS_END
}

/* Two microbatches of one row each draw what the whole batch draws. */
static void test_dropout_of_microbatches(void **state)
{
    (void)state;
    BACKENDS_BEGIN
    enum { T = 9, H = 2, D = 4, COUNT = T * H * D };
    float x[2 * COUNT], whole[2 * COUNT];
    for (int i = 0; i < 2 * COUNT; i++)
        x[i] = (float)((i * 37) % 19) / 9.0f - 1.0f;
    const vv_attention_opts opts = {.causal = true, .dropout = 0.5};
    const vv_tensor *got = NULL;
    for (int part = -1; part < 2; part++) {
        const int64_t shape[4] = {part < 0 ? 2 : 1, T, H, D};
        vv_graph_reset(g);
        vv_graph_set_rng(g, 11, 5, part < 0 ? 0 : part);
        vv_node *q = vv_data(g, VV_F32, 4, shape, x + (part < 0 ? 0 : part * COUNT));
        assert_ok(vv_node_value(vv_attention(q, q, q, NULL, NULL, NULL, &opts), &got));
        if (part < 0)
            memcpy(whole, got->data, sizeof whole);
        else
            assert_memory_equal(got->data, whole + part * COUNT, COUNT * sizeof *whole);
    }
    BACKENDS_END
}

/* Bits do not depend on the number of threads, with shared heads and without. */
static void test_threads(void **state)
{
    (void)state;
    enum { N = 2, T = 300, H = 4, D = 16 };
    const int before = vv_threads();
    for (int64_t kv_heads = 2; kv_heads <= H; kv_heads += 2) {
        vv_tensor *kept[2][4];
        for (int run = 0; run < 2; run++) {
            vv_graph *g = NULL;
            vv_graph_opts opts = VV_GRAPH_DEFAULTS;
            vv_set_threads(run ? 3 : 1);
            assert_ok(vv_graph_new(&g, &opts));
            const vv_attention_opts how = {.causal = true, .dropout = 0.2};
            vv_node *leaves[3], *nodes[4];
            for (int i = 0; i < 3; i++)
                leaves[i] = pattern_node(
                    g, VV_F32, (const int64_t[]){N, T, i ? kv_heads : H, D}, i);
            nodes[3] = vv_attention(leaves[0], leaves[1], leaves[2], NULL, NULL, NULL, &how);
            assert_ok(vv_grad_from(g, nodes[3], leaves[0], leaves, 3, nodes));
            assert_ok(vv_eval(g, nodes, 4));
            for (int i = 0; i < 4; i++)
                assert_ok(vv_node_keep(nodes[i], &kept[run][i]));
            vv_graph_free(g);
        }
        for (int i = 0; i < 4; i++) {
            assert_memory_equal(kept[0][i]->data, kept[1][i]->data, kept[0][i]->bytes);
            vv_tensor_free(kept[0][i]);
            vv_tensor_free(kept[1][i]);
        }
    }
    vv_set_threads(before);
}

/* ---- wrong calls ---- */

#define WRONG(code, text, ...)                                  \
    do {                                                        \
        vv_graph_reset(g);                                      \
        vv_node *q = zeros(g, VV_F32, 4, 2, 3, 4, 5);           \
        vv_node *k = zeros(g, VV_F32, 4, 2, 6, 2, 5);           \
        (void)q;                                                \
        (void)k;                                                \
        assert_null(vv_neg(__VA_ARGS__));                       \
        assert_fails(vv_graph_status(g), code);                 \
        assert_says(text);                                      \
    } while (0)

static void test_wrong_calls(void **state)
{
    (void)state;
    vv_graph *g = NULL;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    assert_ok(vv_graph_new(&g, &opts));
    const vv_attention_opts drop = {.dropout = 1.5}, scale = {.scale = NAN};
    const vv_attention_opts window = {.window = -2};
    WRONG(VV_ESHAPE, "attention: q must have 4 dimensions, has shape [2,3]",
          vv_attention(zeros(g, VV_F32, 2, 2, 3, 0, 0), k, k, NULL, NULL, NULL, NULL));
    WRONG(VV_ETYPE, "attention: operand is i32",
          vv_attention(zeros(g, VV_I32, 4, 2, 3, 4, 5), k, k, NULL, NULL, NULL, NULL));
    WRONG(VV_ETYPE, "attention: q is f32, k is bf16, v is f32; cast them to one type",
          vv_attention(q, zeros(g, VV_BF16, 4, 2, 6, 2, 5), k, NULL, NULL, NULL, NULL));
    WRONG(VV_ESHAPE, "attention: v has shape [2,6,4,5], must be as k",
          vv_attention(q, k, zeros(g, VV_F32, 4, 2, 6, 4, 5), NULL, NULL, NULL, NULL));
    WRONG(VV_ESHAPE, "k has shape [2,3,4,5], its first and last axis must be q's, 3 and 5",
          vv_attention(zeros(g, VV_F32, 4, 3, 3, 4, 5), q, q, NULL, NULL, NULL, NULL));
    WRONG(VV_ESHAPE, "attention: the 3 heads of q do not divide into groups for the 2 heads of k",
          vv_attention(zeros(g, VV_F32, 4, 2, 3, 3, 5), k, k, NULL, NULL, NULL, NULL));
    WRONG(VV_ESHAPE, "at least one head",
          vv_attention(zeros(g, VV_F32, 4, 2, 3, 0, 5), k, k, NULL, NULL, NULL, NULL));
    WRONG(VV_ESHAPE, "attention: slopes has shape [3], must be [heads of q]",
          vv_attention(q, k, k, zeros(g, VV_F32, 1, 3, 0, 0, 0), NULL, NULL, NULL));
    WRONG(VV_ETYPE, "attention: slopes are bf16",
          vv_attention(q, k, k, zeros(g, VV_BF16, 1, 4, 0, 0, 0), NULL, NULL, NULL));
    WRONG(VV_ESHAPE, "attention: key_mask has shape [2,3], must be [batch,time] of k",
          vv_attention(q, k, k, NULL, zeros(g, VV_BOOL, 2, 2, 3, 0, 0), NULL, NULL));
    WRONG(VV_ETYPE, "attention: key_mask is f32, must be bool or i32",
          vv_attention(q, k, k, NULL, zeros(g, VV_F32, 2, 2, 6, 0, 0), NULL, NULL));
    WRONG(VV_ETYPE, "attention: document is bool, must be i32",
          vv_attention(q, k, k, NULL, NULL, zeros(g, VV_BOOL, 2, 2, 6, 0, 0), NULL));
    WRONG(VV_ESHAPE, "attention: document needs as many queries as keys, there are 3 and 6",
          vv_attention(q, k, k, NULL, NULL, zeros(g, VV_I32, 2, 2, 6, 0, 0), NULL));
    WRONG(VV_EINVAL, "attention: dropout is 1.5", vv_attention(q, k, k, NULL, NULL, NULL, &drop));
    WRONG(VV_EINVAL, "attention: scale is nan", vv_attention(q, k, k, NULL, NULL, NULL, &scale));
    WRONG(VV_EINVAL, "attention: window is -2", vv_attention(q, k, k, NULL, NULL, NULL, &window));
    vv_graph_reset(g);
    vv_node *q = zeros(g, VV_F32, 4, 2, 3, 4, 5);
    assert_null(vv_attention(q, NULL, q, NULL, NULL, NULL, NULL));
    assert_ok(vv_graph_status(g));
    vv_graph_free(g);
}

/* ---- memory ---- */

/* Slab bytes of forward and backward at one length. */
static int64_t slab_bytes(int64_t length, bool grouped)
{
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *g = NULL;
    vv_plan_cost cost;
    assert_ok(vv_graph_new(&g, &opts));
    const vv_attention_opts how = {.causal = true, .dropout = 0.1};
    vv_node *leaves[3], *nodes[4];
    for (int i = 0; i < 3; i++) {
        vv_tensor *t = NULL;
        const int64_t shape[4] = {2, length, i && grouped ? 2 : 4, 16};
        assert_ok(vv_tensor_new(&t, VV_F32, 4, shape));
        leaves[i] = vv_leaf(g, t);
        vv_tensor_free(t);
    }
    vv_node *y = vv_attention(leaves[0], leaves[1], leaves[2], NULL, NULL, NULL, &how);
    nodes[3] = vv_sum_all(y);
    assert_ok(vv_grad(g, nodes[3], leaves, 3, nodes));
    assert_ok(vv_graph_plan_cost(g, nodes, 4, &cost));
    vv_graph_free(g);
    return (int64_t)cost.slab_bytes;
}

/* From one length to the next memory grows by the same number of bytes per position. */
static void test_linear_memory(void **state)
{
    (void)state;
    for (int grouped = 0; grouped < 2; grouped++) {
        const int64_t a = slab_bytes(512, grouped), b = slab_bytes(2048, grouped);
        const int64_t c = slab_bytes(8192, grouped);
        assert_true(b > a);
        assert_int_equal((c - b) * (2048 - 512), (b - a) * (8192 - 2048));
    }
}

static vv_status run_once(const char *backend)
{
    vv_status status;
    vv_graph *g = NULL;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = vv_backend_find(backend);
    VV_GO(vv_graph_new(&g, &opts));
    const vv_attention_opts how = {.causal = true, .dropout = 0.1};
    vv_node *q = zeros(g, VV_F32, 4, 2, 5, 2, 4), *grad = NULL;
    vv_node *y = vv_attention(q, q, q, zeros(g, VV_F32, 1, 2, 0, 0, 0),
                              zeros(g, VV_BOOL, 2, 2, 5, 0, 0), zeros(g, VV_I32, 2, 2, 5, 0, 0),
                              &how);
    vv_node *loss = vv_sum_all(y);
    VV_GO(vv_graph_status(g));
    VV_GO(vv_grad(g, loss, &q, 1, &grad));
    vv_node *const all[2] = {loss, grad};
    VV_GO(vv_eval(g, all, 2));
out:
    vv_graph_free(g);
    return status;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", "cpu"};
    for (size_t b = 0; b < 2; b++) {
        if (!vv_backend_find(backends[b]))
            continue;
        assert_ok(run_once(backends[b]));
        const int64_t live = vv_memory_live_count();
        const uint64_t before = vv_memory_alloc_count();
        assert_ok(run_once(backends[b]));
        const uint64_t count = vv_memory_alloc_count() - before;
        assert_true(count > 0);
        for (uint64_t nth = 1; nth <= count; nth++) {
            vv_memory_fail_at(nth);
            assert_fails(run_once(backends[b]), VV_ENOMEM);
            vv_memory_fail_at(0);
            assert_int_equal(vv_memory_live_count(), live);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_pytorch),
        cmocka_unit_test(test_nothing_seen),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_dropout_of_microbatches),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_linear_memory),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
