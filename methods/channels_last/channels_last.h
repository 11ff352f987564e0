/* channels_last.h - images stored with their channels last: what Vivace always does. */
#ifndef VIVACE_METHODS_CHANNELS_LAST_H
#define VIVACE_METHODS_CHANNELS_LAST_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

/* Does nothing and succeeds: activations are [N,H,W,C] always. There so that programs and recipes
   that name the method work. VV_EINVAL if net is NULL. */
VV_API VV_MUST_USE vv_status vv_apply_channels_last(vv_module *net);

/* The Trainer's method; NULL with a sentence in vv_error() if memory is out. */
VV_API VV_OWNED vv_method *vv_channels_last(void);
extern VV_API const vv_method_desc vv_method_channels_last;

VV_END_DECLS

#endif
