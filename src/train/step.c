/* step.c - one optimizer step: microbatches, gradients, clipping, update. */
#include <math.h>
#include <string.h>

#include "profile.h"

static bool count_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)path;
    (void)owner;
    vv_trainer *t = ctx;
    if (param->frozen)
        return true;
    if (t->param_count < t->param_capacity)
        t->params[t->param_count] = param;
    t->param_count++;
    return true;
}

/* Lists the parameters that learn: a frozen one's gradient is never computed, nobody asks for
   it. */
static vv_status collect_params(vv_trainer *t)
{
    t->param_count = 0;
    vv_module_each_param(t->state.model->net, count_param, t);
    if (t->param_count <= t->param_capacity)
        return VV_OK;
    int capacity = t->param_count;
    VV_TRY(vv_realloc_array(&t->params, (size_t)capacity, sizeof *t->params));
    VV_TRY(vv_realloc_array(&t->nodes, 2 * (size_t)capacity + VVI_SPARE_NODES, sizeof(vv_node *)));
    t->param_capacity = capacity;
    t->param_count = 0;
    vv_module_each_param(t->state.model->net, count_param, t);
    return VV_OK;
}

/* Room for the nodes of loss and metrics even where nothing learns. */
vv_status vvi_step_prepare(vv_trainer *t)
{
    VV_TRY(collect_params(t));
    if (!t->nodes)
        VV_TRY(vv_realloc_array(&t->nodes, VVI_SPARE_NODES, sizeof(vv_node *)));
    return vv_grads_ensure(t->state.model->net);
}

vv_node *vvi_mix_items(vv_node *a, vv_node *b, vv_node *weight)
{
    if (!a || !b || !weight)
        return NULL;
    int ndim = vv_node_ndim(a);
    if (ndim > 1) {
        int64_t shape[VV_MAX_DIMS];
        for (int i = 0; i < ndim; i++)
            shape[i] = i == 0 ? vv_node_shape(a)[0] : 1;
        weight = vv_reshape(weight, ndim, shape);
    }
    return vv_lerp(a, b, weight);
}

vv_status vv_state_fold_mix(vv_state *state)
{
    /* A wrong label is an error in the plain loss; as a soft target it would be a row of zeros. */
    if (state->micro)
        VV_TRY(vv_model_check_target(state->model, state->micro->target));
    vv_node *a = vv_model_dense_target(state->model, state->output, state->target);
    vv_node *b = vv_model_dense_target(state->model, state->output, state->mix_target);
    vv_node *mixed = vvi_mix_items(a, b, state->mix_weight);
    if (mixed) {
        state->target = mixed;
        state->mix_target = state->mix_weight = NULL;
    }
    return vv_graph_status(state->graph);
}

vv_node *vvi_loss_items(const vv_trainer *t)
{
    const vv_state *s = &t->state;
    vv_node *items = vv_model_loss(s->model, s->output, s->target);
    if (!s->mix_target)
        return items;
    return vvi_mix_items(items, vv_model_loss(s->model, s->output, s->mix_target), s->mix_weight);
}

/* From BEFORE_FORWARD to AFTER_LOSS: leaves the loss's node in the state. */
static vv_status forward(vv_trainer *t)
{
    vv_state *s = &t->state;
    s->input = vv_leaf(t->graph, s->micro->input);
    s->target = vv_leaf(t->graph, s->micro->target);
    s->mix_target = s->micro->mix_target ? vv_leaf(t->graph, s->micro->mix_target) : NULL;
    s->mix_weight = s->micro->mix_weight ? vv_leaf(t->graph, s->micro->mix_weight) : NULL;
    if (!s->mix_target != !s->mix_weight)
        return vv_fail(VV_ESTATE, "batch: mix_target and mix_weight must be set together");
    VV_TRY(vvi_engine_fire(t, VV_EVENT_BEFORE_FORWARD));
    s->output = vv_module_forward(s->model->net, t->graph, s->input);
    VV_TRY(vvi_engine_fire(t, VV_EVENT_AFTER_FORWARD));
    VV_TRY(vvi_engine_fire(t, VV_EVENT_BEFORE_LOSS));
    s->loss_items = vvi_loss_items(t);
    VV_TRY(vvi_engine_fire(t, VV_EVENT_AFTER_LOSS));
    /* Each item counts once whatever the microbatch size. The divisor is a leaf's value, so that
       the plan does not depend on it. */
    int64_t items = s->loss_item_count > 0 ? s->loss_item_count : 1;
    s->loss = vv_div(vv_sum_all(s->loss_items), vv_scalar(t->graph, (double)items));
    return vv_graph_status(t->graph);
}

/* Gradient nodes of the learning parameters: nodes[0] = loss, nodes[1..] = gradients. */
static vv_status backward(vv_trainer *t)
{
    vv_node **grads = t->nodes + 1, **leaves = t->nodes + 1 + t->param_count;
    for (int i = 0; i < t->param_count; i++)
        leaves[i] = vv_leaf(t->graph, t->params[i]->value);
    t->nodes[0] = t->state.loss;
    if (t->param_count == 0)
        return VV_OK;
    return vv_grad(t->graph, t->state.loss, leaves, t->param_count, grads);
}

void vvi_step_forget(vv_trainer *t)
{
    vv_state *s = &t->state;
    s->input = s->target = s->mix_target = s->mix_weight = NULL;
    s->output = s->loss_items = s->loss = NULL;
    vv_batch_free(s->micro);
    s->micro = NULL;
}

