/* ema.h - an exponential moving average of the weights, for evaluation and for saved models. */
#ifndef VIVACE_METHODS_EMA_H
#define VIVACE_METHODS_EMA_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

/* Share of the average that an update keeps, so that half of it is renewed in `half_life`:
   2^(-interval / half_life), both in the same unit. */
VV_API double vv_ema_smoothing(double interval, double half_life);
/* average = smoothing * average + (1 - smoothing) * the model's weights. */
VV_API void vv_ema_update(vv_weights *average, double smoothing);
/* Update number n (from 1 on) of the bias-corrected form: the weight that the start value still has
   is given to the values seen, so that the first update makes the average the weights. */
VV_API void vv_ema_update_corrected(vv_weights *average, double smoothing, int64_t n);

typedef struct vv_ema_opts {
    vv_time half_life;       /* ba or ep; none = `smoothing` says it */
    double smoothing;        /* share kept by an update, in (0, 1); 0 = `half_life` says it */
    vv_time update_interval; /* ba or ep; none = 1 of half_life's unit */
    vv_time ema_start;       /* any unit */
    bool bias_corrected;
} vv_ema_opts;

/* The Trainer's method with a half-life such as "1000ba"; NULL with a sentence in vv_error() if
   that is no time in batches or epochs. */
VV_API VV_OWNED vv_method *vv_ema(const char *half_life);
extern VV_API const vv_method_desc vv_method_ema;

/* The averaged weights of a run's method (vv_state's `methods`), while the trained ones are in the
   model, so at any time after vv_trainer_fit: one tensor by its name, or all of them into a net of
   the same shape. */
VV_API VV_MUST_USE vv_status vv_ema_find(VV_BORROWED const vv_tensor **out, const vv_method *method,
                                         const char *name);
VV_API VV_MUST_USE vv_status vv_ema_copy_to(const vv_method *method, vv_module *net);

VV_END_DECLS

#endif
