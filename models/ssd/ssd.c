/* ssd.c - SSD on a ResNet: backbone up to its third stage, further maps, heads, loss. */
#include "ssd.h"

#include <string.h>

#include <vivace/memory.h>
#include <vivace/resnet.h>

#include <stdio.h>

#define MAX_LEVELS 6
#define KEPT_SIZES 8 /* image sizes whose default boxes are kept: progressive resizing has a few */

/* Default boxes of one image size. */
typedef struct box_set {
    int64_t size[2], count, used; /* used: when last, 0 = empty */
    float *boxes;
} box_set;

typedef struct ssd_net {
    int64_t levels, classes, forwards;
    box_set sets[KEPT_SIZES];
} ssd_net;

static const float *net_priors(vv_module *net, int64_t count, int64_t size[2])
{
    const ssd_net *self = vv_module_self(net);
    const box_set *found = NULL;
    for (int i = 0; i < KEPT_SIZES; i++) {
        const box_set *set = &self->sets[i];
        if (set->used && set->count == count && (!found || set->used > found->used))
            found = set;
    }
    if (found && size)
        memcpy(size, found->size, sizeof found->size);
    return found ? found->boxes : NULL;
}

/* Makes sure the default boxes of this image size are kept, in place of the longest unused. */
static vv_status keep_boxes(ssd_net *self, const int64_t size[2], const int64_t (*sides)[2])
{
    box_set *set = &self->sets[0];
    self->forwards++;
    for (int i = 0; i < KEPT_SIZES; i++) {
        box_set *s = &self->sets[i];
        if (s->used && s->size[0] == size[0] && s->size[1] == size[1]) {
            s->used = self->forwards;
            return VV_OK;
        }
        if (s->used < set->used)
            set = s;
    }
    const int64_t count = vv_ssd_boxes(NULL, size, self->levels, sides);
    float *boxes = NULL;
    VV_TRY(vv_alloc_array(&boxes, (size_t)count, 4 * sizeof *boxes));
    vv_ssd_boxes(boxes, size, self->levels, sides);
    vv_dealloc(set->boxes);
    *set = (box_set){{size[0], size[1]}, count, self->forwards, boxes};
    return VV_OK;
}

static void net_fini(vv_module *module)
{
    ssd_net *self = vv_module_self(module);
    for (int i = 0; i < KEPT_SIZES; i++)
        vv_dealloc(self->sets[i].boxes);
}

/* [N,h,w,n * each] -> [N, h w n, each] */
static vv_node *rows_of(vv_node *map, int64_t each)
{
    if (!map)
        return NULL;
    const int64_t shape[3] = {vv_node_shape(map)[0], -1, each};
    return vv_reshape(map, 3, shape);
}

static vv_node *net_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    ssd_net *self = vv_module_self(module);
    vv_module *extra = vv_module_find(module, "extra"), *loc = vv_module_find(module, "loc");
    vv_module *conf = vv_module_find(module, "conf");
    vv_node *rows[MAX_LEVELS] = {NULL};
    int64_t sides[MAX_LEVELS][2];
    if (!x)
        return NULL;
    const int64_t *size = vv_node_ndim(x) == 4 ? vv_node_shape(x) + 1 : NULL;
    vv_node *map = vv_resnet_trunk_forward(module, graph, x, NULL);
    for (int i = 0; i < (int)self->levels; i++) {
        if (i > 0)
            map = vv_module_forward(vv_module_child(extra, i - 1), graph, map);
        if (!map)
            return NULL;
        memcpy(sides[i], vv_node_shape(map) + 1, sizeof sides[i]);
        vv_node *const both[2] = {
            rows_of(vv_module_forward(vv_module_child(loc, i), graph, map), 4),
            rows_of(vv_module_forward(vv_module_child(conf, i), graph, map), self->classes),
        };
        rows[i] = vv_concat(both, 2, 2);
    }
    const vv_status status = keep_boxes(self, size, (const int64_t(*)[2])sides);
    if (status != VV_OK)
        return vv_graph_fail(graph, status);
    return self->levels > 1 ? vv_concat(rows, (int)self->levels, 1) : rows[0];
}

static const vv_module_class net_class = {"SSD", net_forward, net_fini};
static const vv_detector detector = {net_priors};

/* ---- building ---- */

static vv_status push_conv(vv_module *sequence, int64_t in, int64_t out, int64_t kernel,
                           int64_t stride, int64_t pad)
{
    const vv_conv_opts conv = {{stride, stride}, {pad, pad}, {1, 1}, 1, {0, 0}};
    vv_module *part = NULL;
    const vv_status made = vv_conv2d_new(&part, in, out, kernel, &conv, true);
    return vv_sequential_push(sequence, made, part);
}

