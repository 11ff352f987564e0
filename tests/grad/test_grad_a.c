/* test_grad_a.c - gradients of element-wise, reduction, shape and matrix ops.
 *
 * What must hold: for every differentiable op, vv_grad equals central finite differences in double,
 * for each element of each operand, broadcasting and repeated operands included. Ties of maxima
 * share the gradient evenly; stop_gradient, comparisons and sign pass none. */
#include "grad/grad_check.h"
#include "op_build_a.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))
#define X(...)                \
    {                         \
        OP_FLOAT, __VA_ARGS__ \
    }

static void check_all(const op_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        grad_check(&cases[i]);
}

static void test_unary(void **state)
{
    (void)state;
    static const op_case cases[] = {
        {"neg", build_neg, 1, {X(2, {3, 5})}},
        {"exp", build_exp, 1, {X(2, {3, 5}, -2, 2)}},
        {"log", build_log, 1, {X(2, {3, 5}, 0.2, 3)}},
        {"sqrt", build_sqrt, 1, {X(2, {3, 5}, 0.2, 3)}},
        {"rsqrt", build_rsqrt, 1, {X(2, {3, 5}, 0.2, 3)}},
        {"reciprocal", build_reciprocal, 1, {X(2, {3, 5}, 0.2, 3)}},
        {"reciprocal of negatives", build_reciprocal, 1, {X(2, {3, 5}, -3, -0.2)}},
        {"square", build_square, 1, {X(2, {3, 5})}},
        {"abs", build_abs, 1, {X(2, {3, 5})}},
        {"sign", build_sign, 1, {X(2, {3, 5})}},
        {"relu", build_relu, 1, {X(2, {3, 5})}},
        {"leaky_relu", build_leaky_relu, 1, {X(2, {3, 5})}, {0.1}},
        {"leaky_relu, negative slope", build_leaky_relu, 1, {X(2, {3, 5})}, {-0.5}},
        {"gelu", build_gelu, 1, {X(2, {3, 9}, -5, 5)}},
        {"gelu_tanh", build_gelu_tanh, 1, {X(2, {3, 9}, -5, 5)}},
        {"silu", build_silu, 1, {X(2, {3, 9}, -6, 6)}},
        {"sigmoid", build_sigmoid, 1, {X(2, {3, 9}, -6, 6)}},
        {"tanh", build_tanh, 1, {X(2, {3, 9}, -3, 3)}},
        {"hardswish", build_hardswish, 1, {{OP_DISTINCT, 2, {3, 9}, -5, 6}}},
        {"softplus", build_softplus, 1, {X(2, {3, 9}, -20, 20)}},
        {"clamp", build_clamp, 1, {X(2, {3, 5})}, {-0.31, 0.44}},
        {"affine", build_affine, 1, {X(2, {3, 5})}, {-2.5, 7}},
        {"pow 2.5", build_pow, 1, {X(2, {3, 5}, 0.2, 3)}, {2.5}},
        {"pow 3", build_pow, 1, {X(2, {3, 5}, -2, 2)}, {3}},
        {"pow -1.5", build_pow, 1, {X(2, {3, 5}, 0.4, 3)}, {-1.5}},
        {"pow 0", build_pow, 1, {X(2, {3, 5}, -2, 2)}, {0}},
        {"dropout", build_dropout, 1, {X(2, {7, 9})}, {0.4}},
        {"of a scalar", build_tanh, 1, {X(0, {0})}},
        {"cast there and back", build_cast, 1, {X(1, {5})}, {VV_F64}},
    };
    check_all(cases, ROWS(cases));
}

static void test_binary(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        op_build build;
    } ops[] = {
        {"add", build_add}, {"sub", build_sub},         {"mul", build_mul},
        {"div", build_div}, {"maximum", build_maximum}, {"minimum", build_minimum},
    };
    /* Equal shapes, each kind of broadcasting on both sides, and scalars. */
    static const op_operand shapes[][2] = {
        {X(2, {3, 4}, 0.3, 2), X(2, {3, 4}, 0.4, 2.1)},
        {X(2, {3, 4}, 0.3, 2), X(1, {4}, 0.4, 2.1)},
        {X(1, {4}, 0.3, 2), X(2, {3, 4}, 0.4, 2.1)},
        {X(3, {2, 1, 4}, 0.3, 2), X(2, {3, 1}, 0.4, 2.1)},
        {X(2, {3, 4}, 0.3, 2), X(0, {0}, 0.4, 2.1)},
        {X(0, {0}, 0.3, 2), X(0, {0}, 0.4, 2.1)},
        {X(1, {1}, 0.3, 2), X(0, {0}, 0.4, 2.1)},
        {X(4, {2, 1, 3, 1}, 0.3, 2), X(4, {1, 2, 1, 2}, -2.1, -0.4)},
    };
    for (size_t i = 0; i < ROWS(ops); i++) {
        for (size_t s = 0; s < ROWS(shapes); s++) {
            const op_case c = {ops[i].name, ops[i].build, 2, {shapes[s][0], shapes[s][1]}};
            grad_check(&c);
        }
    }
}

