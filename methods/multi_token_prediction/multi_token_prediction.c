/* multi_token_prediction.c - each place also predicts tokens further ahead, from the same logits
 * (modded-nanogpt, records 49 and on; Gloeckle et al., arXiv 2404.19737): more signal per token
 * early in training, and nothing of it at the end. */
#include "multi_token_prediction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

vv_status vv_ahead_weights(double weights[VV_TOKENS_AHEAD], int *count, const char *text)
{
    const char *at = text ? text : "";
    *count = 0;
    at += strspn(at, " [");
    while (*at && *at != ']') {
        char *end;
        const double weight = strtod(at, &end);
        if (end == at || !(weight >= 0.0 && weight <= 1e3) || *count == VV_TOKENS_AHEAD)
            return vv_fail(VV_EINVAL, "weights: \"%s\"; give up to %d numbers, such as 0.5,0.25",
                           text, VV_TOKENS_AHEAD);
        weights[(*count)++] = weight;
        at = end + strspn(end, " ,");
    }
    return *count ? VV_OK : vv_fail(VV_EINVAL, "weights: none; give numbers such as 0.5,0.25");
}

double vv_ahead_weight(double weight, int i, int count, double end, double progress)
{
    const double until = end * (double)(count - i) / (double)count;
    return progress < until ? weight * (1.0 - progress / until) : 0.0;
}

vv_node *vv_targets_ahead(vv_node *target, int64_t ahead, int64_t ignore)
{
    if (!target)
        return NULL;
    vv_graph *graph = vv_node_graph(target);
    if (vv_node_ndim(target) != 2 || vv_node_dtype(target) != VV_I32 || ahead < 1)
        return vv_graph_fail(graph,
                             vv_fail(VV_ESHAPE, "multi_token_prediction: needs class indices "
                                                "[N,T] and at least one place ahead"));
    const int64_t t = vv_node_shape(target)[1], gone = ahead < t ? ahead : t;
    const int64_t shape[2] = {vv_node_shape(target)[0], gone};
    vv_node *parts[2] = {NULL, vv_full(graph, VV_I32, 2, shape, (double)ignore)};
    if (gone == t)
        return parts[1];
    parts[0] = vv_slice(target, 1, gone, t, 1);
    return vv_concat(parts, 2, 1);
}

/* ---- the Trainer's method ---- */

static vv_status add_losses(vv_method *method, vv_state *state)
{
    const vv_multi_token_prediction_opts *o = method->opts;
    double weights[VV_TOKENS_AHEAD];
    int count;
    vv_tensor *indices = state->micro->target; /* also where `target` has been smoothed */
    if (state->micro->mix_target || indices->dtype != VV_I32 || indices->ndim != 2)
        return vv_fail(VV_EINVAL, "multi_token_prediction: targets must be class indices [N,T], "
                                  "neither mixed nor soft");
    vv_node *target = vv_leaf(state->graph, indices);
    VV_TRY(vv_ahead_weights(weights, &count, o->weights));
    for (int i = 0; i < count; i++) {
        const double weight = vv_ahead_weight(weights[i], i, count, o->end, state->progress);
        if (!(weight > 0.0))
            continue;
        vv_node *ahead = vv_targets_ahead(target, i + 1, state->model->ignore_index);
        vv_node *loss = vv_model_loss(state->model, state->output, ahead);
        /* The weight is a leaf's value, so that the plan stays the same while it falls. */
        loss = vv_mul(loss, vv_cast(vv_scalar(state->graph, weight), vv_node_dtype(loss)));
        state->loss_items = vv_add(state->loss_items, loss);
        if (state->micro_first == 0) {
            char name[64];
            snprintf(name, sizeof name, "multi_token_prediction/weight_%d", i + 2);
            vv_log_metric(state, name, weight);
        }
        method->effect++;
    }
    return vv_graph_status(state->graph);
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    (void)event;
    return add_losses(method, state);
}

static vv_status check(const void *opts)
{
    const vv_multi_token_prediction_opts *o = opts;
    double weights[VV_TOKENS_AHEAD];
    int count;
    return vv_ahead_weights(weights, &count, o->weights);
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_multi_token_prediction_opts *o = method->opts;
    const vv_sample_spec *data = &state->input_spec;
    double weights[VV_TOKENS_AHEAD];
    int count;
    if (!state->train_loader) {
        vv_str_add(line, "nothing to train");
        return vv_str_status(line);
    }
    if (data->target_dtype != VV_I32 || data->target_ndim != 1)
        return vv_fail(VV_EINVAL, "needs a target for each token, i32 [T]; these samples' targets "
                                  "are %s with %d axes",
                       vv_dtype_name(data->target_dtype), data->target_ndim);
    VV_TRY(vv_ahead_weights(weights, &count, o->weights));
    vv_str_addf(line, "up to %d token%s further ahead in the loss, weights", count,
                count == 1 ? "" : "s");
    for (int i = 0; i < count; i++)
        vv_str_addf(line, "%s %g", i ? "," : "", weights[i]);
    vv_str_addf(line, ", falling to 0 at %g%% of training", 100.0 * o->end);
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_multi_token_prediction_opts, member)
static const vv_field fields[] = {
    {"weights", "Weights of the 2nd, 3rd, ... next token's loss at the start.", VV_FIELD_STRING,
     AT(weights), "0.5,0.25", 0, 0, NULL},
    {"end", "Share of the run after which only the next token counts.", VV_FIELD_FLOAT, AT(end),
     "0.6667", 0, 1, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_multi_token_prediction = {
    .desc = {.kind = "method",
             .name = "multi_token_prediction",
             .summary = "Each place also predicts tokens further ahead, less and less.",
             .cite = "Gloeckle et al. (arXiv 2404.19737); Jordan et al., modded-nanogpt (2024)",
             .domains = "nlp",
             .fields = fields,
             .opts_size = sizeof(vv_multi_token_prediction_opts)},
    .phase = VV_PHASE_TARGET,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_LOSS),
    .check = check,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_multi_token_prediction(const vv_multi_token_prediction_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_multi_token_prediction, opts) == VV_OK ? method : NULL;
}
