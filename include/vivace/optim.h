/* optim.h - optimizers as fused passes over all parameters, and learning-rate schedules. */
#ifndef VIVACE_OPTIM_H
#define VIVACE_OPTIM_H

#include <vivace/describe.h>
#include <vivace/nn.h>

VV_BEGIN_DECLS

/* Options of one parameter group. Fields an optimizer does not have are ignored. sgd: decay is
   added to the gradient; decoupled_sgdw: w -= (lr / initial lr) * wd * w. */
typedef struct vv_sgd_opts {
    double lr, momentum, dampening, weight_decay;
    bool nesterov;
} vv_sgd_opts;
/* adam: L2; adamw: w -= lr * wd * w; decoupled_adamw: w -= (lr / initial lr) * wd * w. */
typedef struct vv_adam_opts {
    double lr, beta1, beta2, eps, weight_decay;
    bool amsgrad;
    bool cautious; /* adamw, decoupled_adamw: decay only where the step goes the same way */
} vv_adam_opts;

/* v <- alpha v + (1 - alpha) g^2, buffer <- momentum buffer + g / (sqrt(v) + eps), w -= lr buffer;
   centered: v less the square of g's average; decay is added to the gradient. */
typedef struct vv_rmsprop_opts {
    double lr, alpha, eps, weight_decay, momentum;
    bool centered;
} vv_rmsprop_opts;
/* schedule_free_sgd and schedule_free_adamw: beta1 is how near the trained weights lie to their
   average; step t enters it with weight t^r * (largest lr so far)^weight_lr_power. */
typedef struct vv_schedule_free_opts {
    double lr, beta1, beta2, eps, weight_decay, r, weight_lr_power;
} vv_schedule_free_opts;
/* muon: matrices step by their orthogonalised momentum, the rest by a fallback. normuon: the same
   with the rows of each direction brought to one size. Tables of embeddings are never matrices. */
typedef struct vv_muon_opts {
    double lr, momentum, weight_decay;
    int64_t ns_steps;        /* of the Newton-Schulz iteration */
    int64_t normalise_every; /* steps between weights being scaled to norm sqrt(rows); 0 = never */
    bool nesterov, aspect_scale;
    int matrices;            /* a vv_muon_matrices */
    int precision;           /* of the iteration: 0 = fp32, 1 = bf16 */
    int iteration;           /* 0 = Newton-Schulz, 1 = Polar Express */
    int fallback;            /* 0 = sgd (Nesterov), 1 = adamw */
    double fallback_lr;
    double head_lr, embedding_lr; /* of a head or a table among the others; 0 = fallback_lr */
    double fallback_momentum, fallback_weight_decay;
    double beta1, beta2, eps; /* of adamw */
    double row_beta;          /* normuon: share kept of the rows' average squares */
    bool cautious;            /* decay only where the step goes the same way (not of sgd) */
    const char *others;       /* patterns of names that are never matrices */
    const char *split;        /* patterns of names that hold q, k and v: three matrices */
} vv_muon_opts;
/* filters: parameters of three or more axes; hidden: of two or more, but not the head
   (vv_param_kind); all: of two or more. */
typedef enum vv_muon_matrices {
    VV_MUON_FILTERS, VV_MUON_HIDDEN, VV_MUON_ALL
} vv_muon_matrices;

/* soap: Adam in the eigenbasis of each matrix's averages of G G' and G' G, brought up to date every
   `frequency` steps; what is no matrix steps by AdamW. The first step moves no matrix. */
typedef struct vv_soap_opts {
    double lr, beta1, beta2, eps, weight_decay;
    int64_t frequency, max_size; /* max_size: longer sides are not rotated */
} vv_soap_opts;

