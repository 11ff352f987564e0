/* gpt.c - the modern decoder: its body with shortcuts and pairs of tokens, head, settings. */
#include "gpt_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double norm_eps = 1e-6, tied_std = 0.02;

/* ---- pairs of tokens ---- */

/* The row of the pair (a, b): (36313 b + 27191 a) mod rows. Multipliers of the speed record, which
   joins the two by exclusive or; a sum needs no operation of its own. Exact in f64. */
static vv_node *pair_rows(vv_node *tokens, vv_node *before, int64_t rows)
{
    vv_node *sum = vv_add(vv_affine(vv_cast(tokens, VV_F64), 36313.0, 0.0),
                          vv_affine(vv_cast(before, VV_F64), 27191.0, 0.0));
    vv_node *whole = vv_cast(vv_cast(vv_affine(sum, 1.0 / (double)rows, 0.0), VV_I64), VV_F64);
    vv_node *rest = vv_sub(sum, vv_affine(whole, (double)rows, 0.0));

    /* The quotient was rounded: the rest may be `rows` too much or too little. */
    rest = vv_where(vv_less(rest, vv_full(vv_node_graph(tokens), VV_F64, 0, NULL, 0.0)),
                    vv_affine(rest, 1.0, (double)rows), rest);
    rest = vv_where(vv_greater_equal(rest, vv_full(vv_node_graph(tokens), VV_F64, 0, NULL,
                                                   (double)rows)),
                    vv_affine(rest, 1.0, -(double)rows), rest);
    return vv_cast(rest, VV_I32);
}

typedef struct vvi_gpt_body {
    vv_gpt_opts opts;
    int64_t pairs;       /* rows of the table of pairs */
    vv_tensor *previous; /* i32 [1,1]: the last token decoded */
} vvi_gpt_body;

/* The tokens one place earlier; before the first the end of a document, if there is such a token,
   or 0. */
static vv_node *earlier(vv_module *body, vv_graph *graph, vv_node *tokens)
{
    vvi_gpt_body *self = vv_module_self(body);
    const int64_t rows = vv_node_shape(tokens)[0], count = vv_node_shape(tokens)[1];
    const int64_t one[2] = {1, 1}, column[2] = {rows, 1};
    vv_node *parts[2] = {NULL, vv_slice(tokens, 1, 0, count - 1, 1)};

    if (vv_module_decoding(body)) {
        vv_status status = VV_OK;

        if (!self->previous)
            status = vv_tensor_new(&self->previous, VV_I32, 2, one);
        if (status == VV_OK)
            status = vv_update(graph, self->previous, vv_slice(tokens, 1, count - 1, count, 1));
        if (status != VV_OK)
            return vv_graph_fail(graph, status);
    }
    parts[0] = vv_module_past(body)
                   ? vv_leaf(graph, self->previous)
                   : vv_full(graph, VV_I32, 2, column,
                             self->opts.document_end < 0 ? 0.0 : (double)self->opts.document_end);
    return count > 1 ? vv_concat(parts, 2, 1) : parts[0];
}

/* ---- the body: wte, h, norm, then embed_norm and bigram where there are ---- */

enum { WTE, BLOCKS, NORM };

static vv_node *element(vv_module *module, vv_graph *graph, const char *name, int64_t i)
{
    return vv_reshape(vv_slice(vv_module_param_node(module, graph, name), 0, i, i + 1, 1), 0,
                      NULL);
}

/* Mixes what block i starts from: l0 x + l1 x0, and l2 pairs. */
static vv_node *mix(vv_module *body, vv_graph *graph, vv_node *x, vv_node *x0, vv_node *pairs,
                    int64_t i)
{
    const vvi_gpt_body *self = vv_module_self(body);

    if (self->opts.x0 == VV_GPT_ON)
        x = vv_add(vv_mul(x, element(body, graph, "x0_lambdas", 2 * i)),
                   vv_mul(x0, element(body, graph, "x0_lambdas", 2 * i + 1)));
    if (pairs)
        x = vv_add(x, vv_mul(pairs, element(body, graph, "bigram_lambdas", i)));
    return x;
}

