/* layer_freezing.h - early layers stop learning, one after the other. */
#ifndef VIVACE_METHODS_LAYER_FREEZING_H
#define VIVACE_METHODS_LAYER_FREEZING_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_layer_freezing_opts {
    double freeze_start; /* progress (0 to 1) at which freezing starts */
    double freeze_level; /* share of the layers frozen at the end */
    bool by_epoch;       /* progress moves at epochs only */
} vv_layer_freezing_opts;
#define VV_LAYER_FREEZING_DEFAULTS {0.5, 1.0, false}

/* Share of the layers that are frozen at `progress`: 0 up to freeze_start, then rising in a line to
   freeze_level. */
VV_API double vv_layer_freezing_share(double progress, double freeze_start, double freeze_level);
/* Freezes the first int(share * (layers - 1)) layers of the tree for good: bit-equal from then on,
   and their gradients are never computed. Layers are modules with parameters and without children,
   depth first; the last never freezes. *depth (may be NULL) = layers frozen so. Returns the share.
 */
VV_API double vv_freeze_layers(vv_module *net, double progress, double freeze_start,
                               double freeze_level, int *depth);

/* The Trainer's method; NULL with a sentence in vv_error() if a number is outside [0, 1]. */
VV_API VV_OWNED vv_method *vv_layer_freezing(double freeze_start, double freeze_level);
extern VV_API const vv_method_desc vv_method_layer_freezing;

VV_END_DECLS

#endif
