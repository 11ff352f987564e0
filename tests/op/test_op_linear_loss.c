/* test_op_linear_loss.c - z-loss, and the cross-entropy of a linear layer chunk by chunk.
 *
 * What must hold: the explicit op and the one that plans make of a linear layer and its
 * cross-entropy give the loss and the gradients of the plain form, with ignored rows, bias, cap and
 * z-loss, on every backend; the plan's memory does not grow with rows times classes; where somebody
 * reads the logits, or targets are soft, the plain form stays; wrong classes are refused. */
#include "../grad/grad_check.h"
#include "op_matrix.h"

#include <vivace/str.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SHAPE(n, ...) .ndim = (n), .shape = {__VA_ARGS__}

/* arg = z_loss, softcap; class -1 is ignored. */
static vv_node *build_linear_loss(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    const vv_entropy_opts opts = {-1, c->arg[0], c->arg[1]};
    return vv_linear_cross_entropy(in[0], in[1], c->n_in > 3 ? in[3] : NULL, in[2], &opts);
}

static vv_node *build_entropy(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    const vv_entropy_opts opts = {-1, c->arg[0], c->arg[1]};
    vv_node *weights = c->n_in > 2 ? in[2] : NULL;
    const vv_dtype dtype = vv_node_dtype(in[0]) == VV_F64 ? VV_F64 : VV_F32;
    return vv_cross_entropy_with(in[0], in[1], weights ? vv_cast(weights, dtype) : NULL, &opts);
}

static void test_matrix(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{6, 5, 7}, {33, 16, 40}, {8, 3, 1000}, {70, 64, 33}};
    static const double args[][2] = {{0, 0}, {1e-2, 0}, {0, 3}, {1e-2, 2}};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (size_t a = 0; a < COUNT(args); a++) {
            const int64_t n = sizes[i][0], d = sizes[i][1], v = sizes[i][2];
            op_case c = {"linear_cross_entropy", build_linear_loss, 4,
                         {{OP_FLOAT, SHAPE(2, n, d)},
                          {OP_FLOAT, SHAPE(2, v, d), .lo = -0.5, .hi = 0.5},
                          {a % 2 ? OP_INDEX64 : OP_INDEX, SHAPE(1, n), .lo = -1,
                           .hi = (double)v},
                          {OP_FLOAT, SHAPE(1, v)}},
                         .arg = {args[a][0], args[a][1]}, .tolerance = 2};
            op_matrix(&c);
            c.n_in = 3;
            op_matrix(&c);
            op_case e = {"cross_entropy, z", build_entropy, 3,
                         {{OP_FLOAT, SHAPE(2, n, v), .lo = -6, .hi = 6},
                          {OP_INDEX, SHAPE(1, n), .lo = -1, .hi = (double)v},
                          {OP_FIXED, SHAPE(1, v), .lo = 0.5, .hi = 2}},
                         .arg = {args[a][0], args[a][1]}, .tolerance = args[a][1] > 0 ? 3 : 1};
            op_matrix(&e);
            e.in[1] = (op_operand){OP_FIXED, SHAPE(2, n, v), .lo = 0, .hi = 1};
            op_matrix(&e);
        }
}

