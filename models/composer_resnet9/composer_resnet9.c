/* composer_resnet9.c - Composer's ResNet-9: four convolutions, two basic blocks, mean pooling. */
#include "composer_resnet9.h"

static vv_status add_unit(vv_module *module, const char *conv_name, const char *bn_name, int64_t in,
                          int64_t out, double momentum)
{
    static const vv_conv_opts same = {{1, 1}, {1, 1}, {1, 1}, 1, {0, 0}};
    vv_module *part = NULL;

    VV_TRY(vv_conv2d_new(&part, in, out, 3, &same, false));
    VV_TRY(vv_module_add_child(module, conv_name, part));
    VV_TRY(vv_batch_norm_new(&part, out, 1e-5, momentum));
    return vv_module_add_child(module, bn_name, part);
}

/* conv, BN, ReLU, then a max pooling if it has one. The stem's running statistics move fast. */
#define STEM_MOMENTUM 0.9

static vv_node *stem_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_module *pool = vv_module_child(module, 2);

    x = vv_module_forward(vv_module_child(module, 0), graph, x);
    x = vv_relu(vv_module_forward(vv_module_child(module, 1), graph, x));
    return pool ? vv_module_forward(pool, graph, x) : x;
}

/* conv, BN, ReLU, conv, BN; the block is relu(x + that). */
static vv_node *branch(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *y = vv_module_forward(vv_module_child(module, 0), graph, x);

    y = vv_relu(vv_module_forward(vv_module_child(module, 1), graph, y));
    y = vv_module_forward(vv_module_child(module, 2), graph, y);
    return vv_module_forward(vv_module_child(module, 3), graph, y);
}

static const vv_residual residual = {branch, -1, true};

enum { POOL = 6, FC }; /* after four stems and two blocks */

static vv_node *net_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    int64_t shape[2];

    for (int i = 0; i <= POOL; i++)
        x = vv_module_forward(vv_module_child(module, i), graph, x);
    if (!x)
        return NULL;
    shape[0] = vv_node_shape(x)[0];
    shape[1] = vv_node_shape(x)[3];
    return vv_module_forward(vv_module_child(module, FC), graph, vv_reshape(x, 2, shape));
}

static const vv_module_class stem_class = {"ConvBnRelu", stem_forward, NULL};
static const vv_module_class block_class = {"BasicBlock", vv_residual_forward, NULL};
static const vv_module_class net_class = {"ComposerResNet9", net_forward, NULL};

static vv_status add_stem(vv_module *net, const char *name, int64_t in, int64_t out, bool pool)
{
    static const vv_pool_opts halve = {.kernel = {2, 2}};
    vv_module *stem = NULL, *part = NULL;
    vv_status status = VV_OK;

    VV_GO(vv_module_new(&stem, &stem_class, 0));
    VV_GO(add_unit(stem, "conv", "bn", in, out, STEM_MOMENTUM));
    if (pool) {
        VV_GO(vv_max_pool_new(&part, &halve));
        VV_GO(vv_module_add_child(stem, "pool", part));
    }
    return vv_module_add_child(net, name, stem);
out:
    vv_module_free(stem);
    return status;
}

static vv_status add_block(vv_module *net, const char *name, int64_t channels)
{
    vv_module *block = NULL;
    vv_status status = VV_OK;

    VV_GO(vv_module_new(&block, &block_class, 0));
    vv_module_set_residual(block, &residual);
    VV_GO(add_unit(block, "conv1", "bn1", channels, channels, 0.1));
    VV_GO(add_unit(block, "conv2", "bn2", channels, channels, 0.1));
    return vv_module_add_child(net, name, block);
out:
    vv_module_free(block);
    return status;
}

vv_status vv_composer_resnet9_new(vv_module **out, int64_t channels, int64_t classes)
{
    vv_module *net = NULL, *part = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_GO(vv_module_new(&net, &net_class, 0));
    VV_GO(add_stem(net, "stem1", channels, 64, false));
    VV_GO(add_stem(net, "stem2", 64, 128, true));
    VV_GO(add_block(net, "block1", 128));
    VV_GO(add_stem(net, "stem3", 128, 256, true));
    VV_GO(add_stem(net, "stem4", 256, 256, true));
    VV_GO(add_block(net, "block2", 256));
    VV_GO(vv_adaptive_avg_pool_new(&part, 1, 1));
    VV_GO(vv_module_add_child(net, "avgpool", part));
    VV_GO(vv_linear_new(&part, 256, classes, true));
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

    (void)opts;
    VV_TRY(vv_model_need_image("composer_resnet9", input, 8));
    VV_TRY(vv_composer_resnet9_new(&net, input->input_shape[2], input->classes));
    return vv_classifier_build(out, net, input->classes, seed);
}

static const vv_field fields[] = {{.name = NULL}};

const vv_model_desc vv_model_composer_resnet9 = {
    .desc = {.kind = "model",
             .name = "composer_resnet9",
             .summary =
                 "Composer's ResNet-9 for small images: at most 256 channels, average pooling.",
             .cite = "Composer, after D. Page, How to train your ResNet (DAWNBench 2018)",
             .domains = "cv",
             .fields = fields,
             .opts_size = 0},
    .build = build,
    .typical = "image=32,classes=10",
};
