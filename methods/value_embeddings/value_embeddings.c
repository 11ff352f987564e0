/* value_embeddings.c - attention's values get a table of tokens of their own (modded-nanogpt,
 * record 14): what a token says, beside what the layers before made of it. */
#include "value_embeddings.h"

#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

static const vv_value_embeddings_opts defaults = VV_VALUE_EMBEDDINGS_DEFAULTS;

/* ---- layers ---- */

/* The model's table: remembers which tokens it was asked for, for one forward. */
typedef struct token_table {
    vv_node *tokens;
} token_table;

static vv_node *table_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    token_table *self = vv_module_self(module);
    self->tokens = x;
    return vv_embedding(x, vv_module_param_node(module, graph, "weight"));
}

const vv_module_class vv_token_table_class = {"TokenTable", table_forward, NULL};

typedef struct value_embedding {
    vv_module *tokens; /* a TokenTable, kept */
    bool last;         /* the last that asks it */
} value_embedding;

static vv_node *lambda(vv_module *module, vv_graph *graph, int64_t i)
{
    return vv_reshape(
        vv_slice(vv_module_param_node(module, graph, "lambdas"), 0, i, i + 1, 1), 0, NULL);
}

/* core, table */
static vv_node *value_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const value_embedding *self = vv_module_self(module);
    vv_module *core = vv_module_child(module, 0);
    const vv_attention_layer *layer = vv_module_self(core);
    token_table *table = vv_module_self(self->tokens);
    vv_node *tokens = table->tokens;
    if (self->last) /* nodes live no longer than their step */
        table->tokens = NULL;
    if (!x || !tokens) /* the layer alone, without a model around it */
        return vv_module_forward(core, graph, x);
    const int64_t from = (layer->heads + layer->kv_heads) * layer->head_dim;
    const int64_t to = from + layer->kv_heads * layer->head_dim;
    const int axis = vv_node_ndim(x) - 1;
    vv_node *more = vv_module_forward(vv_module_child(module, 1), graph, tokens);
    vv_node *parts[2] = {vv_slice(x, axis, 0, from, 1), vv_slice(x, axis, from, to, 1)};
    parts[1] = vv_add(vv_mul(parts[1], lambda(module, graph, 0)),
                      vv_mul(more, lambda(module, graph, 1)));
    return vv_module_forward(core, graph, vv_concat(parts, 2, axis));
}

static void value_fini(vv_module *module)
{
    const value_embedding *self = vv_module_self(module);
    vv_module_free(self->tokens);
}

const vv_module_class vv_value_embedding_class = {"ValueEmbedding", value_forward, value_fini};

/* ---- where they go ---- */

typedef struct place {
    vv_module *parent;
    int child;
} place;

static place parent_of(vv_module *net, const char *path)
{
    char above[1024] = "";
    const char *dot = strrchr(path, '.');
    place at = {net, 0};
    if (dot && (size_t)(dot - path) < sizeof above) {
        memcpy(above, path, (size_t)(dot - path));
        at.parent = vv_module_find(net, above);
    }
    const char *name = dot ? dot + 1 : path;
    for (; at.parent && at.child < vv_module_child_count(at.parent); at.child++)
        if (strcmp(vv_module_child_name(at.parent, at.child), name) == 0)
            return at;
    return (place){NULL, 0};
}

typedef struct site { /* an exchange: the old part is kept, the new one ours until it is in */
    place at;
    vv_module *old, *made;
} site;

typedef struct search {
    site *sites; /* NULL = only counts; attention layers from number 1 on */
    int count;
} search;

static bool take(void *ctx, const char *path, vv_module *module)
{
    search *s = ctx;
    (void)path;
    for (int i = 0; i < vv_module_child_count(module); i++) {
        vv_module *part = vv_module_child(module, i);
        if (vv_module_type(part) != &vv_attention_class ||
            vv_module_type(module) == &vv_value_embedding_class)
            continue;
        if (s->sites)
            s->sites[1 + s->count] = (site){{module, i}, part, NULL};
        s->count++;
    }
    return true;
}

/* The model's table of tokens; NULL parent = it tells of none, or it is one of ours already. */
static place tokens_of(vv_module *net)
{
    const vv_language *parts = vv_module_language(net);
    place at = {NULL, 0};
    if (parts && parts->tokens)
        at = parent_of(net, parts->tokens);
    if (at.parent && vv_module_type(vv_module_child(at.parent, at.child)) != &vv_embedding_class)
        at.parent = NULL;
    return at;
}

static int count_layers(vv_module *net, const vv_value_embeddings_opts *o)
{
    search s = {NULL, 0};
    if (!tokens_of(net).parent)
        return 0;
    vv_module_each(net, take, &s);
    return s.count < 2 * o->tables ? s.count : (int)(2 * o->tables);
}

/* ---- new parts ---- */

static vv_status new_tokens(site *s)
{
    VV_TRY(vv_module_new(&s->made, &vv_token_table_class, sizeof(token_table)));
    return vv_module_add_param(s->made, "weight", vv_param_keep(vv_module_param(s->old, "weight")));
}

static vv_status fill(vv_module *made, const site *s, vv_module *tokens, vv_module *table)
{
    const int64_t two = 2;
    vv_param *lambdas = NULL;
    ((value_embedding *)vv_module_self(made))->tokens = vv_module_keep(tokens);
    VV_TRY(vv_module_add_child(made, "core", vv_module_keep(s->old)));
    VV_TRY(vv_module_add_child(made, "table", vv_module_keep(table)));
    VV_TRY(vv_param_new(&lambdas, 1, &two));
    vv_tensor_fill(lambdas->value, 0.5);
    return vv_module_add_param(made, "lambdas", lambdas);
}

