/* selective_proxy.c - a small model that chooses samples in the trained one's place, and learns
 * from what it chose: so the choice costs next to nothing. */
#include "selective_proxy.h"

#include <stdio.h>

#include <vivace/memory.h>
#include <vivace/registry.h>

static vv_status build_model(selective_proxy *proxy, const vv_selective_backprop_opts *opts,
                             const vv_state *state)
{
    const vv_model_desc *desc;
    void *settings = NULL;
    bool filled = false;
    char width[32];
    vv_status status = VV_OK;
    VV_GO(vv_model_find(&desc, opts->proxy));
    VV_GO(vv_alloc(&settings, desc->desc.opts_size + 1));
    VV_GO(vv_opts_init(&desc->desc, settings));
    filled = true;
    if (opts->proxy_width > 0) {
        snprintf(width, sizeof width, "%lld", (long long)opts->proxy_width);
        VV_GO(vv_opts_set(&desc->desc, settings, "width", width));
    }
    VV_GO(vv_model_build(&proxy->model, desc, settings, &state->input_spec, state->seed));
out:
    if (filled)
        vv_opts_fini(&desc->desc, settings);
    vv_dealloc(settings);
    return vv_fail_within(status, "proxy");
}

static bool count_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    selective_proxy *proxy = ctx;
    (void)path;
    (void)owner;
    if (proxy->params)
        proxy->params[proxy->param_count] = param;
    proxy->param_count++;
    return true;
}

static vv_status list_params(selective_proxy *proxy)
{
    vv_module_each_param(proxy->model->net, count_param, proxy);
    const size_t count = (size_t)proxy->param_count;
    proxy->param_count = 0;
    VV_TRY(vv_alloc_array(&proxy->params, count, sizeof(vv_param *)));
    VV_TRY(vv_alloc_array(&proxy->nodes, 1 + 2 * count, sizeof(vv_node *)));
    vv_module_each_param(proxy->model->net, count_param, proxy);
    return VV_OK;
}

vv_status vvi_selective_proxy_init(selective_proxy *proxy, const vv_selective_backprop_opts *opts,
                                   const vv_state *state)
{
    vv_graph_opts graph = VV_GRAPH_DEFAULTS;
    const vv_sgd_opts sgd = {.lr = opts->proxy_lr, .momentum = 0.85, .nesterov = true};
    graph.precision = state->precision;
    VV_TRY(build_model(proxy, opts, state));
    VV_TRY(vv_graph_new(&proxy->graph, &graph));
    VV_TRY(vv_optimizer_new(&proxy->optimizer, vv_optimizer_find("sgd"), &sgd, proxy->model->net));
    return list_params(proxy);
}

void vvi_selective_proxy_fini(selective_proxy *proxy)
{
    vv_graph_free(proxy->graph);
    vv_optimizer_free(proxy->optimizer);
    vv_model_free(proxy->model);
    vv_dealloc(proxy->params);
    vv_dealloc(proxy->nodes);
    *proxy = (selective_proxy){0};
}

/* In training mode with updates off: its running statistics would lag behind its large steps. */
vv_status vvi_selective_proxy_losses(selective_proxy *proxy, float *losses, vv_tensor *input,
                                     vv_tensor *target)
{
    vv_graph_reset(proxy->graph);
    vv_graph_set_updates(proxy->graph, false);
    const vv_status status = vvi_selective_read(losses, proxy->graph, proxy->model,
                                                vv_leaf(proxy->graph, input), target);
    vv_graph_reset(proxy->graph);
    return vv_fail_within(status, "proxy");
}

vv_status vvi_selective_proxy_train(selective_proxy *proxy, const vv_state *state,
                                    vv_tensor *input, vv_tensor *target)
{
    vv_graph *graph = proxy->graph;
    const int count = proxy->param_count;
    const int64_t items = vv_model_loss_items(proxy->model, target);
    vv_status status = VV_OK;
    vv_graph_reset(graph);
    vv_graph_set_rng(graph, state->seed, (uint64_t)state->time.batch, 0);
    vv_graph_set_updates(graph, true);
    vv_node *output = vv_module_forward(proxy->model->net, graph, vv_leaf(graph, input));
    vv_node *loss = vv_model_loss(proxy->model, output, vv_leaf(graph, target));
    proxy->nodes[0] = vv_div(vv_sum_all(loss), vv_scalar(graph, (double)(items > 0 ? items : 1)));
    for (int i = 0; i < count; i++)
        proxy->nodes[1 + count + i] = vv_leaf(graph, proxy->params[i]->value);
    VV_GO(vv_graph_status(graph));
    VV_GO(vv_grads_ensure(proxy->model->net));
    VV_GO(vv_grad(graph, proxy->nodes[0], proxy->nodes + 1 + count, count, proxy->nodes + 1));
    for (int i = 0; i < count; i++)
        VV_GO(vv_bind_output(proxy->nodes[1 + i], proxy->params[i]->grad, VV_BIND_WRITE));
    VV_GO(vv_eval(graph, proxy->nodes, 1 + count));
    vv_optimizer_set_lr_factor(proxy->optimizer, 1.0 - state->progress);
    VV_GO(vv_optimizer_step(proxy->optimizer));
out:
    vv_graph_reset(graph);
    return vv_fail_within(status, "proxy");
}

/* ---- saved state ---- */

typedef struct sink {
    vv_record *record;
    const vv_record *from;
    const char *prefix;
    vv_status status;
} sink;

static bool put(void *ctx, const char *name, vv_tensor *tensor)
{
    sink *s = ctx;
    vv_str key = {0};
    vv_str_addf(&key, "%s.%s", s->prefix, name);
    s->status = vv_str_status(&key);
    if (s->status == VV_OK)
        s->status = vv_record_set_tensor(s->record, vv_str_text(&key), tensor);
    vv_str_fini(&key);
    return s->status == VV_OK;
}

static const vv_tensor *get(void *ctx, const char *name)
{
    const sink *s = ctx;
    const vv_tensor *found = NULL;
    vv_str key = {0};
    vv_str_addf(&key, "%s.%s", s->prefix, name);
    if (vv_str_status(&key) != VV_OK ||
        vv_record_get_tensor(s->from, vv_str_text(&key), &found) != VV_OK)
        found = NULL;
    vv_str_fini(&key);
    return found;
}

vv_status vvi_selective_proxy_save(const selective_proxy *proxy, vv_record *record)
{
    sink weights = {.record = record, .prefix = "proxy"};
    sink steps = {.record = record, .prefix = "proxy_optimizer"};
    vv_module_each_state(proxy->model->net, put, &weights);
    VV_TRY(weights.status);
    VV_TRY(vv_optimizer_each_state(proxy->optimizer, proxy->model->net, put, &steps));
    return steps.status;
}

vv_status vvi_selective_proxy_load(selective_proxy *proxy, const vv_record *record)
{
    sink weights = {.from = record, .prefix = "proxy"};
    sink steps = {.from = record, .prefix = "proxy_optimizer"};
    VV_TRY(vv_module_load(proxy->model->net, get, &weights, true, NULL));
    return vv_optimizer_load(proxy->optimizer, proxy->model->net, get, &steps);
}
