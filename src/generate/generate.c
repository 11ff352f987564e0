/* generate.c - text from a language model: the prompt in pieces, then token by token, with keys and
 * values kept. */
#include <vivace/generate.h>

#include <string.h>

#include <vivace/memory.h>

/* Tokens of a prompt that go through the model at once: logits of more would only cost memory. */
enum { PIECE = 64 };

typedef struct vvi_session {
    vv_model *model;
    const vv_generate_opts *opts;
    vv_graph *graph;
    int32_t *tokens; /* prompt and what came */
    int64_t count, room; /* now, and at the end */
    int64_t start; /* the first token that the model sees */
    int64_t seen;  /* tokens before this one are kept */
    int64_t context; /* 0 = any number */
    int64_t document_end; /* -1 = none */
    int64_t looked; /* tokens before this one were looked at for the end of a document */
} vvi_session;

/* ---- what can be done with the model ---- */

static bool look_for_attention(void *ctx, const char *path, vv_module *module)
{
    bool *causal = ctx;

    (void)path;
    if (vv_module_type(module) == &vv_attention_class &&
        !((const vv_attention_layer *)vv_module_self(module))->causal)
        *causal = false;
    return *causal;
}

static vv_status check_model(vv_model *model)
{
    const vv_language *parts = model && model->net ? vv_module_language(model->net) : NULL;
    bool causal = true;

    if (!parts || !parts->head || model->task != VV_TASK_CLASSIFY)
        return vv_fail(VV_EINVAL, "generate: %s is no language model that gives the next token",
                       model && model->name ? model->name : "the model");
    vv_module_each(model->net, look_for_attention, &causal);
    if (!causal)
        return vv_fail(VV_EINVAL,
                       "generate: %s sees what comes after a token, so it cannot go on with a "
                       "text; take a GPT", model->name ? model->name : "the model");
    return VV_OK;
}

static vv_status check_opts(const vv_generate_opts *o)
{
    if (o->tokens < 1)
        return vv_fail(VV_EINVAL, "generate: tokens must be at least 1, got %lld",
                       (long long)o->tokens);
    if (!(o->temperature >= 0.0))
        return vv_fail(VV_EINVAL, "generate: temperature must not be negative, got %g",
                       o->temperature);
    if (o->top_k < 0 || !(o->top_p > 0.0 && o->top_p <= 1.0))
        return vv_fail(VV_EINVAL,
                       "generate: top_k must be 0 (all) or more and top_p in (0, 1], got %lld and "
                       "%g", (long long)o->top_k, o->top_p);
    if (o->context < 0)
        return vv_fail(VV_EINVAL, "generate: context must not be negative, got %lld",
                       (long long)o->context);
    return VV_OK;
}

static vv_status check_prompt(const vv_model *model, const int32_t *prompt, int64_t count)
{
    if (count < 1 || !prompt)
        return vv_fail(VV_EINVAL, "generate: the prompt is empty; give at least one token");
    for (int64_t i = 0; i < count; i++)
        if (prompt[i] < 0 || prompt[i] >= model->classes)
            return vv_fail(VV_EINVAL,
                           "generate: token %lld of the prompt is %d, the model knows 0..%lld; the "
                           "tokenizer is not the one it was trained with", (long long)i,
                           (int)prompt[i], (long long)(model->classes - 1));
    return VV_OK;
}

/* Rows of the position table, if one is in use; and as the options say. */
static int64_t context_of(const vv_model *model, const vv_generate_opts *opts)
{
    const vv_language *parts = vv_module_language(model->net);
    vv_module *table = parts->positions ? vv_module_find(model->net, parts->positions) : NULL;
    int64_t most = opts->context;

    if (table && vv_module_type(table) == &vv_embedding_class) {
        const vv_embedding_layer *self = vv_module_self(table);

        if (!self->off && (!most || self->rows < most))
            most = self->rows;
    }
    return most;
}

/* ---- a step ---- */

