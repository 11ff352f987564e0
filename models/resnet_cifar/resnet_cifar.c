/* resnet_cifar.c - three stages of 16, 32 and 64 filters with (depth - 2) / 6 blocks each.
 *
 * Shortcuts that change the shape are 1x1 convolutions with batch norm (the paper's option B). */
#include "resnet_cifar.h"

#include <stdio.h>

enum { CONV1, BN1, CONV2, BN2, DOWNSAMPLE };

static vv_node *branch(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *y = vv_module_forward(vv_module_child(module, CONV1), graph, x);

    y = vv_relu(vv_module_forward(vv_module_child(module, BN1), graph, y));
    y = vv_module_forward(vv_module_child(module, CONV2), graph, y);
    return vv_module_forward(vv_module_child(module, BN2), graph, y);
}

static const vv_residual residual = {branch, DOWNSAMPLE, true};

const vv_module_class vv_cifar_block_class = {"CifarBlock", vv_residual_forward, NULL};

static vv_status add_unit(vv_module *module, const char *conv_name, const char *bn_name, int64_t in,
                          int64_t out, int64_t kernel, int64_t stride)
{
    const vv_conv_opts conv = {{stride, stride}, {kernel / 2, kernel / 2}, {1, 1}, 1, {0, 0}};
    vv_module *part = NULL;

    VV_TRY(vv_conv2d_new(&part, in, out, kernel, &conv, false));
    VV_TRY(vv_module_add_child(module, conv_name, part));
    VV_TRY(vv_batch_norm_new(&part, out, 1e-5, 0.1));
    return vv_module_add_child(module, bn_name, part);
}

static vv_status add_downsample(vv_module *block, int64_t in, int64_t out, int64_t stride)
{
    vv_module *sequence = NULL;
    vv_status status;

    VV_TRY(vv_sequential_new(&sequence));
    status = add_unit(sequence, "0", "1", in, out, 1, stride);
    if (status != VV_OK) {
        vv_module_free(sequence);
        return status;
    }
    return vv_module_add_child(block, "downsample", sequence);
}

static vv_status block_new(vv_module **out, int64_t in, int64_t filters, int64_t stride)
{
    vv_module *block = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_GO(vv_module_new(&block, &vv_cifar_block_class, 0));
    vv_module_set_residual(block, &residual);
    VV_GO(add_unit(block, "conv1", "bn1", in, filters, 3, stride));
    VV_GO(add_unit(block, "conv2", "bn2", filters, filters, 3, 1));
    if (stride != 1 || in != filters)
        VV_GO(add_downsample(block, in, filters, stride));
    *out = block;
    block = NULL;
out:
    vv_module_free(block);
    return status;
}

static vv_status add_stage(vv_module *net, int number, int64_t in, int64_t filters, int count)
{
    char name[16];
    vv_module *stage = NULL, *part = NULL;
    vv_status status = VV_OK;

    VV_GO(vv_sequential_new(&stage));
    for (int i = 0; i < count; i++) {
        VV_GO(block_new(&part, i ? filters : in, filters, i == 0 && number > 1 ? 2 : 1));
        VV_GO(vv_sequential_push(stage, VV_OK, part));
    }
    snprintf(name, sizeof name, "layer%d", number);
    return vv_module_add_child(net, name, stage);
out:
    vv_module_free(stage);
    return status;
}

enum { NET_CONV, NET_BN, NET_LAYER1, NET_LAYER2, NET_LAYER3, NET_POOL, NET_FC };

static vv_node *net_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    int64_t shape[2];

    x = vv_module_forward(vv_module_child(module, NET_CONV), graph, x);
    x = vv_relu(vv_module_forward(vv_module_child(module, NET_BN), graph, x));
    for (int i = NET_LAYER1; i <= NET_POOL; i++)
        x = vv_module_forward(vv_module_child(module, i), graph, x);
    if (!x)
        return NULL;
    shape[0] = vv_node_shape(x)[0];
    shape[1] = vv_node_shape(x)[3];
    return vv_module_forward(vv_module_child(module, NET_FC), graph, vv_reshape(x, 2, shape));
}

static const vv_module_class net_class = {"ResNetCifar", net_forward, NULL};

vv_status vv_resnet_cifar_new(vv_module **out, int64_t channels, int64_t classes,
                              const vv_resnet_cifar_opts *opts)
{
    const vv_resnet_cifar_opts defaults = VV_RESNET_CIFAR_DEFAULTS;
    const int depth = opts ? opts->depth : defaults.depth;
    const int blocks = depth == VV_RESNET_CIFAR_56 ? 9 : 3;
    vv_module *net = NULL, *part = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    if (depth != VV_RESNET_CIFAR_20 && depth != VV_RESNET_CIFAR_56)
        return vv_fail(VV_EINVAL,
                       "resnet_cifar: depth must be one of vv_resnet_cifar_depth, got %d", depth);
    VV_GO(vv_module_new(&net, &net_class, 0));
    VV_GO(add_unit(net, "conv1", "bn1", channels, 16, 3, 1));
    VV_GO(add_stage(net, 1, 16, 16, blocks));
    VV_GO(add_stage(net, 2, 16, 32, blocks));
    VV_GO(add_stage(net, 3, 32, 64, blocks));
    VV_GO(vv_adaptive_avg_pool_new(&part, 1, 1));
    VV_GO(vv_module_add_child(net, "avgpool", part));
    VV_GO(vv_linear_new(&part, 64, classes, true));
    VV_GO(vv_module_add_child(net, "fc", part));
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    vv_module *net = NULL;

    VV_TRY(vv_model_need_image("resnet_cifar", input, 4));
    VV_TRY(vv_resnet_cifar_new(&net, input->input_shape[2], input->classes, opts));
    return vv_classifier_build(out, net, input->classes, seed);
}

static const char *const depths[] = {"20", "56", NULL};

static const vv_field fields[] = {
    {"depth", "Layers with weights.", VV_FIELD_CHOICE, offsetof(vv_resnet_cifar_opts, depth), "20",
     0, 0, depths},
    {.name = NULL},
};

const vv_model_desc vv_model_resnet_cifar = {
    .desc = {.kind = "model",
             .name = "resnet_cifar",
             .summary = "ResNet-20 or ResNet-56 for small images such as CIFAR's.",
             .cite = "He et al., Deep residual learning for image recognition, arXiv 1512.03385",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_resnet_cifar_opts)},
    .build = build,
    .typical = "image=32,classes=10",
};
