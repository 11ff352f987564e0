/* test_op_values_a.c - known values of element-wise, reduction, shape and matrix ops.
 *
 * What must hold: on every backend, in f64 (ref) and f32, each op gives the value worked out by
 * hand or by PyTorch 2 (gelu and the like), the shape NumPy's broadcasting says, and does so for
 * tensors without elements; integer operands are exact; random ops repeat with (seed, step) and do
 * not depend on how a batch is cut. */
#include "op_build_a.h"

#include <vivace/ext/backend.h>

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))
#define MAX_COUNT 16

typedef struct value {
    vv_dtype dtype; /* VV_F64 stands for the float type under test */
    int ndim;
    int64_t shape[4];
    double v[MAX_COUNT];
} value;

typedef struct value_case {
    const char *name;
    op_build build;
    int n_in;
    value in[3];
    value out;
    double arg[4];
} value_case;

#define F(...)              \
    {                       \
        VV_F64, __VA_ARGS__ \
    }
#define I(...)              \
    {                       \
        VV_I32, __VA_ARGS__ \
    }
#define L(...)              \
    {                       \
        VV_I64, __VA_ARGS__ \
    }
#define B(...)               \
    {                        \
        VV_BOOL, __VA_ARGS__ \
    }

static vv_graph *new_graph(const char *backend)
{
    vv_graph *g;
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    opts.backend = vv_backend_find(backend);
    assert_ok(vv_graph_new(&g, &opts));
    return g;
}

static vv_node *value_node(vv_graph *g, const value *v, vv_dtype dtype)
{
    vv_tensor *t;
    assert_ok(vv_tensor_new(&t, v->dtype == VV_F64 ? dtype : v->dtype, v->ndim, v->shape));
    for (int64_t i = 0; i < t->count; i++)
        vv_tensor_set(t, i, v->v[i]);
    vv_node *leaf = vv_leaf(g, t);
    vv_tensor_free(t);
    return leaf;
}

static void check_value(const value_case *c, const char *backend, vv_dtype dtype)
{
    vv_graph *g = new_graph(backend);
    vv_node *in[3];
    op_case arg = {.name = c->name, .n_in = c->n_in};
    memcpy(arg.arg, c->arg, sizeof(arg.arg));
    for (int i = 0; i < c->n_in; i++) {
        in[i] = value_node(g, &c->in[i], dtype);
        arg.in[i].ndim = c->in[i].ndim;
    }
    const vv_tensor *got;
    const vv_status status = vv_node_value(c->build(g, in, &arg), &got);
    if (status != VV_OK)
        fail_msg("%s on %s: %s / %s", c->name, backend, vv_error(),
                 vv_graph_status(g) ? vv_error() : "");
    const vv_dtype expected = c->out.dtype == VV_F64 ? dtype : c->out.dtype;
    if (got->dtype != expected || got->ndim != c->out.ndim ||
        (got->ndim && memcmp(got->shape, c->out.shape, (size_t)got->ndim * sizeof(int64_t)) != 0))
        fail_msg("%s on %s: wrong dtype %s or shape", c->name, backend, vv_dtype_name(got->dtype));
    const double tolerance = dtype == VV_F64 ? 1e-12 : 2e-6;
    for (int64_t i = 0; i < got->count; i++) {
        const double x = vv_tensor_get(got, i), y = c->out.v[i];
        const bool same = x == y || (isnan(x) && isnan(y));
        if (!same && !(fabs(x - y) <= tolerance * (fabs(y) + 1e-3)))
            fail_msg("%s on %s in %s: element %lld is %.12g, expected %.12g", c->name, backend,
                     vv_dtype_name(dtype), (long long)i, x, y);
    }
    vv_graph_free(g);
}

static void check_values(const value_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check_value(&cases[i], "ref", VV_F64);
        check_value(&cases[i], "ref", VV_F32);
        if (vv_backend_find("cpu"))
            check_value(&cases[i], "cpu", VV_F32);
    }
}

