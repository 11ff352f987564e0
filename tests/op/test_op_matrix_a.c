/* test_op_matrix_a.c - element-wise, reduction, shape and matrix ops on every backend.
 *
 * What must hold: for each op, dtype (f32, bf16) and shape (odd sizes, sizes across the width of
 * vectors and threads' chunks, tensors without elements), results and gradients of every backend
 * are those of `ref`, with and without fusion; and `ref` is right to the dtype's precision. */
#include "op/op_matrix.h"
#include "op_build_a.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))
#define X(...)                \
    {                         \
        OP_FLOAT, __VA_ARGS__ \
    }

static void run_all(const op_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        op_matrix(&cases[i]);
}

static const struct shape {
    int ndim;
    int64_t shape[4];
} shapes[] = {
    {0, {0}},    {1, {1}},    {1, {7}},          {1, {64}},
    {1, {1000}}, {2, {0, 3}}, {4, {2, 3, 5, 7}}, {2, {33, 517}},
};

static op_operand operand(op_operand_kind kind, struct shape s, double lo, double hi)
{
    op_operand o = {.kind = kind, .ndim = s.ndim, .lo = lo, .hi = hi};
    memcpy(o.shape, s.shape, sizeof(s.shape));
    return o;
}

static void test_unary(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        op_build build;
        double lo, hi, arg[2], tolerance;
        bool no_grad;
    } ops[] = {
        {"neg", build_neg, -2, 2},
        {"exp", build_exp, -9, 9},
        {"log", build_log, 0.01, 9},
        {"sqrt", build_sqrt, 0.01, 9},
        {"rsqrt", build_rsqrt, 0.1, 9},
        {"reciprocal", build_reciprocal, 0.1, 9},
        {"square", build_square, -2, 2},
        {"abs", build_abs, -2, 2},
        {"sign", build_sign, -2, 2},
        {"relu", build_relu, -2, 2},
        {"leaky_relu", build_leaky_relu, -2, 2, {0.1}},
        {"gelu", build_gelu, -6, 6},
        {"gelu_tanh", build_gelu_tanh, -6, 6},
        {"silu", build_silu, -9, 9},
        /* Where y is nearly 1, its rounding to bf16 is all that the gradient is made of. */
        {"sigmoid", build_sigmoid, -3, 3},
        {"sigmoid, far out", build_sigmoid, -100, 100, {0}, 0, true},
        {"tanh", build_tanh, -1.5, 1.5},
        {"tanh, far out", build_tanh, -20, 20, {0}, 0, true},
        {"hardswish", build_hardswish, -5, 5},
        {"softplus", build_softplus, -20, 20},
        {"clamp", build_clamp, -2, 2, {-0.7, 1.1}},
        {"affine", build_affine, -2, 2, {-2.5, 7}},
        {"pow 3", build_pow, -2, 2, {3}},
        {"pow 0.5", build_pow, 0.1, 4, {0.5}},
        {"dropout", build_dropout, -2, 2, {0.3}},
        {"cast to i32", build_cast, -9, 9, {VV_I32}},
        {"cast to f32", build_cast, -9, 9, {VV_F32}},
        {"cast to bf16", build_cast, -9, 9, {VV_BF16}, 1000}, /* f32 is held to f32's tolerance */
    };
    for (size_t i = 0; i < ROWS(ops); i++) {
        for (size_t s = 0; s < ROWS(shapes); s++) {
            const op_case c = {ops[i].name,
                               ops[i].build,
                               1,
                               {operand(OP_FLOAT, shapes[s], ops[i].lo, ops[i].hi)},
                               {ops[i].arg[0], ops[i].arg[1]},
                               ops[i].tolerance,
                               ops[i].no_grad};
            op_matrix(&c);
        }
    }
}

