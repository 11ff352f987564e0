/* linalg.c - eigenvectors by Jacobi's rotations, low-rank approximation on top of them. */
#include <vivace/linalg.h>

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

#define MAX_SWEEPS 60

static double off_diagonal(const double *a, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < i; k++)
            sum += 2.0 * a[i * n + k] * a[i * n + k];
    return sum;
}

/* Rows p and q become c * p - s * q and s * p + c * q. */
static void rotate(double *restrict p, double *restrict q, int64_t n, double c, double s)
{
    for (int64_t k = 0; k < n; k++) {
        const double x = p[k], y = q[k];
        p[k] = c * x - s * y;
        q[k] = s * x + c * y;
    }
}

/* Makes a[p,q] zero: a becomes J^T a J, vectors J^T vectors. */
static void annihilate(double *a, double *vectors, int64_t n, int64_t p, int64_t q)
{
    const double apq = a[p * n + q], app = a[p * n + p], aqq = a[q * n + q];
    const double theta = (aqq - app) / (2.0 * apq);
    const double t = (theta < 0.0 ? -1.0 : 1.0) / (fabs(theta) + sqrt(1.0 + theta * theta));
    const double c = 1.0 / sqrt(1.0 + t * t), s = t * c;
    rotate(a + p * n, a + q * n, n, c, s);
    rotate(vectors + p * n, vectors + q * n, n, c, s);
    /* By symmetry the columns are the rows; only the 2x2 block in the middle is its own. */
    a[p * n + p] = app - t * apq;
    a[q * n + q] = aqq + t * apq;
    a[p * n + q] = a[q * n + p] = 0.0;
    for (int64_t k = 0; k < n; k++) {
        a[k * n + p] = a[p * n + k];
        a[k * n + q] = a[q * n + k];
    }
}

static void sort_falling(double *values, double *vectors, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t most = i;
        for (int64_t k = i + 1; k < n; k++)
            if (values[k] > values[most])
                most = k;
        if (most == i)
            continue;
        const double value = values[i];
        values[i] = values[most];
        values[most] = value;
        for (int64_t k = 0; k < n; k++) {
            const double x = vectors[i * n + k];
            vectors[i * n + k] = vectors[most * n + k];
            vectors[most * n + k] = x;
        }
    }
}

vv_status vv_symmetric_eigen(double *a, int64_t n, double *values, double *vectors)
{
    double size = 0.0;
    for (int64_t i = 0; i < n * n; i++)
        size += a[i] * a[i];
    if (!isfinite(size))
        return vv_fail(VV_ENUMERIC, "eigenvectors: the matrix holds NaN, infinity or overflows");
    memset(vectors, 0, (size_t)(n * n) * sizeof *vectors);
    for (int64_t i = 0; i < n; i++)
        vectors[i * n + i] = 1.0;
    const double small = 1e-30 * size;
    for (int sweep = 0; sweep < MAX_SWEEPS && off_diagonal(a, n) > small; sweep++)
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++)
                if (a[p * n + q] * a[p * n + q] * (double)(n * n) > small)
                    annihilate(a, vectors, n, p, q);
    for (int64_t i = 0; i < n; i++)
        values[i] = a[i * n + i];
    sort_falling(values, vectors, n);
    return VV_OK;
}

/* gram [n,n] of the rows (by_rows) or the columns of a. */
static void gram(const float *a, int64_t rows, int64_t cols, bool by_rows, double *out)
{
    const int64_t n = by_rows ? rows : cols, count = by_rows ? cols : rows;
    const int64_t step = by_rows ? 1 : cols, next = by_rows ? cols : 1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= i; k++) {
            double sum = 0.0;
            for (int64_t j = 0; j < count; j++)
                sum += (double)a[i * next + j * step] * (double)a[k * next + j * step];
            out[i * n + k] = out[k * n + i] = sum;
        }
}

/* Singular vector r on the other side: a^T u / s or a v / s, scaled by sqrt(s). */
static double other_side(const float *a, int64_t rows, int64_t cols, bool by_rows,
                         const double *vector, int64_t at)
{
    double sum = 0.0;
    if (by_rows)
        for (int64_t i = 0; i < rows; i++)
            sum += vector[i] * (double)a[i * cols + at];
    else
        for (int64_t k = 0; k < cols; k++)
            sum += vector[k] * (double)a[at * cols + k];
    return sum;
}

vv_status vv_low_rank(const float *a, int64_t rows, int64_t cols, int64_t rank, float *left,
                      float *right)
{
    vv_status status = VV_OK;
    const bool by_rows = rows <= cols;
    const int64_t n = by_rows ? rows : cols;
    double *square = NULL, *values = NULL, *vectors = NULL;
    if (rows < 1 || cols < 1 || rank < 1)
        return vv_fail(VV_EINVAL, "low rank: %lld rows, %lld columns and rank %lld; all must be "
                                  "positive",
                       (long long)rows, (long long)cols, (long long)rank);
    VV_GO(vv_alloc_array(&square, (size_t)n * (size_t)n, sizeof *square));
    VV_GO(vv_alloc_array(&values, (size_t)n, sizeof *values));
    VV_GO(vv_alloc_array(&vectors, (size_t)n * (size_t)n, sizeof *vectors));
    gram(a, rows, cols, by_rows, square);
    VV_GO(vv_symmetric_eigen(square, n, values, vectors));
    for (int64_t r = 0; r < rank; r++) {
        const double s = r < n && values[r] > 0.0 ? sqrt(values[r]) : 0.0;
        const bool some = s > 1e-12 * sqrt(values[0]);
        for (int64_t i = 0; i < rows; i++)
            left[i * rank + r] =
                !some ? 0.0f
                : by_rows
                    ? (float)(sqrt(s) * vectors[r * n + i])
                    : (float)(other_side(a, rows, cols, false, vectors + r * n, i) / sqrt(s));
        for (int64_t k = 0; k < cols; k++)
            right[r * cols + k] =
                !some ? 0.0f
                : by_rows ? (float)(other_side(a, rows, cols, true, vectors + r * n, k) / sqrt(s))
                          : (float)(sqrt(s) * vectors[r * n + k]);
    }
out:
    vv_dealloc(square);
    vv_dealloc(values);
    vv_dealloc(vectors);
    return status;
}
