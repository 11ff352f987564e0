/* test_cpu_shape.c - reductions and ops that move elements: backend `cpu` agrees with `ref` for
 * every set of axes, odd sizes, all element sizes; an index outside its axis is refused. */
#include "kernel_check.h"

static const vv_dtype types[] = {VV_F32, VV_BF16};

static void reduce_one(int ndim, const int64_t *shape, uint64_t axes, vv_reduce kind,
                       vv_dtype dtype)
{
    check k = {.op = VV_OP_REDUCE};
    k.attr.reduce.kind = kind;
    k.attr.reduce.axes = axes;
    int64_t out[VV_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < ndim; d++)
        if (!(axes >> d & 1))
            out[n++] = shape[d];
    add_in(&k, dtype, ndim, shape, -1, 2);
    add_out(&k, dtype, n, out);
    if (cpu_kernel(&k))
        check_with_ref(&k);
    else {
        assert_true(ndim > 2 && axes != 0); /* only axes that are no neighbours fall to ref */
        check_free(&k);
    }
}

static void reductions(void **state)
{
    (void)state;
    const int64_t shapes[][4] = {{5, 7, 9, 11}, {2, 40, 41, 3}, {130, 1, 1, 70}, {1, 1, 70000, 1}};
    for (int s = 0; s < 4; s++)
        for (uint64_t axes = 1; axes < 16; axes++)
            for (int kind = 0; kind < 4; kind++)
                for (int t = 0; t < 2; t++)
                    reduce_one(4, shapes[s], axes, (vv_reduce)kind, types[t]);
    const int64_t wide[] = {3, 5000};
    for (uint64_t axes = 1; axes < 4; axes++)
        reduce_one(2, wide, axes, VV_REDUCE_SUM, VV_F32);
    const int64_t tall[] = {30000, 17};
    for (uint64_t axes = 1; axes < 4; axes++)
        reduce_one(2, tall, axes, VV_REDUCE_MEAN, VV_F32);
}

static void maxima_of_nan(void **state)
{
    (void)state;
    for (int kind = VV_REDUCE_MAX; kind <= VV_REDUCE_MIN; kind++)
        for (uint64_t axes = 1; axes < 4; axes++) {
            check k = {.op = VV_OP_REDUCE};
            k.attr.reduce.kind = kind;
            k.attr.reduce.axes = axes;
            const int64_t out = axes == 1 ? 33 : 20;
            add_in(&k, VV_F32, SHAPE(20, 33), -1, 1);
            vvi_ref_set(&k.in[0], 45, NAN);
            add_out(&k, VV_F32, axes == 3 ? 0 : 1, &out);
            check_with_ref(&k);
        }
}

static void argmaxima(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        check k = {.op = VV_OP_ARGMAX};
        k.attr.axis.axis = 1;
        add_in(&k, types[t], SHAPE(301, 37), -1, 1);
        for (int64_t i = 0; i < 37; i++) /* equals: the first wins */
            vvi_ref_set(&k.in[0], 37 + i, i % 5 == 3 ? 2.0 : 1.0);
        vvi_ref_set(&k.in[0], 80, NAN);
        add_out(&k, VV_I32, SHAPE(301));
        check_with_ref(&k);
    }
}

static void permutations(void **state)
{
    (void)state;
    const vv_dtype all[] = {VV_F32, VV_BF16, VV_U8, VV_I64};
    const int64_t shape[] = {3, 5, 33, 40};
    for (int code = 0; code < 256; code++) {
        int64_t order[] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3};
        unsigned seen = 0;
        for (int d = 0; d < 4; d++)
            seen |= 1u << order[d];
        if (seen != 15)
            continue;
        for (int t = 0; t < 4; t++) {
            check k = {.op = VV_OP_PERMUTE};
            int64_t out[4];
            for (int d = 0; d < 4; d++) {
                k.attr.permute.order[d] = order[d];
                out[d] = shape[order[d]];
            }
            add_in(&k, all[t], 4, shape, 0, 200);
            add_out(&k, all[t], 4, out);
            check_with_ref(&k);
        }
    }
    check k = {.op = VV_OP_PERMUTE};
    k.attr.permute.order[0] = 2;
    k.attr.permute.order[2] = 1;
    add_in(&k, VV_F32, SHAPE(1, 70, 90), -1, 1);
    k.attr.permute.order[1] = 0;
    add_out(&k, VV_F32, SHAPE(90, 1, 70));
    check_with_ref(&k);
}

