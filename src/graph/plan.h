/* plan.h - a plan: the instructions that compute a set of nodes, after all passes, with kernels,
 * places in the slab and everything a run needs. Made once per structure, kept by the graph. */
#ifndef VVI_PLAN_H
#define VVI_PLAN_H

#include "graph/graph_impl.h"

typedef enum vvi_place {
    VVI_SLAB,   /* between instructions */
    VVI_LEAF,   /* slot = position in vvi_plan.leaf_count */
    VVI_RESULT, /* slot = position in vvi_plan.results: survives the run */
} vvi_place;

typedef struct vvi_value {
    vvi_shape shape;
    int64_t count;
    size_t bytes;
    vvi_place place;
    int slot;
    int alias; /* value whose memory this one is, or -1 */
    /* filled by the memory pass, for roots in the slab: */
    int first, last; /* instructions that write and last read it */
    size_t offset;
} vvi_value;

typedef struct vvi_instr {
    vv_op op;
    vv_attr attr;
    int n_in, n_out;
    int *in, *out; /* values; -1 = absent */
    const vv_fused *fused;
    const char *name;
    bool dead;
    bool backward; /* belongs to the backward part */
    bool again;    /* second run: kernel and state belong to the first */
    const vv_kernel *kernel;
    void *state;
    size_t scratch_bytes, scratch_offset;
    vv_buf *bufs; /* n_in + n_out, data patched before each run */
    int64_t flops, calls;
    double seconds;
} vvi_instr;

/* One value that a run hands out. */
typedef struct vvi_result {
    int value;         /* SLAB value made RESULT, or the bound one of an ACCUMULATE */
    vv_tensor *tensor; /* the plan's own, reused while nobody keeps it; NULL if bound */
    bool bound;        /* written straight into the caller's tensor */
} vvi_result;

struct vvi_plan {
    uint64_t hash;
    unsigned char *signature;
    size_t signature_bytes;
    vvi_arena arena;
    vvi_value *values;
    int value_count, value_capacity;
    vvi_instr *instrs;
    int instr_count, instr_capacity;
    int leaf_count;
    vvi_result *results;
    int result_count;
    size_t slab_bytes;
    size_t whole_bytes;      /* slab if nothing were computed twice */
    int64_t flops;           /* of the instructions, each once */
    int64_t recompute_flops; /* of what runs a second time */
    uint64_t last_use;       /* clock of the graph's plans: the oldest is forgotten */
};

/* What a plan is asked to compute. */
typedef struct vvi_request {
    vv_graph *g;
    vv_node **nodes; /* needed nodes in order of creation; index = node->index */
    int node_count;
    vv_node **outs;
    int out_count;
    vv_recompute recompute;
} vvi_request;

/* plan.c */
vv_status vvi_plan_get(const vvi_request *request, vvi_plan **out);
int vvi_plan_value(vvi_plan *plan, const vvi_shape *shape);               /* -1: out of memory */
vvi_instr *vvi_plan_insert(vvi_plan *plan, int at, vv_op op, int n_in,
                           int n_out); /* NULL likewise */
int vvi_plan_root(const vvi_plan *plan, int value);
/* Users of a value (through aliases too), not counting results. */
int vvi_plan_uses(const vvi_plan *plan, int value);
/* The instruction that makes a value; -1 for a leaf. */
int vvi_plan_maker(const vvi_plan *plan, int value);
bool vvi_plan_is_result(const vvi_plan *plan, int value);
void vvi_plan_compact(vvi_plan *plan);
/* pass_precision.c: conv and matmul in bf16, activations between them too; `all`: wherever one
   operand is bf16. */
vv_status vvi_pass_precision(vvi_plan *plan, bool all);
/* pass_linear_loss.c: a large classifier's logits chunk by chunk */
vv_status vvi_pass_linear_loss(vvi_plan *plan);
/* pass_join_grads.c: sums of gradients that are mostly zeros */
vv_status vvi_pass_join_grads(vvi_plan *plan);
/* pass_fuse_norm.c, pass_fuse_chains.c */
vv_status vvi_pass_fuse_norm(vvi_plan *plan);
vv_status vvi_pass_fuse_chains(vvi_plan *plan);
/* pass_recompute.c: activations dropped and computed again where memory is short; does the memory
   pass too. */
vv_status vvi_pass_recompute(vvi_plan *plan, vv_recompute mode, size_t limit, bool in_place);
/* pass_memory.c: kernels' in-place wishes, lifetimes, offsets. */
vv_status vvi_pass_memory(vvi_plan *plan, bool in_place);

/* run.c */
/* Whether the current evaluation takes the node's value as given. */
bool vvi_node_is_source(const vv_node *node);
void vvi_graph_free_slab(vv_graph *g);
vv_status vvi_plan_run(vv_graph *g, vvi_plan *plan, void *const *leaf_data,
                       vv_tensor *const *bound);

#endif
