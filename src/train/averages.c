/* averages.c - the weights that are evaluated and saved where they are not the trained ones, and
 * running statistics that fit exchanged weights. */
#include "trainer_impl.h"

bool vvi_weights_average(vv_trainer *t, bool on)
{
    const bool before = t->averaged;
    if (before == on)
        return before;
    t->averaged = on;
    for (int i = 0; i < t->method_count; i++) {
        vv_method *method = t->methods[on ? i : t->method_count - 1 - i];
        if (method->type->swap)
            method->type->swap(method, on);
    }
    if (t->state.optimizer && vv_optimizer_averages(t->state.optimizer))
        vv_optimizer_swap(t->state.optimizer);
    return before;
}

/* ---- running statistics anew ---- */

typedef struct norm {
    vv_batch_norm_layer *layer;
    double momentum;
    vv_tensor *running[2]; /* mean, variance */
    double *sum, *old;     /* both tensors, one behind the other */
} norm;

typedef struct norm_list {
    norm *items;
    int count;
    vv_status status;
} norm_list;

static bool add_norm(void *ctx, const char *path, vv_module *module)
{
    norm_list *list = ctx;
    (void)path;
    if (vv_module_type(module) != &vv_batch_norm_class)
        return true;
    norm n = {.layer = vv_module_self(module),
              .running = {vv_module_buffer(module, "running_mean"),
                          vv_module_buffer(module, "running_var")}};
    n.momentum = n.layer->momentum;
    list->status = vv_realloc_array(&list->items, (size_t)list->count + 1, sizeof *list->items);
    if (list->status == VV_OK)
        list->status = vv_alloc_array(&n.sum, 4 * (size_t)n.layer->channels, sizeof *n.sum);
    if (list->status == VV_OK) {
        n.old = n.sum + 2 * n.layer->channels;
        for (int64_t k = 0; k < 2 * n.layer->channels; k++)
            n.old[k] = vv_tensor_get(n.running[k / n.layer->channels], k % n.layer->channels);
        list->items[list->count++] = n;
    }
    return list->status == VV_OK;
}

/* One pass forward in training mode. With momentum 1 each batch leaves its own statistics. */
static vv_status forward_rows(vv_trainer *t, vv_batch *batch, int64_t first, int64_t count)
{
    vv_batch *rows = NULL;
    vv_status status = VV_OK;
    VV_GO(vv_batch_rows(&rows, batch, first, count));
    vv_graph_reset(t->graph);
    vv_graph_set_rng(t->graph, t->state.seed, (uint64_t)t->state.time.batch, first);
    vv_graph_set_updates(t->graph, true);
    vv_node *output = vv_module_forward(t->state.model->net, t->graph,
                                        vv_leaf(t->graph, rows->input));
    VV_GO(vv_graph_status(t->graph));
    VV_GO(vv_eval(t->graph, &output, 1));
out:
    vv_graph_reset(t->graph);
    vv_batch_free(rows);
    return status;
}

static void add_statistics(const norm_list *list, double weight)
{
    for (int i = 0; i < list->count; i++) {
        const norm *n = &list->items[i];
        const int64_t channels = n->layer->channels;
        for (int64_t k = 0; k < 2 * channels; k++)
            n->sum[k] += weight * vv_tensor_get(n->running[k / channels], k % channels);
    }
}

static vv_status sum_batches(vv_trainer *t, const norm_list *list, int64_t batches, double *weight)
{
    const vv_state *s = &t->state;
    VV_TRY(vv_loader_seek(t->train, s->time.epoch, 0));
    for (int64_t b = 0; b < batches; b++) {
        vv_batch *batch = NULL;
        VV_TRY(vv_loader_next(t->train, &batch));
        if (!batch)
            break;
        const int64_t rows = batch->count;
        const int64_t size = t->microbatch > 0 && t->microbatch < rows ? t->microbatch : rows;
        vv_status status = VV_OK;
        for (int64_t first = 0; first < rows && status == VV_OK; first += size) {
            const int64_t count = rows - first < size ? rows - first : size;
            status = forward_rows(t, batch, first, count);
            if (status == VV_OK)
                add_statistics(list, (double)count);
            *weight += (double)count;
        }
        vv_batch_free(batch);
        VV_TRY(status);
    }
    return VV_OK;
}

/* The mean over the batches; after a failure what was there. */
static void finish_norms(const norm_list *list, double weight, bool ok)
{
    for (int i = 0; i < list->count; i++) {
        const norm *n = &list->items[i];
        const int64_t channels = n->layer->channels;
        n->layer->momentum = n->momentum;
        for (int64_t k = 0; k < 2 * channels; k++)
            vv_tensor_set(n->running[k / channels], k % channels,
                          ok && weight > 0.0 ? n->sum[k] / weight : n->old[k]);
    }
}

vv_status vv_state_recompute_norms(vv_state *state, int64_t batches, int *count)
{
    vv_trainer *t = state->trainer;
    norm_list list = {NULL, 0, VV_OK};
    const bool training = vv_module_training(state->model->net);
    double weight = 0.0;
    vv_status status = VV_OK;
    if (count)
        *count = 0;
    if (!t->train || t->in_step)
        return vv_fail(VV_ESTATE, "vv_state_recompute_norms: only between batches of a run");
    vv_module_each(state->model->net, add_norm, &list);
    VV_GO(list.status);
    if (list.count == 0)
        goto out;
    for (int i = 0; i < list.count; i++)
        list.items[i].layer->momentum = 1.0;
    vv_module_set_training(state->model->net, true);
    status = sum_batches(t, &list, batches > 0 ? batches : INT64_MAX, &weight);
    vv_module_set_training(state->model->net, training);
    finish_norms(&list, weight, status == VV_OK);
    VV_GO(status);
    VV_GO(vv_loader_seek(t->train, state->time.epoch, state->time.batch_in_epoch));
    if (count)
        *count = list.count;
out:
    for (int i = 0; i < list.count; i++)
        vv_dealloc(list.items[i].sum);
    vv_dealloc(list.items);
    return vv_fail_within(status, "running statistics");
}