/* Puts tokens [first, first + count) through the model; logits of the last one if wanted. */
static vv_status run_piece(vvi_session *s, int64_t first, int64_t count, float *logits)
{
    const int64_t shape[2] = {1, count};
    const vv_tensor *value = NULL;
    vv_tensor *tokens = NULL;
    vv_status status = VV_OK;

    vv_graph_reset(s->graph);
    VV_GO(vv_tensor_from(&tokens, VV_I32, 2, shape, s->tokens + first));

    vv_node *y = vv_module_forward(s->model->net, s->graph, vv_leaf(s->graph, tokens));
    vv_node *last = vv_cast(vv_slice(y, 1, count - 1, count, 1), VV_F32);

    VV_GO(vv_graph_status(s->graph));
    if (vv_node_ndim(last) != 3 || vv_node_shape(last)[2] < s->model->classes)
        VV_GO(vv_fail(VV_ESHAPE, "generate: %s gives no logits for each token",
                      s->model->name ? s->model->name : "the model"));
    VV_GO(vv_node_value(last, &value));
    if (logits)
        memcpy(logits, value->data, (size_t)s->model->classes * sizeof *logits);
out:
    vv_tensor_free(tokens);
    return status;
}

/* What the model sees begins at `start` from now on. */
static vv_status begin_at(vvi_session *s, int64_t start)
{
    s->start = s->seen = start;
    if (s->opts->no_cache)
        return VV_OK;
    return vv_decode_begin(s->model->net, s->context && s->context < s->room ? s->context
                                                                            : s->room);
}

/* Behind the end of a document another one begins. Where the next token would be one too many, only
   the newer half stays in sight. */
static vv_status make_room(vvi_session *s)
{
    int64_t start = s->start;

    for (; s->document_end >= 0 && s->looked < s->count - 1; s->looked++)
        if (s->tokens[s->looked] == s->document_end && s->looked >= start)
            start = s->looked + 1;
    if (s->context && s->count - start > s->context)
        start = s->count - (s->context + 1) / 2;
    return start > s->start ? begin_at(s, start) : VV_OK;
}

static vv_status next_logits(vvi_session *s, float *logits)
{
    VV_TRY(make_room(s));
    if (s->opts->no_cache)
        return run_piece(s, s->start, s->count - s->start, logits);
    while (s->seen < s->count) {
        const int64_t left = s->count - s->seen, count = left < PIECE ? left : PIECE;

        VV_TRY(run_piece(s, s->seen, count, count == left ? logits : NULL));
        vv_decode_advance(s->model->net, count);
        s->seen += count;
    }
    return VV_OK;
}

static vv_status run_all(vvi_session *s, int64_t prompt)
{
    float *logits = NULL;
    vv_status status = VV_OK;

    VV_GO(vv_alloc_array(&logits, (size_t)s->model->classes, sizeof *logits));
    for (int64_t i = 0; i < s->opts->tokens; i++) {
        vv_rng rng = vv_rng_at(s->opts->seed, "generate", (uint64_t)i);
        int32_t *token = &s->tokens[s->count];

        VV_GO(next_logits(s, logits));
        VV_GO(vv_generate_choose(logits, s->model->classes, s->opts, vv_rng_uniform(&rng), token));
        s->count++;
        if (s->opts->told && !s->opts->told(s->opts->ctx, *token))
            break;
        if (*token == s->opts->end)
            break;
    }
    s->count -= prompt;
    memmove(s->tokens, s->tokens + prompt, (size_t)s->count * sizeof *s->tokens);
out:
    vv_dealloc(logits);
    return status;
}

static vv_status open_session(vvi_session *s, const int32_t *prompt, int64_t count)
{
    const vv_graph_opts graph = {.backend = s->opts->backend,
                                 .precision = s->opts->precision,
                                 .fuse = true,
                                 .in_place = true};
    size_t room;

    VV_TRY(vv_size_add(&room, (size_t)count, (size_t)s->opts->tokens));
    VV_TRY(vv_alloc_array(&s->tokens, room, sizeof *s->tokens));
    memcpy(s->tokens, prompt, (size_t)count * sizeof *prompt);
    s->count = count;
    s->room = (int64_t)room;
    s->context = context_of(s->model, s->opts);

    const vv_language *parts = vv_module_language(s->model->net);

    s->document_end = parts->document_end ? parts->document_end(s->model->net) : -1;
    VV_TRY(vv_graph_new(&s->graph, &graph));
    /* What the model cannot see of the prompt is left out. */
    return begin_at(s, s->context && count > s->context ? count - s->context : 0);
}

