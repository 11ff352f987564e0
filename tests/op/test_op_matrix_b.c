/* test_op_matrix_b.c - convolution, pooling, norms and losses on every backend, dtype and shape.
 *
 * What must hold: results and gradients agree with backend `ref` in the same dtype, and ref with
 * itself in f64, for odd channel counts, kernels 1 to 7, strides, dilation, groups and sizes that
 * do not divide evenly; fusion of batch norm with ReLU and residual changes nothing. */
#include "op_build_b.h"
#include "op_matrix.h"

/* ---- convolution ---- */

/* x [n,h,w,c]; weight of o filters (for the transposed form: o results). */
static void check_conv(op_build build, const int64_t x[4], int64_t o, const int64_t kernel[2],
                       bool bias, const vv_conv_opts *opts)
{
    const bool transposed = build == build_transposed;
    const int64_t rows = transposed ? x[3] : o, columns = (transposed ? o : x[3]) / opts->groups;
    char name[160];
    snprintf(name, sizeof name,
             "%s x [%d,%d,%d,%d] to %d, kernel %dx%d, stride %d,%d, pad %d,%d, dilation %d,%d, "
             "groups %d",
             transposed ? "conv_transpose2d" : "conv2d", (int)x[0], (int)x[1], (int)x[2], (int)x[3],
             (int)o, (int)kernel[0], (int)kernel[1], (int)opts->stride[0], (int)opts->stride[1],
             (int)opts->pad[0], (int)opts->pad[1], (int)opts->dilation[0], (int)opts->dilation[1],
             (int)opts->groups);
    const conv_case c = {{.name = name,
                          .build = build,
                          .n_in = bias ? 3 : 2,
                          .in = {{OP_FLOAT, SHAPE(4, x[0], x[1], x[2], x[3])},
                                 {OP_FLOAT, SHAPE(4, rows, columns, kernel[0], kernel[1])},
                                 {OP_FLOAT, SHAPE(1, o)}},
                          .tolerance = 3 /* long sums, and fast algorithms such as Winograd's */},
                         *opts};
    op_matrix(&c.base);
}

/* Kernels 1, 3, 5, 7, strides 1 and 2, channel counts that fit no vector and one that does. */
static void test_conv2d_grid(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 3, 17, 32}, filters[] = {17, 32, 3, 16};
    for (int64_t k = 1; k <= 7; k += 2) {
        for (size_t i = 0; i < COUNT(channels); i++) {
            for (int64_t stride = 1; stride <= 2; stride++) {
                const vv_conv_opts opts = {{stride, stride}, {k / 2, k / 2}, {1, 1}, 1, {0, 0}};
                const int64_t x[4] = {1, 7, 6, channels[i]}, kernel[2] = {k, k};
                check_conv(build_conv, x, filters[i], kernel, i % 2 == 0, &opts);
            }
        }
    }
}

typedef struct conv_row {
    int64_t x[4], o, kernel[2];
    bool bias;
    vv_conv_opts opts;
} conv_row;

