/* vit.c - Vision Transformers: patches as tokens, learned positions, blocks of attention and
 * feed-forward. */
#include "vit.h"

#include <stdio.h>
#include <string.h>

#include "vit_grid.h"

static const double norm_eps = 1e-6, init_std = 0.02, token_std = 1e-6;

/* ---- building blocks ---- */

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

static vv_status push_linear(vv_module *module, const char *name, int64_t in, int64_t out,
                             bool bias)
{
    vv_module *part = NULL;

    VV_TRY(vv_linear_new(&part, in, out, bias));
    return vv_module_add_child(module, name, part);
}

static vv_status push_dropout(vv_module *module, const char *name, double p)
{
    vv_module *part = NULL;

    VV_TRY(vv_dropout_new(&part, p));
    return vv_module_add_child(module, name, part);
}

static vv_status push_norm(vv_module *module, const char *name, int64_t width)
{
    vv_module *part = NULL;

    VV_TRY(vv_layer_norm_new(&part, width, norm_eps));
    return vv_module_add_child(module, name, part);
}

/* ---- blocks: norm1, attn, drop_path1, norm2, mlp, drop_path2 ---- */

typedef struct vvi_block {
    bool post;
} vvi_block;

/* Child `at` (a norm), the one behind it (a branch) and the next (drop path). */
static vv_node *run_branch(vv_module *block, vv_graph *graph, int at, bool post, vv_node *x)
{
    if (!post)
        x = vv_module_forward(vv_module_child(block, at), graph, x);
    x = vv_module_forward(vv_module_child(block, at + 1), graph, x);
    return vv_module_forward(vv_module_child(block, at + 2), graph, x);
}

static vv_node *block_forward(vv_module *block, vv_graph *graph, vv_node *x)
{
    const bool post = ((const vvi_block *)vv_module_self(block))->post;

    for (int at = 0; at < 6; at += 3) {
        x = vv_add(x, run_branch(block, graph, at, post, x));
        if (post)
            x = vv_module_forward(vv_module_child(block, at), graph, x);
    }
    return x;
}

/* Both branches as one: y = x + (a + b), a = attn(norm1(x)), b = mlp(norm2(x + a)). Only blocks
   with the norm first are residual blocks to methods. */
static vv_node *block_branch(vv_module *block, vv_graph *graph, vv_node *x)
{
    vv_node *a = run_branch(block, graph, 0, false, x);

    return vv_add(a, run_branch(block, graph, 3, false, vv_add(x, a)));
}

const vv_module_class vv_vit_block_class = {"ViTBlock", block_forward, NULL};
static const vv_module_class attention_class = {"ViTAttention", forward_all, NULL};
static const vv_module_class mlp_class = {"ViTMLP", forward_all, NULL};
static const vv_residual block_parts = {block_branch, -1, false};
static const vv_mlp mlp_parts = {"fc1", "act", "fc2"};

static vv_status fill_attention(vv_module *attn, const vv_vit_opts *o)
{
    const vv_attention_layer settings = {.heads = o->heads,
                                         .kv_heads = o->heads,
                                         .head_dim = o->width / o->heads,
                                         .dropout = o->attention_dropout};
    vv_module *part = NULL;

    VV_TRY(push_linear(attn, "qkv", o->width, 3 * o->width, o->qkv_bias));
    VV_TRY(vv_attention_new(&part, &settings));
    VV_TRY(vv_module_add_child(attn, "core", part));
    VV_TRY(push_linear(attn, "proj", o->width, o->width, true));
    return push_dropout(attn, "proj_drop", o->dropout);
}

static vv_status fill_mlp(vv_module *mlp, const vv_vit_opts *o)
{
    vv_module *part = NULL;

    vv_module_set_mlp(mlp, &mlp_parts);
    VV_TRY(push_linear(mlp, "fc1", o->width, o->mlp_width, true));
    VV_TRY(vv_activation_new(&part, VV_ACT_GELU, 0.0));
    VV_TRY(vv_module_add_child(mlp, "act", part));
    VV_TRY(push_dropout(mlp, "drop1", o->dropout));
    VV_TRY(push_linear(mlp, "fc2", o->mlp_width, o->width, true));
    return push_dropout(mlp, "drop2", o->dropout);
}

