/* test_cpu_elementwise.c - element-wise kernels of backend `cpu` agree with `ref`: every kind, odd
 * sizes, broadcasting of all forms, bf16, NaN and infinities, in place, on any number of threads. A
 * fused program gives what its steps give one by one. */
#include "kernel_check.h"

static check unary_check(vv_op op, vv_unary kind, vv_dtype dtype, int64_t n, double lo, double hi)
{
    check c = {.op = op};
    c.attr.unary.kind = kind;
    c.attr.unary.a = kind == VV_UNARY_CLAMP ? -0.7 : kind == VV_UNARY_POW ? 1.7 : 0.3;
    c.attr.unary.b = kind == VV_UNARY_CLAMP ? 0.9 : -0.4;
    add_in(&c, dtype, 1, &n, lo, hi);
    if (op == VV_OP_UNARY_GRAD)
        add_in(&c, dtype, 1, &n, lo, hi);
    add_out(&c, dtype, 1, &n);
    return c;
}

static bool needs_positive(int kind)
{
    return kind == VV_UNARY_LOG || kind == VV_UNARY_SQRT || kind == VV_UNARY_RSQRT ||
           kind == VV_UNARY_RECIPROCAL || kind == VV_UNARY_POW;
}

static void every_unary(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 7, 2049, 70001};
    for (int kind = 0; kind < VV_UNARY_COUNT; kind++)
        for (int s = 0; s < 4; s++)
            for (int half = 0; half < 2; half++) {
                const vv_dtype dtype = half ? VV_BF16 : VV_F32;
                const double lo = needs_positive(kind) ? 0.05 : -6.0;
                check c = unary_check(VV_OP_UNARY, (vv_unary)kind, dtype, sizes[s], lo, 6.0);
                check_with_ref(&c);
                c = unary_check(VV_OP_UNARY_GRAD, (vv_unary)kind, dtype, sizes[s], lo, 6.0);
                check_with_ref(&c);
            }
}

/* Element by element to a few units in the last place, where the value is not tiny. */
static void transcendental_accuracy(void **state)
{
    (void)state;
    const struct {
        vv_unary kind;
        double lo, hi, relative;
    } rows[] = {
        {VV_UNARY_EXP, -87.0, 88.0, 3e-7},      {VV_UNARY_LOG, 1e-30, 1e3, 3e-7},
        {VV_UNARY_LOG, 0.9, 1.1, 3e-7},         {VV_UNARY_TANH, -0.7, 0.7, 4e-7},
        {VV_UNARY_TANH, -9.0, 9.0, 4e-7},       {VV_UNARY_SIGMOID, -60.0, 60.0, 5e-7},
        {VV_UNARY_SOFTPLUS, -60.0, 60.0, 5e-7}, {VV_UNARY_GELU, -1.4, 6.0, 1e-6},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        check c = unary_check(VV_OP_UNARY, rows[r].kind, VV_F32, 40000, rows[r].lo, rows[r].hi);
        vv_buf want[MAX_BUFS], got[MAX_BUFS];
        outs_like(want, &c);
        outs_like(got, &c);
        run_kernel(vvi_ref_unary, &c, c.in, want);
        run_kernel(vvi_cpu_unary, &c, c.in, got);
        for (int64_t i = 0; i < c.out[0].count; i++)
            assert_near(vvi_ref_get(&got[0], i), vvi_ref_get(&want[0], i), 1e-37, rows[r].relative);
        outs_free(want, &c);
        outs_free(got, &c);
        check_free(&c);
    }
}

static void special_values(void **state)
{
    (void)state;
    const float specials[] = {NAN,   INFINITY, -INFINITY, 0.0f,    -0.0f, 1e-40f,
                              3e38f, -3e38f,   90.0f,     -110.0f, 88.5f, -88.0f};
    const int kinds[] = {VV_UNARY_EXP,     VV_UNARY_LOG,     VV_UNARY_SQRT, VV_UNARY_RELU,
                         VV_UNARY_SIGMOID, VV_UNARY_TANH,    VV_UNARY_ABS,  VV_UNARY_CLAMP,
                         VV_UNARY_SIGN,    VV_UNARY_SOFTPLUS};
    const int64_t n = sizeof specials / sizeof specials[0];
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        check c = unary_check(VV_OP_UNARY, (vv_unary)kinds[k], VV_F32, n, 0, 1);
        memcpy(c.in[0].data, specials, sizeof specials);
        vv_buf want[MAX_BUFS], got[MAX_BUFS];
        outs_like(want, &c);
        outs_like(got, &c);
        run_kernel(vvi_ref_unary, &c, c.in, want);
        run_kernel(vvi_cpu_unary, &c, c.in, got);
        for (int64_t i = 0; i < n; i++) {
            const double g = vvi_ref_get(&got[0], i), w = vvi_ref_get(&want[0], i);
            if (isnan(w) != isnan(g) ||
                (!isnan(w) && g != w && !(fabs(g - w) <= 1e-44 + 1e-6 * fabs(w))))
                fail_msg("kind %d of %g: %g, expected %g", kinds[k], (double)specials[i], g, w);
        }
        outs_free(want, &c);
        outs_free(got, &c);
        check_free(&c);
    }
}

