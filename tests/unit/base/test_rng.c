/* test_rng.c - counter-based random numbers.
 *
 * Philox gives the published answers; a draw depends on (seed, stream, step, index) only and each
 * of them changes it; distributions have the right range, mean and variance; elements are the same
 * one by one and by blocks. Seeds are fixed, so the wide bounds never fail by chance. */
#include "vv_test.h"

#include <vivace/rng.h>

static void assert_philox(const uint32_t key[2], const uint32_t counter[4], const uint32_t want[4])
{
    uint32_t out[4];
    vv_philox4x32(key, counter, out);
    for (int i = 0; i < 4; i++)
        assert_int_equal(out[i], want[i]);
}

/* The answers published with Random123 for philox4x32 with 10 rounds. */
static void test_known_answers(void **state)
{
    (void)state;
    const uint32_t zero[4] = {0}, ones[4] = {~0u, ~0u, ~0u, ~0u};
    assert_philox(zero, zero, (uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    assert_philox(ones, ones, (uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    assert_philox((uint32_t[]){0xa4093822, 0x299f31d0},
                  (uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                  (uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

static uint64_t first(uint64_t seed, const char *stream, uint64_t step, uint32_t index)
{
    vv_rng rng = vv_rng_at2(seed, stream, step, index);
    return vv_rng_u64(&rng);
}

static void test_sequences(void **state)
{
    (void)state;
    uint64_t base = first(17, "shuffle", 3, 5);
    assert_true(base == first(17, "shuffle", 3, 5));
    assert_true(base != first(18, "shuffle", 3, 5));
    assert_true(base != first(17 + (UINT64_C(1) << 32), "shuffle", 3, 5));
    assert_true(base != first(17, "shuffl", 3, 5));
    assert_true(base != first(17, "shuffle", 4, 5));
    assert_true(base != first(17, "shuffle", 3 + (UINT64_C(1) << 32), 5));
    assert_true(base != first(17, "shuffle", 3, 6));
    vv_rng a = vv_rng_at(17, "shuffle", 3), b = vv_rng_at2(17, "shuffle", 3, 0), copy = a;
    assert_true(vv_rng_stream("mixup") != vv_rng_stream("dropout"));
    for (int i = 0; i < 100; i++) {
        uint32_t x = vv_rng_u32(&a);
        assert_true(x == vv_rng_u32(&b));
        assert_true(x == vv_rng_u32(&copy));
    }
}

static void test_uniform_and_below(void **state)
{
    (void)state;
    vv_rng rng = vv_rng_at(1, "test", 0);
    double sum = 0.0, squares = 0.0;
    enum { N = 200000 };
    for (int i = 0; i < N; i++) {
        double u = vv_rng_uniform(&rng);
        assert_true(u >= 0.0 && u < 1.0);
        sum += u;
        squares += u * u;
    }
    assert_near(sum / N, 0.5, 0.005, 0.0);
    assert_near(squares / N, 1.0 / 3.0, 0.005, 0.0);
    int counts[7] = {0};
    for (int i = 0; i < 70000; i++) {
        int64_t k = vv_rng_below(&rng, 7);
        assert_true(k >= 0 && k < 7);
        counts[k]++;
    }
    for (int k = 0; k < 7; k++)
        assert_near(counts[k], 10000, 500, 0);
    assert_int_equal(vv_rng_below(&rng, 1), 0);
    assert_int_equal(vv_rng_below(&rng, 0), 0);
    assert_int_equal(vv_rng_below(&rng, -5), 0);
    for (int i = 0; i < 1000; i++) {
        assert_true(vv_rng_below(&rng, INT64_MAX) >= 0);
        double x = vv_rng_uniform_in(&rng, 1.0, 1.0 + 0x1p-52);
        assert_true(x == 1.0);
        x = vv_rng_uniform_in(&rng, -3.0, 2.0);
        assert_true(x >= -3.0 && x < 2.0);
    }
}

static void test_normal(void **state)
{
    (void)state;
    vv_rng rng = vv_rng_at(2, "test", 0);
    double m1 = 0.0, m2 = 0.0, m4 = 0.0;
    int within = 0;
    enum { N = 200000 };
    for (int i = 0; i < N; i++) {
        double x = vv_rng_normal(&rng);
        assert_true(isfinite(x));
        m1 += x;
        m2 += x * x;
        m4 += x * x * x * x;
        within += fabs(x) < 1.0;
    }
    assert_near(m1 / N, 0.0, 0.01, 0.0);
    assert_near(m2 / N, 1.0, 0.02, 0.0);
    assert_near(m4 / N, 3.0, 0.15, 0.0);
    assert_near((double)within / N, 0.6827, 0.005, 0.0);
}

static void check_gamma(double shape)
{
    vv_rng rng = vv_rng_at2(3, "gamma", 0, (uint32_t)(shape * 100));
    double sum = 0.0, squares = 0.0;
    enum { N = 100000 };
    for (int i = 0; i < N; i++) {
        double x = vv_rng_gamma(&rng, shape);
        assert_true(x >= 0.0 && isfinite(x));
        sum += x;
        squares += x * x;
    }
    double mean = sum / N;
    assert_near(mean, shape, 0.0, 0.05);
    assert_near(squares / N - mean * mean, shape, 0.0, 0.1);
}

/* Beta(a, b): mean a/(a+b), variance ab/((a+b)^2 (a+b+1)). */
static void check_beta(double a, double b)
{
    vv_rng rng = vv_rng_at2(4, "beta", 0, (uint32_t)(a * 1000 + b));
    double sum = 0.0, squares = 0.0;
    enum { N = 100000 };
    for (int i = 0; i < N; i++) {
        double x = vv_rng_beta(&rng, a, b);
        assert_true(x >= 0.0 && x <= 1.0);
        sum += x;
        squares += x * x;
    }
    double mean = sum / N;
    assert_near(mean, a / (a + b), 0.01, 0.0);
    assert_near(squares / N - mean * mean, a * b / ((a + b) * (a + b) * (a + b + 1)), 0.005, 0.0);
}

static void test_gamma_and_beta(void **state)
{
    (void)state;
    check_gamma(0.2);
    check_gamma(1.0);
    check_gamma(7.5);
    check_beta(0.2, 0.2);
    check_beta(1.0, 1.0);
    check_beta(2.0, 5.0);
    check_beta(0.001, 0.001); /* both gamma draws would underflow to 0/0 */
    check_beta(400.0, 100.0);
    vv_rng rng = vv_rng_at(5, "edge", 0);
    assert_true(isfinite(vv_rng_gamma(&rng, 0.0)));
    assert_true(isfinite(vv_rng_beta(&rng, -1.0, (double)NAN)));
}

static void test_permutation(void **state)
{
    (void)state;
    int64_t out[100];
    int seen[100] = {0}, at_home = 0, first_place[5] = {0};
    vv_rng rng = vv_rng_at(6, "shuffle", 0);
    vv_rng_permutation(&rng, out, 100);
    for (int i = 0; i < 100; i++) {
        assert_true(out[i] >= 0 && out[i] < 100);
        seen[out[i]]++;
        at_home += out[i] == i;
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], 1);
    assert_true(at_home < 10);
    for (int i = 0; i < 50000; i++) {
        vv_rng_permutation(&rng, out, 5);
        first_place[out[0]]++;
    }
    for (int i = 0; i < 5; i++)
        assert_near(first_place[i], 10000, 500, 0);
    vv_rng_permutation(&rng, NULL, 0);
}

static void test_elements(void **state)
{
    (void)state;
    double sum = 0.0;
    enum { N = 100000 };
    for (uint64_t block = 0; block < N / 4; block++) {
        float four[4];
        vv_random_block(9, 100, 3, block, four);
        for (uint64_t i = 0; i < 4; i++) {
            float x = vv_random_element(9, 100, 3, 4 * block + i);
            assert_true(x == four[i]);
            assert_true(x >= 0.0f && x < 1.0f);
            sum += (double)x;
        }
    }
    assert_near(sum / N, 0.5, 0.005, 0.0);
    float base = vv_random_element(9, 100, 3, 8);
    assert_true(base != vv_random_element(10, 100, 3, 8));
    assert_true(base != vv_random_element(9, 101, 3, 8));
    assert_true(base != vv_random_element(9, 100, 4, 8));
    assert_true(base != vv_random_element(9, 100, 3, 9));
    assert_true(base != vv_random_element(9, 100, 3 + (UINT64_C(1) << 32), 8));
    assert_true(base != vv_random_element(9, 100, 3, 8 + (UINT64_C(1) << 34)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),     cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_uniform_and_below), cmocka_unit_test(test_normal),
        cmocka_unit_test(test_gamma_and_beta),    cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
