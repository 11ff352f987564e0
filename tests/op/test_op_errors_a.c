/* test_op_errors_a.c - wrong calls of element-wise, reduction, shape and matrix ops.
 *
 * What must hold: a wrong call gives NULL, sets the graph's status with a code and a sentence that
 * names the op and what does not fit, and everything built on it is NULL too; an index outside its
 * table is found when the op runs. Out of memory at any moment is an error, not a crash. */
#include "vv_test.h"

#include <vivace/ops.h>

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* What the rows below may use as operands. */
typedef struct operands {
    vv_graph *g;
    vv_node *f23, *f4, *d23, *i23, *b23, *f0, *u3, *empty;
} operands;

static vv_node *zeros(vv_graph *g, vv_dtype dtype, int ndim, int64_t d0, int64_t d1)
{
    return vv_zeros(g, dtype, ndim, (const int64_t[]){d0, d1});
}

static operands fresh(vv_graph *g)
{
    vv_graph_reset(g);
    return (operands){
        .g = g,
        .f23 = zeros(g, VV_F32, 2, 2, 3),
        .f4 = zeros(g, VV_F32, 1, 4, 0),
        .d23 = zeros(g, VV_F64, 2, 2, 3),
        .i23 = zeros(g, VV_I32, 2, 2, 3),
        .b23 = zeros(g, VV_BOOL, 2, 2, 3),
        .f0 = zeros(g, VV_F32, 0, 0, 0),
        .u3 = zeros(g, VV_U8, 1, 3, 0),
        .empty = zeros(g, VV_F32, 2, 0, 3),
    };
}

/* One wrong call. Its result is used once more, which must not hide the first sentence. */
#define WRONG(code, text, ...)                     \
    do {                                           \
        operands o = fresh(g);                     \
        assert_ok(vv_graph_status(g));             \
        vv_node *wrong = (__VA_ARGS__);            \
        assert_null(wrong);                        \
        assert_null(vv_exp(vv_add(wrong, o.f23))); \
        assert_fails(vv_graph_status(g), code);    \
        assert_says(text);                         \
    } while (0)

#define AXES(...) (const int[]){__VA_ARGS__}, (int)ROWS(((int[]){__VA_ARGS__}))
#define SHAPE(...)    \
    (const int64_t[]) \
    {                 \
        __VA_ARGS__   \
    }

static int with_graph(void **state)
{
    vv_graph *g;
    assert_ok(vv_graph_new(&g, NULL));
    *state = g;
    return 0;
}

static int drop_graph(void **state)
{
    vv_graph_free(*state);
    return 0;
}

