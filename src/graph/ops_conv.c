/* ops_conv.c - convolution and transposed convolution, and their gradients.
 *
 * The transposed convolution is the data gradient of the convolution with the same weight read as
 * OIHW (Dumoulin & Visin, arXiv 1603.07285, section 4), so it is a CONV2D_GRAD_DATA node and shares
 * its kernels. */
#include "graph/node.h"

/* Beyond this no option makes sense, and below it no size computed here overflows. */
#define MAX_OPTION ((int64_t)1 << 30)

static bool check_pair(vv_graph *g, const char *op, const char *what, const int64_t pair[2],
                       int64_t lowest)
{
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= lowest && pair[i] <= MAX_OPTION)
            continue;
        vvi_node_fail(g, VV_EINVAL, "%s: %s {%lld,%lld} must be at least %lld (and below 2^30)", op,
                      what, (long long)pair[0], (long long)pair[1], (long long)lowest);
        return false;
    }
    return true;
}

static bool check_options(vv_graph *g, const char *op, const vv_conv_opts *opts)
{
    if (!check_pair(g, op, "stride", opts->stride, 1) || !check_pair(g, op, "pad", opts->pad, 0) ||
        !check_pair(g, op, "dilation", opts->dilation, 1) ||
        !check_pair(g, op, "output_pad", opts->output_pad, 0))
        return false;
    if (opts->groups < 1) {
        vvi_node_fail(g, VV_EINVAL, "%s: groups is %lld, must be at least 1", op,
                      (long long)opts->groups);
        return false;
    }
    return true;
}

static bool check_operands(const char *op, vv_node *x, vv_node *weight, vv_node *bias)
{
    if (!vvi_need_float(op, x) || !vvi_need_dims(op, "x", x, 4) ||
        !vvi_need_dims(op, "weight", weight, 4))
        return false;
    const vv_dtype dtype = x->out[0].dtype;
    if (weight->out[0].dtype != dtype) {
        vvi_node_fail(x->graph, VV_ETYPE, "%s: x is %s, weight is %s; cast one of them", op,
                      vv_dtype_name(dtype), vv_dtype_name(weight->out[0].dtype));
        return false;
    }
    if (bias && bias->out[0].dtype != dtype &&
        !(dtype == VV_BF16 && bias->out[0].dtype == VV_F32)) {
        vvi_node_fail(x->graph, VV_ETYPE, "%s: x is %s, bias is %s; cast one of them", op,
                      vv_dtype_name(dtype), vv_dtype_name(bias->out[0].dtype));
        return false;
    }
    const int64_t *k = weight->out[0].shape;
    if (k[0] < 1 || k[1] < 1 || k[2] < 1 || k[3] < 1) {
        char text[96];
        vvi_node_fail(x->graph, VV_ESHAPE, "%s: weight %s is empty", op,
                      vv_shape_text(4, k, text, sizeof text));
        return false;
    }
    return true;
}

static bool check_bias(const char *op, vv_node *bias, int64_t channels)
{
    if (!bias || (bias->out[0].ndim == 1 && bias->out[0].shape[0] == channels))
        return true;
    char text[96];
    vvi_node_fail(bias->graph, VV_ESHAPE, "%s: bias has shape %s, expected [%lld]", op,
                  vv_shape_text(bias->out[0].ndim, bias->out[0].shape, text, sizeof text),
                  (long long)channels);
    return false;
}

/* Channels of x against weight; what = the weight's channels as x must have them. */
static bool check_channels(const char *op, vv_node *x, vv_node *weight, int64_t expected,
                           int64_t outer, int64_t groups)
{
    char text[96];
    const int64_t channels = x->out[0].shape[3];
    vv_shape_text(4, weight->out[0].shape, text, sizeof text);
    if (channels != expected) {
        vvi_node_fail(x->graph, VV_ESHAPE,
                      "%s: x has %lld channels, weight expects %lld (weight %s, groups %lld)", op,
                      (long long)channels, (long long)expected, text, (long long)groups);
        return false;
    }
    if (outer % groups) {
        vvi_node_fail(x->graph, VV_ESHAPE,
                      "%s: %lld channels of weight %s do not divide into %lld groups", op,
                      (long long)outer, text, (long long)groups);
        return false;
    }
    return true;
}

static vv_attr attr_of(const vv_conv_opts *opts)
{
    vv_attr attr = {.raw = {0}};
    for (int i = 0; i < 2; i++) {
        attr.conv.stride[i] = opts->stride[i];
        attr.conv.pad[i] = opts->pad[i];
        attr.conv.dilation[i] = opts->dilation[i];
    }
    attr.conv.groups = opts->groups;
    return attr;
}