/* The first half's outputs are kept and taken back, last first, by the second half. */
static vv_node *run_blocks(vv_module *body, vv_graph *graph, vv_node *x, vv_node *pairs)
{
    enum { MOST = 1024 }; /* layers, as the setting's limit */
    const vvi_gpt_body *self = vv_module_self(body);
    vv_module *blocks = vv_module_child(body, BLOCKS);
    vv_node *x0 = x, *kept[MOST / 2];
    const int count = vv_module_child_count(blocks), half = count / 2;

    for (int i = 0; i < count && x; i++) {
        const int from = count - 1 - i; /* the block of the first half that i looks at */

        if (self->opts.unet == VV_GPT_ON && i >= half && from < half)
            x = vv_add(x, vv_mul(kept[from], element(body, graph, "skip_weights", from)));
        x = vv_module_forward(vv_module_child(blocks, i), graph, mix(body, graph, x, x0, pairs, i));
        if (i < half)
            kept[i] = x;
    }
    return x;
}

static vv_node *documents(vv_graph *graph, vv_node *tokens, int64_t end)
{
    vv_node *ends = vv_equal(tokens, vv_full(graph, VV_I32, 0, NULL, (double)end));

    return vv_cumsum(vv_cast(ends, VV_I32), true);
}

static vv_node *body_forward(vv_module *body, vv_graph *graph, vv_node *tokens)
{
    const vvi_gpt_body *self = vv_module_self(body);
    vv_module *norm = vv_module_find(body, "embed_norm"), *table = vv_module_find(body, "bigram");
    vv_node *x = vv_module_forward(vv_module_child(body, WTE), graph, tokens), *pairs = NULL;

    if (norm)
        x = vv_module_forward(norm, graph, x);
    if (table)
        pairs = vv_module_forward(table, graph,
                                  pair_rows(tokens, earlier(body, graph, tokens), self->pairs));
    vvi_gpt_set_tokens(body, tokens);
    if (self->opts.document_end >= 0)
        vv_attention_mask(body, NULL, documents(graph, tokens, self->opts.document_end));
    x = run_blocks(body, graph, x, pairs);
    vv_attention_mask(body, NULL, NULL);
    vvi_gpt_set_tokens(body, NULL);
    return vv_module_forward(vv_module_child(body, NORM), graph, x);
}

static void body_fini(vv_module *body)
{
    vv_tensor_free(((vvi_gpt_body *)vv_module_self(body))->previous);
}

static const vv_module_class body_class = {"GPTBody", body_forward, body_fini};

/* Numbers [count], `first` at even places and `second` at odd ones. */
static vv_status add_numbers(vv_module *module, const char *name, int64_t count, double first,
                             double second)
{
    vv_param *param = NULL;

    VV_TRY(vv_param_new(&param, 1, &count));
    for (int64_t i = 0; i < count; i++)
        vv_tensor_set(param->value, i, i % 2 ? second : first);
    return vv_module_add_param(module, name, param);
}

static vv_status push_table(vv_module *module, const char *name, int64_t rows, int64_t d)
{
    vv_module *part = NULL;
    const vv_status made = vv_embedding_new(&part, rows, d);

    return vvi_gpt_push(module, name, made, part);
}

/* Block i of n shares table i of value embeddings if it is among the first, and table i - (layers -
   n) if it is among the last; the first of the two makes it. */
static vv_status push_block(vv_module *blocks, int64_t i, int64_t rows, const vv_gpt_opts *o)
{
    const int64_t n = o->value_embeddings, width = o->kv_heads * (o->d / o->heads);
    vv_module *block = NULL, *values = NULL;
    char name[64];
    vv_status status = VV_OK;

    if (i < n)
        VV_TRY(vv_embedding_new(&values, rows, width));
    if (i >= o->layers - n) {
        snprintf(name, sizeof name, "%lld.attn.value_embeds", (long long)(i - (o->layers - n)));
        values = vv_module_keep(vv_module_find(blocks, name));
    }
    snprintf(name, sizeof name, "%lld", (long long)i);
    VV_GO(vvi_gpt_push_part(&block, blocks, name, &vv_gpt_block_class));
    VV_GO(vvi_gpt_fill_block(block, o, values));
out:
    vv_module_free(values);
    return status;
}

