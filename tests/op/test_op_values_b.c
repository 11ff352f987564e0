/* test_op_values_b.c - known values and error sentences of convolution, pooling, norms and losses.
 *
 * What must hold: results and gradients are those of PyTorch (tests/golden/op_values.h) in f64 and
 * f32 on every backend; the cross-entropy cases worked out by hand (label smoothing, ignored rows,
 * mixed targets) come out; a wrong call fails with a sentence that names what does not fit. */
#include "vv_test.h"

#include <vivace/ops.h>

#define MAX_IN 5

typedef struct op_value {
    const char *name, *op;
    int64_t params[9];
    int n_in;
    int ndim[MAX_IN];
    int64_t shape[MAX_IN][4];
    unsigned positive; /* bit j: operand j is made positive */
    int64_t count;
    const double *out, *grad[MAX_IN]; /* grad NULL: a constant */
} op_value;

#include "../golden/op_values.h"

#define DOUT 9 /* operand number of the given gradient */

/* As in make_op_values.py. */
static double pattern(int64_t i, int operand)
{
    const uint32_t mixed = (uint32_t)((i * 7919 + operand * 104729 + 12345) * (int64_t)2654435761);
    return (double)(mixed >> 24) / 64.0 - 2.0;
}

static vv_node *pattern_node(vv_graph *g, vv_dtype dtype, int ndim, const int64_t *shape,
                             int operand, bool positive)
{
    vv_tensor *tensor = NULL;
    assert_ok(vv_tensor_new(&tensor, dtype, ndim, shape));
    for (int64_t i = 0; i < tensor->count; i++) {
        const double value = pattern(i, operand);
        vv_tensor_set(tensor, i, positive ? fabs(value) / 8.0 + 0.125 : value);
    }
    vv_node *node = vv_leaf(g, tensor);
    vv_tensor_free(tensor);
    return node;
}

static vv_node *build_image_op(const op_value *v, vv_node **x)
{
    const int64_t *p = v->params;
    if (!strncmp(v->op, "conv", 4)) {
        const vv_conv_opts opts = {{p[0], p[1]}, {p[2], p[3]}, {p[4], p[5]}, p[6], {p[7], p[8]}};
        return strcmp(v->op, "conv2d") ? vv_conv_transpose2d(x[0], x[1], x[2], &opts)
                                       : vv_conv2d(x[0], x[1], x[2], &opts);
    }
    const vv_pool_opts opts = {{p[0], p[1]}, {p[2], p[3]}, {p[4], p[5]}, p[6] != 0, p[7] != 0};
    if (!strcmp(v->op, "max_pool2d"))
        return vv_max_pool2d(x[0], &opts);
    if (!strcmp(v->op, "avg_pool2d"))
        return vv_avg_pool2d(x[0], &opts);
    if (!strcmp(v->op, "adaptive_max_pool2d"))
        return vv_adaptive_max_pool2d(x[0], p[0], p[1]);
    if (!strcmp(v->op, "adaptive_avg_pool2d"))
        return vv_adaptive_avg_pool2d(x[0], p[0], p[1]);
    if (!strcmp(v->op, "resize"))
        return vv_resize(x[0], p[0], p[1], p[2] ? VV_RESIZE_BILINEAR : VV_RESIZE_NEAREST);
    return NULL;
}

static vv_node *build(const op_value *v, vv_graph *g, vv_node **x)
{
    if (!strcmp(v->op, "batch_norm"))
        return vv_batch_norm(x[0], x[1], x[2], 1e-3, NULL, NULL);
    if (!strcmp(v->op, "batch_norm_eval"))
        return vv_batch_norm_eval(x[0], x[1], x[2], x[3], x[4], 1e-3);
    if (!strcmp(v->op, "layer_norm"))
        return vv_layer_norm(x[0], x[1], x[2], 1e-3);
    if (!strcmp(v->op, "group_norm"))
        return vv_group_norm(x[0], x[1], x[2], v->params[0], 1e-3);
    if (!strcmp(v->op, "softmax"))
        return vv_softmax(x[0]);
    if (!strcmp(v->op, "log_softmax"))
        return vv_log_softmax(x[0]);
    if (!strcmp(v->op, "cross_entropy") || !strcmp(v->op, "cross_entropy_weighted")) {
        static const int32_t classes[5] = {2, 0, -100, 4, 1};
        const int64_t shape[1] = {5};
        return vv_cross_entropy(x[0], vv_data(g, VV_I32, 1, shape, classes), x[1], -100);
    }
    if (!strcmp(v->op, "cross_entropy_soft"))
        return vv_cross_entropy(x[0], x[1], x[2], -100);
    if (!strcmp(v->op, "bce_with_logits"))
        return vv_bce_with_logits(x[0], x[1], x[2]);
    if (!strcmp(v->op, "squared_error"))
        return vv_squared_error(x[0], x[1]);
    return build_image_op(v, x);
}

