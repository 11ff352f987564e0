/* mnist_classifier.h - the small convolutional net of Composer's MNIST recipe. */
#ifndef VIVACE_MODELS_MNIST_CLASSIFIER_H
#define VIVACE_MODELS_MNIST_CLASSIFIER_H

#include <vivace/model.h>

VV_BEGIN_DECLS

/* [N,H,W,channels] -> [N,classes]; 21,610 parameters for 1 channel and 10 classes. Weights are left
   zero: follow with vv_module_init_default. */
VV_API VV_MUST_USE vv_status vv_mnist_classifier_new(VV_OWNED vv_module **out, int64_t channels,
                                                     int64_t classes);

extern VV_API const vv_model_desc vv_model_mnist_classifier;

VV_END_DECLS

#endif
