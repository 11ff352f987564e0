/* deeplabv3.h - DeepLabv3 and v3+ on a dilated ResNet (Chen et al., arXiv 1706.05587 and
 * 1802.02611). */
#ifndef VIVACE_MODELS_DEEPLABV3_H
#define VIVACE_MODELS_DEEPLABV3_H

#include <vivace/model.h>

VV_BEGIN_DECLS

typedef enum vv_deeplab_head {
    VV_DEEPLAB_PLUS,        /* separable convolutions, and the first stage joined in */
    VV_DEEPLAB_PLAIN,       /* ordinary convolutions, on the last stage alone */
    VV_DEEPLAB_TORCHVISION, /* plain, as torchvision builds it: its files load */
} vv_deeplab_head;

typedef struct vv_deeplabv3_opts {
    int backbone;          /* vv_resnet_depth */
    int head;              /* vv_deeplab_head */
    int64_t width;         /* channels of the backbone's stem; 64 */
    int64_t head_width;    /* channels of the head; 512 (torchvision: 256) */
    int64_t output_stride; /* of the backbone's last stage: 8, 16 or 32 */
    double dropout;        /* of whole channels before the classifier; 0.1 */
} vv_deeplabv3_opts;
#define VV_DEEPLABV3_DEFAULTS {2 /* VV_RESNET_50 */, VV_DEEPLAB_PLUS, 64, 512, 8, 0.1}

/* [N,H,W,channels] -> logits [N,H,W,classes]. Children "backbone" (vv_resnet_trunk_add) and
   "classifier". opts NULL = defaults. Weights are left zero. */
VV_API VV_MUST_USE vv_status vv_deeplabv3_new(VV_OWNED vv_module **out, int64_t channels,
                                              int64_t classes, const vv_deeplabv3_opts *opts);

extern VV_API const vv_model_desc vv_model_deeplabv3;

VV_END_DECLS

#endif
