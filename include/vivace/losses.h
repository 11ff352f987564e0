/* losses.h - losses by name for models that give classes, of samples or of pixels.
 *
 * Each is a sum over items divided by the number of items of the whole batch, so that microbatches
 * and ranks change nothing. Where a loss looks at a whole image (Dice), the item is the image: a
 * Dice over all images of a batch together is no such sum and is not offered. */
#ifndef VIVACE_LOSSES_H
#define VIVACE_LOSSES_H

#include <vivace/model.h>

VV_BEGIN_DECLS

/* Settings of all of them; each looks at its own. */
typedef struct vv_class_loss_opts {
    const char *class_weights; /* "0.5,1,2", one a class; "" = 1 each */
    double ce_weight, dice_weight;
    double smooth;   /* added above and below the Dice fraction */
    bool background; /* Dice counts class 0 */
    bool absent;     /* Dice counts classes that an image does not have */
    double gamma, alpha;
} vv_class_loss_opts;

typedef struct vv_loss_desc {
    vv_desc desc;               /* kind "loss"; options are a vv_class_loss_opts */
    const vv_loss_class *type; /* NULL = cross-entropy as every model has it */
    bool weighted;              /* knows class weights */
} vv_loss_desc;

/* The model's loss from now on, with a copy of opts (NULL = defaults). VV_EINVAL with a sentence if
   the model does not give classes, has a loss of its own, or the weights are not as many. */
VV_API VV_MUST_USE vv_status vv_model_use_loss(vv_model *model, const vv_loss_desc *desc,
                                               const void *opts);
VV_API VV_BORROWED const vv_loss_desc *const *vv_loss_table(void); /* NULL-ended */

/* The formulas, for one's own loop. logits [N,...,K]; target: one-hot or soft, f32 of the same
   shape, rows of zeros have no loss. */

/* 1 - the mean over classes of (2 sum(p y) + smooth) / (sum p + sum y + smooth), p = softmax, sums
   over the pixels of an image that have a class (Milletari et al., arXiv 1606.04797) -> f32 [N].
   Classes that the image does not have are left out unless `absent`, class 0 unless `background`;
   an image with no class at all gives 0. */
VV_API vv_node *vv_dice_loss(vv_node *logits, vv_node *target, double smooth, bool background,
                             bool absent);
/* -sum over classes of w_k y_k (1 - p_k)^gamma log p_k, p = softmax (Lin et al., arXiv 1708.02002)
   -> f32 [N,...]; class_weights f32 [K] or NULL. */
VV_API vv_node *vv_focal_loss(vv_node *logits, vv_node *target, vv_node *class_weights,
                              double gamma);
/* The same with each class for itself, p = sigmoid: sum over classes of a_t (1 - p_t)^gamma times
   the binary cross-entropy, a_t = alpha for the class, 1 - alpha for the others; alpha below 0: 1
   -> f32 [N,...]. */
VV_API vv_node *vv_sigmoid_focal_loss(vv_node *logits, vv_node *target, double alpha,
                                      double gamma);

VV_END_DECLS

#endif
