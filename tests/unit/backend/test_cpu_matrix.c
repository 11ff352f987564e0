/* test_cpu_matrix.c - convolutions and matrix products of backend `cpu` agree with `ref`: strides,
 * padding, dilation, groups, odd channels, bias, transposes, batches, in f32 and bf16. */
#include "kernel_check.h"

#include "vvi_config.h"

#if VVI_HAVE_DNNL

typedef struct conv_case {
    int64_t n, h, w, c, o, kh, kw, stride, pad, dilation, groups,
        extra; /* extra: rows beyond the last tap */
} conv_case;

static const conv_case cases[] = {
    {2, 8, 8, 16, 32, 3, 3, 1, 1, 1, 1, 0}, {3, 7, 9, 3, 8, 3, 3, 1, 1, 1, 1, 0},
    {2, 9, 9, 8, 16, 3, 3, 2, 1, 1, 1, 0},  {2, 10, 10, 8, 16, 3, 3, 2, 0, 1, 1, 1},
    {1, 11, 11, 5, 7, 3, 3, 1, 2, 2, 1, 0}, {2, 6, 6, 32, 32, 3, 3, 1, 1, 1, 32, 0},
    {2, 6, 6, 12, 24, 3, 3, 1, 1, 1, 3, 0}, {2, 8, 8, 24, 40, 1, 1, 1, 0, 1, 1, 0},
    {2, 8, 8, 16, 16, 1, 1, 2, 0, 1, 1, 0}, {1, 14, 14, 3, 16, 7, 7, 2, 3, 1, 1, 0},
    {1, 8, 8, 3, 12, 4, 4, 4, 0, 1, 1, 0},  {1, 4, 4, 1, 1, 3, 1, 1, 0, 1, 1, 0},
};

static int64_t out_size(int64_t in, int64_t k, const conv_case *c)
{
    return (in + 2 * c->pad - c->dilation * (k - 1) - 1) / c->stride + 1;
}

static void conv_check(const conv_case *k, vv_op op, vv_dtype dtype, vv_dtype result, bool bias)
{
    const int64_t x[] = {k->n, k->h, k->w, k->c}, w[] = {k->o, k->c / k->groups, k->kh, k->kw};
    const int64_t y[] = {k->n, out_size(k->h, k->kh, k), out_size(k->w, k->kw, k), k->o};
    check c = {.op = op, .least = 1.0, .tolerance = dtype == VV_BF16 ? 1e-5 : 2e-6};
    for (int d = 0; d < 2; d++) {
        c.attr.conv.stride[d] = k->stride;
        c.attr.conv.pad[d] = k->pad;
        c.attr.conv.dilation[d] = k->dilation;
    }
    c.attr.conv.groups = k->groups;
    if (op == VV_OP_CONV2D) {
        add_in(&c, dtype, 4, x, -1, 1);
        add_in(&c, dtype, 4, w, -1, 1);
        if (bias)
            add_in(&c, dtype, 1, &k->o, -1, 1);
        add_out(&c, result, 4, y);
    } else if (op == VV_OP_CONV2D_GRAD_DATA) {
        add_in(&c, dtype, 4, y, -1, 1);
        add_in(&c, dtype, 4, w, -1, 1);
        if (bias)
            add_in(&c, dtype, 1, &k->c, -1, 1);
        add_out(&c, result, 4, x);
    } else {
        add_in(&c, dtype, 4, x, -1, 1);
        add_in(&c, dtype, 4, y, -1, 1);
        add_out(&c, result, 4, w);
    }
    c.thread_dependent = true;
    if (k->groups == 1 && k->stride == 1 && k->c >= 32 && k->o >= 32 && dtype == VV_F32) {
        assert_string_equal(cpu_kernel(&c)->name, "winograd");
        c.tolerance = 2e-5;
    }
    check_with_ref(&c);
}

static void convolutions(void **state)
{
    (void)state;
    const vv_op ops[] = {VV_OP_CONV2D, VV_OP_CONV2D_GRAD_DATA, VV_OP_CONV2D_GRAD_WEIGHT};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int op = 0; op < 3; op++) {
            conv_check(&cases[i], ops[op], VV_F32, VV_F32, i % 2);
            conv_check(&cases[i], ops[op], VV_BF16, VV_BF16, (i + 1) % 2);
            conv_check(&cases[i], ops[op], VV_BF16, VV_F32, i % 2);
        }
}

