/* resnet_cifar.h - ResNet-20 and ResNet-56 for 32x32 images (He et al., arXiv 1512.03385, 4.2). */
#ifndef VIVACE_MODELS_RESNET_CIFAR_H
#define VIVACE_MODELS_RESNET_CIFAR_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef enum vv_resnet_cifar_depth { VV_RESNET_CIFAR_20, VV_RESNET_CIFAR_56 } vv_resnet_cifar_depth;

typedef struct vv_resnet_cifar_opts {
    int depth; /* vv_resnet_cifar_depth */
} vv_resnet_cifar_opts;
#define VV_RESNET_CIFAR_DEFAULTS {VV_RESNET_CIFAR_20}

/* [N,H,W,channels] -> [N,classes]; for 3 channels and 10 classes 272,474 or 855,770 parameters.
   opts NULL = defaults. Weights are left zero: follow with vv_module_init_default. */
VV_API VV_MUST_USE vv_status vv_resnet_cifar_new(VV_OWNED vv_module **out, int64_t channels,
                                                 int64_t classes, const vv_resnet_cifar_opts *opts);

/* The block: children "conv1", "bn1", "conv2", "bn2", then "downsample" where the shape changes;
   y = relu(branch(x) + downsample(x)). */
extern VV_API const vv_module_class vv_cifar_block_class;

extern VV_API const vv_model_desc vv_model_resnet_cifar;

VV_END_DECLS

#endif
