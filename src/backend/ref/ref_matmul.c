/* ref_matmul.c - reference kernel of the (batched) matrix product. */
#include "backend/ref/ref_index.h"

#include <vivace/memory.h>

/* Sizes of one product [M,K] x [K,N]. */
typedef struct sizes {
    int64_t m, n, k;
} sizes;

static sizes product_sizes(const vv_call *call)
{
    const vv_buf *a = &call->in[0], *out = &call->out[0];
    return (sizes){
        .m = out->shape[out->ndim - 2],
        .n = out->shape[out->ndim - 1],
        .k = a->shape[a->ndim - (call->attr->matmul.trans_a ? 2 : 1)],
    };
}

/* Scratch: op(B) as doubles, and one row of sums. */
static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    const sizes s = product_sizes(call);
    size_t count;
    *state = NULL;
    VV_TRY(vv_size_mul(&count, (size_t)s.k + 1, (size_t)s.n));
    return vv_size_mul(scratch_bytes, count, sizeof(double));
}

/* Index of the matrix of an operand that product number `batch` reads. */
static int64_t matrix_of(const vv_buf *in, const vv_buf *out, int64_t batch)
{
    vv_buf lead_in = *in, lead_out = *out;
    lead_in.ndim -= 2;
    lead_out.ndim -= 2;
    lead_in.count = vvi_ref_span(&lead_in, 0, lead_in.ndim);
    lead_out.count = vvi_ref_span(&lead_out, 0, lead_out.ndim);
    return vvi_ref_operand_index(&lead_in, &lead_out, batch);
}

static void multiply(const vv_call *call, sizes s, int64_t first_a, int64_t first_b, int64_t first)
{
    const vv_buf *a = &call->in[0], *b = &call->in[1];
    const vv_buf *bias = call->n_in > 2 && call->in[2].data ? &call->in[2] : NULL;
    const bool ta = call->attr->matmul.trans_a, tb = call->attr->matmul.trans_b;
    double *right = call->scratch, *row = right + s.k * s.n;
    for (int64_t k = 0; k < s.k; k++) {
        for (int64_t j = 0; j < s.n; j++)
            right[k * s.n + j] = vvi_ref_get(b, first_b + (tb ? j * s.k + k : k * s.n + j));
    }
    for (int64_t i = 0; i < s.m; i++) {
        for (int64_t j = 0; j < s.n; j++)
            row[j] = bias ? vvi_ref_get(bias, j) : 0.0;
        for (int64_t k = 0; k < s.k; k++) {
            const double left = vvi_ref_get(a, first_a + (ta ? k * s.m + i : i * s.k + k));
            for (int64_t j = 0; j < s.n; j++)
                row[j] += left * right[k * s.n + j];
        }
        for (int64_t j = 0; j < s.n; j++)
            vvi_ref_set(&call->out[0], first + i * s.n + j, row[j]);
    }
}

static vv_status run(const vv_call *call)
{
    const vv_buf *out = &call->out[0];
    const sizes s = product_sizes(call);
    const int64_t batches = out->count == 0 ? 0 : out->count / (s.m * s.n);
    for (int64_t i = 0; i < batches; i++)
        multiply(call, s, matrix_of(&call->in[0], out, i) * s.m * s.k,
                 matrix_of(&call->in[1], out, i) * s.k * s.n, i * s.m * s.n);
    return VV_OK;
}

const vv_kernel vvi_ref_matmul[] = {{"ref", vvi_ref_all_float, prepare, run, NULL, 0}, {0}};
