/* resnet9.c - the DAWNBench ResNet-9. */
#include "resnet9.h"

/* conv3x3, BN, ReLU and (if it has one) a max pooling. */
enum { CONV, BN, POOL };

static vv_node *unit_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    x = vv_module_forward(vv_module_child(module, CONV), graph, x);
    x = vv_relu(vv_module_forward(vv_module_child(module, BN), graph, x));
    return vv_module_child_count(module) > POOL
               ? vv_module_forward(vv_module_child(module, POOL), graph, x)
               : x;
}

static const vv_module_class unit_class = {"ConvBnRelu", unit_forward, NULL};

static vv_status unit_new(vv_module **out, int64_t in, int64_t channels, bool pool)
{
    static const vv_conv_opts same = {{1, 1}, {1, 1}, {1, 1}, 1, {0, 0}};
    static const vv_pool_opts halve = {.kernel = {2, 2}};
    vv_module *unit = NULL, *part = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_GO(vv_module_new(&unit, &unit_class, 0));
    VV_GO(vv_conv2d_new(&part, in, channels, 3, &same, false));
    VV_GO(vv_module_add_child(unit, "conv", part));
    VV_GO(vv_batch_norm_new(&part, channels, 1e-5, 0.1));
    VV_GO(vv_module_add_child(unit, "bn", part));
    if (pool) {
        VV_GO(vv_max_pool_new(&part, &halve));
        VV_GO(vv_module_add_child(unit, "pool", part));
    }
    *out = unit;
    unit = NULL;
out:
    vv_module_free(unit);
    return status;
}

/* Two units; the block is x + that, with no ReLU after the sum. */
static vv_node *branch(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *y = vv_module_forward(vv_module_child(module, 0), graph, x);

    return vv_module_forward(vv_module_child(module, 1), graph, y);
}

static const vv_residual parts = {branch, -1, false};
static const vv_module_class residual_class = {"Residual", vv_residual_forward, NULL};

static vv_status residual_new(vv_module **out, int64_t channels)
{
    vv_module *residual = NULL, *part = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_GO(vv_module_new(&residual, &residual_class, 0));
    vv_module_set_residual(residual, &parts);
    VV_GO(unit_new(&part, channels, channels, false));
    VV_GO(vv_module_add_child(residual, "0", part));
    VV_GO(unit_new(&part, channels, channels, false));
    VV_GO(vv_module_add_child(residual, "1", part));
    *out = residual;
    residual = NULL;
out:
    vv_module_free(residual);
    return status;
}

enum { PREP, LAYER1, RES1, LAYER2, LAYER3, RES3, FC };

static vv_node *net_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    int64_t shape[2];

    for (int i = PREP; i <= RES3; i++)
        x = vv_module_forward(vv_module_child(module, i), graph, x);
    /* 4x4 on 32x32 images; whatever is left on others. */
    x = vv_adaptive_max_pool2d(x, 1, 1);
    if (!x)
        return NULL;
    shape[0] = vv_node_shape(x)[0];
    shape[1] = vv_node_shape(x)[3];
    x = vv_module_forward(vv_module_child(module, FC), graph, vv_reshape(x, 2, shape));
    const double *logit_scale = vv_module_self(module);
    return *logit_scale == 1.0 ? x : vv_affine(x, *logit_scale, 0.0);
}

static const vv_module_class net_class = {"ResNet9", net_forward, NULL};

vv_status vv_resnet9_new(vv_module **out, int64_t channels, int64_t classes, int64_t width,
                         double logit_scale)
{
    vv_module *net = NULL, *part = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_GO(vv_module_new(&net, &net_class, sizeof logit_scale));
    *(double *)vv_module_self(net) = logit_scale;
    VV_GO(unit_new(&part, channels, width, false));
    VV_GO(vv_module_add_child(net, "prep", part));
    VV_GO(unit_new(&part, width, 2 * width, true));
    VV_GO(vv_module_add_child(net, "layer1", part));
    VV_GO(residual_new(&part, 2 * width));
    VV_GO(vv_module_add_child(net, "res1", part));
    VV_GO(unit_new(&part, 2 * width, 4 * width, true));
    VV_GO(vv_module_add_child(net, "layer2", part));
    VV_GO(unit_new(&part, 4 * width, 8 * width, true));
    VV_GO(vv_module_add_child(net, "layer3", part));
    VV_GO(residual_new(&part, 8 * width));
    VV_GO(vv_module_add_child(net, "res3", part));
    VV_GO(vv_linear_new(&part, 8 * width, classes, true));
    VV_GO(vv_module_add_child(net, "fc", part));
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    const vv_resnet9_opts *o = opts;
    vv_module *net = NULL;

    VV_TRY(vv_model_need_image("resnet9", input, 8));
    VV_TRY(vv_resnet9_new(&net, input->input_shape[2], input->classes, o->width,
                          o->logit_scale));
    return vv_classifier_build(out, net, input->classes, seed);
}

static const vv_field fields[] = {
    {"width", "Channels of the first convolution; later ones have 2, 4 and 8 times as many.",
     VV_FIELD_INT, offsetof(vv_resnet9_opts, width), "64", 1, 1024, NULL},
    {"logit_scale",
     "Factor of the linear layer's output; below 1 it keeps early training with large steps "
     "stable.",
     VV_FIELD_FLOAT, offsetof(vv_resnet9_opts, logit_scale), "0.125", 1e-6, 1e6, NULL},
    {.name = NULL},
};

const vv_model_desc vv_model_resnet9 = {
    .desc = {.kind = "model",
             .name = "resnet9",
             .summary =
                 "DAWNBench ResNet-9 for small images: eight 3x3 convolutions and a linear layer.",
             .cite = "D. Page, How to train your ResNet (DAWNBench 2018)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_resnet9_opts)},
    .build = build,
    .typical = "image=32,classes=10",
};
