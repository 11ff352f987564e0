/* grads.c - the gradients of a whole tree: made, measured, scaled. */
#include <math.h>

#include "optim/optim_kernels.h"
#include "optim/optimizer.h"
#include "vvi_config.h"

#include <vivace/graph.h>

#define ROUND 512 /* chunks summed per round, so that the partial sums fit on the stack */

typedef struct grads_walk {
    vv_status status;
    double sum, factor;
} grads_walk;

static bool ensure(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    grads_walk *walk = ctx;
    (void)owner;
    if (param->frozen || param->grad)
        return true;
    walk->status = vv_tensor_new(&param->grad, VV_F32, param->value->ndim, param->value->shape);
    (void)vv_fail_within(walk->status, "gradient of %s", path);
    return walk->status == VV_OK;
}

vv_status vv_grads_ensure(vv_module *module)
{
    grads_walk walk = {VV_OK, 0.0, 0.0};
    vv_module_each_param(module, ensure, &walk);
    return walk.status;
}

static int64_t chunk_count(int64_t count)
{
    return (count + VVI_OPTIM_CHUNK - 1) / VVI_OPTIM_CHUNK;
}

static int64_t chunk_size(int64_t count, int64_t chunk)
{
    int64_t left = count - chunk * VVI_OPTIM_CHUNK;
    return left < VVI_OPTIM_CHUNK ? left : VVI_OPTIM_CHUNK;
}

double vvi_grad_squares(const vv_param *param)
{
    const float *grad = param->grad->data;
    int64_t count = param->grad->count, chunks = chunk_count(count);
    double partial[ROUND], sum = 0.0;
    for (int64_t base = 0; base < chunks; base += ROUND) {
        int64_t here = chunks - base < ROUND ? chunks - base : ROUND;
#if VVI_HAVE_OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads(vv_threads()) if (here > 1)
#endif
        for (int64_t i = 0; i < here; i++)
            partial[i] = vvi_grad_square_sum(grad + (base + i) * VVI_OPTIM_CHUNK,
                                             chunk_size(count, base + i));
        for (int64_t i = 0; i < here; i++) /* in order: the same bits for any number of threads */
            sum += partial[i];
    }
    return sum;
}

static bool add_squares(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    grads_walk *walk = ctx;
    (void)path, (void)owner;
    if (!param->frozen && param->grad)
        walk->sum += vvi_grad_squares(param);
    return true;
}

vv_status vv_grads_norm(vv_module *module, double *out)
{
    grads_walk walk = {VV_OK, 0.0, 0.0};
    *out = 0.0;
    vv_module_each_param(module, add_squares, &walk);
    *out = sqrt(walk.sum);
    return VV_OK;
}

static bool scale(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    const grads_walk *walk = ctx;
    (void)path, (void)owner;
    if (param->frozen || !param->grad)
        return true;
    float *grad = param->grad->data;
    int64_t count = param->grad->count, chunks = chunk_count(count);
#if VVI_HAVE_OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads(vv_threads()) if (chunks > 1)
#endif
    for (int64_t i = 0; i < chunks; i++)
        vvi_grad_scale(grad + i * VVI_OPTIM_CHUNK, chunk_size(count, i), (float)walk->factor);
    return true;
}

void vv_grads_scale(vv_module *module, double factor)
{
    grads_walk walk = {VV_OK, 0.0, factor};
    vv_module_each_param(module, scale, &walk);
}
