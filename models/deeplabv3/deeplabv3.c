/* deeplabv3.c - DeepLabv3 and v3+: a dilated ResNet, pyramid pooling by dilated convolutions, and
 * in v3+ a decoder that joins the first stage in.
 *
 * The heads "plus" and "plain" are those of MMSegmentation's models, "torchvision" is torchvision's
 * with its names. */
#include "deeplabv3.h"

#include <vivace/resnet.h>

enum { BACKBONE, CLASSIFIER };

/* ---- parts ---- */

/* Convolution, batch norm and ReLU. */
typedef struct vvi_conv {
    int64_t in, out, kernel, dilation, groups;
} vvi_conv;

static vv_status push_conv(vv_module *list, const vvi_conv *c)
{
    const int64_t pad = c->kernel / 2 * c->dilation;
    const vv_conv_opts conv = {{1, 1}, {pad, pad}, {c->dilation, c->dilation}, c->groups, {0, 0}};
    vv_module *part = NULL;
    vv_status made = vv_conv2d_new(&part, c->in, c->out, c->kernel, &conv, false);

    VV_TRY(vv_sequential_push(list, made, part));
    made = vv_batch_norm_new(&part, c->out, 1e-5, 0.1);
    VV_TRY(vv_sequential_push(list, made, part));
    made = vv_activation_new(&part, VV_ACT_RELU, 0.0);
    return vv_sequential_push(list, made, part);
}

/* 3x3 per channel, then 1x1 across channels, each with batch norm and ReLU. */
static vv_status push_separable(vv_module *list, int64_t in, int64_t out, int64_t dilation)
{
    const vvi_conv depthwise = {in, in, 3, dilation, in}, pointwise = {in, out, 1, 1, 1};

    VV_TRY(push_conv(list, &depthwise));
    return push_conv(list, &pointwise);
}

/* A list "name" of one convolution, ordinary or (kernel 3) separable. */
static vv_status add_conv(vv_module *parent, const char *name, const vvi_conv *c, bool separable)
{
    vv_module *list = NULL;
    vv_status status = VV_OK;

    VV_GO(vv_sequential_new(&list));
    VV_GO(separable ? push_separable(list, c->in, c->out, c->dilation) : push_conv(list, c));
    return vv_module_add_child(parent, name, list);
out:
    vv_module_free(list);
    return status;
}

/* Whole channels of an item are dropped together (Tompson et al., arXiv 1411.4280). */
static vv_node *drop_channels(vv_module *head, vv_graph *graph, vv_node *x)
{
    const double p = *(const double *)vv_module_self(head);

    if (!x || p <= 0.0 || !vv_module_training(head))
        return x;

    const int64_t shape[4] = {vv_node_shape(x)[0], 1, 1, vv_node_shape(x)[3]};

    return vv_mul(x, vv_cast(vv_dropout(vv_full(graph, VV_F32, 4, shape, 1.0), p),
                             vv_node_dtype(x)));
}

/* ---- pyramid pooling: 1x1, three dilated 3x3, and the whole picture's mean ---- */

static vv_node *pooling_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    if (!x)
        return NULL;

    const int64_t height = vv_node_shape(x)[1], width = vv_node_shape(x)[2];

    x = vv_adaptive_avg_pool2d(x, 1, 1);
    for (int i = 0; i < vv_module_child_count(module); i++)
        x = vv_module_forward(vv_module_child(module, i), graph, x);
    /* Bilinear from one pixel is that pixel everywhere. */
    return vv_resize(x, height, width, VV_RESIZE_NEAREST);
}

static const vv_module_class pooling_class = {"ASPPPooling", pooling_forward, NULL};

enum { BRANCHES = 5 };

/* Child 0 is the list of branches; child 1, where there is one, makes their channels few again. */
static vv_node *aspp_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_module *convs = vv_module_child(module, 0);
    vv_node *parts[BRANCHES];

    for (int i = 0; i < BRANCHES; i++) {
        parts[i] = vv_module_forward(vv_module_child(convs, i), graph, x);
        if (!parts[i])
            return NULL;
    }
    x = vv_concat(parts, BRANCHES, 3);
    return vv_module_child_count(module) > 1
               ? vv_module_forward(vv_module_child(module, 1), graph, x)
               : x;
}

static const vv_module_class aspp_class = {"ASPP", aspp_forward, NULL};

