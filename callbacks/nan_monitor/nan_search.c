/* nan_search.c - finds the first bad tensor of a step that went wrong. It runs once a failure is
 * known, so it may take its time: the batch is computed a second time with every module watched. */
#include "nan_search.h"

#include <math.h>

#include <vivace/memory.h>

static bool is_bad(double value, bool infinity)
{
    return isnan(value) || (infinity && isinf(value));
}

/* First bad element; -1 if there is none. */
static int64_t bad_element(const vv_tensor *tensor, bool infinity)
{
    if (tensor->dtype != VV_F32 && tensor->dtype != VV_BF16 && tensor->dtype != VV_F64)
        return -1;
    for (int64_t i = 0; i < tensor->count; i++)
        if (is_bad(vv_tensor_get(tensor, i), infinity))
            return i;
    return -1;
}

typedef struct walk {
    bool infinity, found;
    vv_str *out;
    vv_module *module; /* whose path is wanted */
    const vv_param *param;
} walk;

static bool look_at_value(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    walk *w = ctx;
    (void)owner;
    w->found = bad_element(param->value, w->infinity) >= 0;
    if (w->found)
        vv_str_addf(w->out, "the parameter %s", path);
    return !w->found;
}

static bool look_at_buffer(void *ctx, const char *path, vv_module *owner, vv_tensor *buffer)
{
    walk *w = ctx;
    (void)owner;
    w->found = bad_element(buffer, w->infinity) >= 0;
    if (w->found)
        vv_str_addf(w->out, "the buffer %s", path);
    return !w->found;
}

/* The last one in the tree's order lies nearest to the loss: backward reached it first. */
static bool look_at_grad(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    walk *w = ctx;
    (void)owner;
    if (param->frozen || !param->grad || bad_element(param->grad, w->infinity) < 0)
        return true;
    w->found = true;
    vv_str_clear(w->out);
    vv_str_addf(w->out, "the gradient of %s", path);
    return true;
}

static bool name_module(void *ctx, const char *path, vv_module *module)
{
    walk *w = ctx;
    if (module != w->module)
        return true;
    vv_str_addf(w->out, "the output of %s (%s)", path[0] ? path : "the model",
                vv_module_type(module)->name);
    return false;
}

bool nan_in_weights(vv_module *net, bool infinity, vv_str *out)
{
    walk w = {.infinity = infinity, .out = out};
    vv_module_each_param(net, look_at_value, &w);
    return w.found;
}

static bool in_batch(const vv_batch *batch, bool infinity, vv_str *out)
{
    int64_t i = bad_element(batch->input, infinity), rows = batch->input->shape[0];
    if (i < 0 || rows < 1)
        return false;
    int64_t row = i / (batch->input->count / rows);
    vv_str_addf(out, "the input, in row %lld of the batch", (long long)row);
    if (batch->sample && row < batch->count)
        vv_str_addf(out, " (sample %lld of the set)", (long long)batch->sample[row]);
    return true;
}

/* ---- activations ---- */

static void collect(void *ctx, vv_module *module, vv_graph *graph, vv_node *output)
{
    nan_probe *probe = ctx;
    (void)graph;
    if (probe->status != VV_OK || probe->found)
        return;
    if (probe->count == probe->capacity) {
        int capacity = probe->capacity ? 2 * probe->capacity : 64;
        probe->status =
            vv_realloc_array(&probe->outputs, (size_t)capacity, sizeof *probe->outputs);
        if (probe->status != VV_OK)
            return;
        probe->capacity = capacity;
    }
    probe->outputs[probe->count].module = module;
    probe->outputs[probe->count++].node = output;
}

vv_status nan_probe_look(nan_probe *probe)
{
    VV_TRY(probe->status);
    for (int i = 0; i < probe->count && !probe->found; i++) {
        const vv_tensor *value;
        VV_TRY(vv_node_value(probe->outputs[i].node, &value));
        if (bad_element(value, probe->infinity) >= 0)
            probe->found = probe->outputs[i].module;
    }
    probe->count = 0;
    return VV_OK;
}

static vv_status in_activations(nan_probe *probe, vv_state *state, vv_str *out)
{
    vv_module *net = state->model->net;
    probe->status = VV_OK;
    probe->found = NULL;
    probe->count = 0;
    probe->active = true;
    vv_module_observe(net, collect, probe);
    vv_status status = vv_state_gradients(state, NULL);
    vv_module_observe(net, NULL, NULL);
    probe->active = false;
    VV_TRY(status);
    walk w = {.out = out, .module = probe->found};
    if (probe->found)
        vv_module_each(net, name_module, &w);
    return VV_OK;
}

vv_status nan_search(nan_probe *probe, vv_state *state, vv_str *out, bool *weights)
{
    vv_module *net = state->model->net;
    vv_str grad = {0}; /* the second pass writes the gradients anew */
    walk w = {.infinity = probe->infinity, .out = &grad};
    vv_module_each_param(net, look_at_grad, &w);
    walk buffers = {.infinity = probe->infinity, .out = out};
    vv_status status = VV_OK;
    *weights = nan_in_weights(net, probe->infinity, out);
    if (*weights || in_batch(state->batch, probe->infinity, out))
        goto out;
    VV_GO(in_activations(probe, state, out));
    if (probe->found)
        goto out;
    vv_module_each_buffer(net, look_at_buffer, &buffers);
    if (!buffers.found)
        vv_str_add(out, w.found ? vv_str_text(&grad) : "the loss itself");
out:
    if (status == VV_OK)
        status = vv_str_status(&grad);
    vv_str_fini(&grad);
    return status == VV_OK ? vv_str_status(out) : status;
}

void nan_probe_fini(nan_probe *probe)
{
    vv_dealloc(probe->outputs);
    *probe = (nan_probe){0};
}
