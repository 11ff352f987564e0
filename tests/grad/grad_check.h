/* grad_check.h - compares vv_grad with central finite differences, in f64 on backend `ref`.
 *
 * The loss is the sum of the op's result times fixed random weights. Use: fill an op_case (see
 * op_case.h) and call grad_check(&c). Every operand of kind OP_FLOAT and OP_DISTINCT is checked,
 * each element of it. */
#ifndef GRAD_CHECK_H
#define GRAD_CHECK_H

#include "op_case.h"

#define GRAD_CHECK_STEP 1e-5
#define GRAD_CHECK_TOLERANCE \
    1e-6 /* relative to the element and to the operand's largest gradient */

typedef struct grad_check_run {
    vv_graph *graph;
    vv_tensor *in[OP_CASE_MAX_IN];
    vv_tensor *weights;
    vv_node *leaves[OP_CASE_MAX_IN];
} grad_check_run;

/* The loss as a node of the freshly built graph. */
static inline vv_node *grad_check_loss(grad_check_run *r, const op_case *c)
{
    vv_node *y = op_build_node(r->graph, c, r->in, r->leaves);
    if (!r->weights)
        op_make_weights(&r->weights, y, VV_F64);
    return vv_sum_all(vv_mul(vv_cast(y, VV_F64), vv_leaf(r->graph, r->weights)));
}

static inline double grad_check_loss_at(grad_check_run *r, const op_case *c, int operand, int64_t i,
                                        double value)
{
    double loss = 0.0;
    const double kept = vv_tensor_get(r->in[operand], i);
    vv_tensor_set(r->in[operand], i, value);
    assert_ok(vv_node_item(grad_check_loss(r, c), &loss));
    vv_tensor_set(r->in[operand], i, kept);
    return loss;
}

static inline void grad_check_operand(grad_check_run *r, const op_case *c, int operand,
                                      const vv_tensor *grad)
{
    const vv_tensor *x = r->in[operand];
    const double tolerance = GRAD_CHECK_TOLERANCE * (c->tolerance > 0.0 ? c->tolerance : 1.0);
    double largest = 0.0, *slopes = NULL;
    assert_ok(vv_alloc_array(&slopes, (size_t)x->count, sizeof(*slopes)));
    for (int64_t i = 0; i < x->count; i++) {
        const double at = vv_tensor_get(x, i), h = GRAD_CHECK_STEP * fmax(1.0, fabs(at));
        slopes[i] = (grad_check_loss_at(r, c, operand, i, at + h) -
                     grad_check_loss_at(r, c, operand, i, at - h)) /
                    (2.0 * h);
        largest = fmax(largest, fabs(slopes[i]));
    }
    for (int64_t i = 0; i < x->count; i++) {
        const double got = vv_tensor_get(grad, i), error = fabs(got - slopes[i]);
        if (!(error <= tolerance * (fabs(slopes[i]) + largest) + 1e-9))
            fail_msg("%s: operand %d, element %lld: gradient %.12g, finite difference %.12g",
                     c->name, operand, (long long)i, got, slopes[i]);
    }
    vv_dealloc(slopes);
}

static inline void grad_check(const op_case *c)
{
    grad_check_run r = {0};
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = vv_backend_find("ref");
    assert_non_null(opts.backend);
    assert_ok(vv_graph_new(&r.graph, &opts));
    int wrt[OP_CASE_MAX_IN], count = 0;
    for (int i = 0; i < c->n_in; i++) {
        op_make_operand(&r.in[i], c, i, VV_F64);
        if (op_operand_has_grad(&c->in[i]))
            wrt[count++] = i;
    }
    vv_node *loss = grad_check_loss(&r, c);
    vv_node *nodes[OP_CASE_MAX_IN], *grads[OP_CASE_MAX_IN];
    for (int i = 0; i < count; i++)
        nodes[i] = r.leaves[wrt[i]];
    assert_ok(vv_grad(r.graph, loss, nodes, count, grads));
    assert_ok(vv_eval(r.graph, grads, count));
    vv_tensor *values[OP_CASE_MAX_IN] = {0};
    for (int i = 0; i < count; i++) {
        assert_ok(vv_node_keep(grads[i], &values[i]));
        if (!vv_tensor_same_shape(values[i], r.in[wrt[i]]) ||
            values[i]->dtype != r.in[wrt[i]]->dtype)
            fail_msg("%s: the gradient of operand %d has another shape or dtype", c->name, wrt[i]);
    }
    for (int i = 0; i < count; i++)
        grad_check_operand(&r, c, wrt[i], values[i]);
    for (int i = 0; i < count; i++)
        vv_tensor_free(values[i]);
    vv_graph_free(r.graph);
    for (int i = 0; i < c->n_in; i++)
        vv_tensor_free(r.in[i]);
    vv_tensor_free(r.weights);
}

#endif