static vv_status push_drop_path(vv_module *block, const char *name, double p)
{
    vv_module *part = NULL;

    VV_TRY(vv_drop_path_new(&part, p));
    return vv_module_add_child(block, name, part);
}

static vv_status fill_block(vv_module *block, const vv_vit_opts *o, double drop_path)
{
    vv_module *part = NULL;

    if (o->norm == VV_VIT_NORM_PRE)
        vv_module_set_residual(block, &block_parts);
    VV_TRY(push_norm(block, "norm1", o->width));
    VV_TRY(push_part(&part, block, "attn", &attention_class));
    VV_TRY(fill_attention(part, o));
    VV_TRY(push_drop_path(block, "drop_path1", drop_path));
    VV_TRY(push_norm(block, "norm2", o->width));
    VV_TRY(push_part(&part, block, "mlp", &mlp_class));
    VV_TRY(fill_mlp(part, o));
    return push_drop_path(block, "drop_path2", drop_path);
}

/* ---- the net: patch_embed, pos_drop, blocks, norm, head ---- */

enum { PATCH_EMBED, POS_DROP, BLOCKS, NORM, HEAD };

typedef struct vvi_vit {
    int64_t grid[2]; /* of the table of positions */
    int64_t patch;
    bool token;      /* a class token */
} vvi_vit;

static vv_node *refuse_input(vv_graph *graph, vv_node *x, int64_t patch)
{
    char text[96];

    return vv_graph_fail(
        graph, vv_fail(VV_ESHAPE,
                       "vit: needs images [N,H,W,C] whose sides are multiples of the patch of "
                       "%lld, got %s; choose sizes that are, or another patch_size",
                       (long long)patch,
                       vv_shape_text(vv_node_ndim(x), vv_node_shape(x), text, sizeof text)));
}

/* Positions for a grid: the table's own rows, or resampled ones. */
static vv_node *positions(vv_module *net, vv_graph *graph, const int64_t grid[2])
{
    const vvi_vit *self = vv_module_self(net);
    vv_node *table = vv_module_param_node(net, graph, "pos_embed"), *parts[2];

    if (grid[0] == self->grid[0] && grid[1] == self->grid[1])
        return table;
    if (!self->token)
        return vvi_grid_resampled(graph, table, self->grid, grid);
    parts[0] = vv_slice(table, 1, 0, 1, 1);
    parts[1] = vv_slice(table, 1, 1, 1 + self->grid[0] * self->grid[1], 1);
    parts[1] = vvi_grid_resampled(graph, parts[1], self->grid, grid);
    return vv_concat(parts, 2, 1);
}

/* The class token in front of x [N,T,D]. */
static vv_node *with_token(vv_module *net, vv_graph *graph, vv_node *x)
{
    if (!x)
        return NULL;

    const int64_t shape[3] = {vv_node_shape(x)[0], 1, vv_node_shape(x)[2]};
    vv_node *token = vv_module_param_node(net, graph, "cls_token");

    if (vv_node_dtype(x) != VV_F32)
        token = vv_cast(token, vv_node_dtype(x));

    vv_node *both[2] = {vv_broadcast_to(token, 3, shape), x};

    return vv_concat(both, 2, 1);
}

/* [N,T,D] -> [N,D] */
static vv_node *pool(const vvi_vit *self, vv_node *x)
{
    const int axis = 1;

    if (!x)
        return NULL;
    if (!self->token)
        return vv_mean(x, &axis, 1, false);

    const int64_t shape[2] = {vv_node_shape(x)[0], vv_node_shape(x)[2]};

    return vv_reshape(vv_slice(x, 1, 0, 1, 1), 2, shape);
}

