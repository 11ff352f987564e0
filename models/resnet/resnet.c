/* resnet.c - ResNet with basic or bottleneck blocks, ImageNet or CIFAR stem.
 *
 * Bottlenecks stride in their 3x3 convolution (the "v1.5" form, as torchvision does). */
#include "resnet.h"

#include <stdio.h>

/* ---- blocks ---- */

static vv_node *units_forward(vv_module *module, vv_graph *graph, vv_node *y, int convs)
{
    for (int i = 0; i < convs; i++) {
        y = vv_module_forward(vv_module_child(module, 2 * i), graph, y);
        y = vv_module_forward(vv_module_child(module, 2 * i + 1), graph, y);
        if (i < convs - 1)
            y = vv_relu(y);
    }
    return y;
}

static vv_node *basic_branch(vv_module *module, vv_graph *graph, vv_node *x)
{
    return units_forward(module, graph, x, 2);
}

static vv_node *bottleneck_branch(vv_module *module, vv_graph *graph, vv_node *x)
{
    return units_forward(module, graph, x, 3);
}

/* "downsample", where the shape changes, comes after the convolutions and their norms. */
static const vv_residual basic_parts = {basic_branch, 4, true};
static const vv_residual bottleneck_parts = {bottleneck_branch, 6, true};

const vv_module_class vv_basic_block_class = {"BasicBlock", vv_residual_forward, NULL};
const vv_module_class vv_bottleneck_class = {"Bottleneck", vv_residual_forward, NULL};

/* Convolution "conv<number>" with "same" padding, and its batch norm "bn<number>". */
typedef struct vvi_unit {
    const char *conv, *bn;
    int64_t in, out, kernel, stride, groups, dilation;
} vvi_unit;

static vv_status add_unit(vv_module *module, const vvi_unit *unit)
{
    const vv_conv_opts conv = {{unit->stride, unit->stride},
                               {unit->kernel / 2 * unit->dilation,
                                unit->kernel / 2 * unit->dilation},
                               {unit->dilation, unit->dilation},
                               unit->groups,
                               {0, 0}};
    vv_module *part = NULL;

    VV_TRY(vv_conv2d_new(&part, unit->in, unit->out, unit->kernel, &conv, false));
    VV_TRY(vv_module_add_child(module, unit->conv, part));
    VV_TRY(vv_batch_norm_new(&part, unit->out, 1e-5, 0.1));
    return vv_module_add_child(module, unit->bn, part);
}

/* Width and place of a block: `planes` of its stage, channels coming in. A stage's first block has
   the dilation of the stage before. */
typedef struct vvi_block {
    int64_t in, planes, stride;
    bool bottleneck;
    int64_t groups, width_per_group;
    int64_t first_dilation, dilation;
} vvi_block;

static int64_t block_out(const vvi_block *block)
{
    return block->bottleneck ? 4 * block->planes : block->planes;
}

static vv_status add_downsample(vv_module *module, const vvi_block *block)
{
    const vvi_unit unit = {"0", "1", block->in, block_out(block), 1, block->stride, 1, 1};
    vv_module *sequence = NULL;
    vv_status status;

    if (block->stride == 1 && block->in == block_out(block))
        return VV_OK;
    VV_TRY(vv_sequential_new(&sequence));
    status = add_unit(sequence, &unit);
    if (status != VV_OK) {
        vv_module_free(sequence);
        return status;
    }
    return vv_module_add_child(module, "downsample", sequence);
}

