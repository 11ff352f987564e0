/* gated_linear_units.c - feed-forward blocks whose hidden units are gated (Shazeer, arXiv
 * 2002.05202): the layer, surgery on blocks that models tell of, the method. */
#include "gated_linear_units.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

static const vv_gated_linear_units_opts defaults = VV_GATED_LINEAR_UNITS_DEFAULTS;

int64_t vv_gated_width(int64_t hidden)
{
    const int64_t least = (2 * hidden + 2) / 3;
    return hidden < 16 ? least : (least + 7) / 8 * 8;
}

/* gate, value, act */
static vv_node *forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *gate = vv_module_forward(vv_module_child(module, 0), graph, x);
    gate = vv_module_forward(vv_module_child(module, 2), graph, gate);
    return vv_mul(gate, vv_module_forward(vv_module_child(module, 1), graph, x));
}

const vv_module_class vv_gated_linear_class = {"GatedLinear", forward, NULL};

/* ---- new parts ---- */

/* The deviation about 0: what a start of N(0, std) was drawn with. */
static double deviation(const vv_param *weight)
{
    const float *w = weight->value->data;
    double sum = 0.0;
    for (int64_t i = 0; i < weight->value->count; i++)
        sum += (double)w[i] * (double)w[i];
    return sqrt(sum / (double)weight->value->count);
}

static vv_status new_linear(vv_module **out, int64_t in, int64_t width, bool bias, double std,
                            uint64_t seed, const char *path, const char *name)
{
    vv_str full = {0};
    VV_TRY(vv_linear_new(out, in, width, bias));
    vv_str_addf(&full, "%s.%s.weight", path, name);
    const vv_status status = vv_str_status(&full);
    if (status == VV_OK)
        vv_param_fill_normal(vv_module_param(*out, "weight"), std, seed, vv_str_text(&full));
    vv_str_fini(&full);
    return status;
}

static vv_status new_activation(vv_module **out, vv_module *own, int act_fn)
{
    static const vv_activation kinds[] = {
        [VV_GLU_RELU] = VV_ACT_RELU, [VV_GLU_GELU] = VV_ACT_GELU,
        [VV_GLU_GELU_TANH] = VV_ACT_GELU_TANH, [VV_GLU_SILU] = VV_ACT_SILU,
        [VV_GLU_SIGMOID] = VV_ACT_SIGMOID};
    if (act_fn == VV_GLU_OWN) {
        *out = vv_module_keep(own);
        return VV_OK;
    }
    return vv_activation_new(out, kinds[act_fn], 0.0);
}

typedef struct place { /* a part of a block */
    vv_module *parent;
    int child;
} place;

static place find(vv_module *block, const char *path)
{
    char above[256] = "";
    const char *dot = strrchr(path, '.');
    place at = {block, 0};
    if (dot && (size_t)(dot - path) < sizeof above) {
        memcpy(above, path, (size_t)(dot - path));
        at.parent = vv_module_find(block, above);
    }
    const char *name = dot ? dot + 1 : path;
    for (; at.parent && at.child < vv_module_child_count(at.parent); at.child++)
        if (strcmp(vv_module_child_name(at.parent, at.child), name) == 0)
            return at;
    return (place){NULL, 0};
}

static vv_module *part_at(place at)
{
    return at.parent ? vv_module_child(at.parent, at.child) : NULL;
}

enum { IN, ACT, OUT, PARTS };

typedef struct block { /* and what will take the place of its parts; NULL = stays */
    place at[PARTS];
    vv_module *old[PARTS], *made[PARTS];
    char path[512];
} block;

/* *gated gets the children one by one, so that a failure leaves it to be freed. */
static vv_status fill_gated(vv_module *gated, const block *b, int64_t width,
                            const vv_gated_linear_units_opts *o, uint64_t seed)
{
    const vv_linear_layer *in = vv_module_self(b->old[IN]);
    const double std = deviation(vv_module_param(b->old[IN], "weight"));
    const int64_t from = in->in_features;
    const bool biased[] = {o->gated_layer_bias, o->non_gated_layer_bias};
    static const char *const names[] = {"gate", "value"};
    for (int i = 0; i < 2; i++) {
        vv_module *part = NULL;
        const vv_status status =
            new_linear(&part, from, width, biased[i], std, seed, b->path, names[i]);
        if (status != VV_OK) {
            vv_module_free(part);
            return status;
        }
        VV_TRY(vv_module_add_child(gated, names[i], part));
    }
    vv_module *act = NULL;
    VV_TRY(new_activation(&act, b->old[ACT], o->act_fn));
    return vv_module_add_child(gated, "act", act);
}

static vv_status prepare(block *b, const vv_gated_linear_units_opts *o, uint64_t seed)
{
    const vv_linear_layer *in = vv_module_self(b->old[IN]), *out = vv_module_self(b->old[OUT]);
    const int64_t hidden = in->out_features;
    const int64_t width = o->scale_hidden ? vv_gated_width(hidden) : hidden;
    VV_TRY(vv_module_new(&b->made[IN], &vv_gated_linear_class, 0));
    VV_TRY(fill_gated(b->made[IN], b, width, o, seed));
    VV_TRY(vv_identity_new(&b->made[ACT]));
    if (width == hidden)
        return VV_OK;
    const double std = deviation(vv_module_param(b->old[OUT], "weight"));
    VV_TRY(new_linear(&b->made[OUT], width, out->out_features, out->bias, std, seed, b->path,
                      "out"));
    if (out->bias)
        VV_TRY(vv_tensor_copy(vv_module_param(b->made[OUT], "bias")->value,
                              vv_module_param(b->old[OUT], "bias")->value));
    return VV_OK;
}