static vv_node *net_forward(vv_module *net, vv_graph *graph, vv_node *x)
{
    const vvi_vit *self = vv_module_self(net);
    const int64_t *in = vv_node_shape(x);

    if (vv_node_ndim(x) != 4 || in[1] % self->patch || in[2] % self->patch)
        return refuse_input(graph, x, self->patch);

    const int64_t grid[2] = {in[1] / self->patch, in[2] / self->patch};

    x = vv_module_forward(vv_module_child(net, PATCH_EMBED), graph, x);
    if (!x)
        return NULL;

    const int64_t rows[3] = {vv_node_shape(x)[0], grid[0] * grid[1], vv_node_shape(x)[3]};

    x = vv_reshape(x, 3, rows);
    if (self->token)
        x = with_token(net, graph, x);
    x = vv_add(x, positions(net, graph, grid));
    x = vv_module_forward(vv_module_child(net, POS_DROP), graph, x);
    x = vv_module_forward(vv_module_child(net, BLOCKS), graph, x);
    /* The norm is of each token by itself, so it need not see those that are not used. */
    x = vv_module_forward(vv_module_child(net, NORM), graph, pool(self, x));
    return vv_module_forward(vv_module_child(net, HEAD), graph, x);
}

static const vv_module_class net_class = {"VisionTransformer", net_forward, NULL};
static const vv_module_class embed_class = {"PatchEmbed", forward_all, NULL};

static vv_status push_table(vv_module *net, const char *name, int64_t rows, int64_t width)
{
    const int64_t shape[3] = {1, rows, width};
    vv_param *param = NULL;

    VV_TRY(vv_param_new(&param, 3, shape));
    return vv_module_add_param(net, name, param);
}

static vv_status push_embed(vv_module *net, int64_t channels, const vv_vit_opts *o)
{
    const vv_conv_opts conv = {{o->patch_size, o->patch_size}, {0, 0}, {1, 1}, 1, {0, 0}};
    vv_module *embed = NULL, *proj = NULL;

    VV_TRY(push_part(&embed, net, "patch_embed", &embed_class));
    VV_TRY(vv_conv2d_new(&proj, channels, o->width, o->patch_size, &conv, true));
    return vv_module_add_child(embed, "proj", proj);
}

static vv_status push_blocks(vv_module *net, const vv_vit_opts *o)
{
    vv_module *blocks = NULL, *block = NULL;
    char name[24];

    VV_TRY(push_part(&blocks, net, "blocks", &vv_sequential_class));
    for (int64_t i = 0; i < o->depth; i++) {
        const double rate = o->depth > 1 ? o->drop_path * (double)i / (double)(o->depth - 1) : 0.0;

        snprintf(name, sizeof name, "%lld", (long long)i);
        VV_TRY(vv_module_new(&block, &vv_vit_block_class, sizeof(vvi_block)));
        ((vvi_block *)vv_module_self(block))->post = o->norm == VV_VIT_NORM_POST;
        VV_TRY(vv_module_add_child(blocks, name, block));
        VV_TRY(fill_block(block, o, rate));
    }
    return VV_OK;
}

static vv_status push_last_norm(vv_module *net, const vv_vit_opts *o)
{
    const char *name = o->pool == VV_VIT_POOL_MEAN ? "fc_norm" : "norm";
    vv_module *part = NULL;

    if (o->norm == VV_VIT_NORM_PRE)
        return push_norm(net, name, o->width);
    VV_TRY(vv_identity_new(&part));
    return vv_module_add_child(net, name, part);
}

static vv_status fill_net(vv_module *net, int64_t channels, int64_t classes, const vv_vit_opts *o)
{
    const vvi_vit *self = vv_module_self(net);

    if (self->token)
        VV_TRY(push_table(net, "cls_token", 1, o->width));
    VV_TRY(push_table(net, "pos_embed", self->token + self->grid[0] * self->grid[1], o->width));
    VV_TRY(push_embed(net, channels, o));
    VV_TRY(push_dropout(net, "pos_drop", o->dropout));
    VV_TRY(push_blocks(net, o));
    VV_TRY(push_last_norm(net, o));
    return push_linear(net, "head", o->width, classes, true);
}

/* ---- the start: PyTorch's, then linear layers, positions and token as timm has them ---- */

typedef struct vvi_start {
    uint64_t seed;
    double head_bias;
} vvi_start;

