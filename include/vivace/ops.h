/* ops.h - the operations of the step graph.
 *
 * Every function adds nodes and returns the (borrowed) result, NULL on error; see graph.h. Images
 * are [N,H,W,C]. Float operands may be f32, bf16 or f64; binary ops need equal dtypes (a [] f32
 * scalar takes the other's). Broadcasting is NumPy's. Negative axes count from the end. */
#ifndef VIVACE_OPS_H
#define VIVACE_OPS_H

#include <vivace/graph.h>

VV_BEGIN_DECLS

/* ---- element-wise, one operand ---- */
VV_API vv_node *vv_neg(vv_node *x);
VV_API vv_node *vv_exp(vv_node *x);
VV_API vv_node *vv_log(vv_node *x);
VV_API vv_node *vv_sqrt(vv_node *x);
VV_API vv_node *vv_rsqrt(vv_node *x);
VV_API vv_node *vv_reciprocal(vv_node *x);
VV_API vv_node *vv_square(vv_node *x);
VV_API vv_node *vv_abs(vv_node *x);
VV_API vv_node *vv_sign(vv_node *x);
VV_API vv_node *vv_relu(vv_node *x);
VV_API vv_node *vv_leaky_relu(vv_node *x, double slope);
VV_API vv_node *vv_gelu(vv_node *x);      /* erf form */
VV_API vv_node *vv_gelu_tanh(vv_node *x); /* Hendrycks & Gimpel, arXiv 1606.08415, tanh form */
VV_API vv_node *vv_silu(vv_node *x);
VV_API vv_node *vv_sigmoid(vv_node *x);
VV_API vv_node *vv_tanh(vv_node *x);
VV_API vv_node *vv_hardswish(vv_node *x);
VV_API vv_node *vv_softplus(vv_node *x); /* log(1 + e^x), without overflow */
VV_API vv_node *vv_clamp(vv_node *x, double lo, double hi);
VV_API vv_node *vv_affine(vv_node *x, double scale, double shift); /* scale * x + shift */
VV_API vv_node *vv_pow(vv_node *x, double exponent);
VV_API vv_node *vv_softcap(vv_node *x, double cap); /* cap * tanh(x / cap); cap > 0 */
VV_API vv_node *vv_cast(vv_node *x, vv_dtype dtype);
VV_API vv_node *vv_stop_gradient(vv_node *x);

/* ---- element-wise, two or three operands, broadcasting ---- */
VV_API vv_node *vv_add(vv_node *a, vv_node *b);
VV_API vv_node *vv_sub(vv_node *a, vv_node *b);
VV_API vv_node *vv_mul(vv_node *a, vv_node *b);
VV_API vv_node *vv_div(vv_node *a, vv_node *b);
VV_API vv_node *vv_maximum(vv_node *a, vv_node *b);
VV_API vv_node *vv_minimum(vv_node *a, vv_node *b);
VV_API vv_node *vv_equal(vv_node *a, vv_node *b);         /* bool */
VV_API vv_node *vv_less(vv_node *a, vv_node *b);          /* bool */
VV_API vv_node *vv_greater_equal(vv_node *a, vv_node *b); /* bool */
VV_API vv_node *vv_where(vv_node *condition /* bool */, vv_node *a, vv_node *b);
VV_API vv_node *vv_lerp(vv_node *a, vv_node *b, vv_node *weight); /* a + weight * (b - a) */

/* ---- reductions; axes = list, n = 0 means all ---- */
VV_API vv_node *vv_sum(vv_node *x, const int *axes, int n, bool keep_dims);
VV_API vv_node *vv_mean(vv_node *x, const int *axes, int n, bool keep_dims);
VV_API vv_node *vv_max(vv_node *x, const int *axes, int n, bool keep_dims);
VV_API vv_node *vv_min(vv_node *x, const int *axes, int n, bool keep_dims);
VV_API vv_node *vv_sum_all(vv_node *x);  /* [] */
VV_API vv_node *vv_mean_all(vv_node *x); /* [] */
VV_API vv_node *vv_argmax(vv_node *x, int axis); /* i32, axis dropped; the first of equals */
/* The k largest along the last axis, in falling order; indices (i32) may be NULL. */
VV_API vv_node *vv_topk(vv_node *x, int64_t k, vv_node **indices);
/* Which elements are among the count[...] largest of their row: x [..., L], count i32 [...] -> bool
   [..., L]; the first of equals, NaN before any number. No gradient flows. */
VV_API vv_node *vv_largest(vv_node *x, vv_node *count);

/* ---- shape ---- */
VV_API vv_node *vv_reshape(vv_node *x, int ndim,
                           const int64_t *shape); /* one -1 is inferred; no copy */