static void test_elementwise(void **state)
{
    vv_graph *g = *state;
    WRONG(VV_ETYPE, "gelu: operand is i32", vv_gelu(o.i23));
    WRONG(VV_ETYPE, "neg: ", vv_neg(o.b23));
    WRONG(VV_EINVAL, "clamp: the lower bound 2", vv_clamp(o.f23, 2, 1));
    WRONG(VV_EINVAL, "clamp: ", vv_clamp(o.f23, NAN, 1));
    WRONG(VV_EINVAL, "cast: 99 is not", vv_cast(o.f23, (vv_dtype)99));
    WRONG(VV_ESHAPE, "add: shapes [2,3] and [4] do not broadcast", vv_add(o.f23, o.f4));
    WRONG(VV_ESHAPE, "maximum: shapes", vv_maximum(o.f4, o.empty));
    WRONG(VV_ETYPE, "mul: the operands are f32 and f64", vv_mul(o.f23, o.d23));
    WRONG(VV_ETYPE, "sub: the operands are i32 and f32", vv_sub(o.i23, o.f23));
    WRONG(VV_ETYPE, "div: not defined for i32", vv_div(o.i23, o.i23));
    WRONG(VV_ETYPE, "add: not defined for bool", vv_add(o.b23, o.b23));
    WRONG(VV_ETYPE, "where: the condition is i32", vv_where(o.i23, o.f23, o.f23));
    WRONG(VV_ETYPE, "where: the operands are f32 and f64", vv_where(o.b23, o.f23, o.d23));
    WRONG(VV_ESHAPE, "where: shapes [2,3] and [4]", vv_where(o.b23, o.f23, o.f4));
    WRONG(VV_ESHAPE, "where: shapes [2,3] and [4]", vv_where(o.b23, o.f4, o.f0));
    WRONG(VV_EINVAL, "dropout: p is 1.5", vv_dropout(o.f23, 1.5));
    WRONG(VV_EINVAL, "dropout: p is -0.1", vv_dropout(o.f23, -0.1));
    WRONG(VV_ETYPE, "dropout: ", vv_dropout(o.i23, 0.5));
    WRONG(VV_ESHAPE, "random_normal: 9 dimensions",
          vv_random_normal(o.g, 9, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1)));
    WRONG(VV_ESHAPE, "full: dimension 0 is -2", vv_full(o.g, VV_F32, 1, SHAPE(-2), 0));
    WRONG(VV_EINVAL, "full: 256 does not fit in u8", vv_full(o.g, VV_U8, 0, NULL, 256));
    WRONG(VV_EINVAL, "full: ", vv_full(o.g, (vv_dtype)-1, 0, NULL, 0));
}

static void test_reduce(void **state)
{
    vv_graph *g = *state;
    WRONG(VV_ESHAPE, "sum: axis 2 is outside", vv_sum(o.f23, AXES(2), false));
    WRONG(VV_ESHAPE, "mean: axis -3 is outside", vv_mean(o.f23, AXES(-3), true));
    WRONG(VV_EINVAL, "max: axis 1 is named twice", vv_max(o.f23, AXES(1, -1), false));
    WRONG(VV_ESHAPE, "max: axis 0 has no elements", vv_max(o.empty, AXES(0), false));
    WRONG(VV_ESHAPE, "min: axis 0 has no elements", vv_min(o.empty, NULL, 0, false));
    WRONG(VV_ETYPE, "mean: not defined for i32", vv_mean_all(o.i23));
    WRONG(VV_ETYPE, "sum: not defined for bool", vv_sum_all(o.b23));
    WRONG(VV_ESHAPE, "argmax: axis 0 is outside", vv_argmax(o.f0, 0));
    WRONG(VV_ESHAPE, "argmax: axis 0 has no elements", vv_argmax(o.empty, 0));
    WRONG(VV_EINVAL, "topk: k is 4, the last axis has 3", vv_topk(o.f23, 4, NULL));
    WRONG(VV_EINVAL, "topk: k is 0", vv_topk(o.f23, 0, NULL));
    WRONG(VV_ESHAPE, "largest: count [2,3] does not fit the rows of [2,3]",
          vv_largest(o.f23, o.i23));
    WRONG(VV_ETYPE, "largest: x is i32", vv_largest(o.i23, o.i23));
    WRONG(VV_ESHAPE, "broadcast_to: [2,3] does not broadcast to [3,3]",
          vv_broadcast_to(o.f23, 2, SHAPE(3, 3)));
    WRONG(VV_ESHAPE, "broadcast_to: [2,3] does not", vv_broadcast_to(o.f23, 1, SHAPE(3)));
}

