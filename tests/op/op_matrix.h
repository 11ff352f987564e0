/* op_matrix.h - runs one op on every backend and in every dtype, forward and backward.
 *
 * Use: fill an op_case (see op_case.h) and call op_matrix(&c). Backend `ref` is held against itself
 * in f64 over the same (rounded) operands; the other backends against `ref` in the same dtype, with
 * and without the fusion pass (fused bf16 may instead agree with f64). Compared are the result and
 * the gradient of each OP_FLOAT and OP_DISTINCT operand. Integer and boolean results must be equal.
 */
#ifndef OP_MATRIX_H
#define OP_MATRIX_H

#include "op_case.h"

#define OP_MATRIX_F32 1e-5
#define OP_MATRIX_BF16 1e-2
/* Results stored in bf16 between the nodes of a formula, against f64 throughout. */
#define OP_MATRIX_BF16_ROUNDED 4e-2

/* Result 0 and the operands' gradients, in that order. */
typedef struct op_matrix_result {
    int count;
    vv_tensor *values[1 + OP_CASE_MAX_IN];
} op_matrix_result;

static inline void op_matrix_free(op_matrix_result *r)
{
    for (int i = 0; i < r->count; i++)
        vv_tensor_free(r->values[i]);
    r->count = 0;
}

/* The case's operands as `stored` holds them, in dtype `dtype`. */
static inline void op_matrix_operands(vv_tensor **in, const op_case *c, vv_dtype stored,
                                      vv_dtype dtype)
{
    for (int i = 0; i < c->n_in; i++) {
        vv_tensor *t;
        op_make_operand(&t, c, i, stored);
        assert_ok(vv_tensor_cast(&in[i], t, op_operand_dtype(&c->in[i], dtype)));
        vv_tensor_free(t);
    }
}

static inline int op_matrix_grads(vv_graph *g, const op_case *c, vv_node *y, vv_tensor *weights,
                                  vv_node **leaves, vv_node **grads)
{
    vv_node *wrt[OP_CASE_MAX_IN];
    int count = 0;
    for (int i = 0; i < c->n_in; i++) {
        if (op_operand_has_grad(&c->in[i]))
            wrt[count++] = leaves[i];
    }
    if (c->no_grad || count == 0 || !vv_dtype_is_float(vv_node_dtype(y)))
        return 0;
    vv_node *dy = vv_cast(vv_leaf(g, weights), vv_node_dtype(y));
    assert_ok(vv_grad_from(g, y, dy, wrt, count, grads));
    return count;
}

static inline void op_matrix_run(op_matrix_result *r, const op_case *c, const char *backend,
                                 bool fuse, vv_dtype stored, vv_dtype dtype)
{
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = vv_backend_find(backend);
    opts.fuse = fuse;
    vv_graph *g;
    assert_ok(vv_graph_new(&g, &opts));
    vv_tensor *in[OP_CASE_MAX_IN] = {0}, *weights;
    vv_node *leaves[OP_CASE_MAX_IN], *nodes[1 + OP_CASE_MAX_IN];
    op_matrix_operands(in, c, stored, dtype);
    nodes[0] = op_build_node(g, c, in, leaves);
    /* bf16 weights are exact in every dtype. */
    op_make_weights(&weights, nodes[0], VV_BF16);
    r->count = 1 + op_matrix_grads(g, c, nodes[0], weights, leaves, nodes + 1);
    const vv_status status = vv_eval(g, nodes, r->count);
    if (status != VV_OK)
        fail_msg("%s on %s in %s: %s", c->name, backend, vv_dtype_name(dtype), vv_error());
    for (int i = 0; i < r->count; i++)
        assert_ok(vv_node_keep(nodes[i], &r->values[i]));
    vv_graph_free(g);
    for (int i = 0; i < c->n_in; i++)
        vv_tensor_free(in[i]);
    vv_tensor_free(weights);
}

static inline double op_matrix_scale(const vv_tensor *t)
{
    double sum = 0.0;
    int64_t finite = 0;
    for (int64_t i = 0; i < t->count; i++) {
        const double v = vv_tensor_get(t, i);
        if (isfinite(v)) {
            sum += v * v;
            finite++;
        }
    }
    return finite ? sqrt(sum / (double)finite) : 0.0;
}

static inline bool op_matrix_near(double x, double y, double allowed, double scale)
{
    return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= allowed * fmax(fabs(y), scale);
}

/* `got` within tolerance of `want`, relative to the element and to the tensor's root mean square;
   if `or_want` is given, either will do. */
static inline void op_matrix_compare_either(const op_matrix_result *got,
                                            const op_matrix_result *want,
                                            const op_matrix_result *or_want, double tolerance,
                                            const op_case *c, const char *what)
{
    assert_int_equal(got->count, want->count);
    tolerance *= c->tolerance > 0.0 ? c->tolerance : 1.0;
    for (int v = 0; v < got->count; v++) {
        const vv_tensor *a = got->values[v], *b = want->values[v];
        if (!vv_tensor_same_shape(a, b))
            fail_msg("%s, %s: value %d has another shape", c->name, what, v);
        const double scale = op_matrix_scale(b);
        const double allowed = vv_dtype_is_float(a->dtype) ? tolerance : 0.0;
        for (int64_t i = 0; i < a->count; i++) {
            const double x = vv_tensor_get(a, i), y = vv_tensor_get(b, i);
            if (!op_matrix_near(x, y, allowed, scale) &&
                !(or_want &&
                  op_matrix_near(x, vv_tensor_get(or_want->values[v], i), allowed, scale)))
                fail_msg("%s, %s: %s %d, element %lld of %lld is %.9g, expected %.9g", c->name,
                         what, v == 0 ? "result" : "gradient", v, (long long)i, (long long)a->count,
                         x, y);
        }
    }
}

static inline void op_matrix_compare(const op_matrix_result *got, const op_matrix_result *want,
                                     double tolerance, const op_case *c, const char *what)
{
    op_matrix_compare_either(got, want, NULL, tolerance, c, what);
}

static inline void op_matrix_dtype(const op_case *c, vv_dtype dtype)
{
    static const char *const backends[] = {"cpu"};
    const double within = dtype == VV_F32 ? OP_MATRIX_F32 : OP_MATRIX_BF16;
    op_matrix_result exact, ref, other;
    char what[64];
    op_matrix_run(&exact, c, "ref", false, dtype, VV_F64);
    op_matrix_run(&ref, c, "ref", false, dtype, dtype);
    snprintf(what, sizeof(what), "ref in %s against f64", vv_dtype_name(dtype));
    op_matrix_compare(&ref, &exact, dtype == VV_F32 ? within : OP_MATRIX_BF16_ROUNDED, c, what);
    for (size_t b = 0; b < sizeof(backends) / sizeof(*backends); b++) {
        for (int fuse = 0; vv_backend_find(backends[b]) && fuse < 2; fuse++) {
            op_matrix_run(&other, c, backends[b], fuse, dtype, dtype);
            snprintf(what, sizeof(what), "%s%s in %s against ref", backends[b],
                     fuse ? " with fusion" : "", vv_dtype_name(dtype));
            /* A fused chain does not round to bf16 between its steps: it may be the better one. */
            op_matrix_compare_either(&other, &ref, fuse ? &exact : NULL, within, c, what);
            op_matrix_free(&other);
        }
    }
    op_matrix_free(&ref);
    op_matrix_free(&exact);
}

/* The whole matrix of one case. */
static inline void op_matrix(const op_case *c)
{
    op_matrix_dtype(c, VV_F32);
    op_matrix_dtype(c, VV_BF16);
}

#endif
