/* node.h - what a node is, and how the op families make them. Internal to src/graph. */
#ifndef VVI_NODE_H
#define VVI_NODE_H

#include <vivace/ext/backend.h>
#include <vivace/training_time.h>

#define VVI_MAX_OUT 4

typedef struct vvi_shape {
    vv_dtype dtype;
    int ndim;
    int64_t shape[VV_MAX_DIMS];
} vvi_shape;

/* One operation with its results. Result 0 is the node itself; results 1.. are read through PICK
   nodes. Lives in the graph's arena until the reset. */
struct vv_node {
    vv_graph *graph;
    vv_op op;
    vv_attr attr;
    int n_in, n_out;
    vv_node **in; /* an absent optional operand is NULL */
    vvi_shape out[VVI_MAX_OUT];
    uint32_t id;       /* position in the graph: operands come before their users */
    vv_tensor *tensor; /* leaf's tensor, or the value once computed; kept by the graph */
    void *leaf_data;   /* leaves: the elements */
    const char *name;  /* scope and op, for errors and profiles */
    vv_node *next_made; /* graph's list, in order of creation */
    struct vvi_binding *binding;
    uint32_t mark;     /* scratch of traversals */
    uint32_t remake;   /* traversal for which it runs again: a further result is wanted */
    int index;
};

/* Makes a node with one result. `attr` may be NULL (all zero); it must come from a zeroed union.
   Any NULL among the first `required` operands gives NULL. in may hold NULL after that. */
vv_node *vvi_node_new(vv_graph *g, vv_op op, const vv_attr *attr, vv_dtype dtype, int ndim,
                      const int64_t *shape, vv_node *const *in, int n_in, int required);
/* Adds a further result to a node just made; returns its PICK node. */
vv_node *vvi_node_add_out(vv_node *node, vv_dtype dtype, int ndim, const int64_t *shape);
/* The PICK of result `index` made with the node. Not a new one: where the value of this one is kept
   already (a read in the middle of a step, eager mode) the node is not run again for it. */
vv_node *vvi_node_pick(vv_node *node, int index);
/* Records the graph's first error and returns NULL. */
vv_node *vvi_node_fail(vv_graph *g, vv_status status, const char *format, ...) VV_PRINTF(3, 4);
/* Next number for attr.random.id. */
int64_t vvi_graph_next_random(vv_graph *g);

/* Checks used by many ops: true if fine, else the error is recorded. */
bool vvi_need_float(const char *op, vv_node *x);
bool vvi_need_dims(const char *op, const char *what, vv_node *x, int ndim);
/* Axis with negatives resolved; -1 and an error if outside. */
int vvi_need_axis(const char *op, vv_node *x, int axis);
/* NumPy broadcasting of two shapes; false (no error recorded) if they do not fit. */
bool vvi_broadcast_shape(int *ndim, int64_t *shape, const vv_node *a, const vv_node *b);
/* Sums `x` down to the given shape (reverse of broadcasting); x itself if it has that shape. */
vv_node *vvi_sum_to(vv_node *x, int ndim, const int64_t *shape);
/* A scalar-like constant of x's dtype. */
vv_node *vvi_constant_like(vv_node *x, double value);

/* Backward of one op: dout[i] is the gradient of result i (NULL: none), need[i] whether operand i's
   gradient is wanted; sets din[i] for those (NULL = zero). Builds nodes only. */
typedef void (*vvi_grad_fn)(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);

/* ops_elementwise.c */
void vvi_grad_unary(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_binary(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_where(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_cast(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_dropout(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
/* ops_reduce.c */
void vvi_grad_reduce(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_broadcast(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_topk(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
/* ops_shape.c */
void vvi_grad_reshape(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_permute(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_slice(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_slice_grad(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_concat(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_pad(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_gather(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
/* ops_matmul.c */
void vvi_grad_matmul(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
/* ops_conv.c */
void vvi_grad_conv2d(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_conv2d_grad_data(vv_node *node, vv_node *const *dout, const bool *need,
                               vv_node **din);
/* ops_pool.c */
void vvi_grad_pool(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_adaptive_pool(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_resize(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
/* ops_norm.c */
void vvi_grad_batch_norm(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_layer_norm(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_rms_norm(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_group_norm(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
/* ops_sequence.c */
void vvi_grad_rotary(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_cumsum(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
/* ops_loss.c */
void vvi_grad_softmax(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
void vvi_grad_cross_entropy(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
/* Attributes from the caller's options (NULL = defaults); false and an error if they are wrong. */
bool vvi_entropy_attr(const char *op, vv_graph *g, const vv_entropy_opts *opts, vv_attr *attr);
/* ops_linear_loss.c */
void vvi_grad_linear_cross_entropy(vv_node *node, vv_node *const *dout, const bool *need,
                                   vv_node **din);
/* ops_attention.c */
void vvi_grad_attention(vv_node *node, vv_node *const *dout, const bool *need, vv_node **din);
/* Query-key pairs that causal and window leave, of one head. */
int64_t vvi_attention_pairs(const vv_attr *attr, int64_t queries, int64_t keys);

#endif
