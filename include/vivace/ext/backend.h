/* ext/backend.h - for those who write kernels: op kinds, their attributes, and the kernel table.
 *
 * A backend is a table of kernels per op, best first. For each instruction of a plan the first
 * kernel whose `accepts` says yes is taken; backend `ref` (plain C, slow, obvious, complete) is
 * always the last resort. Kernels are deterministic: the same bits for any thread schedule. */
#ifndef VIVACE_EXT_BACKEND_H
#define VIVACE_EXT_BACKEND_H

#include <vivace/ops.h>
#include <vivace/rng.h>

VV_BEGIN_DECLS

/* X(enumerator, "name") for every op. "in" and "out" list operands; [?] may be absent. */
#define VV_OP_LIST(X)                                                                              \
    X(LEAF, "leaf")                                                                                \
    X(PICK, "pick")         /* in: node; out: its further output attr.pick.index (alias) */        \
    X(RESHAPE, "reshape")   /* alias */                                                            \
    X(FULL, "full")         /* out filled with attr.full.value */                                  \
    X(UNARY, "unary")       /* in: x */                                                            \
    X(UNARY_GRAD, "unary_grad") /* in: dy, x-or-y (vv_unary_grad_uses_y); out: dx */              \
    X(BINARY, "binary")     /* in: a, b, broadcasting */                                           \
    X(WHERE, "where")       /* in: condition, a, b, broadcasting */                                \
    X(CAST, "cast")                                                                                \
    X(REDUCE, "reduce")     /* in: x */                                                            \
    X(BROADCAST, "broadcast")                                                                      \
    X(ARGMAX, "argmax")                                                                            \
    X(TOPK, "topk")         /* out: values, indices (i32) */                                       \
    X(LARGEST, "largest")   /* in: x [..., L], count i32 [...]; out: bool */                       \
    X(PERMUTE, "permute")                                                                          \
    X(SLICE, "slice")                                                                              \
    X(SLICE_GRAD, "slice_grad") /* in: dy; out: zeros with dy at the slice */                      \
    X(CONCAT, "concat")                                                                            \
    X(PAD, "pad")                                                                                  \
    X(GATHER, "gather")     /* in: x, index */                                                     \
    X(GATHER_GRAD, "gather_grad") /* in: dy, index, base?; out: dx (sums repeated rows, and base) */                \
    X(ONE_HOT, "one_hot")                                                                          \
    X(MATMUL, "matmul")     /* in: a, b, bias[N]? */                                               \
    X(CONV2D, "conv2d")     /* in: x, w, bias? */                                                  \
    X(CONV2D_GRAD_DATA, "conv2d_grad_data")     /* in: dy, w, bias?; out: dx */                    \
    X(CONV2D_GRAD_WEIGHT, "conv2d_grad_weight") /* in: x, dy; out: dw */                           \
    X(POOL, "pool")         /* in: x */                                                            \
    X(POOL_GRAD, "pool_grad") /* in: dy, x (max; absent for average); out: dx. First of equals */  \
    X(ADAPTIVE_POOL, "adaptive_pool")                                                              \
    X(ADAPTIVE_POOL_GRAD, "adaptive_pool_grad") /* in: dy, x (max; absent for average) */          \
    X(RESIZE, "resize")                                                                            \
    X(RESIZE_GRAD, "resize_grad") /* in: dy; out: dx */                                            \
    X(BATCH_NORM, "batch_norm") /* in: x, gamma, beta, residual?; out: y, mean, var */             \
    X(BATCH_NORM_GRAD, "batch_norm_grad") /* in: dy, x, gamma, mean, var, y?; out: dx, dgamma,     \
                                             dbeta, masked dy? (if attr.norm.relu) */              \
    X(LAYER_NORM, "layer_norm") /* in: x, gamma, beta; out: y, mean, rstd (f32, rows) */           \
    X(LAYER_NORM_GRAD, "layer_norm_grad") /* in: dy, x, gamma, mean, rstd; out: dx, dgamma, dbeta */ \
    X(RMS_NORM, "rms_norm") /* in: x, gamma; out: y, rstd (f32, rows) */                           \
    X(RMS_NORM_GRAD, "rms_norm_grad") /* in: dy, x, gamma, rstd; out: dx, dgamma */                \
    X(GROUP_NORM, "group_norm") /* in: x, gamma, beta; out: y, mean [N,G], rstd [N,G] */           \
    X(GROUP_NORM_GRAD, "group_norm_grad") /* in: dy, x, gamma, mean, rstd; out: dx, dgamma, dbeta */ \
    X(SOFTMAX, "softmax")   /* attr.softmax.log; last axis */                                      \
    X(SOFTMAX_GRAD, "softmax_grad") /* in: dy, y; out: dx */                                       \
    X(CROSS_ENTROPY, "cross_entropy") /* in: logits, target, class_weights?; out: loss f32 */      \
    X(CROSS_ENTROPY_GRAD, "cross_entropy_grad") /* in: dloss f32, logits, target, class_weights?;  \
                                                   out: dlogits */                                 \
    X(LINEAR_CROSS_ENTROPY, "linear_cross_entropy") /* in: x, weight, target, bias?; out: loss,    \
                                                       logsumexp of each row (f32) */              \
    X(LINEAR_CROSS_ENTROPY_GRAD, "linear_cross_entropy_grad") /* in: dloss f32, x, weight, target, \
                                   bias?, logsumexp?; out: dx?, dweight?, dbias?, loss? (f32) */   \
    X(ATTENTION, "attention") /* in: q, k, v, slopes?, key_mask?, document?; out: y, logsumexp of    \
                                 the scores [N,H,T] (-infinity where nothing is seen) */           \
    X(ATTENTION_GRAD, "attention_grad") /* in: dy, q, k, v, y, logsumexp, slopes?, key_mask?,      \
                                           document?; out: dq, dk, dv */                           \
    X(ROTARY, "rotary")     /* in: x [N,T,H,D], frequencies f32 [D/2] */                           \
    X(CUMSUM, "cumsum")     /* last axis */                                                        \
    X(DROPOUT, "dropout")   /* in: x or dy (same draws when attr.random.id is equal) */            \
    X(RANDOM, "random")     /* attr.random.kind */                                                 \
    X(ACCUMULATE, "accumulate") /* made by the planner: in: value; adds to a bound tensor */       \
    X(FUSED, "fused")       /* made by the fusion pass: attr-less; call->fused holds the program */

