/* gyro_dropout.h - Gyro Dropout: dropout with a few masks that are used again. */
#ifndef VIVACE_METHODS_GYRO_DROPOUT_H
#define VIVACE_METHODS_GYRO_DROPOUT_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_gyro_dropout_opts {
    double p;      /* probability that a feature is dropped */
    int64_t sigma; /* masks chosen for the whole training */
    int64_t tau;   /* masks in use at a time */
} vv_gyro_dropout_opts;
#define VV_GYRO_DROPOUT_DEFAULTS {0.5, 256, 16}

/* Replaces every Dropout of `net` (not net itself) by a GyroDropout; the layers' own p is not
   looked at. opts NULL = defaults. Masks are functions of `seed`. total_steps = batches of the
   whole training (0 = not known: masks are exchanged every tau batches). Applying twice is applying
   once. *count (may be NULL) = layers replaced. On failure nothing has changed. */
VV_API VV_MUST_USE vv_status vv_apply_gyro_dropout(vv_module *net, const vv_gyro_dropout_opts *opts,
                                                   uint64_t seed, int64_t total_steps, int *count);
/* Before each forward pass in training: the batch's number, and which of its rows are coming. */
VV_API void vv_gyro_dropout_set_step(vv_module *net, int64_t step, int64_t first_row,
                                     int64_t batch_rows);

/* Batches until other tau masks are chosen: max(1, floor(total_steps / sigma)) * tau. */
VV_API int64_t vv_gyro_dropout_period(int64_t total_steps, const vv_gyro_dropout_opts *opts);
/* Which of the tau masks row `row` of `batch_rows` takes: groups of floor(batch_rows / tau) rows
   share one; the rest takes the last. */
VV_API int64_t vv_gyro_dropout_group(int64_t row, int64_t batch_rows, int64_t tau);

/* x [N,...,C] -> x * mask[row's, C] / (1 - p) in training, x in evaluation. */
extern VV_API const vv_module_class vv_gyro_dropout_class;

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_gyro_dropout(const vv_gyro_dropout_opts *opts);
extern VV_API const vv_method_desc vv_method_gyro_dropout;

VV_END_DECLS

#endif
