/* onednn_matmul.c - matrix products by oneDNN; transposed operands are described by strides.
 *
 * A 2-D right operand is one weight matrix for all rows: leading dimensions of the left operand are
 * then merged into rows. On CPUs without bf16 instructions bf16 is computed in f32. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"

#include <string.h>

/* Packing the weights pays when they are used by many rows. */
enum { PACK_MIN_ROWS = 256 };

typedef struct matmul_layout {
    int ndims;
    dnnl_dims_t a_dims, a_strides, b_dims, b_strides, y_dims, y_strides, bias_dims, bias_strides;
    bool pack; /* let the library choose the layout of b */
} matmul_layout;

static bool accepts(const vv_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i].count > 0 && !vvi_is_vec_float(call->in[i].dtype))
            return false;
    return vvi_is_vec_float(call->out[0].dtype) && call->in[0].count > 0 && call->in[1].count > 0 &&
           call->in[0].ndim >= 2 && call->in[1].ndim >= 2;
}

static void matrix(dnnl_dims_t dims, dnnl_dims_t strides, int at, int64_t rows, int64_t cols,
                   bool transposed)
{
    dims[at] = rows;
    dims[at + 1] = cols;
    strides[at] = transposed ? 1 : cols;
    strides[at + 1] = transposed ? rows : 1;
}

/* Leading dimensions of `buf`, aligned to the right at n of them; missing ones are 1. */
static void batch_dims(const vv_buf *buf, int n, dnnl_dims_t dims, dnnl_dims_t strides)
{
    int64_t stride = buf->shape[buf->ndim - 1] * buf->shape[buf->ndim - 2];
    for (int d = n - 1; d >= 0; d--) {
        const int from = d - n + buf->ndim - 2;
        dims[d] = from >= 0 ? buf->shape[from] : 1;
        strides[d] = stride;
        stride *= dims[d];
    }
}

static void flat_layout(matmul_layout *l, const vv_call *call)
{
    const vv_buf *b = &call->in[1], *y = &call->out[0];
    const bool trans_b = call->attr->matmul.trans_b;
    const int64_t n = b->shape[b->ndim - (trans_b ? 2 : 1)], k = b->count / n;
    const int64_t m = y->count / n;
    l->ndims = 2;
    matrix(l->a_dims, l->a_strides, 0, m, k, call->attr->matmul.trans_a);
    matrix(l->b_dims, l->b_strides, 0, k, n, trans_b);
    matrix(l->y_dims, l->y_strides, 0, m, n, false);
    l->pack = m >= PACK_MIN_ROWS;
}

static void batched_layout(matmul_layout *l, const vv_call *call)
{
    const vv_buf *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    const bool trans_a = call->attr->matmul.trans_a, trans_b = call->attr->matmul.trans_b;
    const int lead = y->ndim - 2;
    const int64_t m = y->shape[lead], n = y->shape[lead + 1];
    const int64_t k = a->shape[a->ndim - (trans_a ? 2 : 1)];
    batch_dims(a, lead, l->a_dims, l->a_strides);
    batch_dims(b, lead, l->b_dims, l->b_strides);
    batch_dims(y, lead, l->y_dims, l->y_strides);
    matrix(l->a_dims, l->a_strides, lead, m, k, trans_a);
    matrix(l->b_dims, l->b_strides, lead, k, n, trans_b);
    matrix(l->y_dims, l->y_strides, lead, m, n, false);
    l->ndims = y->ndim;
}

/* Equal leading dimensions become one. */
static void merge_batch(matmul_layout *l)
{
    const int lead = l->ndims - 2;
    int64_t batch = 1;
    for (int d = 0; d < lead; d++) {
        if (l->a_dims[d] != l->b_dims[d])
            return;
        batch *= l->a_dims[d];
    }
    if (lead < 2)
        return;
    dnnl_dim_t *const dims[] = {l->a_dims, l->b_dims, l->y_dims};
    dnnl_dim_t *const strides[] = {l->a_strides, l->b_strides, l->y_strides};
    for (int i = 0; i < 3; i++) {
        dims[i][0] = batch;
        strides[i][0] = strides[i][lead - 1];
        for (int d = 0; d < 2; d++) {
            dims[i][1 + d] = dims[i][lead + d];
            strides[i][1 + d] = strides[i][lead + d];
        }
    }
    l->ndims = 3;
}

static bool has_bias(const vv_call *call)
{
    return call->n_in > 2 && call->in[2].count > 0;
}