/* ---- ext: what an optimizer is ---- */
#define VV_OPTIMIZER_MAX_SCALARS 4
#define VV_OPTIMIZER_MAX_STATES 8
typedef struct vv_optimizer_slot { /* one parameter's data during a step, all f32, count elements */
    float *value;
    const float *grad;
    float *state[VV_OPTIMIZER_MAX_STATES]; /* NULL where it needs none */
    int64_t count;
    int64_t step; /* 1 on this parameter's first step */
    const double *scalars;  /* scalar_count numbers, as advance left them */
    const float *direction; /* what `direct` computed for it; NULL = nothing */
    double scale;           /* free for `direct` to tell `update` a number; 1 */
    int role;               /* what `sort` made of it; 0 */
} vv_optimizer_slot;
/* What the tree says of a parameter. Table: the weight of an Embedding, also where a head shares
   it. Head: the weight of the Linear that vv_language names, if it is no table; in trees without
   vv_language the last parameter of two or more axes that is no table. */
typedef enum vv_param_kind { VV_PARAM_PLAIN, VV_PARAM_TABLE, VV_PARAM_HEAD } vv_param_kind;
/* A parameter as `sort` and `direct` see it. */
typedef struct vv_optimizer_view {
    const void *opts;       /* of its group */
    const vv_tensor *value; /* its shape */
    vv_optimizer_slot *slot; /* NULL: it takes no part in this step */
    const char *path;       /* "blocks.0.attn.c_attn.weight" */
    vv_param_kind kind;
    int role;
} vv_optimizer_view;
typedef struct vv_optimizer_desc {
    vv_desc desc;    /* fields of the group options; a float field "lr" is required */
    int state_count; /* state tensors per parameter, at most 8; zeroed before the first step */
    const char *const *state_names; /* "momentum_buffer"; "exp_avg", "exp_avg_sq", ... */
    /* One pass over elements [first, last) of a parameter. lr is the current one. Must be
       element-wise: the library splits work over threads freely. */
    void (*update)(const void *opts, double lr, double initial_lr, const vv_optimizer_slot *slot,
                   int64_t first, int64_t last);
    /* Whether these options need state tensor i (NULL: every one). */
    bool (*uses_state)(const void *opts, int i);
    /* Whether a parameter needs state tensor i, and its shape (*ndim and shape come as the
       parameter's). NULL: all that uses_state wants, in the parameter's shape. */
    bool (*state_shape)(const vv_optimizer_view *view, int i, int *ndim, int64_t *shape);
    /* Gives each parameter a role, by options, kind, path and shape alone (NULL: 0). Called when
       the set of parameters or groups has changed; whose role has changed starts anew. */
    vv_status (*sort)(const vv_optimizer_view *views, int count, int *roles);
    /* Refuses options that do not go together, with a sentence. May be NULL. */
    vv_status (*check)(const void *opts);
    /* For optimizers that train at other weights than they find: 1 + the number of the state tensor
       with the weights to evaluate; 0 = the parameters themselves. */
    int evaluated_state;
    /* Numbers per parameter that are saved with its state (at most 4, f64, zero at first); advance
       is called once per step, before update. */
    int scalar_count;
    const char *scalars_name; /* "averaging" */
    void (*advance)(const void *opts, double lr, int64_t step, double *scalars);
    /* For updates that see whole matrices (muon): called once per step, before anything changes,
       with every parameter in order; sets the slots' direction and scale. What it points to
       lies in `self` (self_size bytes, zeroed, one per optimizer, released by fini_self). */
    size_t self_size;
    vv_status (*direct)(void *self, const vv_optimizer_view *views, int count);
    void (*fini_self)(void *self);
} vv_optimizer_desc;

/* Optimizer over every parameter of the tree, in one group. opts: struct of desc (NULL =
   defaults). */
VV_API VV_MUST_USE vv_status vv_optimizer_new(VV_OWNED vv_optimizer **out,
                                              const vv_optimizer_desc *desc, const void *opts,
                                              vv_module *module);
VV_API void vv_optimizer_free(VV_TAKES vv_optimizer *optimizer);
/* Moves the parameters for which `match` says true into a new group with its own options (NULL =
   defaults). VV_ENOTFOUND if none matches. */