static void test_binary(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        op_build build;
        double tolerance;
    } ops[] = {
        {"add", build_add, 0},
        {"sub", build_sub, 0},
        {"mul", build_mul, 0},
        {"div", build_div, 2},
        {"maximum", build_maximum, 0},
        {"minimum", build_minimum, 0},
        {"equal", build_equal, 0},
        {"less", build_less, 0},
        {"greater_equal", build_greater_equal, 0},
    };
    static const struct shape pairs[][2] = {
        {{2, {33, 65}}, {1, {65}}},
        {{1, {65}}, {2, {33, 65}}},
        {{2, {33, 65}}, {2, {33, 1}}},
        {{2, {33, 65}}, {0, {0}}},
        {{0, {0}}, {1, {1000}}},
        {{3, {5, 1, 7}}, {3, {1, 9, 1}}},
        {{4, {2, 5, 3, 17}}, {3, {5, 1, 17}}},
        {{2, {0, 3}}, {2, {1, 3}}},
        {{1, {1}}, {1, {63}}},
    };
    for (size_t i = 0; i < ROWS(ops); i++) {
        for (size_t s = 0; s < ROWS(shapes); s++) {
            const op_case c = {
                ops[i].name,
                ops[i].build,
                2,
                {operand(OP_FLOAT, shapes[s], 0.5, 3), operand(OP_FLOAT, shapes[s], -3, -0.5)},
                {0},
                ops[i].tolerance};
            op_matrix(&c);
        }
        for (size_t s = 0; s < ROWS(pairs); s++) {
            const op_case c = {
                ops[i].name,
                ops[i].build,
                2,
                {operand(OP_FLOAT, pairs[s][0], 0.5, 3), operand(OP_FLOAT, pairs[s][1], 0.6, 2)},
                {0},
                ops[i].tolerance};
            op_matrix(&c);
        }
    }
    for (size_t s = 0; s < ROWS(shapes); s++) {
        const op_operand x = operand(OP_FLOAT, shapes[s], -2, 2);
        const op_operand condition = operand(OP_BOOL, shapes[s], 0, 0);
        const op_operand i32 = operand(OP_INDEX, shapes[s], -100, 100);
        const op_operand i64 = operand(OP_INDEX64, shapes[s], -1e15, 1e15);
        const op_case cases[] = {
            {"where", build_where, 3, {condition, x, x}},
            /* The scalar's gradient is a sum of thousands of either sign. */
            {"where, scalar", build_where, 3, {condition, x, X(0, {0})}, {0}, 10},
            {"where of i32", build_where, 3, {condition, i32, i32}},
            {"lerp", build_lerp, 3, {x, x, X(0, {0}, 0.1, 0.9)}, {0}, 10},
            {"add i32", build_add, 2, {i32, i32}},
            {"sub i64", build_sub, 2, {i64, i64}},
            {"mul i32", build_mul, 2, {i32, i32}},
            {"less i64", build_less, 2, {i64, i64}},
            {"equal bool", build_equal, 2, {condition, condition}},
            {"equal scalar", build_equal, 2, {i32, {OP_INDEX, 0, {0}, 5, 6}}},
            {"add_scalar", build_add_scalar, 1, {x}},
            {"x + x", build_add_self, 1, {x}},
        };
        run_all(cases, ROWS(cases));
    }
}

static void test_reduce(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        op_build build;
    } ops[] = {{"sum", build_sum}, {"mean", build_mean}, {"max", build_max}, {"min", build_min}};
    static const struct shape reduced[] = {
        {3, {5, 7, 33}},
        {3, {1, 64, 64}},
        {3, {9, 1, 130}},
        {3, {65, 17, 1}},
    };
    for (size_t i = 0; i < ROWS(ops); i++) {
        for (size_t s = 0; s < ROWS(reduced); s++) {
            for (int axes = 1; axes < 8; axes++) {
                const op_case c = {ops[i].name,
                                   ops[i].build,
                                   1,
                                   {operand(OP_DISTINCT, reduced[s], -0.5, 1.5)},
                                   {axes, axes & 1}};
                op_matrix(&c);
            }
        }
    }
    static const op_case cases[] = {
        {"sum_all", build_sum_all, 1, {X(2, {33, 1031}, 0, 1)}},
        {"mean_all", build_mean_all, 1, {X(1, {100003}, 0, 1)}},
        {"sum of nothing", build_sum, 1, {X(2, {0, 7})}, {1, 0}},
        {"sum of 64-bit", build_sum, 1, {{OP_INDEX64, 2, {7, 33}, -1e12, 1e12}}, {1, 0}},
        {"max of i32", build_max, 1, {{OP_INDEX, 2, {7, 33}, -1000, 1000}}, {2, 0}},
        {"argmax", build_argmax, 1, {{OP_DISTINCT, 2, {33, 101}, -1, 1}}, {-1}},
        {"argmax of the first axis", build_argmax, 1, {{OP_DISTINCT, 3, {7, 5, 3}, -1, 1}}, {0}},
        {"topk", build_topk, 1, {{OP_DISTINCT, 2, {9, 101}, -1, 1}}, {5}},
        {"topk indices", build_topk_indices, 1, {{OP_DISTINCT, 2, {9, 101}, -1, 1}}, {5}},
        {"largest", build_largest, 2, {{OP_DISTINCT, 2, {33, 101}, -1, 1}, {OP_INDEX, 1, {33}, -1, 103}}},
        {"largest of many", build_largest, 2, {{OP_DISTINCT, 2, {3, 9001}, -1, 1}, {OP_INDEX, 1, {3}, 1, 9001}}},
        {"largest of equals", build_largest, 2, {{OP_FIXED, 3, {2, 3, 65}, 0.5, 0.5}, {OP_INDEX, 2, {2, 3}, 0, 65}}},
        {"broadcast_to", build_broadcast_to, 1, {X(2, {9, 1})}, {3, 9, 65}},
        {"broadcast_to from a row", build_broadcast_to, 1, {X(1, {65})}, {3, 9, 65}},
        {"broadcast_to from a scalar", build_broadcast_to, 1, {X(0, {0})}, {3, 9, 65}},
    };
    run_all(cases, ROWS(cases));
}

