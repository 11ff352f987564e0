/* onnx_attention.c - attention in ONNX: products, a constant bias, softmax. */
#include "onnx_graph.h"

#include <math.h>

#include <vivace/memory.h>

typedef const char *name;

/* [n,h,t,d] are q's, [n,s,k,d] those of k and v. */
typedef struct sizes {
    int64_t t, h, d, s, k;
} sizes;

static name turned(vvi_exporter *e, name x, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t order[4] = {a, b, c, d};
    name made = vvi_op1(e, "Transpose", x);
    vvi_onnx_ints(e->onnx, "perm", order, 4);
    return made;
}

static name shaped(vvi_exporter *e, name x, int64_t b, int64_t c, int64_t d)
{
    const int64_t shape[4] = {-1, b, c, d};
    name sides = vvi_integers(e, shape, 4);
    return vvi_op2(e, "Reshape", x, sides);
}

/* What is added to the scores: [t,s], or [h,t,s] with slopes; NULL after a failure. */
static name bias(vvi_exporter *e, const vv_attr *attr, const sizes *n, const vv_tensor *slopes)
{
    const int64_t heads = slopes ? n->h : 1, shape[3] = {heads, n->t, n->s};
    float *values = NULL;
    if (vv_alloc_array(&values, (size_t)(heads * n->t * n->s), sizeof *values) != VV_OK) {
        vv_graph_fail(e->graph, VV_ENOMEM);
        return NULL;
    }
    for (int64_t i = 0; i < heads * n->t * n->s; i++) {
        const int64_t key = i % n->s, query = i / n->s % n->t, at = query + n->s - n->t;
        const int64_t distance = at > key ? at - key : key - at;
        const bool seen = !(attr->attention.causal && key > at) &&
                          !(attr->attention.window > 0 && distance >= attr->attention.window);
        const double slope = slopes ? vv_tensor_get(slopes, i / n->s / n->t) : 0.0;
        values[i] = seen ? (float)(-slope * (double)distance) : -INFINITY;
    }
    name made = vvi_onnx_name(e->onnx);
    vvi_onnx_constant(e->onnx, made, VV_F32, 3, shape, values, true);
    vv_dealloc(values);
    return made;
}

/* Masks of one batch have no place in a file, and a softmax over nothing is not zero there. */
static bool can_be_written(const vvi_exporter *e, const vvi_value *v, const sizes *n)
{
    const vv_attr *attr = vv_node_attr(v->node);
    const vv_node *slopes = vv_node_operand(v->node, 3);
    return !vv_node_operand(v->node, 4) && !vv_node_operand(v->node, 5) &&
           attr->attention.p == 0.0 && n->s >= n->t &&
           (!slopes || vvi_value_of(e, slopes)->constant);
}

bool vvi_emit_attention(vvi_exporter *e, vvi_value *v)
{
    const vv_attr *attr = vv_node_attr(v->node);
    vv_node *q = vv_node_operand(v->node, 0), *k = vv_node_operand(v->node, 1);
    vv_node *slopes = vv_node_operand(v->node, 3);
    const int64_t *qs = vv_node_shape(q), *ks = vv_node_shape(k);
    const sizes n = {qs[1], qs[2], qs[3], ks[1], ks[2]};
    const int64_t group = n.h / n.k;
    if (!can_be_written(e, v, &n))
        return false;
    name a = turned(e, vvi_natural(e, q), 0, 2, 1, 3);
    if (group > 1)
        a = shaped(e, a, n.k, group * n.t, n.d);
    name b = turned(e, vvi_natural(e, k), 0, 2, 3, 1);
    name scores = vvi_op2(e, "MatMul", a, b);
    if (group > 1)
        scores = shaped(e, scores, n.h, n.t, n.s);
    scores = vvi_op2(e, "Mul", scores, vvi_number(e, attr->attention.scale));
    if (attr->attention.causal || attr->attention.window > 0 || slopes) {
        const vv_tensor *numbers = slopes ? vvi_constant_value(e, slopes) : NULL;
        name added = slopes && !numbers ? NULL : bias(e, attr, &n, numbers);
        if (!added)
            return false;
        scores = vvi_op2(e, "Add", scores, added);
    }
    name weights = vvi_op1(e, "Softmax", scores);
    vvi_onnx_int(e->onnx, "axis", -1);
    if (group > 1)
        weights = shaped(e, weights, n.k, group * n.t, n.s);
    name values = turned(e, vvi_natural(e, vv_node_operand(v->node, 2)), 0, 2, 1, 3);
    name y = vvi_op2(e, "MatMul", weights, values);
    if (group > 1)
        y = shaped(e, y, n.h, n.t, n.d);
    v->name = turned(e, y, 0, 2, 1, 3);
    return true;
}