/* One row per case, values beside their operands. */
/* clang-format off */
static void test_unary(void **state)
{
    (void)state;
#define IN F(1, {7}, {-4, -1.5, -0.25, 0, 0.5, 2, 20})
#define OUT(...) F(1, {7}, {__VA_ARGS__})
    static const value_case cases[] = {
        {"neg", build_neg, 1, {IN}, OUT(4, 1.5, 0.25, 0, -0.5, -2, -20)},
        {"exp", build_exp, 1, {IN},
         OUT(0.01831563888873418, 0.22313016014842982, 0.7788007830714049, 1, 1.6487212707001282,
             7.38905609893065, 485165195.4097903)},
        {"log", build_log, 1, {F(1, {5}, {0, 0.5, 1, 2, -1})},
         F(1, {5}, {-INFINITY, -0.6931471805599453, 0, 0.6931471805599453, NAN})},
        {"sqrt", build_sqrt, 1, {F(1, {4}, {0, 0.25, 2, -1})}, F(1, {4}, {0, 0.5, M_SQRT2, NAN})},
        {"rsqrt", build_rsqrt, 1, {F(1, {3}, {0, 0.25, 2})}, F(1, {3}, {INFINITY, 2, M_SQRT1_2})},
        {"reciprocal", build_reciprocal, 1, {F(1, {3}, {0, -0.25, 8})},
         F(1, {3}, {INFINITY, -4, 0.125})},
        {"square", build_square, 1, {IN}, OUT(16, 2.25, 0.0625, 0, 0.25, 4, 400)},
        {"abs", build_abs, 1, {IN}, OUT(4, 1.5, 0.25, 0, 0.5, 2, 20)},
        {"sign", build_sign, 1, {IN}, OUT(-1, -1, -1, 0, 1, 1, 1)},
        {"relu", build_relu, 1, {IN}, OUT(0, 0, 0, 0, 0.5, 2, 20)},
        {"leaky_relu", build_leaky_relu, 1, {IN}, OUT(-1, -0.375, -0.0625, 0, 0.5, 2, 20), {0.25}},
        {"gelu", build_gelu, 1, {IN},
         OUT(-0.00012668496733247991, -0.10021080190328704, -0.10032341857926907, 0,
             0.34573123063700656, 1.9544997361036416, 20)},
        {"gelu_tanh", build_gelu_tanh, 1, {IN},
         OUT(-7.024594819227126e-05, -0.10042842301976707, -0.100324649298315, 0,
             0.34571400982514394, 1.954597694087775, 20)},
        {"silu", build_silu, 1, {IN},
         OUT(-0.07194483984836623, -0.2736382857095345, -0.10945587477855048, 0, 0.3112296656009273,
             1.7615941559557646, 19.999999958776925)},
        {"sigmoid", build_sigmoid, 1, {IN},
         OUT(0.01798620996209156, 0.18242552380635635, 0.43782349911420193, 0.5, 0.6224593312018546,
             0.8807970779778823, 0.9999999979388463)},
        {"tanh", build_tanh, 1, {IN},
         OUT(-0.999329299739067, -0.9051482536448664, -0.24491866240370913, 0, 0.46211715726000974,
             0.9640275800758169, 1)},
        {"hardswish", build_hardswish, 1, {IN},
         OUT(0, -0.375, -0.11458333333333333, 0, 0.2916666666666667, 1.6666666666666667, 20)},
        {"softplus", build_softplus, 1, {IN},
         OUT(0.018149927917809738, 0.2014132779827524, 0.5759394198788436, 0.6931471805599453,
             0.9740769841801067, 2.1269280110429727, 20.000000002061153)},
        {"softplus, far out", build_softplus, 1, {F(1, {2}, {-1000, 1000})}, F(1, {2}, {0, 1000})},
        {"sigmoid, far out", build_sigmoid, 1, {F(1, {2}, {-1000, 1000})}, F(1, {2}, {0, 1})},
        {"clamp", build_clamp, 1, {IN}, OUT(-1, -1, -0.25, 0, 0.5, 0.75, 0.75), {-1, 0.75}},
        {"affine", build_affine, 1, {IN}, OUT(-7, -2, 0.5, 1, 2, 5, 41), {2, 1}},
        {"pow", build_pow, 1, {F(1, {4}, {0, 1, 4, -8})}, F(1, {4}, {0, 1, 8, NAN}), {1.5}},
        {"pow 2", build_pow, 1, {F(1, {2}, {-3, 0})}, F(1, {2}, {9, 0}), {2}},
        {"NaN goes through relu", build_relu, 1, {F(1, {2}, {NAN, 1})}, F(1, {2}, {NAN, 1})},
        {"NaN goes through clamp", build_clamp, 1, {F(1, {2}, {NAN, 1})}, F(1, {2}, {NAN, 0}), {-1, 0}},
        {"of no elements", build_exp, 1, {F(2, {0, 3})}, F(2, {0, 3})},
        {"of a scalar", build_square, 1, {F(0, {0}, {3})}, F(0, {0}, {9})},
    };
#undef IN
#undef OUT
    check_values(cases, ROWS(cases));
}

