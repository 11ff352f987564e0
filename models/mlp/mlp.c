/* mlp.c - a multi-layer perceptron: flatten, hidden layers with ReLU, linear. */
#include "mlp.h"

#include <stdio.h>

/* Takes `part`; made: the status of making it. */
static vv_status add(vv_module *net, const char *name, int number, vv_status made, vv_module *part)
{
    char full[32];

    if (made != VV_OK)
        return made;
    snprintf(full, sizeof full, "%s%d", name, number);
    return vv_module_add_child(net, full, part);
}

static vv_status add_hidden(vv_module *net, int number, int64_t in, const vv_mlp_opts *opts)
{
    vv_module *part = NULL;
    vv_status made = vv_linear_new(&part, in, opts->width, true);

    VV_TRY(add(net, "fc", number, made, part));
    made = vv_activation_new(&part, VV_ACT_RELU, 0.0);
    VV_TRY(add(net, "relu", number, made, part));
    if (opts->dropout <= 0.0)
        return VV_OK;
    made = vv_dropout_new(&part, opts->dropout);
    return add(net, "dropout", number, made, part);
}

vv_status vv_mlp_new(vv_module **out, int64_t features, int64_t classes, const vv_mlp_opts *opts)
{
    const vv_mlp_opts defaults = VV_MLP_DEFAULTS;
    const vv_mlp_opts *o = opts ? opts : &defaults;
    vv_module *net = NULL, *part = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    if (o->layers < 0 || o->layers > 1000)
        return vv_fail(VV_EINVAL, "mlp: layers %lld is outside [0, 1000]", (long long)o->layers);
    VV_GO(vv_sequential_new(&net));
    VV_GO(vv_flatten_new(&part));
    VV_GO(vv_module_add_child(net, "flatten", part));
    for (int i = 0; i < (int)o->layers; i++)
        VV_GO(add_hidden(net, i + 1, i ? o->width : features, o));
    VV_GO(vv_linear_new(&part, o->layers ? o->width : features, classes, true));
    VV_GO(vv_module_add_child(net, "out", part));
    *out = net;
    net = NULL;
out:
    vv_module_free(net);
    return status;
}

static vv_status build(vv_model **out, const void *opts, const vv_sample_spec *input, uint64_t seed)
{
    vv_module *net = NULL;
    int64_t features = 1;

    if (input->classes < 1)
        return vv_fail(VV_EINVAL, "mlp: needs data with classes; these have none");
    for (int i = 0; i < input->input_ndim; i++)
        features *= input->input_shape[i];
    VV_TRY(vv_mlp_new(&net, features, input->classes, opts));
    return vv_classifier_build(out, net, input->classes, seed);
}

static const vv_field fields[] = {
    {"width", "Units of each hidden layer.", VV_FIELD_INT, offsetof(vv_mlp_opts, width), "128", 1,
     65536, NULL},
    {"layers", "Number of hidden layers.", VV_FIELD_INT, offsetof(vv_mlp_opts, layers), "2", 0,
     1000, NULL},
    {"dropout", "Share of units dropped after each hidden layer while training.", VV_FIELD_FLOAT,
     offsetof(vv_mlp_opts, dropout), "0", 0.0, 0.99, NULL},
    {.name = NULL},
};

const vv_model_desc vv_model_mlp = {
    .desc = {.kind = "model",
             .name = "mlp",
             .summary = "Multi-layer perceptron with ReLU for vectors and small images.",
             .cite = "",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_mlp_opts)},
    .build = build,
    .typical = "image=28,channels=1,classes=10",
};
