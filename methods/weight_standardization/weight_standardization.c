/* weight_standardization.c - Weight Standardization (Qiao et al., arXiv 1903.10520): layer,
 * surgery, method. */
#include "weight_standardization.h"

#include <math.h>

#include <vivace/memory.h>

#define EPS 1e-10

/* ---- the layer ---- */

typedef struct standardized {
    vv_conv2d_layer layer; /* first, as Conv2d has it */
    bool plain;            /* one of the last: its weight is used as it is */
    int64_t order;         /* of execution; of the tree before a trace */
    int64_t *clock;        /* while the order is traced */
} standardized;

vv_node *vv_standardize_weight(vv_node *weight)
{
    if (!weight)
        return NULL;
    const int64_t rows = vv_node_shape(weight)[0];
    const int64_t flat[2] = {rows, rows ? vv_node_count(weight) / rows : 0};
    vv_node *w = vv_layer_norm(vv_reshape(weight, 2, flat), NULL, NULL, EPS);
    return vv_reshape(w, vv_node_ndim(weight), vv_node_shape(weight));
}

static vv_node *forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    standardized *self = vv_module_self(module);
    vv_node *weight = vv_module_param_node(module, graph, "weight");
    if (self->clock)
        self->order = (*self->clock)++;
    return vv_conv2d(x, self->plain ? weight : vv_standardize_weight(weight),
                     vv_module_param_node(module, graph, "bias"), &self->layer.conv);
}

const vv_module_class vv_standardized_conv2d_class = {"StandardizedConv2d", forward, NULL};

