/* test_cpu_norm.c - norms, rotary embedding, softmax and cross-entropy of backend `cpu` agree with
 * `ref`: few and many channels, odd sizes, large means, fused residual and relu, bf16; wrong labels
 * are refused with the same sentence; results go in place where the table says so. */
#include "kernel_check.h"

static const vv_dtype types[] = {VV_F32, VV_BF16};

static const int64_t images[][4] = {
    {2, 3, 3, 3}, {4, 8, 8, 64}, {3, 5, 7, 33}, {128, 16, 16, 1}, {2, 1, 1, 700}, {16, 32, 32, 16},
};

static check batch_norm(const int64_t *shape, vv_dtype dtype, bool residual, bool relu, double lo,
                        double hi)
{
    const int64_t c = shape[3];
    check k = {.op = VV_OP_BATCH_NORM};
    k.attr.norm.eps = 1e-5;
    k.attr.norm.residual = residual;
    k.attr.norm.relu = relu;
    add_in(&k, dtype, 4, shape, lo, hi);
    add_in(&k, VV_F32, 1, &c, 0.5, 1.5);
    add_in(&k, VV_F32, 1, &c, -1, 1);
    if (residual)
        add_in(&k, dtype, 4, shape, -1, 1);
    add_out(&k, dtype, 4, shape);
    add_out(&k, VV_F32, 1, &c);
    add_out(&k, VV_F32, 1, &c);
    return k;
}

static void batch_norm_forward(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof images / sizeof images[0]; s++)
        for (int t = 0; t < 2; t++)
            for (int fused = 0; fused < 4; fused++) {
                check k = batch_norm(images[s], types[t], fused & 1, fused & 2, -2, 3);
                k.tolerance = 4e-6;
                check_with_ref(&k);
            }
}

/* Mean 1000 times the deviation: the variance keeps three digits at least. */
static void batch_norm_large_mean(void **state)
{
    (void)state;
    check k = batch_norm((const int64_t[]){8, 16, 16, 24}, VV_F32, false, false, 999.0, 1001.0);
    k.tolerance = 2e-4;
    check_with_ref(&k);
}

static check batch_norm_grad(const int64_t *shape, vv_dtype dtype, bool relu)
{
    const int64_t c = shape[3];
    check k = {.op = VV_OP_BATCH_NORM_GRAD, .tolerance = 5e-6};
    k.attr.norm.eps = 1e-5;
    k.attr.norm.relu = relu;
    add_in(&k, dtype, 4, shape, -1, 1);
    add_in(&k, dtype, 4, shape, -1, 2);
    add_in(&k, VV_F32, 1, &c, 0.5, 1.5);
    add_in(&k, VV_F32, 1, &c, 0.3, 0.6);
    add_in(&k, VV_F32, 1, &c, 0.5, 1.0);
    if (relu)
        add_in(&k, dtype, 4, shape, -1, 1);
    add_out(&k, dtype, 4, shape);
    add_out(&k, VV_F32, 1, &c);
    add_out(&k, VV_F32, 1, &c);
    if (relu)
        add_out(&k, dtype, 4, shape);
    return k;
}

static void batch_norm_backward(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof images / sizeof images[0]; s++)
        for (int t = 0; t < 2; t++)
            for (int relu = 0; relu < 2; relu++) {
                check k = batch_norm_grad(images[s], types[t], relu);
                check_with_ref(&k);
                if (images[s][3] == 33)
                    for (int which = 0; which < 2; which++) {
                        k = batch_norm_grad(images[s], types[t], relu);
                        check_in_place(&k, which);
                    }
            }
}

static void layer_norms(void **state)
{
    (void)state;
    const int64_t shapes[][2] = {{1, 1}, {7, 5}, {300, 64}, {33, 769}, {5, 9000}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int t = 0; t < 2; t++) {
            const int64_t *shape = shapes[s];
            check k = {.op = VV_OP_LAYER_NORM, .tolerance = 3e-6};
            k.attr.norm.eps = 1e-5;
            add_in(&k, types[t], 2, shape, -1, 3);
            add_in(&k, VV_F32, 1, &shape[1], 0.5, 1.5);
            add_in(&k, VV_F32, 1, &shape[1], -1, 1);
            add_out(&k, types[t], 2, shape);
            add_out(&k, VV_F32, 1, shape);
            add_out(&k, VV_F32, 1, shape);
            check_with_ref(&k);
            check g = {.op = VV_OP_LAYER_NORM_GRAD, .tolerance = 5e-6};
            g.attr.norm.eps = 1e-5;
            add_in(&g, types[t], 2, shape, -1, 1);
            add_in(&g, types[t], 2, shape, -1, 3);
            add_in(&g, VV_F32, 1, &shape[1], 0.5, 1.5);
            add_in(&g, VV_F32, 1, shape, 0.8, 1.2);
            add_in(&g, VV_F32, 1, shape, 0.5, 1.0);
            add_out(&g, types[t], 2, shape);
            add_out(&g, VV_F32, 1, &shape[1]);
            add_out(&g, VV_F32, 1, &shape[1]);
            check_with_ref(&g);
        }
}

