/* test_op_sequence.c - the ops of language models: RMS norm, rotary embedding, running sums, soft
 * cap.
 *
 * What must hold: results are those of formulas written here anew; every backend, dtype and shape
 * agrees with `ref`, and `ref` with itself in f64; gradients are those of finite differences; a
 * wrong call fails with a sentence that names what does not fit; nothing is lost when memory is
 * short. */
#include "../grad/grad_check.h"
#include "op_matrix.h"

#include <complex.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SHAPE(n, ...) .ndim = (n), .shape = {__VA_ARGS__}

static vv_node *build_rms_norm(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    vv_node *gamma = c->n_in > 1 ? in[1] : NULL;
    const vv_dtype dtype = vv_node_dtype(in[0]) == VV_F64 ? VV_F64 : VV_F32;
    return vv_rms_norm(in[0], gamma ? vv_cast(gamma, dtype) : NULL, 1e-5);
}

/* arg = offset */
static vv_node *build_rotary(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_rotary(in[0], vv_cast(in[1], VV_F32), (int64_t)c->arg[0]);
}

/* arg = exclusive */
static vv_node *build_cumsum(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_cumsum(in[0], c->arg[0] != 0.0);
}

/* arg = cap */
static vv_node *build_softcap(vv_graph *g, vv_node *const *in, const op_case *c)
{
    (void)g;
    return vv_softcap(in[0], c->arg[0]);
}

/* ---- values ---- */

static vv_graph *new_graph(const char *backend)
{
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = vv_backend_find(backend);
    vv_graph *g = NULL;
    if (opts.backend)
        assert_ok(vv_graph_new(&g, &opts));
    return g;
}

static void check_values(vv_node *node, int64_t count, const double *expected, double tolerance)
{
    const vv_tensor *value = NULL;
    assert_ok(vv_node_value(node, &value));
    assert_int_equal(value->count, count);
    for (int64_t i = 0; i < count; i++)
        assert_near(vv_tensor_get(value, i), expected[i], tolerance, tolerance);
}

/* (3, 4) has root mean square sqrt(12.5); a row of zeros stays zero thanks to eps. */
static void test_rms_norm_values(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", "cpu"};
    const int64_t shape[2] = {3, 2}, width[1] = {2};
    const double r = sqrt(12.5 + 1e-5), s = sqrt(5e-9 + 1e-5);
    const double want[6] = {3 / r * 2, 4 / r * -1, 0, 0, 1e-4 / s * 2, 0};
    for (size_t b = 0; b < COUNT(backends); b++) {
        vv_graph *g = new_graph(backends[b]);
        if (!g)
            continue;
        const float x[6] = {3, 4, 0, 0, 1e-4f, 0}, gamma[2] = {2, -1};
        check_values(vv_rms_norm(vv_data(g, VV_F32, 2, shape, x),
                                 vv_data(g, VV_F32, 1, width, gamma), 1e-5),
                     6, want, 1e-6);
        vv_graph_free(g);
    }
}

/* A turn is a product of complex numbers; positions count from the offset, far ones too; the
   gradient of x is the turn back, so turning and going back gives what there was. */
static void test_rotary_values(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", "cpu"};
    enum { N = 2, T = 3, H = 2, D = 6, HALF = D / 2 };
    const int64_t shape[4] = {N, T, H, D}, half[1] = {HALF}, offsets[] = {0, 7, -2, 100000};
    const float frequencies[HALF] = {1.0f, 0.03f, 0.0f};
    float x[N * T * H * D];
    for (int i = 0; i < N * T * H * D; i++)
        x[i] = (float)sin(0.7 * i) + (float)(i % 5);
    for (size_t b = 0; b < COUNT(backends); b++)
        for (size_t o = 0; o < COUNT(offsets); o++) {
            vv_graph *g = new_graph(backends[b]);
            if (!g)
                continue;
            double want[N * T * H * D], same[N * T * H * D];
            for (int i = 0; i < N * T * H * D; i++) {
                const int row = i / D, pair = i % D % HALF, t = row / H % T;
                const double complex z =
                    CMPLX((double)x[row * D + pair], (double)x[row * D + pair + HALF]) *
                    cexp(CMPLX(0.0, (double)frequencies[pair] * (double)(t + offsets[o])));
                want[i] = i % D < HALF ? creal(z) : cimag(z);
                same[i] = (double)x[i];
            }
            vv_node *leaf = vv_data(g, VV_F32, 4, shape, x);
            vv_node *y = vv_rotary(leaf, vv_data(g, VV_F32, 1, half, frequencies), offsets[o]);
            vv_node *back = NULL;
            assert_ok(vv_grad_from(g, y, y, &leaf, 1, &back));
            check_values(y, N * T * H * D, want, 1e-5);
            check_values(back, N * T * H * D, same, 1e-5);
            vv_graph_free(g);
        }
}