static void test_shape(void **state)
{
    vv_graph *g = *state;
    WRONG(VV_ESHAPE, "reshape: [2,3] cannot become [4,2]", vv_reshape(o.f23, 2, SHAPE(4, 2)));
    WRONG(VV_ESHAPE, "reshape: [2,3] cannot become [4,-1]", vv_reshape(o.f23, 2, SHAPE(4, -1)));
    WRONG(VV_ESHAPE, "reshape: ", vv_reshape(o.f23, 2, SHAPE(-1, -1)));
    WRONG(VV_ESHAPE, "reshape: ", vv_reshape(o.f23, 2, SHAPE(-2, -3)));
    WRONG(VV_ESHAPE, "reshape: ", vv_reshape(o.empty, 2, SHAPE(0, -1)));
    WRONG(VV_ESHAPE, "reshape: ", vv_reshape(o.f23, 3, SHAPE(INT64_MAX, INT64_MAX, 2)));
    WRONG(VV_ESHAPE, "permute: axis 5 is outside", vv_permute(o.f23, (const int[]){0, 5}));
    WRONG(VV_EINVAL, "permute: axis 0 is named twice", vv_permute(o.f23, (const int[]){0, -2}));
    WRONG(VV_EINVAL, "slice: start 0, stop 4, step 1 on an axis of 3", vv_slice(o.f23, 1, 0, 4, 1));
    WRONG(VV_EINVAL, "slice: start -1", vv_slice(o.f23, 1, -1, 2, 1));
    WRONG(VV_EINVAL, "slice: start 2, stop 1", vv_slice(o.f23, 1, 2, 1, 1));
    WRONG(VV_EINVAL, "step 0", vv_slice(o.f23, 1, 0, 2, 0));
    WRONG(VV_ESHAPE, "slice: axis 2", vv_slice(o.f23, 2, 0, 1, 1));
    WRONG(VV_ESHAPE, "concat: [2,3] and [4] differ", vv_concat((vv_node *[]){o.f23, o.f4}, 2, 0));
    WRONG(VV_ESHAPE, "concat: [2,3] and [0,3] differ outside axis 1",
          vv_concat((vv_node *[]){o.f23, o.empty}, 2, 1));
    WRONG(VV_ETYPE, "concat: operands are f32 and f64",
          vv_concat((vv_node *[]){o.f23, o.d23}, 2, 0));
    WRONG(VV_EINVAL, "pad: -1 before and 0 after axis 1",
          vv_pad(o.f23, SHAPE(0, -1), SHAPE(0, 0), 0));
    WRONG(VV_ETYPE, "gather: the index is f32", vv_gather(o.f23, o.f4, 0));
    WRONG(VV_ESHAPE, "gather: axis 7", vv_gather(o.f23, o.i23, 7));
    WRONG(VV_ESHAPE, "embedding: table must have 2 dimensions", vv_embedding(o.i23, o.f4));
    WRONG(VV_ETYPE, "embedding: the index is u8", vv_embedding(o.u3, o.f23));
    WRONG(VV_ETYPE, "one_hot: the index is f32", vv_one_hot(o.f23, 3));
    WRONG(VV_EINVAL, "one_hot: 0 classes", vv_one_hot(o.i23, 0));
}

static void test_matmul(void **state)
{
    vv_graph *g = *state;
    WRONG(VV_ESHAPE, "matmul: [2,3] and [2,3]: the inner dimensions differ",
          vv_matmul(o.f23, o.f23, false, false));
    WRONG(VV_ESHAPE, "matmul: [2,3] (transposed) and [0,3]",
          vv_matmul(o.f23, o.empty, true, false));
    WRONG(VV_ESHAPE, "both need two dimensions", vv_matmul(o.f23, o.f4, false, false));
    WRONG(VV_ESHAPE, "leading dimensions do not broadcast",
          vv_matmul(vv_zeros(o.g, VV_F32, 3, SHAPE(2, 3, 3)),
                    vv_zeros(o.g, VV_F32, 3, SHAPE(3, 3, 3)), false, false));
    WRONG(VV_ETYPE, "matmul: x is f32 but the other is f64", vv_matmul(o.f23, o.d23, false, true));
    WRONG(VV_ETYPE, "matmul: operand is i32", vv_matmul(o.i23, o.i23, false, true));
    WRONG(VV_ESHAPE, "linear: x [4] must end in 3", vv_linear(o.f4, o.f23, NULL));
    WRONG(VV_ESHAPE, "linear: weight must have 2 dimensions", vv_linear(o.f23, o.f4, NULL));
    WRONG(VV_ESHAPE, "linear: bias has 4 elements, the weight 2 outputs",
          vv_linear(o.f23, o.f23, o.f4));
    WRONG(VV_ETYPE, "linear: x is f32 but the weight is f64", vv_linear(o.f23, o.d23, NULL));
}

