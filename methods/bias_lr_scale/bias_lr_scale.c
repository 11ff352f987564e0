/* bias_lr_scale.c - biases learn with a learning rate of their own (Page, How to train your ResNet
 * 8; Jordan, arXiv 2404.00498): an optimizer group for them, made once the optimizer is there. */
#include "bias_lr_scale.h"

static const vv_bias_lr_scale_opts defaults = VV_BIAS_LR_SCALE_DEFAULTS;

/* ---- which ---- */

static bool is_norm(const vv_module *owner)
{
    const vv_param *weight = vv_module_param(owner, "weight");
    return weight && weight->value->ndim == 1;
}

typedef struct search {
    int which, group; /* group -1 = any */
    const vv_optimizer *optimizer;
    int count;
} search;

static bool is_chosen(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    const search *s = ctx;
    (void)path;
    return !param->frozen && vv_module_param(owner, "bias") == param &&
           (s->which == VV_BIAS_ALL || is_norm(owner)) &&
           (s->group < 0 || vv_optimizer_group_of(s->optimizer, param) == s->group);
}

static bool count_one(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    search *s = ctx;
    s->count += is_chosen(ctx, path, owner, param);
    return true;
}

static int count_biases(vv_module *net, search s)
{
    s.count = 0;
    vv_module_each_param(net, count_one, &s);
    return s.count;
}

/* ---- their group ---- */

vv_status vv_scale_bias_lr(vv_optimizer *optimizer, vv_module *net,
                           const vv_bias_lr_scale_opts *opts, int *count)
{
    const vv_bias_lr_scale_opts *o = opts ? opts : &defaults;
    int found = 0;
    if (count)
        *count = 0;
    if (!optimizer || !net)
        return vv_fail(VV_EINVAL, "bias_lr_scale: no %s", net ? "optimizer" : "net");
    const int groups = vv_optimizer_group_count(optimizer);
    for (int group = 0; group < groups; group++) {
        search s = {o->which, group, optimizer, 0};
        const int here = count_biases(net, s);
        if (here > 0)
            VV_TRY(vv_fail_within(vv_optimizer_split_scaled(optimizer, net, group, is_chosen, &s,
                                                            o->lr_scale, o->weight_decay_scale),
                                  "bias_lr_scale"));
        found += here;
    }
    if (count)
        *count = found;
    return found ? VV_OK
                 : vv_fail(VV_ENOTFOUND, "bias_lr_scale: the net has no %sbias that learns",
                           o->which == VV_BIAS_NORM ? "normalisation layer with a " : "");
}

static bool freeze_scale(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)path;
    if (vv_module_param(owner, "weight") == param && is_norm(owner)) {
        param->frozen = true;
        ++*(int *)ctx;
    }
    return true;
}

int vv_freeze_norm_scales(vv_module *net)
{
    int count = 0;
    vv_module_each_param(net, freeze_scale, &count);
    return count;
}

/* ---- the Trainer's method ---- */

typedef struct scaler {
    bool done; /* the groups are made: once for an optimizer */
} scaler;

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_bias_lr_scale_opts *o = method->opts;
    scaler *self = method->self;
    vv_module *net = state->model->net;
    method->effect = count_biases(net, (search){o->which, -1, NULL, 0});
    if (o->freeze_scales) /* again after loading, which thaws what the file's run did not freeze */
        vv_freeze_norm_scales(net);
    if (event == VV_EVENT_INIT || self->done || !state->optimizer || method->effect == 0)
        return VV_OK;
    VV_TRY(vv_scale_bias_lr(state->optimizer, net, o, NULL));
    self->done = true;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_bias_lr_scale_opts *o = method->opts;
    const int count = count_biases(state->model->net, (search){o->which, -1, NULL, 0});
    vv_str_addf(line, "learning rate of %d bias%s times %g, weight decay times %g%s", count,
                count == 1 ? "" : "es", o->lr_scale, o->weight_decay_scale,
                o->freeze_scales ? "; scales of normalisation layers are frozen" : "");
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_bias_lr_scale_opts, member)
static const char *const which_names[] = {"norm", "all", NULL};
static const vv_field fields[] = {
    {"lr_scale", "Learning rate of the biases as a multiple of the others'.", VV_FIELD_FLOAT,
     AT(lr_scale), "64", 0, 1e6, NULL},
    {"weight_decay_scale", "Weight decay of the biases as a multiple of the others'.",
     VV_FIELD_FLOAT, AT(weight_decay_scale), "1", 0, 1e6, NULL},
    {"which", "norm: biases of normalisation layers; all: every bias.", VV_FIELD_CHOICE, AT(which),
     "norm", 0, 0, which_names},
    {"freeze_scales", "The weights of normalisation layers do not learn.", VV_FIELD_BOOL,
     AT(freeze_scales), "true", 0, 0, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_bias_lr_scale = {
    .desc = {.kind = "method",
             .name = "bias_lr_scale",
             .summary = "Gives biases a learning rate of their own and freezes norms' scales.",
             .cite = "Page, How to train your ResNet 8 (2018); Jordan (arXiv 2404.00498)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_bias_lr_scale_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_AFTER_LOAD),
    .self_size = sizeof(scaler),
    .apply = apply,
    .plan = plan,
};

vv_method *vv_bias_lr_scale(const vv_bias_lr_scale_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_bias_lr_scale, opts) == VV_OK ? method : NULL;
}
