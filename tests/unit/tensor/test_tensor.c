/* test_tensor.c - tensors.
 *
 * Shapes are checked, storage is shared and freed once, views see the same memory, conversions
 * round and truncate as promised, and every allocation may fail without a leak. */
#include "vv_test.h"

#include <vivace/tensor.h>

static const int64_t shape_2_3[] = {2, 3};

static void test_new(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    vv_tensor *t;
    char buf[64];
    for (int d = 0; d < VV_DTYPE_COUNT; d++) {
        assert_ok(vv_tensor_new(&t, (vv_dtype)d, 2, shape_2_3));
        assert_int_equal(t->count, 6);
        assert_int_equal(t->bytes, 6 * vv_dtype_size((vv_dtype)d));
        assert_int_equal((uintptr_t)t->data % 64, 0);
        for (int i = 0; i < 6; i++)
            assert_true(vv_tensor_get(t, i) == 0.0);
        vv_tensor_free(t);
    }
    assert_ok(vv_tensor_new(&t, VV_F32, 0, NULL));
    assert_int_equal(t->count, 1);
    assert_string_equal(vv_shape_text(0, NULL, buf, sizeof buf), "[]");
    vv_tensor_free(t);
    assert_ok(vv_tensor_new(&t, VV_F32, 3, (int64_t[]){4, 0, INT64_MAX}));
    assert_int_equal(t->count, 0);
    assert_int_equal(t->bytes, 0);
    vv_tensor_fill(t, 1.0);
    vv_tensor_free(t);
    vv_tensor_free(NULL);
    assert_null(vv_tensor_keep(NULL));
    assert_int_equal(vv_memory_live_count(), blocks);
    assert_string_equal(vv_shape_text(2, shape_2_3, buf, sizeof buf), "[2,3]");
    assert_string_equal(vv_shape_text(2, shape_2_3, buf, 4), "[2,");
}

static void test_wrong_shapes(void **state)
{
    (void)state;
    vv_tensor *t;
    int64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_fails(vv_tensor_new(&t, VV_F32, 9, many), VV_ESHAPE);
    assert_null(t);
    assert_fails(vv_tensor_new(&t, VV_F32, -1, many), VV_ESHAPE);
    assert_fails(vv_tensor_new(&t, VV_F32, 1, (int64_t[]){-1}), VV_ESHAPE);
    assert_fails(vv_tensor_new(&t, (vv_dtype)99, 1, many), VV_ETYPE);
    assert_true(vv_tensor_new(&t, VV_F32, 2, (int64_t[]){INT64_MAX, INT64_MAX}) != VV_OK);
    assert_true(vv_tensor_new(&t, VV_F64, 1, (int64_t[]){INT64_MAX / 4}) != VV_OK);
    assert_fails(vv_tensor_wrap(&t, VV_F32, 1, many, NULL), VV_EINVAL);
    assert_null(t);
}

static void test_views_share(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    float values[] = {0, 1, 2, 3, 4, 5};
    vv_tensor *t, *rows, *flat, *clone, *wrapped;
    assert_ok(vv_tensor_from(&t, VV_F32, 2, shape_2_3, values));
    assert_ok(vv_tensor_rows(&rows, t, 1, 1));
    assert_ok(vv_tensor_reshaped(&flat, rows, 1, (int64_t[]){3}));
    assert_ok(vv_tensor_clone(&clone, rows));
    vv_tensor_set(t, 4, 40.0);
    vv_tensor *kept = vv_tensor_keep(t);
    vv_tensor_free(t);
    assert_true(vv_tensor_get(kept, 4) == 40.0);
    vv_tensor_free(kept);
    vv_tensor_free(rows);
    assert_true(vv_tensor_get(flat, 1) == 40.0); /* the storage lives as long as a view */
    assert_true(vv_tensor_get(clone, 1) == 4.0);
    assert_int_equal(flat->ndim, 1);
    assert_false(vv_tensor_same_shape(flat, clone));
    assert_fails(vv_tensor_reshaped(&rows, flat, 1, (int64_t[]){4}), VV_ESHAPE);
    assert_null(rows);
    assert_fails(vv_tensor_rows(&rows, flat, 2, 2), VV_ESHAPE);
    assert_fails(vv_tensor_rows(&rows, flat, -1, 1), VV_ESHAPE);
    assert_fails(vv_tensor_rows(&rows, flat, 1, INT64_MAX), VV_ESHAPE);
    assert_ok(vv_tensor_rows(&rows, flat, 3, 0));
    assert_int_equal(rows->count, 0);
    vv_tensor_free(rows);
    vv_tensor_free(flat);
    vv_tensor_free(clone);
    assert_ok(vv_tensor_wrap(&wrapped, VV_F32, 2, shape_2_3, values));
    vv_tensor_fill(wrapped, 9.0);
    vv_tensor_free(wrapped);
    assert_true(values[5] == 9.0f);
    assert_int_equal(vv_memory_live_count(), blocks);
}

static void assert_cast(double value, vv_dtype from, vv_dtype to, double want)
{
    vv_tensor *a, *b;
    assert_ok(vv_tensor_new(&a, from, 1, (int64_t[]){3}));
    vv_tensor_fill(a, value);
    assert_ok(vv_tensor_cast(&b, a, to));
    for (int i = 0; i < 3; i++)
        if (!(vv_tensor_get(b, i) == want))
            fail_msg("%g as %s to %s is %g, expected %g", value, vv_dtype_name(from),
                     vv_dtype_name(to), vv_tensor_get(b, i), want);
    vv_tensor_free(a);
    vv_tensor_free(b);
}