static void test_conv2d_special(void **state)
{
    (void)state;
    /* clang-format off */
    static const conv_row rows[] = {
        /* 3x3 stride 1: image sizes around a tile of four */
        {{2, 4, 4, 16}, 16, {3, 3}, false, {{1, 1}, {1, 1}, {1, 1}, 1, {0, 0}}},
        {{1, 9, 5, 16}, 32, {3, 3}, true, {{1, 1}, {1, 1}, {1, 1}, 1, {0, 0}}},
        {{3, 13, 6, 8}, 8, {3, 3}, false, {{1, 1}, {0, 0}, {1, 1}, 1, {0, 0}}},
        {{1, 3, 3, 32}, 16, {3, 3}, false, {{1, 1}, {0, 0}, {1, 1}, 1, {0, 0}}},
        {{1, 1, 1, 16}, 16, {3, 3}, false, {{1, 1}, {1, 1}, {1, 1}, 1, {0, 0}}},
        /* dilation */
        {{1, 8, 9, 3}, 17, {3, 3}, true, {{1, 1}, {2, 2}, {2, 2}, 1, {0, 0}}},
        {{2, 9, 8, 16}, 16, {3, 3}, false, {{2, 2}, {2, 2}, {2, 2}, 1, {0, 0}}},
        /* groups, the last four depthwise */
        {{1, 6, 6, 32}, 32, {3, 3}, false, {{1, 1}, {1, 1}, {1, 1}, 4, {0, 0}}},
        {{1, 6, 5, 6}, 9, {3, 3}, true, {{2, 2}, {1, 1}, {1, 1}, 3, {0, 0}}},
        {{1, 5, 5, 34}, 34, {1, 1}, false, {{1, 1}, {0, 0}, {1, 1}, 2, {0, 0}}},
        {{2, 6, 7, 32}, 32, {3, 3}, false, {{1, 1}, {1, 1}, {1, 1}, 32, {0, 0}}},
        {{1, 7, 7, 17}, 17, {5, 5}, true, {{2, 2}, {2, 2}, {1, 1}, 17, {0, 0}}},
        {{1, 8, 8, 3}, 6, {7, 7}, false, {{1, 1}, {3, 3}, {1, 1}, 3, {0, 0}}},
        {{1, 9, 9, 8}, 8, {3, 3}, false, {{1, 1}, {2, 2}, {2, 2}, 8, {0, 0}}},
        /* axes of their own, padding beyond half the kernel, rows left over */
        {{1, 9, 6, 3}, 5, {2, 3}, true, {{2, 1}, {1, 0}, {1, 2}, 1, {0, 0}}},
        {{1, 4, 4, 3}, 4, {3, 3}, false, {{1, 1}, {3, 2}, {1, 1}, 1, {0, 0}}},
        {{1, 8, 8, 3}, 4, {3, 3}, true, {{3, 3}, {0, 0}, {1, 1}, 1, {0, 0}}},
        {{2, 8, 8, 3}, 16, {4, 4}, true, {{4, 4}, {0, 0}, {1, 1}, 1, {0, 0}}},
        {{5, 6, 6, 16}, 8, {1, 1}, false, {{2, 2}, {0, 0}, {1, 1}, 1, {0, 0}}},
    };
    /* clang-format on */
    for (size_t i = 0; i < COUNT(rows); i++)
        check_conv(build_conv, rows[i].x, rows[i].o, rows[i].kernel, rows[i].bias, &rows[i].opts);
}

/* Few channels, strided, over threads: gradients of the weights are summed across them. */
static void test_conv2d_over_threads(void **state)
{
    (void)state;
    const vv_conv_opts opts = {{2, 2}, {0, 0}, {1, 1}, 1, {0, 0}};
    const int before = vv_threads();
    vv_set_threads(2);
    for (int64_t channels = 3; channels <= 9; channels += 2)
        check_conv(build_conv, (const int64_t[]){3, 24, 24, channels}, 8, (const int64_t[]){1, 1},
                   false, &opts);
    check_conv(build_conv, (const int64_t[]){3, 24, 24, 4}, 8, (const int64_t[]){1, 1}, false,
               &opts);
    vv_set_threads(before);
}

static void test_conv_transpose2d(void **state)
{
    (void)state;
    /* clang-format off */
    static const conv_row rows[] = {
        {{2, 4, 5, 16}, 16, {2, 2}, true, {{2, 2}, {0, 0}, {1, 1}, 1, {0, 0}}},
        {{1, 4, 5, 3}, 17, {4, 4}, true, {{2, 2}, {1, 1}, {1, 1}, 1, {0, 0}}},
        {{1, 5, 4, 17}, 3, {3, 3}, false, {{2, 2}, {1, 1}, {1, 1}, 1, {1, 1}}},
        {{1, 5, 5, 8}, 12, {3, 3}, true, {{1, 1}, {1, 1}, {1, 1}, 4, {0, 0}}},
        {{1, 4, 4, 1}, 3, {3, 2}, false, {{1, 1}, {1, 1}, {2, 2}, 1, {0, 0}}},
        {{1, 4, 4, 6}, 6, {5, 5}, false, {{2, 1}, {2, 2}, {1, 1}, 6, {1, 0}}},
    };
    /* clang-format on */
    for (size_t i = 0; i < COUNT(rows); i++)
        check_conv(build_transposed, rows[i].x, rows[i].o, rows[i].kernel, rows[i].bias,
                   &rows[i].opts);
}