VV_API vv_node *vv_permute(vv_node *x, const int *order);               /* order[ndim] */
VV_API vv_node *vv_broadcast_to(vv_node *x, int ndim, const int64_t *shape);
/* Elements start, start + step, ... below stop of one axis; step >= 1. */
VV_API vv_node *vv_slice(vv_node *x, int axis, int64_t start, int64_t stop, int64_t step);
VV_API vv_node *vv_concat(vv_node *const *xs, int count, int axis);
/* before[ndim] and after[ndim] elements of `value` around x. */
VV_API vv_node *vv_pad(vv_node *x, const int64_t *before, const int64_t *after, double value);
/* Rows of x along `axis` at `index` (i32 or i64, any shape): the axis is replaced by index's
   shape. */
VV_API vv_node *vv_gather(vv_node *x, vv_node *index, int axis);
VV_API vv_node *vv_one_hot(vv_node *index,
                           int64_t classes); /* f32 [..., classes]; index outside: a row of zeros */

/* ---- matrix ---- */
/* [.., M,K] x [.., K,N] -> [.., M,N]; leading dimensions broadcast; trans_x: operand given as [..,
   K,M] (or [.., N,K]). */
VV_API vv_node *vv_matmul(vv_node *a, vv_node *b, bool trans_a, bool trans_b);
/* x [.., in], weight [out,in] (PyTorch), bias [out] or NULL -> [.., out]. */
VV_API vv_node *vv_linear(vv_node *x, vv_node *weight, vv_node *bias);
VV_API vv_node *vv_embedding(vv_node *index /* i32 or i64, any shape */,
                             vv_node *table /* [rows,dim] */);

/* ---- convolution and pooling; pairs are {height, width} ---- */
typedef struct vv_conv_opts {
    int64_t stride[2], pad[2], dilation[2];
    int64_t groups;
    int64_t output_pad[2]; /* transposed convolution only */
} vv_conv_opts;
#define VV_CONV_DEFAULTS {{1, 1}, {0, 0}, {1, 1}, 1, {0, 0}}
/* x [N,H,W,C], weight [O,C/groups,kh,kw], bias [O] or NULL -> [N,H',W',O]. */
VV_API vv_node *vv_conv2d(vv_node *x, vv_node *weight, vv_node *bias, const vv_conv_opts *opts);
/* x [N,H,W,C], weight [C,O/groups,kh,kw] -> [N,H',W',O], H' = (H-1)s - 2p + d(k-1) + output_pad
   + 1. */
VV_API vv_node *vv_conv_transpose2d(vv_node *x, vv_node *weight, vv_node *bias,
                                    const vv_conv_opts *opts);

typedef struct vv_pool_opts {
    int64_t kernel[2], stride[2], pad[2];
    bool ceil_mode;
    bool count_include_pad; /* average only */
} vv_pool_opts;
VV_API vv_node *vv_max_pool2d(vv_node *x, const vv_pool_opts *opts);
VV_API vv_node *vv_avg_pool2d(vv_node *x, const vv_pool_opts *opts);
/* Window i covers [floor(i*H/h), ceil((i+1)*H/h)), as in PyTorch. */
VV_API vv_node *vv_adaptive_avg_pool2d(vv_node *x, int64_t height, int64_t width);
VV_API vv_node *vv_adaptive_max_pool2d(vv_node *x, int64_t height, int64_t width);
typedef enum vv_resize_mode { VV_RESIZE_NEAREST, VV_RESIZE_BILINEAR } vv_resize_mode;
/* [N,H,W,C] -> [N,height,width,C]; bilinear with half-pixel centres (align_corners false). */
VV_API vv_node *vv_resize(vv_node *x, int64_t height, int64_t width, vv_resize_mode mode);

/* ---- normalisation; gamma and beta may be NULL where said ---- */
/* Statistics over all axes but the last; x [..., C]. mean and var (biased, f32 [C]) are given back
   for running averages; either may be NULL. */
VV_API vv_node *vv_batch_norm(vv_node *x, vv_node *gamma, vv_node *beta, double eps, vv_node **mean,
                              vv_node **var);
/* With given statistics (evaluation). */
VV_API vv_node *vv_batch_norm_eval(vv_node *x, vv_node *gamma, vv_node *beta, vv_node *mean,
                                   vv_node *var, double eps);
/* Over the last axis; gamma, beta [C] or NULL. */
VV_API vv_node *vv_layer_norm(vv_node *x, vv_node *gamma, vv_node *beta, double eps);
/* x / sqrt(mean(x^2) + eps) * gamma over the last axis; gamma [C] or NULL (Zhang & Sennrich, arXiv
   1910.07467). */
VV_API vv_node *vv_rms_norm(vv_node *x, vv_node *gamma, double eps);
/* x [N,...,C] in `groups` groups of channels; gamma, beta [C] or NULL. groups = C: instance
   norm. */
VV_API vv_node *vv_group_norm(vv_node *x, vv_node *gamma, vv_node *beta, int64_t groups,
                              double eps);

