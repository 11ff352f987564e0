/* sam.c - Sharpness-Aware Minimisation (Foret et al., arXiv 2010.01412). */
#include "sam.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

typedef struct backup {
    vv_param *param;
    vv_tensor *value; /* as it was */
} backup;

struct vv_sam_step {
    backup *items;
    int count, capacity;
    vv_status status;
};

static vv_status keep(vv_sam_step *step, vv_param *param)
{
    if (step->count == step->capacity) {
        const int capacity = step->capacity ? 2 * step->capacity : 32;
        VV_TRY(vv_realloc_array(&step->items, (size_t)capacity, sizeof *step->items));
        step->capacity = capacity;
    }
    backup *b = &step->items[step->count];
    VV_TRY(vv_tensor_clone(&b->value, param->value));
    b->param = vv_param_keep(param);
    step->count++;
    return VV_OK;
}

static bool keep_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    vv_sam_step *step = ctx;
    (void)path;
    (void)owner;
    if (!param->frozen && param->grad)
        step->status = keep(step, param);
    return step->status == VV_OK;
}

static void move(const vv_param *param, float scale)
{
    float *w = param->value->data;
    const float *g = param->grad->data;
    for (int64_t i = 0; i < param->value->count; i++)
        w[i] += scale * g[i];
}

/* All memory first, so that a failure finds the weights unmoved. */
vv_status vv_sam_perturb(vv_sam_step **out, vv_module *net, double rho, double epsilon)
{
    vv_sam_step *step = NULL;
    double norm;
    *out = NULL;
    VV_TRY(vv_grads_norm(net, &norm));
    if (rho == 0.0 || norm == 0.0 || !isfinite(norm))
        return VV_OK;
    VV_TRY(vv_alloc(&step, sizeof *step));
    vv_module_each_param(net, keep_param, step);
    if (step->status != VV_OK) {
        const vv_status status = step->status;
        vv_sam_restore(step);
        return status;
    }
    for (int i = 0; i < step->count; i++)
        move(step->items[i].param, (float)(rho / (norm + epsilon)));
    *out = step;
    return VV_OK;
}

void vv_sam_restore(vv_sam_step *step)
{
    if (!step)
        return;
    for (int i = 0; i < step->count; i++) {
        const backup *b = &step->items[i];
        memcpy(b->param->value->data, b->value->data, b->value->bytes);
        vv_tensor_free(b->value);
        vv_param_free(b->param);
    }
    vv_dealloc(step->items);
    vv_dealloc(step);
}

/* ---- the Trainer's method ---- */

/* Whether the gradients can be used; else this step is left out, and the user hears of it. */
static vv_status usable(vv_state *state, const char *which, bool *ok)
{
    double norm;
    VV_TRY(vv_grads_norm(state->model->net, &norm));
    *ok = isfinite(norm);
    if (*ok)
        return VV_OK;
    vv_str text = {0};
    vv_str_addf(&text, "sam: the %s gradient of batch %lld is not finite; the step is left out",
                which, (long long)state->time.batch);
    vv_log_message(state, vv_str_text(&text));
    vv_str_fini(&text);
    state->skip_step = true;
    return VV_OK;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_sam_opts *opts = method->opts;
    vv_sam_step *step;
    bool ok;
    (void)event;
    /* The count of steps is the clock's, which every checkpoint has. */
    if (opts->rho == 0.0 || (state->time.batch + 1) % opts->interval != 0)
        return VV_OK;
    VV_TRY(usable(state, "first", &ok));
    if (!ok)
        return VV_OK;
    VV_TRY(vv_sam_perturb(&step, state->model->net, opts->rho, opts->epsilon));
    if (!step)
        return VV_OK;
    const vv_status status = vv_state_gradients(state, NULL);
    vv_sam_restore(step);
    VV_TRY(status);
    method->effect++;
    return usable(state, "second", &ok);
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_sam_opts *opts = method->opts;
    (void)state;
    if (opts->rho == 0.0)
        vv_str_add(line, "rho is 0: ordinary steps");
    else
        vv_str_addf(line,
                    "every %lld%s step takes its gradient %g up the slope, at the price of a "
                    "second pass",
                    (long long)opts->interval, opts->interval == 1 ? "st" : "th", opts->rho);
    return vv_str_status(line);
}

static const vv_field fields[] = {
    {"rho", "How far up the slope the gradient is taken (L2 norm over all weights); 0 = off.",
     VV_FIELD_FLOAT, offsetof(vv_sam_opts, rho), "0.05", 0, 1e6, NULL},
    {"epsilon", "Added to the gradient's norm.", VV_FIELD_FLOAT, offsetof(vv_sam_opts, epsilon),
     "1e-12", 0, 1, NULL},
    {"interval", "Every interval-th step is taken so; the others are ordinary.", VV_FIELD_INT,
     offsetof(vv_sam_opts, interval), "1", 1, 1e9, NULL},
    {.name = NULL},
};
static const char *const after[] = {"gradient_clipping", NULL};

const vv_method_desc vv_method_sam = {
    .desc = {.kind = "method",
             .name = "sam",
             .summary = "Takes the gradient where the loss in the neighbourhood is worst.",
             .cite = "Foret et al., Sharpness-Aware Minimization for Efficiently Improving "
                     "Generalization (arXiv 2010.01412)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_sam_opts)},
    .phase = VV_PHASE_GRADIENT,
    .after = after,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_TRAIN_BATCH),
    .apply = apply,
    .plan = plan,
};

vv_method *vv_sam(double rho, int64_t interval)
{
    vv_sam_opts opts = VV_SAM_DEFAULTS;
    vv_method *method = NULL;
    opts.rho = rho;
    opts.interval = interval;
    return vv_method_new(&method, &vv_method_sam, &opts) == VV_OK ? method : NULL;
}