static void slices(void **state)
{
    (void)state;
    const vv_dtype all[] = {VV_F32, VV_BF16, VV_U8};
    for (int axis = 0; axis < 3; axis++)
        for (int step = 1; step < 4; step++)
            for (int t = 0; t < 3; t++)
                for (int grad = 0; grad < 2; grad++) {
                    const int64_t whole[] = {9, 13, 70};
                    int64_t part[] = {9, 13, 70};
                    part[axis] = (whole[axis] - 1 - 2 + step - 1) / step;
                    check k = {.op = grad ? VV_OP_SLICE_GRAD : VV_OP_SLICE};
                    k.attr.slice.axis = axis;
                    k.attr.slice.start = 2;
                    k.attr.slice.step = step;
                    add_in(&k, all[t], 3, grad ? part : whole, 0, 100);
                    add_out(&k, all[t], 3, grad ? whole : part);
                    check_with_ref(&k);
                }
}

static void concats_and_pads(void **state)
{
    (void)state;
    const vv_dtype all[] = {VV_F32, VV_BF16, VV_U8};
    for (int axis = 0; axis < 3; axis++)
        for (int t = 0; t < 3; t++) {
            int64_t a[] = {4, 5, 60}, b[] = {4, 5, 60}, out[] = {4, 5, 60}, padded[] = {7, 8, 63};
            b[axis] = 7;
            out[axis] = a[axis] + b[axis];
            check k = {.op = VV_OP_CONCAT};
            k.attr.axis.axis = axis;
            add_in(&k, all[t], 3, a, 0, 100);
            add_in(&k, all[t], 3, b, 0, 100);
            add_out(&k, all[t], 3, out);
            check_with_ref(&k);
            check p = {.op = VV_OP_PAD};
            p.attr.pad.before[axis] = 2;
            p.attr.pad.value = t < 2 ? -1.5 : 0.0;
            add_in(&p, all[t], 3, a, 0, 100);
            add_out(&p, all[t], 3, padded);
            check_with_ref(&p);
        }
}

static void broadcasts(void **state)
{
    (void)state;
    const vv_dtype all[] = {VV_F32, VV_BF16, VV_U8};
    const int64_t out[] = {6, 50, 70},
                  from[][3] = {{1, 1, 1}, {6, 1, 70}, {1, 50, 1}, {1, 1, 70}, {6, 1, 1}};
    for (int s = 0; s < 5; s++)
        for (int t = 0; t < 3; t++) {
            check k = {.op = VV_OP_BROADCAST};
            add_in(&k, all[t], 3, from[s], 0, 100);
            add_out(&k, all[t], 3, out);
            check_with_ref(&k);
        }
}

static void gathers(void **state)
{
    (void)state;
    for (int axis = 0; axis < 3; axis++)
        for (int t = 0; t < 2; t++)
            for (int wide = 0; wide < 2; wide++) {
                const int64_t x[] = {6, 9, 130}, n = 41;
                int64_t y[] = {6, 9, 130};
                y[axis] = n;
                check k = {.op = VV_OP_GATHER};
                k.attr.axis.axis = axis;
                add_in(&k, types[t], 3, x, -1, 1);
                add_in(&k, wide ? VV_I64 : VV_I32, 1, &n, 0, (double)x[axis]);
                add_out(&k, types[t], 3, y);
                check_with_ref(&k);
                check g = {.op = VV_OP_GATHER_GRAD};
                g.attr.axis.axis = axis;
                add_in(&g, types[t], 3, y, -1, 1);
                add_in(&g, wide ? VV_I64 : VV_I32, 1, &n, 0, (double)x[axis]);
                add_out(&g, types[t], 3, x);
                check_with_ref(&g);
            }
    check k = {.op = VV_OP_ONE_HOT};
    add_in(&k, VV_I32, SHAPE(50, 3), -2, 12);
    add_out(&k, VV_F32, SHAPE(50, 3, 10));
    check_with_ref(&k);
}

static void wrong_index_is_refused(void **state)
{
    (void)state;
    check k = {.op = VV_OP_GATHER};
    add_in(&k, VV_F32, SHAPE(10, 4), -1, 1);
    add_in(&k, VV_I32, SHAPE(3), 0, 10);
    vvi_ref_set(&k.in[1], 1, 10.0);
    add_out(&k, VV_F32, SHAPE(3, 4));
    const vv_call call = {
        .op = k.op, .attr = &k.attr, .n_in = 2, .n_out = 1, .in = k.in, .out = k.out};
    assert_fails(vvi_cpu_gather[0].run(&call), VV_EINVAL);
    assert_says("index 10 at position 1");
    check_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions),
        cmocka_unit_test(maxima_of_nan),
        cmocka_unit_test(argmaxima),
        cmocka_unit_test(permutations),
        cmocka_unit_test(slices),
        cmocka_unit_test(concats_and_pads),
        cmocka_unit_test(broadcasts),
        cmocka_unit_test(gathers),
        cmocka_unit_test(wrong_index_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