/* What can only be seen when the op runs. */
static void test_index(void **state)
{
    vv_graph *g = *state;
    const int64_t four = 4;
    const int32_t high[4] = {0, 9, 3, 12};
    const int64_t low[4] = {0, 9, -1, 3};
    const int64_t table_shape[2] = {10, 3};
    static const char *const backends[] = {"ref", "cpu"};
    (void)g;
    for (size_t b = 0; b < ROWS(backends); b++) {
        vv_graph_opts opts = VV_GRAPH_DEFAULTS;
        vv_graph *own;
        double item;
        opts.backend = vv_backend_find(backends[b]);
        if (!opts.backend)
            continue;
        assert_ok(vv_graph_new(&own, &opts));
        vv_node *table = vv_zeros(own, VV_F32, 2, table_shape);
        vv_node *index = vv_data(own, VV_I32, 1, &four, high);
        assert_fails(vv_node_item(vv_sum_all(vv_embedding(index, table)), &item), VV_EINVAL);
        assert_says("index 12 at position 3 is outside 0..9");
        vv_graph_reset(own);
        table = vv_zeros(own, VV_F32, 2, table_shape);
        index = vv_data(own, VV_I64, 1, &four, low);
        assert_fails(vv_node_item(vv_sum_all(vv_gather(table, index, 0)), &item), VV_EINVAL);
        assert_says("index -1 at position 2 is outside 0..9");
        vv_graph_free(own);
    }
}

/* A step through each family, backward too. */
static vv_status small_step(void)
{
    vv_graph *g = NULL;
    vv_status status = VV_OK;
    vv_node *grads[2];
    const int64_t shape[2] = {4, 3};
    const int32_t index[3] = {2, 0, 2};
    VV_GO(vv_graph_new(&g, NULL));
    vv_node *w = vv_full(g, VV_F32, 2, shape, 0.5), *x = vv_random_normal(g, 2, shape);
    vv_node *top = vv_topk(vv_gelu(vv_linear(vv_dropout(x, 0.5), w, NULL)), 2, NULL);
    vv_node *rows = vv_gather(top, vv_data(g, VV_I32, 1, (const int64_t[]){3}, index), 0);
    vv_node *loss = vv_mean_all(vv_concat((vv_node *[]){rows, top}, 2, 0));
    VV_GO(vv_grad(g, loss, (vv_node *[]){w, x}, 2, grads));
    VV_GO(vv_eval(g, grads, 2));
out:
    vv_graph_free(g);
    return status;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    assert_ok(small_step());
    const int64_t live = vv_memory_live_count();
    vv_status status = VV_ENOMEM;
    for (uint64_t nth = 1; status != VV_OK && nth < 10000; nth++) {
        vv_memory_fail_at(nth);
        vv_error_clear();
        status = small_step();
        vv_memory_fail_at(0);
        if (status != VV_OK && (status != VV_ENOMEM || !vv_error()[0]))
            fail_msg("allocation %llu: %s: %s", (unsigned long long)nth, vv_status_name(status),
                     vv_error());
        assert_int_equal(vv_memory_live_count(), live);
    }
    assert_ok(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_elementwise, with_graph, drop_graph),
        cmocka_unit_test_setup_teardown(test_reduce, with_graph, drop_graph),
        cmocka_unit_test_setup_teardown(test_shape, with_graph, drop_graph),
        cmocka_unit_test_setup_teardown(test_matmul, with_graph, drop_graph),
        cmocka_unit_test_setup_teardown(test_index, with_graph, drop_graph),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