vv_status vvi_step_build(vv_trainer *t, int64_t first, int64_t count, bool updates, vv_bind how)
{
    vv_state *s = &t->state;
    VV_TRY(vv_batch_rows(&s->micro, s->batch, first, count));
    s->micro_first = first;
    vv_graph_reset(t->graph);
    vv_graph_set_rng(t->graph, s->seed, (uint64_t)s->time.batch, first);
    vv_graph_set_updates(t->graph, updates);
    double began = vvi_profile_begin(t);
    VV_TRY(forward(t));
    vvi_profile_end(t, began, "build", "build_forward", NULL);
    VV_TRY(vvi_engine_fire(t, VV_EVENT_BEFORE_BACKWARD));
    began = vvi_profile_begin(t);
    VV_TRY(backward(t));
    vvi_profile_end(t, began, "build", "build_backward", NULL);
    for (int i = 0; i < t->param_count; i++)
        VV_TRY(vv_bind_output(t->nodes[1 + i], t->params[i]->grad, how));
    int metric_nodes = 0;
    t->node_count = 1 + t->param_count;
    if (updates) /* the metrics of a batch are of its first pass */
        VV_TRY(vvi_train_metrics_build(t, t->nodes + t->node_count, &metric_nodes));
    t->node_count += metric_nodes;
    return VV_OK;
}

static vv_status microbatch(vv_trainer *t, int64_t first, int64_t count, bool updates, double *loss)
{
    vv_status status = VV_OK;
    VV_GO(vvi_step_build(t, first, count, updates, first == 0 ? VV_BIND_WRITE : VV_BIND_ADD));
    const double began = vvi_profile_begin(t);
    VV_GO(vv_eval(t->graph, t->nodes, t->node_count));
    vvi_profile_run(t, began);
    VV_GO(vv_node_item(t->state.loss, loss));
    if (updates)
        VV_GO(vvi_train_metrics_add(t, t->nodes + 1 + t->param_count));
    VV_GO(vvi_engine_fire(t, VV_EVENT_AFTER_BACKWARD));
out:
    vvi_step_forget(t);
    return status;
}

vv_status vvi_step_gradients(vv_trainer *t, bool updates, double *loss)
{
    vv_state *s = &t->state;
    int64_t rows = s->batch->count;
    if (rows < 1)
        return vv_fail(VV_ESTATE, "batch %lld has no rows left; a method took them all",
                       (long long)s->time.batch);
    VV_TRY(vvi_step_prepare(t));
    int64_t size = t->microbatch > 0 && t->microbatch < rows ? t->microbatch : rows;
    double sum = 0.0;
    for (int64_t first = 0; first < rows; first += size) {
        int64_t count = rows - first < size ? rows - first : size;
        double part = 0.0;
        VV_TRY(microbatch(t, first, count, updates, &part));
        sum += part;
    }
    if (loss)
        *loss = sum;
    return VV_OK;
}

vv_status vv_state_gradients(vv_state *state, double *loss)
{
    vv_trainer *t = state->trainer;
    if (!t->in_step)
        return vv_fail(VV_ESTATE, "vv_state_gradients: only at AFTER_TRAIN_BATCH");
    t->in_step = false; /* not from within its own events */
    vv_status status = vvi_step_gradients(t, false, loss);
    if (status == VV_OK)
        status = vvi_engine_fire_before(t, VV_EVENT_AFTER_TRAIN_BATCH, t->firing);
    t->in_step = true;
    return status;
}

/* On the whole gradient, once. One that is not finite is reported, not clipped. */
static vv_status clip(vv_trainer *t)
{
    if (t->grad_clip_norm <= 0.0)
        return VV_OK;
    vv_state *s = &t->state;
    double norm = 0.0;
    vv_status status = vv_clip_grad_norm(s->model->net, t->grad_clip_norm, &norm);
    if (status != VV_OK && status != VV_ENUMERIC)
        return status;
    if (status == VV_ENUMERIC && !t->told_gradient)
        vv_log_message(s, vv_error());
    t->told_gradient = status == VV_ENUMERIC;
    if (isnan(s->grad_norm)) /* else a method has clipped before */
        s->grad_norm = norm;
    return VV_OK;
}

vv_status vvi_train_step(vv_trainer *t)
{
    vv_state *s = &t->state;
    vv_status status = VV_OK;
    s->grad_norm = (double)NAN;
    s->skip_step = false;
    VV_GO(vvi_engine_fire(t, VV_EVENT_BEFORE_TRAIN_BATCH));
    vvi_train_metrics_begin(t);
    VV_GO(vvi_step_gradients(t, true, &s->train_loss));
    t->in_step = true;
    status = vvi_engine_fire(t, VV_EVENT_AFTER_TRAIN_BATCH);
    t->in_step = false;
    if (status != VV_OK)
        goto out;
    if (s->skip_step)
        goto out;
    double began = vvi_profile_begin(t);
    VV_GO(clip(t));
    vvi_profile_end(t, began, "clip", "clip", NULL);
    began = vvi_profile_begin(t);
    VV_GO(vv_optimizer_step(s->optimizer));
    vvi_profile_end(t, began, "optimizer", vv_optimizer_type(s->optimizer)->desc.name, "step");
out:
    vv_graph_reset(t->graph); /* lets go of the batch's tensors */
    return status;
}
