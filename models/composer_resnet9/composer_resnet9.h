/* composer_resnet9.h - Composer's ResNet-9, narrower than the DAWNBench one. */
#ifndef VIVACE_MODELS_COMPOSER_RESNET9_H
#define VIVACE_MODELS_COMPOSER_RESNET9_H

#include <vivace/model.h>

VV_BEGIN_DECLS

/* [N,H,W,channels] -> [N,classes], H and W at least 8; 2,440,266 parameters for 3 channels and 10
   classes. Weights are left zero: follow with vv_module_init_default. */
VV_API VV_MUST_USE vv_status vv_composer_resnet9_new(VV_OWNED vv_module **out, int64_t channels,
                                                     int64_t classes);

extern VV_API const vv_model_desc vv_model_composer_resnet9;

VV_END_DECLS

#endif
