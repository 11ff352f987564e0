/* onednn_conv.c - convolutions by oneDNN: NHWC activations, weights re-packed inside the node.
 *
 * On CPUs without bf16 instructions bf16 operands are converted in scratch and computed in f32. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/onednn_winograd.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"

#include <string.h>

/* The three activations and weights of one convolution, whichever of them is the result. */
typedef struct conv_shapes {
    const vv_buf *x, *w, *bias, *y;
} conv_shapes;

static conv_shapes shapes_of(const vv_call *call)
{
    const vv_buf *third = call->n_in > 2 && call->in[2].count > 0 ? &call->in[2] : NULL;
    switch (call->op) {
    case VV_OP_CONV2D: return (conv_shapes){&call->in[0], &call->in[1], third, &call->out[0]};
    case VV_OP_CONV2D_GRAD_DATA:
        return (conv_shapes){&call->out[0], &call->in[1], third, &call->in[0]};
    default: return (conv_shapes){&call->in[0], &call->out[0], NULL, &call->in[1]};
    }
}

static bool accepts(const vv_call *call)
{
    const conv_shapes s = shapes_of(call);
    return vvi_is_vec_float(s.x->dtype) && vvi_is_vec_float(s.w->dtype) &&
           vvi_is_vec_float(s.y->dtype) && (!s.bias || vvi_is_vec_float(s.bias->dtype)) &&
           s.x->count > 0 && s.w->count > 0 && s.y->count > 0;
}

/* oneDNN 2.6 sums wrongly over threads where a 1x1 convolution strides over fewer than 8 channels
   (tests/op has the case). */
static bool accepts_grad_weight(const vv_call *call)
{
    const conv_shapes s = shapes_of(call);
    const bool point = s.w->shape[2] == 1 && s.w->shape[3] == 1;
    const bool strides = call->attr->conv.stride[0] > 1 || call->attr->conv.stride[1] > 1;
    return accepts(call) && !(point && strides && s.x->shape[3] < 8);
}

static void nhwc_layout(const vv_buf *buf, dnnl_dims_t dims, dnnl_dims_t strides)
{
    const int64_t h = buf->shape[1], w = buf->shape[2], c = buf->shape[3];
    const dnnl_dims_t d = {buf->shape[0], c, h, w}, s = {h * w * c, 1, w * c, c};
    memcpy(dims, d, sizeof(dnnl_dims_t));
    memcpy(strides, s, sizeof(dnnl_dims_t));
}

/* [O,I/g,kh,kw], with the groups as a dimension of its own if there are several. Returns ndims. */
static int weight_layout(const vv_buf *w, int64_t groups, dnnl_dims_t dims, dnnl_dims_t strides)
{
    const int64_t o = w->shape[0] / groups, i = w->shape[1], kh = w->shape[2], kw = w->shape[3];
    const dnnl_dims_t d = {groups, o, i, kh, kw},
                      s = {o * i * kh * kw, i * kh * kw, kh * kw, kw, 1};
    const int skip = groups == 1;
    for (int k = skip; k < 5; k++) {
        dims[k - skip] = d[k];
        strides[k - skip] = s[k];
    }
    return 5 - skip;
}

static vvi_conv_geometry geometry_of(const vv_attr *attr, const conv_shapes *s)
{
    vvi_conv_geometry g;
    memset(&g, 0, sizeof g);
    for (int d = 0; d < 2; d++) {
        const int64_t span = attr->conv.dilation[d] * (s->w->shape[2 + d] - 1) + 1;
        const int64_t reach = (s->y->shape[1 + d] - 1) * attr->conv.stride[d] + span;
        g.stride[d] = attr->conv.stride[d];
        g.dilate[d] = attr->conv.dilation[d] - 1;
        g.pad_before[d] = attr->conv.pad[d];
        g.pad_after[d] = vvi_max64(0, reach - s->x->shape[1 + d] - attr->conv.pad[d]);
    }
    return g;
}

/* Descriptors the primitive is asked for: activations as they lie, weights as the library likes. */
typedef struct conv_descs {
    vvi_md x, w, bias, y;
} conv_descs;

static void free_descs(conv_descs *d)
{
    vvi_md_free(d->x);
    vvi_md_free(d->w);
    vvi_md_free(d->bias);
    vvi_md_free(d->y);
}

static vv_dtype compute_type(vv_dtype dtype, bool native)
{
    return native ? dtype : VV_F32;
}

