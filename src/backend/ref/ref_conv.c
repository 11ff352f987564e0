/* ref_conv.c - reference kernels of convolution: data NHWC, weights OIHW, sums in double. */
#include "backend/ref/ref.h"

static bool accepts(const vv_call *call)
{
    (void)call;
    return true;
}

/* One convolution y = x * w, whichever of the three is sought. */
typedef struct conv {
    const vv_buf *x, *w, *y;
    int64_t batch, height, width, channels;      /* of x */
    int64_t out_height, out_width, out_channels; /* of y */
    int64_t kernel_height, kernel_width;
    int64_t group_in, group_out; /* channels of one group */
    const int64_t *stride, *pad, *dilation;
} conv;

static conv conv_of(const vv_call *call, const vv_buf *x, const vv_buf *w, const vv_buf *y)
{
    return (conv){
        .x = x,
        .w = w,
        .y = y,
        .batch = x->shape[0],
        .height = x->shape[1],
        .width = x->shape[2],
        .channels = x->shape[3],
        .out_height = y->shape[1],
        .out_width = y->shape[2],
        .out_channels = y->shape[3],
        .kernel_height = w->shape[2],
        .kernel_width = w->shape[3],
        .group_in = w->shape[1],
        .group_out = w->shape[0] / call->attr->conv.groups,
        .stride = call->attr->conv.stride,
        .pad = call->attr->conv.pad,
        .dilation = call->attr->conv.dilation,
    };
}

static int64_t x_at(const conv *c, int64_t n, int64_t h, int64_t w)
{
    return ((n * c->height + h) * c->width + w) * c->channels;
}

static int64_t y_at(const conv *c, int64_t n, int64_t h, int64_t w)
{
    return ((n * c->out_height + h) * c->out_width + w) * c->out_channels;
}

static int64_t w_at(const conv *c, int64_t o, int64_t i, int64_t h, int64_t w)
{
    return ((o * c->group_in + i) * c->kernel_height + h) * c->kernel_width + w;
}

/* Row (or column) of x under tap k of output row `out`, -1 in the padding. */
static int64_t source(const conv *c, int axis, int64_t out, int64_t k)
{
    const int64_t at = out * c->stride[axis] - c->pad[axis] + k * c->dilation[axis];
    return at >= 0 && at < (axis ? c->width : c->height) ? at : -1;
}

/* The output row whose tap k lies on row `in` of x, -1 if there is none. */
static int64_t target(const conv *c, int axis, int64_t in, int64_t k)
{
    const int64_t at = in + c->pad[axis] - k * c->dilation[axis];
    if (at < 0 || at % c->stride[axis])
        return -1;
    const int64_t out = at / c->stride[axis];
    return out < (axis ? c->out_width : c->out_height) ? out : -1;
}

static double bias_of(const vv_call *call, int64_t channel)
{
    return call->n_in > 2 && call->in[2].data ? vvi_ref_get(&call->in[2], channel) : 0.0;
}

static double forward_sum(const conv *c, int64_t n, int64_t oy, int64_t ox, int64_t o)
{
    const int64_t first = o / c->group_out * c->group_in;
    double sum = 0.0;
    for (int64_t ky = 0; ky < c->kernel_height; ky++) {
        const int64_t iy = source(c, 0, oy, ky);
        for (int64_t kx = 0; iy >= 0 && kx < c->kernel_width; kx++) {
            const int64_t ix = source(c, 1, ox, kx);
            if (ix < 0)
                continue;
            const int64_t at = x_at(c, n, iy, ix) + first;
            for (int64_t i = 0; i < c->group_in; i++)
                sum += vvi_ref_get(c->x, at + i) * vvi_ref_get(c->w, w_at(c, o, i, ky, kx));
        }
    }
    return sum;
}

static vv_status run_conv2d(const vv_call *call)
{
    const conv c = conv_of(call, &call->in[0], &call->in[1], &call->out[0]);
    for (int64_t n = 0; n < c.batch; n++)
        for (int64_t oy = 0; oy < c.out_height; oy++)
            for (int64_t ox = 0; ox < c.out_width; ox++)
                for (int64_t o = 0; o < c.out_channels; o++)
                    vvi_ref_set(c.y, y_at(&c, n, oy, ox) + o,
                                forward_sum(&c, n, oy, ox, o) + bias_of(call, o));
    return VV_OK;
}

static double data_sum(const conv *c, int64_t n, int64_t iy, int64_t ix, int64_t channel)
{
    const int64_t first = channel / c->group_in * c->group_out, i = channel % c->group_in;
    double sum = 0.0;
    for (int64_t ky = 0; ky < c->kernel_height; ky++) {
        const int64_t oy = target(c, 0, iy, ky);
        for (int64_t kx = 0; oy >= 0 && kx < c->kernel_width; kx++) {
            const int64_t ox = target(c, 1, ix, kx);
            if (ox < 0)
                continue;
            const int64_t at = y_at(c, n, oy, ox);
            for (int64_t o = first; o < first + c->group_out; o++)
                sum += vvi_ref_get(c->y, at + o) * vvi_ref_get(c->w, w_at(c, o, i, ky, kx));
        }
    }
    return sum;
}

static vv_status run_conv2d_grad_data(const vv_call *call)
{
    const conv c = conv_of(call, &call->out[0], &call->in[1], &call->in[0]);
    for (int64_t n = 0; n < c.batch; n++)
        for (int64_t iy = 0; iy < c.height; iy++)
            for (int64_t ix = 0; ix < c.width; ix++)
                for (int64_t i = 0; i < c.channels; i++)
                    vvi_ref_set(c.x, x_at(&c, n, iy, ix) + i,
                                data_sum(&c, n, iy, ix, i) + bias_of(call, i));
    return VV_OK;
}

static double weight_sum(const conv *c, int64_t o, int64_t i, int64_t ky, int64_t kx)
{
    const int64_t channel = o / c->group_out * c->group_in + i;
    double sum = 0.0;
    for (int64_t n = 0; n < c->batch; n++) {
        for (int64_t oy = 0; oy < c->out_height; oy++) {
            const int64_t iy = source(c, 0, oy, ky);
            for (int64_t ox = 0; iy >= 0 && ox < c->out_width; ox++) {
                const int64_t ix = source(c, 1, ox, kx);
                if (ix >= 0)
                    sum += vvi_ref_get(c->x, x_at(c, n, iy, ix) + channel) *
                           vvi_ref_get(c->y, y_at(c, n, oy, ox) + o);
            }
        }
    }
    return sum;
}

static vv_status run_conv2d_grad_weight(const vv_call *call)
{
    const conv c = conv_of(call, &call->in[0], &call->out[0], &call->in[1]);
    for (int64_t o = 0; o < c.out_channels; o++)
        for (int64_t i = 0; i < c.group_in; i++)
            for (int64_t ky = 0; ky < c.kernel_height; ky++)
                for (int64_t kx = 0; kx < c.kernel_width; kx++)
                    vvi_ref_set(c.w, w_at(&c, o, i, ky, kx), weight_sum(&c, o, i, ky, kx));
    return VV_OK;
}

const vv_kernel vvi_ref_conv2d[] = {{.name = "ref", .accepts = accepts, .run = run_conv2d},
                                    {.run = NULL}};
const vv_kernel vvi_ref_conv2d_grad_data[] = {
    {.name = "ref", .accepts = accepts, .run = run_conv2d_grad_data}, {.run = NULL}};
const vv_kernel vvi_ref_conv2d_grad_weight[] = {
    {.name = "ref", .accepts = accepts, .run = run_conv2d_grad_weight}, {.run = NULL}};