/* Far out an activation is x or 0 and its slope 1 or 0: never infinity times zero. In f32 and bf16,
   on every backend, alone and in a fused chain. */
static void test_activations_far_out(void **state)
{
    (void)state;
    static vv_node *(*const ops[])(vv_node *) = {vv_gelu, vv_gelu_tanh, vv_silu, vv_hardswish,
                                                 vv_softplus};
    static const char *const backends[] = {"ref", "cpu"};
    static const double far[] = {1e4, -1e4, 1e20, -1e20, 2e37, -2e37};
    for (size_t b = 0; b < ROWS(backends) * 2; b++) {
        vv_graph_opts opts = VV_GRAPH_DEFAULTS;
        vv_graph *g;
        opts.backend = vv_backend_find(backends[b / 2]);
        opts.fuse = b % 2;
        if (!opts.backend)
            continue;
        assert_ok(vv_graph_new(&g, &opts));
        for (size_t i = 0; i < ROWS(ops) * 2; i++) {
            const int64_t shape[1] = {ROWS(far)};
            vv_tensor *x;
            vv_graph_reset(g);
            assert_ok(vv_tensor_new(&x, i % 2 ? VV_BF16 : VV_F32, 1, shape));
            for (int64_t k = 0; k < x->count; k++)
                vv_tensor_set(x, k, far[k]);
            vv_node *leaf = vv_leaf(g, x), *grad, *y = ops[i / 2](leaf);
            assert_ok(vv_grad(g, vv_sum_all(vv_affine(y, 2.0, 0.0)), &leaf, 1, &grad));
            vv_node *const nodes[2] = {y, grad};
            const vv_tensor *result, *slope;
            assert_ok(vv_eval(g, nodes, 2));
            assert_ok(vv_node_value(y, &result));
            assert_ok(vv_node_value(grad, &slope));
            for (int64_t k = 0; k < x->count; k++) {
                const double at = vv_tensor_get(x, k);
                assert_near(vv_tensor_get(result, k), at > 0 ? at : 0.0, 1e-30, 1e-6);
                assert_near(vv_tensor_get(slope, k), at > 0 ? 2.0 : 0.0, 1e-30, 1e-6);
            }
            vv_tensor_free(x);
        }
        vv_graph_free(g);
    }
}