static void check_values(const char *name, const char *what, vv_node *node, int64_t count,
                         const double *expected, double tolerance)
{
    const vv_tensor *value = NULL;
    assert_ok(vv_node_value(node, &value));
    if (value->count != count)
        fail_msg("%s, %s: %lld elements, expected %lld", name, what, (long long)value->count,
                 (long long)count);
    for (int64_t i = 0; i < count; i++) {
        const double got = vv_tensor_get(value, i);
        if (!(fabs(got - expected[i]) <= tolerance * (1.0 + fabs(expected[i]))))
            fail_msg("%s, %s: element %lld is %.9g, expected %.9g", name, what, (long long)i, got,
                     expected[i]);
    }
}

static void check_case(vv_graph *g, const op_value *v, vv_dtype dtype, double tolerance)
{
    vv_graph_reset(g);
    vv_node *x[MAX_IN] = {NULL};
    for (int j = 0; j < v->n_in; j++)
        x[j] = pattern_node(g, dtype, v->ndim[j], v->shape[j], j, v->positive >> j & 1u);
    vv_node *y = build(v, g, x);
    if (!y)
        fail_msg("%s: %s", v->name,
                 vv_graph_status(g) != VV_OK ? vv_error() : "op is not built here");
    vv_node *dout =
        pattern_node(g, vv_node_dtype(y), vv_node_ndim(y), vv_node_shape(y), DOUT, false);
    vv_node *wrt[MAX_IN] = {NULL}, *grads[MAX_IN] = {NULL};
    int operand[MAX_IN] = {0}, count = 0;
    for (int j = 0; j < v->n_in; j++) {
        if (v->grad[j]) {
            operand[count] = j;
            wrt[count++] = x[j];
        }
    }
    assert_ok(vv_grad_from(g, y, dout, wrt, count, grads));
    vv_node *all[MAX_IN + 1] = {y};
    memcpy(all + 1, grads, (size_t)count * sizeof *grads);
    assert_ok(vv_eval(g, all, count + 1));
    check_values(v->name, "result", y, v->count, v->out, tolerance);
    for (int i = 0; i < count; i++) {
        char what[32];
        snprintf(what, sizeof what, "gradient of operand %d", operand[i]);
        check_values(v->name, what, grads[i], vv_node_count(wrt[i]), v->grad[operand[i]],
                     tolerance);
    }
}

static vv_graph *open_graph(const char *backend, bool eager)
{
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.eager = eager;
    opts.backend = vv_backend_find(backend);
    vv_graph *g = NULL;
    if (opts.backend)
        assert_ok(vv_graph_new(&g, &opts));
    return g;
}

static vv_graph *new_graph(const char *backend)
{
    return open_graph(backend, false);
}

static void check_all(const char *backend, bool eager, vv_dtype dtype, double tolerance)
{
    vv_graph *g = open_graph(backend, eager);
    if (!g)
        skip(); /* built without this backend */
    for (size_t i = 0; i < sizeof op_values / sizeof op_values[0]; i++)
        check_case(g, &op_values[i], dtype, tolerance);
    vv_graph_free(g);
}

static void test_pytorch_f64(void **state)
{
    (void)state;
    check_all("ref", false, VV_F64, 1e-8);
}

static void test_pytorch_f32(void **state)
{
    (void)state;
    check_all("ref", false, VV_F32, 1e-5);
}

/* Node by node, and with the values kept between them. */
static void test_pytorch_eager(void **state)
{
    (void)state;
    check_all("ref", true, VV_F64, 1e-8);
}

static void test_pytorch_f32_cpu(void **state)
{
    (void)state;
    check_all("cpu", false, VV_F32, 2e-5);
}

