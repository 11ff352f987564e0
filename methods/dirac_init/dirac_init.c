/* dirac_init.c - partial identities as the first filters of convolutions. */
#include "dirac_init.h"

#include <string.h>

static const vv_dirac_init_opts defaults = VV_DIRAC_INIT_DEFAULTS;

typedef struct starter {
    const vv_dirac_init_opts *opts;
    bool write;
    int count;
} starter;

static bool visit(void *ctx, const char *path, vv_module *module)
{
    starter *s = ctx;
    (void)path;
    if (vv_module_type(module) != &vv_conv2d_class)
        return true;
    const vv_conv2d_layer *layer = vv_module_self(module);
    const int64_t in = layer->in_channels, height = layer->kernel[0], width = layer->kernel[1];
    if (in < s->opts->min_channels || layer->out_channels < in || layer->conv.groups != 1 ||
        height % 2 == 0 || width % 2 == 0)
        return true;
    s->count++;
    if (!s->write)
        return true;
    const int64_t area = height * width; /* weight [O,in,height,width] */
    float *w = vv_module_param(module, "weight")->value->data;
    memset(w, 0, (size_t)(in * in * area) * sizeof *w);
    for (int64_t i = 0; i < in; i++)
        w[(i * in + i) * area + area / 2] = 1.0f;
    return true;
}

int vv_apply_dirac_init(vv_module *net, const vv_dirac_init_opts *opts)
{
    starter s = {opts ? opts : &defaults, true, 0};
    vv_module_each(net, visit, &s);
    return s.count;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    (void)event;
    method->effect += vv_apply_dirac_init(state->model->net, method->opts);
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    starter s = {method->opts, false, 0};
    vv_module_each(state->model->net, visit, &s);
    vv_str_addf(line, "%d convolution%s by handing %s input on", s.count,
                s.count == 1 ? " starts" : "s start", s.count == 1 ? "its" : "their");
    return vv_str_status(line);
}

static const vv_field fields[] = {
    {"min_channels", "Convolutions with fewer input channels start as they do.", VV_FIELD_INT,
     offsetof(vv_dirac_init_opts, min_channels), "4", 1, 1e9, NULL},
    {.name = NULL},
};
static const char *const after[] = {"blurpool", "factorize", "squeeze_excite", NULL};

const vv_method_desc vv_method_dirac_init = {
    .desc = {.kind = "method",
             .name = "dirac_init",
             .summary = "Starts convolutions as the identity of their input channels.",
             .cite = "Zagoruyko and Komodakis, DiracNets (arXiv 1706.00388)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_dirac_init_opts)},
    .phase = VV_PHASE_SURGERY,
    .after = after,
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .apply = apply,
    .plan = plan,
};

vv_method *vv_dirac_init(const vv_dirac_init_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_dirac_init, opts) == VV_OK ? method : NULL;
}