static void test_cumsum_values(void **state)
{
    (void)state;
    const int64_t shape[2] = {2, 4}, none[2] = {3, 0};
    const int32_t numbers[8] = {1, 0, 2, 5, -1, 7, 0, 3};
    const int64_t large[8] = {INT64_C(1) << 40, 1, 2, 3, 4, 5, 6, 7};
    const float reals[8] = {0.5f, 1, -2, 4, 1e8f, 1, 1, -1e8f};
    static const double sums[8] = {1, 1, 3, 8, -1, 6, 6, 9};
    static const double before[8] = {0, 1, 1, 3, 0, -1, 6, 6};
    static const double real_sums[8] = {0.5, 1.5, -0.5, 3.5, 1e8, 1e8, 100000002, 2};
    vv_graph *g = new_graph("ref");
    vv_node *x = vv_data(g, VV_I32, 2, shape, numbers);
    check_values(vv_cumsum(x, false), 8, sums, 0);
    check_values(vv_cumsum(x, true), 8, before, 0);
    assert_int_equal(vv_node_dtype(vv_cumsum(x, false)), VV_I32);
    check_values(vv_cumsum(vv_data(g, VV_F32, 2, shape, reals), false), 8, real_sums, 1e-7);
    const vv_tensor *wide;
    assert_ok(vv_node_value(vv_cumsum(vv_data(g, VV_I64, 2, shape, large), false), &wide));
    assert_true(((const int64_t *)wide->data)[3] == (INT64_C(1) << 40) + 6);
    const vv_tensor *empty;
    assert_ok(vv_node_value(vv_cumsum(vv_data(g, VV_F32, 2, none, reals), false), &empty));
    assert_int_equal(empty->count, 0);
    vv_graph_free(g);
}

static void test_softcap_values(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", "cpu"};
    const int64_t shape[1] = {6};
    const float x[6] = {0, 1, -15, 30, 1e6f, -1e30f};
    const double want[6] = {0, 15 * tanh(1 / 15.0), -15 * tanh(1), 15 * tanh(2), 15, -15};
    for (size_t b = 0; b < COUNT(backends); b++) {
        vv_graph *g = new_graph(backends[b]);
        if (!g)
            continue;
        check_values(vv_softcap(vv_data(g, VV_F32, 1, shape, x), 15), 6, want, 1e-6);
        vv_graph_free(g);
    }
}

/* ---- the matrix, and finite differences ---- */

static void test_matrix(void **state)
{
    (void)state;
    static const int64_t widths[] = {3, 17, 32, 200, 769}; /* one alone has no slope but rounding */
    for (size_t i = 0; i < COUNT(widths); i++) {
        op_case c = {"rms_norm", build_rms_norm, 2,
                     {{OP_FLOAT, SHAPE(3, 2, 5, widths[i])},
                      {OP_FLOAT, SHAPE(1, widths[i]), .lo = 0.5, .hi = 2}},
                     .tolerance = 3};
        op_matrix(&c);
        c.name = "rms_norm, no gamma";
        c.n_in = 1;
        op_matrix(&c);
    }
    static const int64_t heads[][4] = {{2, 5, 3, 2}, {1, 1, 1, 8}, {3, 4, 2, 34}, {1, 300, 2, 64}};
    for (size_t i = 0; i < COUNT(heads); i++) {
        const op_case c = {"rotary", build_rotary, 2,
                           {{OP_FLOAT, .ndim = 4,
                             .shape = {heads[i][0], heads[i][1], heads[i][2], heads[i][3]}},
                            {OP_FIXED, SHAPE(1, heads[i][3] / 2), .lo = 0, .hi = 1, .f32 = true}},
                           .arg = {(double)(11 * i)}};
        op_matrix(&c);
    }
    for (int exclusive = 0; exclusive < 2; exclusive++) {
        op_case c = {"cumsum", build_cumsum, 1, {{OP_FLOAT, SHAPE(3, 2, 3, 17)}},
                     .arg = {exclusive}};
        op_matrix(&c);
        c.in[0] = (op_operand){OP_INDEX, SHAPE(2, 3, 33), .lo = -3, .hi = 9};
        op_matrix(&c);
    }
    const op_case cap = {"softcap", build_softcap, 1,
                         {{OP_FLOAT, SHAPE(2, 5, 33), .lo = -40, .hi = 40}}, .arg = {15},
                         .tolerance = 3 /* bf16: three roundings where the fused chain has one */};
    op_matrix(&cap);
}

