/* low_precision_layernorm.c - layer norms on bf16: layer, surgery, method. */
#include "low_precision_layernorm.h"

/* The kernel takes vectors in f32; their values are those of bf16. */
static vv_node *rounded(vv_node *vector)
{
    return vector ? vv_cast(vv_cast(vector, VV_BF16), VV_F32) : NULL;
}

vv_node *vv_low_precision_layer_norm(vv_node *x, vv_node *gamma, vv_node *beta, double eps)
{
    return vv_layer_norm(vv_cast(x, VV_BF16), rounded(gamma), rounded(beta), eps);
}

static vv_node *forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vv_norm_layer *self = vv_module_self(module);
    if (!x)
        return NULL;
    vv_node *y = vv_low_precision_layer_norm(x, vv_module_param_node(module, graph, "weight"),
                                             vv_module_param_node(module, graph, "bias"),
                                             self->eps);
    /* Layers behind expect x's type; under autocast the plan keeps the values in bf16. */
    return vv_cast(y, vv_node_dtype(x));
}

const vv_module_class vv_low_precision_layernorm_class = {"LowPrecisionLayerNorm", forward, NULL};

static vv_status replace(void *ctx, vv_module *layer, int index, vv_module **out)
{
    static const char *const names[] = {"weight", "bias"};
    (void)ctx;
    (void)index;
    VV_TRY(vv_module_new(out, &vv_low_precision_layernorm_class, sizeof(vv_norm_layer)));
    *(vv_norm_layer *)vv_module_self(*out) = *(const vv_norm_layer *)vv_module_self(layer);
    for (int i = 0; i < 2; i++) {
        vv_param *param = vv_module_param(layer, names[i]);
        const vv_status status =
            param ? vv_module_add_param(*out, names[i], vv_param_keep(param)) : VV_OK;
        if (status != VV_OK) {
            vv_module_free(*out);
            *out = NULL;
            return status;
        }
    }
    return VV_OK;
}

static bool is_half(vv_precision precision)
{
    return precision == VV_PRECISION_AMP_BF16 || precision == VV_PRECISION_BF16;
}

vv_status vv_apply_low_precision_layernorm(vv_module *net, vv_precision precision,
                                           vv_optimizer *optimizer, int *count)
{
    const vv_policy policy = {&vv_layer_norm_class, replace, NULL, NULL};
    if (count)
        *count = 0;
    if (!net)
        return vv_fail(VV_EINVAL, "low_precision_layernorm: no net");
    return is_half(precision) ? vv_module_replace(net, &policy, 1, optimizer, count) : VV_OK;
}

/* ---- the Trainer's method ---- */

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_low_precision_layernorm_opts *opts = method->opts;
    vv_module *net = state->model->net;
    int count;
    if (!is_half(state->precision)) {
        if (event == VV_EVENT_INIT)
            vv_log_message(state, "low_precision_layernorm: the precision is fp32, so nothing is "
                                  "changed");
        method->allow_no_effect = true; /* told already */
        return VV_OK;
    }
    if (event == VV_EVENT_INIT && opts->apply_at == VV_LOW_PRECISION_LAYERNORM_AFTER_LOAD) {
        method->effect += vv_module_count(net, &vv_layer_norm_class); /* what will be changed */
        return VV_OK;
    }
    if (event == VV_EVENT_AFTER_LOAD && opts->apply_at == VV_LOW_PRECISION_LAYERNORM_INIT)
        return VV_OK;
    VV_TRY(vv_apply_low_precision_layernorm(net, state->precision, state->optimizer, &count));
    if (event == VV_EVENT_INIT)
        method->effect += count;
    vv_log_metric(state, "low_precision_layernorm/num_layers", count);
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const int count = vv_module_count(state->model->net, &vv_layer_norm_class);
    (void)method;
    if (is_half(state->precision))
        vv_str_addf(line, "computes %d layer norm%s on bf16", count, count == 1 ? "" : "s");
    else
        vv_str_add(line, "nothing: the precision is fp32");
    return vv_str_status(line);
}

/* Norms that other surgery brings are changed too. */
static const char *const behind[] = {"alibi", "gated_linear_units", "factorize", NULL};
static const char *const moments[] = {"init", "after_load", NULL};
static const vv_field fields[] = {
    {"apply_at", "init: before weights are loaded; after_load: after.", VV_FIELD_CHOICE,
     offsetof(vv_low_precision_layernorm_opts, apply_at), "init", 0, 0, moments},
    {.name = NULL},
};

const vv_method_desc vv_method_low_precision_layernorm = {
    .desc = {.kind = "method",
             .name = "low_precision_layernorm",
             .summary = "Computes layer norms on bf16 where the rest of the net is in bf16.",
             .cite = "",
             .domains = "nlp",
             .fields = fields,
             .opts_size = sizeof(vv_low_precision_layernorm_opts)},
    .phase = VV_PHASE_SURGERY,
    .after = behind,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_AFTER_LOAD),
    .required_on_load = true,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_low_precision_layernorm(const vv_low_precision_layernorm_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_low_precision_layernorm, opts) == VV_OK ? method
                                                                                     : NULL;
}
