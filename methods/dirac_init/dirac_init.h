/* dirac_init.h - convolutions that start by handing their input on. */
#ifndef VIVACE_METHODS_DIRAC_INIT_H
#define VIVACE_METHODS_DIRAC_INIT_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_dirac_init_opts {
    int64_t min_channels; /* convolutions with fewer input channels start as they do */
} vv_dirac_init_opts;
#define VV_DIRAC_INIT_DEFAULTS {4}

/* In every Conv2d of `net` with at least min_channels input channels, as many outputs or more, an
   odd kernel and one group: filter i < in becomes the identity of channel i; the others stay. opts
   NULL = defaults. Returns how many convolutions that are. */
VV_API int vv_apply_dirac_init(vv_module *net, const vv_dirac_init_opts *opts);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_dirac_init(const vv_dirac_init_opts *opts);
extern VV_API const vv_method_desc vv_method_dirac_init;

VV_END_DECLS

#endif
