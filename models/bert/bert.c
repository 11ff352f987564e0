/* bert.c - BERT: post-norm layers over tokens, positions and segments; a head for masked tokens, or
 * one for classes and numbers. */
#include "bert.h"

#include <stdio.h>

static const double norm_eps = 1e-12, init_std = 0.02;

/* ---- building blocks ---- */

static vv_status push_linear(vv_module *module, const char *name, int64_t in, int64_t out)
{
    vv_module *part = NULL;

    VV_TRY(vv_linear_new(&part, in, out, true));
    return vv_module_add_child(module, name, part);
}

static vv_status push_dropout(vv_module *module, double p)
{
    vv_module *part = NULL;

    VV_TRY(vv_dropout_new(&part, p));
    return vv_module_add_child(module, "dropout", part);
}

static vv_status push_norm(vv_module *module, int64_t d)
{
    vv_module *part = NULL;

    VV_TRY(vv_layer_norm_new(&part, d, norm_eps));
    return vv_module_add_child(module, "LayerNorm", part);
}

static vv_status push_table(vv_module *module, const char *name, int64_t rows, int64_t d)
{
    vv_module *part = NULL;

    VV_TRY(vv_embedding_new(&part, rows, d));
    return vv_module_add_child(module, name, part);
}

static vv_status push_gelu(vv_module *module, const char *name)
{
    vv_module *part = NULL;

    VV_TRY(vv_activation_new(&part, VV_ACT_GELU, 0.0));
    return vv_module_add_child(module, name, part);
}

/* Adds an empty part of a class; *out is borrowed. */
static vv_status push_part(vv_module **out, vv_module *module, const char *name,
                           const vv_module_class *type)
{
    *out = NULL;
    VV_TRY(vv_module_new(out, type, 0));
    return vv_module_add_child(module, name, *out);
}

static vv_node *forward_all(vv_module *module, vv_graph *graph, vv_node *x)
{
    for (int i = 0; i < vv_module_child_count(module); i++)
        x = vv_module_forward(vv_module_child(module, i), graph, x);
    return x;
}

/* ---- a layer: norm(x + branch(x)), twice ---- */

/* query, key, value, core */
static vv_node *self_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *q = vv_module_forward(vv_module_child(module, 0), graph, x);
    vv_node *k = vv_module_forward(vv_module_child(module, 1), graph, x);
    vv_node *v = vv_module_forward(vv_module_child(module, 2), graph, x);

    return vv_attention_attend(vv_module_child(module, 3), graph, q, k, v);
}

/* The end of a branch: dense, dropout, then the norm of the sum with x. */
static vv_node *close_branch(vv_module *output, vv_graph *graph, vv_node *branch, vv_node *x)
{
    branch = vv_module_forward(vv_module_child(output, 0), graph, branch);
    branch = vv_module_forward(vv_module_child(output, 1), graph, branch);
    return vv_module_forward(vv_module_child(output, 2), graph, vv_add(branch, x));
}

/* self, output */
static vv_node *attention_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *y = vv_module_forward(vv_module_child(module, 0), graph, x);

    return close_branch(vv_module_child(module, 1), graph, y, x);
}

/* attention, intermediate, output */
static vv_node *layer_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *y;

    x = vv_module_forward(vv_module_child(module, 0), graph, x);
    y = vv_module_forward(vv_module_child(module, 1), graph, x);
    return close_branch(vv_module_child(module, 2), graph, y, x);
}

const vv_module_class vv_bert_layer_class = {"BertLayer", layer_forward, NULL};
static const vv_module_class attention_class = {"BertAttention", attention_forward, NULL};
static const vv_module_class self_class = {"BertSelfAttention", self_forward, NULL};
static const vv_module_class chain_class = {"BertChain", forward_all, NULL};
static const vv_mlp layer_mlp = {"intermediate.dense", "intermediate.act", "output.dense"};

