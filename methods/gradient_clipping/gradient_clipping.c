/* gradient_clipping.c - bounds each step's gradient by norm (Pascanu et al., arXiv 1211.5063), by
 * value, or unit by unit (Brock et al., arXiv 2102.06171, section 4.1). */
#include "gradient_clipping.h"

vv_status vv_apply_gradient_clipping(vv_module *net, const vv_gradient_clipping_opts *opts,
                                     double *norm)
{
    static const vv_gradient_clipping_opts defaults = VV_GRADIENT_CLIPPING_DEFAULTS;
    if (!opts)
        opts = &defaults;
    switch (opts->clipping_type) {
    case VV_CLIPPING_NORM:
        return vv_clip_grad_norm(net, opts->clipping_threshold, norm);
    case VV_CLIPPING_VALUE:
        return vv_clip_grad_value(net, opts->clipping_threshold, norm);
    default: {
        const vv_clip_adaptive_opts agc = {opts->clipping_threshold, opts->eps, opts->exempt_last};
        return vv_clip_grad_adaptive(net, &agc, norm);
    }
    }
}

/* ---- the Trainer's method ---- */

typedef struct clipper {
    bool told; /* of a gradient that is not finite, since the last finite one */
} clipper;

/* The gradient is whole here, and the step has not been taken. One that is not finite is reported,
   not clipped: what to do about it is for whoever watches for NaN. */
static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    clipper *self = method->self;
    double norm = 0.0;
    (void)event;
    vv_status status = vv_apply_gradient_clipping(state->model->net, method->opts, &norm);
    if (status != VV_OK && status != VV_ENUMERIC)
        return status;
    state->grad_norm = norm;
    if (status == VV_ENUMERIC && !self->told) {
        vv_str text = {0};
        vv_str_addf(&text, "gradient_clipping: batch %lld: %s", (long long)state->time.batch,
                    vv_error());
        vv_log_message(state, vv_str_text(&text));
        vv_str_fini(&text);
    }
    self->told = status == VV_ENUMERIC;
    method->effect++;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_gradient_clipping_opts *opts = method->opts;
    (void)state;
    if (opts->clipping_type == VV_CLIPPING_NORM)
        vv_str_addf(line, "global norm of the gradient at most %g", opts->clipping_threshold);
    else if (opts->clipping_type == VV_CLIPPING_VALUE)
        vv_str_addf(line, "each element of the gradient within %g", opts->clipping_threshold);
    else
        vv_str_addf(line, "each unit's gradient at most %g x max(norm of its weights, %g)%s",
                    opts->clipping_threshold, opts->eps,
                    opts->exempt_last ? "; the last layer is exempt" : "");
    vv_str_add(line, "; once a step, on the whole gradient");
    return vv_str_status(line);
}

static vv_status check(const void *settings)
{
    const vv_gradient_clipping_opts *opts = settings;
    if (opts->clipping_threshold > 0.0)
        return VV_OK;
    return vv_fail(VV_EINVAL, "clipping_threshold: %g; must be above 0", opts->clipping_threshold);
}

static const char *const types[] = {"norm", "value", "adaptive", NULL};
static const vv_field fields[] = {
    {"clipping_type", "What is bounded: the global norm, each value, or each unit's norm.",
     VV_FIELD_CHOICE, offsetof(vv_gradient_clipping_opts, clipping_type), "norm", 0, 0, types},
    {"clipping_threshold", "The bound; adaptive: in units of the weights' norm.", VV_FIELD_FLOAT,
     offsetof(vv_gradient_clipping_opts, clipping_threshold), "1", 0, 1e9, NULL},
    {"eps", "Adaptive: smallest norm of a unit's weights that counts.", VV_FIELD_FLOAT,
     offsetof(vv_gradient_clipping_opts, eps), "0.001", 0, 1e9, NULL},
    {"exempt_last", "Adaptive: leaves the last layer alone, as the paper does.", VV_FIELD_BOOL,
     offsetof(vv_gradient_clipping_opts, exempt_last), "false", 0, 0, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_gradient_clipping = {
    .desc = {.kind = "method",
             .name = "gradient_clipping",
             .summary = "Bounds the gradient of each step, by norm, by value or unit by unit.",
             .cite = "Pascanu et al., On the difficulty of training recurrent neural networks "
                     "(arXiv 1211.5063); Brock et al., High-Performance Large-Scale Image "
                     "Recognition Without Normalization (arXiv 2102.06171)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_gradient_clipping_opts)},
    .phase = VV_PHASE_GRADIENT,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_TRAIN_BATCH),
    .self_size = sizeof(clipper),
    .check = check,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_gradient_clipping(vv_clipping_type type, double threshold)
{
    vv_gradient_clipping_opts opts = VV_GRADIENT_CLIPPING_DEFAULTS;
    vv_method *method = NULL;
    opts.clipping_type = (int)type;
    opts.clipping_threshold = threshold;
    return vv_method_new(&method, &vv_method_gradient_clipping, &opts) == VV_OK ? method : NULL;
}
