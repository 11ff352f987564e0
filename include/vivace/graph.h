/* graph.h - the step graph: code builds it, nothing runs until a value is read.
 *
 * A vv_graph lives as long as the training run; each step (or microbatch) starts with
 * vv_graph_reset, builds nodes with the functions of ops.h, and ends with vv_eval. Plans are cached
 * by the structure of what is evaluated, so a structure seen before costs microseconds.
 *
 * Errors stick: an op whose operand is NULL returns NULL, an op that fails records its sentence in
 * the graph and returns NULL; vv_eval (or vv_graph_status) reports the first one. So formulas need
 * no checks. Nodes belong to the graph and die at the next reset. One thread builds a graph. */
#ifndef VIVACE_GRAPH_H
#define VIVACE_GRAPH_H

#include <vivace/rng.h>
#include <vivace/str.h>
#include <vivace/tensor.h>

VV_BEGIN_DECLS

typedef struct vv_graph vv_graph;
typedef struct vv_node vv_node;
typedef struct vv_backend vv_backend;

typedef enum vv_precision {
    VV_PRECISION_FP32,
    VV_PRECISION_AMP_BF16, /* conv and matmul in bf16, fp32 accumulation and master weights; what
                              follows them stays in bf16 until it meets fp32 */
    VV_PRECISION_BF16,     /* as amp_bf16, but where bf16 meets fp32 activations become bf16 */
    VV_PRECISION_AUTO,     /* amp_bf16 where the CPU has the instructions, else fp32; a Trainer
                              measures which is faster */
} vv_precision;

/* Activation checkpointing: what the forward part computed is dropped and computed again where the
   backward part reads it. Results are the same bits; random nodes draw the same numbers and
   vv_update happens once. */
typedef enum vv_recompute {
    VV_RECOMPUTE_OFF,
    VV_RECOMPUTE_AUTO, /* as little as brings a plan under the limit; nothing if it is already */
    VV_RECOMPUTE_FULL, /* the least memory that running no instruction more than twice can reach */
} vv_recompute;

/* How kernels of convolutions are chosen. A trial times those that can do a shape and pass, once
   per graph; its results are told by vv_graph_conv_choices. */
typedef enum vv_conv_choice {
    VV_CONV_RULE,     /* by a fixed rule from the shape: the same on every machine */
    VV_CONV_AUTO,     /* by timed trials */
    VV_CONV_DIRECT,   /* never Winograd */
    VV_CONV_WINOGRAD, /* Winograd wherever it can be done */
} vv_conv_choice;

typedef struct vv_graph_opts {
    const vv_backend *backend; /* NULL = the best one compiled in (vv_backend_default) */
    vv_precision precision;    /* VV_PRECISION_FP32 */
    bool eager;                /* each node at once; names the first node that makes a NaN */
    bool fuse;                 /* fusion pass on */
    bool in_place;             /* in-place pass on */
    bool profile;              /* time each instruction */
    vv_conv_choice conv;
} vv_graph_opts;
/* backend, precision, eager, fuse, in_place, profile, conv. VV_EAGER=1 in the environment forces
   eager. */
#define VV_GRAPH_DEFAULTS {NULL, VV_PRECISION_FP32, false, true, true, false, VV_CONV_RULE}

VV_API VV_MUST_USE vv_status vv_graph_new(VV_OWNED vv_graph **out, const vv_graph_opts *opts);
VV_API void vv_graph_free(VV_TAKES vv_graph *graph);
/* Drops all nodes, values and errors; memory and plans stay. */
VV_API void vv_graph_reset(vv_graph *graph);
/* First error of the ops since the last reset. */
VV_API VV_MUST_USE vv_status vv_graph_status(const vv_graph *graph);

/* For layers that fail by themselves: makes the calling thread's sentence the graph's error, if it
   has none yet, and returns NULL: `return vv_graph_fail(graph, status)`. */
VV_API vv_node *vv_graph_fail(vv_graph *graph, vv_status status);

/* Random nodes draw from (seed, step, order of creation, element). `first_item` is the index of the
   graph's first row within the whole batch: dropout of row i uses element i + first_item, so that
   the microbatch size does not change the draws. Call after vv_graph_reset. */
VV_API void vv_graph_set_rng(vv_graph *graph, uint64_t seed, uint64_t step, int64_t first_item);
/* A draw for a decision while the graph is built (whether to add a branch at all): a cursor that is
   a function of (seed, step, order of creation) only, so all microbatches of a batch decide alike.
   It counts as one random node. */
