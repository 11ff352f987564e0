/* factorize.c - low-rank factorization of wide layers: surgery and method. */
#include "factorize.h"

static const vv_factorize_opts defaults = VV_FACTORIZE_DEFAULTS;

int64_t vv_factorize_latent(double latent, int64_t in, int64_t out)
{
    if (latent >= 1.0)
        return (int64_t)latent;
    const int64_t width = (int64_t)(latent * (double)(in < out ? in : out));
    return width > 1 ? width : 1;
}

typedef struct surgeon {
    const vv_factorize_opts *opts;
    uint64_t seed;
    vv_factorize_counts counts;
} surgeon;

/* Width of the pair that would replace the layer, 0 if it stays. */
static int64_t width_for(const vv_factorize_opts *o, vv_module *module)
{
    int64_t in, out, fan_in, latent;
    const vv_param *weight = vv_module_param(module, "weight");
    if (weight && weight->owners > 1) /* tied: a head that is the table of tokens */
        return 0;
    if (vv_module_type(module) == &vv_conv2d_class) {
        const vv_conv2d_layer *layer = vv_module_self(module);
        in = layer->in_channels;
        out = layer->out_channels;
        fan_in = in * layer->kernel[0] * layer->kernel[1];
        if (!o->factorize_convs || in < o->min_channels || out < o->min_channels ||
            layer->conv.groups != 1 || layer->kernel[0] != layer->kernel[1])
            return 0;
        latent = vv_factorize_latent(o->latent_channels, in, out);
    } else if (vv_module_type(module) == &vv_linear_class) {
        const vv_linear_layer *layer = vv_module_self(module);
        fan_in = in = layer->in_features;
        out = layer->out_features;
        if (!o->factorize_linears || in < o->min_features || out < o->min_features)
            return 0;
        latent = vv_factorize_latent(o->latent_features, in, out);
    } else {
        return 0;
    }
    return latent <= vv_factorize_break_even(fan_in, out) ? latent : 0;
}

static vv_status replace(void *ctx, vv_module *layer, int index, vv_module **out)
{
    surgeon *s = ctx;
    const bool conv = vv_module_type(layer) == &vv_conv2d_class;
    const int64_t latent = width_for(s->opts, layer);
    const vv_factorize_start start = (vv_factorize_start)s->opts->start;
    *out = NULL;
    if (latent == 0)
        return VV_OK;
    if (conv)
        VV_TRY(vv_factorized_conv2d_new(out, layer, latent, start));
    else
        VV_TRY(vv_factorized_linear_new(out, layer, latent, start));
    s->counts.convs += conv;
    s->counts.linears += !conv;
    if (start == VV_FACTORIZE_SVD)
        return VV_OK;
    /* Layers of one shape start differently. */
    vv_rng rng = vv_rng_at2(s->seed, conv ? "factorize_conv" : "factorize_linear", 0,
                            (uint32_t)index);
    const vv_status status = vv_module_init_default(*out, vv_rng_u64(&rng));
    if (status != VV_OK) {
        vv_module_free(*out);
        *out = NULL;
    }
    return status;
}

static vv_status check(const void *opts)
{
    const vv_factorize_opts *o = opts;
    if (!o->factorize_convs && !o->factorize_linears)
        return vv_fail(VV_EINVAL, "factorize_convs and factorize_linears are both false, so there "
                                  "is nothing to do; set one of them");
    if (!(o->latent_channels > 0.0) || !(o->latent_features > 0.0))
        return vv_fail(VV_EINVAL, "latent_channels %g and latent_features %g must be above 0",
                       o->latent_channels, o->latent_features);
    return VV_OK;
}

vv_status vv_apply_factorization(vv_module *net, const vv_factorize_opts *opts, uint64_t seed,
                                 vv_optimizer *optimizer, vv_factorize_counts *counts)
{
    surgeon s = {.opts = opts ? opts : &defaults, .seed = seed};
    const vv_policy policies[] = {
        {&vv_conv2d_class, replace, &s, &vv_factorized_conv2d_class},
        {&vv_linear_class, replace, &s, &vv_factorized_linear_class},
    };
    if (counts)
        *counts = (vv_factorize_counts){0, 0};
    if (!net)
        return vv_fail(VV_EINVAL, "factorize: no net");
    VV_TRY(vv_fail_within(check(s.opts), "factorize"));
    VV_TRY(vv_module_replace(net, policies, 2, optimizer, NULL));
    if (counts)
        *counts = s.counts;
    return VV_OK;
}

