/* layerwise_lr.h - early layers learn slower than late ones. */
#ifndef VIVACE_METHODS_LAYERWISE_LR_H
#define VIVACE_METHODS_LAYERWISE_LR_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_layerwise_lr_opts {
    double decay; /* factor of the learning rate from one layer to the one before it */
    double least; /* no factor is below this */
} vv_layerwise_lr_opts;
#define VV_LAYERWISE_LR_DEFAULTS {0.75, 0.0}

/* Layers as fine-tuning counts them: what comes before the blocks, each block of a list of blocks
   ("layer1.0", "blocks.3", "h.11"), what comes after them. A norm by itself counts to the layer
   before it or, behind the blocks, to what follows. Returns how many there are. */
VV_API int vv_layer_count(vv_module *net);
/* The layer of the parameter at a path, 0 = the first; -1 if there is no such. */
VV_API int vv_layer_of(vv_module *net, const char *path);
/* Moves the parameters into optimizer groups by layer: layer i of n has the learning
   rates of its group times max(least, decay^(n - 1 - i)); the last keeps its own. *groups (may be
   NULL) = groups made. opts NULL = defaults. Calling it twice scales twice. On failure groups may
   have been made for a part. */
VV_API VV_MUST_USE vv_status vv_scale_layer_lr(vv_optimizer *optimizer, vv_module *net,
                                               const vv_layerwise_lr_opts *opts, int *groups);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. */
VV_API VV_OWNED vv_method *vv_layerwise_lr(double decay);
extern VV_API const vv_method_desc vv_method_layerwise_lr;

VV_END_DECLS

#endif