static void rms_norms(void **state)
{
    (void)state;
    const int64_t shapes[][2] = {{1, 1}, {7, 5}, {300, 64}, {33, 769}, {5, 9000}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int t = 0; t < 2; t++) {
            const int64_t *shape = shapes[s];
            check k = {.op = VV_OP_RMS_NORM, .tolerance = 3e-6};
            k.attr.norm.eps = 1e-5;
            add_in(&k, types[t], 2, shape, -1, 3);
            add_in(&k, VV_F32, 1, &shape[1], 0.5, 1.5);
            add_out(&k, types[t], 2, shape);
            add_out(&k, VV_F32, 1, shape);
            check_with_ref(&k);
            for (int which = -1; which < 2; which++) { /* against ref, then in place */
                check g = {.op = VV_OP_RMS_NORM_GRAD, .tolerance = 5e-6};
                g.attr.norm.eps = 1e-5;
                add_in(&g, types[t], 2, shape, -1, 1);
                add_in(&g, types[t], 2, shape, -1, 3);
                add_in(&g, VV_F32, 1, &shape[1], 0.5, 1.5);
                add_in(&g, VV_F32, 1, shape, 0.5, 1.0);
                add_out(&g, types[t], 2, shape);
                add_out(&g, VV_F32, 1, &shape[1]);
                if (which < 0)
                    check_with_ref(&g);
                else
                    check_in_place(&g, which);
            }
        }
}

static void rotaries(void **state)
{
    (void)state;
    const int64_t shapes[][4] = {{1, 1, 1, 2}, {2, 65, 3, 64}, {3, 7, 5, 34}, {1, 700, 1, 128}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int t = 0; t < 2; t++)
            for (int which = -1; which < 1; which++) {
                const int64_t half[1] = {shapes[s][3] / 2};
                check k = {.op = VV_OP_ROTARY, .tolerance = 2e-6};
                k.attr.rotary.offset = (int64_t)(s * 1000);
                k.attr.rotary.inverse = t;
                add_in(&k, types[t], 4, shapes[s], -1, 1);
                add_in(&k, VV_F32, 1, half, 0, 1);
                add_out(&k, types[t], 4, shapes[s]);
                if (which < 0)
                    check_with_ref(&k);
                else
                    check_in_place(&k, which);
            }
}

static void group_norms(void **state)
{
    (void)state;
    const int64_t shapes[][4] = {{2, 3, 3, 6}, {5, 8, 8, 32}, {1, 20, 20, 30}, {3, 1, 1, 8}};
    const int64_t groups[] = {2, 8, 30, 1};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int t = 0; t < 2; t++) {
            const int64_t *shape = shapes[s], stats[] = {shape[0], groups[s]};
            check k = {.op = VV_OP_GROUP_NORM, .tolerance = 4e-6};
            k.attr.norm.eps = 1e-3;
            k.attr.norm.groups = groups[s];
            add_in(&k, types[t], 4, shape, -1, 3);
            add_in(&k, VV_F32, 1, &shape[3], 0.5, 1.5);
            add_in(&k, VV_F32, 1, &shape[3], -1, 1);
            add_out(&k, types[t], 4, shape);
            add_out(&k, VV_F32, 2, stats);
            add_out(&k, VV_F32, 2, stats);
            check_with_ref(&k);
            check g = {.op = VV_OP_GROUP_NORM_GRAD, .tolerance = 6e-6};
            g.attr.norm.eps = 1e-3;
            g.attr.norm.groups = groups[s];
            add_in(&g, types[t], 4, shape, -1, 1);
            add_in(&g, types[t], 4, shape, -1, 3);
            add_in(&g, VV_F32, 1, &shape[3], 0.5, 1.5);
            add_in(&g, VV_F32, 2, stats, 0.8, 1.2);
            add_in(&g, VV_F32, 2, stats, 0.5, 1.0);
            add_out(&g, types[t], 4, shape);
            add_out(&g, VV_F32, 1, &shape[3]);
            add_out(&g, VV_F32, 1, &shape[3]);
            check_with_ref(&g);
        }
}

static const int64_t rows_of[][2] = {{1, 1}, {9, 10}, {130, 100}, {3, 50257}};