/* torchvision numbers the pool too: convolution and norm are "1" and "2". */
static vv_status add_pooling(vv_module *convs, int64_t in, int64_t out)
{
    vv_module *pooling = NULL, *part = NULL;
    vv_status status = VV_OK;

    VV_GO(vv_module_new(&pooling, &pooling_class, 0));
    VV_GO(vv_conv2d_new(&part, in, out, 1, NULL, false));
    VV_GO(vv_module_add_child(pooling, "1", part));
    VV_GO(vv_batch_norm_new(&part, out, 1e-5, 0.1));
    VV_GO(vv_module_add_child(pooling, "2", part));
    VV_GO(vv_activation_new(&part, VV_ACT_RELU, 0.0));
    VV_GO(vv_module_add_child(pooling, "3", part));
    return vv_module_add_child(convs, "4", pooling);
out:
    vv_module_free(pooling);
    return status;
}

/* 1x1 and dropout of single numbers. */
static vv_status add_project(vv_module *aspp, int64_t in, int64_t out)
{
    const vvi_conv conv = {in, out, 1, 1, 1};
    vv_module *list = NULL, *part = NULL;
    vv_status status = VV_OK, made;

    VV_GO(vv_sequential_new(&list));
    VV_GO(push_conv(list, &conv));
    made = vv_dropout_new(&part, 0.5);
    VV_GO(vv_sequential_push(list, made, part));
    return vv_module_add_child(aspp, "project", list);
out:
    vv_module_free(list);
    return status;
}

/* "convs" 0 to 4 and, if wanted, "project". The dilations are for a stride of 8: with a larger one
   they shrink, so that the branches see as far. */
static vv_status aspp_new(vv_module **out, int64_t in, const vv_deeplabv3_opts *o, bool separable,
                          bool project)
{
    static const char *const names[] = {"0", "1", "2", "3"};
    const int64_t width = o->head_width;
    vv_module *aspp = NULL, *convs = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_GO(vv_module_new(&aspp, &aspp_class, 0));
    VV_GO(vv_sequential_new(&convs));
    VV_GO(vv_module_add_child(aspp, "convs", convs));
    for (int i = 0; i < 4; i++) {
        const int64_t far = i * 12 * 8 / o->output_stride;
        const vvi_conv conv = {in, width, i ? 3 : 1, i ? far : 1, 1};

        VV_GO(add_conv(convs, names[i], &conv, separable && i));
    }
    VV_GO(add_pooling(convs, in, width));
    if (project)
        VV_GO(add_project(aspp, BRANCHES * width, width));
    *out = aspp;
    aspp = NULL;
out:
    vv_module_free(aspp);
    return status;
}

/* ---- heads ---- */

/* vv_module_self is the dropout. Of v3+: "aspp", "bottleneck", "c1", "sep1", "sep2", "conv_seg"; of
   the plain ones "0" (pyramid), "1", "2" (convolution, norm), "4" (the last convolution). */
enum { ASPP, BOTTLENECK, C1, SEP1, SEP2, CONV_SEG };

static vv_node *plus_forward(vv_module *module, vv_graph *graph, vv_node *first, vv_node *last)
{
    vv_node *parts[2], *x;

    x = vv_module_forward(vv_module_child(module, ASPP), graph, last);
    x = vv_module_forward(vv_module_child(module, BOTTLENECK), graph, x);
    if (!x || !first)
        return NULL;
    parts[0] = vv_resize(x, vv_node_shape(first)[1], vv_node_shape(first)[2], VV_RESIZE_BILINEAR);
    parts[1] = vv_module_forward(vv_module_child(module, C1), graph, first);
    if (!parts[0] || !parts[1])
        return NULL;
    x = vv_concat(parts, 2, 3);
    x = vv_module_forward(vv_module_child(module, SEP1), graph, x);
    x = vv_module_forward(vv_module_child(module, SEP2), graph, x);
    return vv_module_forward(vv_module_child(module, CONV_SEG), graph,
                             drop_channels(module, graph, x));
}

static vv_node *plain_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    x = vv_module_forward(vv_module_child(module, 0), graph, x);
    x = vv_module_forward(vv_module_child(module, 1), graph, x);
    x = vv_relu(vv_module_forward(vv_module_child(module, 2), graph, x));
    return vv_module_forward(vv_module_child(module, 3), graph, drop_channels(module, graph, x));
}

/* v3+ needs the first stage beside the last: the net calls plus_forward. */
static vv_node *alone_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)module;
    (void)x;
    return vv_graph_fail(graph, vv_fail(VV_ESTATE, "DeepLabPlusHead: called by its net only"));
}

static const vv_module_class plus_class = {"DeepLabPlusHead", alone_forward, NULL};
static const vv_module_class plain_class = {"DeepLabHead", plain_forward, NULL};

