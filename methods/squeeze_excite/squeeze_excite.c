/* squeeze_excite.c - Squeeze-and-Excitation (Hu et al., arXiv 1709.01507): layers, surgery,
 * method. */
#include "squeeze_excite.h"

#include <vivace/memory.h>

/* ---- layers ---- */

static vv_node *excite(vv_module *module, vv_graph *graph, vv_node *x)
{
    if (!x)
        return NULL;
    const int64_t *shape = vv_node_shape(x);
    const int64_t rows[2] = {shape[0], shape[3]}, spread[4] = {shape[0], 1, 1, shape[3]};
    vv_node *s = vv_reshape(vv_adaptive_avg_pool2d(x, 1, 1), 2, rows);
    s = vv_relu(vv_module_forward(vv_module_child(module, 0), graph, s));
    s = vv_sigmoid(vv_module_forward(vv_module_child(module, 1), graph, s));
    return vv_mul(x, vv_reshape(s, 4, spread));
}

static vv_node *conv_excite(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *y = vv_module_forward(vv_module_child(module, 0), graph, x);
    return vv_module_forward(vv_module_child(module, 1), graph, y);
}

const vv_module_class vv_squeeze_excite2d_class = {"SqueezeExcite2d", excite, NULL};
const vv_module_class vv_squeeze_excite_conv2d_class = {"SqueezeExciteConv2d", conv_excite, NULL};

static int64_t latent_of(double latent_channels, int64_t channels)
{
    const double latent =
        latent_channels < 1.0 ? latent_channels * (double)channels : latent_channels;
    return latent < 1.0 ? 1 : (int64_t)latent;
}

static vv_status add_linear(vv_module *module, const char *name, int64_t in, int64_t out)
{
    vv_module *layer;
    VV_TRY(vv_linear_new(&layer, in, out, false));
    return vv_module_add_child(module, name, layer);
}

vv_status vv_squeeze_excite2d_new(vv_module **out, int64_t channels, double latent_channels)
{
    vv_status status = VV_OK;
    vv_module *module = NULL;
    *out = NULL;
    if (channels < 1 || !(latent_channels > 0.0 && latent_channels <= 1e9))
        return vv_fail(VV_EINVAL,
                       "SqueezeExcite2d: channels %lld and latent_channels %g must be positive",
                       (long long)channels, latent_channels);
    const int64_t latent = latent_of(latent_channels, channels);
    VV_GO(vv_module_new(&module, &vv_squeeze_excite2d_class, 0));
    VV_GO(add_linear(module, "fc1", channels, latent));
    VV_GO(add_linear(module, "fc2", latent, channels));
    *out = module;
    module = NULL;
out:
    vv_module_free(module);
    return status;
}

vv_status vv_squeeze_excite_conv2d_new(vv_module **out, vv_module *conv, double latent_channels)
{
    vv_status status = VV_OK;
    vv_module *module = NULL, *se;
    *out = NULL;
    if (!conv || vv_module_type(conv) != &vv_conv2d_class)
        return vv_fail(VV_EINVAL, "SqueezeExciteConv2d: needs a Conv2d, not a %s",
                       conv ? vv_module_type(conv)->name : "NULL");
    const vv_conv2d_layer *layer = vv_module_self(conv);
    VV_GO(vv_module_new(&module, &vv_squeeze_excite_conv2d_class, 0));
    VV_GO(vv_module_add_child(module, "conv", vv_module_keep(conv)));
    VV_GO(vv_squeeze_excite2d_new(&se, layer->out_channels, latent_channels));
    VV_GO(vv_module_add_child(module, "se", se));
    *out = module;
    return VV_OK;
out:
    vv_module_free(module);
    return status;
}

/* ---- surgery ---- */

typedef struct surgeon {
    const vv_squeeze_excite_opts *opts;
    uint64_t seed;
    int matches;
} surgeon;

static bool takes(const vv_squeeze_excite_opts *opts, vv_module *module)
{
    if (vv_module_type(module) != &vv_conv2d_class)
        return false;
    const vv_conv2d_layer *layer = vv_module_self(module);
    return layer->in_channels >= opts->min_channels && layer->out_channels >= opts->min_channels;
}

