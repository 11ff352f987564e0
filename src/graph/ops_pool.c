/* ops_pool.c - pooling, adaptive pooling and resizing of images, and their gradients. */
#include "graph/node.h"

#define MAX_OPTION ((int64_t)1 << 30)

static bool check_image(const char *op, vv_node *x)
{
    if (!vvi_need_float(op, x) || !vvi_need_dims(op, "x", x, 4))
        return false;
    if (x->out[0].shape[1] > 0 && x->out[0].shape[2] > 0)
        return true;
    char text[96];
    vvi_node_fail(x->graph, VV_ESHAPE, "%s: x %s has no pixels", op,
                  vv_shape_text(4, x->out[0].shape, text, sizeof text));
    return false;
}

/* Number of windows along one axis, 0 if there is none. In ceil mode the last window must start
   inside the data or its left padding, else it would see nothing. */
static int64_t window_count(int64_t size, const vv_pool_opts *opts, int axis)
{
    const int64_t pad = opts->pad[axis], stride = opts->stride[axis];
    const int64_t room = size + 2 * pad - opts->kernel[axis];
    if (!opts->ceil_mode)
        return room < 0 ? 0 : room / stride + 1;
    /* With ceil, a window larger than the padded data still counts if less than a stride is
     * missing. */
    const int64_t rounded = room + stride - 1;
    int64_t count = rounded < 0 ? 0 : rounded / stride + 1;
    if (count > 0 && (count - 1) * stride >= size + pad)
        count--;
    return count;
}

static bool check_window(vv_graph *g, const char *op, const vv_pool_opts *opts)
{
    for (int i = 0; i < 2; i++) {
        const long long kernel = opts->kernel[i], stride = opts->stride[i], pad = opts->pad[i];
        if (kernel < 1 || stride < 1 || pad < 0 || kernel > MAX_OPTION || stride > MAX_OPTION) {
            vvi_node_fail(g, VV_EINVAL,
                          "%s: kernel %lld and stride %lld must be at least 1, pad %lld at least 0 "
                          "(and all below 2^30)",
                          op, kernel, stride, pad);
            return false;
        }
        if (pad > kernel / 2) {
            vvi_node_fail(g, VV_EINVAL, "%s: pad %lld is more than half of kernel %lld", op, pad,
                          kernel);
            return false;
        }
    }
    return true;
}

static vv_node *pool(const char *op, vv_node *x, const vv_pool_opts *opts, bool max)
{
    if (!x)
        return NULL;
    if (!opts)
        return vvi_node_fail(x->graph, VV_EINVAL, "%s: opts is NULL, the kernel size is needed",
                             op);
    if (!check_image(op, x) || !check_window(x->graph, op, opts))
        return NULL;
    const int64_t *in = x->out[0].shape;
    int64_t shape[4] = {in[0], 0, 0, in[3]};
    vv_attr attr = {.raw = {0}};
    attr.pool.max = max;
    attr.pool.include_pad = !max && opts->count_include_pad;
    for (int i = 0; i < 2; i++) {
        attr.pool.kernel[i] = opts->kernel[i];
        attr.pool.stride[i] = opts->stride[i];
        attr.pool.pad[i] = opts->pad[i];
        shape[1 + i] = window_count(in[1 + i], opts, i);
        if (shape[1 + i] < 1)
            return vvi_node_fail(
                x->graph, VV_ESHAPE,
                "%s: the output would be smaller than 1: %s of x is %lld, with pad "
                "%lld on both sides, but the kernel covers %lld",
                op, i ? "width" : "height", (long long)in[1 + i], (long long)opts->pad[i],
                (long long)opts->kernel[i]);
    }
    return vvi_node_new(x->graph, VV_OP_POOL, &attr, x->out[0].dtype, 4, shape, &x, 1, 1);
}

vv_node *vv_max_pool2d(vv_node *x, const vv_pool_opts *opts)
{
    return pool("max_pool2d", x, opts, true);
}

vv_node *vv_avg_pool2d(vv_node *x, const vv_pool_opts *opts)
{
    return pool("avg_pool2d", x, opts, false);
}

/* A node of x's batch and channels, and this height and width. */
static vv_node *to_size(const char *name, vv_node *x, vv_op op, const vv_attr *attr, int64_t height,
                        int64_t width)
{
    if (!check_image(name, x))
        return NULL;
    if (height < 1 || width < 1 || height > MAX_OPTION || width > MAX_OPTION)
        return vvi_node_fail(x->graph, VV_EINVAL,
                             "%s: size %lld x %lld, both must be at least 1 (and below 2^30)", name,
                             (long long)height, (long long)width);
    const int64_t shape[4] = {x->out[0].shape[0], height, width, x->out[0].shape[3]};
    return vvi_node_new(x->graph, op, attr, x->out[0].dtype, 4, shape, &x, 1, 1);
}

vv_node *vv_adaptive_avg_pool2d(vv_node *x, int64_t height, int64_t width)
{
    if (!x)
        return NULL;
    const vv_attr attr = {.raw = {0}};
    return to_size("adaptive_avg_pool2d", x, VV_OP_ADAPTIVE_POOL, &attr, height, width);
}

vv_node *vv_adaptive_max_pool2d(vv_node *x, int64_t height, int64_t width)
{
    if (!x)
        return NULL;
    vv_attr attr = {.raw = {0}};
    attr.adaptive_pool.max = 1;
    return to_size("adaptive_max_pool2d", x, VV_OP_ADAPTIVE_POOL, &attr, height, width);
}

vv_node *vv_resize(vv_node *x, int64_t height, int64_t width, vv_resize_mode mode)
{
    if (!x)
        return NULL;
    if (mode != VV_RESIZE_NEAREST && mode != VV_RESIZE_BILINEAR)
        return vvi_node_fail(x->graph, VV_EINVAL, "resize: mode %d is neither nearest nor bilinear",
                             (int)mode);
    vv_attr attr = {.raw = {0}};
    attr.resize.mode = mode;
    return to_size("resize", x, VV_OP_RESIZE, &attr, height, width);
}

/* din[0] = node `op` of the gradient, and of x where the place of the maximum is needed. */
static void image_grad(vv_node *node, vv_op op, bool with_x, vv_node *const *dout, const bool *need,
                       vv_node **din)
{
    if (!dout[0] || !need[0])
        return;
    vv_node *x = node->in[0];
    vv_node *const operands[2] = {dout[0], x};
    const int count = with_x ? 2 : 1;
    din[0] = vvi_node_new(node->graph, op, &node->attr, x->out[0].dtype, 4, x->out[0].shape,
                          operands, count, count);
}

void vvi_grad_pool(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    image_grad(node, VV_OP_POOL_GRAD, node->attr.pool.max, dout, need, din);
}

void vvi_grad_adaptive_pool(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    image_grad(node, VV_OP_ADAPTIVE_POOL_GRAD, node->attr.adaptive_pool.max, dout, need, din);
}

void vvi_grad_resize(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din)
{
    image_grad(node, VV_OP_RESIZE_GRAD, false, dout, need, din);
}
