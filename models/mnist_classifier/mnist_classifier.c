/* mnist_classifier.c - two convolutions, 4x4 average pooling and two linear layers. */
#include "mnist_classifier.h"

enum { CONV1, CONV2, BN, POOL, FLATTEN, FC1, FC2 };

static vv_node *forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    x = vv_relu(vv_module_forward(vv_module_child(module, CONV1), graph, x));
    x = vv_module_forward(vv_module_child(module, CONV2), graph, x);
    x = vv_relu(vv_module_forward(vv_module_child(module, BN), graph, x));
    x = vv_module_forward(vv_module_child(module, POOL), graph, x);    /* [N,4,4,32] */
    x = vv_module_forward(vv_module_child(module, FLATTEN), graph, x); /* [N,512] */
    x = vv_relu(vv_module_forward(vv_module_child(module, FC1), graph, x));
    return vv_module_forward(vv_module_child(module, FC2), graph, x);
}

static const vv_module_class net_class = {"MnistClassifier", forward, NULL};

vv_status vv_mnist_classifier_new(vv_module **out, int64_t channels, int64_t classes)
{
    vv_module *net = NULL, *part = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_GO(vv_module_new(&net, &net_class, 0));
    VV_GO(vv_conv2d_new(&part, channels, 16, 3, NULL, true));
    VV_GO(vv_module_add_child(net, "conv1", part));
    VV_GO(vv_conv2d_new(&part, 16, 32, 3, NULL, true));
    VV_GO(vv_module_add_child(net, "conv2", part));
    VV_GO(vv_batch_norm_new(&part, 32, 1e-5, 0.1));
    VV_GO(vv_module_add_child(net, "bn", part));
    VV_GO(vv_adaptive_avg_pool_new(&part, 4, 4));
    VV_GO(vv_module_add_child(net, "pool", part));
    VV_GO(vv_flatten_new(&part));
    VV_GO(vv_module_add_child(net, "flatten", part));
    VV_GO(vv_linear_new(&part, 32 * 4 * 4, 32, true));
    VV_GO(vv_module_add_child(net, "fc1", part));
    VV_GO(vv_linear_new(&part, 32, classes, true));
    VV_GO(vv_module_add_child(net, "fc2", part));
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
    VV_TRY(vv_model_need_image("mnist_classifier", input, 8));
    VV_TRY(vv_mnist_classifier_new(&net, input->input_shape[2], input->classes));
    return vv_classifier_build(out, net, input->classes, seed);
}

static const vv_field fields[] = {{.name = NULL}};

const vv_model_desc vv_model_mnist_classifier = {
    .desc = {.kind = "model",
             .name = "mnist_classifier",
             .summary =
                 "Two convolutions and two linear layers: the net of Composer's MNIST recipe.",
             .cite = "Composer",
             .domains = "cv",
             .fields = fields,
             .opts_size = 0},
    .build = build,
    .typical = "image=28,channels=1,classes=10",
};
