/* test_linalg.c - what must hold: a v = value v with orthonormal v, values falling, for full,
 * singular and diagonal matrices; the low-rank product misses exactly the singular values left
 * out. */
#include "vv_test.h"

#include <vivace/linalg.h>
#include <vivace/rng.h>

#define N 24

static void check_eigen(const double *a, int64_t n)
{
    double copy[N * N], values[N], vectors[N * N];
    memcpy(copy, a, (size_t)(n * n) * sizeof *a);
    assert_ok(vv_symmetric_eigen(copy, n, values, vectors));
    for (int64_t i = 0; i < n; i++) {
        assert_true(i == 0 || values[i] <= values[i - 1]);
        for (int64_t k = 0; k < n; k++) {
            double product = 0, dot = 0;
            for (int64_t j = 0; j < n; j++) {
                product += a[k * n + j] * vectors[i * n + j];
                dot += vectors[i * n + j] * vectors[k * n + j];
            }
            assert_near(product, values[i] * vectors[i * n + k], 1e-10, 0);
            assert_near(dot, i == k, 1e-12, 0);
        }
    }
}

static void eigenvectors(void **unused)
{
    (void)unused;
    double a[N * N];
    for (uint64_t kind = 0; kind < 3; kind++) {
        vv_rng rng = vv_rng_at(1, "matrix", kind);
        double factor[N];
        for (int i = 0; i < N; i++)
            factor[i] = vv_rng_normal(&rng);
        for (int i = 0; i < N; i++)
            for (int k = 0; k <= i; k++)
                a[i * N + k] = a[k * N + i] = kind == 0   ? vv_rng_normal(&rng)
                                              : kind == 1 ? factor[i] * factor[k] /* rank 1 */
                                                          : (i == k) * factor[i];
        check_eigen(a, N);
    }
    memset(a, 0, sizeof a);
    check_eigen(a, 3);
    const double two[] = {2, 1, 1, 2};
    double copy[4], values[2], vectors[4];
    memcpy(copy, two, sizeof two);
    assert_ok(vv_symmetric_eigen(copy, 2, values, vectors));
    assert_near(values[0], 3, 1e-14, 0);
    assert_near(values[1], 1, 1e-14, 0);
    a[0] = (double)NAN;
    assert_fails(vv_symmetric_eigen(a, 2, values, vectors), VV_ENUMERIC);
}

/* diag(s) between two orthonormal bases. */
static void low_rank_of(int64_t rows, int64_t cols)
{
    double basis[2][N * N], values[N];
    float a[N * N], left[N * N], right[N * N];
    const int64_t n = rows < cols ? rows : cols;
    for (uint64_t b = 0; b < 2; b++) {
        const int64_t size = b ? cols : rows;
        double m[N * N];
        vv_rng rng = vv_rng_at(2, "basis", b);
        for (int64_t i = 0; i < size; i++)
            for (int64_t k = 0; k <= i; k++)
                m[i * size + k] = m[k * size + i] = vv_rng_normal(&rng);
        assert_ok(vv_symmetric_eigen(m, size, values, basis[b]));
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < cols; k++) {
            double sum = 0;
            for (int64_t r = 0; r < n; r++)
                sum += ldexp(1, -(int)r) * basis[0][r * rows + i] * basis[1][r * cols + k];
            a[i * cols + k] = (float)sum;
        }
    for (int64_t rank = 1; rank <= n; rank++) {
        double error = 0, expected = 0;
        assert_ok(vv_low_rank(a, rows, cols, rank, left, right));
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < cols; k++) {
                double product = 0;
                for (int64_t r = 0; r < rank; r++)
                    product += (double)left[i * rank + r] * (double)right[r * cols + k];
                error += pow(product - (double)a[i * cols + k], 2);
            }
        for (int64_t r = rank; r < n; r++)
            expected += ldexp(1, -2 * (int)r);
        assert_near(sqrt(error), sqrt(expected), 1e-5, 1e-3);
    }
}

static void low_rank(void **unused)
{
    (void)unused;
    float a = 0, left = 7, right = 7;
    low_rank_of(5, 9);
    low_rank_of(9, 5);
    low_rank_of(6, 6);
    assert_ok(vv_low_rank(&a, 1, 1, 1, &left, &right));
    assert_true(left == 0.0f && right == 0.0f);
    assert_fails(vv_low_rank(&a, 1, 1, 0, &left, &right), VV_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(eigenvectors), cmocka_unit_test(low_rank)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