static bool start_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    const vvi_start *start = ctx;
    vv_tensor *value = param->value;

    if (strcmp(path, "cls_token") == 0 || strcmp(path, "pos_embed") == 0) {
        vv_param_fill_normal(param, path[0] == 'c' ? token_std : init_std, start->seed, path);
    } else if (vv_module_type(owner) == &vv_linear_class) {
        if (value->ndim == 2)
            vv_param_fill_normal(param, init_std, start->seed, path);
        for (int64_t i = 0; value->ndim == 1 && i < value->count; i++)
            vv_tensor_set(value, i, strcmp(path, "head.bias") == 0 ? start->head_bias : 0.0);
    }
    return true;
}

/* ---- sizes ---- */

static const struct {
    int64_t width, depth, heads;
} sizes[] = {
    [VV_VIT_TI] = {192, 12, 3},
    [VV_VIT_S] = {384, 12, 6},
    [VV_VIT_B] = {768, 12, 12},
};
static const char *const size_names[] = {"ti", "s", "b", NULL};
static const char *const pool_names[] = {"token", "mean", NULL};
static const char *const norm_names[] = {"pre", "post", NULL};

/* *out = opts with nothing left open. */
static vv_status resolve(vv_vit_opts *out, const vv_vit_opts *opts)
{
    *out = *opts;
    if (out->size < VV_VIT_TI || out->size > VV_VIT_B || out->pool < VV_VIT_POOL_TOKEN ||
        out->pool > VV_VIT_POOL_MEAN || out->norm < VV_VIT_NORM_PRE || out->norm > VV_VIT_NORM_POST)
        return vv_fail(VV_EINVAL,
                       "vit: size %d, pool %d or norm %d is none of vv_vit_size, vv_vit_pool, "
                       "vv_vit_norm", out->size, out->pool, out->norm);
    if (!out->width)
        out->width = sizes[out->size].width;
    if (!out->depth)
        out->depth = sizes[out->size].depth;
    if (!out->heads)
        out->heads = sizes[out->size].heads;
    if (!out->mlp_width)
        out->mlp_width = 4 * out->width;
    if (out->width < 1 || out->depth < 1 || out->heads < 1 || out->mlp_width < 1 ||
        out->patch_size < 1)
        return vv_fail(VV_EINVAL,
                       "vit: width, depth, heads, mlp_width and patch_size must be positive");
    if (out->width % out->heads)
        return vv_fail(VV_EINVAL, "vit: %lld heads do not divide width %lld; choose heads=%lld",
                       (long long)out->heads, (long long)out->width,
                       (long long)(out->width % 64 ? 1 : out->width / 64));
    return VV_OK;
}

