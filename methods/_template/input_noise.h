/* input_noise.h - Gaussian noise on the inputs. */
#ifndef VIVACE_METHODS_INPUT_NOISE_H
#define VIVACE_METHODS_INPUT_NOISE_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

/* *noisy = input + std * N(0, 1), f32 of any shape; the input is only looked at. *noisy: NULL or a
   result of an earlier call, which is used again if nobody else holds it. */
VV_API VV_MUST_USE vv_status vv_input_noise_add(vv_tensor **noisy, const vv_tensor *input,
                                                double std, vv_rng *rng);

typedef struct vv_input_noise_opts {
    double std; /* standard deviation, in units of the (normalised) input */
} vv_input_noise_opts;
#define VV_INPUT_NOISE_DEFAULTS {0.1}

/* The Trainer's method; NULL with a sentence in vv_error() if std is outside [0, 100]. */
VV_API VV_OWNED vv_method *vv_input_noise(double std);
extern VV_API const vv_method_desc vv_method_input_noise;

VV_END_DECLS

#endif