VV_API vv_rng vv_graph_rng(vv_graph *graph);
/* Switches vv_update off (second pass of SAM, evaluation) or on (default). */
VV_API void vv_graph_set_updates(vv_graph *graph, bool on);
/* Planning without effect: vv_update is planned but its tensors stay as they are. */
VV_API void vv_graph_set_dry(vv_graph *graph, bool on);
/* How plans made from now on may save memory: with AUTO, where the slab would take more than
   `slab_limit` bytes (0 = no limit). A plan that cannot be brought under the limit is made as small
   as it gets; vv_graph_plan_cost tells. Off in a new graph. */
VV_API void vv_graph_set_memory(vv_graph *graph, vv_recompute mode, size_t slab_limit);
/* Names put before each node's own name in errors and profiles ("layer1.0.conv1"). */
VV_API void vv_graph_push_scope(vv_graph *graph, const char *name);
VV_API void vv_graph_pop_scope(vv_graph *graph);

/* A node for a tensor's value (parameter, batch). The same tensor gives the same node within a
   step. The tensor is kept until the reset. Changing its contents before vv_eval changes what is
   read. */
VV_API VV_BORROWED vv_node *vv_leaf(vv_graph *graph, vv_tensor *tensor);
/* Leaf of one f32 number ([]). Its value is not part of the structure, so it may change each
   step. */
VV_API VV_BORROWED vv_node *vv_scalar(vv_graph *graph, double value);
/* Leaf with a copy of the caller's data. */
VV_API VV_BORROWED vv_node *vv_data(vv_graph *graph, vv_dtype dtype, int ndim, const int64_t *shape,
                                    const void *data);

/* Adds the backward nodes of scalar `loss` (one element): grads[i] = d loss / d wrt[i], with the
   shape of wrt[i] (zeros if loss does not depend on it). wrt need not be leaves. */
VV_API VV_MUST_USE vv_status vv_grad(vv_graph *graph, vv_node *loss, vv_node *const *wrt, int count,
                                     vv_node **grads);
/* Same with a given gradient of `loss` (any shape) instead of 1. */
VV_API VV_MUST_USE vv_status vv_grad_from(vv_graph *graph, vv_node *loss, vv_node *loss_grad,
                                          vv_node *const *wrt, int count, vv_node **grads);

/* Asks that vv_eval write the node's value into (or add it to) a tensor of the same shape (f32 or
   the node's dtype). The tensor is kept until the reset. */
typedef enum vv_bind { VV_BIND_WRITE, VV_BIND_ADD } vv_bind;
VV_API VV_MUST_USE vv_status vv_bind_output(vv_node *node, vv_tensor *tensor, vv_bind how);
/* After the next vv_eval that runs anything, tensor's contents become the node's value (running
   statistics). Does nothing while updates are off. */
VV_API VV_MUST_USE vv_status vv_update(vv_graph *graph, vv_tensor *tensor, vv_node *node);

/* Runs what the nodes need, and no more, in one plan; their values stay readable until the
   reset. */
VV_API VV_MUST_USE vv_status vv_eval(vv_graph *graph, vv_node *const *nodes, int count);

/* Reads one value; runs what it needs if that has not happened (keeping every intermediate value,
   so that the rest of the step need not compute it again). */
VV_API VV_MUST_USE vv_status vv_node_item(vv_node *node, double *out); /* one element */
VV_API VV_MUST_USE vv_status vv_node_value(vv_node *node, VV_BORROWED const vv_tensor **out);
/* The value as a tensor that survives the reset. */
VV_API VV_MUST_USE vv_status vv_node_keep(vv_node *node, VV_OWNED vv_tensor **out);

VV_API vv_dtype vv_node_dtype(const vv_node *node);
VV_API int vv_node_ndim(const vv_node *node);
VV_API VV_BORROWED const int64_t *vv_node_shape(const vv_node *node);
VV_API int64_t vv_node_count(const vv_node *node);
VV_API VV_BORROWED vv_graph *vv_node_graph(const vv_node *node);

/* What the graph costs. Bytes of the largest plan so far; peak = highest slab offset in use during
   a run, measured as instructions ran. */