/* ---- cross-entropy cases by hand ---- */

static const float logits_row[4] = {2.0f, 1.0f, 0.0f, -1.0f};

static vv_node *rows(vv_graph *g, int64_t count, const float *values)
{
    const int64_t shape[2] = {count, 4};
    return vv_data(g, VV_F32, 2, shape, values);
}

static double soft_loss(vv_graph *g, const float target[4])
{
    double loss = NAN;
    vv_node *node = vv_cross_entropy(rows(g, 1, logits_row), rows(g, 1, target), NULL, -100);
    assert_ok(vv_node_item(node, &loss));
    return loss;
}

static double class_loss(vv_graph *g, int64_t label)
{
    const int64_t shape[1] = {1};
    double loss = NAN;
    vv_node *target = vv_data(g, VV_I64, 1, shape, &label);
    assert_ok(vv_node_item(vv_cross_entropy(rows(g, 1, logits_row), target, NULL, -100), &loss));
    return loss;
}

/* Smoothing 0.1 of class 0: target and loss, beside the hard loss that evaluation must give. */
static void test_smoothed_target(void **state)
{
    (void)state;
    vv_graph *g = new_graph("ref");
    const float smooth[4] = {0.925f, 0.025f, 0.025f, 0.025f};
    const float others_only[4] = {0.9f, 0.1f / 3.0f, 0.1f / 3.0f, 0.1f / 3.0f};
    assert_near(class_loss(g, 0), 0.440190, 1e-6, 0.0);
    assert_near(soft_loss(g, smooth), 0.590190, 1e-6, 0.0);
    assert_near(soft_loss(g, others_only), 0.640190, 1e-6, 0.0);
    vv_graph_free(g);
}

/* An ignored row is a row of zeros in a soft target: no loss, no gradient, also beside NaN. */
static void test_ignored_rows(void **state)
{
    (void)state;
    vv_graph *g = new_graph("ref");
    float x[8] = {2, 1, 0, -1, 5, 0, 0, 0};
    const float target[8] = {0.85f, 0.05f, 0.05f, 0.05f, 0, 0, 0, 0};
    double sum = NAN;
    assert_ok(vv_node_item(
        vv_sum_all(vv_cross_entropy(rows(g, 2, x), rows(g, 2, target), NULL, -100)), &sum));
    assert_near(sum, 0.740190, 1e-6, 0.0);

    const int64_t shape[1] = {2};
    const int32_t ignored[2] = {-100, -100};
    const float zeros[8] = {0};
    x[5] = NAN;
    for (int soft = 0; soft < 2; soft++) {
        vv_node *logits = rows(g, 2, x), *grad = NULL;
        vv_node *t = soft ? rows(g, 2, zeros) : vv_data(g, VV_I32, 1, shape, ignored);
        vv_node *loss = vv_sum_all(vv_cross_entropy(logits, t, NULL, -100));
        assert_ok(vv_grad(g, loss, &logits, 1, &grad));
        assert_ok(vv_node_item(loss, &sum));
        assert_true(sum == 0.0);
        const vv_tensor *value = NULL;
        assert_ok(vv_node_value(grad, &value));
        for (int64_t i = 0; i < value->count; i++)
            assert_true(vv_tensor_get(value, i) == 0.0);
    }
    vv_graph_free(g);
}

/* Loss is linear in the target: mixing two smoothed targets is smoothing the mixed one. */
static void test_smoothed_mixture(void **state)
{
    (void)state;
    vv_graph *g = new_graph("ref");
    const float first[4] = {0.925f, 0.025f, 0.025f, 0.025f};
    const float second[4] = {0.025f, 0.925f, 0.025f, 0.025f};
    const float mixed[4] = {0.655f, 0.295f, 0.025f, 0.025f};
    assert_near(soft_loss(g, mixed), 0.7 * soft_loss(g, first) + 0.3 * soft_loss(g, second), 1e-6,
                0.0);
    vv_graph_free(g);
}

