/* test_grad_b.c - gradients of convolution, pooling, norms and losses.
 *
 * What must hold: for every differentiable op of these families, with and without its optional
 * operands, vv_grad agrees with finite differences in f64; also for batch norm with the fused ReLU
 * and residual, and for a gradient that only some operands want. */
#include "grad_check.h"

#include "graph/node.h"
#include "op_build_b.h"

/* clang-format off */
#define FLOATS(...) {.kind = OP_FLOAT, __VA_ARGS__}
/* clang-format on */

/* ---- convolution ---- */

static void test_conv2d(void **state)
{
    (void)state;
    /* clang-format off */
    static const conv_case cases[] = {
        {{"conv2d 3x3", build_conv, 3,
          {FLOATS(SHAPE(4, 2, 4, 3, 3)), FLOATS(SHAPE(4, 2, 3, 3, 3)), FLOATS(SHAPE(1, 2))}},
         {{1, 1}, {1, 1}, {1, 1}, 1, {0, 0}}},
        {{"conv2d stride 2, last row unused", build_conv, 2,
          {FLOATS(SHAPE(4, 1, 6, 6, 2)), FLOATS(SHAPE(4, 3, 2, 3, 3))}},
         {{2, 2}, {0, 0}, {1, 1}, 1, {0, 0}}},
        {{"conv2d dilation 2", build_conv, 3,
          {FLOATS(SHAPE(4, 1, 6, 5, 1)), FLOATS(SHAPE(4, 2, 1, 3, 3)), FLOATS(SHAPE(1, 2))}},
         {{1, 1}, {2, 2}, {2, 2}, 1, {0, 0}}},
        {{"conv2d groups 2", build_conv, 3,
          {FLOATS(SHAPE(4, 1, 4, 4, 4)), FLOATS(SHAPE(4, 6, 2, 3, 3)), FLOATS(SHAPE(1, 6))}},
         {{1, 1}, {1, 1}, {1, 1}, 2, {0, 0}}},
        {{"conv2d depthwise 5x5", build_conv, 2,
          {FLOATS(SHAPE(4, 1, 6, 5, 3)), FLOATS(SHAPE(4, 3, 1, 5, 5))}},
         {{2, 2}, {2, 2}, {1, 1}, 3, {0, 0}}},
        {{"conv2d 1x1 stride 2", build_conv, 2,
          {FLOATS(SHAPE(4, 2, 3, 4, 5)), FLOATS(SHAPE(4, 3, 5, 1, 1))}},
         {{2, 2}, {0, 0}, {1, 1}, 1, {0, 0}}},
        {{"conv2d unequal axes, dilation and groups", build_conv, 3,
          {FLOATS(SHAPE(4, 1, 7, 6, 4)), FLOATS(SHAPE(4, 4, 2, 2, 3)), FLOATS(SHAPE(1, 4))}},
         {{2, 1}, {1, 0}, {3, 2}, 2, {0, 0}}},
    };
    /* clang-format on */
    for (size_t i = 0; i < COUNT(cases); i++)
        grad_check(&cases[i].base);
}

static void test_conv_transpose2d(void **state)
{
    (void)state;
    /* clang-format off */
    static const conv_case cases[] = {
        {{"conv_transpose2d 4x4 stride 2", build_transposed, 3,
          {FLOATS(SHAPE(4, 1, 3, 4, 2)), FLOATS(SHAPE(4, 2, 3, 4, 4)), FLOATS(SHAPE(1, 3))}},
         {{2, 2}, {1, 1}, {1, 1}, 1, {0, 0}}},
        {{"conv_transpose2d output_pad", build_transposed, 2,
          {FLOATS(SHAPE(4, 2, 3, 2, 2)), FLOATS(SHAPE(4, 2, 1, 3, 3))}},
         {{3, 2}, {1, 1}, {1, 1}, 1, {2, 1}}},
        {{"conv_transpose2d groups 2", build_transposed, 3,
          {FLOATS(SHAPE(4, 1, 3, 3, 4)), FLOATS(SHAPE(4, 4, 3, 3, 3)), FLOATS(SHAPE(1, 6))}},
         {{2, 1}, {0, 0}, {1, 1}, 2, {0, 0}}},
        {{"conv_transpose2d dilation 2", build_transposed, 2,
          {FLOATS(SHAPE(4, 1, 4, 3, 1)), FLOATS(SHAPE(4, 1, 2, 3, 2))}},
         {{1, 1}, {1, 1}, {2, 2}, 1, {0, 0}}},
    };
    /* clang-format on */
    for (size_t i = 0; i < COUNT(cases); i++)
        grad_check(&cases[i].base);
}

