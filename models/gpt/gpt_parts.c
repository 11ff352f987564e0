/* gpt_parts.c - a block of gpt: attention with value embeddings, ReLU^2 between two matrices. */
#include "gpt_parts.h"

static const double norm_eps = 1e-6;

vv_status vvi_gpt_push(vv_module *module, const char *name, vv_status made, vv_module *part)
{
    return made == VV_OK ? vv_module_add_child(module, name, part) : made;
}

vv_status vvi_gpt_push_part(vv_module **out, vv_module *module, const char *name,
                            const vv_module_class *type)
{
    *out = NULL;
    VV_TRY(vv_module_new(out, type, 0));
    return vv_module_add_child(module, name, *out);
}

static vv_status push_linear(vv_module *module, const char *name, int64_t in, int64_t out)
{
    vv_module *part = NULL;
    const vv_status made = vv_linear_new(&part, in, out, false);

    return vvi_gpt_push(module, name, made, part);
}

static vv_node *forward_all(vv_module *module, vv_graph *graph, vv_node *x)
{
    for (int i = 0; i < vv_module_child_count(module); i++)
        x = vv_module_forward(vv_module_child(module, i), graph, x);
    return x;
}

/* ---- attention: c_q, c_k, c_v, core, c_proj, dropout, value_embeds where there is one ---- */

enum { C_Q, C_K, C_V, CORE, C_PROJ, DROPOUT, VALUE_EMBEDS };

typedef struct vvi_gpt_attention {
    vv_node *tokens; /* for one forward */
} vvi_gpt_attention;

/* Element i of a parameter of numbers, []. */
static vv_node *element(vv_module *module, vv_graph *graph, const char *name, int64_t i)
{
    return vv_reshape(vv_slice(vv_module_param_node(module, graph, name), 0, i, i + 1, 1), 0,
                      NULL);
}

static vv_node *attention_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vvi_gpt_attention *self = vv_module_self(module);
    vv_module *table = vv_module_child(module, VALUE_EMBEDS);
    vv_node *q = vv_module_forward(vv_module_child(module, C_Q), graph, x);
    vv_node *k = vv_module_forward(vv_module_child(module, C_K), graph, x);
    vv_node *v = vv_module_forward(vv_module_child(module, C_V), graph, x);

    if (table && self->tokens) {
        vv_node *more = vv_module_forward(table, graph, self->tokens);

        v = vv_add(vv_mul(v, element(module, graph, "lambdas", 0)),
                   vv_mul(more, element(module, graph, "lambdas", 1)));
    }
    x = vv_attention_attend(vv_module_child(module, CORE), graph, q, k, v);
    x = vv_module_forward(vv_module_child(module, C_PROJ), graph, x);
    return vv_module_forward(vv_module_child(module, DROPOUT), graph, x);
}

static const vv_module_class attention_class = {"GPTAttention", attention_forward, NULL};

static bool set_tokens(void *ctx, const char *path, vv_module *module)
{
    (void)path;
    if (vv_module_type(module) == &attention_class)
        ((vvi_gpt_attention *)vv_module_self(module))->tokens = ctx;
    return true;
}

void vvi_gpt_set_tokens(vv_module *net, vv_node *tokens)
{
    vv_module_each(net, set_tokens, tokens);
}

/* v = .5 v + .5 embedding at the start. */
static vv_status add_values(vv_module *attn, vv_module *values)
{
    const int64_t two = 2;
    vv_param *lambdas = NULL;

    VV_TRY(vv_param_new(&lambdas, 1, &two));
    vv_tensor_fill(lambdas->value, 0.5);
    VV_TRY(vv_module_add_param(attn, "lambdas", lambdas));
    return vv_module_add_child(attn, "value_embeds", vv_module_keep(values));
}

static vv_status fill_attention(vv_module *attn, const vv_gpt_opts *o, vv_module *values)
{
    const vv_attention_layer settings = {.heads = o->heads,
                                         .kv_heads = o->kv_heads,
                                         .head_dim = o->d / o->heads,
                                         .causal = true,
                                         .window = o->window,
                                         .scale = o->scale,
                                         .dropout = o->dropout,
                                         .qk_norm = o->qk_norm == VV_GPT_ON,
                                         .rotary_base = o->rotary_base,
                                         .rotary_share = o->rotary_share};
    const int64_t narrow = o->kv_heads * (o->d / o->heads);
    vv_module *part = NULL;
    vv_status made;

    VV_TRY(push_linear(attn, "c_q", o->d, o->d));
    VV_TRY(push_linear(attn, "c_k", o->d, narrow));
    VV_TRY(push_linear(attn, "c_v", o->d, narrow));
    made = vv_attention_new(&part, &settings);
    VV_TRY(vvi_gpt_push(attn, "core", made, part));
    VV_TRY(push_linear(attn, "c_proj", o->d, o->d));
    made = vv_dropout_new(&part, o->dropout);
    VV_TRY(vvi_gpt_push(attn, "dropout", made, part));
    return values ? add_values(attn, values) : VV_OK;
}

/* ---- a block ---- */

static const vv_module_class mlp_class = {"GPTMLP", forward_all, NULL};
static const vv_mlp mlp_parts = {"c_fc", "act", "c_proj"};

static vv_status fill_mlp(vv_module *mlp, const vv_gpt_opts *o)
{
    vv_module *part = NULL;
    vv_status made;

    vv_module_set_mlp(mlp, &mlp_parts);
    VV_TRY(push_linear(mlp, "c_fc", o->d, o->d_ff));
    made = vv_activation_new(&part, VV_ACT_RELU2, 0.0);
    VV_TRY(vvi_gpt_push(mlp, "act", made, part));
    VV_TRY(push_linear(mlp, "c_proj", o->d_ff, o->d));
    made = vv_dropout_new(&part, o->dropout);
    return vvi_gpt_push(mlp, "dropout", made, part);
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

const vv_module_class vv_gpt_block_class = {"GPTBlock", block_forward, NULL};
static const vv_residual block_parts = {block_branch, -1, false};

vv_status vvi_gpt_fill_block(vv_module *block, const vv_gpt_opts *o, vv_module *values)
{
    vv_module *part = NULL, *norm = NULL;
    vv_status made;

    vv_module_set_residual(block, &block_parts);
    made = vv_rms_norm_new(&norm, o->d, norm_eps, false);
    VV_TRY(vvi_gpt_push(block, "ln_1", made, norm));
    VV_TRY(vv_module_new(&part, &attention_class, sizeof(vvi_gpt_attention)));
    VV_TRY(vv_module_add_child(block, "attn", part));
    VV_TRY(fill_attention(part, o, values));
    made = vv_rms_norm_new(&norm, o->d, norm_eps, false);
    VV_TRY(vvi_gpt_push(block, "ln_2", made, norm));
    VV_TRY(vvi_gpt_push_part(&part, block, "mlp", &mlp_class));
    return fill_mlp(part, o);
}
