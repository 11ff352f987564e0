/* nn.h - a model is a tree of modules that can be re-wired while it lives. Parameter names and
 * shapes are PyTorch's ("layer1.0.conv1.weight", convolution weights OIHW, linear weights
 * [out,in]). */
#ifndef VIVACE_NN_H
#define VIVACE_NN_H

#include <vivace/ops.h>
#include <vivace/rng.h>

VV_BEGIN_DECLS

typedef struct vv_module vv_module;
typedef struct vv_optimizer vv_optimizer; /* optim.h */

/* A trainable tensor. Owned by its module (shared parameters are reference-counted). */
typedef struct vv_param {
    uint64_t id;       /* unique in the process, never reused */
    vv_tensor *value;  /* f32 */
    vv_tensor *grad;   /* f32, same shape; made on first use, NULL before */
    bool frozen;       /* bit-equal from now on: no gradient, momentum, decay */
    int refs;
    int owners;        /* modules that list it; above 1 = shared (tied weights) */
} vv_param;
VV_API VV_MUST_USE vv_status vv_param_new(VV_OWNED vv_param **out, int ndim, const int64_t *shape);
VV_API VV_OWNED vv_param *vv_param_keep(vv_param *param);
VV_API void vv_param_free(VV_TAKES vv_param *param);

/* ---- classes of modules (ext): one static const table per kind of layer ---- */
typedef struct vv_module_class {
    const char *name; /* "Conv2d": also what `vivace describe` and the plan call it */
    /* Adds the layer's nodes. Children are called with vv_module_forward. */
    vv_node *(*forward)(vv_module *module, vv_graph *graph, vv_node *x);
    void (*fini)(vv_module *module); /* frees what `self` points to inside; may be NULL */
} vv_module_class;

/* *out = module with zeroed `self` of self_bytes, no children, in training mode. */
VV_API VV_MUST_USE vv_status vv_module_new(VV_OWNED vv_module **out, const vv_module_class *type,
                                           size_t self_bytes);
VV_API VV_OWNED vv_module *vv_module_keep(vv_module *module); /* shared layers */
VV_API void vv_module_free(VV_TAKES vv_module *module);
VV_API void *vv_module_self(vv_module *module);
VV_API VV_BORROWED const vv_module_class *vv_module_type(const vv_module *module);

/* Adding parts; names become path components and state keys: at most 63 bytes, no dot, unique
   within the module. A path longer than 1023 bytes is cut. */
VV_API VV_MUST_USE vv_status vv_module_add_child(vv_module *module, const char *name,
                                                 VV_TAKES vv_module *child);
VV_API VV_MUST_USE vv_status vv_module_add_param(vv_module *module, const char *name,
                                                 VV_TAKES vv_param *param);
/* Buffers are saved but not trained (running statistics). */
VV_API VV_MUST_USE vv_status vv_module_add_buffer(vv_module *module, const char *name,
                                                  VV_TAKES vv_tensor *tensor);

VV_API int vv_module_child_count(const vv_module *module);
VV_API VV_BORROWED vv_module *vv_module_child(const vv_module *module, int i);
VV_API VV_BORROWED const char *vv_module_child_name(const vv_module *module, int i);
VV_API VV_BORROWED vv_module *vv_module_find(vv_module *module,
                                             const char *path); /* "layer1.0"; NULL */
VV_API VV_BORROWED vv_param *vv_module_param(const vv_module *module,
                                             const char *name); /* own; NULL */
VV_API VV_BORROWED vv_tensor *vv_module_buffer(const vv_module *module,
                                               const char *name); /* own; NULL */
/* Swaps child i for another module; the old one is released. */
VV_API VV_MUST_USE vv_status vv_module_set_child(vv_module *module, int i,
                                                 VV_TAKES vv_module *child);

