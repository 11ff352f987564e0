/* test_cpu_pool.c - pooling, resizing, dropout, constants and accumulation: backend `cpu` agrees
 * with `ref`; dropout draws exactly the numbers of vv_random_element. */
#include "kernel_check.h"

static const vv_dtype types[] = {VV_F32, VV_BF16};

typedef struct pool_case {
    int64_t n, h, w, c, kernel, stride, pad, ceil, include;
} pool_case;

static const pool_case cases[] = {
    {2, 8, 8, 16, 2, 2, 0, 0, 0}, {3, 9, 7, 5, 3, 2, 1, 0, 1}, {2, 9, 9, 33, 3, 2, 1, 1, 0},
    {1, 7, 7, 3, 3, 1, 1, 0, 1},  {2, 6, 6, 8, 3, 2, 0, 1, 1}, {1, 4, 4, 70, 4, 4, 0, 0, 0},
};

static int64_t pooled(int64_t in, const pool_case *p)
{
    const int64_t reach = in + 2 * p->pad - p->kernel;
    int64_t out = (p->ceil ? reach + p->stride - 1 : reach) / p->stride + 1;
    if (p->ceil && (out - 1) * p->stride >= in + p->pad)
        out--;
    return out;
}

static void pools(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof cases / sizeof cases[0]; s++)
        for (int t = 0; t < 2; t++)
            for (int max = 0; max < 2; max++) {
                const pool_case *p = &cases[s];
                const int64_t x[] = {p->n, p->h, p->w, p->c};
                const int64_t y[] = {p->n, pooled(p->h, p), pooled(p->w, p), p->c};
                check k = {.op = VV_OP_POOL};
                for (int d = 0; d < 2; d++) {
                    k.attr.pool.kernel[d] = p->kernel;
                    k.attr.pool.stride[d] = p->stride;
                    k.attr.pool.pad[d] = p->pad;
                }
                k.attr.pool.max = max;
                k.attr.pool.include_pad = p->include;
                check g = k;
                g.op = VV_OP_POOL_GRAD;
                add_in(&k, types[t], 4, x, -1, 1);
                if (max)
                    vvi_ref_set(&k.in[0], 5, NAN);
                add_out(&k, types[t], 4, y);
                check_with_ref(&k);
                add_in(&g, types[t], 4, y, -1, 1);
                if (max) {
                    /* few values: equal maxima, of which the first gets the gradient */
                    vv_buf *in = add_in(&g, types[t], 4, x, 0, 1);
                    for (int64_t i = 0; i < in->count; i++)
                        vvi_ref_set(in, i, floor(3.0 * random_unit()));
                } else {
                    add_absent(&g);
                }
                add_out(&g, types[t], 4, x);
                check_with_ref(&g);
            }
}

static void adaptive_pools(void **state)
{
    (void)state;
    const int64_t sizes[][4] = {{8, 8, 1, 1}, {7, 5, 3, 2}, {4, 6, 4, 6}, {3, 3, 5, 4}};
    for (int s = 0; s < 4; s++)
        for (int t = 0; t < 2; t++)
            for (int max = 0; max < 2; max++) {
                const int64_t x[] = {3, sizes[s][0], sizes[s][1], 19};
                const int64_t y[] = {3, sizes[s][2], sizes[s][3], 19};
                check k = {.op = VV_OP_ADAPTIVE_POOL}, g = {.op = VV_OP_ADAPTIVE_POOL_GRAD};
                k.attr.adaptive_pool.max = g.attr.adaptive_pool.max = max;
                add_in(&k, types[t], 4, x, -1, 1);
                add_out(&k, types[t], 4, y);
                check_with_ref(&k);
                add_in(&g, types[t], 4, y, -1, 1);
                if (max)
                    add_in(&g, types[t], 4, x, -1, 1);
                add_out(&g, types[t], 4, x);
                check_with_ref(&g);
            }
}