static void softmaxes(void **state)
{
    (void)state;
    for (int s = 0; s < 4; s++)
        for (int t = 0; t < 2; t++)
            for (int log = 0; log < 2; log++) {
                check k = {.op = VV_OP_SOFTMAX};
                k.attr.softmax.log = log;
                add_in(&k, types[t], 2, rows_of[s], -20, 20);
                add_out(&k, types[t], 2, rows_of[s]);
                check_with_ref(&k);
                check g = {.op = VV_OP_SOFTMAX_GRAD, .tolerance = 2e-5};
                g.attr.softmax.log = log;
                add_in(&g, types[t], 2, rows_of[s], -1, 1);
                add_in(&g, types[t], 2, rows_of[s], log ? -5 : 0, log ? 0 : 0.1);
                add_out(&g, types[t], 2, rows_of[s]);
                check_with_ref(&g);
            }
}

static check entropy(vv_op op, const int64_t *shape, vv_dtype dtype, vv_dtype target, bool weights)
{
    check k = {.op = op, .tolerance = 3e-6};
    k.attr.cross_entropy.ignore_index = -100;
    if (op == VV_OP_CROSS_ENTROPY_GRAD)
        add_in(&k, VV_F32, 1, shape, 0, 2);
    add_in(&k, dtype, 2, shape, -10, 10);
    if (vv_dtype_is_float(target)) {
        vv_buf *t = add_in(&k, target, 2, shape, 0, 1);
        for (int64_t i = 0; i < shape[1] && shape[0] > 1; i++)
            vvi_ref_set(t, i, 0.0);
    } else {
        vv_buf *t = add_in(&k, target, 1, shape, 0, (double)shape[1]);
        if (shape[0] > 2)
            vvi_ref_set(t, 1, -100.0);
    }
    if (weights)
        add_in(&k, VV_F32, 1, &shape[1], 0.5, 2);
    if (op == VV_OP_CROSS_ENTROPY)
        add_out(&k, VV_F32, 1, shape);
    else
        add_out(&k, dtype, 2, shape);
    return k;
}

static void cross_entropies(void **state)
{
    (void)state;
    const vv_dtype targets[] = {VV_I32, VV_I64, VV_F32, VV_BF16};
    for (int s = 0; s < 4; s++)
        for (int t = 0; t < 2; t++)
            for (int target = 0; target < 4; target++)
                for (int weights = 0; weights < 2; weights++) {
                    check k = entropy(VV_OP_CROSS_ENTROPY, rows_of[s], types[t], targets[target],
                                      weights);
                    check_with_ref(&k);
                    k = entropy(VV_OP_CROSS_ENTROPY_GRAD, rows_of[s], types[t], targets[target],
                                weights);
                    check_with_ref(&k);
                }
    check k = entropy(VV_OP_CROSS_ENTROPY_GRAD, rows_of[2], VV_F32, VV_I32, true);
    check_in_place(&k, 1);
}

/* A target of 0 beside an infinite logit adds nothing. */
static void entropy_of_masked_logits(void **state)
{
    (void)state;
    check k = entropy(VV_OP_CROSS_ENTROPY, rows_of[1], VV_F32, VV_F32, false);
    vvi_ref_set(&k.in[0], 13, -INFINITY);
    vvi_ref_set(&k.in[1], 13, 0.0);
    check_with_ref(&k);
}

static void wrong_label_is_refused(void **state)
{
    (void)state;
    check k = entropy(VV_OP_CROSS_ENTROPY, rows_of[2], VV_F32, VV_I32, false);
    vvi_ref_set(&k.in[1], 77, 100.0);
    vvi_ref_set(&k.in[1], 99, -3.0);
    const vv_kernel *kernel = cpu_kernel(&k);
    vv_call call = {
        .op = k.op, .attr = &k.attr, .n_in = k.n_in, .n_out = 1, .in = k.in, .out = k.out};
    size_t bytes = 0;
    assert_ok(kernel->prepare(&call, &call.state, &bytes));
    assert_ok(vv_alloc_aligned(&call.scratch, bytes));
    assert_fails(kernel->run(&call), VV_EINVAL);
    assert_says("row 77");
    vv_dealloc(call.scratch);
    check_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norm_forward),
        cmocka_unit_test(batch_norm_large_mean),
        cmocka_unit_test(batch_norm_backward),
        cmocka_unit_test(layer_norms),
        cmocka_unit_test(rms_norms),
        cmocka_unit_test(rotaries),
        cmocka_unit_test(group_norms),
        cmocka_unit_test(softmaxes),
        cmocka_unit_test(cross_entropies),
        cmocka_unit_test(entropy_of_masked_logits),
        cmocka_unit_test(wrong_label_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