/* Runs the module on x (NULL in, NULL out), with its name as scope. */
VV_API vv_node *vv_module_forward(vv_module *module, vv_graph *graph, vv_node *x);
VV_API void vv_module_set_training(vv_module *module, bool training); /* whole tree */
/* For those who watch: `fn` hears of each module's output as a forward adds it, parts before the
   whole (paths: vv_module_each). Whole tree; NULL = nobody any more. `fn` may add nodes that read
   the output, and must leave the output as it is. */
typedef void (*vv_observe_fn)(void *ctx, vv_module *module, vv_graph *graph, vv_node *output);
VV_API void vv_module_observe(vv_module *module, vv_observe_fn fn, void *ctx);
VV_API bool vv_module_training(const vv_module *module);
/* Own parameter as a node (graph leaf); NULL name or absent parameter gives NULL without an
   error. */
VV_API vv_node *vv_module_param_node(vv_module *module, vv_graph *graph, const char *name);

/* Depth-first over the tree in order of addition, each shared thing once. Return false to stop. */
typedef bool (*vv_param_fn)(void *ctx, const char *path, vv_module *owner, vv_param *param);
typedef bool (*vv_buffer_fn)(void *ctx, const char *path, vv_module *owner, vv_tensor *buffer);
typedef bool (*vv_module_fn)(void *ctx, const char *path, vv_module *module);
VV_API void vv_module_each_param(vv_module *module, vv_param_fn fn, void *ctx);
VV_API void vv_module_each_buffer(vv_module *module, vv_buffer_fn fn, void *ctx);
VV_API void vv_module_each(vv_module *module, vv_module_fn fn, void *ctx); /* root first, path "" */
VV_API int64_t vv_module_param_count(vv_module *module);                  /* elements */
VV_API int vv_module_count(vv_module *module,
                           const vv_module_class *type); /* instances, root excluded */

/* Freezes or thaws every parameter below (a frozen batch norm also keeps its running
   statistics). */
VV_API void vv_module_set_frozen(vv_module *module, bool frozen);

/* State by PyTorch names. save: name -> tensor through fn. load: every name must match unless
   strict is false; shapes must be equal. */
typedef bool (*vv_state_fn)(void *ctx, const char *name, vv_tensor *tensor);
VV_API void vv_module_each_state(vv_module *module, vv_state_fn fn, void *ctx);
VV_API VV_MUST_USE vv_status vv_module_load(vv_module *module,
                                            const vv_tensor *(*find)(void *ctx, const char *name),
                                            void *ctx, bool strict, int *loaded);

/* ---- surgery (spec: policies in order, depth first, root never replaced, shared layers once)
   ---- */
typedef struct vv_policy {
    const vv_module_class *type;
    /* *out = replacement (owned; may hold kept references to the old layer's parts), or NULL to
       decline. index counts the matches of this policy, declined ones too. */
    vv_status (*replace)(void *ctx, vv_module *layer, int index, VV_OWNED vv_module **out);
    void *ctx;
    /* Layers that are children of a module of this class are passed over: what wraps a layer of
       `type` names itself here, so that applying twice is applying once. May be NULL. */
    const vv_module_class *not_inside;
} vv_policy;
/* *count = layers replaced. New layers are not entered. The optimizer (may be NULL) afterwards
   holds exactly the tree's parameters: state of removed ones dropped, added ones in the removed
   ones' group. */
VV_API VV_MUST_USE vv_status vv_module_replace(vv_module *root, const vv_policy *policies, int n,
                                               vv_optimizer *optimizer, int *count);

/* ---- residual blocks: y = after(branch(x) + shortcut(x)) ---- */
/* What a model tells about a block, so that methods can act on the branch. The function uses the
   module's children only, by position: a method may put them under a module of its own class. */
typedef struct vv_residual {
    vv_node *(*branch)(vv_module *module, vv_graph *graph, vv_node *x);
    int shortcut; /* index of the child that x goes through; -1, or no such child: x itself */
    bool relu;    /* after the sum */
} vv_residual;
/* `residual` must live as long as the program (a static const). */
VV_API void vv_module_set_residual(vv_module *module, const vv_residual *residual);
VV_API VV_BORROWED const vv_residual *vv_module_residual(const vv_module *module); /* or NULL */
/* The plain block: what its class's forward function does. */
VV_API vv_node *vv_residual_forward(vv_module *module, vv_graph *graph, vv_node *x);
/* The block's shortcut of x alone, without what comes after the sum. */
VV_API vv_node *vv_residual_shortcut(vv_module *module, vv_graph *graph, vv_node *x);

