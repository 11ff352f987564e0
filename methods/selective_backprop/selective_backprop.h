/* selective_backprop.h - trains on the samples of a batch whose loss is high. */
#ifndef VIVACE_METHODS_SELECTIVE_BACKPROP_H
#define VIVACE_METHODS_SELECTIVE_BACKPROP_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

/* Whether batch number `batch_in_epoch` selects at `progress`: start <= progress < end, and not
   every `interrupt`-th batch of an epoch (0 = none is left out). */
VV_API bool vv_should_selective_backprop(double progress, int64_t batch_in_epoch, double start,
                                         double end, int64_t interrupt);
/* How many of `count` samples are kept: the whole part of keep * count, at least 1. */
VV_API int64_t vv_selective_count(int64_t count, double keep);
/* kept[0..vv_selective_count - 1] = indices of samples in rising order, chosen by their losses.
   rng: drawn without repeats, with probability proportional to p^(1 / keep - 1) for a sample whose
   loss is the i-th from below and p = (i + 0.5) / count. rng NULL: those with the highest losses
   (of equal ones the first). NaN counts as the highest. */
VV_API VV_MUST_USE vv_status vv_select_using_loss(int64_t *kept, const float *losses, int64_t count,
                                                  double keep, vv_rng *rng);
/* losses[0..N-1] of input [N,...] with the model as in evaluation: no running statistic moves.
   rows: at once; 0 = all. scale_factor below 1: images are made smaller first. The graph is
   reset. */
VV_API VV_MUST_USE vv_status vv_selective_losses(float *losses, vv_graph *graph, vv_model *model,
                                                 vv_tensor *input, vv_tensor *target,
                                                 double scale_factor, int64_t rows);
/* Leaves the `count` rows kept[] (rising) in the batch. */
VV_API VV_MUST_USE vv_status vv_batch_select(vv_batch *batch, const int64_t *kept, int64_t count);

typedef enum vv_selective_variant { VV_SELECTIVE_SAMPLE, VV_SELECTIVE_TOP } vv_selective_variant;
typedef enum vv_selective_precision {
    VV_SELECTIVE_RUN, VV_SELECTIVE_FP32, VV_SELECTIVE_BF16
} vv_selective_precision;

typedef struct vv_selective_backprop_opts {
    double start, end;     /* progress between which batches select */
    double keep;           /* share of the samples that is trained on */
    double scale_factor;   /* of the images' sides while choosing */
    int64_t interrupt;     /* every interrupt-th batch of an epoch is left whole; 0 = none */
    int variant;           /* a vv_selective_variant */
    int precision;         /* of the choosing pass: a vv_selective_precision */
    const char *proxy;     /* a small model that chooses, by name; "" = the trained one */
    int64_t proxy_width;   /* its width; 0 = the model's default */
    int64_t proxy_interval; /* it trains on every proxy_interval-th batch */
    double proxy_lr;       /* its learning rate, falling to 0 in a line */
} vv_selective_backprop_opts;

/* The Trainer's method with start 0.5 and end 0.9; NULL with a sentence in vv_error() if keep is
   not in (0, 1]. */
VV_API VV_OWNED vv_method *vv_selective_backprop(double keep);
extern VV_API const vv_method_desc vv_method_selective_backprop;

VV_END_DECLS

#endif