/* ---- pooling ---- */

static void test_pool(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 3, 17, 32};
    /* clang-format off */
    static const vv_pool_opts opts[] = {
        {{2, 2}, {2, 2}, {0, 0}, false, false}, {{3, 3}, {2, 2}, {1, 1}, false, false},
        {{3, 3}, {2, 2}, {1, 1}, false, true},  {{3, 3}, {2, 2}, {1, 1}, true, false},
        {{2, 3}, {3, 2}, {1, 1}, true, true},   {{3, 2}, {1, 1}, {0, 1}, false, true},
        {{2, 2}, {3, 3}, {0, 0}, true, false},  {{5, 5}, {1, 1}, {2, 2}, false, false},
        {{8, 7}, {8, 7}, {0, 0}, false, false},
    };
    /* clang-format on */
    for (size_t i = 0; i < COUNT(opts); i++) {
        char name[96];
        snprintf(name, sizeof name, "pool kernel %dx%d stride %d,%d pad %d,%d%s%s",
                 (int)opts[i].kernel[0], (int)opts[i].kernel[1], (int)opts[i].stride[0],
                 (int)opts[i].stride[1], (int)opts[i].pad[0], (int)opts[i].pad[1],
                 opts[i].ceil_mode ? ", ceil" : "",
                 opts[i].count_include_pad ? ", pad counted" : "");
        for (size_t k = 0; k < COUNT(channels); k++) {
            pool_case c = {
                {name, build_max_pool, 1, {{OP_DISTINCT, SHAPE(4, 2, 8, 7, channels[k])}}},
                opts[i]};
            op_matrix(&c.base);
            c.base.build = build_avg_pool;
            c.base.in[0].kind = OP_FLOAT;
            op_matrix(&c.base);
        }
    }
}

/* The first of equal elements gets the gradient, and a NaN wins. */
static void test_max_pool_ties(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", "cpu"};
    const float values[8] = {1, 1, 1, 1, 0, NAN, 2, 1};
    const int64_t shape[4] = {1, 2, 4, 1};
    const vv_pool_opts pool = {{2, 2}, {2, 2}, {0, 0}, false, false};
    const float expected[8] = {1, 0, 0, 0, 0, 0, 1, 0};
    for (size_t b = 0; b < COUNT(backends); b++) {
        vv_graph_opts opts = VV_GRAPH_DEFAULTS;
        opts.backend = vv_backend_find(backends[b]);
        if (!opts.backend)
            continue;
        vv_graph *g = NULL;
        assert_ok(vv_graph_new(&g, &opts));
        vv_node *x = vv_data(g, VV_F32, 4, shape, values);
        vv_node *y = vv_max_pool2d(x, &pool);
        const vv_tensor *got = NULL;
        assert_ok(vv_node_value(y, &got));
        assert_true(isnan(vv_tensor_get(got, 0)));
        assert_true(vv_tensor_get(got, 1) == 2.0);

        float finite[8];
        memcpy(finite, values, sizeof finite);
        finite[5] = 1.0f;
        vv_node *dx = NULL;
        x = vv_data(g, VV_F32, 4, shape, finite);
        assert_ok(vv_grad(g, vv_sum_all(vv_max_pool2d(x, &pool)), &x, 1, &dx));
        assert_ok(vv_node_value(dx, &got));
        for (int64_t i = 0; i < 8; i++)
            assert_true(vv_tensor_get(got, i) == (double)expected[i]);
        vv_graph_free(g);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 3, 17, 32};
    static const double sizes[][2] = {{1, 1}, {3, 2}, {7, 6}, {14, 12}, {9, 11}, {4, 5}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        for (size_t k = 0; k < COUNT(channels); k++) {
            op_case c = {"adaptive_max_pool2d",
                         build_adaptive_max,
                         1,
                         {{OP_DISTINCT, SHAPE(4, 2, 7, 6, channels[k])}},
                         .arg = {sizes[i][0], sizes[i][1]}};
            op_matrix(&c);
            c.name = "adaptive_avg_pool2d";
            c.build = build_adaptive_avg;
            op_matrix(&c);
            c.name = "resize nearest";
            c.build = build_resize;
            op_matrix(&c);
            c.name = "resize bilinear";
            c.arg[2] = 1.0;
            op_matrix(&c);
        }
    }
}

