/* layers_conv.c - convolutions, linear, embedding: the layers that multiply by a weight. */
#include "nn/module.h"

static vv_node *conv2d_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vv_conv2d_layer *self = vv_module_self(module);

    return vv_conv2d(x, vv_module_param_node(module, graph, "weight"),
                     vv_module_param_node(module, graph, "bias"), &self->conv);
}

static vv_node *conv_transpose2d_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vv_conv2d_layer *self = vv_module_self(module);

    return vv_conv_transpose2d(x, vv_module_param_node(module, graph, "weight"),
                               vv_module_param_node(module, graph, "bias"), &self->conv);
}

const vv_module_class vv_conv2d_class = {"Conv2d", conv2d_forward, NULL};
const vv_module_class vv_conv_transpose2d_class = {"ConvTranspose2d", conv_transpose2d_forward,
                                                   NULL};

static vv_status check_conv(const char *what, int64_t in_channels, int64_t out_channels,
                            int64_t kernel, const vv_conv_opts *conv)
{
    if (in_channels < 1 || out_channels < 1 || kernel < 1)
        return vv_fail(VV_EINVAL, "%s: channels in %lld, out %lld and kernel %lld must be positive",
                       what, (long long)in_channels, (long long)out_channels, (long long)kernel);
    if (conv->groups < 1 || in_channels % conv->groups || out_channels % conv->groups)
        return vv_fail(VV_EINVAL, "%s: %lld groups do not divide channels in %lld and out %lld",
                       what, (long long)conv->groups, (long long)in_channels,
                       (long long)out_channels);
    for (int i = 0; i < 2; i++)
        if (conv->stride[i] < 1 || conv->dilation[i] < 1 || conv->pad[i] < 0 ||
            conv->output_pad[i] < 0)
            return vv_fail(
                VV_EINVAL,
                "%s: stride %lld and dilation %lld must be at least 1, pad %lld and output "
                "pad %lld at least 0",
                what, (long long)conv->stride[i], (long long)conv->dilation[i],
                (long long)conv->pad[i], (long long)conv->output_pad[i]);
    return VV_OK;
}

static vv_status conv_new(vv_module **out, const vv_module_class *type, int64_t in_channels,
                          int64_t out_channels, int64_t kernel, const vv_conv_opts *opts, bool bias)
{
    const vv_conv_opts defaults = VV_CONV_DEFAULTS;
    const vv_conv_opts *conv = opts ? opts : &defaults;
    bool transposed = type == &vv_conv_transpose2d_class;
    vv_module *module = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_TRY(check_conv(type->name, in_channels, out_channels, kernel, conv));

    const int64_t rows = transposed ? in_channels : out_channels;
    const int64_t columns = (transposed ? out_channels : in_channels) / conv->groups;
    const int64_t shape[4] = {rows, columns, kernel, kernel};

    VV_GO(vv_module_new(&module, type, sizeof(vv_conv2d_layer)));
    *(vv_conv2d_layer *)vv_module_self(module) =
        (vv_conv2d_layer){in_channels, out_channels, {kernel, kernel}, *conv, bias};
    VV_GO(vvi_add_param(module, "weight", 4, shape, 0.0));
    if (bias)
        VV_GO(vvi_add_param(module, "bias", 1, &out_channels, 0.0));
    *out = module;
    module = NULL;
out:
    vv_module_free(module);
    return status;
}

vv_status vv_conv2d_new(vv_module **out, int64_t in_channels, int64_t out_channels, int64_t kernel,
                        const vv_conv_opts *opts, bool bias)
{
    return conv_new(out, &vv_conv2d_class, in_channels, out_channels, kernel, opts, bias);
}

vv_status vv_conv_transpose2d_new(vv_module **out, int64_t in_channels, int64_t out_channels,
                                  int64_t kernel, const vv_conv_opts *opts, bool bias)
{
    return conv_new(out, &vv_conv_transpose2d_class, in_channels, out_channels, kernel, opts, bias);
}

/* ---- linear ---- */

static vv_node *linear_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    return vv_linear(x, vv_module_param_node(module, graph, "weight"),
                     vv_module_param_node(module, graph, "bias"));
}

const vv_module_class vv_linear_class = {"Linear", linear_forward, NULL};

vv_status vv_linear_new(vv_module **out, int64_t in_features, int64_t out_features, bool bias)
{
    const int64_t shape[2] = {out_features, in_features};
    vv_module *module = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    if (in_features < 1 || out_features < 1)
        return vv_fail(VV_EINVAL, "Linear: features in %lld and out %lld must be positive",
                       (long long)in_features, (long long)out_features);
    VV_GO(vv_module_new(&module, &vv_linear_class, sizeof(vv_linear_layer)));
    *(vv_linear_layer *)vv_module_self(module) = (vv_linear_layer){in_features, out_features, bias};
    VV_GO(vvi_add_param(module, "weight", 2, shape, 0.0));
    if (bias)
        VV_GO(vvi_add_param(module, "bias", 1, &out_features, 0.0));
    *out = module;
    module = NULL;
out:
    vv_module_free(module);
    return status;
}

/* ---- embedding ---- */

static vv_node *embedding_forward(vv_module *module, vv_graph *graph, vv_node *index)
{
    return vv_embedding(index, vv_module_param_node(module, graph, "weight"));
}

const vv_module_class vv_embedding_class = {"Embedding", embedding_forward, NULL};

vv_status vv_embedding_new(vv_module **out, int64_t rows, int64_t dim)
{
    const int64_t shape[2] = {rows, dim};
    vv_module *module = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    if (rows < 1 || dim < 1)
        return vv_fail(VV_EINVAL, "Embedding: rows %lld and dim %lld must be positive",
                       (long long)rows, (long long)dim);
    VV_GO(vv_module_new(&module, &vv_embedding_class, sizeof(vv_embedding_layer)));
    *(vv_embedding_layer *)vv_module_self(module) = (vv_embedding_layer){rows, dim, false};
    VV_GO(vvi_add_param(module, "weight", 2, shape, 0.0));
    *out = module;
    module = NULL;
out:
    vv_module_free(module);
    return status;
}