/* ---- feed-forward blocks: y = out(activation(in(x))) ---- */
/* What a model tells about a block, so that methods can exchange its parts: paths, from the module,
   of a Linear, of what comes behind it and of a second Linear. The model calls each of the three
   with vv_module_forward and looks at nothing else, so `in` may grow wider if `activation` makes it
   narrow again. */
typedef struct vv_mlp {
    const char *in, *activation, *out;
} vv_mlp;
/* `mlp` must live as long as the program (a static const). */
VV_API void vv_module_set_mlp(vv_module *module, const vv_mlp *mlp);
VV_API VV_BORROWED const vv_mlp *vv_module_mlp(const vv_module *module); /* or NULL */

/* ---- language models: tokens [N,T] -> numbers for each token or sample ---- */
/* What a model tells about itself (on its root): paths of its parts; NULL = there is none. */
typedef struct vv_language {
    const char *tokens;    /* Embedding of the tokens */
    const char *positions; /* Embedding of the positions; see vv_positions_add */
    const char *blocks;    /* module whose children are the blocks, in order */
    const char *head;      /* Linear that gives the logits of the tokens */
    /* The token that ends a document, if what comes after it sees nothing before; -1, or no
       function: all is seen. */
    int64_t (*document_end)(vv_module *net);
} vv_language;
/* `language` must live as long as the program (a static const). */
VV_API void vv_module_set_language(vv_module *module, const vv_language *language);
VV_API VV_BORROWED const vv_language *vv_module_language(const vv_module *module); /* or NULL */

/* ---- decoding: a row of tokens piece by piece ---- */
/* From now on each forward takes the next tokens [1,T] of one row of up to `tokens`; attention
   layers keep keys and values of those before. After the vv_eval of a forward, vv_decode_advance
   tells how many tokens it took (fewer = the last ones are forgotten). Begin again for another
   row. The net must be in evaluation mode, its graph must have updates on. */
VV_API VV_MUST_USE vv_status vv_decode_begin(vv_module *net, int64_t tokens);
VV_API void vv_decode_advance(vv_module *net, int64_t count);
VV_API void vv_decode_end(vv_module *net); /* frees what was kept */
/* Between begin and end. */
VV_API bool vv_module_decoding(const vv_module *module);
/* Tokens before those of this forward: the position of the first. 0 unless decoding. */
VV_API int64_t vv_module_past(const vv_module *module);

/* ---- initialisers, in the given order to every layer (models_data spec 1) ---- */
/* names: "kaiming_normal", "kaiming_uniform", "xavier_uniform", "xavier_normal", "bn_uniform",
   "bn_ones", "linear_log_constant_bias", and "kaiming_normal_fan_out" (convolutions only: how
   torchvision's ResNets start), comma-separated. Draws depend on (seed, parameter path). */
VV_API VV_MUST_USE vv_status vv_module_init(vv_module *module, const char *names, uint64_t seed);
/* PyTorch's default initialisation of every layer (what constructors leave is zeros/ones). */
VV_API VV_MUST_USE vv_status vv_module_init_default(vv_module *module, uint64_t seed);

/* For a model with a start of its own. Draws are a function of (seed, path) only. */
VV_API void vv_param_fill_normal(vv_param *param, double std, uint64_t seed, const char *path);
VV_API void vv_param_fill_uniform(vv_param *param, double lo, double hi, uint64_t seed,
                                  const char *path);

