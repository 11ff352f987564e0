/* clip.c - clipping of a whole gradient: by global norm, by value, unit by unit. */
#include <math.h>
#include <stdio.h>

#include "optim/optim_kernels.h"
#include "vvi_config.h"

#include <vivace/graph.h>

typedef struct clip_walk {
    double sum;        /* of squares */
    char bad[1024];    /* path of the first gradient that is not finite */
    float limit;
    vv_clip_adaptive_opts agc;
    const vv_module *last; /* layer that adaptive clipping leaves alone, or NULL */
} clip_walk;

static bool clips(const vv_param *param)
{
    return !param->frozen && param->grad && param->grad->count > 0;
}

static bool measure(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    clip_walk *walk = ctx;
    (void)owner;
    if (!clips(param))
        return true;
    double squares = vvi_grad_squares(param);
    if (!isfinite(squares) && !walk->bad[0])
        snprintf(walk->bad, sizeof walk->bad, "%s", path[0] ? path : "the model");
    walk->sum += squares;
    return true;
}

/* The norm; a sum of squares of finite floats is always finite in double. */
static vv_status global_norm(vv_module *module, clip_walk *walk, double *norm)
{
    vv_module_each_param(module, measure, walk);
    double found = sqrt(walk->sum);
    if (norm)
        *norm = found;
    if (walk->bad[0])
        return vv_fail(VV_ENUMERIC,
                       "the gradient of %s is not finite (global norm %g); it was not clipped",
                       walk->bad, found);
    return VV_OK;
}

static vv_status check_limit(const char *what, double limit)
{
    if (limit > 0.0 && isfinite(limit))
        return VV_OK;
    return vv_fail(VV_EINVAL, "%s: %g is not a limit; it must be above 0 and finite", what, limit);
}

vv_status vv_clip_grad_norm(vv_module *module, double max_norm, double *norm)
{
    clip_walk walk = {0};
    double found;
    VV_TRY(check_limit("vv_clip_grad_norm", max_norm));
    vv_status status = global_norm(module, &walk, &found);
    if (norm)
        *norm = found;
    if (status == VV_OK && found > max_norm)
        vv_grads_scale(module, max_norm / found);
    return status;
}

static bool clamp(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    const clip_walk *walk = ctx;
    (void)path, (void)owner;
    if (clips(param))
        vvi_grad_clamp(param->grad->data, param->grad->count, walk->limit);
    return true;
}

vv_status vv_clip_grad_value(vv_module *module, double limit, double *norm)
{
    clip_walk walk = {.limit = (float)limit};
    VV_TRY(check_limit("vv_clip_grad_value", limit));
    VV_TRY(global_norm(module, &walk, norm));
    vv_module_each_param(module, clamp, &walk);
    return VV_OK;
}

/* Norm layers and biases have one dimension: they are no layer that classifies. */
static bool find_last(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    clip_walk *walk = ctx;
    (void)path;
    if (param->value->ndim >= 2)
        walk->last = owner;
    return true;
}

static void clip_unit(const clip_walk *walk, const float *weight, float *grad, int64_t count)
{
    double grad_norm = sqrt(vvi_grad_square_sum(grad, count));
    double weight_norm = sqrt(vvi_grad_square_sum(weight, count));
    double most = walk->agc.threshold * fmax(weight_norm, walk->agc.eps);
    if (grad_norm > most)
        vvi_grad_scale(grad, count, (float)(most / grad_norm));
}

static bool clip_units(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    const clip_walk *walk = ctx;
    (void)path;
    if (!clips(param) || (walk->last && owner == walk->last))
        return true;
    int64_t units = param->grad->ndim >= 2 ? param->grad->shape[0] : 1;
    int64_t size = param->grad->count / units;
    const float *weight = param->value->data;
    float *grad = param->grad->data;
#if VVI_HAVE_OPENMP
#pragma omp parallel for schedule(static) num_threads(vv_threads()) if (param->grad->count > 65536)
#endif
    for (int64_t i = 0; i < units; i++)
        clip_unit(walk, weight + i * size, grad + i * size, size);
    return true;
}

vv_status vv_clip_grad_adaptive(vv_module *module, const vv_clip_adaptive_opts *opts, double *norm)
{
    static const vv_clip_adaptive_opts defaults = VV_CLIP_ADAPTIVE_DEFAULTS;
    clip_walk walk = {.agc = opts ? *opts : defaults};
    VV_TRY(check_limit("vv_clip_grad_adaptive: threshold", walk.agc.threshold));
    if (!(walk.agc.eps >= 0.0 && isfinite(walk.agc.eps)))
        return vv_fail(VV_EINVAL, "vv_clip_grad_adaptive: eps %g; must be 0 or above",
                       walk.agc.eps);
    VV_TRY(global_norm(module, &walk, norm));
    if (walk.agc.exempt_last)
        vv_module_each_param(module, find_last, &walk);
    vv_module_each_param(module, clip_units, &walk);
    return VV_OK;
}