vv_node *vv_conv2d(vv_node *x, vv_node *weight, vv_node *bias, const vv_conv_opts *opts)
{
    static const char op[] = "conv2d";
    static const vv_conv_opts defaults = VV_CONV_DEFAULTS;
    if (!x || !weight)
        return NULL;
    if (!opts)
        opts = &defaults;
    if (!check_options(x->graph, op, opts) || !check_operands(op, x, weight, bias))
        return NULL;
    const int64_t *in = x->out[0].shape, *k = weight->out[0].shape;
    if (k[1] > INT64_MAX / opts->groups ||
        !check_channels(op, x, weight, k[1] * opts->groups, k[0], opts->groups) ||
        !check_bias(op, bias, k[0]))
        return NULL;
    int64_t shape[4] = {in[0], 0, 0, k[0]};
    for (int i = 0; i < 2; i++) {
        const int64_t reach = opts->dilation[i] * (k[2 + i] - 1) + 1;
        const int64_t room = in[1 + i] + 2 * opts->pad[i] - reach;
        if (room < 0)
            return vvi_node_fail(
                x->graph, VV_ESHAPE,
                "%s: the output would be smaller than 1: %s of x is %lld, with pad "
                "%lld on both sides, but the dilated kernel covers %lld",
                op, i ? "width" : "height", (long long)in[1 + i], (long long)opts->pad[i],
                (long long)reach);
        shape[1 + i] = room / opts->stride[i] + 1;
    }
    const vv_attr attr = attr_of(opts);
    vv_node *const operands[3] = {x, weight, bias};
    return vvi_node_new(x->graph, VV_OP_CONV2D, &attr, x->out[0].dtype, 4, shape, operands,
                        bias ? 3 : 2, 2);
}

vv_node *vv_conv_transpose2d(vv_node *x, vv_node *weight, vv_node *bias, const vv_conv_opts *opts)
{
    static const char op[] = "conv_transpose2d";
    static const vv_conv_opts defaults = VV_CONV_DEFAULTS;
    if (!x || !weight)
        return NULL;
    if (!opts)
        opts = &defaults;
    if (!check_options(x->graph, op, opts) || !check_operands(op, x, weight, bias))
        return NULL;
    const int64_t *in = x->out[0].shape, *k = weight->out[0].shape;
    if (k[1] > INT64_MAX / opts->groups ||
        !check_channels(op, x, weight, k[0], k[0], opts->groups) ||
        !check_bias(op, bias, k[1] * opts->groups))
        return NULL;
    int64_t shape[4] = {in[0], 0, 0, k[1] * opts->groups};
    for (int i = 0; i < 2; i++) {
        /* A larger output_pad would add rows that the convolution going back counts as outputs. */
        if (opts->output_pad[i] >= opts->stride[i])
            return vvi_node_fail(x->graph, VV_EINVAL,
                                 "%s: output_pad %lld must be smaller than stride %lld", op,
                                 (long long)opts->output_pad[i], (long long)opts->stride[i]);
        shape[1 + i] = (in[1 + i] - 1) * opts->stride[i] - 2 * opts->pad[i] +
                       opts->dilation[i] * (k[2 + i] - 1) + opts->output_pad[i] + 1;
        if (in[1 + i] < 1 || shape[1 + i] < 1)
            return vvi_node_fail(
                x->graph, VV_ESHAPE,
                "%s: the output would be smaller than 1: %s of x is %lld, pad %lld "
                "on both sides takes away more than the kernel of %lld adds",
                op, i ? "width" : "height", (long long)in[1 + i], (long long)opts->pad[i],
                (long long)k[2 + i]);
    }
    const vv_attr attr = attr_of(opts);
    vv_node *const operands[3] = {x, weight, bias};
    return vvi_node_new(x->graph, VV_OP_CONV2D_GRAD_DATA, &attr, x->out[0].dtype, 4, shape,
                        operands, bias ? 3 : 2, 2);
}

/* Gradient of a bias added to every pixel. */
static vv_node *bias_grad(vv_node *dout, vv_node *bias)
{
    static const int pixels[3] = {0, 1, 2};
    vv_node *sum = vv_sum(dout, pixels, 3, false);
    return sum && sum->out[0].dtype != bias->out[0].dtype ? vv_cast(sum, bias->out[0].dtype) : sum;
}

static vv_node *make_like(vv_op op, const vv_node *conv, const vv_node *like, vv_node *a,
                          vv_node *b)
{
    vv_node *const operands[2] = {a, b};
    return vvi_node_new(conv->graph, op, &conv->attr, like->out[0].dtype, like->out[0].ndim,
                        like->out[0].shape, operands, 2, 2);
}

void vvi_grad_conv2d(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    vv_node *dy = dout[0], *x = node->in[0], *weight = node->in[1];
    if (!dy)
        return;
    if (need[0])
        din[0] = make_like(VV_OP_CONV2D_GRAD_DATA, node, x, dy, weight);
    if (need[1])
        din[1] = make_like(VV_OP_CONV2D_GRAD_WEIGHT, node, weight, x, dy);
    if (node->n_in > 2 && node->in[2] && need[2])
        din[2] = bias_grad(dy, node->in[2]);
}

/* With A the convolution seen as a matrix of the weight, the node is A^T dy: so dy gets A times the
   gradient, and the weight sees the gradient in the place of the convolution's data. */
void vvi_grad_conv2d_grad_data(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    vv_node *dx = dout[0], *dy = node->in[0], *weight = node->in[1];
    if (!dx)
        return;
    if (need[0])
        din[0] = make_like(VV_OP_CONV2D, node, dy, dx, weight);
    if (need[1])
        din[1] = make_like(VV_OP_CONV2D_GRAD_WEIGHT, node, weight, dx, dy);
    if (node->n_in > 2 && node->in[2] && need[2])
        din[2] = bias_grad(dx, node->in[2]);
}