static vv_status replace(void *ctx, vv_module *layer, int index, vv_module **out)
{
    const surgeon *s = ctx;
    *out = NULL;
    if (!takes(s->opts, layer))
        return VV_OK;
    VV_TRY(vv_squeeze_excite_conv2d_new(out, layer, s->opts->latent_channels));
    /* Layers of one shape start differently. */
    vv_rng rng = vv_rng_at2(s->seed, "squeeze_excite", 0, (uint32_t)index);
    const vv_status status = vv_module_init_default(vv_module_child(*out, 1), vv_rng_u64(&rng));
    if (status != VV_OK) {
        vv_module_free(*out);
        *out = NULL;
    }
    return status;
}

static const vv_squeeze_excite_opts defaults = VV_SQUEEZE_EXCITE_DEFAULTS;

static vv_status check(const void *opts)
{
    const vv_squeeze_excite_opts *o = opts;
    if (!(o->latent_channels > 0.0))
        return vv_fail(VV_EINVAL, "latent_channels %g must be above 0", o->latent_channels);
    return VV_OK;
}

vv_status vv_apply_squeeze_excite(vv_module *net, const vv_squeeze_excite_opts *opts, uint64_t seed,
                                  vv_optimizer *optimizer, int *count)
{
    surgeon s = {.opts = opts ? opts : &defaults, .seed = seed};
    const vv_policy policy = {&vv_conv2d_class, replace, &s, &vv_squeeze_excite_conv2d_class};
    if (count)
        *count = 0;
    if (!net)
        return vv_fail(VV_EINVAL, "squeeze_excite: no net");
    VV_TRY(vv_fail_within(check(s.opts), "squeeze_excite"));
    return vv_module_replace(net, &policy, 1, optimizer, count);
}

static bool count_match(void *ctx, const char *path, vv_module *module)
{
    surgeon *s = ctx;
    if (path[0] != '\0')
        s->matches += takes(s->opts, module);
    if (vv_module_type(module) == &vv_squeeze_excite_conv2d_class)
        s->matches -= takes(s->opts, vv_module_child(module, 0));
    return true;
}

int vv_squeeze_excite_matches(vv_module *net, const vv_squeeze_excite_opts *opts)
{
    surgeon s = {.opts = opts ? opts : &defaults};
    vv_module_each(net, count_match, &s);
    return s.matches;
}

/* ---- the Trainer's method ---- */

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    int count;
    (void)event;
    VV_TRY(vv_apply_squeeze_excite(state->model->net, method->opts, state->seed, state->optimizer,
                                   &count));
    method->effect += count;
    vv_log_metric(state, "squeeze_excite/num_squeeze_excite_layers",
                  vv_module_count(state->model->net, &vv_squeeze_excite_conv2d_class));
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_squeeze_excite_opts *opts = method->opts;
    const int count = vv_squeeze_excite_matches(state->model->net, opts);
    vv_str_addf(line, "weights the channels of %d convolution%s with %lld or more", count,
                count == 1 ? "" : "s", (long long)opts->min_channels);
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_squeeze_excite_opts, member)
static const vv_field fields[] = {
    {"latent_channels", "Width of the layer in the middle: a count, or, below 1, a share of the "
                        "channels.",
     VV_FIELD_FLOAT, AT(latent_channels), "64", 0, 1e9, NULL},
    {"min_channels", "Convolutions with fewer channels on either side stay as they are.",
     VV_FIELD_INT, AT(min_channels), "128", 0, 1e9, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_squeeze_excite = {
    .desc = {.kind = "method",
             .name = "squeeze_excite",
             .summary = "Weights each channel by what the whole image shows, after wide "
                        "convolutions.",
             .cite = "Hu et al., Squeeze-and-Excitation Networks (arXiv 1709.01507)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_squeeze_excite_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .required_on_load = true,
    .check = check,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_squeeze_excite(const vv_squeeze_excite_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_squeeze_excite, opts) == VV_OK ? method : NULL;
}