vv_status vv_vit_new(vv_module **out, int64_t height, int64_t width, int64_t channels,
                     int64_t classes, const vv_vit_opts *opts, uint64_t seed)
{
    const vv_vit_opts defaults = VV_VIT_DEFAULTS;
    vv_vit_opts o;
    vv_module *net = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_TRY(resolve(&o, opts ? opts : &defaults));
    if (height < 1 || width < 1 || height % o.patch_size || width % o.patch_size)
        return vv_fail(VV_EINVAL,
                       "vit: images of %lldx%lld are no whole number of patches of %lld; choose "
                       "another patch_size, or another size of the images",
                       (long long)height, (long long)width, (long long)o.patch_size);

    vvi_start start = {seed, o.head_bias};

    VV_GO(vv_module_new(&net, &net_class, sizeof(vvi_vit)));
    *(vvi_vit *)vv_module_self(net) = (vvi_vit){
        {height / o.patch_size, width / o.patch_size}, o.patch_size, o.pool == VV_VIT_POOL_TOKEN};
    VV_GO(fill_net(net, channels, classes, &o));
    VV_GO(vv_module_init_default(net, seed));
    vv_module_each_param(net, start_param, &start);
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

/* ---- weights of other programs ---- */

/* torchvision's names; timm's are the tree's. */
static const char *const renamed[] = {
    "class_token", "cls_token",
    "encoder.pos_embedding", "pos_embed",
    "conv_proj.*", "patch_embed.proj.*",
    "encoder.ln.*", "norm.*",
    "heads.head.*", "head.*",
    "encoder.layers.encoder_layer_*", "blocks.*",
    "blocks.*.ln_1.*", "blocks.*.norm1.*",
    "blocks.*.ln_2.*", "blocks.*.norm2.*",
    "blocks.*.self_attention.in_proj_*", "blocks.*.attn.qkv.*",
    "blocks.*.self_attention.out_proj.*", "blocks.*.attn.proj.*",
    "blocks.*.mlp.0.*", "blocks.*.mlp.fc1.*",
    "blocks.*.mlp.3.*", "blocks.*.mlp.fc2.*",
    "blocks.*.mlp.linear_1.*", "blocks.*.mlp.fc1.*",
    "blocks.*.mlp.linear_2.*", "blocks.*.mlp.fc2.*",
    NULL,
};

static int64_t whole_root(int64_t n)
{
    int64_t root = 0;

    while ((root + 1) * (root + 1) <= n)
        root++;
    return root * root == n ? root : 0;
}

/* Positions of a square grid, with or without a row for a class token. */
static vv_status adapt(vv_tensor **out, const vv_model *model, const char *name,
                       const vv_tensor *given, const vv_tensor *own, vv_str *told)
{
    const vvi_vit *self = vv_module_self(model->net);
    vv_tensor *table = NULL, *floats = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    if (strcmp(name, "pos_embed") != 0 || given->ndim != 3 || given->shape[0] != 1 ||
        given->shape[2] != own->shape[2])
        return VV_OK;

    const int64_t token = self->token, side = whole_root(given->shape[1] - token);
    const int64_t grid[2] = {side, side}, dim = own->shape[2];

    if (!side)
        return VV_OK;
    VV_GO(vv_tensor_new(&floats, VV_F32, 3, given->shape));
    VV_GO(vv_tensor_copy(floats, given));
    VV_GO(vv_tensor_new(&table, VV_F32, 3, own->shape));

    float *to = table->data;
    const float *from = floats->data;

    if (token)
        memcpy(to, from, (size_t)dim * sizeof *to);
    VV_GO(vvi_grid_resample(to + token * dim, self->grid, from + token * dim, grid, dim));
    vv_str_addf(told, "%s: positions of a grid of %lldx%lld are resampled (bicubic) to %lldx%lld\n",
                name, (long long)side, (long long)side, (long long)self->grid[0],
                (long long)self->grid[1]);
    VV_GO(vv_str_status(told));
    *out = table;
    table = NULL;
out:
    vv_tensor_free(table);
    vv_tensor_free(floats);
    return status;
}

/* timm's tiny ViT, with this one's numbers. */
static vv_status timm(const vv_model *model, const vv_sample_spec *input, vv_str *out)
{
    vv_module *net = model->net, *core = vv_module_find(net, "blocks.0.attn.core");
    const vv_module *patches = vv_module_find(net, "patch_embed.proj");
    const vv_module *blocks = vv_module_find(net, "blocks");
    const vv_module *qkv = vv_module_find(net, "blocks.0.attn.qkv");
    const vv_module *fc1 = vv_module_find(net, "blocks.0.mlp.fc1");
    if (!vv_module_param(net, "cls_token") || !vv_module_find(net, "norm") || !core || !patches ||
        !blocks || !qkv || !fc1 || vv_module_type(core) != &vv_attention_class)
        return vv_fail(VV_EUNSUPPORTED, "timm has no ViT like this, only those with a class token "
                                        "and norms before the branches");
    const vv_attention_layer *attention = vv_module_self(core);
    const int64_t *proj = vv_module_param(patches, "weight")->value->shape;
    const int64_t hidden = vv_module_param(fc1, "weight")->value->shape[0];
    vv_str_addf(out,
                "\"architecture\": \"vit_tiny_patch16_224\", \"model_args\": {\"img_size\": [%lld, "
                "%lld], \"patch_size\": %lld, \"in_chans\": %lld, \"embed_dim\": %lld, "
                "\"depth\": %d, \"num_heads\": %lld, \"mlp_ratio\": %.10g, \"qkv_bias\": %s}",
                (long long)input->input_shape[0], (long long)input->input_shape[1],
                (long long)proj[2], (long long)proj[1], (long long)proj[0],
                vv_module_child_count(blocks), (long long)attention->heads,
                (double)hidden / (double)proj[0], vv_module_param(qkv, "bias") ? "true" : "false");
    return vv_str_status(out);
}

static const vv_weight_map weight_map = {.renamed = renamed, .adapt = adapt, .timm = timm};

/* ---- descriptors ---- */

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    vv_module *net = NULL;

    VV_TRY(vv_model_need_image("vit", input, 1));
    VV_TRY(vv_vit_new(&net, input->input_shape[0], input->input_shape[1], input->input_shape[2],
                      input->classes, opts, seed));
    VV_TRY(vv_classifier_new(out, net, input->classes));
    (*out)->weight_map = &weight_map;
    return VV_OK;
}