/* MixUp: index form and dense form agree, in the loss and in the gradient on the logits. */
static void test_mixup_forms(void **state)
{
    (void)state;
    vv_graph *g = new_graph("ref");
    const float dense[4] = {0.7f, 0.0f, 0.0f, 0.3f};
    const double expected[4] = {-0.056086, 0.236883, 0.087144, -0.267941};
    assert_near(class_loss(g, 3), 3.440190, 1e-6, 0.0);
    assert_near(0.7 * class_loss(g, 0) + 0.3 * class_loss(g, 3), 1.340190, 1e-6, 0.0);
    assert_near(soft_loss(g, dense), 1.340190, 1e-6, 0.0);

    const int64_t shape[1] = {1};
    const int64_t labels[2] = {0, 3};
    for (int form = 0; form < 2; form++) {
        vv_node *logits = rows(g, 1, logits_row), *grad = NULL, *loss = NULL;
        if (form == 0) {
            loss = vv_cross_entropy(logits, rows(g, 1, dense), NULL, -100);
        } else {
            vv_node *a =
                vv_cross_entropy(logits, vv_data(g, VV_I64, 1, shape, &labels[0]), NULL, -100);
            vv_node *b =
                vv_cross_entropy(logits, vv_data(g, VV_I64, 1, shape, &labels[1]), NULL, -100);
            loss = vv_add(vv_affine(a, 0.7, 0.0), vv_affine(b, 0.3, 0.0));
        }
        assert_ok(vv_grad(g, vv_sum_all(loss), &logits, 1, &grad));
        check_values("mixup", form ? "index form" : "dense form", grad, 4, expected, 1e-6);
    }
    vv_graph_free(g);
}

/* Large logits neither overflow nor lose the loss; bce has the right slope at exactly 0. */
static void test_extremes(void **state)
{
    (void)state;
    vv_graph *g = new_graph("ref");
    const float large[4] = {1000.0f, -1000.0f, 0.0f, 999.0f};
    const int32_t label[1] = {3};
    const int64_t shape[1] = {1}, pair[1] = {3};
    double loss = NAN;
    vv_node *target = vv_data(g, VV_I32, 1, shape, label);
    assert_ok(vv_node_item(vv_cross_entropy(rows(g, 1, large), target, NULL, -100), &loss));
    assert_near(loss, 1.313262, 1e-6, 0.0);

    const float x[3] = {0.0f, 1000.0f, -1000.0f}, t[3] = {1.0f, 0.0f, 1.0f};
    const double expected[3] = {0.6931472, 1000.0, 1000.0}, slope[3] = {-0.5, 1.0, -1.0};
    vv_node *logits = vv_data(g, VV_F32, 1, pair, x), *grad = NULL;
    vv_node *bce = vv_bce_with_logits(logits, vv_data(g, VV_F32, 1, pair, t), NULL);
    assert_ok(vv_grad(g, vv_sum_all(bce), &logits, 1, &grad));
    check_values("bce_with_logits", "result", bce, 3, expected, 1e-6);
    check_values("bce_with_logits", "gradient", grad, 3, slope, 1e-6);
    vv_graph_free(g);
}

/* ---- statistics of batch norm ---- */

/* mean and var (biased) are given back in f32, also beside bf16 data. */
static void test_batch_statistics(void **state)
{
    (void)state;
    vv_graph *g = new_graph("ref");
    const double mean[2] = {2.0, -1.0}, var[2] = {1.0, 9.0};
    const float x[8] = {1, -4, 3, 2, 1, 2, 3, -4};
    const int64_t shape[4] = {2, 1, 2, 2};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        vv_node *data = vv_data(g, VV_F32, 4, shape, x), *m = NULL, *v = NULL;
        if (bf16)
            data = vv_cast(data, VV_BF16);
        vv_node *y = vv_batch_norm(data, NULL, NULL, 0.0, &m, &v);
        assert_int_equal(vv_node_dtype(y), bf16 ? VV_BF16 : VV_F32);
        assert_int_equal(vv_node_dtype(m), VV_F32);
        vv_node *const all[3] = {y, m, v};
        assert_ok(vv_eval(g, all, 3));
        const double expected[8] = {-1, -1, 1, 1, -1, 1, 1, -1};
        check_values("batch_norm", "mean", m, 2, mean, 1e-7);
        check_values("batch_norm", "var", v, 2, var, 1e-7);
        check_values("batch_norm", "result", y, 8, expected, 1e-6);
    }
    vv_graph_free(g);
}

/* ---- sentences ---- */