static void test_shape(void **state)
{
    (void)state;
    static const op_case cases[] = {
        {"reshape", build_reshape, 1, {X(3, {5, 7, 12})}, {35, -1}},
        {"transpose", build_permute, 1, {X(2, {33, 130})}, {1, 0}},
        {"permute to heads", build_permute, 1, {X(4, {3, 17, 4, 16})}, {0, 2, 1, 3}},
        {"permute NHWC to NCHW", build_permute, 1, {X(4, {2, 9, 7, 33})}, {0, 3, 1, 2}},
        {"permute, reversed", build_permute, 1, {X(4, {2, 3, 5, 7})}, {3, 2, 1, 0}},
        {"permute of nothing", build_permute, 1, {X(2, {0, 3})}, {1, 0}},
        {"slice of rows", build_slice, 1, {X(2, {33, 65})}, {0, 3, 30, 1}},
        {"slice of columns", build_slice, 1, {X(2, {33, 65})}, {1, 1, 64, 1}},
        {"slice with a step", build_slice, 1, {X(3, {3, 33, 9})}, {1, 2, 33, 5}},
        {"slice of nothing", build_slice, 1, {X(2, {3, 5})}, {1, 2, 2, 1}},
        {"slices of one tensor", build_slices, 1, {X(2, {9, 33})}},
        {"slice of i32", build_slice, 1, {{OP_INDEX, 1, {100}, -9, 9}}, {0, 7, 93, 2}},
        {"concat of rows", build_concat, 3, {X(2, {3, 65}), X(2, {1, 65}), X(2, {9, 65})}, {0}},
        {"concat of columns", build_concat, 3, {X(2, {9, 7}), X(2, {9, 1}), X(2, {9, 64})}, {1}},
        {"concat with nothing", build_concat, 2, {X(2, {9, 7}), X(2, {9, 0})}, {1}},
        {"pad", build_pad, 1, {X(3, {3, 9, 33})}, {1, 2, 3, 0.5}},
        {"gather of rows", build_gather, 2, {X(2, {33, 65}), {OP_INDEX, 2, {5, 9}, 0, 33}}, {0}},
        {"gather of columns", build_gather, 2, {X(2, {33, 65}), {OP_INDEX64, 1, {70}, 0, 65}}, {1}},
        {"gather, middle axis", build_gather, 2, {X(3, {3, 9, 7}), {OP_INDEX, 1, {30}, 0, 9}}, {1}},
        {"embedding", build_embedding, 2, {X(2, {50, 64}), {OP_INDEX, 2, {4, 33}, 0, 50}}},
        {"embedding, i64", build_embedding, 2, {X(2, {5, 7}), {OP_INDEX64, 1, {200}, 0, 5}}},
        {"one_hot", build_one_hot, 1, {{OP_INDEX, 1, {65}, -2, 12}}, {10}},
        {"one_hot, i64", build_one_hot, 1, {{OP_INDEX64, 2, {3, 7}, 0, 5}}, {5}},
    };
    run_all(cases, ROWS(cases));
}

static void test_matmul(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {
        {1, 1, 1},    {7, 5, 3}, {64, 64, 64}, {33, 65, 129},
        {1, 1000, 7}, {0, 3, 5}, {3, 5, 0},    {5, 0, 3},
    };
    for (size_t s = 0; s < ROWS(sizes); s++) {
        const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        for (int t = 0; t < 4; t++) {
            const int ta = t & 1, tb = t >> 1;
            const int64_t a0 = ta ? k : m, a1 = ta ? m : k, b0 = tb ? n : k, b1 = tb ? k : n;
            const op_case cases[] = {
                {"matmul", build_matmul, 2, {X(2, {a0, a1}), X(2, {b0, b1})}, {ta, tb}},
                {"matmul, batched",
                 build_matmul,
                 2,
                 {X(4, {2, 3, a0, a1}), X(3, {3, b0, b1})},
                 {ta, tb}},
                {"matmul, left batched",
                 build_matmul,
                 2,
                 {X(3, {2, a0, a1}), X(2, {b0, b1})},
                 {ta, tb}},
            };
            run_all(cases, ROWS(cases));
        }
        const op_case linear[] = {
            {"linear", build_linear, 3, {X(2, {m, k}), X(2, {n, k}), X(1, {n})}},
            {"linear, 3 dimensions", build_linear, 3, {X(3, {2, m, k}), X(2, {n, k}), X(1, {n})}},
            {"linear without bias", build_linear, 2, {X(2, {m, k}), X(2, {n, k})}},
        };
        run_all(linear, ROWS(linear));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary), cmocka_unit_test(test_binary), cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_shape), cmocka_unit_test(test_matmul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