static vv_status fill_body(vv_module *body, int64_t rows, const vv_gpt_opts *o)
{
    vvi_gpt_body *self = vv_module_self(body);
    vv_module *part = NULL;
    vv_status made;

    if (o->x0 == VV_GPT_ON)
        VV_TRY(add_numbers(body, "x0_lambdas", 2 * o->layers, 1.0, 0.0));
    if (self->pairs)
        VV_TRY(add_numbers(body, "bigram_lambdas", o->layers, 0.1, 0.1));
    if (o->unet == VV_GPT_ON && o->layers > 1)
        VV_TRY(add_numbers(body, "skip_weights", o->layers / 2, 1.0, 1.0));
    VV_TRY(push_table(body, "wte", rows, o->d));
    VV_TRY(vvi_gpt_push_part(&part, body, "h", &vv_sequential_class));
    for (int64_t i = 0; i < o->layers; i++)
        VV_TRY(push_block(part, i, rows, o));
    made = vv_rms_norm_new(&part, o->d, norm_eps, false);
    VV_TRY(vvi_gpt_push(body, "ln_f", made, part));
    if (o->embed_norm == VV_GPT_ON) {
        made = vv_rms_norm_new(&part, o->d, norm_eps, false);
        VV_TRY(vvi_gpt_push(body, "embed_norm", made, part));
    }
    return self->pairs ? push_table(body, "bigram", self->pairs, o->d) : VV_OK;
}

/* ---- the net ---- */

static vv_node *net_forward(vv_module *net, vv_graph *graph, vv_node *tokens)
{
    const double softcap = *(const double *)vv_module_self(net);
    char text[96];

    if (vv_node_ndim(tokens) != 2)
        return vv_graph_fail(graph, vv_fail(VV_ESHAPE, "gpt: needs tokens [N,T], got %s",
                                            vv_shape_text(vv_node_ndim(tokens),
                                                          vv_node_shape(tokens), text,
                                                          sizeof text)));
    if (vv_node_dtype(tokens) != VV_I32)
        tokens = vv_cast(tokens, VV_I32);

    vv_node *x = vv_module_forward(vv_module_child(net, 0), graph, tokens);

    x = vv_module_forward(vv_module_child(net, 1), graph, x);
    return softcap > 0.0 ? vv_softcap(x, softcap) : x;
}

static const vv_module_class net_class = {"GPT", net_forward, NULL};

static int64_t document_end(vv_module *net)
{
    const vvi_gpt_body *body = vv_module_self(vv_module_child(net, 0));

    return body->opts.document_end;
}

static const vv_language parts = {"transformer.wte", NULL, "transformer.h", "lm_head",
                                  document_end};

static vv_status push_head(vv_module *net, int64_t rows, const vv_gpt_opts *o)
{
    vv_param *table = vv_module_param(vv_module_find(net, "transformer.wte"), "weight");
    vv_module *head = NULL;
    vv_status status;

    if (o->tied == VV_GPT_OFF) {
        VV_TRY(vv_linear_new(&head, o->d, rows, false));
        return vv_module_add_child(net, "lm_head", head);
    }
    VV_TRY(vv_module_new(&head, &vv_linear_class, sizeof(vv_linear_layer)));
    *(vv_linear_layer *)vv_module_self(head) = (vv_linear_layer){o->d, rows, false};
    status = vv_module_add_param(head, "weight", vv_param_keep(table));
    if (status != VV_OK) {
        vv_module_free(head);
        return status;
    }
    return vv_module_add_child(net, "lm_head", head);
}

typedef struct vvi_gpt_start {
    uint64_t seed;
    double bound;
    bool tied;
} vvi_gpt_start;

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool start_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    const vvi_gpt_start *s = ctx;

    (void)owner;
    if (param->value->ndim != 2 || ends_with(path, "c_proj.weight") ||
        ends_with(path, "bigram.weight") || ends_with(path, "lm_head.weight"))
        return true; /* numbers, and what starts at 0 */
    if (ends_with(path, "wte.weight"))
        vv_param_fill_normal(param, s->tied ? tied_std : 1.0, s->seed, path);
    else if (ends_with(path, "value_embeds.weight"))
        vv_param_fill_normal(param, 0.01, s->seed, path);
    else
        vv_param_fill_uniform(param, -s->bound, s->bound, s->seed, path);
    return true;
}

/* ---- settings ---- */

static int open_switch(int value, bool full, bool simple_on, bool full_on)
{
    if (value != VV_GPT_AUTO)
        return value;
    return (full ? full_on : simple_on) ? VV_GPT_ON : VV_GPT_OFF;
}

static double open_number(double value, bool full, double simple, double later)
{
    return value >= 0.0 ? value : full ? later : simple;
}