typedef enum vv_op {
#define VV_OP_ENUM(name, text) VV_OP_##name,
    VV_OP_LIST(VV_OP_ENUM)
#undef VV_OP_ENUM
        VV_OP_COUNT
} vv_op;

VV_API VV_BORROWED const char *vv_op_name(vv_op op);

typedef enum vv_unary {
    VV_UNARY_NEG, VV_UNARY_EXP, VV_UNARY_LOG, VV_UNARY_SQRT, VV_UNARY_RSQRT, VV_UNARY_RECIPROCAL,
    VV_UNARY_SQUARE, VV_UNARY_ABS, VV_UNARY_SIGN, VV_UNARY_RELU, VV_UNARY_LEAKY_RELU, VV_UNARY_GELU,
    VV_UNARY_GELU_TANH, VV_UNARY_SILU, VV_UNARY_SIGMOID, VV_UNARY_TANH, VV_UNARY_HARDSWISH,
    VV_UNARY_SOFTPLUS, VV_UNARY_CLAMP /* a=lo, b=hi */, VV_UNARY_AFFINE /* a*x+b */,
    VV_UNARY_POW /* x^a */, VV_UNARY_COUNT
} vv_unary;

typedef enum vv_binary {
    VV_BINARY_ADD, VV_BINARY_SUB, VV_BINARY_MUL, VV_BINARY_DIV, VV_BINARY_MAX, VV_BINARY_MIN,
    VV_BINARY_EQUAL, VV_BINARY_LESS, VV_BINARY_GREATER_EQUAL, VV_BINARY_COUNT
} vv_binary;

typedef enum vv_reduce { VV_REDUCE_SUM, VV_REDUCE_MEAN, VV_REDUCE_MAX, VV_REDUCE_MIN } vv_reduce;