/* A result that still gets a bias stays f32 until then. */
static vv_dtype x_type(vv_op op, const conv_shapes *s, bool native)
{
    return compute_type(s->x->dtype, native && !(op == VV_OP_CONV2D_GRAD_DATA && s->bias));
}

static vv_status make_descs(conv_descs *d, vv_op op, const conv_shapes *s, int64_t groups,
                            bool native)
{
    dnnl_dims_t dims, strides;
    nhwc_layout(s->x, dims, strides);
    VVI_DNN(vvi_md_new(&d->x, 4, dims, vvi_onednn_type(x_type(op, s, native)), strides),
            "describing x");
    nhwc_layout(s->y, dims, strides);
    VVI_DNN(vvi_md_new(&d->y, 4, dims, vvi_onednn_type(compute_type(s->y->dtype, native)), strides),
            "describing y");
    const int ndims = weight_layout(s->w, groups, dims, strides);
    VVI_DNN(
        vvi_md_new(&d->w, ndims, dims, vvi_onednn_type(compute_type(s->w->dtype, native)), NULL),
        "describing the weights");
    if (s->bias) {
        const dnnl_dims_t n = {s->bias->count}, one = {1};
        VVI_DNN(
            vvi_md_new(&d->bias, 1, n, vvi_onednn_type(compute_type(s->bias->dtype, native)), one),
            "describing the bias");
    }
    return VV_OK;
}

static vv_status make_primitive_desc(vvi_onednn_node *node, vv_op op, const conv_descs *d,
                                     const vvi_conv_geometry *g)
{
    if (op == VV_OP_CONV2D) {
        VVI_DNN(vvi_pd_conv_forward(&node->desc, node->engine, node->attr, d->x, d->w, d->bias,
                                    d->y, g),
                "planning a convolution");
        return VV_OK;
    }
    VVI_DNN(
        vvi_pd_conv_forward(&node->forward, node->engine, node->attr, d->x, d->w, NULL, d->y, g),
        "planning a convolution");
    if (op == VV_OP_CONV2D_GRAD_DATA)
        VVI_DNN(vvi_pd_conv_backward_data(&node->desc, node->engine, node->attr, d->x, d->w, d->y,
                                          g, node->forward),
                "planning a convolution's gradient for its input");
    else
        VVI_DNN(vvi_pd_conv_backward_weights(&node->desc, node->engine, node->attr, d->x, d->w,
                                             d->y, g, node->forward),
                "planning a convolution's gradient for its weights");
    return VV_OK;
}

static vv_status add_activation(vvi_onednn_node *node, int id, int buf, const vv_buf *operand,
                                vv_dtype compute)
{
    dnnl_dims_t dims, strides;
    nhwc_layout(operand, dims, strides);
    return vvi_onednn_add(node, id, buf, operand, 4, dims, strides, compute);
}

static vv_status add_weights(vvi_onednn_node *node, int id, int buf, const vv_buf *w,
                             int64_t groups, bool native)
{
    dnnl_dims_t dims, strides;
    const int ndims = weight_layout(w, groups, dims, strides);
    return vvi_onednn_add(node, id, buf, w, ndims, dims, strides, compute_type(w->dtype, native));
}

static vv_status add_operands(vvi_onednn_node *node, vv_op op, const conv_shapes *s, int64_t groups,
                              bool native)
{
    const vv_dtype x = x_type(op, s, native), y = compute_type(s->y->dtype, native);
    if (op == VV_OP_CONV2D) {
        VV_TRY(add_activation(node, DNNL_ARG_SRC, 0, s->x, x));
        VV_TRY(add_weights(node, DNNL_ARG_WEIGHTS, 1, s->w, groups, native));
        if (s->bias) {
            const dnnl_dims_t dims = {s->bias->count}, one = {1};
            VV_TRY(vvi_onednn_add(node, DNNL_ARG_BIAS, 2, s->bias, 1, dims, one,
                                  compute_type(s->bias->dtype, native)));
        }
        VV_TRY(add_activation(node, DNNL_ARG_DST, 0, s->y, y));
        return vvi_onednn_finish(node);
    }
    if (op == VV_OP_CONV2D_GRAD_DATA) {
        VV_TRY(add_activation(node, DNNL_ARG_DIFF_DST, 0, s->y, y));
        VV_TRY(add_weights(node, DNNL_ARG_WEIGHTS, 1, s->w, groups, native));
        VV_TRY(add_activation(node, DNNL_ARG_DIFF_SRC, 0, s->x, x));
        return vvi_onednn_finish(node);
    }
    VV_TRY(add_activation(node, DNNL_ARG_SRC, 0, s->x, x));
    VV_TRY(add_activation(node, DNNL_ARG_DIFF_DST, 1, s->y, y));
    VV_TRY(add_weights(node, DNNL_ARG_DIFF_WEIGHTS, 0, s->w, groups, native));
    return vvi_onednn_finish(node);
}