static void settle(vv_gpt_opts *o)
{
    const bool full = o->style == VV_GPT_FULL;

    if (!o->kv_heads)
        o->kv_heads = o->heads;
    if (!o->d_ff)
        o->d_ff = 4 * o->d;
    o->rotary_base = open_number(o->rotary_base, full, 10000.0, 1024.0);
    o->rotary_share = open_number(o->rotary_share, full, 1.0, 0.5);
    o->scale = open_number(o->scale, full, 0.0, 0.12);
    o->softcap = open_number(o->softcap, full, 0.0, 15.0);
    o->bigram = open_number(o->bigram, full, 0.0, 1.0);
    o->qk_norm = open_switch(o->qk_norm, full, true, true);
    o->tied = open_switch(o->tied, full, true, false);
    o->embed_norm = open_switch(o->embed_norm, full, false, true);
    o->x0 = open_switch(o->x0, full, false, true);
    o->unet = open_switch(o->unet, full, false, true);
    if (o->value_embeddings < 0)
        o->value_embeddings = full ? o->layers / 2 < 3 ? o->layers / 2 : 3 : 0;
}

static vv_status check(const vv_gpt_opts *o)
{
    if (o->style < VV_GPT_SIMPLE || o->style > VV_GPT_FULL)
        return vv_fail(VV_EINVAL, "gpt: style must be one of vv_gpt_style, got %d", o->style);
    if (o->d < 1 || o->layers < 1 || o->heads < 1 || o->d_ff < 1 || o->vocab_multiple < 1)
        return vv_fail(VV_EINVAL,
                       "gpt: d, layers, heads, d_ff and vocab_multiple must be positive");
    if (o->layers > 1024)
        return vv_fail(VV_EINVAL, "gpt: %lld layers; at most 1024", (long long)o->layers);
    if (o->d % o->heads || o->heads % o->kv_heads)
        return vv_fail(VV_EINVAL,
                       "gpt: %lld heads must divide d = %lld and be a multiple of kv_heads = %lld",
                       (long long)o->heads, (long long)o->d, (long long)o->kv_heads);
    if (2 * o->value_embeddings > o->layers)
        return vv_fail(VV_EINVAL,
                       "gpt: %lld value embeddings serve the first and the last layers; %lld "
                       "layers take %lld", (long long)o->value_embeddings, (long long)o->layers,
                       (long long)(o->layers / 2));
    return VV_OK;
}

vv_status vv_gpt_new(vv_module **out, int64_t vocabulary, const vv_gpt_opts *opts, uint64_t seed)
{
    const vv_gpt_opts defaults = VV_GPT_DEFAULTS;
    vv_gpt_opts o = opts ? *opts : defaults;
    vv_module *net = NULL, *body = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    settle(&o);
    VV_TRY(check(&o));
    if (vocabulary < 1)
        return vv_fail(VV_EINVAL, "gpt: a vocabulary of %lld tokens; at least one is needed",
                       (long long)vocabulary);

    const int64_t rows = (vocabulary + o.vocab_multiple - 1) / o.vocab_multiple * o.vocab_multiple;
    /* A uniform distribution of deviation .5 / sqrt(d). */
    vvi_gpt_start start = {seed, 0.5 * sqrt(3.0 / (double)o.d), o.tied == VV_GPT_ON};

    VV_GO(vv_module_new(&net, &net_class, sizeof(double)));
    *(double *)vv_module_self(net) = o.softcap;
    vv_module_set_language(net, &parts);
    VV_GO(vv_module_new(&body, &body_class, sizeof(vvi_gpt_body)));
    *(vvi_gpt_body *)vv_module_self(body) =
        (vvi_gpt_body){.opts = o, .pairs = (int64_t)(o.bigram * (double)rows)};
    VV_GO(vv_module_add_child(net, "transformer", body));
    VV_GO(fill_body(body, rows, &o));
    VV_GO(push_head(net, rows, &o));
    vv_module_each_param(net, start_param, &start);
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    vv_module *net = NULL;

    VV_TRY(vv_model_need_tokens("gpt", input, 0, false));
    VV_TRY(vv_gpt_new(&net, input->classes, opts, seed));
    VV_TRY(vv_classifier_new(out, net, input->classes));
    (*out)->metrics = "cross_entropy,perplexity"; /* they need no logits: the loss will do */
    return VV_OK;
}