/* ---- normalisation ---- */

/* On `ref` too, a fused plan gives what the separate nodes give. */
static void check_fused_ref(const op_case *c)
{
    op_matrix_result apart, fused;
    op_matrix_run(&apart, c, "ref", false, VV_F32, VV_F32);
    op_matrix_run(&fused, c, "ref", true, VV_F32, VV_F32);
    op_matrix_compare(&fused, &apart, OP_MATRIX_F32, c, "fused ref against ref");
    op_matrix_free(&apart);
    op_matrix_free(&fused);
}

static void test_batch_norm(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 3, 17, 32, 70};
    for (size_t i = 0; i < COUNT(channels); i++) {
        const int64_t ch = channels[i];
        op_case c = {"batch_norm",
                     build_batch_norm,
                     3,
                     {{OP_FLOAT, SHAPE(4, 3, 5, 4, ch), .lo = -1, .hi = 3},
                      {OP_FLOAT, SHAPE(1, ch), .lo = 0.5, .hi = 2},
                      {OP_FLOAT, SHAPE(1, ch)},
                      {OP_FLOAT, SHAPE(4, 3, 5, 4, ch)}}};
        op_matrix(&c);
        c.name = "batch_norm + relu";
        c.arg[0] = 1.0;
        op_matrix(&c);
        check_fused_ref(&c);
        c.n_in = 4;
        c.name = "batch_norm + residual + relu";
        op_matrix_dtype(&c, VV_F32);
        check_fused_ref(&c);
        /* In bf16 the rounded sum may fall on the other side of zero: compare the result only. */
        c.no_grad = true;
        op_matrix_dtype(&c, VV_BF16);
        c.no_grad = false;
        c.arg[0] = 0.0;
        c.name = "batch_norm + residual";
        op_matrix(&c);
        check_fused_ref(&c);

        op_case matrix = {"batch_norm of a matrix, no gamma",
                          build_batch_norm,
                          1,
                          {{OP_FLOAT, SHAPE(2, 11, ch)}}};
        op_matrix(&matrix);
        matrix.name = "batch_norm mean, var";
        matrix.build = build_statistic;
        matrix.no_grad = true;
        for (int k = 0; k < 2; k++) {
            matrix.arg[0] = k;
            op_matrix(&matrix);
        }
        const op_case eval = {"batch_norm_eval",
                              build_batch_norm_eval,
                              5,
                              {{OP_FLOAT, SHAPE(4, 2, 3, 2, ch)},
                               {OP_FIXED, SHAPE(1, ch)},
                               {OP_FIXED, SHAPE(1, ch), .lo = 0.5, .hi = 2},
                               {OP_FLOAT, SHAPE(1, ch)},
                               {OP_FLOAT, SHAPE(1, ch)}}};
        op_matrix(&eval);
    }
}

/* The mean is a thousand times the spread: the variance must survive. */
static void test_large_mean(void **state)
{
    (void)state;
    op_case c = {"batch_norm, large mean",
                 build_batch_norm,
                 1,
                 {{OP_FLOAT, SHAPE(4, 2, 9, 8, 17), .lo = 1000, .hi = 1002}},
                 .tolerance = 100};
    op_matrix_dtype(&c, VV_F32);
    c.name = "layer_norm, large mean";
    c.build = build_layer_norm;
    op_matrix_dtype(&c, VV_F32);
}