static vv_status fill_plus(vv_module *head, const int64_t ends[2], int64_t classes,
                           const vv_deeplabv3_opts *o)
{
    const int64_t width = o->head_width, narrow = (48 * width + 256) / 512;
    const int64_t few = narrow > 0 ? narrow : 1;
    const vvi_conv bottleneck = {BRANCHES * width, width, 3, 1, 1}, c1 = {ends[0], few, 1, 1, 1},
                   sep1 = {width + few, width, 3, 1, 1}, sep2 = {width, width, 3, 1, 1};
    vv_module *part = NULL;

    VV_TRY(aspp_new(&part, ends[1], o, true, false));
    VV_TRY(vv_module_add_child(head, "aspp", part));
    VV_TRY(add_conv(head, "bottleneck", &bottleneck, true));
    VV_TRY(add_conv(head, "c1", &c1, false));
    VV_TRY(add_conv(head, "sep1", &sep1, true));
    VV_TRY(add_conv(head, "sep2", &sep2, true));
    VV_TRY(vv_conv2d_new(&part, width, classes, 1, NULL, true));
    return vv_module_add_child(head, "conv_seg", part);
}

static vv_status fill_plain(vv_module *head, const int64_t ends[2], int64_t classes,
                            const vv_deeplabv3_opts *o)
{
    const bool project = o->head == VV_DEEPLAB_TORCHVISION;
    const int64_t width = o->head_width;
    const vv_conv_opts conv = {{1, 1}, {1, 1}, {1, 1}, 1, {0, 0}};
    vv_module *part = NULL;

    VV_TRY(aspp_new(&part, ends[1], o, false, project));
    VV_TRY(vv_module_add_child(head, "0", part));
    VV_TRY(vv_conv2d_new(&part, project ? width : BRANCHES * width, width, 3, &conv, false));
    VV_TRY(vv_module_add_child(head, "1", part));
    VV_TRY(vv_batch_norm_new(&part, width, 1e-5, 0.1));
    VV_TRY(vv_module_add_child(head, "2", part));
    VV_TRY(vv_conv2d_new(&part, width, classes, 1, NULL, true));
    return vv_module_add_child(head, "4", part);
}

static vv_status head_new(vv_module **out, const int64_t ends[2], int64_t classes,
                          const vv_deeplabv3_opts *o)
{
    const bool is_plus = o->head == VV_DEEPLAB_PLUS;
    vv_module *head = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_GO(vv_module_new(&head, is_plus ? &plus_class : &plain_class, sizeof(double)));
    *(double *)vv_module_self(head) = o->head == VV_DEEPLAB_TORCHVISION ? 0.0 : o->dropout;
    VV_GO(is_plus ? fill_plus(head, ends, classes, o) : fill_plain(head, ends, classes, o));
    *out = head;
    head = NULL;
out:
    vv_module_free(head);
    return status;
}

/* ---- the net ---- */

static vv_node *net_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_module *head = vv_module_child(module, CLASSIFIER);
    vv_node *stages[4], *y;

    if (!x)
        return NULL;
    y = vv_resnet_trunk_forward(vv_module_child(module, BACKBONE), graph, x, stages);
    y = vv_module_type(head) == &plus_class ? plus_forward(head, graph, stages[0], y)
                                            : vv_module_forward(head, graph, y);
    return vv_resize(y, vv_node_shape(x)[1], vv_node_shape(x)[2], VV_RESIZE_BILINEAR);
}

static const vv_module_class net_class = {"DeepLabV3", net_forward, NULL};

static vv_node *backbone_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    return vv_resnet_trunk_forward(module, graph, x, NULL);
}

static const vv_module_class backbone_class = {"ResNetBackbone", backbone_forward, NULL};