#define AT(field) offsetof(vv_gpt_opts, field)
static const char *const styles[] = {"simple", "full", NULL};
static const char *const switches[] = {"auto", "off", "on", NULL};
static const vv_field fields[] = {
    {"style", "What settings left open mean: simple (record 5) or full (what later records added).", VV_FIELD_CHOICE, AT(style), "simple", 0, 0, styles},
    {"d", "Width of the residual stream.", VV_FIELD_INT, AT(d), "768", 1, 65536, NULL},
    {"layers", "Blocks.", VV_FIELD_INT, AT(layers), "12", 1, 1024, NULL},
    {"heads", "Heads of attention.", VV_FIELD_INT, AT(heads), "6", 1, 1024, NULL},
    {"kv_heads", "Heads of keys and values; 0 = heads.", VV_FIELD_INT, AT(kv_heads), "0", 0, 1024, NULL},
    {"d_ff", "Width inside the feed-forward blocks; 0 = 4 d.", VV_FIELD_INT, AT(d_ff), "0", 0, 1048576, NULL},
    {"vocab_multiple", "Token tables are padded to a multiple of this.", VV_FIELD_INT, AT(vocab_multiple), "64", 1, 4096, NULL},
    {"window", "Tokens that attention sees back, itself included; 0 = all.", VV_FIELD_INT, AT(window), "0", 0, 16777216, NULL},
    {"document_end", "Token after which nothing before is seen; -1 = none.", VV_FIELD_INT, AT(document_end), "-1", -1, 16777216, NULL},
    {"dropout", "Share dropped of attention weights and branches.", VV_FIELD_FLOAT, AT(dropout), "0", 0, 0.99, NULL},
    {"rotary_base", "Base of rotary positions; -1 = 10000 (full: 1024).", VV_FIELD_FLOAT, AT(rotary_base), "-1", -1, 1e12, NULL},
    {"rotary_share", "Share of the pairs that turn; -1 = 1 (full: 0.5).", VV_FIELD_FLOAT, AT(rotary_share), "-1", -1, 1, NULL},
    {"qk_norm", "RMS norm of queries and keys; auto = on.", VV_FIELD_CHOICE, AT(qk_norm), "auto", 0, 0, switches},
    {"scale", "Factor of attention scores; 0 = 1 / sqrt(size of a head); -1 = 0 (full: 0.12).", VV_FIELD_FLOAT, AT(scale), "-1", -1, 1000, NULL},
    {"softcap", "Logits become c tanh(x / c); 0 = as they are; -1 = 0 (full: 15).", VV_FIELD_FLOAT, AT(softcap), "-1", -1, 10000, NULL},
    {"tied", "Head and token table are one; auto = on (full: off, and the head starts at 0).", VV_FIELD_CHOICE, AT(tied), "auto", 0, 0, switches},
    {"embed_norm", "RMS norm behind the token table; auto = off (full: on).", VV_FIELD_CHOICE, AT(embed_norm), "auto", 0, 0, switches},
    {"x0", "Each block starts from a learned mix with the embedding; auto = off (full: on).", VV_FIELD_CHOICE, AT(x0), "auto", 0, 0, switches},
    {"unet", "Blocks of the second half add, weighted, outputs of the first; auto = off (full: on).", VV_FIELD_CHOICE, AT(unet), "auto", 0, 0, switches},
    {"value_embeddings", "Token tables mixed into the values of as many first and last layers; -1 = 0 (full: 3).", VV_FIELD_INT, AT(value_embeddings), "-1", -1, 512, NULL},
    {"bigram", "Rows of the table of token pairs, in vocabularies; 0 = none; -1 = 0 (full: 1).", VV_FIELD_FLOAT, AT(bigram), "-1", -1, 100, NULL},
    {.name = NULL},
};

const vv_model_desc vv_model_gpt = {
    .desc = {.kind = "model",
             .name = "gpt",
             .summary = "Modern decoder: rotary positions, RMS norms, ReLU^2 and more of the "
                        "NanoGPT speed records.",
             .cite = "Jordan et al., modded-nanogpt, 2024; its parts: arXiv 2104.09864, "
                     "2010.04245, 2109.08668",
             .domains = "nlp",
             .fields = fields,
             .opts_size = sizeof(vv_gpt_opts)},
    .build = build,
    .typical = "tokens=1024,classes=50257",
    .own_init = true,
};
