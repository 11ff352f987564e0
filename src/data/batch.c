/* batch.c - batches, their rows, and the pool that makes the steady state free of allocations. */
#include "data/batch.h"

#include <pthread.h>
#include <string.h>

#include <vivace/memory.h>

/* What a pool keeps of a batch, whatever its user does to the public part: methods may replace its
   tensors, so the pool holds its own references. */
typedef struct pooled_batch {
    vv_batch batch; /* first: the public part is the address handed out */
    vv_tensor *input, *target;
    int64_t *sample;
    int64_t rows;
    struct pooled_batch *next;
} pooled_batch;

struct vvi_batch_pool {
    pthread_mutex_t lock;
    pooled_batch *idle;
    int owners; /* the loader and each batch that is out; under `lock` */
    int made;   /* batches alive */
    int keep;   /* from here on, tensors still held elsewhere are replaced instead of waited for */
    vv_dtype input_dtype;
    vv_sample_spec spec;
};

static void pooled_destroy(pooled_batch *pooled)
{
    vv_tensor_free(pooled->input);
    vv_tensor_free(pooled->target);
    vv_dealloc(pooled->sample);
    vv_dealloc(pooled);
}

vv_status vvi_batch_pool_new(vvi_batch_pool **out, const vv_sample_spec *spec, vv_dtype input_dtype,
                             int keep)
{
    VV_TRY(vv_alloc(out, sizeof **out));
    vvi_batch_pool *pool = *out;
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        vv_dealloc(pool);
        *out = NULL;
        return vv_fail(VV_EIO, "loader: the system gave no mutex");
    }
    pool->owners = 1;
    pool->keep = keep;
    pool->input_dtype = input_dtype;
    pool->spec = *spec;
    return VV_OK;
}

/* Gives up one owner; called with the lock held, returns without it. */
static void release_locked(vvi_batch_pool *pool)
{
    const bool last = --pool->owners == 0;
    pthread_mutex_unlock(&pool->lock);
    if (!last)
        return;
    while (pool->idle) {
        pooled_batch *next = pool->idle->next;
        pooled_destroy(pool->idle);
        pool->idle = next;
    }
    pthread_mutex_destroy(&pool->lock);
    vv_dealloc(pool);
}

void vvi_batch_pool_free(vvi_batch_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    release_locked(pool);
}

static bool unshared(const pooled_batch *pooled)
{
    return vv_tensor_unshared(pooled->input) && vv_tensor_unshared(pooled->target);
}

static vv_status new_tensor(vv_tensor **out, vv_dtype dtype, int64_t rows, int ndim,
                            const int64_t *sample_shape)
{
    int64_t shape[VV_MAX_DIMS];
    shape[0] = rows;
    for (int i = 0; i < ndim; i++)
        shape[i + 1] = sample_shape[i];
    return vv_tensor_new(out, dtype, ndim + 1, shape);
}

static vv_status make_tensors(const vvi_batch_pool *pool, pooled_batch *pooled)
{
    const vv_sample_spec *spec = &pool->spec;
    vv_status status;
    vv_tensor *input = NULL, *target = NULL;
    VV_GO(new_tensor(&input, pool->input_dtype, pooled->rows, spec->input_ndim, spec->input_shape));
    VV_GO(new_tensor(&target, spec->target_dtype, pooled->rows, spec->target_ndim,
                     spec->target_shape));
    vv_tensor_free(pooled->input);
    vv_tensor_free(pooled->target);
    pooled->input = input;
    pooled->target = target;
    return VV_OK;
out:
    vv_tensor_free(input);
    vv_tensor_free(target);
    return status;
}

static vv_status make(const vvi_batch_pool *pool, int64_t rows, pooled_batch **out)
{
    pooled_batch *pooled;
    VV_TRY(vv_alloc(&pooled, sizeof *pooled));
    pooled->rows = rows;
    vv_status status = vv_alloc_array(&pooled->sample, (size_t)rows, sizeof(int64_t));
    if (status == VV_OK)
        status = make_tensors(pool, pooled);
    if (status != VV_OK) {
        pooled_destroy(pooled);
        return status;
    }
    *out = pooled;
    return VV_OK;
}