/* ---- all blocks ---- */

typedef struct search {
    block *blocks; /* NULL = only counts */
    int count;
    vv_status status;
} search;

static bool take(void *ctx, const char *path, vv_module *module)
{
    search *s = ctx;
    const vv_mlp *mlp = vv_module_mlp(module);
    if (!mlp)
        return true;
    const char *const paths[PARTS] = {mlp->in, mlp->activation, mlp->out};
    block b = {.made = {NULL}};
    for (int i = 0; i < PARTS; i++) {
        b.at[i] = find(module, paths[i]);
        b.old[i] = part_at(b.at[i]);
        if (!b.old[i] || (i != ACT && vv_module_type(b.old[i]) != &vv_linear_class))
            return true; /* gated already, or not as it was told */
    }
    vv_str text = {0};
    vv_str_addf(&text, "%s", path);
    strncpy(b.path, vv_str_text(&text), sizeof b.path - 1);
    vv_str_fini(&text);
    if (s->blocks)
        s->blocks[s->count] = b;
    s->count++;
    return true;
}

static int count_blocks(vv_module *net)
{
    search s = {NULL, 0, VV_OK};
    vv_module_each(net, take, &s);
    return s.count;
}

/* Swaps made and old parts; their memory is there, so going back cannot fail. */
static vv_status exchange(const block *b, vv_module *const *parts)
{
    for (int i = 0; i < PARTS; i++)
        if (b->made[i])
            VV_TRY(vv_module_set_child(b->at[i].parent, b->at[i].child, vv_module_keep(parts[i])));
    return VV_OK;
}

static vv_status replace_all(vv_module *net, block *blocks, int count, vv_optimizer *optimizer)
{
    vv_status status = VV_OK;
    int done = 0;
    for (; done < count && status == VV_OK; done++)
        status = exchange(&blocks[done], blocks[done].made);
    if (status == VV_OK && optimizer)
        status = vv_optimizer_sync(optimizer, net);
    if (status == VV_OK)
        return VV_OK;
    for (int i = 0; i < done; i++)
        (void)!exchange(&blocks[i], blocks[i].old);
    return status;
}

vv_status vv_apply_gated_linear_units(vv_module *net, const vv_gated_linear_units_opts *opts,
                                      uint64_t seed, vv_optimizer *optimizer, int *count)
{
    vv_status status = VV_OK;
    search s = {NULL, 0, VV_OK};
    if (count)
        *count = 0;
    if (!net)
        return vv_fail(VV_EINVAL, "gated_linear_units: no net");
    const int found = count_blocks(net);
    if (found == 0)
        return VV_OK;
    VV_TRY(vv_alloc_array(&s.blocks, (size_t)found, sizeof *s.blocks));
    vv_module_each(net, take, &s);
    for (int i = 0; i < found; i++)
        for (int k = 0; k < PARTS; k++)
            vv_module_keep(s.blocks[i].old[k]);
    for (int i = 0; i < found; i++)
        VV_GO(prepare(&s.blocks[i], opts ? opts : &defaults, seed));
    VV_GO(replace_all(net, s.blocks, found, optimizer));
    if (count)
        *count = found;
out:
    for (int i = 0; i < found; i++)
        for (int k = 0; k < PARTS; k++) {
            vv_module_free(s.blocks[i].old[k]);
            vv_module_free(s.blocks[i].made[k]);
        }
    vv_dealloc(s.blocks);
    return status;
}

/* ---- the Trainer's method ---- */

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    int count;
    (void)event;
    VV_TRY(vv_apply_gated_linear_units(state->model->net, method->opts, state->seed,
                                       state->optimizer, &count));
    method->effect += count;
    vv_log_metric(state, "gated_linear_units/num_blocks", count);
    return VV_OK;
}

static const char *const activations[] = {"own", "relu", "gelu", "gelu_tanh", "silu", "sigmoid",
                                          NULL};

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_gated_linear_units_opts *o = method->opts;
    const int count = count_blocks(state->model->net);
    vv_str_addf(line, "gates %d feed-forward block%s with %s%s", count, count == 1 ? "" : "s",
                o->act_fn == VV_GLU_OWN ? "their own activation" : activations[o->act_fn],
                o->scale_hidden ? ", two thirds as wide" : "");
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_gated_linear_units_opts, member)
static const vv_field fields[] = {
    {"act_fn", "Activation of the gate; own = the block's.", VV_FIELD_CHOICE, AT(act_fn), "own", 0,
     0, activations},
    {"gated_layer_bias", "The layer inside the activation has a bias.", VV_FIELD_BOOL,
     AT(gated_layer_bias), "false", 0, 0, NULL},
    {"non_gated_layer_bias", "The layer outside the activation has a bias.", VV_FIELD_BOOL,
     AT(non_gated_layer_bias), "false", 0, 0, NULL},
    {"scale_hidden", "Two thirds of the hidden units: as many parameters as before.",
     VV_FIELD_BOOL, AT(scale_hidden), "false", 0, 0, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_gated_linear_units = {
    .desc = {.kind = "method",
             .name = "gated_linear_units",
             .summary = "Gates the hidden units of feed-forward blocks.",
             .cite = "Shazeer, GLU variants improve Transformer (arXiv 2002.05202)",
             .domains = "nlp",
             .fields = fields,
             .opts_size = sizeof(vv_gated_linear_units_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .required_on_load = true,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_gated_linear_units(const vv_gated_linear_units_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_gated_linear_units, opts) == VV_OK ? method : NULL;
}
