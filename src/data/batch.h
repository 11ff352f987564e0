/* batch.h - the pool a loader takes its batches from. */
#ifndef VVI_BATCH_H
#define VVI_BATCH_H

#include <vivace/data.h>

/* Shared by the loader and every batch that is out; the last of them frees it. */
typedef struct vvi_batch_pool vvi_batch_pool;

VV_MUST_USE vv_status vvi_batch_pool_new(VV_OWNED vvi_batch_pool **out, const vv_sample_spec *spec,
                                         vv_dtype input_dtype, int keep);
/* The owner's reference; batches may outlive it. */
void vvi_batch_pool_free(VV_TAKES vvi_batch_pool *pool);
/* A batch of `rows` whose tensors nobody else holds; contents are left over from before. */
VV_MUST_USE vv_status vvi_batch_pool_take(vvi_batch_pool *pool, int64_t rows,
                                          VV_OWNED vv_batch **out);

#endif