static bool count_match(void *ctx, const char *path, vv_module *module)
{
    surgeon *s = ctx;
    const vv_module_class *type = vv_module_type(module);
    if (path[0] != '\0' && width_for(s->opts, module)) {
        s->counts.convs += type == &vv_conv2d_class;
        s->counts.linears += type == &vv_linear_class;
    }
    /* The parts of a pair are left alone. */
    for (int i = 0; i < 2; i++)
        if (type == &vv_factorized_conv2d_class)
            s->counts.convs -= width_for(s->opts, vv_module_child(module, i)) != 0;
        else if (type == &vv_factorized_linear_class)
            s->counts.linears -= width_for(s->opts, vv_module_child(module, i)) != 0;
    return true;
}

void vv_factorize_matches(vv_module *net, const vv_factorize_opts *opts,
                          vv_factorize_counts *counts)
{
    surgeon s = {.opts = opts ? opts : &defaults};
    vv_module_each(net, count_match, &s);
    *counts = s.counts;
}

/* ---- the Trainer's method ---- */

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_factorize_opts *opts = method->opts;
    vv_factorize_counts counts;
    (void)event;
    VV_TRY(vv_apply_factorization(state->model->net, opts, state->seed, state->optimizer, &counts));
    method->effect += counts.convs + counts.linears;
    if (opts->factorize_convs)
        vv_log_metric(state, "factorize/num_conv2d_replacements", counts.convs);
    if (opts->factorize_linears)
        vv_log_metric(state, "factorize/num_linear_replacements", counts.linears);
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_factorize_opts *opts = method->opts;
    vv_factorize_counts counts;
    vv_factorize_matches(state->model->net, opts, &counts);
    vv_str_addf(line, "replaces %d convolution%s and %d linear layer%s by thinner pairs, %s",
                counts.convs, counts.convs == 1 ? "" : "s", counts.linears,
                counts.linears == 1 ? "" : "s",
                opts->start == VV_FACTORIZE_SVD ? "approximating the weights there"
                                                : "which start anew");
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_factorize_opts, member)
static const char *const starts[] = {"fresh", "svd", NULL};
static const vv_field fields[] = {
    {"factorize_convs", "Replace convolutions.", VV_FIELD_BOOL, AT(factorize_convs), "true", 0, 0,
     NULL},
    {"factorize_linears", "Replace linear layers.", VV_FIELD_BOOL, AT(factorize_linears), "true", 0,
     0, NULL},
    {"min_channels", "Convolutions with fewer channels on either side stay as they are.",
     VV_FIELD_INT, AT(min_channels), "256", 1, 1e9, NULL},
    {"latent_channels", "Channels between the two: a count, or, below 1, a share of the fewer of in "
                        "and out.",
     VV_FIELD_FLOAT, AT(latent_channels), "0.25", 0, 1e9, NULL},
    {"min_features", "Linear layers with fewer features on either side stay as they are.",
     VV_FIELD_INT, AT(min_features), "256", 1, 1e9, NULL},
    {"latent_features", "Features between the two: a count, or, below 1, a share of the fewer of in "
                        "and out.",
     VV_FIELD_FLOAT, AT(latent_features), "128", 0, 1e9, NULL},
    {"start", "fresh: new weights; svd: the best approximation of the weights there.",
     VV_FIELD_CHOICE, AT(start), "fresh", 0, 0, starts},
    {.name = NULL},
};

/* What they make of a layer is made thin as well; they look for layers as models have them. */
static const char *const behind[] = {"gated_linear_units", NULL};

const vv_method_desc vv_method_factorize = {
    .desc = {.kind = "method",
             .name = "factorize",
             .summary = "Replaces wide convolutions and linear layers by pairs of thinner ones.",
             .cite = "",
             .domains = "cv,nlp",
             .fields = fields,
             .opts_size = sizeof(vv_factorize_opts)},
    .phase = VV_PHASE_SURGERY,
    .after = behind,
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .required_on_load = true,
    .check = check,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_factorize(const vv_factorize_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_factorize, opts) == VV_OK ? method : NULL;
}