static vv_status block_new(vv_module **out, const vvi_block *b)
{
    const int64_t width = b->planes * b->width_per_group / 64 * b->groups;
    const vvi_unit basic[] = {
        {"conv1", "bn1", b->in, b->planes, 3, b->stride, 1, b->first_dilation},
        {"conv2", "bn2", b->planes, b->planes, 3, 1, 1, b->dilation},
    };
    const vvi_unit bottleneck[] = {
        {"conv1", "bn1", b->in, width, 1, 1, 1, 1},
        {"conv2", "bn2", width, width, 3, b->stride, b->groups, b->first_dilation},
        {"conv3", "bn3", width, 4 * b->planes, 1, 1, 1, 1},
    };
    vv_module *block = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_GO(vv_module_new(&block, b->bottleneck ? &vv_bottleneck_class : &vv_basic_block_class, 0));
    vv_module_set_residual(block, b->bottleneck ? &bottleneck_parts : &basic_parts);
    for (int i = 0; i < (b->bottleneck ? 3 : 2); i++)
        VV_GO(add_unit(block, b->bottleneck ? &bottleneck[i] : &basic[i]));
    VV_GO(add_downsample(block, b));
    *out = block;
    block = NULL;
out:
    vv_module_free(block);
    return status;
}

/* ---- the net ---- */

typedef struct vvi_plan {
    const char *text;
    bool bottleneck;
    int blocks[4];
} vvi_plan;

static const vvi_plan plans[] = {
    [VV_RESNET_18] = {"18", false, {2, 2, 2, 2}},   [VV_RESNET_34] = {"34", false, {3, 4, 6, 3}},
    [VV_RESNET_50] = {"50", true, {3, 4, 6, 3}},    [VV_RESNET_101] = {"101", true, {3, 4, 23, 3}},
    [VV_RESNET_152] = {"152", true, {3, 8, 36, 3}},
};

static vv_node *net_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    int count = vv_module_child_count(module);
    int64_t shape[2];

    x = vv_module_forward(vv_module_child(module, 0), graph, x);
    x = vv_relu(vv_module_forward(vv_module_child(module, 1), graph, x));
    for (int i = 2; i < count - 1; i++) /* maxpool if there is one, the stages, avgpool */
        x = vv_module_forward(vv_module_child(module, i), graph, x);
    if (!x)
        return NULL;
    shape[0] = vv_node_shape(x)[0];
    shape[1] = vv_node_shape(x)[3];
    return vv_module_forward(vv_module_child(module, count - 1), graph, vv_reshape(x, 2, shape));
}

static const vv_module_class net_class = {"ResNet", net_forward, NULL};