/* ---- sequences ---- */
/* Rotary position embedding (Su et al., arXiv 2104.09864). x [N,T,H,D]: elements i and i + D/2 of
   each head turn by the angle (t + offset) * frequencies[i]; frequencies f32 [D/2], 0 = not
   turned. No gradient flows to the frequencies. */
VV_API vv_node *vv_rotary(vv_node *x, vv_node *frequencies, int64_t offset);
/* Running sums along the last axis; exclusive: without the element itself. Floats and integers. */
VV_API vv_node *vv_cumsum(vv_node *x, bool exclusive);

/* ---- softmax and losses ---- */
VV_API vv_node *vv_softmax(vv_node *x);     /* last axis */
VV_API vv_node *vv_log_softmax(vv_node *x); /* last axis */
/* Loss per item. logits [..., K]; target either i32/i64 [...] (class index; `ignore_index` gives
   loss 0) or float [..., K] (soft distribution; an all-zero row gives loss 0). class_weights f32
   [K] or NULL: index targets scale the item by the target's weight, soft targets weight each
   class. */
VV_API vv_node *vv_cross_entropy(vv_node *logits, vv_node *target, vv_node *class_weights,
                                 int64_t ignore_index); /* f32 [...] */
typedef struct vv_entropy_opts {
    int64_t ignore_index;
    double z_loss;  /* adds z_loss * logsumexp(logits)^2 to each item that has a loss */
    double softcap; /* logits are capped by vv_softcap first; 0 = not */
} vv_entropy_opts;
#define VV_ENTROPY_DEFAULTS {-100, 0.0, 0.0}
VV_API vv_node *vv_cross_entropy_with(vv_node *logits, vv_node *target, vv_node *class_weights,
                                      const vv_entropy_opts *opts);
/* Cross-entropy of the logits x weight^T + bias without ever holding all of them: they are made,
   used and made again chunk of rows by chunk. x [..., D], weight [V,D], bias [V] or NULL, target
   i32/i64 [...]; opts NULL = defaults -> f32 [...]. Plans do the same with vv_linear (and
   vv_softcap) followed by vv_cross_entropy where the classes are many and nobody else reads the
   logits, so a model need not call it. */
VV_API vv_node *vv_linear_cross_entropy(vv_node *x, vv_node *weight, vv_node *bias,
                                        vv_node *target, const vv_entropy_opts *opts);
/* Element-wise losses, same shape as x; pos_weight may be NULL. */
VV_API vv_node *vv_bce_with_logits(vv_node *x, vv_node *target, vv_node *pos_weight);
VV_API vv_node *vv_squared_error(vv_node *x, vv_node *target);
/* |d| - beta / 2 where |d| >= beta, d^2 / (2 beta) within (Huber 1964, divided by beta; Girshick,
   arXiv 1504.08083); beta > 0. */
VV_API vv_node *vv_smooth_l1(vv_node *x, vv_node *target, double beta);

/* ---- attention ---- */
typedef struct vv_attention_opts {
    bool causal;    /* sees keys up to its own position */
    int64_t window; /* > 0: only keys less than this many positions away */
    double scale;   /* of the scores; 0 = 1/sqrt(D) */
    double dropout; /* of the attention weights, drawn as in vv_dropout */
} vv_attention_opts;
#define VV_ATTENTION_DEFAULTS {false, 0, 0.0, 0.0}
/* softmax(scale q k^T) v. q [N,T,H,D], k and v [N,S,K,D], K divides H (each head of k and v serves
   H/K neighbouring heads of q) -> [N,T,H,D]. Query i stands at position i + S - T among the keys.
   slopes f32 [H] or NULL: adds -slope * |distance| to the scores (ALiBi; no gradient flows to
   them). key_mask [N,S] (bool, or i32 != 0) or NULL: keys with 0 are never seen. document i32
   [N,S] or NULL (needs T = S): only equal numbers see each other. A query that sees nothing gives 0
   and no gradient. opts may be NULL. Memory grows with T and S, never with T * S. */
VV_API vv_node *vv_attention(vv_node *q, vv_node *k, vv_node *v, vv_node *slopes, vv_node *key_mask,
                             vv_node *document, const vv_attention_opts *opts);

/* ---- random ---- */
/* Keeps each element with probability 1 - p and divides by it; p = 0 gives x itself. */
VV_API vv_node *vv_dropout(vv_node *x, double p);
VV_API vv_node *vv_random_uniform(vv_graph *g, int ndim, const int64_t *shape); /* f32 [0,1) */
VV_API vv_node *vv_random_normal(vv_graph *g, int ndim, const int64_t *shape);  /* f32 */

VV_API vv_node *vv_zeros(vv_graph *g, vv_dtype dtype, int ndim, const int64_t *shape);
VV_API vv_node *vv_full(vv_graph *g, vv_dtype dtype, int ndim, const int64_t *shape, double value);

VV_END_DECLS

#endif
