/* unet.c - a U-Net for pictures with a residual encoder, and the start nnU-Net gives it. */
#include "unet.h"

#include <math.h>
#include <stdio.h>

#define SLOPE 0.01 /* of the leaky ReLU */

enum { CONV1, NORM1, CONV2, NORM2, CONV3, NORM3 };

/* ---- encoder: y = leaky(norm(conv(leaky(norm(conv x)))) + shortcut x) ---- */

static vv_node *unit(vv_module *module, vv_graph *graph, int conv, vv_node *x)
{
    x = vv_module_forward(vv_module_child(module, conv), graph, x);
    return vv_module_forward(vv_module_child(module, conv + 1), graph, x);
}

static vv_node *down_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *y = vv_leaky_relu(unit(module, graph, CONV1, x), SLOPE);

    y = unit(module, graph, CONV2, y);
    if (vv_module_child_count(module) > CONV3)
        x = unit(module, graph, CONV3, x);
    return vv_leaky_relu(vv_add(y, x), SLOPE);
}

const vv_module_class vv_unet_down_class = {"UNetDown", down_forward, NULL};

/* Convolution "conv<n>" without bias, padded to the same size, and its batch norm "norm<n>". */
static vv_status add_unit(vv_module *module, int number, int64_t in, int64_t out, int64_t stride)
{
    const vv_conv_opts conv = {{stride, stride}, {1, 1}, {1, 1}, 1, {0, 0}};
    char name[16];
    vv_module *part = NULL;

    VV_TRY(vv_conv2d_new(&part, in, out, 3, &conv, false));
    snprintf(name, sizeof name, "conv%d", number);
    VV_TRY(vv_module_add_child(module, name, part));
    VV_TRY(vv_batch_norm_new(&part, out, 1e-5, 0.1));
    snprintf(name, sizeof name, "norm%d", number);
    return vv_module_add_child(module, name, part);
}

static vv_status down_new(vv_module **out, int64_t in, int64_t channels, int64_t stride)
{
    vv_module *block = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_GO(vv_module_new(&block, &vv_unet_down_class, 0));
    VV_GO(add_unit(block, 1, in, channels, stride));
    VV_GO(add_unit(block, 2, channels, channels, 1));
    if (stride > 1 || in != channels)
        VV_GO(add_unit(block, 3, in, channels, stride));
    *out = block;
    block = NULL;
out:
    vv_module_free(block);
    return status;
}

/* ---- decoder: twice as large, beside the encoder's, two convolutions ---- */

enum { TRANSPOSED, UP_CONV1, UP_NORM1, UP_CONV2, UP_NORM2 };

/* The skip is a second operand, which a module's forward does not have: the net calls this. */
static vv_node *up(vv_module *module, vv_graph *graph, vv_node *x, vv_node *skip)
{
    vv_node *parts[2];

    parts[0] = vv_module_forward(vv_module_child(module, TRANSPOSED), graph, x);
    parts[1] = skip;
    x = parts[0] && skip ? vv_concat(parts, 2, 3) : NULL;
    x = vv_leaky_relu(unit(module, graph, UP_CONV1, x), SLOPE);
    return vv_leaky_relu(unit(module, graph, UP_CONV2, x), SLOPE);
}

static vv_node *up_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)module;
    (void)x;
    return vv_graph_fail(graph, vv_fail(VV_ESTATE, "UNetUp: called by its net only"));
}

const vv_module_class vv_unet_up_class = {"UNetUp", up_forward, NULL};

static vv_status up_new(vv_module **out, int64_t in, int64_t channels)
{
    const vv_conv_opts conv = {{2, 2}, {0, 0}, {1, 1}, 1, {0, 0}};
    vv_module *block = NULL, *part = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_GO(vv_module_new(&block, &vv_unet_up_class, 0));
    VV_GO(vv_conv_transpose2d_new(&part, in, channels, 2, &conv, true));
    VV_GO(vv_module_add_child(block, "transp_conv", part));
    VV_GO(add_unit(block, 1, 2 * channels, channels, 1));
    VV_GO(add_unit(block, 2, channels, channels, 1));
    *out = block;
    block = NULL;
out:
    vv_module_free(block);
    return status;
}

/* ---- the net: levels - 1 blocks each way, the first block and the last convolution ---- */

enum { INPUT, DOWNS, UPS, OUTPUT };

static vv_node *pad_to(vv_node *x, int64_t multiple)
{
    const int64_t height = vv_node_shape(x)[1], width = vv_node_shape(x)[2];
    const int64_t before[4] = {0, 0, 0, 0};
    const int64_t after[4] = {0, (multiple - height % multiple) % multiple,
                              (multiple - width % multiple) % multiple, 0};

    return after[1] || after[2] ? vv_pad(x, before, after, 0.0) : x;
}

static vv_node *crop_to(vv_node *x, int64_t height, int64_t width)
{
    if (x && vv_node_shape(x)[1] != height)
        x = vv_slice(x, 1, 0, height, 1);
    if (x && vv_node_shape(x)[2] != width)
        x = vv_slice(x, 2, 0, width, 1);
    return x;
}

#define MOST_LEVELS 10

