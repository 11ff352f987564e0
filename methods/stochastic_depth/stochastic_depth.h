/* stochastic_depth.h - Stochastic Depth: residual branches are left out at random. */
#ifndef VIVACE_METHODS_STOCHASTIC_DEPTH_H
#define VIVACE_METHODS_STOCHASTIC_DEPTH_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef enum vv_depth_method {
    VV_DEPTH_BLOCK,  /* a branch is left out for the whole batch: its work is not done */
    VV_DEPTH_SAMPLE, /* a branch is left out for single samples */
} vv_depth_method;
typedef enum vv_depth_distribution {
    VV_DEPTH_LINEAR,  /* block l of L: (l + 1) / L * drop_rate */
    VV_DEPTH_UNIFORM, /* every block: drop_rate */
} vv_depth_distribution;

typedef struct vv_stochastic_depth_opts {
    int stochastic_method; /* vv_depth_method */
    double drop_rate;
    int drop_distribution; /* vv_depth_distribution */
    vv_time drop_warmup;   /* rates grow from 0 over this time; block only */
} vv_stochastic_depth_opts;
#define VV_STOCHASTIC_DEPTH_DEFAULTS \
    {VV_DEPTH_BLOCK, 0.2, VV_DEPTH_LINEAR, {VV_UNIT_DURATION, 0, 0.0}}

/* Makes every residual block of `net` (vv_module_residual; not net itself) a stochastic one over
   the same children. opts NULL = defaults; drop_warmup is not looked at: rates are the full ones.
   Applying twice is applying once. *count (may be NULL) = blocks changed; optimizer (may be NULL)
   is kept in step. On failure nothing has changed. */
VV_API VV_MUST_USE vv_status vv_apply_stochastic_depth(vv_module *net,
                                                       const vv_stochastic_depth_opts *opts,
                                                       vv_optimizer *optimizer, int *count);
/* How many blocks that would change. */
VV_API int vv_stochastic_depth_matches(vv_module *net);
/* Rates of all stochastic blocks, numbered in the order of the tree. */
VV_API void vv_stochastic_depth_set_rate(vv_module *net, double drop_rate,
                                         vv_depth_distribution distribution);
/* Rate of one stochastic block; NaN for other modules. */
VV_API double vv_stochastic_depth_rate(vv_module *block);
/* The rate of block `index` of `count`. */
VV_API double vv_depth_rate_at(double drop_rate, vv_depth_distribution distribution, int index,
                               int count);

extern VV_API const vv_module_class vv_stochastic_block_class, vv_stochastic_sample_class;

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_stochastic_depth(const vv_stochastic_depth_opts *opts);
extern VV_API const vv_method_desc vv_method_stochastic_depth;

VV_END_DECLS

#endif