VV_API VV_MUST_USE vv_status vv_optimizer_split(vv_optimizer *optimizer, vv_module *module,
                                                bool (*match)(void *ctx, const char *path,
                                                              vv_module *owner, vv_param *param),
                                                void *ctx, const void *opts);
/* The same with the options of `group`, whose learning rates ("lr", "fallback_lr", ...) and weight
   decays are multiplied. */
VV_API VV_MUST_USE vv_status vv_optimizer_split_scaled(
    vv_optimizer *optimizer, vv_module *module, int group,
    bool (*match)(void *ctx, const char *path, vv_module *owner, vv_param *param), void *ctx,
    double lr_scale, double weight_decay_scale);
/* One step from the parameters' `grad`; parameters that are frozen or have no grad are left alone:
   value, state and step count. A failed step has changed nothing. */
VV_API VV_MUST_USE vv_status vv_optimizer_step(vv_optimizer *optimizer);
/* Whether the weights to evaluate and save are other than the trained ones (schedule-free); then
   this exchanges the two, bit by bit: once before evaluating or saving, once after. */
VV_API bool vv_optimizer_averages(const vv_optimizer *optimizer);
VV_API void vv_optimizer_swap(vv_optimizer *optimizer);
/* Forgets the state and the step count of every parameter, as if no step had been done: for weights
   that were exchanged under the optimizer. */
VV_API void vv_optimizer_reset(vv_optimizer *optimizer);
/* Multiplier of every group's initial learning rate (set by schedules). */
VV_API void vv_optimizer_set_lr_factor(vv_optimizer *optimizer, double factor);
VV_API double vv_optimizer_lr(const vv_optimizer *optimizer, int group); /* NaN: no such group */
VV_API int vv_optimizer_group_count(const vv_optimizer *optimizer);
/* Options of a group (a struct of the optimizer's type), as given; NULL: no such group. */
VV_API VV_BORROWED const void *vv_optimizer_group_opts(const vv_optimizer *optimizer, int group);
/* The group a parameter is in, -1 if the optimizer does not hold it; parameters in a group. */
VV_API int vv_optimizer_group_of(const vv_optimizer *optimizer, const vv_param *param);
VV_API int vv_optimizer_group_size(const vv_optimizer *optimizer, int group);
VV_API int vv_optimizer_param_count(const vv_optimizer *optimizer);
VV_API VV_BORROWED const vv_optimizer_desc *vv_optimizer_type(const vv_optimizer *optimizer);
/* After surgery: makes the set of parameters equal to the tree's. State of removed ones is dropped,
   kept ones keep their order, added ones come last and join the group of the removed ones
   (VV_ESTATE, nothing changed, if several groups leave that open). */
VV_API VV_MUST_USE vv_status vv_optimizer_sync(vv_optimizer *optimizer, vv_module *module);
/* VV_EINTERNAL with the first difference if the sets differ. */
VV_API VV_MUST_USE vv_status vv_optimizer_check(const vv_optimizer *optimizer, vv_module *module);
/* State tensors by name "<param path>.<state name>" and step counts "<param path>.step" (i64, []),
   for checkpoints. load: every parameter must be there; a failed load has changed nothing. Learning
   rates are settings, not state. */
VV_API VV_MUST_USE vv_status vv_optimizer_each_state(vv_optimizer *optimizer, vv_module *module,
                                                     vv_state_fn fn, void *ctx);
VV_API VV_MUST_USE vv_status vv_optimizer_load(vv_optimizer *optimizer, vv_module *module,
                                               const vv_tensor *(*find)(void *ctx,
                                                                        const char *name),
                                               void *ctx);

/* Same, but parameters without saved state start anew. */
VV_API VV_MUST_USE vv_status vv_optimizer_load_partial(
    vv_optimizer *optimizer, vv_module *module,
    const vv_tensor *(*find)(void *ctx, const char *name), void *ctx);

/* Gradients of a tree, frozen parameters left out: allocate (zeroed) where missing; global L2 norm
   in double (the same bits for any number of threads); scale all. */