static vv_node *net_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_module *downs = vv_module_child(module, DOWNS), *ups = vv_module_child(module, UPS);
    const int steps = vv_module_child_count(downs);
    vv_node *levels[MOST_LEVELS];

    if (!x)
        return NULL;

    const int64_t height = vv_node_shape(x)[1], width = vv_node_shape(x)[2];

    x = pad_to(x, INT64_C(1) << steps);
    levels[0] = vv_module_forward(vv_module_child(module, INPUT), graph, x);
    for (int i = 0; i < steps; i++)
        levels[i + 1] = vv_module_forward(vv_module_child(downs, i), graph, levels[i]);
    x = levels[steps];
    for (int i = 0; i < steps; i++)
        x = up(vv_module_child(ups, i), graph, x, levels[steps - 1 - i]);
    x = vv_module_forward(vv_module_child(module, OUTPUT), graph, x);
    return crop_to(x, height, width);
}

static const vv_module_class net_class = {"UNet", net_forward, NULL};

/* Lists of blocks are called by the net. */
static vv_status add_list(vv_module *net, const char *name, vv_module **list)
{
    VV_TRY(vv_sequential_new(list));
    return vv_module_add_child(net, name, *list);
}

static int64_t filters_at(const vv_unet_opts *o, int64_t level)
{
    const int64_t filters = o->filters << level;

    return filters < o->max_filters ? filters : o->max_filters;
}

static vv_status add_blocks(vv_module *net, int64_t channels, const vv_unet_opts *o)
{
    vv_module *list = NULL, *part = NULL;
    vv_status made;

    VV_TRY(down_new(&part, channels, filters_at(o, 0), 1));
    VV_TRY(vv_module_add_child(net, "input_block", part));
    VV_TRY(add_list(net, "downsamples", &list));
    for (int64_t i = 1; i < o->depth; i++) {
        made = down_new(&part, filters_at(o, i - 1), filters_at(o, i), 2);
        VV_TRY(vv_sequential_push(list, made, part));
    }
    VV_TRY(add_list(net, "upsamples", &list));
    for (int64_t i = o->depth - 1; i > 0; i--) {
        made = up_new(&part, filters_at(o, i), filters_at(o, i - 1));
        VV_TRY(vv_sequential_push(list, made, part));
    }
    return VV_OK;
}

vv_status vv_unet_new(vv_module **out, int64_t channels, int64_t classes, const vv_unet_opts *opts)
{
    const vv_unet_opts defaults = VV_UNET_DEFAULTS;
    const vv_unet_opts *o = opts ? opts : &defaults;
    vv_module *net = NULL, *part = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    if (o->filters < 1 || o->filters > 4096 || o->max_filters < o->filters || o->depth < 2 ||
        o->depth > MOST_LEVELS)
        return vv_fail(VV_EINVAL,
                       "unet: filters %lld (1 to 4096), max_filters %lld (at least filters) and "
                       "depth %lld (2 to %d) do not make a net",
                       (long long)o->filters, (long long)o->max_filters, (long long)o->depth,
                       MOST_LEVELS);
    VV_GO(vv_module_new(&net, &net_class, 0));
    VV_GO(add_blocks(net, channels, o));
    VV_GO(vv_conv2d_new(&part, filters_at(o, 0), classes, 1, NULL, true));
    VV_GO(vv_module_add_child(net, "output_block", part));
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

/* ---- as a model ---- */

/* nnU-Net's start: kaiming normal for the leaky ReLU, biases 0. */
static bool init_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    const vv_module_class *type = vv_module_type(owner);
    double fan_in = 1.0;

    if (type != &vv_conv2d_class && type != &vv_conv_transpose2d_class)
        return true;
    if (param->value->ndim == 1) {
        vv_tensor_fill(param->value, 0.0);
        return true;
    }
    for (int i = 1; i < param->value->ndim; i++)
        fan_in *= (double)param->value->shape[i];
    vv_param_fill_normal(param, sqrt(2.0 / ((1.0 + SLOPE * SLOPE) * fan_in)),
                         *(const uint64_t *)ctx, path);
    return true;
}

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    vv_module *net = NULL;
    vv_model *model = NULL;

    VV_TRY(vv_model_need_mask("unet", input, 2));
    VV_TRY(vv_unet_new(&net, input->input_shape[2], input->classes, opts));
    VV_TRY(vv_segmenter_build(&model, net, input->classes, seed));
    vv_module_each_param(model->net, init_param, &seed);
    *out = model;
    return VV_OK;
}

#define AT(member) offsetof(vv_unet_opts, member)
static const vv_field fields[] = {
    {"filters", "Channels of the first level; each level has twice as many.", VV_FIELD_INT,
     AT(filters), "32", 1, 4096, NULL},
    {"max_filters", "Most channels of a level.", VV_FIELD_INT, AT(max_filters), "512", 1, 65536,
     NULL},
    {"depth", "Levels; each but the first halves height and width.", VV_FIELD_INT, AT(depth), "6",
     2, MOST_LEVELS, NULL},
    {.name = NULL},
};

const vv_model_desc vv_model_unet = {
    .desc = {.kind = "model",
             .name = "unet",
             .summary = "U-Net for masks, in two dimensions, with nnU-Net's residual encoder.",
             .cite = "Ronneberger et al., U-Net: Convolutional networks for biomedical image "
                     "segmentation, arXiv 1505.04597; Isensee et al., nnU-Net, arXiv 1809.10486",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_unet_opts)},
    .build = build,
    .typical = "image=192x160,channels=4,classes=4",
};
