/* test_join_grads.c - sums of gradients that are mostly zeros become one instruction:
 * slices that cover their axis a concatenation, rows of a table an addition in place; the numbers
 * are those of the plain sums on every backend. Slices that overlap or leave a gap, strided ones
 * and a gradient that is read elsewhere stay sums. */
#include "vv_test.h"

#include <vivace/ext/backend.h>
#include <vivace/rng.h>

enum { ROWS = 5, WIDTH = 12, WORDS = 7 };

static vv_tensor *random_tensor(uint32_t index, int64_t rows, int64_t columns)
{
    vv_rng rng = vv_rng_at2(3, "join", 0, index);
    vv_tensor *t = NULL;
    assert_ok(vv_tensor_new(&t, VV_F32, 2, (int64_t[]){rows, columns}));
    for (int64_t i = 0; i < t->count; i++)
        vv_tensor_set(t, i, vv_rng_normal(&rng));
    return t;
}

/* Pieces of one axis as {start, stop, step}, ended by stop 0. */
typedef struct cut {
    int64_t start, stop, step;
} cut;

typedef struct outcome {
    vv_tensor *grad;
    vv_str plan;
} outcome;

static outcome keep(vv_graph *g, vv_node *loss, vv_node *wrt)
{
    outcome o = {0};
    vv_node *grad = NULL;
    assert_ok(vv_grad(g, loss, &wrt, 1, &grad));
    assert_ok(vv_eval(g, &grad, 1));
    assert_ok(vv_node_keep(grad, &o.grad));
    vv_graph_describe_plan(g, &o.plan);
    vv_graph_free(g);
    return o;
}

static vv_graph *graph_of(const char *backend, bool fuse)
{
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = vv_backend_find(backend);
    opts.fuse = fuse;
    vv_graph *g = NULL;
    assert_ok(vv_graph_new(&g, &opts));
    return g;
}

/* Sum over the pieces of (k + 1) * square(piece): each piece has a gradient of its own. */
static outcome run_slices(const char *backend, bool fuse, const cut *cuts)
{
    vv_graph *g = graph_of(backend, fuse);
    vv_tensor *t = random_tensor(0, ROWS, WIDTH);
    vv_node *leaf = vv_leaf(g, t), *x = vv_exp(leaf), *loss = NULL;
    for (int k = 0; cuts[k].stop; k++) {
        vv_node *piece = vv_slice(x, 1, cuts[k].start, cuts[k].stop, cuts[k].step);
        vv_node *part = vv_affine(vv_sum_all(vv_square(piece)), k + 1.0, 0.0);
        loss = loss ? vv_add(loss, part) : part;
    }
    const outcome o = keep(g, loss, leaf);
    vv_tensor_free(t);
    return o;
}

/* A table read by its rows and as a matrix. */
static outcome run_table(const char *backend, bool fuse)
{
    vv_graph *g = graph_of(backend, fuse);
    vv_tensor *t = random_tensor(1, WORDS, WIDTH);
    const int32_t words[6] = {3, 0, 3, 6, 1, 3};
    const int64_t shape[1] = {6};
    vv_node *table = vv_leaf(g, t);
    vv_node *rows = vv_tanh(vv_embedding(vv_data(g, VV_I32, 1, shape, words), table));
    const outcome o = keep(g, vv_sum_all(vv_square(vv_matmul(rows, table, false, true))), table);
    vv_tensor_free(t);
    return o;
}

static void compare(outcome *plain, outcome *joined)
{
    for (int64_t i = 0; i < plain->grad->count; i++)
        assert_near(vv_tensor_get(joined->grad, i), vv_tensor_get(plain->grad, i), 1e-6, 1e-6);
}

static void free_outcome(outcome *o)
{
    vv_tensor_free(o->grad);
    vv_str_fini(&o->plan);
}

static const char *const backends[] = {"ref", "cpu"};

static void check_slices(const cut *cuts, bool becomes_one)
{
    for (int b = 0; b < 2; b++) {
        if (!vv_backend_find(backends[b]))
            continue;
        outcome plain = run_slices(backends[b], false, cuts);
        outcome joined = run_slices(backends[b], true, cuts);
        compare(&plain, &joined);
        assert_non_null(strstr(vv_str_text(&plain.plan), "[slice_grad "));
        assert_true((strstr(vv_str_text(&joined.plan), "[concat ") != NULL) == becomes_one);
        assert_true((strstr(vv_str_text(&joined.plan), "[slice_grad ") == NULL) == becomes_one);
        free_outcome(&plain);
        free_outcome(&joined);
    }
}

static void test_slices_that_cover(void **state)
{
    (void)state;
    check_slices((const cut[]){{0, 4, 1}, {4, 8, 1}, {8, 12, 1}, {0}}, true);
    check_slices((const cut[]){{7, 12, 1}, {0, 7, 1}, {0}}, true);
    check_slices((const cut[]){{3, 4, 1}, {9, 12, 1}, {0, 3, 1}, {4, 9, 1}, {0}}, true);
}

static void test_slices_that_do_not(void **state)
{
    (void)state;
    check_slices((const cut[]){{0, 4, 1}, {8, 12, 1}, {0}}, false);             /* a gap */
    check_slices((const cut[]){{0, 4, 1}, {4, 8, 1}, {0}}, false);              /* short */
    check_slices((const cut[]){{0, 8, 1}, {4, 12, 1}, {0}}, false);             /* an overlap */
    check_slices((const cut[]){{0, 12, 2}, {1, 12, 2}, {0}}, false);            /* strided */
    check_slices((const cut[]){{0, 6, 1}, {6, 12, 1}, {6, 12, 1}, {0}}, false); /* one twice */
}

static void test_table(void **state)
{
    (void)state;
    for (int b = 0; b < 2; b++) {
        if (!vv_backend_find(backends[b]))
            continue;
        outcome plain = run_table(backends[b], false), joined = run_table(backends[b], true);
        compare(&plain, &joined);
        assert_non_null(strstr(vv_str_text(&plain.plan), "[binary "));
        assert_null(strstr(vv_str_text(&joined.plan), "[binary "));
        assert_non_null(strstr(vv_str_text(&joined.plan), "[gather_grad "));
        free_outcome(&plain);
        free_outcome(&joined);
    }
}

/* Two tables' rows added to one sum: the second is added to what the first made. */
static void test_two_tables(void **state)
{
    (void)state;
    for (int b = 0; b < 2; b++) {
        double values[2] = {0.0, 0.0};
        if (!vv_backend_find(backends[b]))
            continue;
        for (int fuse = 0; fuse < 2; fuse++) {
            vv_graph *g = graph_of(backends[b], fuse);
            vv_tensor *t = random_tensor(1, WORDS, WIDTH);
            const int32_t words[4] = {3, 0, 3, 6};
            const int64_t shape[1] = {4};
            vv_node *table = vv_leaf(g, t), *x = vv_exp(table), *index;
            index = vv_data(g, VV_I32, 1, shape, words);
            vv_node *rows = vv_square(vv_embedding(index, x));
            vv_node *more = vv_tanh(vv_embedding(index, x));
            outcome o = keep(g, vv_add(vv_sum_all(rows), vv_sum_all(more)), table);
            for (int64_t i = 0; i < o.grad->count; i++)
                values[fuse] += (double)(i + 1) * vv_tensor_get(o.grad, i);
            free_outcome(&o);
            vv_tensor_free(t);
        }
        assert_near(values[1], values[0], 1e-6, 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_that_cover),
        cmocka_unit_test(test_slices_that_do_not),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_two_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