static void binary_broadcasts(void **state)
{
    (void)state;
    const struct {
        int na, nb, ny;
        int64_t a[4], b[4], y[4];
    } rows[] = {
        {1, 1, 1, {70001}, {70001}, {70001}},
        {4, 4, 4, {3, 9, 11, 24}, {3, 9, 11, 24}, {3, 9, 11, 24}},
        {2, 0, 2, {300, 130}, {0}, {300, 130}},
        {0, 2, 2, {0}, {13, 17}, {13, 17}},
        {4, 1, 4, {5, 9, 7, 24}, {24}, {5, 9, 7, 24}},
        {2, 1, 2, {40, 3}, {3}, {40, 3}},
        {2, 1, 2, {9, 5000}, {5000}, {9, 5000}},
        {4, 4, 4, {4, 16, 16, 33}, {4, 1, 1, 33}, {4, 16, 16, 33}},
        {2, 2, 2, {70, 257}, {70, 1}, {70, 257}},
        {2, 2, 2, {1, 31}, {29, 1}, {29, 31}},
        {4, 3, 4, {2, 5, 1, 7}, {5, 6, 1}, {2, 5, 6, 7}},
        {3, 2, 3, {6, 10, 50}, {10, 50}, {6, 10, 50}},
        {2, 1, 2, {1, 1}, {1}, {1, 1}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int kind = 0; kind < VV_BINARY_COUNT; kind++)
            for (int half = 0; half < 2; half++) {
                const vv_dtype dtype = half ? VV_BF16 : VV_F32;
                check c = {.op = VV_OP_BINARY};
                c.attr.binary.kind = kind;
                add_in(&c, dtype, rows[r].na, rows[r].a, -2, 2);
                vv_buf *b = add_in(&c, dtype, rows[r].nb, rows[r].b, 0.5, 2);
                if (kind == VV_BINARY_EQUAL && rows[r].na == rows[r].nb &&
                    c.in[0].count == b->count)
                    memcpy(b->data, c.in[0].data, (size_t)(b->count / 2) * vv_dtype_size(dtype));
                add_out(&c, kind >= VV_BINARY_EQUAL ? VV_BOOL : dtype, rows[r].ny, rows[r].y);
                check_with_ref(&c);
            }
}

static void binary_in_place(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++)
        for (int half = 0; half < 2; half++) {
            check c = {.op = VV_OP_BINARY};
            c.attr.binary.kind = VV_BINARY_SUB;
            add_in(&c, half ? VV_BF16 : VV_F32, SHAPE(123, 517), -2, 2);
            add_in(&c, half ? VV_BF16 : VV_F32, SHAPE(123, 517), -2, 2);
            add_out(&c, half ? VV_BF16 : VV_F32, SHAPE(123, 517));
            check_in_place(&c, which);
        }
}

static void where_and_cast(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        const vv_dtype dtype = half ? VV_BF16 : VV_F32;
        check c = {.op = VV_OP_WHERE};
        add_in(&c, VV_BOOL, SHAPE(100, 1), 0, 2);
        add_in(&c, dtype, SHAPE(100, 77), -1, 1);
        add_in(&c, dtype, 0, NULL, -1, 1);
        add_out(&c, dtype, SHAPE(100, 77));
        check_with_ref(&c);
    }
    const vv_dtype types[] = {VV_F32, VV_BF16, VV_I32, VV_I64, VV_U8, VV_BOOL};
    for (int from = 0; from < 6; from++)
        for (int to = 0; to < 6; to++) {
            check c = {.op = VV_OP_CAST};
            add_in(&c, types[from], SHAPE(33, 1111), types[from] == VV_BOOL ? 0 : -300,
                   types[from] == VV_BOOL ? 2 : 300);
            add_out(&c, types[to], SHAPE(33, 1111));
            if (cpu_kernel(&c))
                check_with_ref(&c);
            else {
                assert_true(from >= 2 && to >= 2);
                check_free(&c);
            }
        }
}