static vv_status push_output(vv_module *module, int64_t in, const vv_bert_opts *o)
{
    vv_module *output = NULL;

    VV_TRY(push_part(&output, module, "output", &chain_class));
    VV_TRY(push_linear(output, "dense", in, o->d));
    VV_TRY(push_dropout(output, o->dropout));
    return push_norm(output, o->d);
}

static vv_status fill_attention(vv_module *attention, const vv_bert_opts *o)
{
    const vv_attention_layer settings = {.heads = o->heads,
                                         .kv_heads = o->heads,
                                         .head_dim = o->d / o->heads,
                                         .dropout = o->dropout};
    vv_module *self = NULL, *core = NULL;

    VV_TRY(push_part(&self, attention, "self", &self_class));
    VV_TRY(push_linear(self, "query", o->d, o->d));
    VV_TRY(push_linear(self, "key", o->d, o->d));
    VV_TRY(push_linear(self, "value", o->d, o->d));
    VV_TRY(vv_attention_new(&core, &settings));
    VV_TRY(vv_module_add_child(self, "core", core));
    return push_output(attention, o->d, o);
}

static vv_status fill_layer(vv_module *layer, const vv_bert_opts *o)
{
    vv_module *part = NULL;

    vv_module_set_mlp(layer, &layer_mlp);
    VV_TRY(push_part(&part, layer, "attention", &attention_class));
    VV_TRY(fill_attention(part, o));
    VV_TRY(push_part(&part, layer, "intermediate", &chain_class));
    VV_TRY(push_linear(part, "dense", o->d, o->d_ff));
    VV_TRY(push_gelu(part, "act"));
    return push_output(layer, o->d_ff, o);
}

/* ---- tokens, positions, segments ---- */

/* What is in a batch [N,T] or [N,2,T]: each i32 [N,T]; segments NULL = all 0. */
typedef struct vvi_rows {
    vv_node *tokens, *segments, *seen;
} vvi_rows;

static vv_node *row(vv_node *x, int64_t i)
{
    const int64_t shape[2] = {vv_node_shape(x)[0], vv_node_shape(x)[2]};

    return vv_reshape(vv_slice(x, 1, i, i + 1, 1), 2, shape);
}

static vvi_rows read_rows(vv_graph *graph, vv_node *x, int64_t pad_id)
{
    vv_node *zero = vv_full(graph, VV_I32, 0, NULL, 0.0);
    vv_node *one = vv_full(graph, VV_I32, 0, NULL, 1.0);

    if (vv_node_dtype(x) != VV_I32)
        x = vv_cast(x, VV_I32);

    vvi_rows rows = {x, NULL, NULL};

    if (vv_node_ndim(x) == 3) {
        rows.tokens = row(x, 0);
        rows.segments = row(x, 1);

        vv_node *there = vv_greater_equal(rows.segments, zero);

        rows.seen = vv_where(there, one, zero);
        rows.segments = vv_where(there, rows.segments, zero);
    }
    if (pad_id >= 0) {
        vv_node *pad = vv_full(graph, VV_I32, 0, NULL, (double)pad_id);

        rows.seen = vv_where(vv_equal(rows.tokens, pad), zero, rows.seen ? rows.seen : one);
    }
    return rows;
}

/* word_embeddings, position_embeddings, token_type_embeddings, LayerNorm, dropout */
static vv_node *embed(vv_module *module, vv_graph *graph, const vvi_rows *rows)
{
    const int64_t one[2] = {1, 1};
    vv_node *segments = rows->segments ? rows->segments : vv_zeros(graph, VV_I32, 2, one);
    vv_node *x = vv_module_forward(vv_module_child(module, 0), graph, rows->tokens);

    x = vv_add(x, vv_module_forward(vv_module_child(module, 2), graph, segments));
    x = vv_positions_add(vv_module_child(module, 1), graph, x);
    x = vv_module_forward(vv_module_child(module, 3), graph, x);
    return vv_module_forward(vv_module_child(module, 4), graph, x);
}

