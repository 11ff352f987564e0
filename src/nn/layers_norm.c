/* layers_norm.c - batch, layer and group normalisation. */
#include "nn/module.h"

#include "graph/node.h"

/* ---- batch norm ---- */

/* tensor becomes keep * tensor + part * batch after the step. */
static vv_status update_running(vv_graph *graph, vv_tensor *running, vv_node *batch,
                                double momentum, double scale)
{
    vv_node *kept = vv_affine(vv_leaf(graph, running), 1.0 - momentum, 0.0);

    return vv_update(graph, running, vv_add(kept, vv_affine(batch, momentum * scale, 0.0)));
}

/* The counter is an integer, as in PyTorch; f64 carries it exactly through the addition. */
static vv_status update_counter(vv_graph *graph, vv_tensor *counter)
{
    vv_node *count = vv_cast(vv_leaf(graph, counter), VV_F64);

    return vv_update(graph, counter, vv_cast(vv_affine(count, 1.0, 1.0), VV_I64));
}

static bool all_frozen(const vv_module *module)
{
    const vv_param *weight = vv_module_param(module, "weight");
    const vv_param *bias = vv_module_param(module, "bias");

    return weight && bias && weight->frozen && bias->frozen;
}

static vv_node *batch_norm_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vv_batch_norm_layer *self = vv_module_self(module);
    vv_tensor *running_mean = vv_module_buffer(module, "running_mean");
    vv_tensor *running_var = vv_module_buffer(module, "running_var");
    vv_node *gamma = vv_module_param_node(module, graph, "weight");
    vv_node *beta = vv_module_param_node(module, graph, "bias");
    vv_node *mean = NULL, *var = NULL, *y;
    vv_status status = VV_OK;

    if (!vv_module_training(module) || all_frozen(module))
        return vv_batch_norm_eval(x, gamma, beta, vv_leaf(graph, running_mean),
                                  vv_leaf(graph, running_var), self->eps);

    y = vv_batch_norm(x, gamma, beta, self->eps, &mean, &var);
    if (!y)
        return NULL;

    /* Values per channel. The running variance is unbiased: n / (n - 1) times the batch's. */
    double n = (double)vv_node_count(x) / (double)self->channels;

    if (n < 2.0)
        return vvi_node_fail(
            graph, VV_ESHAPE,
            "BatchNorm2d: training needs more than one value per channel; use larger "
            "batches or drop the last, incomplete one");
    VV_GO(update_running(graph, running_mean, mean, self->momentum, 1.0));
    VV_GO(update_running(graph, running_var, var, self->momentum, n / (n - 1.0)));
    VV_GO(update_counter(graph, vv_module_buffer(module, "num_batches_tracked")));
    return y;
out:
    return vvi_node_fail(graph, status, "BatchNorm2d: %s", vv_error());
}

const vv_module_class vv_batch_norm_class = {"BatchNorm2d", batch_norm_forward, NULL};

static vv_status check_norm(const char *what, int64_t channels, double eps)
{
    if (channels < 1)
        return vv_fail(VV_EINVAL, "%s: channels %lld must be positive", what, (long long)channels);
    if (!(eps >= 0.0))
        return vv_fail(VV_EINVAL, "%s: eps %g must not be negative", what, eps);
    return VV_OK;
}

static vv_status add_affine(vv_module *module, int64_t channels)
{
    VV_TRY(vvi_add_param(module, "weight", 1, &channels, 1.0));
    return vvi_add_param(module, "bias", 1, &channels, 0.0);
}

vv_status vv_batch_norm_new(vv_module **out, int64_t channels, double eps, double momentum)
{
    vv_module *module = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_TRY(check_norm("BatchNorm2d", channels, eps));
    if (!(momentum >= 0.0 && momentum <= 1.0))
        return vv_fail(VV_EINVAL, "BatchNorm2d: momentum %g is outside [0, 1]", momentum);
    VV_GO(vv_module_new(&module, &vv_batch_norm_class, sizeof(vv_batch_norm_layer)));
    *(vv_batch_norm_layer *)vv_module_self(module) = (vv_batch_norm_layer){channels, eps, momentum};
    VV_GO(add_affine(module, channels));
    VV_GO(vvi_add_buffer(module, "running_mean", VV_F32, 1, &channels, 0.0));
    VV_GO(vvi_add_buffer(module, "running_var", VV_F32, 1, &channels, 1.0));
    VV_GO(vvi_add_buffer(module, "num_batches_tracked", VV_I64, 0, NULL, 0.0));
    *out = module;
    module = NULL;
out:
    vv_module_free(module);
    return status;
}

/* ---- layer, RMS and group norm ---- */

static vv_node *layer_norm_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vv_norm_layer *self = vv_module_self(module);

    return vv_layer_norm(x, vv_module_param_node(module, graph, "weight"),
                         vv_module_param_node(module, graph, "bias"), self->eps);
}

static vv_node *group_norm_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vv_norm_layer *self = vv_module_self(module);

    return vv_group_norm(x, vv_module_param_node(module, graph, "weight"),
                         vv_module_param_node(module, graph, "bias"), self->groups, self->eps);
}

static vv_node *rms_norm_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vv_norm_layer *self = vv_module_self(module);

    return vv_rms_norm(x, vv_module_param_node(module, graph, "weight"), self->eps);
}

const vv_module_class vv_rms_norm_class = {"RMSNorm", rms_norm_forward, NULL};
const vv_module_class vv_layer_norm_class = {"LayerNorm", layer_norm_forward, NULL};
const vv_module_class vv_group_norm_class = {"GroupNorm", group_norm_forward, NULL};

static vv_status norm_new(vv_module **out, const vv_module_class *type, int64_t groups,
                          int64_t channels, double eps)
{
    vv_module *module = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_TRY(check_norm(type->name, channels, eps));
    if (groups < 1 || channels % groups)
        return vv_fail(VV_EINVAL, "%s: %lld groups do not divide %lld channels", type->name,
                       (long long)groups, (long long)channels);
    VV_GO(vv_module_new(&module, type, sizeof(vv_norm_layer)));
    *(vv_norm_layer *)vv_module_self(module) = (vv_norm_layer){channels, groups, eps};
    VV_GO(add_affine(module, channels));
    *out = module;
    module = NULL;
out:
    vv_module_free(module);
    return status;
}

vv_status vv_layer_norm_new(vv_module **out, int64_t channels, double eps)
{
    return norm_new(out, &vv_layer_norm_class, 1, channels, eps);
}

vv_status vv_group_norm_new(vv_module **out, int64_t groups, int64_t channels, double eps)
{
    return norm_new(out, &vv_group_norm_class, groups, channels, eps);
}

vv_status vv_rms_norm_new(vv_module **out, int64_t channels, double eps, bool weight)
{
    vv_module *module = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_TRY(check_norm("RMSNorm", channels, eps));
    VV_GO(vv_module_new(&module, &vv_rms_norm_class, sizeof(vv_norm_layer)));
    *(vv_norm_layer *)vv_module_self(module) = (vv_norm_layer){channels, 1, eps};
    if (weight)
        VV_GO(vvi_add_param(module, "weight", 1, &channels, 1.0));
    *out = module;
    module = NULL;
out:
    vv_module_free(module);
    return status;
}