static void test_conversions(void **state)
{
    (void)state;
    for (int from = 0; from < VV_DTYPE_COUNT; from++)
        for (int to = 0; to < VV_DTYPE_COUNT; to++) {
            assert_cast(1.0, (vv_dtype)from, (vv_dtype)to, 1.0);
            assert_cast(0.0, (vv_dtype)from, (vv_dtype)to, 0.0);
        }
    assert_cast(2.9, VV_F32, VV_I32, 2.0);
    assert_cast(-2.9, VV_F64, VV_I64, -2.0);
    assert_cast(300.0, VV_F32, VV_U8, 255.0);
    assert_cast(-3.0, VV_F32, VV_U8, 0.0);
    assert_cast(1e30, VV_F32, VV_I32, 2147483647.0);
    assert_cast(1e30, VV_F32, VV_I64, 0x1p63);
    assert_cast(-1e30, VV_F32, VV_I64, -0x1p63);
    assert_cast((double)NAN, VV_F32, VV_I32, 0.0);
    assert_cast(0.25, VV_F32, VV_BOOL, 1.0);
    assert_cast(-7.0, VV_I64, VV_BOOL, 1.0);
    assert_cast(200.0, VV_U8, VV_F32, 200.0);
    /* bf16 has 8 bits of significand: ties go to even */
    assert_cast(257.0, VV_F32, VV_BF16, 256.0);
    assert_cast(259.0, VV_F32, VV_BF16, 260.0);
    assert_cast(258.5, VV_F32, VV_BF16, 258.0);
    assert_cast(3.4e38, VV_F32, VV_BF16, (double)INFINITY);
    assert_cast((double)-INFINITY, VV_BF16, VV_F32, (double)-INFINITY);
    assert_true(isnan((double)vv_bf16_to_f32(vv_f32_to_bf16(NAN))));
}

static void test_copy(void **state)
{
    (void)state;
    vv_tensor *a, *b, *c;
    assert_ok(vv_tensor_new(&a, VV_I64, 2, shape_2_3));
    assert_ok(vv_tensor_new(&b, VV_I64, 1, (int64_t[]){6}));
    assert_ok(vv_tensor_new(&c, VV_F32, 1, (int64_t[]){5}));
    ((int64_t *)a->data)[3] = INT64_MAX - 1; /* no detour by double */
    assert_ok(vv_tensor_copy(b, a));
    assert_true(((int64_t *)b->data)[3] == INT64_MAX - 1);
    assert_fails(vv_tensor_copy(c, a), VV_ESHAPE);
    assert_says("[2,3]");
    vv_tensor_free(a);
    vv_tensor_free(b);
    vv_tensor_free(c);
}

static vv_status use_everything(void)
{
    vv_status status = VV_OK;
    vv_tensor *a = NULL, *b = NULL, *c = NULL, *d = NULL, *e = NULL;
    float values[6] = {0};
    VV_GO(vv_tensor_new(&a, VV_F32, 2, shape_2_3));
    VV_GO(vv_tensor_wrap(&b, VV_F32, 2, shape_2_3, values));
    VV_GO(vv_tensor_rows(&c, a, 0, 1));
    VV_GO(vv_tensor_reshaped(&d, b, 1, (int64_t[]){6}));
    VV_GO(vv_tensor_cast(&e, a, VV_BF16));
out:
    vv_tensor_free(a);
    vv_tensor_free(b);
    vv_tensor_free(c);
    vv_tensor_free(d);
    vv_tensor_free(e);
    return status;
}

/* A buffer stays while it fits and nobody else holds it or a view of it. */
static void test_reuse(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3}, other[] = {3, 2};
    vv_tensor *tensor = NULL, *view;
    assert_ok(vv_tensor_reuse(&tensor, VV_F32, 2, shape));
    vv_tensor_fill(tensor, 7);
    vv_tensor *first = tensor;
    assert_ok(vv_tensor_reuse(&tensor, VV_F32, 2, shape));
    assert_ptr_equal(tensor, first);
    assert_true(vv_tensor_get(tensor, 5) == 7.0);
    assert_ok(vv_tensor_rows(&view, tensor, 1, 1));
    assert_ok(vv_tensor_reuse(&tensor, VV_F32, 2, shape));
    vv_tensor_fill(tensor, 8);
    assert_true(vv_tensor_get(view, 0) == 7.0);
    vv_tensor_free(view);
    first = vv_tensor_keep(tensor);
    assert_ok(vv_tensor_reuse(&tensor, VV_F32, 2, shape));
    assert_ptr_not_equal(tensor, first);
    vv_tensor_free(first);
    assert_ok(vv_tensor_reuse(&tensor, VV_F32, 2, other));
    assert_int_equal(tensor->shape[0], 3);
    assert_ok(vv_tensor_reuse(&tensor, VV_I32, 2, other));
    assert_int_equal(tensor->dtype, VV_I32);
    assert_fails(vv_tensor_reuse(&tensor, VV_I32, 2, (int64_t[]){-1, 2}), VV_ESHAPE);
    assert_null(tensor);
}

static void test_each_allocation_failing(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    for (uint64_t n = 1;; n++) {
        vv_memory_fail_at(n);
        vv_status status = use_everything();
        vv_memory_fail_at(0);
        assert_int_equal(vv_memory_live_count(), blocks);
        if (status == VV_OK) {
            assert_true(n > 8);
            break;
        }
        assert_int_equal(status, VV_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new),         cmocka_unit_test(test_wrong_shapes),
        cmocka_unit_test(test_views_share), cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_copy),        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
