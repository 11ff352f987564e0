/* alternating_flip.h - each image is shown mirrored in every other epoch. */
#ifndef VIVACE_METHODS_ALTERNATING_FLIP_H
#define VIVACE_METHODS_ALTERNATING_FLIP_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

/* The plain function is vv_loader_set_alternating_flip (data.h). */

/* The Trainer's method; NULL with a sentence in vv_error() on failure. */
VV_API VV_OWNED vv_method *vv_alternating_flip(void);
extern VV_API const vv_method_desc vv_method_alternating_flip;

VV_END_DECLS

#endif