static vv_status push_relu(vv_module *sequence)
{
    vv_module *part = NULL;
    const vv_status made = vv_activation_new(&part, VV_ACT_RELU, 0.0);
    return vv_sequential_push(sequence, made, part);
}

/* 1x1, ReLU, 3x3, ReLU: the first three halve the map, later ones take a border off. */
static vv_status push_extra(vv_module *list, int64_t in, int64_t middle, int64_t out, bool halves)
{
    vv_module *block = NULL;
    vv_status status = VV_OK;
    VV_TRY(vv_sequential_new(&block));
    VV_GO(push_conv(block, in, middle, 1, 1, 0));
    VV_GO(push_relu(block));
    VV_GO(push_conv(block, middle, out, 3, halves ? 2 : 1, halves ? 1 : 0));
    VV_GO(push_relu(block));
    return vv_sequential_push(list, VV_OK, block);
out:
    vv_module_free(block);
    return status;
}

/* Takes `list` on success and on failure. */
static vv_status add_extras(vv_module *net, int64_t width, int64_t levels, int64_t channels[])
{
    /* SSD300 on ResNet-34 has 512, 512, 256, 256, 256 behind 256, 256, 128, 128, 128. */
    static const int64_t outs[] = {8, 8, 4, 4, 4}, middles[] = {4, 4, 2, 2, 2};
    vv_module *list = NULL;
    vv_status status = VV_OK;
    VV_TRY(vv_sequential_new(&list));
    for (int i = 1; i < (int)levels; i++) {
        channels[i] = outs[i - 1] * width;
        VV_GO(push_extra(list, channels[i - 1], middles[i - 1] * width, channels[i], i <= 3));
    }
    return vv_module_add_child(net, "extra", list);
out:
    vv_module_free(list);
    return status;
}

static vv_status add_heads(vv_module *net, const char *name, int64_t levels,
                           const int64_t channels[], int64_t each)
{
    vv_module *list = NULL;
    vv_status status = VV_OK;
    VV_TRY(vv_sequential_new(&list));
    for (int64_t i = 0; i < levels; i++)
        VV_GO(push_conv(list, channels[i], each * vv_ssd_boxes_per_cell(i, levels), 3, 1, 1));
    return vv_module_add_child(net, name, list);
out:
    vv_module_free(list);
    return status;
}

vv_status vv_ssd_new(vv_module **out, int64_t channels, int64_t classes, const vv_ssd_opts *opts)
{
    const vv_ssd_opts defaults = VV_SSD_DEFAULTS;
    const vv_ssd_opts *o = opts ? opts : &defaults;
    int64_t maps[MAX_LEVELS];
    vv_module *net = NULL;
    vv_status status = VV_OK;
    *out = NULL;
    if (o->levels < 1 || o->levels > MAX_LEVELS || classes < 2 || o->width < 1 ||
        o->backbone < VV_SSD_RESNET18 || o->backbone > VV_SSD_RESNET34)
        return vv_fail(VV_EINVAL,
                       "ssd: backbone %d, width %lld, levels %lld, %lld classes; the backbone is "
                       "one of vv_ssd_backbone, levels are 1..%d, and the background and one class "
                       "are needed",
                       o->backbone, (long long)o->width, (long long)o->levels, (long long)classes,
                       MAX_LEVELS);
    /* Stride 1 in the third stage: its map is 38x38 for images of 300. */
    const vv_resnet_trunk_opts trunk = {
        o->backbone == VV_SSD_RESNET18 ? VV_RESNET_18 : VV_RESNET_34, channels, o->width, 3,
        {1, 2, 1, 2}, {0}};
    VV_GO(vv_module_new(&net, &net_class, sizeof(ssd_net)));
    ssd_net *self = vv_module_self(net);
    self->levels = o->levels;
    self->classes = classes;
    vv_module_set_detector(net, &detector);
    VV_GO(vv_resnet_trunk_add(net, &trunk, &maps[0]));
    VV_GO(add_extras(net, o->width, o->levels, maps));
    VV_GO(add_heads(net, "loc", o->levels, maps, 4));
    VV_GO(add_heads(net, "conf", o->levels, maps, classes));
    *out = net;
    return VV_OK;
out:
    vv_module_free(net);
    return status;
}