/* ---- pooling ---- */

static void test_pool(void **state)
{
    (void)state;
    /* clang-format off */
    static const vv_pool_opts opts[] = {
        {{2, 2}, {2, 2}, {0, 0}, false, false}, {{3, 3}, {2, 2}, {1, 1}, false, false},
        {{3, 3}, {2, 2}, {1, 1}, false, true},  {{2, 3}, {3, 2}, {1, 1}, true, false},
        {{2, 3}, {3, 2}, {1, 1}, true, true},   {{3, 2}, {1, 1}, {0, 1}, false, true},
        {{2, 2}, {3, 3}, {0, 0}, true, false},
    };
    /* clang-format on */
    for (size_t i = 0; i < COUNT(opts); i++) {
        const pool_case max = {
            {"max_pool2d", build_max_pool, 1, {{.kind = OP_DISTINCT, SHAPE(4, 2, 6, 5, 2)}}},
            opts[i]};
        const pool_case avg = {{"avg_pool2d", build_avg_pool, 1, {FLOATS(SHAPE(4, 2, 6, 5, 2))}},
                               opts[i]};
        grad_check(&max.base);
        grad_check(&avg.base);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    static const double sizes[][2] = {{1, 1}, {3, 2}, {4, 3}, {7, 9}, {5, 5}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        op_case c = {"adaptive_max_pool2d",
                     build_adaptive_max,
                     1,
                     {{.kind = OP_DISTINCT, SHAPE(4, 2, 5, 4, 2)}},
                     .arg = {sizes[i][0], sizes[i][1]}};
        grad_check(&c);
        c.name = "adaptive_avg_pool2d";
        c.build = build_adaptive_avg;
        grad_check(&c);
        c.name = "resize nearest";
        c.build = build_resize;
        grad_check(&c);
        c.name = "resize bilinear";
        c.arg[2] = 1.0;
        grad_check(&c);
    }
}

/* ---- normalisation ---- */

/* The node as the fusion pass makes it: arg = relu, residual. */
static vv_node *build_fused(vv_graph *g, vv_node *const *in, const op_case *c)
{
    vv_attr attr = {.raw = {0}};
    attr.norm.eps = 1e-3;
    attr.norm.relu = c->arg[0] != 0.0;
    attr.norm.residual = c->arg[1] != 0.0;
    const int64_t *channels = vv_node_shape(in[1]);
    vv_node *y = vvi_node_new(g, VV_OP_BATCH_NORM, &attr, VV_F64, vv_node_ndim(in[0]),
                              vv_node_shape(in[0]), in, c->n_in, c->n_in);
    vvi_node_add_out(y, VV_F64, 1, channels);
    vvi_node_add_out(y, VV_F64, 1, channels);
    return y;
}

static void test_batch_norm(void **state)
{
    (void)state;
    /* clang-format off */
    static const op_case cases[] = {
        {"batch_norm", build_batch_norm, 3,
         {FLOATS(SHAPE(4, 2, 3, 2, 3)), FLOATS(SHAPE(1, 3)), FLOATS(SHAPE(1, 3))}},
        {"batch_norm, no beta", build_batch_norm, 2, {FLOATS(SHAPE(2, 7, 2)), FLOATS(SHAPE(1, 2))}},
        {"batch_norm, no gamma", build_batch_norm, 1, {FLOATS(SHAPE(3, 2, 5, 2))}},
        {"batch_norm + relu", build_fused, 3,
         {FLOATS(SHAPE(4, 2, 3, 2, 3)), FLOATS(SHAPE(1, 3)), FLOATS(SHAPE(1, 3))},
         .arg = {1, 0}},
        {"batch_norm + residual", build_fused, 4,
         {FLOATS(SHAPE(4, 2, 3, 2, 3)), FLOATS(SHAPE(1, 3)), FLOATS(SHAPE(1, 3)),
          FLOATS(SHAPE(4, 2, 3, 2, 3))},
         .arg = {0, 1}},
        {"batch_norm + residual + relu", build_fused, 4,
         {FLOATS(SHAPE(4, 2, 3, 2, 3)), FLOATS(SHAPE(1, 3)), FLOATS(SHAPE(1, 3)),
          FLOATS(SHAPE(4, 2, 3, 2, 3))},
         .arg = {1, 1}},
        {"batch_norm + residual (constant) + relu", build_fused, 4,
         {FLOATS(SHAPE(4, 2, 3, 2, 3)), FLOATS(SHAPE(1, 3)), FLOATS(SHAPE(1, 3)),
          {.kind = OP_FIXED, SHAPE(4, 2, 3, 2, 3)}},
         .arg = {1, 1}},
        {"batch_norm_eval", build_batch_norm_eval, 5,
         {FLOATS(SHAPE(4, 2, 3, 2, 3)), FLOATS(SHAPE(1, 3)),
          FLOATS(SHAPE(1, 3), .lo = 0.5, .hi = 2), FLOATS(SHAPE(1, 3)), FLOATS(SHAPE(1, 3))}},
        {"batch_norm_eval, no gamma", build_batch_norm_eval, 3,
         {FLOATS(SHAPE(2, 4, 3)), FLOATS(SHAPE(1, 3)), FLOATS(SHAPE(1, 3), .lo = 0.5, .hi = 2)}},
    };
    /* clang-format on */
    for (size_t i = 0; i < COUNT(cases); i++)
        grad_check(&cases[i]);
}

static void test_layer_and_group_norm(void **state)
{
    (void)state;
    /* clang-format off */
    static const op_case cases[] = {
        {"layer_norm", build_layer_norm, 3,
         {FLOATS(SHAPE(3, 2, 3, 5)), FLOATS(SHAPE(1, 5)), FLOATS(SHAPE(1, 5))}},
        {"layer_norm, no beta", build_layer_norm, 2, {FLOATS(SHAPE(2, 3, 4)), FLOATS(SHAPE(1, 4))}},
        {"layer_norm of a vector, no gamma", build_layer_norm, 1, {FLOATS(SHAPE(1, 6))}},
        {"group_norm", build_group_norm, 3,
         {FLOATS(SHAPE(4, 2, 2, 3, 6)), FLOATS(SHAPE(1, 6)), FLOATS(SHAPE(1, 6))},
         .arg = {2}},
        {"group_norm, one group", build_group_norm, 1, {FLOATS(SHAPE(3, 2, 3, 4))}, .arg = {1}},
        {"instance norm", build_group_norm, 2, {FLOATS(SHAPE(4, 2, 3, 2, 3)), FLOATS(SHAPE(1, 3))},
         .arg = {3}},
    };
    /* clang-format on */
    for (size_t i = 0; i < COUNT(cases); i++)
        grad_check(&cases[i]);
}

/* ---- softmax and losses ---- */

static void test_softmax(void **state)
{
    (void)state;
    /* clang-format off */
    static const op_case cases[] = {
        {"softmax", build_softmax, 1, {FLOATS(SHAPE(3, 2, 3, 5), .lo = -3, .hi = 3)}},
        {"softmax of a vector", build_softmax, 1, {FLOATS(SHAPE(1, 4), .lo = -3, .hi = 3)}},
        {"log_softmax", build_softmax, 1, {FLOATS(SHAPE(2, 4, 5), .lo = -3, .hi = 3)}, .arg = {1}},
    };
    /* clang-format on */
    for (size_t i = 0; i < COUNT(cases); i++)
        grad_check(&cases[i]);
}

/* Classes start at -1, which is ignored. */
static void test_losses(void **state)
{
    (void)state;
    /* clang-format off */
    static const op_case cases[] = {
        {"cross_entropy, i32", build_cross_entropy, 2,
         {FLOATS(SHAPE(2, 6, 4), .lo = -3, .hi = 3), {OP_INDEX, SHAPE(1, 6), .lo = -1, .hi = 4}}},
        {"cross_entropy, i64, class weights", build_cross_entropy, 3,
         {FLOATS(SHAPE(3, 2, 5, 4), .lo = -3, .hi = 3),
          {OP_INDEX64, SHAPE(2, 2, 5), .lo = -1, .hi = 4},
          {OP_FIXED, SHAPE(1, 4), .lo = 0.5, .hi = 2}}},
        {"cross_entropy, soft", build_cross_entropy, 2,
         {FLOATS(SHAPE(2, 4, 5), .lo = -3, .hi = 3), FLOATS(SHAPE(2, 4, 5), .lo = 0, .hi = 1)}},
        {"cross_entropy, soft, class weights", build_cross_entropy, 3,
         {FLOATS(SHAPE(3, 2, 3, 4), .lo = -3, .hi = 3), FLOATS(SHAPE(3, 2, 3, 4), .lo = 0, .hi = 1),
          {OP_FIXED, SHAPE(1, 4), .lo = 0.5, .hi = 2}}},
        {"cross_entropy of one row", build_cross_entropy, 2,
         {FLOATS(SHAPE(1, 4)), {OP_INDEX, .ndim = 0, .lo = 0, .hi = 4}}},
        {"bce_with_logits", build_bce, 2,
         {FLOATS(SHAPE(2, 3, 4), .lo = -4, .hi = 4), FLOATS(SHAPE(2, 3, 4), .lo = 0, .hi = 1)}},
        {"bce_with_logits, pos_weight", build_bce, 3,
         {FLOATS(SHAPE(2, 3, 4), .lo = -4, .hi = 4), FLOATS(SHAPE(2, 3, 4), .lo = 0, .hi = 1),
          FLOATS(SHAPE(1, 4), .lo = 0.5, .hi = 3)}},
        {"squared_error", build_squared_error, 2, {FLOATS(SHAPE(2, 3, 4)), FLOATS(SHAPE(2, 3, 4))}},
    };
    /* clang-format on */
    for (size_t i = 0; i < COUNT(cases); i++)
        grad_check(&cases[i]);
}

/* ---- only what is wanted ---- */

/* A bias or a gamma alone: the others are constants. */
static void test_single_operands(void **state)
{
    (void)state;
    /* clang-format off */
    static const conv_case conv = {
        {"conv2d, bias alone", build_conv, 3,
         {{OP_FIXED, SHAPE(4, 2, 4, 3, 3)}, {OP_FIXED, SHAPE(4, 2, 3, 3, 3)}, FLOATS(SHAPE(1, 2))}},
        VV_CONV_DEFAULTS};
    /* clang-format on */
    /* clang-format off */
    static const op_case norms[] = {
        {"batch_norm, gamma alone", build_batch_norm, 3,
         {{OP_FIXED, SHAPE(2, 7, 2)}, FLOATS(SHAPE(1, 2)), {OP_FIXED, SHAPE(1, 2)}}},
        {"batch_norm + residual + relu, residual alone", build_fused, 4,
         {{OP_FIXED, SHAPE(2, 7, 2)}, {OP_FIXED, SHAPE(1, 2)}, {OP_FIXED, SHAPE(1, 2)},
          FLOATS(SHAPE(2, 7, 2))},
         .arg = {1, 1}},
        {"layer_norm, beta alone", build_layer_norm, 3,
         {{OP_FIXED, SHAPE(2, 3, 4)}, {OP_FIXED, SHAPE(1, 4)}, FLOATS(SHAPE(1, 4))}},
        {"cross_entropy, target alone", build_cross_entropy, 2,
         {{OP_FIXED, SHAPE(2, 4, 5)}, FLOATS(SHAPE(2, 4, 5), .lo = 0, .hi = 1)}},
    };
    /* clang-format on */
    grad_check(&conv.base);
    for (size_t i = 0; i < COUNT(norms); i++)
        grad_check(&norms[i]);
}

/* Nothing flows back through the statistics that batch norm gives away. */
static void test_statistics_are_constants(void **state)
{
    (void)state;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_graph *g = NULL;
    assert_ok(vv_graph_new(&g, &opts));
    const float values[6] = {1, 2, 3, 4, 5, 9};
    const int64_t shape[2] = {3, 2};
    vv_node *x = vv_data(g, VV_F32, 2, shape, values), *mean = NULL, *grad = NULL;
    assert_non_null(vv_batch_norm(x, NULL, NULL, 1e-5, &mean, NULL));
    assert_ok(vv_grad(g, vv_sum_all(mean), &x, 1, &grad));
    const vv_tensor *got = NULL;
    assert_ok(vv_node_value(grad, &got));
    for (int64_t i = 0; i < got->count; i++)
        assert_true(vv_tensor_get(got, i) == 0.0);
    vv_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv2d),
        cmocka_unit_test(test_conv_transpose2d),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_layer_and_group_norm),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_single_operands),
        cmocka_unit_test(test_statistics_are_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