static void test_binary(void **state)
{
    (void)state;
#define AB {F(1, {4}, {1, -2, 3, 6}), F(1, {4}, {1, 4, -5, 1.5})}
    static const value_case cases[] = {
        {"add", build_add, 2, AB, F(1, {4}, {2, 2, -2, 7.5})},
        {"sub", build_sub, 2, AB, F(1, {4}, {0, -6, 8, 4.5})},
        {"mul", build_mul, 2, AB, F(1, {4}, {1, -8, -15, 9})},
        {"div", build_div, 2, AB, F(1, {4}, {1, -0.5, -0.6, 4})},
        {"div by zero", build_div, 2, {F(1, {3}, {1, -1, 0}), F(0, {0}, {0})},
         F(1, {3}, {INFINITY, -INFINITY, NAN})},
        {"maximum", build_maximum, 2, AB, F(1, {4}, {1, 4, 3, 6})},
        {"minimum", build_minimum, 2, AB, F(1, {4}, {1, -2, -5, 1.5})},
        {"maximum of NaN", build_maximum, 2, {F(1, {2}, {NAN, 1}), F(1, {2}, {1, NAN})},
         F(1, {2}, {NAN, NAN})},
        {"equal", build_equal, 2, AB, B(1, {4}, {1, 0, 0, 0})},
        {"less", build_less, 2, AB, B(1, {4}, {0, 1, 0, 0})},
        {"greater_equal", build_greater_equal, 2, AB, B(1, {4}, {1, 0, 1, 1})},
        {"NaN equals nothing", build_equal, 2, {F(0, {0}, {NAN}), F(0, {0}, {NAN})}, B(0, {0}, {0})},
        {"rows and columns", build_add, 2, {F(2, {2, 1}, {10, 20}), F(1, {3}, {1, 2, 3})},
         F(2, {2, 3}, {11, 12, 13, 21, 22, 23})},
        {"ones in the middle", build_mul, 2,
         {F(3, {2, 1, 2}, {1, 2, 3, 4}), F(3, {1, 2, 1}, {10, 100})},
         F(3, {2, 2, 2}, {10, 20, 100, 200, 30, 40, 300, 400})},
        {"[1] and []", build_sub, 2, {F(1, {1}, {5}), F(0, {0}, {2})}, F(1, {1}, {3})},
        {"no rows and one row", build_add, 2, {F(2, {0, 3}), F(2, {1, 3}, {1, 2, 3})}, F(2, {0, 3})},
        {"f32 scalar takes the dtype", build_add_scalar, 1, {F(1, {2}, {1, 2})},
         F(1, {2}, {1.5, 2.5})},
        {"where", build_where, 3,
         {B(2, {2, 1}, {1, 0}), F(1, {3}, {1, 2, 3}), F(0, {0}, {-1})},
         F(2, {2, 3}, {1, 2, 3, -1, -1, -1})},
        {"where picks around NaN", build_where, 3,
         {B(1, {2}, {1, 0}), F(1, {2}, {1, NAN}), F(1, {2}, {NAN, 2})}, F(1, {2}, {1, 2})},
        {"lerp", build_lerp, 3, {F(1, {2}, {0, 10}), F(1, {2}, {4, 20}), F(0, {0}, {0.25})},
         F(1, {2}, {1, 12.5})},
        {"add i32", build_add, 2, {I(1, {2}, {2147483000, -7}), I(1, {2}, {647, 3})},
         I(1, {2}, {2147483647, -4})},
        {"mul i64", build_mul, 2, {L(1, {2}, {3000000000, -4}), L(0, {0}, {3})},
         L(1, {2}, {9000000000, -12})},
        {"maximum i32", build_maximum, 2, {I(1, {2}, {-3, 9}), I(0, {0}, {4})}, I(1, {2}, {4, 9})},
        {"less i32", build_less, 2, {I(1, {2}, {-3, 9}), I(0, {0}, {4})}, B(1, {2}, {1, 0})},
        {"equal bool", build_equal, 2, {B(1, {2}, {1, 0}), B(1, {2}, {1, 1})}, B(1, {2}, {1, 0})},
        {"where i32", build_where, 3, {B(1, {2}, {1, 0}), I(1, {2}, {1, 2}), I(1, {2}, {3, 4})},
         I(1, {2}, {1, 4})},
    };
#undef AB
    check_values(cases, ROWS(cases));
}

