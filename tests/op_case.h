/* op_case.h - one op with its operands, as the tables of tests/op and tests/grad list them. */
#ifndef OP_CASE_H
#define OP_CASE_H

#include "vv_test.h"

#include <vivace/graph.h>
#include <vivace/ops.h>
#include <vivace/rng.h>

/* Rows of the tables leave out the fields that are zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define OP_CASE_MAX_IN 6

/* How an operand is filled; the numbers are drawn from the operand's place in the case alone. */
typedef enum op_operand_kind {
    OP_FLOAT,    /* uniform in lo..hi; its gradient is checked */
    OP_DISTINCT, /* the same, but no two elements nearly equal: for max, top-k, pooling */
    OP_FIXED,    /* uniform in lo..hi; no gradient asked for */
    OP_INDEX,    /* i32, lo..hi - 1 */
    OP_INDEX64,  /* i64, lo..hi - 1 */
    OP_BOOL,
} op_operand_kind;

typedef struct op_operand {
    op_operand_kind kind;
    int ndim;
    int64_t shape[VV_MAX_DIMS];
    double lo, hi; /* both 0: -1..1 */
    bool f32;      /* keeps f32 whatever the case is run in (class weights, statistics) */
} op_operand;

typedef struct op_case op_case;
/* Builds the op out of its operands and returns the node to look at. */
typedef vv_node *(*op_build)(vv_graph *g, vv_node *const *in, const op_case *c);

struct op_case {
    const char *name;
    op_build build;
    int n_in;
    op_operand in[OP_CASE_MAX_IN];
    double arg[4];    /* for `build` */
    double tolerance; /* multiplies the usual tolerance; 0 = 1 */
    bool no_grad;     /* the gradient is not asked for */
};

static inline bool op_operand_has_grad(const op_operand *o)
{
    return o->kind == OP_FLOAT || o->kind == OP_DISTINCT;
}

static inline vv_dtype op_operand_dtype(const op_operand *o, vv_dtype dtype)
{
    switch (o->kind) {
    case OP_INDEX:
        return VV_I32;
    case OP_INDEX64:
        return VV_I64;
    case OP_BOOL:
        return VV_BOOL;
    default:
        return o->f32 ? VV_F32 : dtype;
    }
}

/* Uniform in lo..hi, or a random order of evenly spaced numbers. */
static inline void op_fill(vv_tensor *t, op_operand_kind kind, double lo, double hi, vv_rng *rng)
{
    int64_t *order = NULL;
    if (kind == OP_DISTINCT) {
        assert_ok(vv_alloc_array(&order, (size_t)t->count, sizeof(*order)));
        vv_rng_permutation(rng, order, t->count);
    }
    for (int64_t i = 0; i < t->count; i++) {
        if (kind == OP_DISTINCT)
            vv_tensor_set(t, i, lo + (hi - lo) * ((double)order[i] + 0.4) / (double)t->count);
        else if (kind == OP_INDEX || kind == OP_INDEX64)
            vv_tensor_set(t, i, floor(vv_rng_uniform_in(rng, lo, hi)));
        else if (kind == OP_BOOL)
            vv_tensor_set(t, i, vv_rng_uniform(rng) < 0.5);
        else
            vv_tensor_set(t, i, vv_rng_uniform_in(rng, lo, hi));
    }
    vv_dealloc(order);
}

/* *out = operand number i of the case, its floats in `dtype`. */
static inline void op_make_operand(vv_tensor **out, const op_case *c, int i, vv_dtype dtype)
{
    const op_operand *o = &c->in[i];
    const bool given = o->lo != 0.0 || o->hi != 0.0;
    vv_rng rng = vv_rng_at2(1, "operand", 0, (uint32_t)i);
    assert_ok(vv_tensor_new(out, op_operand_dtype(o, dtype), o->ndim, o->shape));
    op_fill(*out, o->kind, given ? o->lo : -1.0, given ? o->hi : 1.0, &rng);
}

/* Weights of the output's elements, so that its gradient differs from place to place. */
static inline void op_make_weights(vv_tensor **out, const vv_node *y, vv_dtype dtype)
{
    vv_rng rng = vv_rng_at(2, "weights", 0);
    assert_ok(vv_tensor_new(out, dtype, vv_node_ndim(y), vv_node_shape(y)));
    op_fill(*out, OP_FLOAT, -1.0, 1.0, &rng);
}

/* Builds the case's node over the tensors; the test fails with the graph's sentence if that fails.
 */
static inline vv_node *op_build_node(vv_graph *g, const op_case *c, vv_tensor *const *tensors,
                                     vv_node **leaves)
{
    vv_graph_reset(g);
    vv_graph_set_rng(g, 7, 3, 0);
    for (int i = 0; i < c->n_in; i++)
        leaves[i] = vv_leaf(g, tensors[i]);
    vv_node *y = c->build(g, leaves, c);
    if (!y) {
        const vv_status status = vv_graph_status(g);
        fail_msg("%s: %s: %s", c->name, vv_status_name(status), vv_error());
    }
    return y;
}

#endif
