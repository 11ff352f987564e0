/* layerwise_lr.c - a learning rate for each layer, smaller the earlier it comes (Howard & Ruder,
 * arXiv 1801.06146; as fine-tuned BERT and ViT use it: Clark et al., arXiv 2003.10555). */
#include "layerwise_lr.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static const vv_layerwise_lr_opts defaults = VV_LAYERWISE_LR_DEFAULTS;

/* ---- the layers of a net ---- */

static bool is_number(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!isdigit((unsigned char)*c))
            return false;
    return *text != '\0';
}

/* Two or more numbered children, each with parts of its own. */
static bool is_block_list(const vv_module *module)
{
    const int count = vv_module_child_count(module);
    for (int i = 0; i < count; i++)
        if (!is_number(vv_module_child_name(module, i)) ||
            vv_module_child_count(vv_module_child(module, i)) == 0)
            return false;
    return count >= 2;
}

static bool note_list(void *ctx, const char *path, vv_module *module)
{
    (void)path;
    *(bool *)ctx = *(bool *)ctx || is_block_list(module);
    return !*(bool *)ctx;
}

static bool holds_blocks(vv_module *module)
{
    bool found = false;
    vv_module_each(module, note_list, &found);
    return found;
}

typedef struct kinds {
    bool any, wide; /* parameters; one of two or more axes */
} kinds;

static bool note_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    kinds *k = ctx;
    (void)path;
    (void)owner;
    k->any = true;
    k->wide = k->wide || param->value->ndim > 1;
    return true;
}

/* A walk over the tree that numbers layers and tells the one that `path` lies in. */
typedef struct count {
    int layers;       /* met so far */
    bool after_block; /* the last one was a block */
    const char *path; /* looked for; NULL */
    int found;        /* -1 = not yet */
    bool next;        /* belongs to the layer that comes next */
} count;

/* `path` is `name` or below it. */
static const char *below(const char *path, const char *name)
{
    const size_t length = strlen(name);
    if (!path || strncmp(path, name, length) != 0)
        return NULL;
    return path[length] == '.' ? path + length + 1 : path[length] == '\0' ? path + length : NULL;
}

static void add_layer(count *c, bool here, bool block, const kinds *k)
{
    const bool norm = !k->wide && !block;
    if (norm && c->layers > 0 && !c->after_block) { /* to the one before */
        if (here)
            c->found = c->layers - 1;
        return;
    }
    if (norm) { /* to the next one, if there is one */
        c->next = c->next || here;
        return;
    }
    if (here || c->next)
        c->found = c->layers;
    c->next = false;
    c->layers++;
    c->after_block = block;
}

static void walk(count *c, vv_module *module, const char *path)
{
    const bool list = is_block_list(module);
    /* Parameters of the module's own (a class token) come with its first part. */
    if (path && *path && !strchr(path, '.') && vv_module_param(module, path))
        c->next = true;
    for (int i = 0; i < vv_module_child_count(module); i++) {
        vv_module *child = vv_module_child(module, i);
        const char *rest = below(path, vv_module_child_name(module, i));
        kinds k = {false, false};
        vv_module_each_param(child, note_param, &k);
        if (!k.any)
            continue;
        if (list ? is_block_list(child) /* a numbered stage of blocks */ : holds_blocks(child))
            walk(c, child, rest);
        else
            add_layer(c, rest != NULL, list, &k);
    }
}

static count count_layers(vv_module *net, const char *path)
{
    count c = {0, false, path, -1, false};
    walk(&c, net, path);
    if (c.next && c.layers > 0)
        c.found = c.layers - 1;
    return c;
}

int vv_layer_count(vv_module *net)
{
    return count_layers(net, NULL).layers;
}

int vv_layer_of(vv_module *net, const char *path)
{
    return count_layers(net, path).found;
}

/* ---- groups ---- */

typedef struct choice {
    vv_module *net;
    const vv_optimizer *optimizer;
    int layer, group;
    int count;
} choice;

static bool is_chosen(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    const choice *c = ctx;
    (void)owner;
    return vv_optimizer_group_of(c->optimizer, param) == c->group &&
           vv_layer_of(c->net, path) == c->layer;
}

static bool count_one(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    ((choice *)ctx)->count += is_chosen(ctx, path, owner, param);
    return true;
}

static double factor_of(const vv_layerwise_lr_opts *o, int layer, int layers)
{
    const double factor = pow(o->decay, layers - 1 - layer);
    return factor > o->least ? factor : o->least;
}

vv_status vv_scale_layer_lr(vv_optimizer *optimizer, vv_module *net,
                            const vv_layerwise_lr_opts *opts, int *groups)
{
    const vv_layerwise_lr_opts *o = opts ? opts : &defaults;
    int made = 0;
    if (groups)
        *groups = 0;
    if (!optimizer || !net)
        return vv_fail(VV_EINVAL, "layerwise_lr: no %s", net ? "optimizer" : "net");
    const int layers = vv_layer_count(net), before = vv_optimizer_group_count(optimizer);
    for (int group = 0; group < before; group++)
        for (int layer = 0; layer < layers - 1; layer++) {
            choice c = {net, optimizer, layer, group, 0};
            const double factor = factor_of(o, layer, layers);
            vv_module_each_param(net, count_one, &c);
            if (c.count == 0 || factor == 1.0)
                continue;
            VV_TRY(vv_fail_within(vv_optimizer_split_scaled(optimizer, net, group, is_chosen, &c,
                                                            factor, 1.0),
                                  "layerwise_lr"));
            made++;
        }
    if (groups)
        *groups = made;
    return VV_OK;
}

/* ---- the Trainer's method ---- */

typedef struct scaler {
    bool done; /* the groups are made: once for an optimizer */
} scaler;

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    scaler *self = method->self;
    (void)event;
    if (self->done || !state->optimizer)
        return VV_OK;
    VV_TRY(vv_scale_layer_lr(state->optimizer, state->model->net, method->opts, &method->effect));
    self->done = true;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_layerwise_lr_opts *o = method->opts;
    const int layers = vv_layer_count(state->model->net);
    vv_str_addf(line, "learning rate of %d layers, from %.4g times the last one's up by 1/%g each",
                layers, layers ? factor_of(o, 0, layers) : 1.0, o->decay);
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_layerwise_lr_opts, member)
static const vv_field fields[] = {
    {"decay", "Factor of the learning rate from one layer to the one before it.", VV_FIELD_FLOAT,
     AT(decay), "0.75", 1e-6, 1, NULL},
    {"least", "No factor is below this.", VV_FIELD_FLOAT, AT(least), "0", 0, 1, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_layerwise_lr = {
    .desc = {.kind = "method",
             .name = "layerwise_lr",
             .summary = "Early layers learn slower than late ones: for fine-tuning.",
             .cite = "Howard & Ruder (arXiv 1801.06146); Clark et al., ELECTRA (arXiv 2003.10555)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_layerwise_lr_opts)},
    .phase = VV_PHASE_WEIGHTS,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_LOAD),
    .self_size = sizeof(scaler),
    .apply = apply,
    .plan = plan,
};

vv_method *vv_layerwise_lr(double decay)
{
    vv_layerwise_lr_opts opts = VV_LAYERWISE_LR_DEFAULTS;
    vv_method *method = NULL;
    opts.decay = decay;
    return vv_method_new(&method, &vv_method_layerwise_lr, &opts) == VV_OK ? method : NULL;
}