static vv_status make_node(vvi_onednn_node **out, const vv_call *call, bool native)
{
    const conv_shapes s = shapes_of(call);
    const vvi_conv_geometry g = geometry_of(call->attr, &s);
    const int64_t groups = call->attr->conv.groups;
    conv_descs descs = {0};
    vvi_onednn_node *node = NULL;
    vv_status status;
    *out = NULL;
    VV_GO(vvi_onednn_new(&node));
    VV_GO(make_descs(&descs, call->op, &s, groups, native));
    VV_GO(make_primitive_desc(node, call->op, &descs, &g));
    VV_GO(add_operands(node, call->op, &s, groups, native));
    *out = node;
    node = NULL;
out:
    free_descs(&descs);
    vvi_onednn_free(node);
    return status;
}

/* bf16 goes to the library as it is only if every matrix operand is bf16 and the CPU can. */
static bool wants_native(const vv_call *call)
{
    return vv_cpu_has_bf16() && call->in[0].dtype == VV_BF16 && call->in[1].dtype == VV_BF16;
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    vvi_onednn_node *node = NULL;
    vv_status status = VV_EUNSUPPORTED;
    if (wants_native(call))
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

/* The bias of a transposed convolution is added to the finished f32 rows. */
typedef struct bias_job {
    float *rows_data;
    const float *bias;
    int64_t channels, rows, grain;
} bias_job;

static void add_bias_rows(void *ctx, int64_t chunk, int slot)
{
    (void)slot;
    const bias_job *job = ctx;
    const int64_t c = job->channels, end = vvi_min64((chunk + 1) * job->grain, job->rows);
    for (int64_t r = chunk * job->grain; r < end; r++)
        vvi_vec_add(job->rows_data + r * c, job->bias, c);
}

static vv_status prepare_grad_data(const vv_call *call, void **state, size_t *scratch_bytes)
{
    VV_TRY(prepare(call, state, scratch_bytes));
    if (call->n_in > 2 && call->in[2].count > 0)
        *scratch_bytes += vvi_align64((size_t)call->in[2].count * sizeof(float));
    return VV_OK;
}

static vv_status run_grad_data(const vv_call *call)
{
    vvi_onednn_node *node = call->state;
    VV_TRY(vvi_onednn_execute(node, call));
    if (call->n_in > 2 && call->in[2].count > 0) {
        float *room = (float *)(void *)((char *)call->scratch + node->scratch_bytes);
        bias_job job = {.rows_data = vvi_onednn_result(node, call), .channels = call->in[2].count};
        job.bias = vvi_vec_view(room, &call->in[2], 0, job.channels);
        job.rows = call->out[0].count / job.channels;
        job.grain = vvi_row_grain(job.channels);
        vvi_cpu_for(vvi_chunks(job.rows, job.grain), 0, add_bias_rows, &job);
    }
    vvi_onednn_store(node, call);
    return VV_OK;
}

/* First where the rule says so; and last, for those who ask for it by name or time it. */
#define WINOGRAD(accepts_it, run_it)                                                               \
    {"winograd", accepts_it, vvi_winograd_prepare, run_it, vvi_winograd_release, 0}

const vv_kernel vvi_onednn_conv2d[] = {
    WINOGRAD(vvi_winograd_accepts, vvi_winograd_run),
    {"onednn", accepts, prepare, run, vvi_onednn_free, 0},
    WINOGRAD(vvi_winograd_can, vvi_winograd_run),
    {0},
};
const vv_kernel vvi_onednn_conv2d_grad_data[] = {
    WINOGRAD(vvi_winograd_accepts, vvi_winograd_run),
    {"onednn", accepts, prepare_grad_data, run_grad_data, vvi_onednn_free, 0},
    WINOGRAD(vvi_winograd_can, vvi_winograd_run),
    {0},
};
const vv_kernel vvi_onednn_conv2d_grad_weight[] = {
    WINOGRAD(vvi_winograd_accepts, vvi_winograd_run_grad_weight),
    {"onednn", accepts_grad_weight, prepare, run, vvi_onednn_free, 0},
    WINOGRAD(vvi_winograd_can, vvi_winograd_run_grad_weight),
    {0},
};
