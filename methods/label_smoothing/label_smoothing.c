/* label_smoothing.c - label smoothing (Szegedy et al., arXiv 1512.00567, section 7). */
#include "label_smoothing.h"

/* Linear in the target, so that mixing two smoothed targets is smoothing the mixture. */
vv_node *vv_smooth_labels(vv_node *target, int64_t classes, double smoothing)
{
    static const int last[] = {-1};
    if (!target)
        return NULL;
    if (!(smoothing >= 0.0 && smoothing <= 1.0)) {
        (void)vv_fail(VV_EINVAL, "label_smoothing: smoothing %g is outside [0, 1]", smoothing);
        return NULL;
    }
    if (!vv_dtype_is_float(vv_node_dtype(target)))
        target = vv_one_hot(target, classes);
    if (!target || smoothing == 0.0)
        return target;
    vv_node *mass = vv_sum(target, last, 1, true);
    if (!mass)
        return NULL;
    classes = vv_node_shape(target)[vv_node_ndim(target) - 1];
    return vv_add(vv_affine(target, 1.0 - smoothing, 0.0),
                  vv_affine(mass, smoothing / (double)classes, 0.0));
}

/* ---- the Trainer's method ---- */

typedef struct smoother {
    vv_node *target, *mix_target; /* as they were before BEFORE_LOSS */
} smoother;

static vv_status smooth(vv_method *method, vv_state *state)
{
    const vv_label_smoothing_opts *opts = method->opts;
    smoother *self = method->self;
    /* A wrong label is an error in the plain loss; as a soft target it would be a row of zeros. */
    if (state->micro)
        VV_TRY(vv_model_check_target(state->model, state->micro->target));
    self->target = state->target;
    self->mix_target = state->mix_target;
    vv_node *dense = vv_model_dense_target(state->model, state->output, state->target);
    state->target = vv_smooth_labels(dense, state->model->classes, opts->smoothing);
    if (state->mix_target) {
        dense = vv_model_dense_target(state->model, state->output, state->mix_target);
        state->mix_target = vv_smooth_labels(dense, state->model->classes, opts->smoothing);
    }
    method->effect++;
    return vv_graph_status(state->graph);
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const smoother *self = method->self;
    if (event == VV_EVENT_BEFORE_LOSS)
        return smooth(method, state);
    state->target = self->target;
    state->mix_target = self->mix_target;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_label_smoothing_opts *opts = method->opts;
    int64_t classes = state->model->classes;
    if (state->model->task == VV_TASK_DETECT)
        return vv_fail(VV_EINVAL, "the model finds boxes; only targets that are classes can be "
                                  "smoothed");
    vv_str_addf(line,
                "target %.4g for the label's class, %.4g for each other of %lld; training only",
                1.0 - opts->smoothing + opts->smoothing / (double)classes,
                opts->smoothing / (double)classes, (long long)classes);
    return vv_str_status(line);
}

static const vv_field fields[] = {
    {"smoothing", "Probability spread evenly over all classes.", VV_FIELD_FLOAT,
     offsetof(vv_label_smoothing_opts, smoothing), "0.1", 0, 1, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_label_smoothing = {
    .desc = {.kind = "method",
             .name = "label_smoothing",
             .summary = "Moves part of each label's probability to the other classes.",
             .cite = "Szegedy et al., Rethinking the Inception Architecture for Computer Vision "
                     "(arXiv 1512.00567)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_label_smoothing_opts)},
    .phase = VV_PHASE_TARGET,
    .events = VV_EVENT_BIT(VV_EVENT_BEFORE_LOSS) | VV_EVENT_BIT(VV_EVENT_AFTER_LOSS),
    .self_size = sizeof(smoother),
    .apply = apply,
    .plan = plan,
};

vv_method *vv_label_smoothing(double smoothing)
{
    const vv_label_smoothing_opts opts = {smoothing};
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_label_smoothing, &opts) == VV_OK ? method : NULL;
}
