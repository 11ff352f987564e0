/* resnet.h - ResNet-18/34/50/101/152 (He et al., arXiv 1512.03385) with torchvision's names. */
#ifndef VIVACE_MODELS_RESNET_H
#define VIVACE_MODELS_RESNET_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef enum vv_resnet_depth {
    VV_RESNET_18,
    VV_RESNET_34,
    VV_RESNET_50,
    VV_RESNET_101,
    VV_RESNET_152,
} vv_resnet_depth;
typedef enum vv_resnet_stem {
    VV_RESNET_STEM_IMAGENET, /* conv 7x7 stride 2, max pooling 3x3 stride 2 */
    VV_RESNET_STEM_CIFAR,    /* conv 3x3 stride 1, no pooling */
} vv_resnet_stem;

typedef struct vv_resnet_opts {
    int depth;               /* vv_resnet_depth */
    int stem;                /* vv_resnet_stem */
    int64_t groups;          /* of the 3x3 convolutions in bottlenecks; 1 below depth 50 */
    int64_t width_per_group; /* 64 */
} vv_resnet_opts;
#define VV_RESNET_DEFAULTS {VV_RESNET_18, VV_RESNET_STEM_IMAGENET, 1, 64}

/* [N,H,W,channels] -> [N,classes]. opts NULL = defaults. Weights are left zero: follow with
   vv_module_init_default. */
VV_API VV_MUST_USE vv_status vv_resnet_new(VV_OWNED vv_module **out, int64_t channels,
                                           int64_t classes, const vv_resnet_opts *opts);

/* The convolutional part alone, for nets that look at more than the last stage (detectors). */
typedef struct vv_resnet_trunk_opts {
    int depth;         /* vv_resnet_depth */
    int64_t channels;  /* of the images */
    int64_t width;     /* channels of the stem and planes of the first stage; 64 */
    int stages;        /* "layer1" to "layer<stages>", 1..4 */
    int64_t stride[4]; /* of each stage's first block: 1, 2, 2, 2 in ResNets */
    /* Of each stage's 3x3 convolutions, 0 = 1; a stage's first block has that of the stage before
       (Chen et al., arXiv 1706.05587; torchvision's replace_stride_with_dilation). */
    int64_t dilation[4];
} vv_resnet_trunk_opts;
/* Adds "conv1", "bn1", "maxpool" and the stages to `net`, as its next children, under torchvision's
   names, so that weights of its ResNets load. *width = channels of the last stage. */
VV_API VV_MUST_USE vv_status vv_resnet_trunk_add(vv_module *net, const vv_resnet_trunk_opts *opts,
                                                 int64_t *width);
/* x through them -> output of the last stage; stages[i] (may be NULL) = that of "layer<i + 1>". */
VV_API vv_node *vv_resnet_trunk_forward(vv_module *net, vv_graph *graph, vv_node *x,
                                        vv_node **stages);

/* The blocks: children "conv1", "bn1", "conv2", "bn2" (bottleneck: and "conv3", "bn3"), then
   "downsample" where the shape changes; y = relu(branch(x) + downsample(x)). */
extern VV_API const vv_module_class vv_basic_block_class, vv_bottleneck_class;

extern VV_API const vv_model_desc vv_model_resnet;

VV_END_DECLS

#endif