static vv_status add_stem(vv_module *net, int64_t channels, int64_t width, bool imagenet)
{
    static const vv_pool_opts pool = {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
    const vvi_unit unit = {"conv1", "bn1", channels, width, imagenet ? 7 : 3, imagenet ? 2 : 1,
                           1,       1};
    vv_module *part = NULL;

    VV_TRY(add_unit(net, &unit));
    if (!imagenet)
        return VV_OK;
    VV_TRY(vv_max_pool_new(&part, &pool));
    return vv_module_add_child(net, "maxpool", part);
}

static vv_status add_stage(vv_module *net, int number, vvi_block *block, int count)
{
    char name[16];
    vv_module *stage = NULL, *part = NULL;
    vv_status status = VV_OK;

    VV_GO(vv_sequential_new(&stage));
    for (int i = 0; i < count; i++) {
        VV_GO(block_new(&part, block));
        VV_GO(vv_sequential_push(stage, VV_OK, part));
        block->in = block_out(block);
        block->stride = 1;
        block->first_dilation = block->dilation;
    }
    snprintf(name, sizeof name, "layer%d", number);
    return vv_module_add_child(net, name, stage);
out:
    vv_module_free(stage);
    return status;
}

static vv_status check_opts(const vv_resnet_opts *o)
{
    if (o->depth < VV_RESNET_18 || o->depth > VV_RESNET_152)
        return vv_fail(VV_EINVAL, "resnet: depth must be one of vv_resnet_depth, got %d", o->depth);
    if (o->stem != VV_RESNET_STEM_IMAGENET && o->stem != VV_RESNET_STEM_CIFAR)
        return vv_fail(VV_EINVAL, "resnet: stem must be one of vv_resnet_stem, got %d", o->stem);
    if (o->groups < 1 || o->width_per_group < 1)
        return vv_fail(VV_EINVAL, "resnet: groups %lld and width_per_group %lld must be positive",
                       (long long)o->groups, (long long)o->width_per_group);
    if (!plans[o->depth].bottleneck && (o->groups != 1 || o->width_per_group != 64))
        return vv_fail(
            VV_EINVAL,
            "resnet: depth %s has basic blocks, which need groups 1 and width_per_group 64; "
            "take depth 50 or more",
            plans[o->depth].text);
    return VV_OK;
}

vv_status vv_resnet_trunk_add(vv_module *net, const vv_resnet_trunk_opts *o, int64_t *width)
{
    vvi_block block = {.in = o->width, .groups = 1, .width_per_group = 64, .dilation = 1};

    *width = 0;
    if (o->depth < VV_RESNET_18 || o->depth > VV_RESNET_152 || o->stages < 1 || o->stages > 4)
        return vv_fail(VV_EINVAL, "resnet: depth %d must be one of vv_resnet_depth, stages %d "
                                  "within 1..4", o->depth, o->stages);
    block.bottleneck = plans[o->depth].bottleneck;
    if (o->width < 1)
        return vv_fail(VV_EINVAL, "resnet: width %lld must be positive", (long long)o->width);
    VV_TRY(add_stem(net, o->channels, o->width, true));
    for (int i = 0; i < o->stages; i++) {
        block.planes = o->width << i;
        block.stride = o->stride[i];
        block.first_dilation = block.dilation;
        block.dilation = o->dilation[i] > 0 ? o->dilation[i] : 1;
        VV_TRY(add_stage(net, i + 1, &block, plans[o->depth].blocks[i]));
    }
    *width = block.in;
    return VV_OK;
}

vv_node *vv_resnet_trunk_forward(vv_module *net, vv_graph *graph, vv_node *x, vv_node **stages)
{
    static const char *const names[] = {"layer1", "layer2", "layer3", "layer4"};

    x = vv_module_forward(vv_module_find(net, "conv1"), graph, x);
    x = vv_relu(vv_module_forward(vv_module_find(net, "bn1"), graph, x));
    x = vv_module_forward(vv_module_find(net, "maxpool"), graph, x);
    for (int i = 0; i < 4; i++) {
        vv_module *stage = vv_module_find(net, names[i]);
        x = stage ? vv_module_forward(stage, graph, x) : x;
        if (stages)
            stages[i] = stage ? x : NULL;
    }
    return x;
}

vv_status vv_resnet_new(vv_module **out, int64_t channels, int64_t classes,
                        const vv_resnet_opts *opts)
{
    const vv_resnet_opts defaults = VV_RESNET_DEFAULTS;
    const vv_resnet_opts *o = opts ? opts : &defaults;
    vvi_block block = {.in = 64, .groups = o->groups, .width_per_group = o->width_per_group,
                       .first_dilation = 1, .dilation = 1};
    vv_module *net = NULL, *part = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_TRY(check_opts(o));
    block.bottleneck = plans[o->depth].bottleneck;
    VV_GO(vv_module_new(&net, &net_class, 0));
    VV_GO(add_stem(net, channels, 64, o->stem == VV_RESNET_STEM_IMAGENET));
    for (int i = 0; i < 4; i++) {
        block.planes = INT64_C(64) << i;
        block.stride = i ? 2 : 1;
        VV_GO(add_stage(net, i + 1, &block, plans[o->depth].blocks[i]));
    }
    VV_GO(vv_adaptive_avg_pool_new(&part, 1, 1));
    VV_GO(vv_module_add_child(net, "avgpool", part));
    VV_GO(vv_linear_new(&part, block.in, classes, true));
    VV_GO(vv_module_add_child(net, "fc", part));
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

/* Which of timm's it is: by its blocks. */
static vv_status timm(const vv_model *model, const vv_sample_spec *input, vv_str *out)
{
    static const struct {
        const char *name;
        int blocks[4];
    } nets[] = {{"resnet18", {2, 2, 2, 2}}, {"resnet34", {3, 4, 6, 3}}, {"resnet50", {3, 4, 6, 3}},
                {"resnet101", {3, 4, 23, 3}}, {"resnet152", {3, 8, 36, 3}}};
    static const char *const stages[] = {"layer1", "layer2", "layer3", "layer4"};
    vv_module *stem = vv_module_find(model->net, "conv1");
    const bool deep = vv_module_find(model->net, "layer1.0.conv3") != NULL;
    vv_module *inner = vv_module_find(model->net, "layer1.0.conv2");
    const vv_conv2d_layer *first = stem ? vv_module_self(stem) : NULL;
    const vv_conv2d_layer *middle = inner ? vv_module_self(inner) : NULL;
    for (size_t i = deep ? 2 : 0; i < (deep ? 5u : 2u); i++) {
        bool same = first && middle && vv_module_type(stem) == &vv_conv2d_class &&
                    vv_module_type(inner) == &vv_conv2d_class && first->kernel[0] == 7;
        for (int s = 0; s < 4 && same; s++) {
            const vv_module *stage = vv_module_find(model->net, stages[s]);
            same = stage && vv_module_child_count(stage) == nets[i].blocks[s];
        }
        if (!same)
            continue;
        vv_str_addf(out, "\"architecture\": \"%s\", \"model_args\": {\"in_chans\": %lld",
                    nets[i].name, (long long)input->input_shape[2]);
        if (deep)
            vv_str_addf(out, ", \"cardinality\": %lld, \"base_width\": %lld",
                        (long long)middle->conv.groups,
                        (long long)(middle->out_channels / middle->conv.groups));
        vv_str_add(out, "}");
        return vv_str_status(out);
    }
    return vv_fail(VV_EUNSUPPORTED, "timm has no ResNet with this stem or with these layers");
}
static const vv_weight_map weight_map = {.timm = timm};

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    vv_module *net = NULL;
    vv_model *model = NULL;
    vv_status status;

    VV_TRY(vv_model_need_image("resnet", input, 8));
    VV_TRY(vv_resnet_new(&net, input->input_shape[2], input->classes, opts));
    VV_TRY(vv_classifier_build(&model, net, input->classes, seed));
    /* As torchvision builds it: convolutions from the number of outputs. */
    status = vv_module_init(model->net, "kaiming_normal_fan_out", seed);
    if (status != VV_OK) {
        vv_model_free(model);
        return status;
    }
    model->weight_map = &weight_map;
    *out = model;
    return VV_OK;
}

static const char *const depths[] = {"18", "34", "50", "101", "152", NULL};
static const char *const stems[] = {"imagenet", "cifar", NULL};

static const vv_field fields[] = {
    {"depth", "Layers with weights.", VV_FIELD_CHOICE, offsetof(vv_resnet_opts, depth), "18", 0, 0,
     depths},
    {"stem", "First layers: imagenet (7x7 stride 2 and pooling) or cifar (3x3 stride 1).",
     VV_FIELD_CHOICE, offsetof(vv_resnet_opts, stem), "imagenet", 0, 0, stems},
    {"groups", "Groups of the 3x3 convolutions in bottleneck blocks.", VV_FIELD_INT,
     offsetof(vv_resnet_opts, groups), "1", 1, 1024, NULL},
    {"width_per_group", "Channels per group in the first stage's bottlenecks.", VV_FIELD_INT,
     offsetof(vv_resnet_opts, width_per_group), "64", 1, 4096, NULL},
    {.name = NULL},
};

const vv_model_desc vv_model_resnet = {
    .desc = {.kind = "model",
             .name = "resnet",
             .summary = "ResNet-18/34/50/101/152 with torchvision's names; ImageNet or CIFAR stem.",
             .cite = "He et al., Deep residual learning for image recognition, arXiv 1512.03385",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_resnet_opts)},
    .build = build,
};