static void test_composites(void **state)
{
    (void)state;
    static const op_case cases[] = {
        {"where", build_where, 3, {{OP_BOOL, 2, {3, 4}}, X(2, {3, 4}), X(2, {3, 4})}},
        {"where, broadcast", build_where, 3, {{OP_BOOL, 2, {3, 1}}, X(1, {4}), X(3, {2, 3, 1})}},
        {"where, all broadcast", build_where, 3, {{OP_BOOL, 3, {2, 3, 4}}, X(0, {0}), X(1, {1})}},
        {"lerp", build_lerp, 3, {X(2, {3, 4}), X(2, {3, 4}), X(2, {3, 4})}},
        {"lerp, one weight", build_lerp, 3, {X(2, {3, 4}), X(2, {3, 4}), X(0, {0})}},
        {"smooth_l1", build_smooth_l1, 2, {X(2, {3, 4}), X(2, {3, 4})}, {0.4}},
        {"x + x", build_add_self, 1, {X(2, {3, 4})}},
        {"max(x, x)", build_maximum_self, 1, {X(2, {3, 4})}},
        {"x + scalar", build_add_scalar, 1, {X(2, {3, 4})}},
    };
    check_all(cases, ROWS(cases));
}

static void test_reduce(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        op_build build;
    } ops[] = {{"sum", build_sum}, {"mean", build_mean}, {"max", build_max}, {"min", build_min}};
    for (size_t i = 0; i < ROWS(ops); i++) {
        for (int axes = 0; axes < 8; axes++) {
            for (int keep = 0; keep < 2; keep++) {
                const op_case c = {ops[i].name,
                                   ops[i].build,
                                   1,
                                   {{OP_DISTINCT, 3, {2, 3, 4}, -1, 1}},
                                   {axes, keep}};
                grad_check(&c);
            }
        }
    }
    static const op_case cases[] = {
        {"sum_all", build_sum_all, 1, {X(2, {3, 4})}},
        {"mean_all", build_mean_all, 1, {X(2, {3, 4})}},
        {"sum of a scalar", build_sum_all, 1, {X(0, {0})}},
        {"topk 2", build_topk, 1, {{OP_DISTINCT, 3, {2, 3, 5}, -1, 1}}, {2}},
        {"topk of all", build_topk, 1, {{OP_DISTINCT, 1, {6}, -1, 1}}, {6}},
        {"broadcast_to", build_broadcast_to, 1, {X(2, {3, 1})}, {2, 3, 4}},
        {"broadcast_to, from a scalar", build_broadcast_to, 1, {X(0, {0})}, {2, 3, 4}},
    };
    check_all(cases, ROWS(cases));
}

static void test_shape(void **state)
{
    (void)state;
    static const op_case cases[] = {
        {"reshape", build_reshape, 1, {X(3, {2, 3, 4})}, {6, -1}},
        {"permute", build_permute, 1, {X(4, {2, 3, 4, 2})}, {2, 0, 3, 1}},
        {"permute, 2 axes", build_permute, 1, {X(2, {3, 4})}, {1, 0}},
        {"slice", build_slice, 1, {X(3, {2, 7, 3})}, {1, 1, 6, 1}},
        {"slice with a step", build_slice, 1, {X(3, {2, 7, 3})}, {1, 1, 7, 3}},
        {"slice of the first axis", build_slice, 1, {X(2, {5, 3})}, {0, 2, 3, 1}},
        {"slice of the last axis", build_slice, 1, {X(2, {5, 3})}, {-1, 0, 3, 2}},
        {"slices of one tensor", build_slices, 1, {X(2, {5, 3})}},
        {"concat", build_concat, 3, {X(2, {2, 3}), X(2, {1, 3}), X(2, {4, 3})}, {0}},
        {"concat of the last axis", build_concat, 2, {X(3, {2, 2, 1}), X(3, {2, 2, 3})}, {-1}},
        {"pad", build_pad, 1, {X(3, {2, 3, 4})}, {1, 2, 3, 0.7}},
        {"gather", build_gather, 2, {X(3, {3, 5, 2}), {OP_INDEX, 2, {2, 3}, 0, 5}}, {1}},
        {"gather, i64", build_gather, 2, {X(2, {5, 2}), {OP_INDEX64, 1, {9}, 0, 5}}, {0}},
        {"gather of the last axis",
         build_gather,
         2,
         {X(2, {3, 5}), {OP_INDEX, 0, {0}, 3, 4}},
         {-1}},
        {"embedding", build_embedding, 2, {X(2, {6, 3}), {OP_INDEX, 2, {2, 4}, 0, 6}}},
    };
    check_all(cases, ROWS(cases));
}

