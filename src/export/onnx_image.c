/* onnx_image.c - convolutions, pooling, resizing and group norms of images in ONNX. */
#include "onnx_graph.h"

#include <string.h>

#include <vivace/memory.h>

typedef const char *name;

static void add_window(vvi_exporter *e, const int64_t *kernel, const int64_t *stride,
                       const int64_t *pad)
{
    const int64_t pads[4] = {pad[0], pad[1], pad[0], pad[1]};
    vvi_onnx_ints(e->onnx, "kernel_shape", kernel, 2);
    vvi_onnx_ints(e->onnx, "strides", stride, 2);
    vvi_onnx_ints(e->onnx, "pads", pads, 4);
}

bool vvi_emit_conv(vvi_exporter *e, vvi_value *v)
{
    const vv_attr *attr = vv_node_attr(v->node);
    const vv_node *w = vv_node_operand(v->node, 1), *bias = vv_node_operand(v->node, 2);
    name x = vvi_image(e, vv_node_operand(v->node, 0)), y = vvi_natural(e, w);
    name z = bias ? vvi_natural(e, bias) : NULL;
    v->image = vvi_op2(e, "Conv", x, y);
    if (z)
        vvi_onnx_in(e->onnx, z);
    add_window(e, vv_node_shape(w) + 2, attr->conv.stride, attr->conv.pad);
    vvi_onnx_ints(e->onnx, "dilations", attr->conv.dilation, 2);
    vvi_onnx_int(e->onnx, "group", attr->conv.groups);
    return true;
}

bool vvi_emit_pool(vvi_exporter *e, vvi_value *v)
{
    const vv_attr *attr = vv_node_attr(v->node);
    const vv_node *node = vv_node_operand(v->node, 0);
    name x = vvi_image(e, node);
    bool ceil_mode = false;
    for (int i = 0; i < 2; i++) {
        int64_t padded = vv_node_shape(node)[1 + i] + 2 * attr->pool.pad[i];
        int64_t whole = (padded - attr->pool.kernel[i]) / attr->pool.stride[i] + 1;
        ceil_mode = ceil_mode || vv_node_shape(v->node)[1 + i] > whole;
    }
    v->image = vvi_op1(e, attr->pool.max ? "MaxPool" : "AveragePool", x);
    add_window(e, attr->pool.kernel, attr->pool.stride, attr->pool.pad);
    vvi_onnx_int(e->onnx, "ceil_mode", ceil_mode);
    if (!attr->pool.max)
        vvi_onnx_int(e->onnx, "count_include_pad", attr->pool.include_pad);
    return true;
}

/* Each output side's windows as a matrix [out,in] of shares; NULL after a failure. */
static name window_matrix(vvi_exporter *e, int64_t in, int64_t out, bool turned)
{
    const int64_t shape[2] = {turned ? in : out, turned ? out : in};
    float *values = NULL;
    if (vv_alloc_array(&values, (size_t)(in * out), sizeof *values) != VV_OK) {
        vv_graph_fail(e->graph, VV_ENOMEM);
        return NULL;
    }
    for (int64_t o = 0; o < out; o++) {
        const int64_t from = o * in / out, to = ((o + 1) * in + out - 1) / out;
        for (int64_t i = 0; i < in; i++)
            values[turned ? i * out + o : o * in + i] =
                i >= from && i < to ? 1.0f / (float)(to - from) : 0.0f;
    }
    name made = vvi_onnx_name(e->onnx);
    vvi_onnx_constant(e->onnx, made, VV_F32, 2, shape, values, true);
    vv_dealloc(values);
    return made;
}

/* The whole image; windows that divide it; for averages any windows, by two products. */
bool vvi_emit_adaptive_pool(vvi_exporter *e, vvi_value *v)
{
    static const int64_t no_pad[2] = {0, 0};
    const bool max = vv_node_attr(v->node)->adaptive_pool.max != 0;
    const vv_node *node = vv_node_operand(v->node, 0);
    const int64_t *in = vv_node_shape(node) + 1, *out = vv_node_shape(v->node) + 1;
    const bool divides = in[0] % out[0] == 0 && in[1] % out[1] == 0;
    if (!divides && max)
        return false;
    name x = vvi_image(e, node);
    if (out[0] == 1 && out[1] == 1) {
        v->image = vvi_op1(e, max ? "GlobalMaxPool" : "GlobalAveragePool", x);
        return true;
    }
    if (!divides) {
        name rows = window_matrix(e, in[0], out[0], false);
        name columns = window_matrix(e, in[1], out[1], true);
        v->image = vvi_op2(e, "MatMul", vvi_op2(e, "MatMul", rows, x), columns);
        return rows && columns;
    }
    const int64_t window[2] = {in[0] / out[0], in[1] / out[1]};
    v->image = vvi_op1(e, max ? "MaxPool" : "AveragePool", x);
    add_window(e, window, window, no_pad);
    return true;
}

