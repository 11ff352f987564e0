/* efficientnet.c - EfficientNet: inverted bottlenecks with depth-wise convolutions, squeeze and
 * excitation; widths and depths scaled together. */
#include "efficientnet.h"

#include <math.h>
#include <stdio.h>

/* ---- parts ---- */

static vv_node *forward_all(vv_module *module, vv_graph *graph, vv_node *x)
{
    for (int i = 0; i < vv_module_child_count(module); i++)
        x = vv_module_forward(vv_module_child(module, i), graph, x);
    return x;
}

/* Adds an empty part of a class; *out is borrowed. */
static vv_status push_part(vv_module **out, vv_module *module, const char *name,
                           const vv_module_class *type)
{
    *out = NULL;
    VV_TRY(vv_module_new(out, type, 0));
    return vv_module_add_child(module, name, *out);
}

/* Adds an empty Sequential under its position. */
static vv_status push_sequence(vv_module **out, vv_module *module)
{
    char name[24];

    snprintf(name, sizeof name, "%d", vv_module_child_count(module));
    return push_part(out, module, name, &vv_sequential_class);
}

static vv_status push_activation(vv_module *module, const char *name, vv_activation kind)
{
    vv_module *part = NULL;

    VV_TRY(vv_activation_new(&part, kind, 0.0));
    return vv_module_add_child(module, name, part);
}

/* What all parts of a net share. */
typedef struct vvi_norm {
    double eps, momentum;
} vvi_norm;

typedef struct vvi_unit {
    int64_t in, out, kernel, stride, groups;
    bool active;
} vvi_unit;

/* A Sequential of a convolution, its norm and, if active, SiLU. */
static vv_status push_unit(vv_module *module, const vvi_norm *norm, vvi_unit u)
{
    const vv_conv_opts conv = {
        {u.stride, u.stride}, {u.kernel / 2, u.kernel / 2}, {1, 1}, u.groups, {0, 0}};
    vv_module *unit = NULL, *part = NULL;

    VV_TRY(push_sequence(&unit, module));
    VV_TRY(vv_conv2d_new(&part, u.in, u.out, u.kernel, &conv, false));
    VV_TRY(vv_module_add_child(unit, "0", part));
    VV_TRY(vv_batch_norm_new(&part, u.out, norm->eps, norm->momentum));
    VV_TRY(vv_module_add_child(unit, "1", part));
    return u.active ? push_activation(unit, "2", VV_ACT_SILU) : VV_OK;
}

/* avgpool, fc1, activation, fc2, scale_activation: x times what they make of x */
static vv_node *excite_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    return vv_mul(x, forward_all(module, graph, x));
}

static const vv_module_class excite_class = {"SqueezeExcitation", excite_forward, NULL};

static vv_status push_excite(vv_module *module, int64_t channels, int64_t latent)
{
    vv_module *excite = NULL, *part = NULL;
    char name[24];

    snprintf(name, sizeof name, "%d", vv_module_child_count(module));
    VV_TRY(push_part(&excite, module, name, &excite_class));
    VV_TRY(vv_adaptive_avg_pool_new(&part, 1, 1));
    VV_TRY(vv_module_add_child(excite, "avgpool", part));
    VV_TRY(vv_conv2d_new(&part, channels, latent, 1, NULL, true));
    VV_TRY(vv_module_add_child(excite, "fc1", part));
    VV_TRY(push_activation(excite, "activation", VV_ACT_SILU));
    VV_TRY(vv_conv2d_new(&part, latent, channels, 1, NULL, true));
    VV_TRY(vv_module_add_child(excite, "fc2", part));
    return push_activation(excite, "scale_activation", VV_ACT_SIGMOID);
}

/* ---- blocks: block and, where there is a shortcut, stochastic_depth ---- */

static vv_node *block_forward(vv_module *block, vv_graph *graph, vv_node *x)
{
    if (vv_module_residual(block))
        return vv_residual_forward(block, graph, x);
    return vv_module_forward(vv_module_child(block, 0), graph, x);
}

const vv_module_class vv_mb_conv_class = {"MBConv", block_forward, NULL};
static const vv_residual block_parts = {forward_all, -1, false};

typedef struct vvi_block {
    int64_t in, out, kernel, stride, expand;
    double drop;            /* share of samples that skip it */
    bool activate_projection;
    const vvi_norm *norm;
} vvi_block;