static void test_matmul(void **state)
{
    (void)state;
    for (int ta = 0; ta < 2; ta++) {
        for (int tb = 0; tb < 2; tb++) {
            const op_operand a = {OP_FLOAT, 2, {ta ? 4 : 3, ta ? 3 : 4}};
            const op_operand b = {OP_FLOAT, 2, {tb ? 5 : 4, tb ? 4 : 5}};
            op_operand batch_a = {OP_FLOAT, 4, {2, 1, a.shape[0], a.shape[1]}};
            op_operand batch_b = {OP_FLOAT, 3, {3, b.shape[0], b.shape[1]}};
            const op_case cases[] = {
                {"matmul", build_matmul, 2, {a, b}, {ta, tb}},
                {"matmul, batched", build_matmul, 2, {batch_a, batch_b}, {ta, tb}},
                {"matmul, left batched", build_matmul, 2, {batch_a, b}, {ta, tb}},
                {"matmul, right batched", build_matmul, 2, {a, batch_b}, {ta, tb}},
            };
            check_all(cases, ROWS(cases));
        }
    }
    static const op_case cases[] = {
        {"linear", build_linear, 3, {X(2, {4, 3}), X(2, {5, 3}), X(1, {5})}},
        {"linear without bias", build_linear, 2, {X(2, {4, 3}), X(2, {5, 3})}},
        {"linear, 3 dimensions", build_linear, 3, {X(3, {2, 4, 3}), X(2, {5, 3}), X(1, {5})}},
        {"linear, one row", build_linear, 3, {X(1, {3}), X(2, {5, 3}), X(1, {5})}},
    };
    check_all(cases, ROWS(cases));
}

/* ---- what finite differences cannot tell ---- */

static vv_node *build_through_f32(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    (void)c;
    return vv_mul(vv_cast(vv_cast(in[0], VV_F32), VV_F64), in[0]);
}

/* Evaluates d sum(y * w) / dx at x (f64) into out; y by `build`, w = 1, 2, 3, ... */
static void gradient_at(op_build build, const op_case *c, const double *x, int64_t count,
                        double *out)
{
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = vv_backend_find("ref");
    vv_graph *g;
    assert_ok(vv_graph_new(&g, &opts));
    vv_node *leaf = vv_data(g, VV_F64, 1, &count, x);
    vv_node *y = build(g, &leaf, c), *grad;
    vv_tensor *weights;
    assert_ok(vv_tensor_new(&weights, VV_F64, vv_node_ndim(y), vv_node_shape(y)));
    for (int64_t i = 0; i < weights->count; i++)
        vv_tensor_set(weights, i, (double)(i + 1));
    assert_ok(vv_grad_from(g, y, vv_leaf(g, weights), &leaf, 1, &grad));
    const vv_tensor *value;
    assert_ok(vv_node_value(grad, &value));
    for (int64_t i = 0; i < count; i++)
        out[i] = vv_tensor_get(value, i);
    vv_tensor_free(weights);
    vv_graph_free(g);
}

