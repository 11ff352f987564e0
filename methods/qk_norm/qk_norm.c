/* qk_norm.c - queries and keys are normalised before they meet (Henry et al., arXiv 2010.04245), so
 * that no score can grow out of bounds and learning rates may be higher. */
#include "qk_norm.h"

typedef struct change {
    double scale;
    int count;
} change;

static bool switch_on(void *ctx, const char *path, vv_module *module)
{
    change *c = ctx;
    (void)path;
    if (vv_module_type(module) != &vv_attention_class)
        return true;
    vv_attention_layer *layer = vv_module_self(module);
    if (!layer->qk_norm) {
        layer->qk_norm = true;
        layer->scale = c->scale != 0.0 ? c->scale : layer->scale;
        c->count++;
    }
    return true;
}

int vv_apply_qk_norm(vv_module *net, double scale)
{
    change c = {scale, 0};
    vv_module_each(net, switch_on, &c);
    return c.count;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_qk_norm_opts *o = method->opts;
    (void)event;
    method->effect += vv_apply_qk_norm(state->model->net, o->scale);
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_qk_norm_opts *o = method->opts;
    const int count = vv_module_count(state->model->net, &vv_attention_class);
    vv_str_addf(line, "normalises queries and keys of %d attention layer%s", count,
                count == 1 ? "" : "s");
    if (o->scale != 0.0)
        vv_str_addf(line, ", scores times %g", o->scale);
    return vv_str_status(line);
}

static const vv_field fields[] = {
    {"scale", "Factor of the scores; 0 = as it is, 1 / sqrt(head dimension).", VV_FIELD_FLOAT,
     offsetof(vv_qk_norm_opts, scale), "0", 0, 100, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_qk_norm = {
    .desc = {.kind = "method",
             .name = "qk_norm",
             .summary = "Normalises queries and keys, so that attention scores stay bounded.",
             .cite = "Henry et al., Query-key normalization (arXiv 2010.04245)",
             .domains = "nlp",
             .fields = fields,
             .opts_size = sizeof(vv_qk_norm_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .required_on_load = true,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_qk_norm(double scale)
{
    const vv_qk_norm_opts opts = {scale};
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_qk_norm, &opts) == VV_OK ? method : NULL;
}
