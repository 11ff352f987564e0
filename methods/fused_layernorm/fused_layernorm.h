/* fused_layernorm.h - layer norms in one pass: what Vivace always does. */
#ifndef VIVACE_METHODS_FUSED_LAYERNORM_H
#define VIVACE_METHODS_FUSED_LAYERNORM_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

/* Does nothing and succeeds: a layer norm is one kernel here. There so that programs and recipes
   that name the method work. VV_EINVAL if net is NULL. */
VV_API VV_MUST_USE vv_status vv_apply_fused_layernorm(vv_module *net);

/* The Trainer's method; NULL with a sentence in vv_error() if memory is out. */
VV_API VV_OWNED vv_method *vv_fused_layernorm(void);
extern VV_API const vv_method_desc vv_method_fused_layernorm;

VV_END_DECLS

#endif