/* What a convolution's backward pass gives to its input. */
bool vvi_emit_conv_transpose(vvi_exporter *e, vvi_value *v)
{
    const vv_attr *attr = vv_node_attr(v->node);
    const vv_node *node = vv_node_operand(v->node, 0), *w = vv_node_operand(v->node, 1);
    const vv_node *bias = vv_node_operand(v->node, 2);
    name x = vvi_image(e, node), y = vvi_natural(e, w), z = bias ? vvi_natural(e, bias) : NULL;
    int64_t more[2];
    for (int i = 0; i < 2; i++)
        more[i] = vv_node_shape(v->node)[1 + i] -
                  ((vv_node_shape(node)[1 + i] - 1) * attr->conv.stride[i] -
                   2 * attr->conv.pad[i] +
                   attr->conv.dilation[i] * (vv_node_shape(w)[2 + i] - 1) + 1);
    v->image = vvi_op2(e, "ConvTranspose", x, y);
    if (z)
        vvi_onnx_in(e->onnx, z);
    add_window(e, vv_node_shape(w) + 2, attr->conv.stride, attr->conv.pad);
    vvi_onnx_ints(e->onnx, "dilations", attr->conv.dilation, 2);
    vvi_onnx_ints(e->onnx, "output_padding", more, 2);
    vvi_onnx_int(e->onnx, "group", attr->conv.groups);
    return true;
}

/* Bilinear between centres of pixels; the nearest one is floor(i * in / out). */
bool vvi_emit_resize(vvi_exporter *e, vvi_value *v)
{
    static const int64_t sides[2] = {2, 3};
    const bool nearest = vv_node_attr(v->node)->resize.mode == VV_RESIZE_NEAREST;
    name x = vvi_image(e, vv_node_operand(v->node, 0));
    name size = vvi_integers(e, vv_node_shape(v->node) + 1, 2), made = vvi_op2(e, "Resize", x, "");
    vvi_onnx_in(e->onnx, ""); /* no region, no scales */
    vvi_onnx_in(e->onnx, size);
    vvi_onnx_ints(e->onnx, "axes", sides, 2);
    vvi_onnx_string(e->onnx, "mode", nearest ? "nearest" : "linear");
    vvi_onnx_string(e->onnx, "coordinate_transformation_mode",
                    nearest ? "asymmetric" : "half_pixel");
    if (nearest)
        vvi_onnx_string(e->onnx, "nearest_mode", "floor");
    v->image = made;
    return true;
}

/* Groups are the channels of an instance norm; each channel's own scale and shift come after. */
bool vvi_emit_group_norm(vvi_exporter *e, vvi_value *v)
{
    const vv_attr *attr = vv_node_attr(v->node);
    vv_node *node = vv_node_operand(v->node, 0);
    const int64_t *shape = vv_node_shape(node), groups = attr->norm.groups;
    const int64_t flat[3] = {0, groups, -1}, whole[4] = {0, shape[3], shape[1], shape[2]};
    if (vv_node_ndim(node) != 4)
        return false;
    float *ends = NULL;
    if (vv_alloc_array(&ends, (size_t)groups, 2 * sizeof *ends) != VV_OK) {
        vv_graph_fail(e->graph, VV_ENOMEM);
        return false;
    }
    for (int64_t i = 0; i < groups; i++)
        ends[i] = 1.0f;
    name ones = vvi_onnx_name(e->onnx), zeros = vvi_onnx_name(e->onnx);
    vvi_onnx_constant(e->onnx, ones, VV_F32, 1, &groups, ends, true);
    vvi_onnx_constant(e->onnx, zeros, VV_F32, 1, &groups, ends + groups, true);
    vv_dealloc(ends);
    name x = vvi_image(e, node), to = vvi_integers(e, flat, 3), back = vvi_integers(e, whole, 4);
    name scale = vvi_beside_image(e, vv_node_operand(v->node, 1));
    name shift = vvi_beside_image(e, vv_node_operand(v->node, 2));
    if (!scale || !shift)
        return false;
    name y = vvi_op2(e, "InstanceNormalization", vvi_op2(e, "Reshape", x, to), ones);
    vvi_onnx_in(e->onnx, zeros);
    vvi_onnx_float(e->onnx, "epsilon", attr->norm.eps);
    y = vvi_op2(e, "Reshape", y, back);
    v->image = vvi_op2(e, "Add", vvi_op2(e, "Mul", y, scale), shift);
    return true;
}