static void test_gradients(void **state)
{
    (void)state;
    static const op_case cases[] = {
        {"linear_cross_entropy", build_linear_loss, 4,
         {{OP_FLOAT, SHAPE(3, 2, 3, 4)}, {OP_FLOAT, SHAPE(2, 5, 4)},
          {OP_INDEX, SHAPE(2, 2, 3), .lo = -1, .hi = 5}, {OP_FLOAT, SHAPE(1, 5)}}},
        {"linear_cross_entropy, z and cap", build_linear_loss, 4,
         {{OP_FLOAT, SHAPE(2, 6, 4)}, {OP_FLOAT, SHAPE(2, 5, 4)},
          {OP_INDEX, SHAPE(1, 6), .lo = -1, .hi = 5}, {OP_FLOAT, SHAPE(1, 5)}},
         .arg = {0.1, 1.5}},
        {"linear_cross_entropy, weight alone", build_linear_loss, 3,
         {{OP_FIXED, SHAPE(2, 6, 4)}, {OP_FLOAT, SHAPE(2, 5, 4)},
          {OP_INDEX64, SHAPE(1, 6), .lo = -1, .hi = 5}}},
        {"cross_entropy, z", build_entropy, 2,
         {{OP_FLOAT, SHAPE(2, 6, 4), .lo = -3, .hi = 3}, {OP_INDEX, SHAPE(1, 6), .lo = -1, .hi = 4}},
         .arg = {0.1, 0}},
        {"cross_entropy, z, class weights", build_entropy, 3,
         {{OP_FLOAT, SHAPE(2, 6, 4), .lo = -3, .hi = 3}, {OP_INDEX, SHAPE(1, 6), .lo = -1, .hi = 4},
          {OP_FIXED, SHAPE(1, 4), .lo = 0.5, .hi = 2}},
         .arg = {0.1, 2}},
        {"cross_entropy, z, soft", build_entropy, 2,
         {{OP_FLOAT, SHAPE(2, 4, 5), .lo = -3, .hi = 3},
          {OP_FLOAT, SHAPE(2, 4, 5), .lo = 0, .hi = 1}},
         .arg = {0.1, 0}},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        grad_check(&cases[i]);
}

/* Two equal logits of two classes: logsumexp is ln 2, so z adds z (ln 2)^2; ignored rows and rows
   of zeros have none. */
static void test_z_by_hand(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", "cpu"};
    for (size_t b = 0; b < COUNT(backends); b++) {
        vv_graph_opts opts = VV_GRAPH_DEFAULTS;
        opts.backend = vv_backend_find(backends[b]);
        vv_graph *g = NULL;
        if (!opts.backend)
            continue;
        assert_ok(vv_graph_new(&g, &opts));
        const int64_t shape[2] = {2, 2}, rows[1] = {2};
        const float zero[4] = {0}, soft[4] = {0.5f, 0.5f, 0, 0};
        const int32_t classes[2] = {1, -100};
        const vv_entropy_opts z = {-100, 0.5, 0.0};
        vv_node *x = vv_data(g, VV_F32, 2, shape, zero);
        vv_node *const targets[2] = {vv_data(g, VV_I32, 1, rows, classes),
                                     vv_data(g, VV_F32, 2, shape, soft)};
        for (int t = 0; t < 2; t++) {
            const vv_tensor *loss;
            assert_ok(vv_node_value(vv_cross_entropy_with(x, targets[t], NULL, &z), &loss));
            assert_near(vv_tensor_get(loss, 0), log(2) + 0.5 * log(2) * log(2), 1e-6, 0);
            assert_true(vv_tensor_get(loss, 1) == 0.0);
        }
        vv_graph_free(g);
    }
}

/* ---- what plans make of a linear layer and its cross-entropy ---- */

enum { LOSS, DX, DW, DB, VALUES };

typedef struct world {
    int64_t rows, width, classes;
    double ignored;   /* share of the rows */
    double z_loss, softcap;
    bool bias, soft;
    bool read_logits; /* somebody else does */
    bool metric;      /* the cross-entropy once more */
    bool square;      /* the loss's gradient depends on the loss */
    int skip;         /* the gradient that is not asked for; 0 = none */
    const char *backend;
    vv_precision precision;
} world;

typedef struct outcome {
    vv_tensor *values[VALUES];
    vv_str plan;
    vv_plan_cost cost;
} outcome;

static void outcome_free(outcome *o)
{
    for (int i = 0; i < VALUES; i++)
        vv_tensor_free(o->values[i]);
    vv_str_fini(&o->plan);
}

static vv_node *random_leaf(vv_graph *g, const char *name, int ndim, const int64_t *shape,
                            double size)
{
    vv_tensor *t;
    vv_rng rng = vv_rng_at(4, name, 0);
    assert_ok(vv_tensor_new(&t, VV_F32, ndim, shape));
    for (int64_t i = 0; i < t->count; i++)
        vv_tensor_set(t, i, vv_rng_uniform_in(&rng, -size, size));
    vv_node *leaf = vv_leaf(g, t);
    vv_tensor_free(t);
    return leaf;
}

static vv_node *class_leaf(vv_graph *g, const world *w)
{
    vv_tensor *t;
    vv_rng rng = vv_rng_at(5, "classes", 0);
    const int64_t shape[2] = {2, w->rows / 2};
    assert_ok(vv_tensor_new(&t, VV_I32, 2, shape));
    for (int64_t i = 0; i < t->count; i++) {
        const double k = floor(vv_rng_uniform(&rng) * (double)w->classes);
        vv_tensor_set(t, i, vv_rng_uniform(&rng) < w->ignored ? -100.0 : k);
    }
    vv_node *leaf = vv_leaf(g, t);
    vv_tensor_free(t);
    return leaf;
}

/* x [2, rows / 2, width] through the layer to the mean loss, and its gradients. */
static void run_world(outcome *o, const world *w, bool fuse, bool run)
{
    memset(o, 0, sizeof *o);
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = vv_backend_find(w->backend ? w->backend : "cpu");
    opts.fuse = fuse;
    opts.precision = w->precision;
    vv_graph *g;
    assert_ok(vv_graph_new(&g, &opts));
    const int64_t xs[3] = {2, w->rows / 2, w->width}, ws[2] = {w->classes, w->width};
    const int64_t soft[3] = {2, w->rows / 2, w->classes};
    vv_node *leaves[3] = {random_leaf(g, "x", 3, xs, 1.0), random_leaf(g, "weight", 2, ws, 0.5),
                          w->bias ? random_leaf(g, "bias", 1, ws, 0.5) : NULL};
    vv_node *logits = vv_linear(leaves[0], leaves[1], leaves[2]);
    if (w->softcap > 0.0)
        logits = vv_softcap(logits, w->softcap);
    const vv_entropy_opts entropy = {-100, w->z_loss, 0.0};
    vv_node *target = w->soft ? random_leaf(g, "soft", 3, soft, 1.0) : class_leaf(g, w);
    vv_node *items = vv_cross_entropy_with(logits, target, NULL, &entropy);
    if (w->square)
        items = vv_square(items);
    vv_node *loss = vv_div(vv_sum_all(items), vv_scalar(g, (double)w->rows));
    vv_node *nodes[VALUES + 2] = {loss}, *wrt[3];
    int which[VALUES + 2] = {LOSS}, count = 0;
    for (int i = 0; i < 3; i++)
        if (leaves[i] && i + 1 != w->skip) {
            which[1 + count] = 1 + i;
            wrt[count++] = leaves[i];
        }
    assert_ok(vv_grad(g, loss, wrt, count, nodes + 1));
    int asked = ++count;
    if (w->read_logits)
        nodes[asked++] = vv_argmax(logits, -1);
    if (w->metric)
        nodes[asked++] =
            vv_sum_all(vv_cross_entropy_with(logits, target, NULL, &entropy));
    assert_ok(vv_graph_plan_cost(g, nodes, asked, &o->cost));
    if (run) {
        assert_ok(vv_eval(g, nodes, asked));
        vv_graph_describe_plan(g, &o->plan);
        for (int i = 0; i < count; i++)
            assert_ok(vv_node_keep(nodes[i], &o->values[which[i]]));
    }
    vv_graph_free(g);
}

static int count_text(const outcome *o, const char *text)
{
    int count = 0;
    for (const char *at = vv_str_text(&o->plan); (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static void same_values(const outcome *a, const outcome *b, double tolerance)
{
    for (int v = 0; v < VALUES; v++) {
        if (!a->values[v] || !b->values[v]) {
            assert_true(a->values[v] == b->values[v]);
            continue;
        }
        double largest = 0.0;
        for (int64_t i = 0; i < b->values[v]->count; i++)
            largest = fmax(largest, fabs(vv_tensor_get(b->values[v], i)));
        assert_true(largest > 0.0);
        for (int64_t i = 0; i < b->values[v]->count; i++) {
            const double x = vv_tensor_get(a->values[v], i), y = vv_tensor_get(b->values[v], i);
            if (!(fabs(x - y) <= tolerance * largest))
                fail_msg("value %d, element %lld: %.9g, expected %.9g", v, (long long)i, x, y);
        }
    }
}

/* The fused form was taken: with both parts at once (1 instruction), apart (2), or not (0). */
static void check_world(const world *w, int instructions, double tolerance)
{
    outcome fused, plain;
    run_world(&fused, w, true, true);
    run_world(&plain, w, false, true);
    assert_int_equal(count_text(&fused, "[linear_cross_entropy"), instructions);
    assert_int_equal(count_text(&fused, "[linear_cross_entropy_grad"), instructions > 0);
    if (instructions)
        assert_int_equal(count_text(&fused, "[matmul"), 0);
    assert_int_equal(count_text(&plain, "[linear_cross_entropy"), 0);
    same_values(&fused, &plain, tolerance);
    outcome_free(&fused);
    outcome_free(&plain);
}

static void test_plan_takes_it(void **state)
{
    (void)state;
    const world plain = {.rows = 20, .width = 6, .classes = 1100, .ignored = 0.3};
    static const char *const backends[] = {"cpu", "ref"};
    for (int i = 0; i < 16; i++) {
        world w = plain;
        w.backend = backends[i / 8];
        w.bias = i & 1;
        w.softcap = i & 2 ? 1.5 : 0.0;
        w.z_loss = i & 4 ? 0.01 : 0.0;
        check_world(&w, 1, 1e-5);
    }
    for (int skip = DX; skip <= DB; skip++) {
        world w = plain;
        w.bias = true;
        w.skip = skip;
        w.softcap = skip == DW ? 2.0 : 0.0;
        check_world(&w, 1, 1e-5);
    }
    world w = plain;
    w.metric = true;
    check_world(&w, 1, 1e-5);
    w = plain;
    w.square = w.bias = true;
    check_world(&w, 2, 1e-5);
    w = plain;
    w.ignored = 0.0;
    check_world(&w, 1, 1e-5);
}

static void test_plan_leaves_it(void **state)
{
    (void)state;
    const world plain = {.rows = 20, .width = 6, .classes = 1100, .ignored = 0.3, .bias = true};
    world w = plain;
    w.read_logits = true;
    check_world(&w, 0, 1e-6);
    w.softcap = 2.0;
    check_world(&w, 0, 1e-6);
    w = plain;
    w.soft = true;
    check_world(&w, 0, 1e-6);
    w = plain;
    w.classes = 1000;
    check_world(&w, 0, 1e-6);
}

/* Rows in several chunks, most of them ignored or none. */
static void test_chunks(void **state)
{
    (void)state;
    world w = {.rows = 16000, .width = 4, .classes = 1100, .ignored = 0.0, .bias = true};
    check_world(&w, 1, 2e-5);
    w.ignored = 0.85;
    w.rows = 34000;
    outcome few;
    run_world(&few, &w, true, true);
    assert_int_equal(count_text(&few, "[linear_cross_entropy_grad"), 1);
    for (int v = 0; v < VALUES; v++)
        assert_true(isfinite(vv_tensor_get(few.values[v], 0)));
    outcome_free(&few);
}

/* GPT-2's vocabulary. */
static void test_large_vocabulary(void **state)
{
    (void)state;
    const world w = {.rows = 6, .width = 5, .classes = 50257, .ignored = 0.3};
    check_world(&w, 1, 1e-5);
}

/* bf16 products: the same within bf16's digits. */
static void test_mixed_precision(void **state)
{
    (void)state;
    const world w = {.rows = 40, .width = 32, .classes = 2000, .ignored = 0.2, .bias = true,
                     .precision = VV_PRECISION_AMP_BF16};
    world exact = w;
    exact.precision = VV_PRECISION_FP32;
    outcome half, single;
    run_world(&half, &w, true, true);
    run_world(&single, &exact, false, true);
    assert_int_equal(count_text(&half, "[linear_cross_entropy_grad"), 1);
    same_values(&half, &single, 2e-2);
    assert_near(vv_tensor_get(half.values[LOSS], 0), vv_tensor_get(single.values[LOSS], 0), 0,
                1e-3);
    outcome_free(&half);
    outcome_free(&single);
}

/* The plain form's plan holds the logits; this one's grows with the rows by what a row of x needs.
 */
static void test_memory(void **state)
{
    (void)state;
    world w = {.rows = 32768, .width = 4, .classes = 8192};
    outcome small, large, plain;
    run_world(&small, &w, true, false);
    w.rows *= 4;
    run_world(&large, &w, true, false);
    run_world(&plain, &w, false, false);
    const size_t logits = (size_t)(w.rows * w.classes) * sizeof(float);
    assert_true(plain.cost.slab_bytes >= logits);
    assert_true(large.cost.slab_bytes < logits / 16);
    assert_true(large.cost.slab_bytes - small.cost.slab_bytes <
                (size_t)w.rows * (size_t)(4 * w.width + 8) * sizeof(float));
    outcome_free(&small);
    outcome_free(&large);
    outcome_free(&plain);
}

/* ---- wrong calls ---- */

static vv_node *zeros(vv_graph *g, vv_dtype dtype, int ndim, int64_t a, int64_t b)
{
    const int64_t shape[2] = {a, b};
    return vv_zeros(g, dtype, ndim, shape);
}

static void assert_refused(vv_graph *g, vv_node *node, const char *text)
{
    assert_null(node);
    assert_true(vv_graph_status(g) != VV_OK);
    assert_says(text);
    vv_graph_reset(g);
}

static void test_sentences(void **state)
{
    (void)state;
    vv_graph *g;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    assert_ok(vv_graph_new(&g, &opts));
    vv_node *x = zeros(g, VV_F32, 2, 4, 3);
    assert_refused(g,
                   vv_linear_cross_entropy(x, zeros(g, VV_F32, 2, 5, 2), NULL,
                                           zeros(g, VV_I32, 1, 4, 0), NULL),
                   "x f32 [4,3] and weight f32 [5,2] do not fit");
    x = zeros(g, VV_F32, 2, 4, 3);
    assert_refused(g,
                   vv_linear_cross_entropy(x, zeros(g, VV_F32, 2, 5, 3), zeros(g, VV_F32, 1, 3, 0),
                                           zeros(g, VV_I32, 1, 4, 0), NULL),
                   "bias is f32 [3], expected f32 [5]");
    x = zeros(g, VV_F32, 2, 4, 3);
    assert_refused(g,
                   vv_linear_cross_entropy(x, zeros(g, VV_F32, 2, 5, 3), NULL,
                                           zeros(g, VV_I32, 1, 3, 0), NULL),
                   "target is i32 [3], expected classes, i32 or i64 [4]");
    x = zeros(g, VV_F32, 2, 4, 3);
    assert_refused(g,
                   vv_linear_cross_entropy(x, zeros(g, VV_F32, 2, 5, 3), NULL,
                                           zeros(g, VV_F32, 1, 4, 0), NULL),
                   "target is f32 [4]");
    const vv_entropy_opts wrong = {-100, -1.0, 0.0};
    x = zeros(g, VV_F32, 2, 4, 3);
    assert_refused(g, vv_cross_entropy_with(x, zeros(g, VV_I32, 1, 4, 0), NULL, &wrong),
                   "z_loss is -1");
    vv_graph_free(g);
}

/* A token beyond the vocabulary is named, by the loss and by the embedding, on every backend. */
static void test_wrong_tokens(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", "cpu"};
    for (size_t b = 0; b < COUNT(backends); b++) {
        vv_graph_opts opts = VV_GRAPH_DEFAULTS;
        opts.backend = vv_backend_find(backends[b]);
        vv_graph *g = NULL;
        if (!opts.backend)
            continue;
        assert_ok(vv_graph_new(&g, &opts));
        const int64_t shape[1] = {3};
        const int32_t tokens[3] = {0, 1500, 7};
        vv_node *target = vv_data(g, VV_I32, 1, shape, tokens);
        vv_node *table = zeros(g, VV_F32, 2, 1500, 4), *grad = NULL;
        vv_node *x = zeros(g, VV_F32, 2, 3, 4);
        vv_node *loss = vv_sum_all(vv_cross_entropy(vv_linear(x, table, NULL), target, NULL, -100));
        assert_ok(vv_grad(g, loss, &table, 1, &grad));
        assert_fails(vv_eval(g, &loss, 1), VV_EINVAL);
        assert_says("row 1 is 1500");
        assert_says("0..1499");
        assert_fails(vv_eval(g, &grad, 1), VV_EINVAL);
        assert_says("row 1 is 1500");
        vv_node *rows = vv_embedding(target, table);
        assert_fails(vv_eval(g, &rows, 1), VV_EINVAL);
        assert_says("index 1500 at position 1");
        vv_graph_free(g);
    }
}

/* ---- memory ---- */

static vv_status run_network(void)
{
    vv_status status;
    vv_graph *g = NULL;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    VV_GO(vv_graph_new(&g, &opts));
    const int64_t shape[2] = {4, 8}, weight[2] = {1030, 8}, rows[1] = {4};
    vv_node *x = vv_full(g, VV_F32, 2, shape, 0.5), *w = vv_full(g, VV_F32, 2, weight, 0.1);
    vv_node *wrt[2] = {x, w}, *nodes[3] = {NULL};
    nodes[0] = vv_sum_all(vv_cross_entropy(vv_softcap(vv_linear(x, w, NULL), 3.0),
                                           vv_zeros(g, VV_I32, 1, rows), NULL, -100));
    VV_GO(vv_graph_status(g));
    VV_GO(vv_grad(g, nodes[0], wrt, 2, nodes + 1));
    VV_GO(vv_eval(g, nodes, 3));
out:
    vv_graph_free(g);
    return status;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_ok(run_network());
    const int64_t live = vv_memory_live_count();
    const uint64_t before = vv_memory_alloc_count();
    assert_ok(run_network());
    const uint64_t count = vv_memory_alloc_count() - before;
    assert_true(count > 0);
    for (uint64_t nth = 1; nth <= count; nth++) {
        vv_memory_fail_at(nth);
        assert_fails(run_network(), VV_ENOMEM);
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix),           cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_z_by_hand),        cmocka_unit_test(test_plan_takes_it),
        cmocka_unit_test(test_plan_leaves_it),   cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_large_vocabulary), cmocka_unit_test(test_mixed_precision),
        cmocka_unit_test(test_memory),           cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_wrong_tokens),     cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