static void test_reduce(void **state)
{
    (void)state;
#define X23 {F(2, {2, 3}, {1, -2, 6, 4, 4, -1})}
    static const value_case cases[] = {
        {"sum", build_sum, 1, X23, F(0, {0}, {12}), {0, 0}},
        {"sum, kept", build_sum, 1, X23, F(2, {1, 1}, {12}), {0, 1}},
        {"sum of rows", build_sum, 1, X23, F(1, {2}, {5, 7}), {2, 0}},
        {"sum of columns", build_sum, 1, X23, F(2, {1, 3}, {5, 2, 5}), {1, 1}},
        {"mean of rows", build_mean, 1, X23, F(2, {2, 1}, {5.0 / 3, 7.0 / 3}), {2, 1}},
        {"max of rows", build_max, 1, X23, F(1, {2}, {6, 4}), {2, 0}},
        {"min of columns", build_min, 1, X23, F(1, {3}, {1, -2, -1}), {1, 0}},
        {"max of NaN", build_max, 1, {F(1, {3}, {1, NAN, 2})}, F(0, {0}, {NAN})},
        {"two axes of three", build_sum, 1, {F(3, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})},
         F(1, {2}, {14, 22}), {5, 0}},
        {"sum of nothing", build_sum, 1, {F(2, {0, 2})}, F(1, {2}, {0, 0}), {1, 0}},
        {"mean of nothing", build_mean, 1, {F(2, {0, 2})}, F(1, {2}, {NAN, NAN}), {1, 0}},
        {"sum of a scalar", build_sum_all, 1, {F(0, {0}, {7})}, F(0, {0}, {7})},
        {"mean_all", build_mean_all, 1, X23, F(0, {0}, {2})},
        {"sum i32", build_sum, 1, {I(2, {2, 2}, {1, 2, 3, 4})}, I(1, {2}, {3, 7}), {2, 0}},
        {"max i64", build_max, 1, {L(1, {3}, {-9, -3, -4})}, L(0, {0}, {-3})},
        {"argmax of rows", build_argmax, 1, X23, I(1, {2}, {2, 0}), {1}},
        {"argmax of columns", build_argmax, 1, X23, I(1, {3}, {1, 1, 0}), {-2}},
        {"topk", build_topk, 1, X23, F(2, {2, 2}, {6, 1, 4, 4}), {2}},
        {"topk indices", build_topk_indices, 1, X23, I(2, {2, 2}, {2, 0, 0, 1}), {2}},
        {"topk of all equal", build_topk_indices, 1, {F(1, {4}, {3, 3, 3, 3})},
         I(1, {4}, {0, 1, 2, 3}), {4}},
        {"largest", build_largest, 2, {F(2, {3, 4}, {1, -2, 6, -0.5, 3, 3, 3, 9, NAN, -INFINITY, 2, 0}), I(1, {3}, {2, 3, 1})},
         B(2, {3, 4}, {1, 0, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0})},
        {"largest, none and all", build_largest, 2, {F(2, {3, 2}, {1, 2, 3, 4, 5, 6}), I(1, {3}, {0, -3, 7})},
         B(2, {3, 2}, {0, 0, 0, 0, 1, 1})},
        {"broadcast_to", build_broadcast_to, 1, {F(2, {2, 1}, {1, 2})},
         F(3, {2, 2, 2}, {1, 1, 2, 2, 1, 1, 2, 2}), {2, 2, 2}},
        {"broadcast_to nothing", build_broadcast_to, 1, {F(1, {1}, {1})}, F(3, {2, 0, 1}), {2, 0, 1}},
    };
#undef X23
    check_values(cases, ROWS(cases));
}