static vv_node *zeros(vv_graph *g, vv_dtype dtype, int ndim, int64_t a, int64_t b, int64_t c,
                      int64_t d)
{
    const int64_t shape[4] = {a, b, c, d};
    return vv_zeros(g, dtype, ndim, shape);
}

/* The op gave NULL and the graph says `text`. */
#define assert_refused(g, node, text)             \
    do {                                          \
        assert_null(node);                        \
        vv_error_clear();                         \
        assert_true(vv_graph_status(g) != VV_OK); \
        assert_says(text);                        \
        vv_graph_reset(g);                        \
    } while (0)

static void test_conv_sentences(void **state)
{
    (void)state;
    vv_graph *g = new_graph("ref");
    vv_conv_opts opts = VV_CONV_DEFAULTS;
    assert_refused(
        g, vv_conv2d(zeros(g, VV_F32, 4, 1, 8, 8, 3), zeros(g, VV_F32, 4, 8, 4, 3, 3), NULL, &opts),
        "conv2d: x has 3 channels, weight expects 4 (weight [8,4,3,3], groups 1)");
    assert_refused(
        g, vv_conv2d(zeros(g, VV_F32, 4, 1, 2, 8, 4), zeros(g, VV_F32, 4, 8, 4, 3, 3), NULL, &opts),
        "conv2d: the output would be smaller than 1: height of x is 2");
    assert_refused(
        g,
        vv_conv2d(zeros(g, VV_F32, 4, 1, 8, 8, 4), zeros(g, VV_BF16, 4, 8, 4, 3, 3), NULL, &opts),
        "conv2d: x is f32, weight is bf16");
    assert_refused(g,
                   vv_conv2d(zeros(g, VV_F32, 4, 1, 8, 8, 4), zeros(g, VV_F32, 4, 8, 4, 3, 3),
                             zeros(g, VV_F32, 1, 4, 0, 0, 0), &opts),
                   "conv2d: bias has shape [4], expected [8]");
    opts.groups = 3;
    assert_refused(
        g, vv_conv2d(zeros(g, VV_F32, 4, 1, 8, 8, 3), zeros(g, VV_F32, 4, 8, 1, 3, 3), NULL, &opts),
        "conv2d: 8 channels of weight [8,1,3,3] do not divide into 3 groups");
    opts.groups = 0;
    assert_refused(
        g, vv_conv2d(zeros(g, VV_F32, 4, 1, 8, 8, 3), zeros(g, VV_F32, 4, 8, 1, 3, 3), NULL, &opts),
        "groups is 0");
    opts.groups = 1;
    opts.stride[1] = 0;
    assert_refused(
        g, vv_conv2d(zeros(g, VV_F32, 4, 1, 8, 8, 1), zeros(g, VV_F32, 4, 8, 1, 3, 3), NULL, &opts),
        "stride {1,0}");
    opts.stride[1] = 1;
    opts.output_pad[0] = 1;
    assert_refused(g,
                   vv_conv_transpose2d(zeros(g, VV_F32, 4, 1, 4, 4, 2),
                                       zeros(g, VV_F32, 4, 2, 3, 3, 3), NULL, &opts),
                   "output_pad 1 must be smaller than stride 1");
    opts.output_pad[0] = 0;
    assert_refused(g,
                   vv_conv_transpose2d(zeros(g, VV_F32, 4, 1, 4, 4, 3),
                                       zeros(g, VV_F32, 4, 2, 3, 3, 3), NULL, &opts),
                   "conv_transpose2d: x has 3 channels, weight expects 2");
    opts.pad[0] = 3;
    assert_refused(g,
                   vv_conv_transpose2d(zeros(g, VV_F32, 4, 1, 4, 4, 2),
                                       zeros(g, VV_F32, 4, 2, 3, 3, 3), NULL, &opts),
                   "conv_transpose2d: the output would be smaller than 1");
    vv_graph_free(g);
}