static vv_node *embeddings_forward(vv_module *module, vv_graph *graph, vv_node *tokens)
{
    const vvi_rows rows = {tokens, NULL, NULL};

    return embed(module, graph, &rows);
}

static const vv_module_class embeddings_class = {"BertEmbeddings", embeddings_forward, NULL};

static vv_status fill_embeddings(vv_module *module, const vv_bert_opts *o)
{
    VV_TRY(push_table(module, "word_embeddings", o->vocabulary, o->d));
    VV_TRY(push_table(module, "position_embeddings", o->context, o->d));
    VV_TRY(push_table(module, "token_type_embeddings", o->segments, o->d));
    VV_TRY(push_norm(module, o->d));
    return push_dropout(module, o->dropout);
}

/* ---- the body: embeddings, encoder and, before a classifier, the pooler ---- */

typedef struct vvi_body {
    int64_t pad_id;
} vvi_body;

/* tanh(dense(first token)) */
static vv_node *pooler_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const int64_t shape[2] = {vv_node_shape(x)[0], vv_node_shape(x)[2]};

    return forward_all(module, graph, vv_reshape(vv_slice(x, 1, 0, 1, 1), 2, shape));
}

static vv_node *body_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vvi_body *self = vv_module_self(module);
    vv_module *encoder = vv_module_child(module, 1), *pooler = vv_module_child(module, 2);
    const int ndim = vv_node_ndim(x);
    char text[96];

    if (ndim != 2 && (ndim != 3 || vv_node_shape(x)[1] != 2))
        return vv_graph_fail(graph, vv_fail(VV_ESHAPE,
                                            "bert: needs tokens [N,T], or [N,2,T] with segments, "
                                            "got %s", vv_shape_text(ndim, vv_node_shape(x), text,
                                                                    sizeof text)));

    const vvi_rows rows = read_rows(graph, x, self->pad_id);

    vv_attention_mask(encoder, rows.seen, NULL);
    x = vv_module_forward(encoder, graph, embed(vv_module_child(module, 0), graph, &rows));
    vv_attention_mask(encoder, NULL, NULL);
    return pooler ? vv_module_forward(pooler, graph, x) : x;
}

static const vv_module_class body_class = {"BertModel", body_forward, NULL};
static const vv_module_class pooler_class = {"BertPooler", pooler_forward, NULL};

static vv_status fill_pooler(vv_module *body, const vv_bert_opts *o)
{
    vv_module *pooler = NULL, *part = NULL;

    VV_TRY(push_part(&pooler, body, "pooler", &pooler_class));
    VV_TRY(push_linear(pooler, "dense", o->d, o->d));
    VV_TRY(vv_activation_new(&part, VV_ACT_TANH, 0.0));
    return vv_module_add_child(pooler, "activation", part);
}

static vv_status push_body(vv_module *net, const vv_bert_opts *o)
{
    vv_module *body = NULL, *part = NULL, *layers = NULL;
    char name[24];

    VV_TRY(vv_module_new(&body, &body_class, sizeof(vvi_body)));
    ((vvi_body *)vv_module_self(body))->pad_id = o->pad_id;
    VV_TRY(vv_module_add_child(net, "bert", body));
    VV_TRY(push_part(&part, body, "embeddings", &embeddings_class));
    VV_TRY(fill_embeddings(part, o));
    VV_TRY(push_part(&part, body, "encoder", &vv_sequential_class));
    VV_TRY(push_part(&layers, part, "layer", &vv_sequential_class));
    for (int64_t i = 0; i < o->layers; i++) {
        snprintf(name, sizeof name, "%lld", (long long)i);
        VV_TRY(push_part(&part, layers, name, &vv_bert_layer_class));
        VV_TRY(fill_layer(part, o));
    }
    return o->head == VV_BERT_CLASSIFIER ? fill_pooler(body, o) : VV_OK;
}