static void test_shape(void **state)
{
    (void)state;
#define X23 F(2, {2, 3}, {1, 2, 3, 4, 5, 6})
    static const value_case cases[] = {
        {"reshape", build_reshape, 1, {X23}, F(2, {3, 2}, {1, 2, 3, 4, 5, 6}), {3, -1}},
        {"reshape of nothing", build_reshape, 1, {F(2, {0, 3})}, F(2, {0, 5}), {0, 5}},
        {"permute", build_permute, 1, {X23}, F(2, {3, 2}, {1, 4, 2, 5, 3, 6}), {1, 0}},
        {"permute 3", build_permute, 1, {F(3, {2, 1, 3}, {1, 2, 3, 4, 5, 6})},
         F(3, {3, 2, 1}, {1, 4, 2, 5, 3, 6}), {2, 0, 1}},
        {"slice", build_slice, 1, {X23}, F(2, {2, 2}, {2, 3, 5, 6}), {1, 1, 3, 1}},
        {"slice with a step", build_slice, 1, {X23}, F(2, {2, 2}, {1, 3, 4, 6}), {-1, 0, 3, 2}},
        {"slice of nothing", build_slice, 1, {X23}, F(2, {0, 3}), {0, 1, 1, 1}},
        {"concat of rows", build_concat, 2, {X23, F(2, {1, 3}, {7, 8, 9})},
         F(2, {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), {0}},
        {"concat of columns", build_concat, 3, {X23, F(2, {2, 0}), F(2, {2, 1}, {7, 8})},
         F(2, {2, 4}, {1, 2, 3, 7, 4, 5, 6, 8}), {-1}},
        {"pad", build_pad, 1, {F(3, {1, 2, 1}, {1, 2})},
         F(3, {2, 2, 3}, {9, 9, 9, 9, 9, 9, 9, 1, 9, 9, 2, 9}), {1, 1, 0, 9}},
        {"gather of rows", build_gather, 2, {X23, I(1, {3}, {1, 0, 1})},
         F(2, {3, 3}, {4, 5, 6, 1, 2, 3, 4, 5, 6}), {0}},
        {"gather of columns", build_gather, 2, {X23, L(2, {1, 2}, {2, 0})},
         F(3, {2, 1, 2}, {3, 1, 6, 4}), {1}},
        {"gather one row", build_gather, 2, {X23, I(0, {0}, {1})}, F(1, {3}, {4, 5, 6}), {0}},
        {"gather i64", build_gather, 2, {L(1, {2}, {9007199254740991, 5}), I(1, {1}, {0})},
         L(1, {1}, {9007199254740991}), {0}},
        {"embedding", build_embedding, 2, {X23, I(2, {2, 1}, {1, 1})},
         F(3, {2, 1, 3}, {4, 5, 6, 4, 5, 6})},
        {"one_hot", build_one_hot, 1, {I(1, {3}, {1, -100, 2})},
         {VV_F32, 2, {3, 3}, {0, 1, 0, 0, 0, 0, 0, 0, 1}}, {3}},
        {"cast to i32", build_cast, 1, {F(1, {5}, {1.9, -1.9, NAN, 1e20, -1e20})},
         I(1, {5}, {1, -1, 0, INT32_MAX, INT32_MIN}), {VV_I32}},
        {"cast to u8", build_cast, 1, {F(1, {3}, {-3, 7.5, 300})}, {VV_U8, 1, {3}, {0, 7, 255}}, {VV_U8}},
        {"cast to bool", build_cast, 1, {F(1, {3}, {0, -0.5, 2})}, B(1, {3}, {0, 1, 1}), {VV_BOOL}},
        {"cast i64 to i32", build_cast, 1, {L(1, {2}, {7, -8})}, I(1, {2}, {7, -8}), {VV_I32}},
        {"cast bool to f32", build_cast, 1, {B(1, {2}, {1, 0})}, {VV_F32, 1, {2}, {1, 0}}, {VV_F32}},
        {"cast to bf16", build_cast, 1, {F(1, {2}, {1.00390625, 3.140625})},
         {VV_BF16, 1, {2}, {1, 3.140625}}, {VV_BF16}}, /* 1 + 2^-8 is a tie: to even */
    };
#undef X23
    check_values(cases, ROWS(cases));
}

static void test_matmul(void **state)
{
    (void)state;
#define X23 F(2, {2, 3}, {1, 2, 3, 4, 5, 6})
#define X32 F(2, {3, 2}, {1, 4, 2, 5, 3, 6})
#define Y32 F(2, {3, 2}, {1, 0, 2, 1, -1, 3})
#define Y23 F(2, {2, 3}, {1, 2, -1, 0, 1, 3})
#define XY F(2, {2, 2}, {2, 11, 8, 23})
    static const value_case cases[] = {
        {"matmul", build_matmul, 2, {X23, Y32}, XY, {0, 0}},
        {"matmul, a transposed", build_matmul, 2, {X32, Y32}, XY, {1, 0}},
        {"matmul, b transposed", build_matmul, 2, {X23, Y23}, XY, {0, 1}},
        {"matmul, both transposed", build_matmul, 2, {X32, Y23}, XY, {1, 1}},
        {"batches broadcast", build_matmul, 2,
         {F(3, {2, 1, 2}, {1, 2, 3, 4}), F(4, {2, 1, 2, 1}, {1, 1, 10, 1})},
         F(4, {2, 2, 1, 1}, {3, 7, 12, 34})},
        {"rows times a matrix", build_matmul, 2,
         {F(3, {2, 1, 2}, {1, 2, 3, 4}), F(2, {2, 2}, {1, 0, 1, 2})}, F(3, {2, 1, 2}, {3, 4, 7, 8})},
        {"an empty sum is 0", build_matmul, 2, {F(2, {2, 0}), F(2, {0, 2})}, F(2, {2, 2})},
        {"no rows", build_matmul, 2, {F(2, {0, 3}), Y32}, F(2, {0, 2})},
        {"linear", build_linear, 3, {X23, Y23, F(1, {2}, {10, 20})}, F(2, {2, 2}, {12, 31, 18, 43})},
        {"linear, one row", build_linear, 3, {F(1, {3}, {1, 2, 3}), Y23, F(1, {2}, {10, 20})},
         F(1, {2}, {12, 31})},
        {"linear without bias", build_linear, 2, {F(3, {1, 1, 3}, {1, 2, 3}), Y23},
         F(3, {1, 1, 2}, {2, 11})},
        {"linear of no inputs is the bias", build_linear, 3,
         {F(2, {2, 0}), F(2, {1, 0}), F(1, {1}, {5})}, F(2, {2, 1}, {5, 5})},
    };
    check_values(cases, ROWS(cases));
}

/* clang-format on */

/* ---- random and constant ---- */

static void read_all(vv_node *node, double *out)
{
    const vv_tensor *t;
    assert_ok(vv_node_value(node, &t));
    for (int64_t i = 0; i < t->count; i++)
        out[i] = vv_tensor_get(t, i);
}

#define ROW 50
#define COUNT (80 * ROW)

static vv_node *dropout_of_ones(vv_graph *g, uint64_t step, int64_t first_item, int64_t rows)
{
    vv_graph_reset(g);
    vv_graph_set_rng(g, 11, step, first_item);
    return vv_dropout(vv_full(g, VV_F32, 2, (const int64_t[]){rows, ROW}, 1.0), 0.25);
}

static void check_dropout(const char *backend)
{
    static double whole[COUNT], other[COUNT], half[COUNT / 2];
    vv_graph *g = new_graph(backend);
    read_all(dropout_of_ones(g, 4, 0, 80), whole);
    int kept = 0;
    for (int i = 0; i < COUNT; i++) {
        const bool keep = vv_random_element(11, 4, 0, (uint64_t)i) >= 0.25F;
        assert_near(whole[i], keep ? 4.0 / 3.0 : 0.0, 0, 1e-6);
        kept += keep;
    }
    /* As many as p says, within five standard deviations. */
    assert_near(kept, 0.75 * COUNT, 5 * sqrt(0.75 * 0.25 * COUNT), 0);
    read_all(dropout_of_ones(g, 5, 0, 80), other);
    assert_int_not_equal(memcmp(whole, other, sizeof(whole)), 0);
    /* The second half of the batch alone draws what it drew within the whole. */
    read_all(dropout_of_ones(g, 4, 40, 40), half);
    assert_memory_equal(half, whole + COUNT / 2, sizeof(half));
    /* p = 0 keeps the node itself, p = 1 nothing. */
    vv_graph_reset(g);
    vv_node *ones = vv_full(g, VV_F32, 1, (const int64_t[]){10}, 1.0);
    assert_ptr_equal(vv_dropout(ones, 0.0), ones);
    read_all(vv_dropout(ones, 1.0), other);
    for (int i = 0; i < 10; i++)
        assert_near(other[i], 0, 0, 0);
    vv_graph_free(g);
}

/* Mean and variance within five standard deviations of what the distribution has. */
static void check_moments(const double *x, double mean, double variance, double fourth)
{
    double sum = 0.0, square = 0.0;
    for (int i = 0; i < COUNT; i++) {
        sum += x[i] / COUNT;
        square += (x[i] - mean) * (x[i] - mean) / COUNT;
    }
    assert_near(sum, mean, 5 * sqrt(variance / COUNT), 0);
    assert_near(square, variance, 5 * sqrt((fourth - variance * variance) / COUNT), 0);
}

static void check_random(const char *backend)
{
    static double a[COUNT], b[COUNT];
    vv_graph *g = new_graph(backend);
    const int64_t shape[2] = {80, ROW};
    vv_graph_set_rng(g, 3, 1, 0);
    read_all(vv_random_uniform(g, 2, shape), a);
    check_moments(a, 0.5, 1.0 / 12, 1.0 / 80);
    for (int i = 0; i < COUNT; i++)
        assert_true(a[i] >= 0.0 && a[i] < 1.0);
    read_all(vv_random_uniform(g, 2, shape), b); /* another node, other numbers */
    assert_int_not_equal(memcmp(a, b, sizeof(a)), 0);
    read_all(vv_random_normal(g, 2, shape), a);
    check_moments(a, 0, 1, 3);
    vv_graph_reset(g);
    vv_graph_set_rng(g, 3, 1, 0);
    vv_random_uniform(g, 2, shape);
    read_all(vv_random_uniform(g, 2, shape), a);
    assert_memory_equal(a, b, sizeof(a)); /* the same place in the same step */
    vv_graph_free(g);
}

static void test_random(void **state)
{
    (void)state;
    check_dropout("ref");
    check_random("ref");
    if (vv_backend_find("cpu")) {
        check_dropout("cpu");
        check_random("cpu");
    }
}

static void test_constants(void **state)
{
    (void)state;
    vv_graph *g = new_graph("ref");
    const int64_t shape[2] = {2, 2};
    for (int dtype = 0; dtype < VV_DTYPE_COUNT; dtype++) {
        double got[4];
        vv_node *ones = vv_full(g, (vv_dtype)dtype, 2, shape, 1.0);
        assert_int_equal(vv_node_dtype(ones), dtype);
        read_all(ones, got);
        for (int i = 0; i < 4; i++)
            assert_near(got[i], 1, 0, 0);
        read_all(vv_zeros(g, (vv_dtype)dtype, 2, shape), got);
        for (int i = 0; i < 4; i++)
            assert_near(got[i], 0, 0, 0);
    }
    double minus;
    assert_ok(vv_node_item(vv_full(g, VV_I64, 0, NULL, -7), &minus));
    assert_near(minus, -7, 0, 0);
    vv_graph_free(g);
}

/* Ops that change nothing add no node. */
static void test_nothing_to_do(void **state)
{
    (void)state;
    vv_graph *g = new_graph("ref");
    const int64_t shape[2] = {2, 3}, zero[2] = {0, 0};
    vv_node *x = vv_zeros(g, VV_F32, 2, shape);
    assert_ptr_equal(vv_reshape(x, 2, shape), x);
    assert_ptr_equal(vv_cast(x, VV_F32), x);
    assert_ptr_equal(vv_permute(x, (const int[]){0, 1}), x);
    assert_ptr_equal(vv_broadcast_to(x, 2, shape), x);
    assert_ptr_equal(vv_slice(x, 1, 0, 3, 1), x);
    assert_ptr_equal(vv_pad(x, zero, zero, 1.0), x);
    assert_ptr_equal(vv_concat(&x, 1, 0), x);
    assert_ok(vv_graph_status(g));
    vv_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary),     cmocka_unit_test(test_binary),
        cmocka_unit_test(test_reduce),    cmocka_unit_test(test_shape),
        cmocka_unit_test(test_matmul),    cmocka_unit_test(test_random),
        cmocka_unit_test(test_constants), cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_activations_far_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