/* Shapes that Winograd takes: partly filled tiles, every padding. */
static void winograd_convolutions(void **state)
{
    (void)state;
    const conv_case big[] = {
        {16, 8, 8, 32, 40, 3, 3, 1, 1, 1, 1, 0},
        {17, 9, 10, 36, 32, 3, 3, 1, 0, 1, 1, 0},
        {64, 4, 4, 32, 32, 3, 3, 1, 1, 1, 1, 0},
        {11, 11, 7, 70, 33, 3, 3, 1, 2, 1, 1, 0},
    };
    const vv_op ops[] = {VV_OP_CONV2D, VV_OP_CONV2D_GRAD_DATA, VV_OP_CONV2D_GRAD_WEIGHT};
    for (size_t i = 0; i < sizeof big / sizeof big[0]; i++)
        for (int op = 0; op < 3; op++)
            conv_check(&big[i], ops[op], VV_F32, VV_F32, i % 2);
}

/* More tiles than fit at once: against the direct kernel, `ref` would take long. */
static void winograd_in_groups(void **state)
{
    (void)state;
    const int64_t image[] = {100, 16, 16, 32}, weights[] = {32, 32, 3, 3};
    for (int op = VV_OP_CONV2D; op <= VV_OP_CONV2D_GRAD_WEIGHT; op++) {
        const bool last = op == VV_OP_CONV2D_GRAD_WEIGHT;
        check c = {.op = (vv_op)op, .tolerance = 2e-5, .thread_dependent = true};
        for (int d = 0; d < 2; d++)
            c.attr.conv.stride[d] = c.attr.conv.dilation[d] = c.attr.conv.pad[d] = 1;
        c.attr.conv.groups = 1;
        add_in(&c, VV_F32, 4, image, -1, 1);
        add_in(&c, VV_F32, 4, last ? image : weights, -1, 1);
        add_out(&c, VV_F32, 4, last ? weights : image);
        vv_buf want[MAX_BUFS];
        outs_like(want, &c);
        assert_string_equal(vvi_backend_cpu.kernels[op][1].name, "onednn");
        run_kernel(&vvi_backend_cpu.kernels[op][1], &c, c.in, want);
        check_against(&c, want);
        outs_free(want, &c);
        check_free(&c);
    }
}

static void matmul_check(int na, const int64_t *a, int nb, const int64_t *b, int ny,
                         const int64_t *y, bool ta, bool tb, bool bias, vv_dtype dtype,
                         vv_dtype result)
{
    check c = {.op = VV_OP_MATMUL, .least = 1.0, .tolerance = dtype == VV_BF16 ? 1e-5 : 2e-6};
    c.attr.matmul.trans_a = ta;
    c.attr.matmul.trans_b = tb;
    add_in(&c, dtype, na, a, -1, 1);
    add_in(&c, dtype, nb, b, -1, 1);
    if (bias)
        add_in(&c, VV_F32, 1, &y[ny - 1], -1, 1);
    add_out(&c, result, ny, y);
    c.thread_dependent = true;
    check_with_ref(&c);
}

static void products(void **state)
{
    (void)state;
    const int64_t sizes[][3] = {{1, 1, 1}, {5, 7, 3}, {64, 33, 17}, {300, 40, 64}, {2, 130, 10}};
    for (int s = 0; s < 5; s++)
        for (int t = 0; t < 16; t++) {
            const int64_t m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
            const bool ta = t & 1, tb = t & 2, bias = t & 4;
            const vv_dtype dtype = t & 8 ? VV_BF16 : VV_F32;
            const int64_t a[] = {ta ? k : m, ta ? m : k}, b[] = {tb ? n : k, tb ? k : n},
                          y[] = {m, n};
            matmul_check(2, a, 2, b, 2, y, ta, tb, bias, dtype, dtype);
            matmul_check(2, a, 2, b, 2, y, ta, tb, bias, dtype, VV_F32);
        }
}

