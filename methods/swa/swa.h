/* swa.h - Stochastic Weight Averaging: the mean of the weights along the end of training. */
#ifndef VIVACE_METHODS_SWA_H
#define VIVACE_METHODS_SWA_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

/* mean = the arithmetic mean of itself and the model's weights, which are number n (from 1 on). */
VV_API void vv_swa_update(vv_weights *mean, int64_t n);

typedef enum vv_swa_anneal { VV_SWA_LINEAR, VV_SWA_COS } vv_swa_anneal;
/* Learning rate after k averaging updates: from lr0 (k = 0) to swa_lr (k = anneal_steps) and there
   on. */
VV_API double vv_swa_lr(vv_swa_anneal strategy, int64_t anneal_steps, double lr0, double swa_lr,
                        int64_t k);

typedef struct vv_swa_opts {
    vv_time swa_start, swa_end; /* both dur, or both ep */
    vv_time update_interval;    /* ep or ba */
    bool schedule_swa_lr;       /* let averaging drive the learning rate */
    int anneal_strategy;        /* a vv_swa_anneal */
    int64_t anneal_steps;
    double swa_lr;              /* needed with schedule_swa_lr */
    int64_t norm_batches;       /* batches for running statistics; 0 = an epoch */
} vv_swa_opts;

/* The Trainer's method from `start` to `end` of the run ("0.7dur", "0.97dur"), a weight per
   `interval` ("1ep"); NULL with a sentence in vv_error() if these do not go together. */
VV_API VV_OWNED vv_method *vv_swa(const char *start, const char *end, const char *interval);
extern VV_API const vv_method_desc vv_method_swa;

VV_END_DECLS

#endif
