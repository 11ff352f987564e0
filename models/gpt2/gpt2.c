/* gpt2.c - GPT-2: pre-norm blocks, learned positions, one table for tokens and logits. */
#include "gpt2.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double norm_eps = 1e-5, init_std = 0.02;

/* ---- blocks ---- */

static vv_node *forward_all(vv_module *module, vv_graph *graph, vv_node *x)
{
    for (int i = 0; i < vv_module_child_count(module); i++)
        x = vv_module_forward(vv_module_child(module, i), graph, x);
    return x;
}

static vv_node *block_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *y = vv_module_forward(vv_module_child(module, 0), graph, x);

    x = vv_add(x, vv_module_forward(vv_module_child(module, 1), graph, y));
    y = vv_module_forward(vv_module_child(module, 2), graph, x);
    return vv_add(x, vv_module_forward(vv_module_child(module, 3), graph, y));
}

/* Both branches as one: y = x + (a + b), a = attn(ln_1(x)), b = mlp(ln_2(x + a)). */
static vv_node *block_branch(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *a = vv_module_forward(vv_module_child(module, 0), graph, x);

    a = vv_module_forward(vv_module_child(module, 1), graph, a);

    vv_node *b = vv_module_forward(vv_module_child(module, 2), graph, vv_add(x, a));

    return vv_add(a, vv_module_forward(vv_module_child(module, 3), graph, b));
}

const vv_module_class vv_gpt2_block_class = {"GPT2Block", block_forward, NULL};
static const vv_module_class attention_class = {"GPT2Attention", forward_all, NULL};
static const vv_module_class mlp_class = {"GPT2MLP", forward_all, NULL};

static const vv_residual block_parts = {block_branch, -1, false};
static const vv_mlp mlp_parts = {"c_fc", "act", "c_proj"};

static vv_status push_linear(vv_module *module, const char *name, int64_t in, int64_t out)
{
    vv_module *part = NULL;

    VV_TRY(vv_linear_new(&part, in, out, true));
    return vv_module_add_child(module, name, part);
}

static vv_status push_dropout(vv_module *module, const char *name, double p)
{
    vv_module *part = NULL;

    VV_TRY(vv_dropout_new(&part, p));
    return vv_module_add_child(module, name, part);
}

static vv_status push_norm(vv_module *module, const char *name, int64_t d)
{
    vv_module *part = NULL;

    VV_TRY(vv_layer_norm_new(&part, d, norm_eps));
    return vv_module_add_child(module, name, part);
}

static vv_status fill_attention(vv_module *attn, const vv_gpt2_opts *o)
{
    const vv_attention_layer settings = {.heads = o->heads,
                                         .kv_heads = o->heads,
                                         .head_dim = o->d / o->heads,
                                         .causal = true,
                                         .dropout = o->dropout};
    vv_module *part = NULL;

    VV_TRY(push_linear(attn, "c_attn", o->d, 3 * o->d));
    VV_TRY(vv_attention_new(&part, &settings));
    VV_TRY(vv_module_add_child(attn, "core", part));
    VV_TRY(push_linear(attn, "c_proj", o->d, o->d));
    return push_dropout(attn, "resid_dropout", o->dropout);
}

static vv_status fill_mlp(vv_module *mlp, const vv_gpt2_opts *o)
{
    vv_module *part = NULL;

    vv_module_set_mlp(mlp, &mlp_parts);
    VV_TRY(push_linear(mlp, "c_fc", o->d, o->d_ff));
    VV_TRY(vv_activation_new(&part, VV_ACT_GELU_TANH, 0.0));
    VV_TRY(vv_module_add_child(mlp, "act", part));
    VV_TRY(push_linear(mlp, "c_proj", o->d_ff, o->d));
    return push_dropout(mlp, "dropout", o->dropout);
}

/* Adds an empty part of a class; *out is borrowed. */
static vv_status push_part(vv_module **out, vv_module *module, const char *name,
                           const vv_module_class *type)
{
    *out = NULL;
    VV_TRY(vv_module_new(out, type, 0));
    return vv_module_add_child(module, name, *out);
}

