/* logit_scale.c - smaller or bounded logits, in training, evaluation and prediction. */
#include "logit_scale.h"

static const vv_logit_scale_opts defaults = VV_LOGIT_SCALE_DEFAULTS;

vv_node *vv_scale_logits(vv_node *logits, const vv_logit_scale_opts *opts)
{
    const vv_logit_scale_opts *o = opts ? opts : &defaults;
    if (o->softcap > 0.0)
        return vv_affine(vv_tanh(vv_affine(logits, o->scale / o->softcap, 0.0)), o->softcap, 0.0);
    return vv_affine(logits, o->scale, 0.0);
}

static vv_status check(const void *opts)
{
    const vv_logit_scale_opts *o = opts;
    if (!(o->scale > 0.0))
        return vv_fail(VV_EINVAL, "scale %g must be above 0", o->scale);
    return VV_OK;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    (void)event;
    state->output = vv_scale_logits(state->output, method->opts);
    method->effect++;
    return vv_graph_status(state->graph);
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_logit_scale_opts *o = method->opts;
    (void)state;
    vv_str_addf(line, "multiplies logits by %g", o->scale);
    if (o->softcap > 0.0)
        vv_str_addf(line, " and bends them to stay within %g", o->softcap);
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_logit_scale_opts, member)
static const vv_field fields[] = {
    {"scale", "Logits are multiplied by it; above 0.", VV_FIELD_FLOAT, AT(scale), "0.125", 0, 1e6,
     NULL},
    {"softcap", "Logits z then become softcap * tanh(z / softcap); 0 = not.", VV_FIELD_FLOAT,
     AT(softcap), "0", 0, 1e6, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_logit_scale = {
    .desc = {.kind = "method",
             .name = "logit_scale",
             .summary = "Multiplies the logits by a constant, or bends them to stay within bounds.",
             .cite = "",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_logit_scale_opts)},
    .phase = VV_PHASE_TARGET,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_FORWARD) | VV_EVENT_BIT(VV_EVENT_EVAL_AFTER_FORWARD) |
              VV_EVENT_BIT(VV_EVENT_PREDICT_AFTER_FORWARD),
    .required_on_load = true,
    .check = check,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_logit_scale(const vv_logit_scale_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_logit_scale, opts) == VV_OK ? method : NULL;
}