static void test_gradients(void **state)
{
    (void)state;
    static const op_case cases[] = {
        {"rms_norm", build_rms_norm, 2, {{OP_FLOAT, SHAPE(3, 2, 3, 5)}, {OP_FLOAT, SHAPE(1, 5)}}},
        {"rms_norm of a vector, no gamma", build_rms_norm, 1, {{OP_FLOAT, SHAPE(1, 6)}}},
        {"rms_norm, gamma alone", build_rms_norm, 2,
         {{OP_FIXED, SHAPE(2, 3, 4)}, {OP_FLOAT, SHAPE(1, 4)}}},
        {"rotary", build_rotary, 2,
         {{OP_FLOAT, SHAPE(4, 2, 3, 2, 6)}, {OP_FIXED, SHAPE(1, 3), .lo = 0, .hi = 2}},
         .arg = {5}},
        {"cumsum", build_cumsum, 1, {{OP_FLOAT, SHAPE(2, 3, 5)}}},
        {"cumsum, exclusive", build_cumsum, 1, {{OP_FLOAT, SHAPE(2, 3, 5)}}, .arg = {1}},
        {"softcap", build_softcap, 1, {{OP_FLOAT, SHAPE(2, 3, 5), .lo = -9, .hi = 9}}, .arg = {4}},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        grad_check(&cases[i]);
}

/* ---- wrong calls ---- */

static vv_node *zeros(vv_graph *g, vv_dtype dtype, int ndim, int64_t a, int64_t b, int64_t c,
                      int64_t d)
{
    const int64_t shape[4] = {a, b, c, d};
    return vv_zeros(g, dtype, ndim, shape);
}

/* The op fails and its sentence holds `text`; the graph is reset. */
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
    vv_graph *g = new_graph("ref");
    assert_refused(g,
                   vv_rms_norm(zeros(g, VV_F32, 2, 4, 3, 0, 0), zeros(g, VV_F32, 1, 4, 0, 0, 0),
                               1e-5),
                   "rms_norm: gamma has shape [4], x has 3 channels");
    assert_refused(g, vv_rms_norm(zeros(g, VV_F32, 2, 4, 3, 0, 0), NULL, -1.0),
                   "rms_norm: eps is -1");
    assert_refused(g, vv_rms_norm(zeros(g, VV_I32, 2, 4, 3, 0, 0), NULL, 1e-5), "rms_norm");
    assert_refused(g,
                   vv_rotary(zeros(g, VV_F32, 3, 4, 3, 2, 0), zeros(g, VV_F32, 1, 1, 0, 0, 0), 0),
                   "rotary: x must have 4 dimensions");
    assert_refused(g,
                   vv_rotary(zeros(g, VV_F32, 4, 4, 3, 2, 5), zeros(g, VV_F32, 1, 2, 0, 0, 0), 0),
                   "rotary: heads of x are 5 wide");
    assert_refused(g,
                   vv_rotary(zeros(g, VV_F32, 4, 4, 3, 2, 6), zeros(g, VV_F32, 1, 6, 0, 0, 0), 0),
                   "rotary: frequencies has shape [6], expected [3]");
    assert_refused(g,
                   vv_rotary(zeros(g, VV_F32, 4, 4, 3, 2, 6), zeros(g, VV_F64, 1, 3, 0, 0, 0), 0),
                   "rotary: frequencies is f64, must be f32");
    assert_refused(g, vv_cumsum(zeros(g, VV_BOOL, 1, 3, 0, 0, 0), false), "cumsum: not defined");
    assert_refused(g, vv_cumsum(zeros(g, VV_F32, 0, 0, 0, 0, 0), false), "cumsum: x has no axis");
    assert_refused(g, vv_softcap(zeros(g, VV_F32, 1, 3, 0, 0, 0), 0.0), "softcap: the cap is 0");
    assert_refused(g, vv_softcap(zeros(g, VV_F32, 1, 3, 0, 0, 0), NAN), "softcap: the cap is nan");
    vv_graph_free(g);
}

/* ---- memory ---- */

static vv_status run_network(void)
{
    vv_status status;
    vv_graph *g = NULL;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    VV_GO(vv_graph_new(&g, &opts));
    const int64_t shape[4] = {2, 6, 2, 8}, half[1] = {4};
    vv_node *x = vv_full(g, VV_F32, 4, shape, 0.5), *grad = NULL;
    vv_node *y = vv_rotary(vv_rms_norm(x, NULL, 1e-5), vv_full(g, VV_F32, 1, half, 0.1), 3);
    vv_node *loss = vv_sum_all(vv_softcap(vv_cumsum(y, true), 3));
    VV_GO(vv_graph_status(g));
    VV_GO(vv_grad(g, loss, &x, 1, &grad));
    VV_GO(vv_eval(g, &grad, 1));
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
        cmocka_unit_test(test_rms_norm_values), cmocka_unit_test(test_rotary_values),
        cmocka_unit_test(test_cumsum_values),   cmocka_unit_test(test_softcap_values),
        cmocka_unit_test(test_matrix),          cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_sentences),       cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