static vv_status fill_block(vv_module *block, const vvi_block *b)
{
    const int64_t mid = b->in * b->expand, latent = b->in / 4 > 1 ? b->in / 4 : 1;
    const bool expands = b->expand > 1;
    vv_module *parts = NULL, *drop = NULL;

    VV_TRY(push_part(&parts, block, "block", &vv_sequential_class));
    if (expands)
        VV_TRY(push_unit(parts, b->norm, (vvi_unit){b->in, mid, 1, 1, 1, true}));
    VV_TRY(push_unit(parts, b->norm, (vvi_unit){mid, mid, b->kernel, b->stride, mid, true}));
    VV_TRY(push_excite(parts, mid, latent));
    VV_TRY(push_unit(parts, b->norm,
                     (vvi_unit){mid, b->out, 1, 1, 1, !expands && b->activate_projection}));
    if (b->stride != 1 || b->in != b->out)
        return VV_OK;
    vv_module_set_residual(block, &block_parts);
    VV_TRY(vv_drop_path_new(&drop, b->drop));
    return vv_module_add_child(block, "stochastic_depth", drop);
}

/* ---- the net: features, avgpool, classifier ---- */

enum { STAGES = 7 };

static const struct {
    int blocks, kernel, stride, expand, channels;
} stages[STAGES] = {
    {1, 3, 1, 1, 16}, {2, 3, 2, 6, 24},  {2, 5, 2, 6, 40},  {3, 3, 2, 6, 80},
    {3, 5, 1, 6, 112}, {4, 5, 2, 6, 192}, {1, 3, 1, 6, 320},
};

static const struct {
    double width, depth, dropout, eps, momentum;
} sizes[] = {
    {1.0, 1.0, 0.2, 1e-5, 0.1}, {1.0, 1.1, 0.2, 1e-5, 0.1},  {1.1, 1.2, 0.3, 1e-5, 0.1},
    {1.2, 1.4, 0.3, 1e-5, 0.1}, {1.4, 1.8, 0.4, 1e-5, 0.1},  {1.6, 2.2, 0.4, 1e-3, 0.01},
    {1.8, 2.6, 0.5, 1e-3, 0.01}, {2.0, 3.1, 0.5, 1e-3, 0.01},
};
static const char *const size_names[] = {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", NULL};

/* To a multiple of 8, at least 8, and not lower than nine tenths. */
static int64_t scaled_channels(double width, int64_t channels)
{
    const double wanted = width * (double)channels;
    int64_t rounded = (int64_t)(wanted + 4.0) / 8 * 8;

    if (rounded < 8)
        rounded = 8;
    return (double)rounded < 0.9 * wanted ? rounded + 8 : rounded;
}

static int64_t scaled_blocks(double depth, int blocks)
{
    return (int64_t)ceil(depth * (double)blocks);
}

static vv_status push_stage(vv_module *features, int stage, const vv_efficientnet_opts *o,
                            vvi_block *b, int64_t *index, int64_t total)
{
    vv_module *sequence = NULL, *block = NULL;
    char name[24];

    VV_TRY(push_sequence(&sequence, features));
    b->kernel = stages[stage].kernel;
    b->stride = stages[stage].stride;
    b->expand = stages[stage].expand;
    b->out = scaled_channels(o->width, stages[stage].channels);
    for (int64_t i = 0; i < scaled_blocks(o->depth, stages[stage].blocks); i++) {
        /* Block i of all N skips with probability drop_connect * i / N, N after scaling. */
        b->drop = o->drop_connect * (double)(*index)++ / (double)total;
        snprintf(name, sizeof name, "%lld", (long long)i);
        VV_TRY(push_part(&block, sequence, name, &vv_mb_conv_class));
        VV_TRY(fill_block(block, b));
        b->in = b->out;
        b->stride = 1;
    }
    return VV_OK;
}

static vv_node *net_forward(vv_module *net, vv_graph *graph, vv_node *x)
{
    x = vv_module_forward(vv_module_child(net, 0), graph, x);
    x = vv_module_forward(vv_module_child(net, 1), graph, x);
    if (!x)
        return NULL;

    const int64_t shape[2] = {vv_node_shape(x)[0], vv_node_shape(x)[3]};

    return vv_module_forward(vv_module_child(net, 2), graph, vv_reshape(x, 2, shape));
}

static const vv_module_class net_class = {"EfficientNet", net_forward, NULL};

static vv_status push_classifier(vv_module *net, int64_t in, int64_t classes, double dropout)
{
    vv_module *classifier = NULL, *part = NULL;

    VV_TRY(push_part(&classifier, net, "classifier", &vv_sequential_class));
    VV_TRY(vv_dropout_new(&part, dropout));
    VV_TRY(vv_module_add_child(classifier, "0", part));
    VV_TRY(vv_linear_new(&part, in, classes, true));
    return vv_module_add_child(classifier, "1", part);
}

static vv_status fill_net(vv_module *net, int64_t channels, int64_t classes,
                          const vv_efficientnet_opts *o)
{
    const vvi_norm norm = {o->bn_eps, o->bn_momentum};
    vvi_block b = {.in = scaled_channels(o->width, 32),
                   .activate_projection = o->activate_projection,
                   .norm = &norm};
    vv_module *features = NULL, *pool = NULL;
    int64_t index = 0, total = 0;

    for (int i = 0; i < STAGES; i++)
        total += scaled_blocks(o->depth, stages[i].blocks);
    VV_TRY(push_part(&features, net, "features", &vv_sequential_class));
    VV_TRY(push_unit(features, &norm, (vvi_unit){channels, b.in, 3, 2, 1, true}));
    for (int i = 0; i < STAGES; i++)
        VV_TRY(push_stage(features, i, o, &b, &index, total));
    VV_TRY(push_unit(features, &norm, (vvi_unit){b.in, 4 * b.in, 1, 1, 1, true}));
    VV_TRY(vv_adaptive_avg_pool_new(&pool, 1, 1));
    VV_TRY(vv_module_add_child(net, "avgpool", pool));
    return push_classifier(net, 4 * b.in, classes, o->dropout);
}

/* Convolutions ~ N(0, 2 / fan out), fan out = kernel * outputs / groups; the head's weights
   U(+-1/sqrt(classes)); biases 0. */
static bool start_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    const uint64_t seed = *(const uint64_t *)ctx;
    const vv_tensor *value = param->value;

    if (value->ndim == 4) {
        const vv_conv2d_layer *conv = vv_module_self(owner);
        const int64_t fan_out = value->shape[0] * value->shape[2] * value->shape[3] /
                                conv->conv.groups;

        vv_param_fill_normal(param, sqrt(2.0 / (double)fan_out), seed, path);
    } else if (value->ndim == 2) {
        const double edge = 1.0 / sqrt((double)value->shape[0]);

        vv_param_fill_uniform(param, -edge, edge, seed, path);
    }
    return true;
}