static vv_status fill_block(vv_module *block, const vv_gpt2_opts *o)
{
    vv_module *part = NULL;

    vv_module_set_residual(block, &block_parts);
    VV_TRY(push_norm(block, "ln_1", o->d));
    VV_TRY(push_part(&part, block, "attn", &attention_class));
    VV_TRY(fill_attention(part, o));
    VV_TRY(push_norm(block, "ln_2", o->d));
    VV_TRY(push_part(&part, block, "mlp", &mlp_class));
    return fill_mlp(part, o);
}

/* ---- the net ---- */

/* wte, wpe, drop, h, ln_f */
static vv_node *body_forward(vv_module *module, vv_graph *graph, vv_node *tokens)
{
    vv_node *x = vv_module_forward(vv_module_child(module, 0), graph, tokens);

    x = vv_positions_add(vv_module_child(module, 1), graph, x);
    for (int i = 2; i < vv_module_child_count(module); i++)
        x = vv_module_forward(vv_module_child(module, i), graph, x);
    return x;
}

static vv_node *net_forward(vv_module *module, vv_graph *graph, vv_node *tokens)
{
    char text[96];

    if (vv_node_ndim(tokens) != 2)
        return vv_graph_fail(graph, vv_fail(VV_ESHAPE, "gpt2: needs tokens [N,T], got %s",
                                            vv_shape_text(vv_node_ndim(tokens),
                                                          vv_node_shape(tokens), text,
                                                          sizeof text)));
    return forward_all(module, graph, tokens);
}

static const vv_module_class net_class = {"GPT2LMHeadModel", net_forward, NULL};
static const vv_module_class body_class = {"GPT2Model", body_forward, NULL};
static const vv_language parts = {"transformer.wte", "transformer.wpe", "transformer.h", "lm_head",
                                  NULL};

static vv_status push_table(vv_module *module, const char *name, int64_t rows, int64_t d)
{
    vv_module *part = NULL;

    VV_TRY(vv_embedding_new(&part, rows, d));
    return vv_module_add_child(module, name, part);
}

static vv_status fill_body(vv_module *body, int64_t rows, const vv_gpt2_opts *o)
{
    vv_module *blocks = NULL, *block = NULL;
    char name[24];

    VV_TRY(push_table(body, "wte", rows, o->d));
    VV_TRY(push_table(body, "wpe", o->context, o->d));
    VV_TRY(push_dropout(body, "drop", o->dropout));
    VV_TRY(push_part(&blocks, body, "h", &vv_sequential_class));
    for (int64_t i = 0; i < o->layers; i++) {
        snprintf(name, sizeof name, "%lld", (long long)i);
        VV_TRY(push_part(&block, blocks, name, &vv_gpt2_block_class));
        VV_TRY(fill_block(block, o));
    }
    return push_norm(body, "ln_f", o->d);
}

/* Logits are products with the table of tokens. */
static vv_status push_head(vv_module *net, int64_t rows, const vv_gpt2_opts *o)
{
    vv_param *table = vv_module_param(vv_module_find(net, "transformer.wte"), "weight");
    vv_module *head = NULL;

    VV_TRY(vv_module_new(&head, &vv_linear_class, sizeof(vv_linear_layer)));
    *(vv_linear_layer *)vv_module_self(head) = (vv_linear_layer){o->d, rows, false};

    const vv_status status = vv_module_add_param(head, "weight", vv_param_keep(table));

    if (status != VV_OK) {
        vv_module_free(head);
        return status;
    }
    return vv_module_add_child(net, "lm_head", head);
}

typedef struct vvi_start {
    uint64_t seed;
    double projection_std;
} vvi_start;

static bool start_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    static const char projection[] = "c_proj.weight";
    const vvi_start *start = ctx;
    const size_t length = strlen(path), n = sizeof projection - 1;
    const bool ends = length >= n && strcmp(path + length - n, projection) == 0;

    (void)owner;
    if (param->value->ndim == 2)
        vv_param_fill_normal(param, ends ? start->projection_std : init_std, start->seed, path);
    return true;
}