/* ---- heads ---- */

/* A linear layer that multiplies by the table of tokens; its bias is also "bias" of the head. */
static vv_status push_decoder(vv_module *net, vv_module *predictions, const vv_bert_opts *o)
{
    vv_param *table =
        vv_module_param(vv_module_find(net, "bert.embeddings.word_embeddings"), "weight");
    vv_param *bias = NULL;
    vv_module *decoder = NULL;

    VV_TRY(vv_param_new(&bias, 1, &o->vocabulary));
    VV_TRY(vv_module_add_param(predictions, "bias", bias));
    VV_TRY(vv_module_new(&decoder, &vv_linear_class, sizeof(vv_linear_layer)));
    *(vv_linear_layer *)vv_module_self(decoder) = (vv_linear_layer){o->d, o->vocabulary, true};
    VV_TRY(vv_module_add_child(predictions, "decoder", decoder));
    VV_TRY(vv_module_add_param(decoder, "weight", vv_param_keep(table)));
    return vv_module_add_param(decoder, "bias", vv_param_keep(bias));
}

static vv_status push_masked_lm(vv_module *net, const vv_bert_opts *o)
{
    vv_module *cls = NULL, *predictions = NULL, *transform = NULL;

    VV_TRY(push_part(&cls, net, "cls", &chain_class));
    VV_TRY(push_part(&predictions, cls, "predictions", &chain_class));
    VV_TRY(push_part(&transform, predictions, "transform", &chain_class));
    VV_TRY(push_linear(transform, "dense", o->d, o->d));
    VV_TRY(push_gelu(transform, "transform_act_fn"));
    VV_TRY(push_norm(transform, o->d));
    return push_decoder(net, predictions, o);
}

static vv_status push_classifier(vv_module *net, int64_t outputs, const vv_bert_opts *o)
{
    VV_TRY(push_dropout(net, o->dropout));
    return push_linear(net, "classifier", o->d, outputs);
}

static const vv_module_class masked_lm_class = {"BertForMaskedLM", forward_all, NULL};
static const vv_module_class classifier_class = {"BertForSequenceClassification", forward_all,
                                                 NULL};
static const vv_language masked_lm_parts = {
    "bert.embeddings.word_embeddings", "bert.embeddings.position_embeddings", "bert.encoder.layer",
    "cls.predictions.decoder", NULL};
static const vv_language classifier_parts = {"bert.embeddings.word_embeddings",
                                             "bert.embeddings.position_embeddings",
                                             "bert.encoder.layer", NULL, NULL};

static bool start_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)owner;
    if (param->value->ndim == 2)
        vv_param_fill_normal(param, init_std, *(const uint64_t *)ctx, path);
    return true;
}

/* ---- sizes ---- */

static const struct {
    int64_t d, layers, heads;
} sizes[] = {
    [VV_BERT_TINY] = {128, 2, 2},
    [VV_BERT_SMALL] = {512, 4, 8},
    [VV_BERT_BASE] = {768, 12, 12},
    [VV_BERT_LARGE] = {1024, 24, 16},
};
static const char *const size_names[] = {"tiny", "small", "base", "large", NULL};
static const char *const head_names[] = {"auto", "masked_lm", "classifier", NULL};

