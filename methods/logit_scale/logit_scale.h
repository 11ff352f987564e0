/* logit_scale.h - logits multiplied by a constant, or held within bounds. */
#ifndef VIVACE_METHODS_LOGIT_SCALE_H
#define VIVACE_METHODS_LOGIT_SCALE_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_logit_scale_opts {
    double scale;   /* logits are multiplied by it */
    double softcap; /* then z becomes softcap * tanh(z / softcap); 0 = not */
} vv_logit_scale_opts;
#define VV_LOGIT_SCALE_DEFAULTS {0.125, 0}

/* opts NULL = defaults. */
VV_API VV_BORROWED vv_node *vv_scale_logits(vv_node *logits, const vv_logit_scale_opts *opts);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_logit_scale(const vv_logit_scale_opts *opts);
extern VV_API const vv_method_desc vv_method_logit_scale;

VV_END_DECLS

#endif