vv_status vv_generate(vv_model *model, const int32_t *prompt, int64_t count,
                      const vv_generate_opts *opts, int32_t **out, int64_t *out_count)
{
    const vv_generate_opts defaults = VV_GENERATE_DEFAULTS;
    vvi_session s = {.model = model, .opts = opts ? opts : &defaults};
    vv_status status = VV_OK;

    *out = NULL;
    *out_count = 0;
    VV_TRY(check_model(model));
    VV_TRY(check_opts(s.opts));
    VV_TRY(check_prompt(model, prompt, count));

    const bool training = vv_module_training(model->net);

    vv_module_set_training(model->net, false);
    VV_GO(open_session(&s, prompt, count));
    VV_GO(run_all(&s, count));
    *out = s.tokens;
    *out_count = s.count;
    s.tokens = NULL;
out:
    vv_decode_end(model->net);
    vv_module_set_training(model->net, training);
    vv_graph_free(s.graph);
    vv_dealloc(s.tokens);
    return status;
}

/* ---- text ---- */

static vv_status encode(const vv_tokenizer *tokenizer, const char *prompt, int32_t **ids,
                        int64_t *count)
{
    *ids = NULL;
    if (prompt && prompt[0])
        return vv_tokenizer_encode(tokenizer, prompt, strlen(prompt), true, ids, count);
    if (vv_tokenizer_end(tokenizer) < 0)
        return vv_fail(VV_EINVAL,
                       "generate: the prompt is empty, and the tokenizer %s has no token that a "
                       "document could begin after; give a prompt", vv_tokenizer_name(tokenizer));
    VV_TRY(vv_alloc(ids, sizeof **ids));
    **ids = vv_tokenizer_end(tokenizer);
    *count = 1;
    return VV_OK;
}

vv_status vv_generate_text(vv_model *model, const vv_tokenizer *tokenizer, const char *prompt,
                           const vv_generate_opts *opts, vv_str *out)
{
    const vv_generate_opts defaults = VV_GENERATE_DEFAULTS;
    vv_generate_opts own = opts ? *opts : defaults;
    int32_t *ids = NULL, *made = NULL;
    int64_t count = 0, made_count = 0;
    vv_status status = VV_OK;

    if (own.end < 0)
        own.end = vv_tokenizer_end(tokenizer);
    VV_GO(encode(tokenizer, prompt, &ids, &count));
    VV_GO(vv_generate(model, ids, count, &own, &made, &made_count));
    if (made_count && made[made_count - 1] == own.end)
        made_count--;
    VV_GO(vv_tokenizer_decode(tokenizer, made, made_count, out));
    status = vv_str_status(out);
out:
    vv_dealloc(ids);
    vv_dealloc(made);
    return status;
}

static vv_status ask_for_name(const vv_model *model)
{
    return vv_fail(VV_ENOTFOUND,
                   "generate: the tokenizer of a model of %lld tokens is not known; name it "
                   "(tokenizer=FOLDER or its tokenizer.json)", (long long)model->classes);
}

static bool is_fingerprint(const char *name)
{
    return strlen(name) == 64 && strspn(name, "0123456789abcdef") == 64;
}

/* The usual tokenizer with this fingerprint; *out stays NULL if none has it. */
static vv_status open_by_fingerprint(vv_tokenizer **out, const char *fingerprint)
{
    static const char *const usual[] = {"bytes", "gpt2"};

    for (int i = 0; i < 2; i++) {
        const vv_status status = vv_tokenizer_open(out, usual[i]);

        if (status != VV_OK && status != VV_ENOTFOUND)
            return status;
        if (status == VV_OK && strcmp(vv_tokenizer_fingerprint(*out), fingerprint) == 0)
            return VV_OK;
        vv_tokenizer_free(*out);
        *out = NULL;
    }
    return VV_OK;
}

vv_status vv_generate_tokenizer(vv_tokenizer **out, const char *name, const vv_model *model)
{
    vv_status status = VV_OK;

    *out = NULL;
    if (!name || !name[0])
        name = model->classes == 256 ? "bytes" : model->classes == 50257 ? "gpt2" : NULL;
    if (!name)
        return ask_for_name(model);
    status = is_fingerprint(name) ? open_by_fingerprint(out, name) : vv_tokenizer_open(out, name);
    if (status != VV_OK)
        return status;
    if (!*out)
        return ask_for_name(model);
    if (vv_tokenizer_vocab(*out) <= model->classes)
        return VV_OK;
    status = vv_fail(VV_EINVAL, "generate: the tokenizer %s has %lld tokens, the model %lld; it is "
                                "not the one the model was trained with", vv_tokenizer_name(*out),
                     (long long)vv_tokenizer_vocab(*out), (long long)model->classes);
    vv_tokenizer_free(*out);
    *out = NULL;
    return status;
}