/* *out = opts with nothing left open. */
static vv_status resolve(vv_bert_opts *out, const vv_bert_opts *opts)
{
    *out = *opts;
    if (out->size < VV_BERT_TINY || out->size > VV_BERT_LARGE || out->head < VV_BERT_AUTO ||
        out->head > VV_BERT_CLASSIFIER)
        return vv_fail(VV_EINVAL, "bert: size %d or head %d is none of vv_bert_size, vv_bert_head",
                       out->size, out->head);
    if (out->head == VV_BERT_AUTO)
        out->head = VV_BERT_MASKED_LM;
    if (!out->d)
        out->d = sizes[out->size].d;
    if (!out->layers)
        out->layers = sizes[out->size].layers;
    if (!out->heads)
        out->heads = sizes[out->size].heads;
    if (!out->d_ff)
        out->d_ff = 4 * out->d;
    if (!out->vocabulary)
        out->vocabulary = 30522;
    if (out->d < 1 || out->layers < 1 || out->heads < 1 || out->d_ff < 1 || out->context < 1 ||
        out->segments < 1 || out->vocabulary < 1)
        return vv_fail(VV_EINVAL, "bert: d, layers, heads, d_ff, context, segments and vocabulary "
                                  "must be positive");
    if (out->d % out->heads)
        return vv_fail(VV_EINVAL, "bert: %lld heads do not divide d = %lld", (long long)out->heads,
                       (long long)out->d);
    return VV_OK;
}

vv_status vv_bert_new(vv_module **out, int64_t outputs, const vv_bert_opts *opts, uint64_t seed)
{
    const vv_bert_opts defaults = VV_BERT_DEFAULTS;
    vv_bert_opts o;
    vv_module *net = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_TRY(resolve(&o, opts ? opts : &defaults));

    const bool masked = o.head == VV_BERT_MASKED_LM;

    if (!masked && outputs < 1)
        return vv_fail(VV_EINVAL, "bert: %lld outputs; at least one is needed", (long long)outputs);
    VV_GO(vv_module_new(&net, masked ? &masked_lm_class : &classifier_class, 0));
    vv_module_set_language(net, masked ? &masked_lm_parts : &classifier_parts);
    VV_GO(push_body(net, &o));
    if (masked)
        VV_GO(push_masked_lm(net, &o));
    else
        VV_GO(push_classifier(net, outputs, &o));
    vv_module_each_param(net, start_param, &seed);
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

/* ---- descriptors ---- */

static const char *const prefixes[] = {"bert.", NULL};
static const char *const masked_lm_ignored[] = {
    "*position_ids",       "cls.predictions.decoder.*", "cls.seq_relationship.*",
    "bert.pooler.dense.*", "pooler.dense.*",            NULL};
static const char *const classifier_ignored[] = {"*position_ids", "cls.*", NULL};
static const char *const endings[] = {"LayerNorm.gamma", "LayerNorm.weight", "LayerNorm.beta",
                                      "LayerNorm.bias", NULL};
static const vv_weight_map masked_lm_map = {
    .prefixes = prefixes, .ignored = masked_lm_ignored, .endings = endings};
static const vv_weight_map classifier_map = {
    .prefixes = prefixes, .ignored = classifier_ignored, .endings = endings};

static vv_status check_data(const vv_sample_spec *input, const vv_bert_opts *o)
{
    vv_sample_spec numbers = *input;

    if (o->head == VV_BERT_CLASSIFIER && vv_dtype_is_float(input->target_dtype))
        numbers.classes = 1;
    VV_TRY(vv_model_need_tokens("bert", &numbers, o->context, true));
    if ((o->head == VV_BERT_MASKED_LM) == (input->target_ndim > 0))
        return VV_OK;
    return vv_fail(VV_EINVAL,
                   "bert: head %s, but the data have a target for each %s; leave head out",
                   head_names[o->head], input->target_ndim ? "token" : "sample");
}

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    vv_bert_opts o = *(const vv_bert_opts *)opts;
    vv_module *net = NULL;

    if (o.head == VV_BERT_AUTO)
        o.head = input->target_ndim > 0 ? VV_BERT_MASKED_LM : VV_BERT_CLASSIFIER;
    VV_TRY(check_data(input, &o));

    const bool masked = o.head == VV_BERT_MASKED_LM;
    const bool numbers = !masked && vv_dtype_is_float(input->target_dtype);

    if (masked && o.vocabulary && o.vocabulary < input->classes)
        return vv_fail(VV_EINVAL, "bert: vocabulary %lld is less than the data's %lld",
                       (long long)o.vocabulary, (long long)input->classes);
    if (!o.vocabulary)
        o.vocabulary = masked ? input->classes : input->vocabulary;
    VV_TRY(vv_bert_new(&net, numbers ? 1 : input->classes, &o, seed));
    VV_TRY(numbers ? vv_regressor_new(out, net)
                   : vv_classifier_new(out, net, masked ? o.vocabulary : input->classes));
    (*out)->weight_map = masked ? &masked_lm_map : &classifier_map;
    return VV_OK;
}