/* What an op needs beside its operands. Always zero the whole union first: its bytes are hashed. */
typedef union vv_attr {
    struct { int64_t index; } pick;
    struct { double value; } full;
    struct { int64_t kind; double a, b; } unary; /* UNARY and UNARY_GRAD */
    struct { int64_t kind; } binary;
    struct { int64_t kind; uint64_t axes; } reduce; /* axes: bits; dropped or 1 in the out shape */
    struct { int64_t axis; } axis;               /* ARGMAX, CONCAT, GATHER, GATHER_GRAD */
    struct { int64_t k; } topk;
    struct { int64_t order[VV_MAX_DIMS]; } permute;
    struct { int64_t axis, start, step; } slice; /* SLICE, SLICE_GRAD */
    struct { int64_t before[VV_MAX_DIMS]; double value; } pad; /* after follows from the shapes */
    struct { int64_t trans_a, trans_b; } matmul;
    struct { int64_t stride[2], pad[2], dilation[2], groups; } conv;
    struct { int64_t max, kernel[2], stride[2], pad[2], include_pad; } pool; /* average: max 0 */
    struct { int64_t max; } adaptive_pool;
    struct { int64_t mode; } resize;             /* vv_resize_mode */
    struct { double eps; int64_t groups, relu, residual; } norm; /* relu, residual: set by fusion */
    struct { int64_t log; } softmax;
    struct { int64_t ignore_index; double z_loss, softcap; } cross_entropy; /* cap: LINEAR_ only */
    /* Weight (n, h, i, j) is dropped by draw (((n H + h) T + i) R + j) of random node `id`, where n
       counts from first_item and R is S rounded up to a multiple of 4. */
    struct { double scale, p; int64_t id, causal, window; } attention;
    struct { int64_t offset, inverse; } rotary;  /* inverse: turned back (the gradient) */
    struct { int64_t exclusive, reverse; } cumsum;
    struct { double p; int64_t id; int64_t kind; /* RANDOM: 0 uniform, 1 normal */ } random;
    int64_t raw[12];
} vv_attr;

/* One operand of a kernel call. data is 64-byte aligned except for views of leaves' rows. */
typedef struct vv_buf {
    vv_dtype dtype;
    int ndim;
    int64_t shape[VV_MAX_DIMS];
    int64_t count;
    void *data; /* NULL for an absent optional operand, and while `accepts` and `prepare` run */
} vv_buf;

/* Element-wise program of a FUSED instruction. Registers 0..n_in-1 are the inputs, n_in.. are the
   steps' results, in order. An input is full-shape, or [] / one element, or a suffix of the shape
   (a [C] vector beside [N,H,W,C]). Outputs name the registers that are stored. */
#define VV_FUSED_MAX_STEPS 24
#define VV_FUSED_MAX_IO 12
typedef struct vv_fused_step {
    vv_op op; /* UNARY, UNARY_GRAD, BINARY, WHERE, CAST */
    vv_attr attr;
    int src[3];
    vv_dtype dtype; /* of the result as the node declared it; registers hold f32 (or bool as f32) */
} vv_fused_step;
typedef struct vv_fused {
    int n_in, n_steps, n_out;
    vv_fused_step steps[VV_FUSED_MAX_STEPS];
    int out[VV_FUSED_MAX_IO];
} vv_fused;

/* Everything a kernel gets. */
typedef struct vv_call {
    vv_op op;
    const vv_attr *attr;
    int n_in, n_out;
    const vv_buf *in; /* absent optional operands in the middle have data NULL and count 0 */
    const vv_buf *out;
    const vv_fused *fused; /* FUSED only */
    void *state;           /* what `prepare` made */
    void *scratch;         /* scratch_bytes from prepare, 64-byte aligned, uninitialised */
    uint64_t seed, step;   /* random ops: counter-based draws, element index offset below */
    int64_t first_item;    /* row 0 of `out` is row first_item of the whole batch */
} vv_call;

typedef struct vv_kernel {
    const char *name; /* "ref", "onednn", "avx2", ... shown in plans and profiles */
    /* Whether this kernel can do the call (shapes, dtypes, attributes; data pointers are NULL). */
    bool (*accepts)(const vv_call *call);
    /* Once per plan; may be NULL. *state is passed to run and release; *scratch_bytes is planned.
       VV_EUNSUPPORTED: the next kernel of the table is asked. */
    vv_status (*prepare)(const vv_call *call, void **state, size_t *scratch_bytes);
    vv_status (*run)(const vv_call *call);
    void (*release)(void *state);
    /* Bit i set: output 0 may share input i's buffer (same bytes, element i read before
       written). */
    unsigned in_place;
} vv_kernel;

struct vv_backend {
    const char *name;
    /* kernels[op] = array ended by a row whose run is NULL; NULL = none. */
    const vv_kernel *kernels[VV_OP_COUNT];
    const vv_backend *next; /* asked when none accepts; NULL after `ref` */
    /* Libraries and instructions that the last bits of its numbers depend on ("oneDNN 3.6.2 ...").
       May be NULL. */
    void (*describe)(vv_str *out);
};

/* Whether UNARY_GRAD of this kind reads the op's result y (relu, sigmoid, tanh, exp, sqrt, ...)
   instead of its operand x. */
VV_API bool vv_unary_grad_uses_y(vv_unary kind);

/* Random kernels draw with vv_random_element and vv_random_block of rng.h. */

VV_END_DECLS

#endif