/* A layer of another class over the same parameters. */
static vv_status same_params(vv_module **out, const vv_module_class *type, size_t self_bytes,
                             vv_module *from)
{
    static const char *const names[] = {"weight", "bias"};
    VV_TRY(vv_module_new(out, type, self_bytes));
    *(vv_conv2d_layer *)vv_module_self(*out) = *(const vv_conv2d_layer *)vv_module_self(from);
    for (int i = 0; i < 2; i++) {
        vv_param *param = vv_module_param(from, names[i]);
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

/* ---- surgery ---- */

/* The layers that this call has made: those that were there keep what they are. */
typedef struct surgeon {
    standardized **made;
    int count, capacity;
} surgeon;

static vv_status standardize(void *ctx, vv_module *layer, int index, vv_module **out)
{
    surgeon *s = ctx;
    *out = NULL;
    if (s->count == s->capacity) {
        VV_TRY(vv_realloc_array(&s->made, 2 * (size_t)s->capacity + 16, sizeof *s->made));
        s->capacity = 2 * s->capacity + 16;
    }
    VV_TRY(same_params(out, &vv_standardized_conv2d_class, sizeof(standardized), layer));
    s->made[s->count] = vv_module_self(*out);
    s->made[s->count++]->order = index;
    return VV_OK;
}

/* One forward pass, not computed; true if the net took the input. */
static vv_status trace(const surgeon *s, vv_module *net, int ndim, const int64_t *shape, bool *done)
{
    const vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_status status = VV_OK;
    vv_graph *graph = NULL;
    vv_tensor *input = NULL;
    int64_t clock = 0;
    *done = false;
    VV_GO(vv_graph_new(&graph, &opts));
    VV_GO(vv_tensor_new(&input, VV_F32, ndim, shape));
    for (int i = 0; i < s->count; i++)
        s->made[i]->clock = &clock;
    vv_module_forward(net, graph, vv_leaf(graph, input));
    *done = vv_graph_status(graph) == VV_OK;
    if (vv_graph_status(graph) == VV_ENOMEM)
        status = VV_ENOMEM;
out:
    for (int i = 0; i < s->count; i++) {
        s->made[i]->clock = NULL;
        if (!*done)
            s->made[i]->order = i;
    }
    vv_graph_free(graph);
    vv_tensor_free(input);
    return status;
}

static void spare_last(const surgeon *s, int64_t n)
{
    for (int i = 0; i < s->count; i++) {
        int64_t later = 0;
        for (int k = 0; k < s->count; k++)
            later += s->made[k]->order > s->made[i]->order;
        s->made[i]->plain = later < n;
    }
}

vv_status vv_apply_weight_standardization(vv_module *net,
                                          const vv_weight_standardization_opts *opts, int ndim,
                                          const int64_t *input_shape, vv_optimizer *optimizer,
                                          int *count, bool *traced)
{
    const int64_t n = opts ? opts->n_last_layers_ignore : 0;
    surgeon s = {.count = 0};
    const vv_policy policy = {&vv_conv2d_class, standardize, &s, NULL};
    vv_status status = VV_OK;
    bool done = false;
    if (count)
        *count = 0;
    if (!net || n < 0)
        return vv_fail(VV_EINVAL, "weight_standardization: %s",
                       net ? "n_last_layers_ignore must not be negative" : "no net");
    VV_GO(vv_module_replace(net, &policy, 1, optimizer, NULL));
    if (n > 0 && input_shape && s.count > 0) {
        status = trace(&s, net, ndim, input_shape, &done);
        if (status != VV_OK) { /* cannot fail: nothing is made, the parameters stay */
            for (int i = 0; i < s.count; i++)
                s.made[i]->plain = true;
            goto out;
        }
    }
    spare_last(&s, n);
    if (count)
        *count = s.count > n ? s.count - (int)n : 0;
    if (traced)
        *traced = done;
out:
    vv_dealloc(s.made);
    return status;
}

static vv_status restore(void *ctx, vv_module *layer, int index, vv_module **out)
{
    (void)ctx;
    (void)index;
    return same_params(out, &vv_conv2d_class, sizeof(vv_conv2d_layer), layer);
}

static bool bake(void *ctx, const char *path, vv_module *module)
{
    (void)ctx;
    (void)path;
    standardized *self = vv_module_self(module);
    if (vv_module_type(module) != &vv_standardized_conv2d_class || self->plain)
        return true;
    const vv_tensor *weight = vv_module_param(module, "weight")->value;
    const int64_t count = weight->count / weight->shape[0];
    float *w = weight->data;
    for (int64_t i = 0; i < weight->shape[0]; i++, w += count) {
        double mean = 0.0, var = 0.0;
        for (int64_t k = 0; k < count; k++)
            mean += (double)w[k] / (double)count;
        for (int64_t k = 0; k < count; k++)
            var += ((double)w[k] - mean) * ((double)w[k] - mean) / (double)count;
        for (int64_t k = 0; k < count; k++)
            w[k] = (float)(((double)w[k] - mean) / sqrt(var + EPS));
    }
    self->plain = true;
    return true;
}

vv_status vv_remove_weight_standardization(vv_module *net, vv_optimizer *optimizer, int *count)
{
    const vv_policy policy = {&vv_standardized_conv2d_class, restore, NULL, NULL};
    if (count)
        *count = 0;
    if (!net)
        return vv_fail(VV_EINVAL, "weight_standardization: no net");
    vv_module_each(net, bake, NULL); /* a layer that stays if the next step fails is right too */
    return vv_module_replace(net, &policy, 1, optimizer, count);
}

/* ---- the Trainer's method ---- */

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_weight_standardization_opts *opts = method->opts;
    const vv_sample_spec *data = &state->input_spec;
    int64_t shape[VV_MAX_DIMS] = {2};
    int count = 0;
    bool traced = false;
    (void)event;
    const bool known = data->input_ndim > 0 && data->input_ndim < VV_MAX_DIMS;
    for (int i = 0; known && i < data->input_ndim; i++)
        shape[i + 1] = data->input_shape[i];
    VV_TRY(vv_apply_weight_standardization(state->model->net, opts, data->input_ndim + 1,
                                           known ? shape : NULL, state->optimizer, &count,
                                           &traced));
    if (opts->n_last_layers_ignore > 0 && !traced)
        vv_log_message(state, "weight_standardization: the order in which layers run could not be "
                              "found; the last ones are those of the model's definition");
    method->effect += count;
    vv_log_metric(state, "WeightStandardization/num_weights_standardized", count);
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_weight_standardization_opts *opts = method->opts;
    const int64_t all = vv_module_count(state->model->net, &vv_conv2d_class);
    const int64_t left = all > opts->n_last_layers_ignore ? all - opts->n_last_layers_ignore : 0;
    vv_str_addf(line, "standardises the filters of %lld of %lld convolution%s", (long long)left,
                (long long)all, all == 1 ? "" : "s");
    return vv_str_status(line);
}

static const vv_field fields[] = {
    {"n_last_layers_ignore", "Convolutions that stay plain, counted from the last executed.",
     VV_FIELD_INT, offsetof(vv_weight_standardization_opts, n_last_layers_ignore), "0", 0, 1e9,
     NULL},
    {.name = NULL},
};
/* What it changes is a convolution for the others no more. */
static const char *const after[] = {"blurpool", "dirac_init", "factorize", "patch_whitening",
                                    "squeeze_excite", NULL};

const vv_method_desc vv_method_weight_standardization = {
    .desc = {.kind = "method",
             .name = "weight_standardization",
             .summary = "Keeps each filter of the convolutions at mean 0 and variance 1.",
             .cite =
                 "Qiao et al., Micro-Batch Training with Batch-Channel Normalization and Weight "
                 "Standardization (arXiv 1903.10520)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_weight_standardization_opts)},
    .phase = VV_PHASE_SURGERY,
    .after = after,
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .required_on_load = true,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_weight_standardization(const vv_weight_standardization_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_weight_standardization, opts) == VV_OK ? method
                                                                                    : NULL;
}