static void test_layer_and_group_norm(void **state)
{
    (void)state;
    static const int64_t widths[] = {3, 5, 17, 32, 200}; /* two alone differ by rounding only */
    for (size_t i = 0; i < COUNT(widths); i++) {
        op_case c = {"layer_norm",
                     build_layer_norm,
                     3,
                     {{OP_FLOAT, SHAPE(3, 2, 5, widths[i])},
                      {OP_FLOAT, SHAPE(1, widths[i]), .lo = 0.5, .hi = 2},
                      {OP_FLOAT, SHAPE(1, widths[i])}},
                     .tolerance = 3};
        op_matrix(&c);
        c.name = "layer_norm, no gamma";
        c.n_in = 1;
        op_matrix(&c);
    }
    static const int64_t grouped[][2] = {{3, 1}, {3, 3}, {32, 4}, {34, 2}, {17, 17}};
    for (size_t i = 0; i < COUNT(grouped); i++) {
        const int64_t ch = grouped[i][0];
        op_case c = {"group_norm",
                     build_group_norm,
                     3,
                     {{OP_FLOAT, SHAPE(4, 2, 3, 5, ch)},
                      {OP_FLOAT, SHAPE(1, ch), .lo = 0.5, .hi = 2},
                      {OP_FLOAT, SHAPE(1, ch)}},
                     .arg = {(double)grouped[i][1]},
                     .tolerance = 3};
        op_matrix(&c);
        c.name = "group_norm, no gamma";
        c.n_in = 1;
        op_matrix(&c);
    }
}

/* ---- softmax and losses ---- */

static void test_softmax(void **state)
{
    (void)state;
    static const int64_t classes[] = {1, 2, 3, 17, 32, 1000};
    for (size_t i = 0; i < COUNT(classes); i++) {
        op_case c = {"softmax",
                     build_softmax,
                     1,
                     {{OP_FLOAT, SHAPE(3, 2, 3, classes[i]), .lo = -6, .hi = 6}},
                     .tolerance = 2};
        op_matrix(&c);
        c.name = "log_softmax";
        c.arg[0] = 1.0;
        c.tolerance = 3; /* bf16: e^y of a rounded y */
        op_matrix(&c);
    }
}

static void test_losses(void **state)
{
    (void)state;
    static const int64_t classes[] = {2, 3, 10, 17, 32, 1000};
    for (size_t i = 0; i < COUNT(classes); i++) {
        const int64_t k = classes[i];
        op_case c = {"cross_entropy",
                     build_cross_entropy,
                     2,
                     {{OP_FLOAT, SHAPE(3, 3, 4, k), .lo = -6, .hi = 6},
                      {OP_INDEX, SHAPE(2, 3, 4), .lo = -1, .hi = (double)k},
                      {OP_FIXED, SHAPE(1, k), .lo = 0.5, .hi = 2}}};
        op_matrix(&c);
        c.n_in = 3;
        c.in[1].kind = OP_INDEX64;
        op_matrix(&c);
        c.name = "cross_entropy, soft";
        c.in[1] = (op_operand){OP_FIXED, SHAPE(3, 3, 4, k), .lo = 0, .hi = 1};
        op_matrix(&c);
        c.n_in = 2;
        op_matrix(&c);
    }
    /* Several roundings to bf16 where a fused program has none. */
    op_case c = {"bce_with_logits",
                 build_bce,
                 2,
                 {{OP_FLOAT, SHAPE(2, 5, 17), .lo = -6, .hi = 6},
                  {OP_FIXED, SHAPE(2, 5, 17), .lo = 0, .hi = 1},
                  {OP_FIXED, SHAPE(1, 17), .lo = 0.5, .hi = 3}},
                 .tolerance = 3};
    op_matrix(&c);
    c.n_in = 3;
    op_matrix(&c);
    c.name = "squared_error";
    c.n_in = 2;
    c.build = build_squared_error;
    op_matrix(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv2d_grid),
        cmocka_unit_test(test_conv2d_special),
        cmocka_unit_test(test_conv2d_over_threads),
        cmocka_unit_test(test_conv_transpose2d),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_max_pool_ties),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_large_mean),
        cmocka_unit_test(test_layer_and_group_norm),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