static void resizes(void **state)
{
    (void)state;
    const int64_t sizes[][4] = {
        {8, 8, 13, 5}, {7, 5, 7, 5}, {4, 6, 1, 1}, {3, 2, 12, 9}, {1, 1, 4, 4}};
    for (int s = 0; s < 5; s++)
        for (int t = 0; t < 2; t++)
            for (int mode = 0; mode < 2; mode++)
                for (int64_t c = 3; c < 40; c += 30) {
                    const int64_t x[] = {3, sizes[s][0], sizes[s][1], c};
                    const int64_t y[] = {3, sizes[s][2], sizes[s][3], c};
                    check k = {.op = VV_OP_RESIZE}, g = {.op = VV_OP_RESIZE_GRAD};
                    k.attr.resize.mode = g.attr.resize.mode = mode;
                    add_in(&k, types[t], 4, x, -1, 1);
                    add_out(&k, types[t], 4, y);
                    check_with_ref(&k);
                    add_in(&g, types[t], 4, y, -1, 1);
                    add_out(&g, types[t], 4, x);
                    check_with_ref(&g);
                }
}

static check dropout(vv_dtype dtype, double p, int64_t first_item)
{
    check k = {.op = VV_OP_DROPOUT,
               .seed = 0x123456789abcdefull,
               .step = 0x100000007ull,
               .first_item = first_item};
    k.attr.random.p = p;
    k.attr.random.id = 42;
    add_in(&k, dtype, SHAPE(71, 3, 211), 0.5, 1.5);
    add_out(&k, dtype, SHAPE(71, 3, 211));
    return k;
}

static void dropouts(void **state)
{
    (void)state;
    const double ps[] = {0.1, 0.5, 0.75};
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < 2; t++)
            for (int64_t first = 0; first < 3; first++) {
                check k = dropout(types[t], ps[i], first * 5);
                check_with_ref(&k);
            }
    check k = dropout(VV_F32, 0.3, 7);
    check_in_place(&k, 0);
}

static void uniforms_are_the_defined_draws(void **state)
{
    (void)state;
    check k = {.op = VV_OP_RANDOM, .seed = 99, .step = 3, .first_item = 1};
    k.attr.random.id = (7ll << 32) | 5;
    add_out(&k, VV_F32, SHAPE(3, 1001));
    vv_buf got[MAX_BUFS];
    outs_like(got, &k);
    run_kernel(vvi_cpu_random, &k, k.in, got);
    for (uint64_t i = 0; i < 3003; i++)
        assert_true(((const float *)got[0].data)[i] ==
                    vv_random_element(99, 3, (uint64_t)k.attr.random.id, 1001 + i));
    outs_free(got, &k);
    check_with_ref(&k);
}

static void constants_and_sums(void **state)
{
    (void)state;
    const vv_dtype all[] = {VV_F32, VV_BF16, VV_I32, VV_I64, VV_U8, VV_BOOL};
    const double values[] = {0.0, 1.0, 7.0};
    for (int t = 0; t < 6; t++)
        for (int v = 0; v < 3; v++) {
            check k = {.op = VV_OP_FULL};
            k.attr.full.value = values[v];
            add_out(&k, all[t], SHAPE(40001));
            check_with_ref(&k);
        }
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            check k = {.op = VV_OP_ACCUMULATE};
            add_in(&k, types[a], SHAPE(40001), -1, 1);
            add_out(&k, types[b], SHAPE(40001));
            for (int64_t i = 0; i < k.out[0].count; i++)
                vvi_ref_set(&k.out[0], i, 2.0 * random_unit());
            check_with_ref(&k);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools),
        cmocka_unit_test(adaptive_pools),
        cmocka_unit_test(resizes),
        cmocka_unit_test(dropouts),
        cmocka_unit_test(uniforms_are_the_defined_draws),
        cmocka_unit_test(constants_and_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
