/* tta.h - test-time augmentation: evaluation averages the logits of several views of an image. */
#ifndef VIVACE_METHODS_TTA_H
#define VIVACE_METHODS_TTA_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef enum vv_tta_views {
    VV_TTA_FLIP,           /* the image and its mirror image */
    VV_TTA_FLIP_TRANSLATE, /* those count one half; the other half are both, shifted by a pixel up
                              and left, and down and right: six views */
} vv_tta_views;

typedef struct vv_tta_opts {
    int views;         /* vv_tta_views */
    double confidence; /* images whose largest probability is at least this keep their own logits;
                          1 = every image has its views averaged */
} vv_tta_opts;
#define VV_TTA_DEFAULTS {VV_TTA_FLIP_TRANSLATE, 1}

/* x [N,H,W,C] shifted by dy rows down and dx columns to the right, what comes in reflected (without
   the border's own line), then mirrored left-right if asked. |dy| < H, |dx| < W. */
VV_API VV_BORROWED vv_node *vv_tta_view(vv_node *x, int64_t dy, int64_t dx, bool mirror);
/* Weighted mean of net's outputs over the views, without those that are given: own (may be NULL) =
   net's output for x itself. opts NULL = defaults. */
VV_API VV_BORROWED vv_node *vv_tta_forward(vv_module *net, vv_graph *graph, vv_node *x,
                                           vv_node *own, const vv_tta_opts *opts);
/* The same, but images of which own is confident keep it. Reads own's value: what it needs runs
   now. *again (may be NULL) = images whose views were averaged. */
VV_API VV_MUST_USE vv_status vv_tta_gated(vv_node **out, vv_module *net, vv_graph *graph,
                                          vv_node *x, vv_node *own, const vv_tta_opts *opts,
                                          int64_t *again);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_tta(const vv_tta_opts *opts);
extern VV_API const vv_method_desc vv_method_tta;

VV_END_DECLS

#endif
