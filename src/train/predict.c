/* predict.c - forward passes without training: a microbatch of one, and outputs of a whole set. */
#include <string.h>

#include "trainer_impl.h"

void vvi_forget_micro(vv_state *s)
{
    s->input = s->target = s->output = NULL;
    vv_batch_free(s->micro);
    s->micro = NULL;
}

vv_status vvi_forward_rows(vv_trainer *t, int64_t first, int64_t count, vv_event before,
                           vv_event after)
{
    vv_state *s = &t->state;
    VV_TRY(vv_batch_rows(&s->micro, s->batch, first, count));
    s->micro_first = first;
    vv_graph_reset(t->graph);
    vv_graph_set_rng(t->graph, s->seed, (uint64_t)s->time.batch, first);
    vv_graph_set_updates(t->graph, false);
    s->input = vv_leaf(t->graph, s->micro->input);
    s->target = vv_leaf(t->graph, s->micro->target);
    VV_TRY(vvi_engine_fire(t, before));
    s->output = vv_module_forward(s->model->net, t->graph, s->input);
    VV_TRY(vvi_engine_fire(t, after));
    return vv_graph_status(t->graph);
}

typedef struct parts {
    vv_tensor **items;
    int count, capacity;
} parts;

static vv_status add_part(parts *p, vv_tensor *part)
{
    if (p->count == p->capacity) {
        int capacity = p->capacity ? 2 * p->capacity : 16;
        vv_status status = vv_realloc_array(&p->items, (size_t)capacity, sizeof *p->items);
        if (status != VV_OK) {
            vv_tensor_free(part);
            return status;
        }
        p->capacity = capacity;
    }
    p->items[p->count++] = part;
    return VV_OK;
}

static void free_parts(parts *p)
{
    for (int i = 0; i < p->count; i++)
        vv_tensor_free(p->items[i]);
    vv_dealloc(p->items);
}

/* The parts one below the other. */
static vv_status join_parts(const parts *p, vv_tensor **out)
{
    if (p->count == 0)
        return vv_fail(VV_EINVAL, "vv_trainer_predict: the loader has no samples");
    const vv_tensor *like = p->items[0];
    int64_t shape[VV_MAX_DIMS];
    if (like->ndim < 1)
        return vv_fail(VV_ESHAPE, "vv_trainer_predict: the model's output has no rows");
    memcpy(shape, like->shape, sizeof shape);
    shape[0] = 0;
    for (int i = 0; i < p->count; i++)
        shape[0] += p->items[i]->shape[0];
    VV_TRY(vv_tensor_new(out, VV_F32, like->ndim, shape));
    char *at = (*out)->data;
    for (int i = 0; i < p->count; i++) {
        memcpy(at, p->items[i]->data, p->items[i]->bytes);
        at += p->items[i]->bytes;
    }
    return VV_OK;
}

static vv_status predict_batch(vv_trainer *t, parts *p)
{
    vv_state *s = &t->state;
    VV_TRY(vvi_engine_fire(t, VV_EVENT_PREDICT_BATCH_START));
    int64_t rows = s->batch->count;
    int64_t size = t->eval_microbatch > 0 && t->eval_microbatch < rows ? t->eval_microbatch : rows;
    for (int64_t first = 0; first < rows; first += size) {
        int64_t count = rows - first < size ? rows - first : size;
        vv_tensor *part = NULL;
        vv_status status = vvi_forward_rows(t, first, count, VV_EVENT_PREDICT_BEFORE_FORWARD,
                                            VV_EVENT_PREDICT_AFTER_FORWARD);
        if (status == VV_OK) {
            vv_node *output = s->output;
            if (vv_node_dtype(output) != VV_F32)
                output = vv_cast(output, VV_F32);
            status = output ? vv_node_keep(output, &part) : vv_graph_status(t->graph);
        }
        vvi_forget_micro(s);
        VV_TRY(status);
        VV_TRY(add_part(p, part));
    }
    return vvi_engine_fire(t, VV_EVENT_PREDICT_BATCH_END);
}

static vv_status predict_batches(vv_trainer *t, vv_loader *loader, parts *p)
{
    vv_state *s = &t->state;
    VV_TRY(vvi_engine_fire(t, VV_EVENT_PREDICT_START));
    VV_TRY(vv_loader_seek(loader, 0, 0));
    for (;;) {
        VV_TRY(vv_loader_next(loader, &s->batch));
        if (!s->batch)
            return vvi_engine_fire(t, VV_EVENT_PREDICT_END);
        vv_status status = predict_batch(t, p);
        vv_graph_reset(t->graph);
        vv_batch_free(s->batch);
        s->batch = NULL;
        VV_TRY(status);
    }
}

vv_status vv_trainer_predict_batch(vv_trainer *t, vv_batch *batch, vv_tensor **out)
{
    *out = NULL;
    if (t->fitting)
        return vv_fail(VV_ESTATE, "vv_trainer_predict_batch: not while fit runs");
    parts p = {0};
    vv_state *s = &t->state;
    const bool training = vv_module_training(s->model->net);
    const bool averaged = vvi_weights_average(t, true);
    vv_module_set_training(s->model->net, false);
    s->batch = batch;
    vv_status status = predict_batch(t, &p);
    vv_graph_reset(t->graph);
    s->batch = NULL;
    vv_module_set_training(s->model->net, training);
    vvi_weights_average(t, averaged);
    if (status == VV_OK)
        status = join_parts(&p, out);
    free_parts(&p);
    return status;
}

vv_status vv_trainer_predict(vv_trainer *t, vv_loader *loader, vv_tensor **out)
{
    *out = NULL;
    if (!loader || t->fitting)
        return vv_fail(loader ? VV_ESTATE : VV_EINVAL,
                       "vv_trainer_predict: %s", loader ? "not while fit runs" : "no loader");
    parts p = {0};
    bool training = vv_module_training(t->state.model->net);
    bool averaged = vvi_weights_average(t, true);
    vv_module_set_training(t->state.model->net, false);
    vv_status status = predict_batches(t, loader, &p);
    vv_module_set_training(t->state.model->net, training);
    vvi_weights_average(t, averaged);
    if (status == VV_OK)
        status = join_parts(&p, out);
    free_parts(&p);
    return status;
}
