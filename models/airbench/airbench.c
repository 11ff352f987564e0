/* airbench.c - a 2x2 convolution for whitening, three groups of convolutions, max pooling,
 * linear. */
#include "airbench.h"

#include <stdio.h>

/* conv1, pool, norm1, GELU, conv2, norm2, GELU; with a third convolution the last two are a
   residual branch: x + norm3(conv3(...)), GELU. */
enum { CONV1, POOL, NORM1, CONV2, NORM2, CONV3, NORM3 };

static vv_node *part(vv_module *module, int i, vv_graph *graph, vv_node *x)
{
    return vv_module_forward(vv_module_child(module, i), graph, x);
}

static vv_node *group_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    x = part(module, POOL, graph, part(module, CONV1, graph, x));
    x = vv_gelu(part(module, NORM1, graph, x));
    vv_node *y = vv_gelu(part(module, NORM2, graph, part(module, CONV2, graph, x)));
    if (vv_module_child_count(module) <= CONV3)
        return y;
    return vv_gelu(vv_add(part(module, NORM3, graph, part(module, CONV3, graph, y)), x));
}

static const vv_module_class group_class = {"AirbenchGroup", group_forward, NULL};

static vv_status add_conv(vv_module *group, int number, int64_t in, int64_t out)
{
    static const vv_conv_opts same = {{1, 1}, {1, 1}, {1, 1}, 1, {0, 0}};
    char name[16];
    vv_module *layer = NULL;

    VV_TRY(vv_conv2d_new(&layer, in, out, 3, &same, false));
    snprintf(name, sizeof name, "conv%d", number);
    return vv_module_add_child(group, name, layer);
}

/* Only the shift learns; running statistics move fast, since trainings are short. */
static vv_status add_norm(vv_module *group, int number, int64_t channels)
{
    char name[16];
    vv_module *layer = NULL;

    VV_TRY(vv_batch_norm_new(&layer, channels, 1e-12, 0.4));
    vv_module_param(layer, "weight")->frozen = true;
    snprintf(name, sizeof name, "norm%d", number);
    return vv_module_add_child(group, name, layer);
}

static vv_status add_group(vv_module *net, int number, int64_t in, int64_t out, int convs)
{
    static const vv_pool_opts halve = {.kernel = {2, 2}};
    char name[16];
    vv_module *group = NULL, *pool = NULL;
    vv_status status = VV_OK;

    VV_GO(vv_module_new(&group, &group_class, 0));
    VV_GO(add_conv(group, 1, in, out));
    VV_GO(vv_max_pool_new(&pool, &halve));
    VV_GO(vv_module_add_child(group, "pool", pool));
    VV_GO(add_norm(group, 1, out));
    for (int i = 2; i <= convs; i++) {
        VV_GO(add_conv(group, i, out, out));
        VV_GO(add_norm(group, i, out));
    }
    snprintf(name, sizeof name, "group%d", number);
    return vv_module_add_child(net, name, group);
out:
    vv_module_free(group);
    return status;
}

enum { WHITEN, GROUP1, GROUP2, GROUP3, HEAD };

static vv_node *net_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const double *logit_scale = vv_module_self(module);
    x = vv_gelu(part(module, WHITEN, graph, x));
    for (int i = GROUP1; i <= GROUP3; i++)
        x = part(module, i, graph, x);
    x = vv_adaptive_max_pool2d(x, 1, 1);
    if (!x)
        return NULL;
    const int64_t shape[2] = {vv_node_shape(x)[0], vv_node_shape(x)[3]};
    return vv_affine(part(module, HEAD, graph, vv_reshape(x, 2, shape)), *logit_scale, 0.0);
}

static const vv_module_class net_class = {"Airbench", net_forward, NULL};

static const struct {
    int64_t widths[3];
    int convs;
} variants[] = {
    [VV_AIRBENCH_94] = {{64, 256, 256}, 2},
    [VV_AIRBENCH_95] = {{128, 384, 384}, 2},
    [VV_AIRBENCH_96] = {{128, 384, 512}, 3},
};

vv_status vv_airbench_new(vv_module **out, int64_t channels, int64_t classes,
                          const vv_airbench_opts *opts)
{
    const vv_airbench_opts defaults = VV_AIRBENCH_DEFAULTS;
    const vv_airbench_opts *o = opts ? opts : &defaults;
    const vv_conv_opts valid = VV_CONV_DEFAULTS;
    vv_module *net = NULL, *layer = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    if (o->variant < VV_AIRBENCH_94 || o->variant > VV_AIRBENCH_96 || o->width1 < 0 ||
        o->width2 < 0 || o->width3 < 0)
        return vv_fail(VV_EINVAL, "airbench: variant %d must be one of vv_airbench_variant, widths "
                                  "must not be negative",
                       o->variant);
    const int64_t given[3] = {o->width1, o->width2, o->width3};
    int64_t in = 2 * 4 * channels; /* the patch's directions, and their negatives */
    VV_GO(vv_module_new(&net, &net_class, sizeof(double)));
    *(double *)vv_module_self(net) = o->logit_scale;
    VV_GO(vv_conv2d_new(&layer, channels, in, 2, &valid, true));
    VV_GO(vv_module_add_child(net, "whiten", layer));
    for (int i = 0; i < 3; i++) {
        const int64_t width = given[i] ? given[i] : variants[o->variant].widths[i];
        VV_GO(add_group(net, i + 1, in, width, variants[o->variant].convs));
        in = width;
    }
    VV_GO(vv_linear_new(&layer, in, classes, false));
    VV_GO(vv_module_add_child(net, "head", layer));
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    vv_module *net = NULL;

    VV_TRY(vv_model_need_image("airbench", input, 9));
    VV_TRY(vv_airbench_new(&net, input->input_shape[2], input->classes, opts));
    return vv_classifier_build(out, net, input->classes, seed);
}

static const char *const names[] = {"94", "95", "96", NULL};
static const vv_field fields[] = {
    {"variant", "Accuracy on CIFAR-10, in percent, that the net is known for.", VV_FIELD_CHOICE,
     offsetof(vv_airbench_opts, variant), "94", 0, 0, names},
    {"width1", "Channels of the first group; 0 = the variant's.", VV_FIELD_INT,
     offsetof(vv_airbench_opts, width1), "0", 0, 4096, NULL},
    {"width2", "Channels of the second group; 0 = the variant's.", VV_FIELD_INT,
     offsetof(vv_airbench_opts, width2), "0", 0, 4096, NULL},
    {"width3", "Channels of the third group; 0 = the variant's.", VV_FIELD_INT,
     offsetof(vv_airbench_opts, width3), "0", 0, 4096, NULL},
    {"logit_scale", "Factor of the linear layer's output.", VV_FIELD_FLOAT,
     offsetof(vv_airbench_opts, logit_scale), "0.1111", 1e-6, 1e6, NULL},
    {.name = NULL},
};

const vv_model_desc vv_model_airbench = {
    .desc = {.kind = "model",
             .name = "airbench",
             .summary = "The nets of the CIFAR-10 speed records at 94, 95 and 96%.",
             .cite = "Jordan, 94% on CIFAR-10 in 3.29 Seconds on a Single GPU, arXiv 2404.00498",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_airbench_opts)},
    .build = build,
    .typical = "image=32,classes=10",
};