/* Stages whose stride would lead beyond output_stride are dilated in its place. */
static vv_status backbone_new(vv_module **out, int64_t channels, const vv_deeplabv3_opts *o,
                              int64_t ends[2])
{
    vv_resnet_trunk_opts trunk = {.depth = o->backbone, .channels = channels, .width = o->width,
                                  .stages = 4, .stride = {1, 2, 2, 2}};
    int64_t stride = 4, dilation = 1;
    vv_module *net = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    for (int i = 1; i < 4; i++) {
        if (stride == o->output_stride) {
            trunk.stride[i] = 1;
            dilation *= 2;
        }
        stride *= trunk.stride[i];
        trunk.dilation[i] = dilation;
    }
    VV_GO(vv_module_new(&net, &backbone_class, 0));
    VV_GO(vv_resnet_trunk_add(net, &trunk, &ends[1]));
    ends[0] = ends[1] / 8;
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

static vv_status check_opts(const vv_deeplabv3_opts *o)
{
    const int64_t stride = o->output_stride;

    if (o->head < VV_DEEPLAB_PLUS || o->head > VV_DEEPLAB_TORCHVISION)
        return vv_fail(VV_EINVAL, "deeplabv3: head must be one of vv_deeplab_head, got %d",
                       o->head);
    if (o->width < 1 || o->head_width < 1 || (stride != 8 && stride != 16 && stride != 32))
        return vv_fail(VV_EINVAL,
                       "deeplabv3: width %lld and head_width %lld must be positive, output_stride "
                       "%lld 8, 16 or 32", (long long)o->width, (long long)o->head_width,
                       (long long)stride);
    if (!(o->dropout >= 0.0 && o->dropout < 1.0))
        return vv_fail(VV_EINVAL, "deeplabv3: dropout %g is outside [0, 1)", o->dropout);
    return VV_OK;
}

vv_status vv_deeplabv3_new(vv_module **out, int64_t channels, int64_t classes,
                           const vv_deeplabv3_opts *opts)
{
    const vv_deeplabv3_opts defaults = VV_DEEPLABV3_DEFAULTS;
    const vv_deeplabv3_opts *o = opts ? opts : &defaults;
    int64_t ends[2] = {0}; /* channels of the first stage and of the last */
    vv_module *net = NULL, *part = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_TRY(check_opts(o));
    VV_GO(vv_module_new(&net, &net_class, 0));
    VV_GO(backbone_new(&part, channels, o, ends));
    VV_GO(vv_module_add_child(net, "backbone", part));
    VV_GO(head_new(&part, ends, classes, o));
    VV_GO(vv_module_add_child(net, "classifier", part));
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

/* ---- as a model ---- */

/* A classifier's file has the backbone without "backbone." and a layer too many; torchvision's
   segmentation files have an auxiliary classifier. */
static const char *const ignored[] = {"aux_classifier.*", "fc.*", "backbone.fc.*", NULL};
static const char *const prefixes[] = {"backbone.", NULL};
static const vv_weight_map weight_map = {.prefixes = prefixes, .ignored = ignored};

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    vv_module *net = NULL;
    vv_model *model = NULL;
    vv_status status;

    VV_TRY(vv_model_need_mask("deeplabv3", input, 8));
    VV_TRY(vv_deeplabv3_new(&net, input->input_shape[2], input->classes, opts));
    VV_TRY(vv_segmenter_build(&model, net, input->classes, seed));
    model->weight_map = &weight_map;
    /* The backbone starts as a classifier's. */
    status = vv_module_init(vv_module_child(model->net, BACKBONE), "kaiming_normal_fan_out", seed);
    if (status != VV_OK) {
        vv_model_free(model);
        return status;
    }
    *out = model;
    return VV_OK;
}

static const char *const depths[] = {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152",
                                     NULL};
static const char *const heads[] = {"plus", "plain", "torchvision", NULL};
#define AT(member) offsetof(vv_deeplabv3_opts, member)
static const vv_field fields[] = {
    {"backbone", "ResNet below the head.", VV_FIELD_CHOICE, AT(backbone), "resnet50", 0, 0,
     depths},
    {"head",
     "plus: v3+, with separable convolutions and the first stage joined in; plain: v3; "
     "torchvision: v3 as torchvision builds it.",
     VV_FIELD_CHOICE, AT(head), "plus", 0, 0, heads},
    {"width", "Channels of the backbone's first layer (64 is the ResNet of the papers).",
     VV_FIELD_INT, AT(width), "64", 1, 4096, NULL},
    {"head_width", "Channels of the head (torchvision: 256).", VV_FIELD_INT, AT(head_width), "512",
     1, 8192, NULL},
    {"output_stride", "How many times smaller the backbone's last stage is: 8, 16 or 32.",
     VV_FIELD_INT, AT(output_stride), "8", 8, 32, NULL},
    {"dropout", "Share of the channels dropped before the classifier (head torchvision: 0.5 of "
                "the numbers after the pyramid, always).",
     VV_FIELD_FLOAT, AT(dropout), "0.1", 0, 0.99, NULL},
    {.name = NULL},
};

const vv_model_desc vv_model_deeplabv3 = {
    .desc = {.kind = "model",
             .name = "deeplabv3",
             .summary =
                 "DeepLabv3 and v3+ for masks, on a dilated ResNet with torchvision's names.",
             .cite = "Chen et al., Encoder-decoder with atrous separable convolution for semantic "
                     "image segmentation, arXiv 1802.02611",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_deeplabv3_opts)},
    .build = build,
    .typical = "image=512,classes=150",
};