/* ---- sizes ---- */

static const struct {
    const char *text;
    int64_t d, layers, heads;
} sizes[] = {
    [VV_GPT2_TINY] = {"tiny", 128, 4, 4},      [VV_GPT2_10M] = {"10m", 160, 6, 5},
    [VV_GPT2_30M] = {"30m", 384, 6, 6},        [VV_GPT2_52M] = {"52m", 512, 8, 8},
    [VV_GPT2_83M] = {"83m", 640, 10, 10},      [VV_GPT2_124M] = {"124m", 768, 12, 12},
    [VV_GPT2_350M] = {"350m", 1024, 24, 16},   [VV_GPT2_760M] = {"760m", 1536, 24, 16},
    [VV_GPT2_1300M] = {"1.3b", 2048, 24, 16},
};
static const char *const size_names[] = {"tiny", "10m", "30m", "52m", "83m",
                                         "124m", "350m", "760m", "1.3b", NULL};

/* *out = opts with nothing left open. */
static vv_status resolve(vv_gpt2_opts *out, const vv_gpt2_opts *opts)
{
    *out = *opts;
    if (out->size < VV_GPT2_TINY || out->size > VV_GPT2_1300M)
        return vv_fail(VV_EINVAL, "gpt2: size must be one of vv_gpt2_size, got %d", out->size);
    if (!out->d)
        out->d = sizes[out->size].d;
    if (!out->layers)
        out->layers = sizes[out->size].layers;
    if (!out->heads)
        out->heads = sizes[out->size].heads;
    if (!out->d_ff)
        out->d_ff = 4 * out->d;
    if (!out->context)
        out->context = 1024;
    if (out->d < 1 || out->layers < 1 || out->heads < 1 || out->d_ff < 1 || out->context < 1 ||
        out->vocab_multiple < 1)
        return vv_fail(VV_EINVAL,
                       "gpt2: d, layers, heads, d_ff, context and vocab_multiple must be positive");
    if (out->d % out->heads)
        return vv_fail(VV_EINVAL, "gpt2: %lld heads do not divide d = %lld; choose heads=%lld",
                       (long long)out->heads, (long long)out->d,
                       (long long)(out->d % 64 ? 1 : out->d / 64));
    return VV_OK;
}

vv_status vv_gpt2_new(vv_module **out, int64_t vocabulary, const vv_gpt2_opts *opts, uint64_t seed)
{
    const vv_gpt2_opts defaults = VV_GPT2_DEFAULTS;
    vv_gpt2_opts o;
    vv_module *net = NULL, *body = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_TRY(resolve(&o, opts ? opts : &defaults));
    if (vocabulary < 1)
        return vv_fail(VV_EINVAL, "gpt2: a vocabulary of %lld tokens; at least one is needed",
                       (long long)vocabulary);

    const int64_t rows = (vocabulary + o.vocab_multiple - 1) / o.vocab_multiple * o.vocab_multiple;
    vvi_start start = {seed, init_std / sqrt(2.0 * (double)o.layers)};

    VV_GO(vv_module_new(&net, &net_class, 0));
    vv_module_set_language(net, &parts);
    VV_GO(push_part(&body, net, "transformer", &body_class));
    VV_GO(fill_body(body, rows, &o));
    VV_GO(push_head(net, rows, &o));
    vv_module_each_param(net, start_param, &start);
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

/* ---- descriptors ---- */

static const char *const prefixes[] = {"transformer.", NULL};
static const char *const transposed[] = {"*.attn.c_attn.weight", "*.attn.c_proj.weight",
                                         "*.mlp.c_fc.weight", "*.mlp.c_proj.weight", NULL};
static const char *const ignored[] = {"*h.*.attn.bias", "*h.*.attn.masked_bias", "lm_head.weight",
                                      NULL};
static const vv_weight_map hugging_face = {
    .prefixes = prefixes, .transposed = transposed, .ignored = ignored};

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    vv_gpt2_opts o = *(const vv_gpt2_opts *)opts;
    vv_module *net = NULL;

    VV_TRY(vv_model_need_tokens("gpt2", input, o.context, false));
    if (!o.context)
        o.context = input->input_shape[0] > 1024 ? input->input_shape[0] : 1024;
    VV_TRY(vv_gpt2_new(&net, input->classes, &o, seed));
    VV_TRY(vv_classifier_new(out, net, input->classes));
    (*out)->weight_map = &hugging_face;
    (*out)->metrics = "cross_entropy,perplexity"; /* they need no logits: the loss will do */
    return VV_OK;
}