static bool zero_bias(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)ctx;
    (void)path;
    if (param == vv_module_param(owner, "bias"))
        vv_tensor_fill(param->value, 0.0);
    return true;
}

/* Draws go by the path from the root, which each part is given as another seed. */
vv_status vv_ssd_init(vv_module *net, uint64_t seed)
{
    static const char *const parts[] = {"extra", "loc", "conf"};
    for (int i = 0; i < 3; i++) {
        vv_module *part = vv_module_find(net, parts[i]);
        vv_rng rng = vv_rng_at(seed, parts[i], 0);
        VV_TRY(vv_module_init(part, "xavier_uniform", vv_rng_u64(&rng)));
        vv_module_each_param(part, zero_bias, NULL);
    }
    return VV_OK;
}

/* ---- as a model ---- */

static vv_status check_size(const vv_ssd_opts *o, const vv_sample_spec *input)
{
    for (int d = 0; d < 2; d++) {
        int64_t side = (input->input_shape[d] + 7) / 8, level = 0;
        for (; level < o->levels && side > 0; level++)
            side = level < 3 ? (side + 1) / 2 : side - 2;
        if (level < o->levels)
            return vv_fail(VV_EINVAL,
                           "ssd: images of %lldx%lld give %lld maps, levels asks for %lld; set "
                           "levels to %lld or take larger images",
                           (long long)input->input_shape[0], (long long)input->input_shape[1],
                           (long long)level, (long long)o->levels, (long long)level);
    }
    return VV_OK;
}

static vv_status check_input(const vv_ssd_opts *o, const vv_sample_spec *input)
{
    VV_TRY(vv_model_need_image("ssd", input, 16));
    if (input->target_dtype != VV_F32 || input->target_ndim != 2 ||
        input->target_shape[1] != VV_TARGET_COLUMNS)
        return vv_fail(VV_EINVAL,
                       "ssd: needs data whose targets are boxes (f32 [M,6]), as the data "
                       "sets coco and shapes have them");
    return check_size(o, input);
}

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    const vv_ssd_opts *o = opts;
    vv_module *net = NULL;
    vv_model *model = NULL;
    vv_status status = VV_OK;
    VV_TRY(check_input(o, input));
    VV_TRY(vv_ssd_new(&net, input->input_shape[2], input->classes, o));
    VV_TRY(vv_classifier_build(&model, net, input->classes, seed));
    VV_GO(vv_module_init(model->net, "kaiming_normal_fan_out", seed)); /* torchvision's ResNets */
    VV_GO(vv_ssd_init(model->net, seed));
    vv_multibox_opts *loss = NULL;
    VV_GO(vv_alloc(&loss, sizeof *loss));
    *loss = (vv_multibox_opts){o->overlap, o->negatives};
    model->task = VV_TASK_DETECT;
    model->loss = &vv_multibox_loss_class;
    model->loss_opts = loss;
    model->metrics = "map,map50";
    *out = model;
    return VV_OK;
out:
    vv_model_free(model);
    return status;
}

static const char *const backbones[] = {"resnet18", "resnet34", NULL};

static const vv_field fields[] = {
    {"backbone", "Net under the detector, up to its third stage.", VV_FIELD_CHOICE,
     offsetof(vv_ssd_opts, backbone), "resnet34", 0, 0, backbones},
    {"width", "Channels of the backbone's first stage; all others follow. 64 = ResNet's own.",
     VV_FIELD_INT, offsetof(vv_ssd_opts, width), "64", 1, 1024, NULL},
    {"levels", "Maps that boxes are looked for in: 6 for images of 300 pixels, fewer for small ones.",
     VV_FIELD_INT, offsetof(vv_ssd_opts, levels), "6", 1, MAX_LEVELS, NULL},
    {"overlap", "IoU above which a default box stands for a box.", VV_FIELD_FLOAT,
     offsetof(vv_ssd_opts, overlap), "0.5", 0, 1, NULL},
    {"negatives", "Default boxes of the background in the loss, for each that stands for a box.",
     VV_FIELD_FLOAT, offsetof(vv_ssd_opts, negatives), "3", 0, 1000, NULL},
    {.name = NULL},
};

const vv_model_desc vv_model_ssd = {
    .desc = {.kind = "model",
             .name = "ssd",
             .summary = "SSD300 on ResNet-34 (or 18, or narrower): finds objects and their boxes.",
             .cite = "Liu et al., SSD: Single shot multibox detector, arXiv 1512.02325",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_ssd_opts)},
    .build = build,
    .typical = "image=300,classes=81",
};