static void batched_products(void **state)
{
    (void)state;
    const struct {
        int na, nb, ny;
        int64_t a[4], b[4], y[4];
    } rows[] = {
        {3, 2, 3, {4, 0, 0}, {0, 0}, {4, 0, 0}},
        {3, 3, 3, {4, 0, 0}, {4, 0, 0}, {4, 0, 0}},
        {4, 4, 4, {2, 3, 0, 0}, {2, 3, 0, 0}, {2, 3, 0, 0}},
        {4, 4, 4, {2, 3, 0, 0}, {1, 3, 0, 0}, {2, 3, 0, 0}},
        {4, 3, 4, {2, 3, 0, 0}, {3, 0, 0}, {2, 3, 0, 0}},
        {2, 3, 3, {0, 0}, {5, 0, 0}, {5, 0, 0}},
        {4, 4, 4, {2, 1, 0, 0}, {1, 3, 0, 0}, {2, 3, 0, 0}},
    };
    const int64_t m = 9, k = 20, n = 13;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int t = 0; t < 8; t++) {
            const bool ta = t & 1, tb = t & 2;
            const vv_dtype dtype = t & 4 ? VV_BF16 : VV_F32;
            int64_t a[4], b[4], y[4];
            memcpy(a, rows[r].a, sizeof a);
            memcpy(b, rows[r].b, sizeof b);
            memcpy(y, rows[r].y, sizeof y);
            a[rows[r].na - 2] = ta ? k : m;
            a[rows[r].na - 1] = ta ? m : k;
            b[rows[r].nb - 2] = tb ? n : k;
            b[rows[r].nb - 1] = tb ? k : n;
            y[rows[r].ny - 2] = m;
            y[rows[r].ny - 1] = n;
            matmul_check(rows[r].na, a, rows[r].nb, b, rows[r].ny, y, ta, tb, t & 1, dtype, dtype);
        }
}

/* Whichever allocation fails, prepare reports ENOMEM and leaves nothing behind. */
static void prepare_survives_no_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 7; i++) {
        const int op = VV_OP_MATMUL + (i < 4 ? i : i - 3);
        const int64_t channels = i < 4 ? 8 : 32; /* the latter: Winograd */
        check c = {.op = (vv_op)op};
        for (int d = 0; d < 2; d++)
            c.attr.conv.stride[d] = c.attr.conv.dilation[d] = c.attr.conv.pad[d] = 1;
        c.attr.conv.groups = 1;
        if (op == VV_OP_MATMUL) {
            memset(&c.attr, 0, sizeof c.attr);
            c.attr.matmul.trans_b = 1;
            add_in(&c, VV_BF16, SHAPE(300, 20), -1, 1);
            add_in(&c, VV_BF16, SHAPE(30, 20), -1, 1);
            add_in(&c, VV_F32, SHAPE(30), -1, 1);
            add_out(&c, VV_F32, SHAPE(300, 30));
        } else {
            const int64_t image[] = {16, 8, 8, channels}, weights[] = {channels, channels, 3, 3};
            add_in(&c, VV_F32, 4, image, -1, 1);
            add_in(&c, VV_F32, 4, op == VV_OP_CONV2D_GRAD_WEIGHT ? image : weights, -1, 1);
            add_out(&c, VV_F32, 4, op == VV_OP_CONV2D_GRAD_WEIGHT ? weights : image);
        }
        const vv_kernel *kernel = cpu_kernel(&c);
        vv_call call = {
            .op = c.op, .attr = &c.attr, .n_in = c.n_in, .n_out = 1, .in = c.in, .out = c.out};
        const int64_t live = vv_memory_live_count();
        size_t bytes;
        uint64_t nth = 0;
        vv_status status;
        do {
            vv_memory_fail_at(++nth);
            vv_error_clear();
            status = kernel->prepare(&call, &call.state, &bytes);
            vv_memory_fail_at(0);
            if (status != VV_OK) {
                assert_int_equal(status, VV_ENOMEM);
                assert_true(vv_error()[0]);
                assert_int_equal(vv_memory_live_count(), live);
            }
        } while (status != VV_OK);
        assert_true(nth > 1);
        kernel->release(call.state);
        assert_int_equal(vv_memory_live_count(), live);
        check_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prepare_survives_no_memory),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(winograd_convolutions),
        cmocka_unit_test(winograd_in_groups),
        cmocka_unit_test(products),
        cmocka_unit_test(batched_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

/* Without oneDNN, matrix ops fall to `ref`. */
static void fall_to_ref(void **state)
{
    (void)state;
    assert_null(vvi_backend_cpu.kernels[VV_OP_MATMUL]);
    assert_ptr_equal(vvi_backend_cpu.next, &vvi_backend_ref);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fall_to_ref)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