/* *out = opts with nothing left open. */
static vv_status resolve(vv_efficientnet_opts *out, const vv_efficientnet_opts *opts)
{
    *out = *opts;
    if (out->size < 0 || out->size > 7)
        return vv_fail(VV_EINVAL, "efficientnet: size must be 0 to 7 (B0 to B7), got %d",
                       out->size);
    if (out->width == 0.0)
        out->width = sizes[out->size].width;
    if (out->depth == 0.0)
        out->depth = sizes[out->size].depth;
    if (out->dropout < 0.0)
        out->dropout = sizes[out->size].dropout;
    if (out->bn_eps == 0.0)
        out->bn_eps = sizes[out->size].eps;
    if (out->bn_momentum == 0.0)
        out->bn_momentum = sizes[out->size].momentum;
    if (!(out->width > 0.0 && out->width <= 64.0 && out->depth > 0.0 && out->depth <= 64.0))
        return vv_fail(VV_EINVAL, "efficientnet: width %g and depth %g must be above 0, at most 64",
                       out->width, out->depth);
    return VV_OK;
}

vv_status vv_efficientnet_new(vv_module **out, int64_t channels, int64_t classes,
                              const vv_efficientnet_opts *opts, uint64_t seed)
{
    const vv_efficientnet_opts defaults = VV_EFFICIENTNET_DEFAULTS;
    vv_efficientnet_opts o;
    vv_module *net = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_TRY(resolve(&o, opts ? opts : &defaults));
    VV_GO(vv_module_new(&net, &net_class, 0));
    VV_GO(fill_net(net, channels, classes, &o));
    vv_module_each_param(net, start_param, &seed);
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

/* timm's names, one step after the other: within blocks, then stages, then the ends. Its stage 0
   does not expand, so that its depth-wise convolution is the first of its block. */
static const char *const renamed[] = {
    "blocks.0.*.conv_dw.*", "blocks.0.*.block.0.0.*",
    "blocks.0.*.bn1.*", "blocks.0.*.block.0.1.*",
    "blocks.0.*.se.conv_reduce.*", "blocks.0.*.block.1.fc1.*",
    "blocks.0.*.se.conv_expand.*", "blocks.0.*.block.1.fc2.*",
    "blocks.0.*.conv_pw.*", "blocks.0.*.block.2.0.*",
    "blocks.0.*.bn2.*", "blocks.0.*.block.2.1.*",
    "blocks.*.conv_pw.*", "blocks.*.block.0.0.*",
    "blocks.*.bn1.*", "blocks.*.block.0.1.*",
    "blocks.*.conv_dw.*", "blocks.*.block.1.0.*",
    "blocks.*.bn2.*", "blocks.*.block.1.1.*",
    "blocks.*.se.conv_reduce.*", "blocks.*.block.2.fc1.*",
    "blocks.*.se.conv_expand.*", "blocks.*.block.2.fc2.*",
    "blocks.*.conv_pwl.*", "blocks.*.block.3.0.*",
    "blocks.*.bn3.*", "blocks.*.block.3.1.*",
    "blocks.0.*", "features.1.*",
    "blocks.1.*", "features.2.*",
    "blocks.2.*", "features.3.*",
    "blocks.3.*", "features.4.*",
    "blocks.4.*", "features.5.*",
    "blocks.5.*", "features.6.*",
    "blocks.6.*", "features.7.*",
    "conv_stem.*", "features.0.0.*",
    "bn1.*", "features.0.1.*",
    "conv_head.*", "features.8.0.*",
    "bn2.*", "features.8.1.*",
    "classifier.weight", "classifier.1.weight",
    "classifier.bias", "classifier.1.bias",
    NULL,
};
static const vv_weight_map weight_map = {.renamed = renamed};

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    vv_module *net = NULL;

    VV_TRY(vv_model_need_image("efficientnet", input, 8));
    VV_TRY(vv_efficientnet_new(&net, input->input_shape[2], input->classes, opts, seed));
    VV_TRY(vv_classifier_new(out, net, input->classes));
    (*out)->weight_map = &weight_map;
    return VV_OK;
}