static void test_pool_sentences(void **state)
{
    (void)state;
    vv_graph *g = new_graph("ref");
    vv_pool_opts opts = {{3, 3}, {2, 2}, {2, 0}, false, false};
    assert_refused(g, vv_max_pool2d(zeros(g, VV_F32, 4, 1, 8, 8, 3), &opts),
                   "max_pool2d: pad 2 is more than half of kernel 3");
    opts.pad[0] = 0;
    assert_refused(g, vv_avg_pool2d(zeros(g, VV_F32, 4, 1, 8, 2, 3), &opts),
                   "avg_pool2d: the output would be smaller than 1: width of x is 2");
    assert_refused(g, vv_avg_pool2d(zeros(g, VV_F32, 3, 8, 2, 3, 0), &opts),
                   "avg_pool2d: x must have 4 dimensions");
    assert_refused(g, vv_max_pool2d(zeros(g, VV_I32, 4, 1, 8, 8, 3), &opts), "max_pool2d");
    assert_refused(g, vv_max_pool2d(zeros(g, VV_F32, 4, 1, 8, 8, 3), NULL), "opts is NULL");
    assert_refused(g, vv_adaptive_avg_pool2d(zeros(g, VV_F32, 4, 1, 8, 8, 3), 0, 1), "size 0 x 1");
    assert_refused(g, vv_resize(zeros(g, VV_F32, 4, 1, 0, 8, 3), 4, 4, VV_RESIZE_NEAREST),
                   "resize: x [1,0,8,3] has no pixels");
    vv_graph_free(g);
}

static void test_norm_sentences(void **state)
{
    (void)state;
    vv_graph *g = new_graph("ref");
    assert_refused(g,
                   vv_batch_norm(zeros(g, VV_F32, 2, 4, 3, 0, 0), zeros(g, VV_F32, 1, 4, 0, 0, 0),
                                 NULL, 1e-5, NULL, NULL),
                   "batch_norm: gamma has shape [4], x has 3 channels");
    assert_refused(g,
                   vv_batch_norm(zeros(g, VV_BF16, 2, 4, 3, 0, 0), NULL,
                                 zeros(g, VV_BF16, 1, 3, 0, 0, 0), 1e-5, NULL, NULL),
                   "batch_norm: beta is bf16, must be f32 beside x in bf16");
    assert_refused(g, vv_batch_norm(zeros(g, VV_F32, 2, 0, 3, 0, 0), NULL, NULL, 1e-5, NULL, NULL),
                   "batch_norm: x is empty");
    assert_refused(g, vv_layer_norm(zeros(g, VV_F32, 2, 4, 3, 0, 0), NULL, NULL, -1.0),
                   "layer_norm: eps is -1");
    assert_refused(g, vv_group_norm(zeros(g, VV_F32, 2, 4, 3, 0, 0), NULL, NULL, 2, 1e-5),
                   "group_norm: 3 channels do not divide into 2 groups");
    vv_graph_free(g);
}

static void test_loss_sentences(void **state)
{
    (void)state;
    vv_graph *g = new_graph("ref");
    assert_refused(g,
                   vv_cross_entropy(zeros(g, VV_F32, 2, 4, 3, 0, 0),
                                    zeros(g, VV_I32, 1, 3, 0, 0, 0), NULL, -100),
                   "cross_entropy: target has shape [3], expected [4] for class targets");
    assert_refused(g,
                   vv_cross_entropy(zeros(g, VV_F32, 2, 4, 3, 0, 0),
                                    zeros(g, VV_F32, 1, 4, 0, 0, 0), NULL, -100),
                   "cross_entropy: target has shape [4], expected [4,3] for soft targets");
    assert_refused(g,
                   vv_cross_entropy(zeros(g, VV_F32, 2, 4, 3, 0, 0), zeros(g, VV_U8, 1, 4, 0, 0, 0),
                                    NULL, -100),
                   "cross_entropy: target is u8");
    assert_refused(g,
                   vv_cross_entropy(zeros(g, VV_F32, 2, 4, 3, 0, 0),
                                    zeros(g, VV_I32, 1, 4, 0, 0, 0),
                                    zeros(g, VV_F32, 1, 4, 0, 0, 0), -100),
                   "cross_entropy: class_weights has shape [4], expected [3]");
    assert_refused(
        g, vv_squared_error(zeros(g, VV_F32, 1, 4, 0, 0, 0), zeros(g, VV_F32, 2, 4, 1, 0, 0)),
        "squared_error: x has shape [4], target has [4,1]");
    assert_refused(g,
                   vv_bce_with_logits(zeros(g, VV_F32, 2, 4, 3, 0, 0),
                                      zeros(g, VV_F32, 2, 4, 3, 0, 0),
                                      zeros(g, VV_F32, 1, 2, 0, 0, 0)),
                   "bce_with_logits: pos_weight [2] does not fit x [4,3]");
    vv_graph_free(g);
}

