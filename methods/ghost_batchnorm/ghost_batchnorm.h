/* ghost_batchnorm.h - Ghost Batch Normalization: statistics of parts of the batch. */
#ifndef VIVACE_METHODS_GHOST_BATCHNORM_H
#define VIVACE_METHODS_GHOST_BATCHNORM_H

#include <vivace/ext/train.h>

VV_BEGIN_DECLS

typedef struct vv_ghost_batchnorm_opts {
    int64_t ghost_batch_size; /* rows that are normalised together, at most */
} vv_ghost_batchnorm_opts;
#define VV_GHOST_BATCHNORM_DEFAULTS {32}

/* Puts a GhostBatchNorm around every BatchNorm2d of `net` (kept, with its parameters and
   statistics, under "<layer>.bn"). opts NULL = defaults. Applying twice is applying once. *count
   (may be NULL) = layers wrapped; optimizer (may be NULL) is kept in step. On failure nothing has
   changed. */
VV_API VV_MUST_USE vv_status vv_apply_ghost_batchnorm(vv_module *net,
                                                      const vv_ghost_batchnorm_opts *opts,
                                                      vv_optimizer *optimizer, int *count);
/* How many layers that would wrap. */
VV_API int vv_ghost_batchnorm_matches(vv_module *net);

/* How `rows` are cut: returns the number of chunks, *size = rows of each but the last, which may
   have fewer. n = ceil(rows / ghost_batch_size) chunks are aimed at, of ceil(rows / n) rows. */
VV_API int64_t vv_ghost_chunks(int64_t rows, int64_t ghost_batch_size, int64_t *size);

/* Child "bn": the given BatchNorm2d. In evaluation, with frozen parameters, and for batches that
   are one chunk, it is what bn is. Else each chunk of rows is normalised by its own statistics, and
   the running ones move once, towards the chunks' average. */
extern VV_API const vv_module_class vv_ghost_batchnorm_class;
VV_API VV_MUST_USE vv_status vv_ghost_batchnorm_new(VV_OWNED vv_module **out, vv_module *bn,
                                                    int64_t ghost_batch_size);

/* The Trainer's method; NULL with a sentence in vv_error() on failure. opts NULL = defaults. */
VV_API VV_OWNED vv_method *vv_ghost_batchnorm(const vv_ghost_batchnorm_opts *opts);
extern VV_API const vv_method_desc vv_method_ghost_batchnorm;

VV_END_DECLS

#endif
