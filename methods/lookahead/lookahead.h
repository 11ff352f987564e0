/* lookahead.h - slow weights that follow the trained ones and pull them back every few steps. */
#ifndef VIVACE_METHODS_LOOKAHEAD_H
#define VIVACE_METHODS_LOOKAHEAD_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_lookahead_opts {
    int64_t interval; /* steps between updates */
    double decay;     /* share of the slow weights kept per step at the run's end */
    double power;     /* the share kept grows with progress^power; 0 = the same all along */
} vv_lookahead_opts;
#define VV_LOOKAHEAD_DEFAULTS {5, 0.95, 3}

/* Share of the slow weights that an update at `progress` (0 to 1) keeps: decay^interval *
   progress^power. */
VV_API double vv_lookahead_share(const vv_lookahead_opts *opts, double progress);
/* slow = share * slow + (1 - share) * weights; then the weights become the slow ones. */
VV_API void vv_lookahead_update(vv_weights *slow, double share);

/* The Trainer's method; NULL with a sentence in vv_error() if interval is below 1. */
VV_API VV_OWNED vv_method *vv_lookahead(int64_t interval);
extern VV_API const vv_method_desc vv_method_lookahead;

VV_END_DECLS

#endif