/* Table number i for the layers i and count - 1 - i, which may be one. */
static vv_status make_pair(site *sites, int count, int i, const vv_value_embeddings_opts *o,
                           uint64_t seed)
{
    const int both[2] = {i, count - 1 - i};
    const vv_embedding_layer *own = vv_module_self(sites[0].old);
    const vv_attention_layer *layer = vv_module_self(sites[1 + i].old);
    vv_module *table = NULL;
    char name[48];
    vv_status status = VV_OK;
    snprintf(name, sizeof name, "value_embeddings.%d", i);
    VV_TRY(vv_embedding_new(&table, own->rows, layer->kv_heads * layer->head_dim));
    vv_param_fill_normal(vv_module_param(table, "weight"), o->std, seed, name);
    for (int k = 0; k < (both[0] == both[1] ? 1 : 2); k++) {
        site *s = &sites[1 + both[k]];
        VV_GO(vv_module_new(&s->made, &vv_value_embedding_class, sizeof(value_embedding)));
        VV_GO(fill(s->made, s, sites[0].made, table));
    }
out:
    vv_module_free(table);
    return status;
}

/* ---- surgery ---- */

static vv_status exchange(const site *s, vv_module *part)
{
    return vv_module_set_child(s->at.parent, s->at.child, vv_module_keep(part));
}

static vv_status exchange_all(vv_module *net, site *sites, int count, vv_optimizer *optimizer)
{
    vv_status status = VV_OK;
    int done = 0;
    for (; done < count && status == VV_OK; done++)
        if (sites[done].made)
            status = exchange(&sites[done], sites[done].made);
    if (status == VV_OK && optimizer)
        status = vv_optimizer_sync(optimizer, net);
    if (status == VV_OK)
        return VV_OK;
    for (int i = 0; i < done; i++)
        if (sites[i].made)
            (void)!exchange(&sites[i], sites[i].old);
    return status;
}

static vv_status make_all(site *sites, int count, const vv_value_embeddings_opts *o, uint64_t seed)
{
    int last = -1;
    VV_TRY(new_tokens(&sites[0]));
    for (int i = 0; i < o->tables && i < (count + 1) / 2; i++)
        VV_TRY(make_pair(sites, count, i, o, seed));
    for (int i = 0; i < count; i++)
        last = sites[1 + i].made ? i : last;
    ((value_embedding *)vv_module_self(sites[1 + last].made))->last = true;
    return VV_OK;
}

vv_status vv_apply_value_embeddings(vv_module *net, const vv_value_embeddings_opts *opts,
                                    uint64_t seed, vv_optimizer *optimizer, int *count)
{
    const vv_value_embeddings_opts *o = opts ? opts : &defaults;
    vv_status status = VV_OK;
    search s = {NULL, 0};
    if (count)
        *count = 0;
    if (!net || o->tables < 1)
        return vv_fail(VV_EINVAL, "value_embeddings: %s", net ? "no table" : "no net");
    const int changed = count_layers(net, o);
    if (changed == 0)
        return VV_OK;
    vv_module_each(net, take, &s);
    const int layers = s.count;
    VV_TRY(vv_alloc_array(&s.sites, (size_t)layers + 1, sizeof *s.sites));
    s.count = 0;
    vv_module_each(net, take, &s);
    s.sites[0].at = tokens_of(net);
    s.sites[0].old = vv_module_child(s.sites[0].at.parent, s.sites[0].at.child);
    for (int i = 0; i <= layers; i++)
        vv_module_keep(s.sites[i].old);
    VV_GO(make_all(s.sites, layers, o, seed));
    VV_GO(exchange_all(net, s.sites, layers + 1, optimizer));
    if (count)
        *count = changed;
out:
    for (int i = 0; i <= layers; i++) {
        vv_module_free(s.sites[i].old);
        vv_module_free(s.sites[i].made);
    }
    vv_dealloc(s.sites);
    return status;
}

/* ---- the Trainer's method ---- */

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    int count;
    (void)event;
    VV_TRY(vv_apply_value_embeddings(state->model->net, method->opts, state->seed,
                                     state->optimizer, &count));
    method->effect += count;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_value_embeddings_opts *o = method->opts;
    const int count = count_layers(state->model->net, o);
    vv_str_addf(line, "tables of tokens for the values of %d attention layer%s", count,
                count == 1 ? "" : "s");
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_value_embeddings_opts, member)
static const vv_field fields[] = {
    {"tables", "Tables: the first serves the first and the last attention layer, and so on.",
     VV_FIELD_INT, AT(tables), "1", 1, 64, NULL},
    {"std", "Deviation of the tables at the start.", VV_FIELD_FLOAT, AT(std), "0.02", 0, 10, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_value_embeddings = {
    .desc = {.kind = "method",
             .name = "value_embeddings",
             .summary = "Adds tables of tokens to the values of attention layers.",
             .cite = "Jordan et al., modded-nanogpt (2024)",
             .domains = "nlp",
             .fields = fields,
             .opts_size = sizeof(vv_value_embeddings_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .required_on_load = true,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_value_embeddings(const vv_value_embeddings_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_value_embeddings, opts) == VV_OK ? method : NULL;
}
