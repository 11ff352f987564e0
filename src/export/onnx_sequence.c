/* onnx_sequence.c - RMS norm, rotary positions and running sums in ONNX. */
#include "onnx_graph.h"

#include <math.h>

#include <vivace/memory.h>

typedef const char *name;

/* x / sqrt(mean(x^2) + eps) * gamma: the opset has no such op. */
bool vvi_emit_rms_norm(vvi_exporter *e, vvi_value *v)
{
    const int64_t last = -1;
    name gamma = vvi_natural(e, vv_node_operand(v->node, 1));
    name x = vvi_natural(e, vv_node_operand(v->node, 0));
    name eps = vvi_number(e, vv_node_attr(v->node)->norm.eps), axes = vvi_integers(e, &last, 1);
    name mean = vvi_op2(e, "ReduceMean", vvi_op2(e, "Mul", x, x), axes);
    vvi_onnx_int(e->onnx, "keepdims", 1);
    name root = vvi_op1(e, "Sqrt", vvi_op2(e, "Add", mean, eps));
    v->name = vvi_op2(e, "Mul", vvi_op2(e, "Div", x, root), gamma);
    return true;
}

/* Cosines or sines of all positions, a constant [T,1,D/2]; NULL after a failure. */
static name table(vvi_exporter *e, const vv_node *rotary, const vv_tensor *frequencies,
                  double (*wave)(double))
{
    const int64_t half = frequencies->count, length = vv_node_shape(rotary)[1];
    const int64_t shape[3] = {length, 1, half};
    const int64_t offset = vv_node_attr(rotary)->rotary.offset;
    float *values = NULL;
    if (vv_alloc_array(&values, (size_t)(length * half), sizeof *values) != VV_OK) {
        vv_graph_fail(e->graph, VV_ENOMEM);
        return NULL;
    }
    for (int64_t i = 0; i < length * half; i++)
        values[i] = (float)wave((double)(i / half + offset) *
                                vv_tensor_get(frequencies, i % half));
    name made = vvi_onnx_name(e->onnx);
    vvi_onnx_constant(e->onnx, made, VV_F32, 3, shape, values, true);
    vv_dealloc(values);
    return made;
}

/* One half of each head. */
static name half_of(vvi_exporter *e, name x, int64_t start, int64_t stop)
{
    const int64_t axis = 3;
    name first = vvi_integers(e, &start, 1), end = vvi_integers(e, &stop, 1);
    name which = vvi_integers(e, &axis, 1), made = vvi_op2(e, "Slice", x, first);
    vvi_onnx_in(e->onnx, end);
    vvi_onnx_in(e->onnx, which);
    return made;
}

bool vvi_emit_rotary(vvi_exporter *e, vvi_value *v)
{
    vv_node *frequencies = vv_node_operand(v->node, 1);
    const vv_tensor *values =
        vvi_value_of(e, frequencies)->constant ? vvi_constant_value(e, frequencies) : NULL;
    if (!values)
        return false;
    const int64_t half = values->count;
    name cosines = table(e, v->node, values, cos), sines = table(e, v->node, values, sin);
    if (!cosines || !sines)
        return false;
    name x = vvi_natural(e, vv_node_operand(v->node, 0));
    name a = half_of(e, x, 0, half), b = half_of(e, x, half, 2 * half);
    name ac = vvi_op2(e, "Mul", a, cosines), bs = vvi_op2(e, "Mul", b, sines);
    name as = vvi_op2(e, "Mul", a, sines), bc = vvi_op2(e, "Mul", b, cosines);
    name upper = vvi_op2(e, "Sub", ac, bs), lower = vvi_op2(e, "Add", as, bc);
    v->name = vvi_op2(e, "Concat", upper, lower);
    vvi_onnx_int(e->onnx, "axis", 3);
    return true;
}

bool vvi_emit_cumsum(vvi_exporter *e, vvi_value *v)
{
    const int64_t axis = vv_node_ndim(v->node) - 1;
    const vv_attr *attr = vv_node_attr(v->node);
    name x = vvi_natural(e, vv_node_operand(v->node, 0)), which = vvi_onnx_name(e->onnx);
    vvi_onnx_constant(e->onnx, which, VV_I64, 0, NULL, &axis, true);
    v->name = vvi_op2(e, "CumSum", x, which);
    vvi_onnx_int(e->onnx, "exclusive", attr->cumsum.exclusive);
    vvi_onnx_int(e->onnx, "reverse", attr->cumsum.reverse);
    return true;
}