/* ---- layers. Out-parameters first; on failure *out is NULL ---- */
extern VV_API const vv_module_class vv_conv2d_class, vv_conv_transpose2d_class, vv_linear_class,
    vv_batch_norm_class, vv_layer_norm_class, vv_group_norm_class, vv_max_pool_class,
    vv_avg_pool_class, vv_adaptive_avg_pool_class, vv_activation_class, vv_dropout_class,
    vv_flatten_class, vv_embedding_class, vv_sequential_class, vv_identity_class,
    vv_rms_norm_class, vv_attention_class, vv_drop_path_class;

typedef struct vv_conv2d_layer { /* vv_module_self of Conv2d and ConvTranspose2d */
    int64_t in_channels, out_channels, kernel[2];
    vv_conv_opts conv;
    bool bias;
} vv_conv2d_layer;
VV_API VV_MUST_USE vv_status vv_conv2d_new(VV_OWNED vv_module **out, int64_t in_channels,
                                           int64_t out_channels, int64_t kernel,
                                           const vv_conv_opts *opts, bool bias);
VV_API VV_MUST_USE vv_status vv_conv_transpose2d_new(VV_OWNED vv_module **out, int64_t in_channels,
                                                     int64_t out_channels, int64_t kernel,
                                                     const vv_conv_opts *opts, bool bias);
typedef struct vv_linear_layer {
    int64_t in_features, out_features;
    bool bias;
} vv_linear_layer;
VV_API VV_MUST_USE vv_status vv_linear_new(VV_OWNED vv_module **out, int64_t in_features,
                                           int64_t out_features, bool bias);
typedef struct vv_batch_norm_layer {
    int64_t channels;
    double eps,
        momentum; /* running = (1 - momentum) * running + momentum * batch (unbiased variance) */
} vv_batch_norm_layer;
VV_API VV_MUST_USE vv_status vv_batch_norm_new(VV_OWNED vv_module **out, int64_t channels,
                                               double eps, double momentum);
typedef struct vv_norm_layer {
    int64_t channels, groups;
    double eps;
} vv_norm_layer;
VV_API VV_MUST_USE vv_status vv_layer_norm_new(VV_OWNED vv_module **out, int64_t channels,
                                               double eps);
VV_API VV_MUST_USE vv_status vv_group_norm_new(VV_OWNED vv_module **out, int64_t groups,
                                               int64_t channels, double eps);
/* x / sqrt(mean(x^2) + eps) over the last axis (Zhang & Sennrich, arXiv 1910.07467), times "weight"
   if there is one; vv_module_self is a vv_norm_layer. */
VV_API VV_MUST_USE vv_status vv_rms_norm_new(VV_OWNED vv_module **out, int64_t channels, double eps,
                                             bool weight);
/* MaxPool2d / AvgPool2d; vv_module_self is a vv_pool_opts. stride 0 = kernel. */
VV_API VV_MUST_USE vv_status vv_max_pool_new(VV_OWNED vv_module **out, const vv_pool_opts *opts);
VV_API VV_MUST_USE vv_status vv_avg_pool_new(VV_OWNED vv_module **out, const vv_pool_opts *opts);
VV_API VV_MUST_USE vv_status vv_adaptive_avg_pool_new(VV_OWNED vv_module **out, int64_t height,
                                                      int64_t width);
typedef enum vv_activation {
    VV_ACT_RELU, VV_ACT_LEAKY_RELU, VV_ACT_GELU, VV_ACT_GELU_TANH, VV_ACT_SILU, VV_ACT_SIGMOID,
    VV_ACT_TANH, VV_ACT_HARDSWISH, VV_ACT_RELU2 /* relu(x)^2: So et al., arXiv 2109.08668 */
} vv_activation;
VV_API VV_MUST_USE vv_status vv_activation_new(VV_OWNED vv_module **out, vv_activation kind,
                                               double slope);
VV_API VV_MUST_USE vv_status vv_dropout_new(VV_OWNED vv_module **out, double p);
/* While training, rows of x [N,...] become zero with probability p (vv_module_self is this double)
   and the others are divided by 1 - p: the branch of a residual block left out for single samples
   (Huang et al., arXiv 1603.09382; EfficientNet's drop connect). */