typedef struct vv_graph_stats {
    size_t planned_bytes;  /* slab as planned */
    size_t peak_bytes;     /* slab as used */
    size_t result_bytes;   /* values kept for reading */
    int64_t plan_count;    /* plans made so far */
    int64_t run_count;     /* vv_eval calls that ran something */
    int64_t flops;         /* of the last run: multiply-adds count 2 */
    int64_t kept_bytes;    /* kept by reads in the middle of a step, last step */
    int64_t recompute_flops; /* of the last run: what ran a second time; not in `flops` */
    double plan_seconds;     /* spent making plans so far */
} vv_graph_stats;
VV_API void vv_graph_get_stats(const vv_graph *graph, vv_graph_stats *out);

/* What evaluating the nodes would take, without running. */
typedef struct vv_plan_cost {
    size_t slab_bytes;       /* between instructions */
    size_t result_bytes;     /* values handed out in tensors of the graph's own */
    size_t whole_bytes;      /* slab_bytes if nothing were computed twice */
    int64_t flops;           /* each instruction once: multiply-adds count 2 */
    int64_t recompute_flops; /* more, of what is computed twice */
    int64_t updates;         /* tensors that vv_update would change */
} vv_plan_cost;
VV_API VV_MUST_USE vv_status vv_graph_plan_cost(vv_graph *graph, vv_node *const *nodes, int count,
                                                vv_plan_cost *out);

/* Time per op kind since the last clear, in profile mode: calls fn for each kind that ran. */
typedef void (*vv_profile_fn)(void *ctx, const char *op, const char *kernel, int64_t calls,
                              double seconds, int64_t flops);
VV_API void vv_graph_profile(const vv_graph *graph, vv_profile_fn fn, void *ctx);
VV_API void vv_graph_profile_clear(vv_graph *graph);
VV_API void vv_graph_set_profile(vv_graph *graph, bool on);

/* Tells of each instruction that has run: fn is called after it, on the thread that evaluates; NULL
   = off. */
typedef struct vv_graph_span {
    const char *name;     /* of the node: "layer1.0: conv2d"; valid during the call */
    const char *op, *kernel;
    bool backward;        /* belongs to what vv_grad added */
    double start, seconds; /* vv_clock() when it began; how long it took */
    int64_t flops;
} vv_graph_span;
typedef void (*vv_graph_trace_fn)(void *ctx, const vv_graph_span *span);
VV_API void vv_graph_set_trace(vv_graph *graph, vv_graph_trace_fn fn, void *ctx);

/* The last plan in words: instructions, kernels, offsets. */
VV_API void vv_graph_describe_plan(const vv_graph *graph, vv_str *out);

/* Results of timed trials so far, a line each: "SHAPES = KERNEL"; nothing without VV_CONV_AUTO. */
VV_API void vv_graph_conv_choices(const vv_graph *graph, vv_str *out);
/* Takes such lines in place of trials of its own, so that another run computes the same bits; plans
   made before are forgotten. A kernel that this build lacks is chosen anew. */
VV_API VV_MUST_USE vv_status vv_graph_set_conv_choices(vv_graph *graph, const char *lines);

/* Backends. */
VV_API VV_BORROWED const vv_backend *vv_backend_default(void);
VV_API VV_BORROWED const vv_backend *vv_backend_find(const char *name); /* "ref", "cpu"; NULL */
VV_API VV_BORROWED const char *vv_backend_name(const vv_backend *backend);
/* Appends what the last bits of its numbers depend on: libraries, instructions. Kernels are chosen
   by fixed rules from shapes and these, so that equal ones give equal bits. */
VV_API void vv_backend_describe(const vv_backend *backend, vv_str *out);
/* Whether this CPU has bf16 matrix instructions (AVX512-BF16 or AMX). */
VV_API bool vv_cpu_has_bf16(void);
/* Peak arithmetic rate of this machine with vv_threads() threads, measured now (about 0.3 s):
   GFLOP/s of fused multiply-adds in fp32, or of bf16 dot products where the CPU has them. */
VV_API double vv_measure_peak_gflops(vv_precision precision);
/* Threads used by kernels (OpenMP); 0 = all cores. */
VV_API void vv_set_threads(int count);
VV_API int vv_threads(void);
/* What the processor calls itself ("AMD EPYC 9B14"), "unknown" if nobody says; returns buf. */
VV_API const char *vv_processor_name(char *buf, size_t buf_bytes);

VV_END_DECLS

#endif