#define AT(field) offsetof(vv_gpt2_opts, field)
#define GPT2_FIELDS(preset)                                                                        \
    {                                                                                              \
        {"size", "Which d, layers and heads; named by parameters.", VV_FIELD_CHOICE, AT(size),     \
         preset, 0, 0, size_names},                                                                \
        {"d", "Width of the residual stream; 0 = the size's.", VV_FIELD_INT, AT(d), "0", 0, 65536, \
         NULL},                                                                                    \
        {"layers", "Blocks; 0 = the size's.", VV_FIELD_INT, AT(layers), "0", 0, 1024, NULL},       \
        {"heads", "Heads of attention; 0 = the size's.", VV_FIELD_INT, AT(heads), "0", 0, 1024,    \
         NULL},                                                                                    \
        {"d_ff", "Width inside the feed-forward blocks; 0 = 4 d.", VV_FIELD_INT, AT(d_ff), "0", 0, \
         1048576, NULL},                                                                           \
        {"context", "Tokens that the table of positions has room for; 0 = 1024, or as many as the "\
         "data have.", VV_FIELD_INT, AT(context), "0", 0, 16777216, NULL},                         \
        {"dropout", "Share dropped of embeddings, attention weights and branches.",                \
         VV_FIELD_FLOAT, AT(dropout), "0.1", 0, 0.99, NULL},                                       \
        {"vocab_multiple", "The token table is padded to a multiple of this.", VV_FIELD_INT,       \
         AT(vocab_multiple), "1", 1, 4096, NULL},                                                  \
        {.name = NULL},                                                                            \
    }

#define GPT2_PRESET(id, text, preset)                                                              \
    static const vv_field fields_##id[] = GPT2_FIELDS(preset);                                     \
    const vv_model_desc vv_model_##id = {                                                          \
        .desc = {.kind = "model",                                                                  \
                 .name = text,                                                                     \
                 .summary = "GPT-2 language model with Hugging Face's names; size " preset         \
                            " unless set.",                                                        \
                 .cite = "Radford et al., Language models are unsupervised multitask learners, "   \
                         "2019",                                                                   \
                 .domains = "nlp",                                                                 \
                 .fields = fields_##id,                                                            \
                 .opts_size = sizeof(vv_gpt2_opts)},                                               \
        .build = build,                                                                            \
        .typical = "tokens=1024,classes=50257",                                                    \
        .own_init = true,                                                                          \
    }

GPT2_PRESET(gpt2, "gpt2", "124m");
GPT2_PRESET(gpt2_tiny, "gpt2-tiny", "tiny");
GPT2_PRESET(gpt2_10m, "gpt2-10m", "10m");
GPT2_PRESET(gpt2_30m, "gpt2-30m", "30m");
GPT2_PRESET(gpt2_52m, "gpt2-52m", "52m");
GPT2_PRESET(gpt2_83m, "gpt2-83m", "83m");
GPT2_PRESET(gpt2_124m, "gpt2-124m", "124m");
GPT2_PRESET(gpt2_350m, "gpt2-350m", "350m");
GPT2_PRESET(gpt2_760m, "gpt2-760m", "760m");
GPT2_PRESET(gpt2_1300m, "gpt2-1.3b", "1.3b");