#define AT(field) offsetof(vv_efficientnet_opts, field)
static const vv_field fields[] = {
    {"size", "Which width, depth and dropout.", VV_FIELD_CHOICE, AT(size), "b0", 0, 0, size_names},
    {"width", "Factor of the channels of B0; 0 = the size's.", VV_FIELD_FLOAT, AT(width), "0", 0,
     64, NULL},
    {"depth", "Factor of the blocks of B0; 0 = the size's.", VV_FIELD_FLOAT, AT(depth), "0", 0, 64,
     NULL},
    {"dropout", "Share dropped before the head; -1 = the size's.", VV_FIELD_FLOAT, AT(dropout),
     "-1", -1, 0.99, NULL},
    {"drop_connect", "Share of samples that skip the last block; it grows from 0 at the first.",
     VV_FIELD_FLOAT, AT(drop_connect), "0.2", 0, 0.99, NULL},
    {"activate_projection", "SiLU behind the projection of blocks that do not expand, as Composer "
                            "had it.",
     VV_FIELD_BOOL, AT(activate_projection), "false", 0, 0, NULL},
    {"bn_eps", "Added to variances; 0 = 1e-5, or 1e-3 from B5 on.", VV_FIELD_FLOAT, AT(bn_eps),
     "0", 0, 1, NULL},
    {"bn_momentum", "Weight of a batch in running statistics; 0 = 0.1, or 0.01 from B5 on.",
     VV_FIELD_FLOAT, AT(bn_momentum), "0", 0, 1, NULL},
    {.name = NULL},
};

const vv_model_desc vv_model_efficientnet = {
    .desc = {.kind = "model",
             .name = "efficientnet",
             .summary = "EfficientNet-B0 to B7 with torchvision's names.",
             .cite = "Tan & Le, EfficientNet: Rethinking model scaling, arXiv 1905.11946",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_efficientnet_opts)},
    .build = build,
};
