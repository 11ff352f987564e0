/* op_build_a.h - builders (see op_case.h) of element-wise, reduction, shape and matrix ops. */
#ifndef OP_BUILD_A_H
#define OP_BUILD_A_H

#include "op_case.h"

#define BUILD(name, expression)                                                            \
    static inline vv_node *build_##name(vv_graph *g, vv_node *const *in, const op_case *c) \
    {                                                                                      \
        (void)g;                                                                           \
        (void)in;                                                                          \
        (void)c;                                                                           \
        return expression;                                                                 \
    }

#define A(i) (c->arg[i])
#define INT(i) ((int)c->arg[i])

BUILD(neg, vv_neg(in[0]))
BUILD(exp, vv_exp(in[0]))
BUILD(log, vv_log(in[0]))
BUILD(sqrt, vv_sqrt(in[0]))
BUILD(rsqrt, vv_rsqrt(in[0]))
BUILD(reciprocal, vv_reciprocal(in[0]))
BUILD(square, vv_square(in[0]))
BUILD(abs, vv_abs(in[0]))
BUILD(sign, vv_sign(in[0]))
BUILD(relu, vv_relu(in[0]))
BUILD(leaky_relu, vv_leaky_relu(in[0], A(0)))
BUILD(gelu, vv_gelu(in[0]))
BUILD(gelu_tanh, vv_gelu_tanh(in[0]))
BUILD(silu, vv_silu(in[0]))
BUILD(sigmoid, vv_sigmoid(in[0]))
BUILD(tanh, vv_tanh(in[0]))
BUILD(hardswish, vv_hardswish(in[0]))
BUILD(softplus, vv_softplus(in[0]))
BUILD(clamp, vv_clamp(in[0], A(0), A(1)))
BUILD(affine, vv_affine(in[0], A(0), A(1)))
BUILD(pow, vv_pow(in[0], A(0)))
BUILD(cast, vv_cast(in[0], (vv_dtype)INT(0)))
BUILD(dropout, vv_dropout(in[0], A(0)))

BUILD(add, vv_add(in[0], in[1]))
BUILD(sub, vv_sub(in[0], in[1]))
BUILD(mul, vv_mul(in[0], in[1]))
BUILD(div, vv_div(in[0], in[1]))
BUILD(maximum, vv_maximum(in[0], in[1]))
BUILD(minimum, vv_minimum(in[0], in[1]))
BUILD(equal, vv_equal(in[0], in[1]))
BUILD(less, vv_less(in[0], in[1]))
BUILD(greater_equal, vv_greater_equal(in[0], in[1]))
BUILD(where, vv_where(in[0], in[1], in[2]))
BUILD(lerp, vv_lerp(in[0], in[1], in[2]))
BUILD(add_scalar, vv_add(in[0], vv_scalar(g, 0.5)))
BUILD(add_self, vv_add(in[0], in[0]))
BUILD(maximum_self, vv_maximum(in[0], in[0]))

/* arg[0]: bit mask of axes, arg[1]: keep_dims. */
static inline int build_axes(const op_case *c, int *axes)
{
    int n = 0;
    for (int d = 0; d < c->in[0].ndim; d++) {
        if ((unsigned)c->arg[0] >> d & 1)
            axes[n++] = d;
    }
    return n;
}

#define BUILD_REDUCE(name)                                                                 \
    static inline vv_node *build_##name(vv_graph *g, vv_node *const *in, const op_case *c) \
    {                                                                                      \
        int axes[VV_MAX_DIMS];                                                             \
        (void)g;                                                                           \
        return vv_##name(in[0], axes, build_axes(c, axes), c->arg[1] != 0.0);              \
    }
BUILD_REDUCE(sum)
BUILD_REDUCE(mean)
BUILD_REDUCE(max)
BUILD_REDUCE(min)
BUILD(sum_all, vv_sum_all(in[0]))
BUILD(mean_all, vv_mean_all(in[0]))
BUILD(argmax, vv_argmax(in[0], INT(0)))
BUILD(topk, vv_topk(in[0], INT(0), NULL))
BUILD(largest, vv_largest(in[0], in[1]))
BUILD(smooth_l1, vv_smooth_l1(in[0], in[1], A(0)))
BUILD(broadcast_to, vv_broadcast_to(in[0], 3, (const int64_t[]){INT(0), INT(1), INT(2)}))

static inline vv_node *build_topk_indices(vv_graph *g, vv_node *const *in, const op_case *c)
{
    vv_node *indices;
    (void)g;
    vv_topk(in[0], INT(0), &indices);
    return indices;
}

BUILD(reshape, vv_reshape(in[0], 2, (const int64_t[]){INT(0), INT(1)}))
BUILD(permute, vv_permute(in[0], (const int[]){INT(0), INT(1), INT(2), INT(3)}))
BUILD(slice, vv_slice(in[0], INT(0), INT(1), INT(2), INT(3)))
/* Both slices' gradients meet in one operand. */
BUILD(slices, vv_mul(vv_slice(in[0], 0, 0, 3, 1), vv_slice(in[0], 0, 1, 4, 1)))
BUILD(concat, vv_concat(in, c->n_in, INT(0)))
BUILD(pad, vv_pad(in[0], (const int64_t[]){INT(0), 0, INT(1)}, (const int64_t[]){0, INT(2), INT(1)},
                  A(3)))
BUILD(gather, vv_gather(in[0], in[1], INT(0)))
BUILD(embedding, vv_embedding(in[1], in[0]))
BUILD(one_hot, vv_one_hot(in[0], INT(0)))

BUILD(matmul, vv_matmul(in[0], in[1], A(0) != 0.0, A(1) != 0.0))
BUILD(linear, vv_linear(in[0], in[1], c->n_in > 2 ? in[2] : NULL))

#undef A
#undef INT
#undef BUILD
#undef BUILD_REDUCE

#endif