#define AT(field) offsetof(vv_bert_opts, field)
#define BERT_FIELDS(preset)                                                                        \
    {                                                                                              \
        {"size", "Which d, layers and heads.", VV_FIELD_CHOICE, AT(size), preset, 0, 0,            \
         size_names},                                                                              \
        {"head", "What it predicts: masked_lm (tokens) or classifier (one thing for each sample); "\
         "auto = as the data's targets are.", VV_FIELD_CHOICE, AT(head), "auto", 0, 0,             \
         head_names},                                                                              \
        {"d", "Width; 0 = the size's.", VV_FIELD_INT, AT(d), "0", 0, 65536, NULL},                 \
        {"layers", "Layers; 0 = the size's.", VV_FIELD_INT, AT(layers), "0", 0, 1024, NULL},       \
        {"heads", "Heads of attention; 0 = the size's.", VV_FIELD_INT, AT(heads), "0", 0, 1024,    \
         NULL},                                                                                    \
        {"d_ff", "Width inside the feed-forward blocks; 0 = 4 d.", VV_FIELD_INT, AT(d_ff), "0", 0, \
         1048576, NULL},                                                                           \
        {"context", "Tokens that the table of positions has room for.", VV_FIELD_INT, AT(context), \
         "512", 1, 16777216, NULL},                                                                \
        {"segments", "Kinds of segments.", VV_FIELD_INT, AT(segments), "2", 1, 65536, NULL},       \
        {"vocabulary", "Rows of the token table; 0 = the data's, or 30522 if they do not say.",    \
         VV_FIELD_INT, AT(vocabulary), "0", 0, 16777216, NULL},                                    \
        {"pad_id", "The token that fills up and is never seen; -1 = none.", VV_FIELD_INT,          \
         AT(pad_id), "0", -1, 16777216, NULL},                                                     \
        {"dropout", "Share dropped of embeddings, attention weights, branches and before the "     \
         "classifier.", VV_FIELD_FLOAT, AT(dropout), "0.1", 0, 0.99, NULL},                        \
        {.name = NULL},                                                                            \
    }

#define BERT_PRESET(id, text, preset)                                                              \
    static const vv_field fields_##id[] = BERT_FIELDS(preset);                                     \
    const vv_model_desc vv_model_##id = {                                                          \
        .desc = {.kind = "model",                                                                  \
                 .name = text,                                                                     \
                 .summary = "BERT for masked tokens, classes or numbers, with Hugging Face's "     \
                            "names; size " preset " unless set.",                                  \
                 .cite = "Devlin et al., BERT: pre-training of deep bidirectional transformers "   \
                         "for language understanding, arXiv 1810.04805",                           \
                 .domains = "nlp",                                                                 \
                 .fields = fields_##id,                                                            \
                 .opts_size = sizeof(vv_bert_opts)},                                               \
        .build = build,                                                                            \
        .typical = "tokens=512,classes=30522",                                                     \
        .own_init = true,                                                                          \
    }

BERT_PRESET(bert, "bert", "base");
BERT_PRESET(bert_tiny, "bert-tiny", "tiny");
BERT_PRESET(bert_small, "bert-small", "small");
BERT_PRESET(bert_base, "bert-base", "base");
BERT_PRESET(bert_large, "bert-large", "large");