/* A class outside 0..K-1 that is not ignored is named with its row, on every backend, by the loss
   and by the gradient alone. */
static void test_class_out_of_range(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", "cpu"};
    static const int64_t wrong[] = {4, -1, 1000000000000};
    for (size_t b = 0; b < 2; b++) {
        vv_graph *g = new_graph(backends[b]);
        for (size_t i = 0; g && i < 3; i++) {
            vv_graph_reset(g);
            const float x[8] = {2, 1, 0, -1, 5, 0, 0, 0};
            const int64_t labels[2] = {-100, wrong[i]}, shape[1] = {2};
            vv_node *logits = rows(g, 2, x), *grad = NULL;
            vv_node *loss =
                vv_cross_entropy(logits, vv_data(g, VV_I64, 1, shape, labels), NULL, -100);
            assert_ok(vv_grad(g, vv_sum_all(loss), &logits, 1, &grad));
            char text[64];
            snprintf(text, sizeof text, "row 1 is %lld", (long long)wrong[i]);
            assert_fails(vv_eval(g, &loss, 1), VV_EINVAL);
            assert_says(text);
            assert_says("0..3");
            vv_graph_reset(g);
            logits = rows(g, 2, x);
            loss = vv_cross_entropy(logits, vv_data(g, VV_I64, 1, shape, labels), NULL, -100);
            assert_ok(vv_grad(g, vv_sum_all(loss), &logits, 1, &grad));
            assert_fails(vv_eval(g, &grad, 1), VV_EINVAL);
            assert_says(text);
        }
        vv_graph_free(g);
    }
}

/* ---- memory ---- */

/* A small network of these ops, forward and backward. */
static vv_status run_network(void)
{
    vv_status status;
    vv_graph *g = NULL;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = vv_backend_find("ref");
    VV_GO(vv_graph_new(&g, &opts));
    const int64_t image[4] = {2, 6, 6, 2}, filter[4] = {4, 2, 3, 3}, label[1] = {2};
    const vv_pool_opts pool = {{2, 2}, {2, 2}, {0, 0}, false, false};
    vv_node *x = vv_full(g, VV_F32, 4, image, 0.5), *w = vv_full(g, VV_F32, 4, filter, 0.1);
    vv_node *mean = NULL, *grad = NULL;
    vv_node *y = vv_batch_norm(vv_conv2d(x, w, NULL, NULL), NULL, NULL, 1e-3, &mean, NULL);
    y = vv_max_pool2d(vv_relu(y), &pool);
    y = vv_resize(vv_group_norm(y, NULL, NULL, 2, 1e-3), 1, 1, VV_RESIZE_BILINEAR);
    const int64_t flat[2] = {2, 4};
    vv_node *loss =
        vv_sum_all(vv_cross_entropy(vv_layer_norm(vv_reshape(y, 2, flat), NULL, NULL, 1e-3),
                                    vv_zeros(g, VV_I32, 1, label), NULL, -100));
    VV_GO(vv_graph_status(g));
    VV_GO(vv_grad(g, loss, &w, 1, &grad));
    vv_node *const all[3] = {loss, grad, mean};
    VV_GO(vv_eval(g, all, 3));
out:
    vv_graph_free(g);
    return status;
}

/* Each allocation fails once: an error with a sentence, nothing lost, no crash. */
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
        cmocka_unit_test(test_pytorch_f64),        cmocka_unit_test(test_pytorch_f32),
        cmocka_unit_test(test_pytorch_eager),      cmocka_unit_test(test_pytorch_f32_cpu),
        cmocka_unit_test(test_smoothed_target),    cmocka_unit_test(test_ignored_rows),
        cmocka_unit_test(test_smoothed_mixture),   cmocka_unit_test(test_mixup_forms),
        cmocka_unit_test(test_extremes),           cmocka_unit_test(test_batch_statistics),
        cmocka_unit_test(test_conv_sentences),     cmocka_unit_test(test_pool_sentences),
        cmocka_unit_test(test_norm_sentences),     cmocka_unit_test(test_loss_sentences),
        cmocka_unit_test(test_class_out_of_range), cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