static vv_fused_step step_of(vv_op op, int64_t kind, double a, double b, vv_dtype dtype, int s0,
                             int s1, int s2)
{
    vv_fused_step step;
    memset(&step, 0, sizeof step);
    step.op = op;
    step.attr.unary.kind = kind;
    step.attr.unary.a = a;
    step.attr.unary.b = b;
    step.dtype = dtype;
    step.src[0] = s0;
    step.src[1] = s1;
    step.src[2] = s2;
    return step;
}

/* r4 = x + bias; r5 = gelu(r4); r6 = r5 * scale; r7 = r6 < x; r8 = where(r7, r6, gate); r9 = r8 +
   r4. */
static void fused_program(check *c, vv_dtype dtype, int64_t rows, int64_t cols)
{
    memset(c, 0, sizeof *c);
    c->op = VV_OP_FUSED;
    const int64_t shape[] = {rows, cols}, column[] = {rows, 1};
    add_in(c, dtype, 2, shape, -2, 2);
    add_in(c, dtype, 1, &cols, -1, 1);
    add_in(c, dtype, 0, NULL, 0.5, 1.5);
    add_in(c, dtype, 2, column, -1, 1);
    add_out(c, dtype, 2, shape);
    add_out(c, VV_BOOL, 2, shape);
    add_out(c, VV_F32, 2, shape);
    vv_fused *f = &c->fused;
    f->n_in = 4;
    f->n_steps = 6;
    f->steps[0] = step_of(VV_OP_BINARY, VV_BINARY_ADD, 0, 0, dtype, 0, 1, 0);
    f->steps[1] = step_of(VV_OP_UNARY, VV_UNARY_GELU, 0, 0, dtype, 4, 0, 0);
    f->steps[2] = step_of(VV_OP_BINARY, VV_BINARY_MUL, 0, 0, dtype, 5, 2, 0);
    f->steps[3] = step_of(VV_OP_BINARY, VV_BINARY_LESS, 0, 0, VV_BOOL, 6, 0, 0);
    f->steps[4] = step_of(VV_OP_WHERE, 0, 0, 0, dtype, 7, 6, 3);
    f->steps[5] = step_of(VV_OP_BINARY, VV_BINARY_ADD, 0, 0, VV_F32, 8, 4, 0);
    f->n_out = 3;
    f->out[0] = 5; /* written early: in place with x, which step 3 still reads */
    f->out[1] = 7;
    f->out[2] = 9;
}

static void fused_agrees_with_its_steps(void **state)
{
    (void)state;
    const int64_t sizes[][2] = {{1, 1}, {7, 13}, {300, 130}, {9, 5000}, {2000, 48}};
    for (int s = 0; s < 5; s++)
        for (int half = 0; half < 2; half++) {
            const vv_dtype dtype = half ? VV_BF16 : VV_F32;
            check c;
            fused_program(&c, dtype, sizes[s][0], sizes[s][1]);
            vv_buf want[MAX_BUFS];
            outs_like(want, &c);
            const int64_t cols = sizes[s][1];
            for (int64_t i = 0; i < want[0].count; i++) {
                const double x = vvi_ref_get(&c.in[0], i), bias = vvi_ref_get(&c.in[1], i % cols);
                const double r4 = x + bias, r5 = r4 * 0.5 * (1.0 + erf(r4 / sqrt(2.0)));
                const double r6 = r5 * vvi_ref_get(&c.in[2], 0);
                vvi_ref_set(&want[0], i, r5);
                vvi_ref_set(&want[1], i, r6 < x);
                vvi_ref_set(&want[2], i, (r6 < x ? r6 : vvi_ref_get(&c.in[3], i / cols)) + r4);
            }
            check_against(&c, want);
            outs_free(want, &c);
            check_free(&c);
        }
}

static void fused_in_place(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        check c;
        fused_program(&c, half ? VV_BF16 : VV_F32, 300, 130);
        check_in_place(&c, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_unary),
        cmocka_unit_test(transcendental_accuracy),
        cmocka_unit_test(special_values),
        cmocka_unit_test(binary_broadcasts),
        cmocka_unit_test(binary_in_place),
        cmocka_unit_test(where_and_cast),
        cmocka_unit_test(fused_agrees_with_its_steps),
        cmocka_unit_test(fused_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