static void test_ties(void **state)
{
    (void)state;
    double grad[4];
    const op_case all = {"max", build_max, 1, {X(1, {4})}};
    gradient_at(build_max, &all, (const double[]){2, 5, 5, 1}, 4, grad);
    const double shared[] = {0, 0.5, 0.5, 0};
    for (int i = 0; i < 4; i++)
        assert_near(grad[i], shared[i], 0, 0);
    gradient_at(build_min, &all, (const double[]){3, 3, 3, 3}, 4, grad);
    for (int i = 0; i < 4; i++)
        assert_near(grad[i], 0.25, 0, 0);
    /* max(x, x): both halves come back to the same operand. */
    gradient_at(build_maximum_self, &all, (const double[]){2, -5, 0, 1}, 4, grad);
    for (int i = 0; i < 4; i++)
        assert_near(grad[i], i + 1, 0, 0);
    /* Top-k of equals: the first ones get it. */
    const op_case top = {"topk", build_topk, 1, {X(1, {4})}, {2}};
    gradient_at(build_topk, &top, (const double[]){1, 7, 7, 7}, 4, grad);
    const double first[] = {0, 1, 2, 0};
    for (int i = 0; i < 4; i++)
        assert_near(grad[i], first[i], 0, 0);
}

static void test_corners(void **state)
{
    (void)state;
    double grad[3];
    const op_case c = {"corner", NULL, 1, {X(1, {3})}, {-1, 1}};
    /* The derivative at a kink is the one PyTorch gives. */
    gradient_at(build_relu, &c, (const double[]){0, -1, 1}, 3, grad);
    assert_near(grad[0], 0, 0, 0);
    gradient_at(build_abs, &c, (const double[]){0, -1, 1}, 3, grad);
    assert_near(grad[0], 0, 0, 0);
    gradient_at(build_clamp, &c, (const double[]){-1, 1, 1.5}, 3, grad);
    assert_near(grad[0], 1, 0, 0);
    assert_near(grad[1], 2, 0, 0);
    assert_near(grad[2], 0, 0, 0);
    /* Far out nothing overflows to NaN. */
    gradient_at(build_softplus, &c, (const double[]){1000, -1000, 0}, 3, grad);
    assert_near(grad[0], 1, 1e-12, 0);
    assert_near(grad[1], 0, 1e-12, 0);
    gradient_at(build_silu, &c, (const double[]){1000, -1000, 0}, 3, grad);
    assert_near(grad[0], 1, 1e-12, 0);
    assert_near(grad[1], 0, 1e-12, 0);
    gradient_at(build_gelu_tanh, &c, (const double[]){100, -100, 0}, 3, grad);
    assert_near(grad[0], 1, 1e-12, 0);
    assert_near(grad[1], 0, 1e-12, 0);
    /* A cast between float types passes the gradient through: d(x * x)/dx. */
    gradient_at(build_through_f32, &c, (const double[]){0.5, -1, 3}, 3, grad);
    assert_near(grad[0], 1, 1e-6, 0);
    assert_near(grad[1], -4, 1e-6, 0);
    assert_near(grad[2], 18, 1e-6, 0);
}

static vv_node *build_stopped(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    (void)c;
    return vv_mul(vv_stop_gradient(in[0]), in[0]);
}

static vv_node *build_only_stopped(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    (void)c;
    return vv_add(vv_stop_gradient(in[0]), vv_cast(vv_less(in[0], vv_scalar(g, 0.5)), VV_F64));
}

static void test_stop_gradient(void **state)
{
    (void)state;
    double grad[3];
    const double x[3] = {2, 3, -4};
    gradient_at(build_stopped, NULL, x, 3, grad);
    for (int i = 0; i < 3; i++)
        assert_near(grad[i], x[i] * (i + 1), 0, 0);
    gradient_at(build_only_stopped, NULL, x, 3, grad);
    for (int i = 0; i < 3; i++)
        assert_near(grad[i], 0, 0, 0);
}

/* Gradients of tensors without elements exist and have their shape. */
static void test_empty(void **state)
{
    (void)state;
    static const op_case cases[] = {
        {"add", build_add, 2, {X(2, {0, 3}), X(1, {3})}},
        {"mean", build_mean, 1, {X(2, {0, 3})}, {3}},
        {"sum", build_sum, 1, {X(2, {3, 0})}, {2}},
        {"matmul", build_matmul, 2, {X(2, {3, 0}), X(2, {0, 2})}},
        {"linear", build_linear, 3, {X(2, {0, 3}), X(2, {2, 3}), X(1, {2})}},
        {"concat", build_concat, 2, {X(2, {0, 3}), X(2, {2, 3})}, {0}},
        {"gather", build_gather, 2, {X(2, {4, 3}), {OP_INDEX, 1, {0}, 0, 1}}, {0}},
    };
    check_all(cases, ROWS(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary),         cmocka_unit_test(test_binary),
        cmocka_unit_test(test_composites),    cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_shape),         cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_ties),          cmocka_unit_test(test_corners),
        cmocka_unit_test(test_stop_gradient), cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