VV_API VV_MUST_USE vv_status vv_grads_ensure(vv_module *module);
VV_API VV_MUST_USE vv_status vv_grads_norm(vv_module *module, double *out);
VV_API void vv_grads_scale(vv_module *module, double factor);

/* ---- clipping of a whole, finished gradient ----
   Its one right place: once, when all microbatches are added up, before the optimizer's step.
   *norm (may be NULL) = the global norm before clipping. A gradient with NaN or infinity gives
   VV_ENUMERIC with the first parameter's name and is left as it is. Frozen parameters are left
   out. */
/* grad *= max_norm / norm if norm > max_norm, over all parameters jointly. */
VV_API VV_MUST_USE vv_status vv_clip_grad_norm(vv_module *module, double max_norm, double *norm);
/* Each element into [-limit, limit]. */
VV_API VV_MUST_USE vv_status vv_clip_grad_value(vv_module *module, double limit, double *norm);
/* Adaptive clipping (Brock et al., arXiv 2102.06171), unit by unit: a unit is a slice of the first
   dimension, or the whole of a tensor with less than two. grad *= min(1, threshold * max(|w|, eps)
   / |grad|). */
typedef struct vv_clip_adaptive_opts {
    double threshold;  /* 0.01 */
    double eps;        /* 1e-3: smallest weight norm that counts, so that zero units can move */
    bool exempt_last;  /* leaves the last layer with a weight of two or more dimensions alone */
} vv_clip_adaptive_opts;
#define VV_CLIP_ADAPTIVE_DEFAULTS {0.01, 1e-3, false}
VV_API VV_MUST_USE vv_status vv_clip_grad_adaptive(vv_module *module,
                                                   const vv_clip_adaptive_opts *opts,
                                                   double *norm);

/* ---- schedules: pure functions of time -> multiplier of the initial learning rate ---- */
/* `batch`: batches done (real-valued, so that epochs in between resolve); axis resolves units;
   ssr: scale-schedule ratio. */
typedef struct vv_schedule_desc {
    vv_desc desc;
    vv_status (*factor)(const void *opts, const vv_axis *axis, double ssr, double batch,
                        double *out);
    /* Refuses settings that cannot work on this axis (t_max < duration, zero warm-up...). */
    vv_status (*check)(const void *opts, const vv_axis *axis, double ssr);
} vv_schedule_desc;
typedef struct vv_schedule vv_schedule;
/* Options struct of every built-in schedule; each reads the fields in its own table. */
typedef struct vv_schedule_settings {
    vv_time t_max, t_warmup, t_0, t_peak, step_size, decay_period;
    vv_times milestones;
    double gamma, alpha, alpha_i, alpha_f, power, t_mult;
    bool scale_warmup;
} vv_schedule_settings;
VV_API VV_MUST_USE vv_status vv_schedule_new(VV_OWNED vv_schedule **out,
                                             const vv_schedule_desc *desc, const void *opts);
VV_API void vv_schedule_free(VV_TAKES vv_schedule *schedule);
VV_API VV_MUST_USE vv_status vv_schedule_check(const vv_schedule *schedule, const vv_axis *axis,
                                               double ssr);
VV_API VV_MUST_USE vv_status vv_schedule_factor(const vv_schedule *schedule, const vv_axis *axis,
                                                double ssr, double batch, double *out);
VV_API VV_BORROWED const vv_schedule_desc *vv_schedule_type(const vv_schedule *schedule);
VV_API VV_BORROWED const void *vv_schedule_opts(const vv_schedule *schedule);

/* Built-in tables, NULL-ended (the registry reads them too). */
VV_API VV_BORROWED const vv_optimizer_desc *const *vv_optimizer_table(void);
VV_API VV_BORROWED const vv_schedule_desc *const *vv_schedule_table(void);
VV_API VV_BORROWED const vv_optimizer_desc *vv_optimizer_find(const char *name);
VV_API VV_BORROWED const vv_schedule_desc *vv_schedule_find(const char *name);

VV_END_DECLS

#endif
