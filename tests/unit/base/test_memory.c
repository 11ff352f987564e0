/* test_memory.c - the heap and its counters.
 *
 * Blocks are zeroed or aligned as promised, sizes that overflow are refused, growing keeps content,
 * a failed resize keeps the old block, the nth allocation fails exactly once, and counters return
 * to where they were. */
#include "vv_test.h"

static void test_blocks(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    size_t bytes = vv_memory_live_bytes();
    unsigned char *a, *b;
    void *nothing;
    assert_ok(vv_alloc(&a, 1000));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(a[i], 0);
    assert_ok(vv_alloc(&nothing, 0));
    assert_non_null(nothing);
    assert_ok(vv_alloc_aligned(&b, 777));
    assert_int_equal((uintptr_t)b % 64, 0);
    memset(b, 7, 777);
    assert_int_equal(vv_memory_live_count(), blocks + 3);
    assert_int_equal(vv_memory_live_bytes(), bytes + 1777);
    assert_ok(vv_realloc_array(&b, 2000, 1));
    assert_int_equal((uintptr_t)b % 64, 0);
    for (int i = 0; i < 777; i++)
        assert_int_equal(b[i], 7);
    assert_ok(vv_realloc_array(&a, 10, 1));
    assert_int_equal(vv_memory_live_bytes(), bytes + 2010);
    vv_dealloc(a);
    vv_dealloc(b);
    vv_dealloc(nothing);
    vv_dealloc(NULL);
    assert_int_equal(vv_memory_live_count(), blocks);
    assert_int_equal(vv_memory_live_bytes(), bytes);
}

static void test_overflow_is_refused(void **state)
{
    (void)state;
    void *p = &p;
    size_t n;
    assert_fails(vv_alloc_array(&p, SIZE_MAX / 2, 3), VV_EINVAL);
    assert_null(p);
    assert_fails(vv_alloc(&p, SIZE_MAX), VV_EINVAL);
    assert_fails(vv_alloc_aligned(&p, SIZE_MAX - 3), VV_EINVAL);
    assert_fails(vv_slab_alloc(&p, SIZE_MAX - 3), VV_ENOMEM);
    assert_fails(vv_slab_alloc(&p, SIZE_MAX / 4), VV_ENOMEM);
    assert_null(p);
    assert_fails(vv_size_mul(&n, SIZE_MAX, 2), VV_EINVAL);
    assert_fails(vv_size_add(&n, SIZE_MAX, 1), VV_EINVAL);
    assert_ok(vv_size_mul(&n, SIZE_MAX, 1));
    assert_int_equal(n, SIZE_MAX);
    assert_ok(vv_size_mul(&n, 0, 0));
    assert_int_equal(n, 0);
}

static void test_nth_allocation_fails_once(void **state)
{
    (void)state;
    int64_t blocks = vv_memory_live_count();
    char *a, *b, *c;
    vv_memory_fail_at(2);
    assert_ok(vv_strdup(&a, "first"));
    assert_fails(vv_strdup(&b, "second"), VV_ENOMEM);
    assert_null(b);
    assert_ok(vv_strdup(&c, "third"));
    vv_memory_fail_at(1);
    assert_fails(vv_realloc_array(&a, 100, 1), VV_ENOMEM);
    assert_string_equal(a, "first");
    vv_memory_fail_at(1);
    assert_fails(vv_alloc_aligned(&b, 8), VV_ENOMEM);
    vv_memory_fail_at(1);
    assert_fails(vv_slab_alloc(&b, 8), VV_ENOMEM);
    vv_memory_fail_at(1);
    vv_memory_fail_at(0);
    assert_ok(vv_strdup(&b, "fourth"));
    vv_dealloc(a);
    vv_dealloc(b);
    vv_dealloc(c);
    assert_int_equal(vv_memory_live_count(), blocks);
}

static void test_slabs(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4096, 4097, 2097151, 2097152, 2097153, 9000000};
    int64_t blocks = vv_memory_live_count();
    size_t bytes = vv_memory_live_bytes();
    vv_memory_peak_reset();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *slab;
        uint64_t allocs = vv_memory_alloc_count();
        assert_ok(vv_slab_alloc(&slab, sizes[i]));
        assert_int_equal(vv_memory_alloc_count(), allocs + 1);
        assert_int_equal(vv_memory_live_bytes(), bytes + sizes[i]);
        assert_int_equal((uintptr_t)slab % (sizes[i] >= 2097152 ? 2097152 : 64), 0);
        for (size_t at = 0; at < sizes[i]; at += 512)
            assert_int_equal(slab[at], 0);
        if (sizes[i])
            slab[sizes[i] - 1] = 1;
        vv_slab_free(slab, sizes[i]);
    }
    vv_slab_free(NULL, 10);
    assert_int_equal(vv_memory_live_count(), blocks);
    assert_int_equal(vv_memory_live_bytes(), bytes);
    assert_int_equal(vv_memory_peak_bytes(), bytes + 9000000);
    vv_memory_peak_reset();
    assert_int_equal(vv_memory_peak_bytes(), bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_overflow_is_refused),
        cmocka_unit_test(test_nth_allocation_fails_once),
        cmocka_unit_test(test_slabs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