VV_API VV_MUST_USE vv_status vv_drop_path_new(VV_OWNED vv_module **out, double p);
/* [N,...] -> [N, product] in PyTorch's order (channels first), so that linear weights load. */
VV_API VV_MUST_USE vv_status vv_flatten_new(VV_OWNED vv_module **out);
typedef struct vv_embedding_layer {
    int64_t rows, dim;
    bool off; /* a table of positions that its model leaves out; ALiBi sets it */
} vv_embedding_layer;
VV_API VV_MUST_USE vv_status vv_embedding_new(VV_OWNED vv_module **out, int64_t rows, int64_t dim);
/* x [N,T,dim] plus rows vv_module_past .. + T of `table` (an Embedding, called as a module), or x
   itself if the table is off. Rows that the table lacks are an error with a sentence. */
VV_API vv_node *vv_positions_add(vv_module *table, vv_graph *graph, vv_node *x);
/* Children called one after the other; add them with vv_module_add_child. */
VV_API VV_MUST_USE vv_status vv_sequential_new(VV_OWNED vv_module **out);
/* Adds `child` under its position ("0", "1", ...), or frees it and returns `made` if that failed.
   The call that makes the child must be a statement of its own before: C leaves the order of
   arguments open. */
VV_API VV_MUST_USE vv_status vv_sequential_push(vv_module *sequential, vv_status made,
                                                VV_TAKES vv_module *child);
VV_API VV_MUST_USE vv_status vv_identity_new(VV_OWNED vv_module **out);

/* Softmax attention, without parameters: [N,T,(H + 2K) * D] that holds queries, keys and values
   next to each other -> [N,T,H * D]. vv_module_self is this struct; methods and schedules may
   change it at any time. */
typedef struct vv_attention_layer {
    int64_t heads;    /* H, of the queries */
    int64_t kv_heads; /* K, of keys and values; divides H (Ainslie et al., arXiv 2305.13245) */
    int64_t head_dim; /* D */
    bool causal;      /* a token sees itself and those before */
    int64_t window;   /* sees tokens less than this many positions away; 0 = all */
    double scale;     /* of the scores; 0 = 1 / sqrt(D) */
    double dropout;   /* of the weights, while training */
    bool alibi;       /* minus slope * distance (Press et al., arXiv 2108.12409) */
    bool qk_norm;     /* RMS norm of each query and key (Henry et al., arXiv 2010.04245) */
    /* Rotary positions (Su et al., arXiv 2104.09864): 0 = none. Pairs (i, i + D/2) are turned by
       position * base^(-2i / D). With a share below 1 only the first `share * D/2` pairs turn, by
       base^(-i / (pairs - 1)). */
    double rotary_base, rotary_share;
    /* For one forward, set by vv_attention_mask. */
    vv_node *key_mask, *document;
    /* Keys and values kept while decoding; the layer's own. */
    vv_tensor *keys, *values;
} vv_attention_layer;
/* `settings`: the fields up to rotary_share; rotary_share 0 = 1. */
VV_API VV_MUST_USE vv_status vv_attention_new(VV_OWNED vv_module **out,
                                              const vv_attention_layer *settings);
/* The same with q [N,T,H * D], k and v [N,T,K * D] apart. `layer` may be of any class that takes
   them next to each other. */
VV_API vv_node *vv_attention_attend(vv_module *layer, vv_graph *graph, vv_node *q, vv_node *k,
                                    vv_node *v);
/* Masks of vv_attention for every attention layer below `net`, in force until they are set to NULL:
   a model does both within its forward. */
VV_API void vv_attention_mask(vv_module *net, vv_node *key_mask, vv_node *document);
/* Slopes of ALiBi for `heads` heads into out[heads]: 2^(-8 i / n) for n a power of two; else those
   of the power below, then every other one of the power above. */
VV_API void vv_alibi_slopes(int64_t heads, float *out);

VV_END_DECLS

#endif
