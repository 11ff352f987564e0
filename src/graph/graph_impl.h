/* graph_impl.h - the graph's own data. Internal to src/graph. */
#ifndef VVI_GRAPH_IMPL_H
#define VVI_GRAPH_IMPL_H

#include "base/arena.h"
#include "graph/node.h"

/* Plans kept at once; beyond them the one not used for longest goes. */
#define VVI_MOST_PLANS 64

typedef struct vvi_plan vvi_plan;

/* What vv_bind_output asked for. */
typedef struct vvi_binding {
    vv_tensor *tensor;
    vv_bind how;
    bool done;
    struct vvi_binding *next;
} vvi_binding;

typedef struct vvi_update {
    vv_tensor *tensor;
    vv_node *node;
    bool done;
} vvi_update;

/* What a timed trial found. */
typedef struct vvi_conv_trial {
    char *shapes, *kernel;
} vvi_conv_trial;

struct vv_graph {
    vv_graph_opts opts;
    const vv_backend *backend;
    vvi_arena arena;

    vv_node *first, *last;
    uint32_t node_count;
    uint32_t mark; /* last traversal's */
    uint32_t backward_id; /* first node of the backward part; 0 = there is none */
    vv_node **leaf_map; /* open addressing over tensor pointers; in the arena */
    uint32_t leaf_capacity, leaf_count;
    vvi_update *updates; /* heap, reused */
    int update_count, update_capacity;
    vvi_binding *bindings;

    vv_status status;
    char error[512];
    bool updates_on;
    bool dry; /* vv_update is planned, never done */
    uint64_t seed, step;
    int64_t first_item, random_count;
    char scope[256];
    const char *name_override; /* while backward nodes are made */

    vv_graph_trace_fn trace; /* NULL = nobody wants to know */
    void *trace_ctx;

    vv_node *pending; /* eager mode: made, not yet run */
    bool running;     /* eager mode: inside an evaluation */

    vvi_plan **plans; /* heap */
    int plan_count, plan_capacity;
    uint64_t plan_clock;
    vvi_plan *last_plan;
    char *slab;
    size_t slab_bytes;
    vv_recompute recompute;
    size_t slab_limit;
    vv_graph_stats stats;
    vvi_conv_trial *trials; /* heap */
    int trial_count, trial_capacity;
};

vv_status vvi_graph_set_error(vv_graph *g, vv_status status);
/* Eager mode: runs the node made last, if any. */
void vvi_graph_flush(vv_graph *g);

/* Whether the tensor is a leaf of this step. */
bool vvi_graph_has_leaf(vv_graph *g, const vv_tensor *tensor);

/* autodiff.c, op_table.c */
vvi_grad_fn vvi_op_grad(vv_op op);
int64_t vvi_op_flops(const vv_call *call);

/* plan.c */
void vvi_plan_free(vvi_plan *plan);

/* choose_kernel.c */
typedef struct vvi_chosen {
    const vv_kernel *kernel; /* NULL: nobody can do it */
    void *state;
    size_t scratch_bytes;
} vvi_chosen;
vv_status vvi_choose_kernel(vv_graph *g, const vv_call *call, vvi_chosen *out);
void vvi_trials_free(vv_graph *g);

#endif