static void make_layout(matmul_layout *l, const vv_call *call)
{
    memset(l, 0, sizeof *l);
    const vv_buf *a = &call->in[0], *b = &call->in[1];
    const int64_t b_matrix = b->shape[b->ndim - 1] * b->shape[b->ndim - 2];
    if (b->count == b_matrix && (a->ndim == 2 || !call->attr->matmul.trans_a)) {
        flat_layout(l, call);
    } else {
        batched_layout(l, call);
        merge_batch(l);
    }
    for (int d = 0; d < l->ndims; d++) {
        l->bias_dims[d] = 1;
        l->bias_strides[d] = l->y_dims[l->ndims - 1];
    }
    l->bias_dims[l->ndims - 1] = l->y_dims[l->ndims - 1];
    l->bias_strides[l->ndims - 1] = 1;
}

static vv_dtype compute_type(vv_dtype dtype, bool native)
{
    return native ? dtype : VV_F32;
}

static vv_status make_desc(vvi_onednn_node *node, const matmul_layout *l, const vv_call *call,
                           bool native)
{
    vvi_md a = NULL, b = NULL, bias = NULL, y = NULL;
    vv_status status;
    const dnnl_data_type_t a_type = vvi_onednn_type(compute_type(call->in[0].dtype, native));
    const dnnl_data_type_t b_type = vvi_onednn_type(compute_type(call->in[1].dtype, native));
    const dnnl_data_type_t y_type = vvi_onednn_type(compute_type(call->out[0].dtype, native));
    VV_GO(vvi_onednn_check(vvi_md_new(&a, l->ndims, l->a_dims, a_type, l->a_strides),
                           "describing a"));
    VV_GO(
        vvi_onednn_check(vvi_md_new(&b, l->ndims, l->b_dims, b_type, l->pack ? NULL : l->b_strides),
                         "describing b"));
    VV_GO(vvi_onednn_check(vvi_md_new(&y, l->ndims, l->y_dims, y_type, l->y_strides),
                           "describing the product"));
    if (has_bias(call)) {
        const dnnl_data_type_t type = vvi_onednn_type(compute_type(call->in[2].dtype, native));
        VV_GO(vvi_onednn_check(vvi_md_new(&bias, l->ndims, l->bias_dims, type, l->bias_strides),
                               "describing the bias"));
    }
    VV_GO(vvi_onednn_check(vvi_pd_matmul(&node->desc, node->engine, node->attr, a, b, bias, y),
                           "planning a matrix product"));
out:
    vvi_md_free(a);
    vvi_md_free(b);
    vvi_md_free(bias);
    vvi_md_free(y);
    return status;
}

static vv_status make_node(vvi_onednn_node **out, const vv_call *call, bool native)
{
    matmul_layout l;
    make_layout(&l, call);
    vvi_onednn_node *node = NULL;
    vv_status status;
    *out = NULL;
    VV_GO(vvi_onednn_new(&node));
    VV_GO(make_desc(node, &l, call, native));
    VV_GO(vvi_onednn_add(node, DNNL_ARG_SRC, 0, &call->in[0], l.ndims, l.a_dims, l.a_strides,
                         compute_type(call->in[0].dtype, native)));
    VV_GO(vvi_onednn_add(node, DNNL_ARG_WEIGHTS, 1, &call->in[1], l.ndims, l.b_dims, l.b_strides,
                         compute_type(call->in[1].dtype, native)));
    if (has_bias(call))
        VV_GO(vvi_onednn_add(node, DNNL_ARG_BIAS, 2, &call->in[2], l.ndims, l.bias_dims,
                             l.bias_strides, compute_type(call->in[2].dtype, native)));
    VV_GO(vvi_onednn_add(node, DNNL_ARG_DST, 0, &call->out[0], l.ndims, l.y_dims, l.y_strides,
                         compute_type(call->out[0].dtype, native)));
    VV_GO(vvi_onednn_finish(node));
    *out = node;
    node = NULL;
out:
    vvi_onednn_free(node);
    return status;
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    vvi_onednn_node *node = NULL;
    vv_status status = VV_EUNSUPPORTED;
    if (vv_cpu_has_bf16() && call->in[0].dtype == VV_BF16 && call->in[1].dtype == VV_BF16)
        status = make_node(&node, call, true);
    if (status == VV_EUNSUPPORTED)
        status = make_node(&node, call, false);
    if (status != VV_OK)
        return status;
    *state = node;
    *scratch_bytes = node->scratch_bytes;
    return VV_OK;
}

static vv_status run(const vv_call *call)
{
    return vvi_onednn_run(call->state, call);
}

const vv_kernel vvi_onednn_matmul[] = {
    {"onednn", accepts, prepare, run, vvi_onednn_free, 0},
    {0},
};