/* Unlinks an idle batch of `rows`: one whose tensors are free, or, if `any`, the first. */
static pooled_batch *unlink_idle(vvi_batch_pool *pool, int64_t rows, bool any)
{
    for (pooled_batch **link = &pool->idle; *link; link = &(*link)->next) {
        pooled_batch *pooled = *link;
        if (pooled->rows == rows && (any || unshared(pooled))) {
            *link = pooled->next;
            return pooled;
        }
    }
    return NULL;
}

vv_status vvi_batch_pool_take(vvi_batch_pool *pool, int64_t rows, vv_batch **out)
{
    vv_status status = VV_OK;
    *out = NULL;
    pthread_mutex_lock(&pool->lock);
    pooled_batch *pooled = unlink_idle(pool, rows, false);
    if (!pooled && pool->made >= pool->keep && (pooled = unlink_idle(pool, rows, true)) != NULL) {
        status = make_tensors(pool, pooled);
        if (status != VV_OK) {
            pooled->next = pool->idle;
            pool->idle = pooled;
        }
    } else if (!pooled) {
        status = make(pool, rows, &pooled);
        if (status == VV_OK)
            pool->made++;
    }
    if (status == VV_OK) {
        pool->owners++;
        memset(&pooled->batch, 0, sizeof pooled->batch);
        pooled->batch.input = vv_tensor_keep(pooled->input);
        pooled->batch.target = vv_tensor_keep(pooled->target);
        pooled->batch.sample = pooled->sample;
        pooled->batch.count = rows;
        pooled->batch.pool = pool;
        *out = &pooled->batch;
    }
    pthread_mutex_unlock(&pool->lock);
    return status;
}

void vv_batch_free(vv_batch *batch)
{
    if (!batch)
        return;
    vv_tensor_free(batch->input);
    vv_tensor_free(batch->target);
    vv_tensor_free(batch->mix_target);
    vv_tensor_free(batch->mix_weight);
    vvi_batch_pool *pool = batch->pool;
    if (!pool) {
        vv_dealloc(batch->sample);
        vv_dealloc(batch);
        return;
    }
    pooled_batch *pooled = (pooled_batch *)batch;
    if (batch->sample != pooled->sample)
        vv_dealloc(batch->sample);
    pthread_mutex_lock(&pool->lock);
    pooled->next = pool->idle;
    pool->idle = pooled;
    release_locked(pool);
}

void vv_batch_set_samples(vv_batch *batch, int64_t *sample, int64_t count)
{
    /* A pool's own array stays with its batch. */
    if (!batch->pool || batch->sample != ((const pooled_batch *)batch)->sample)
        vv_dealloc(batch->sample);
    batch->sample = sample;
    batch->count = count;
}

static vv_status rows_of(vv_tensor **out, vv_tensor *tensor, int64_t first, int64_t count)
{
    *out = NULL;
    return tensor ? vv_tensor_rows(out, tensor, first, count) : VV_OK;
}

vv_status vv_batch_rows(vv_batch **out, vv_batch *batch, int64_t first, int64_t count)
{
    vv_status status;
    vv_batch *rows = NULL;
    *out = NULL;
    if (first < 0 || count < 0 || first > batch->count || count > batch->count - first)
        return vv_fail(VV_EINVAL, "batch: rows [%lld, %lld) of a batch of %lld", (long long)first,
                       (long long)first + (long long)count, (long long)batch->count);
    VV_GO(vv_alloc(&rows, sizeof *rows));
    rows->count = count;
    rows->epoch = batch->epoch;
    rows->index = batch->index;
    VV_GO(rows_of(&rows->input, batch->input, first, count));
    VV_GO(rows_of(&rows->target, batch->target, first, count));
    VV_GO(rows_of(&rows->mix_target, batch->mix_target, first, count));
    VV_GO(rows_of(&rows->mix_weight, batch->mix_weight, first, count));
    if (batch->sample) {
        VV_GO(vv_alloc_array(&rows->sample, (size_t)count, sizeof(int64_t)));
        memcpy(rows->sample, batch->sample + first, (size_t)count * sizeof(int64_t));
    }
    *out = rows;
    return VV_OK;
out:
    vv_batch_free(rows);
    return status;
}