#define AT(field) offsetof(vv_vit_opts, field)
#define VIT_FIELDS(preset)                                                                         \
    {                                                                                              \
        {"size", "Which width, depth and heads: tiny, small or base.", VV_FIELD_CHOICE, AT(size),  \
         preset, 0, 0, size_names},                                                                \
        {"width", "Width of the residual stream; 0 = the size's.", VV_FIELD_INT, AT(width), "0",   \
         0, 65536, NULL},                                                                          \
        {"depth", "Blocks; 0 = the size's.", VV_FIELD_INT, AT(depth), "0", 0, 1024, NULL},         \
        {"heads", "Heads of attention; 0 = the size's.", VV_FIELD_INT, AT(heads), "0", 0, 1024,    \
         NULL},                                                                                    \
        {"mlp_width", "Width inside the feed-forward blocks; 0 = 4 width.", VV_FIELD_INT,          \
         AT(mlp_width), "0", 0, 1048576, NULL},                                                    \
        {"patch_size", "Side of the squares that images are cut into.", VV_FIELD_INT,              \
         AT(patch_size), "16", 1, 1024, NULL},                                                     \
        {"dropout", "Share dropped of embeddings and of what branches give.", VV_FIELD_FLOAT,      \
         AT(dropout), "0", 0, 0.99, NULL},                                                         \
        {"attention_dropout", "Share dropped of the attention weights.", VV_FIELD_FLOAT,           \
         AT(attention_dropout), "0", 0, 0.99, NULL},                                               \
        {"drop_path", "Share of samples that skip the last block's branches; it grows from 0 at "  \
         "the first.", VV_FIELD_FLOAT, AT(drop_path), "0", 0, 0.99, NULL},                         \
        {"pool", "What the head sees: a class token, or the mean of the patches.",                 \
         VV_FIELD_CHOICE, AT(pool), "token", 0, 0, pool_names},                                    \
        {"norm", "Norms before the branches (and a last one), or after the sums.",                 \
         VV_FIELD_CHOICE, AT(norm), "pre", 0, 0, norm_names},                                      \
        {"qkv_bias", "Whether queries, keys and values have a bias.", VV_FIELD_BOOL, AT(qkv_bias), \
         "true", 0, 0, NULL},                                                                      \
        {"head_bias", "Start of the head's bias; -ln(classes) suits binary cross-entropy.",        \
         VV_FIELD_FLOAT, AT(head_bias), "0", -100, 100, NULL},                                     \
        {.name = NULL},                                                                            \
    }

#define VIT_PRESET(id, text, preset)                                                               \
    static const vv_field fields_##id[] = VIT_FIELDS(preset);                                      \
    const vv_model_desc vv_model_##id = {                                                          \
        .desc = {.kind = "model",                                                                  \
                 .name = text,                                                                     \
                 .summary = "Vision Transformer with timm's names; size " preset " unless set.",   \
                 .cite = "Dosovitskiy et al., An image is worth 16x16 words, arXiv 2010.11929",    \
                 .domains = "cv",                                                                  \
                 .fields = fields_##id,                                                            \
                 .opts_size = sizeof(vv_vit_opts)},                                                \
        .build = build,                                                                            \
        .own_init = true,                                                                          \
    }

VIT_PRESET(vit, "vit", "s");
VIT_PRESET(vit_ti, "vit-ti", "ti");
VIT_PRESET(vit_s, "vit-s", "s");
VIT_PRESET(vit_b, "vit-b", "b");
