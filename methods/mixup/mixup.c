/* mixup.c - MixUp (Zhang et al., arXiv 1710.09412), drawn once per batch. */
#include "mixup.h"

#include <string.h>

#include <vivace/memory.h>

void vv_mixup_draw(vv_rng *rng, double alpha, int64_t rows, int64_t *partner, double *weight)
{
    double lambda = alpha > 0.0 ? vv_rng_beta(rng, alpha, alpha) : 0.0;
    *weight = lambda < 0.5 ? lambda : 1.0 - lambda; /* the first sample dominates */
    vv_rng_permutation(rng, partner, rows);
}

static vv_status check(const vv_tensor *input, const vv_tensor *target, const int64_t *partner,
                       double weight)
{
    if (input->dtype != VV_F32 || input->ndim < 1)
        return vv_fail(VV_ETYPE, "mixup: input is %s with %d axes; f32 [N,...] is needed",
                       vv_dtype_name(input->dtype), input->ndim);
    if (target->ndim < 1 || target->shape[0] != input->shape[0])
        return vv_fail(VV_ESHAPE, "mixup: %lld samples have %lld targets",
                       (long long)input->shape[0],
                       (long long)(target->ndim ? target->shape[0] : 1));
    if (!(weight >= 0.0 && weight <= 1.0))
        return vv_fail(VV_EINVAL, "mixup: weight %g is outside [0, 1]", weight);
    for (int64_t i = 0; i < input->shape[0]; i++)
        if (partner[i] < 0 || partner[i] >= input->shape[0])
            return vv_fail(VV_EINVAL,
                           "mixup: partner %lld of sample %lld is not in the batch of %lld",
                           (long long)partner[i], (long long)i, (long long)input->shape[0]);
    return VV_OK;
}

static void mix_row(float *restrict out, const float *a, const float *b, int64_t count,
                    float weight)
{
    const float rest = 1.0f - weight;
    for (int64_t i = 0; i < count; i++)
        out[i] = rest * a[i] + weight * b[i];
}

vv_status vv_mixup_batch(vv_tensor **mixed, vv_tensor **mix_target, const vv_tensor *input,
                         const vv_tensor *target, const int64_t *partner, double weight)
{
    VV_TRY(check(input, target, partner, weight));
    if (*mixed == input || *mix_target == target) /* partners must be unmixed */
        return vv_fail(VV_EINVAL, "mixup: the results need tensors of their own");
    VV_TRY(vv_tensor_reuse(mixed, VV_F32, input->ndim, input->shape));
    VV_TRY(vv_tensor_reuse(mix_target, target->dtype, target->ndim, target->shape));
    const int64_t rows = input->shape[0], count = rows ? input->count / rows : 0;
    const size_t bytes = rows ? target->bytes / (size_t)rows : 0;
    const float *x = input->data;
    for (int64_t i = 0; i < rows; i++) {
        mix_row((float *)(*mixed)->data + i * count, x + i * count, x + partner[i] * count, count,
                (float)weight);
        memcpy((char *)(*mix_target)->data + (size_t)i * bytes,
               (const char *)target->data + (size_t)partner[i] * bytes, bytes);
    }
    return VV_OK;
}

/* ---- the Trainer's method ---- */

typedef struct mixer { /* buffers, used again once the batch before has let go of them */
    vv_tensor *mixed, *target, *weight;
    int64_t *partner;
} mixer;

static vv_status mix(vv_method *method, vv_state *state)
{
    const vv_mixup_opts *opts = method->opts;
    mixer *self = method->self;
    vv_batch *batch = state->batch;
    double weight;
    if (batch->mix_target)
        return vv_fail(VV_ESTATE, "the batch is mixed already; keep only one method that mixes");
    vv_rng rng = vv_state_rng(state, "mixup");
    VV_TRY(vv_realloc_array(&self->partner, (size_t)batch->count + 1, sizeof *self->partner));
    vv_mixup_draw(&rng, opts->alpha, batch->count, self->partner, &weight);
    if (!(weight > 0.0))
        return VV_OK;
    VV_TRY(vv_mixup_batch(&self->mixed, &self->target, batch->input, batch->target, self->partner,
                          weight));
    VV_TRY(vv_tensor_reuse(&self->weight, VV_F32, 1, &batch->count));
    vv_tensor_fill(self->weight, weight);
    vv_tensor_free(batch->input);
    batch->input = vv_tensor_keep(self->mixed);
    batch->mix_target = vv_tensor_keep(self->target);
    batch->mix_weight = vv_tensor_keep(self->weight);
    method->effect++;
    return VV_OK;
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_mixup_opts *opts = method->opts;
    if (event == VV_EVENT_AFTER_DATALOADER)
        return mix(method, state);
    return opts->interpolate_loss || !state->mix_target ? VV_OK : vv_state_fold_mix(state);
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_mixup_opts *opts = method->opts;
    if (state->model->task == VV_TASK_DETECT)
        return vv_fail(VV_EINVAL, "the model finds boxes, and boxes cannot be mixed by weight");
    if (opts->alpha > 0.0)
        vv_str_addf(line,
                    "mixes each batch with a permutation of itself, weight from Beta(%g, %g), "
                    "and its %s",
                    opts->alpha, opts->alpha, opts->interpolate_loss ? "losses" : "targets");
    else
        vv_str_add(line, "alpha is 0: mixes nothing");
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    mixer *self = method->self;
    vv_tensor_free(self->mixed);
    vv_tensor_free(self->target);
    vv_tensor_free(self->weight);
    vv_dealloc(self->partner);
}

static const vv_field fields[] = {
    {"alpha", "Weights are drawn from Beta(alpha, alpha); larger mixes more, 0 mixes nothing.",
     VV_FIELD_FLOAT, offsetof(vv_mixup_opts, alpha), "0.2", 0, 100, NULL},
    {"interpolate_loss", "Mix the losses of both targets instead of the targets; the same numbers "
                         "for cross-entropy.",
     VV_FIELD_BOOL, offsetof(vv_mixup_opts, interpolate_loss), "false", 0, 0, NULL},
    {.name = NULL},
};
static const vv_conflict conflicts[] = {
    {"cutmix", "both mix the batch, and the second would mix mixtures"},
    {NULL, NULL},
};

const vv_method_desc vv_method_mixup = {
    .desc = {.kind = "method",
             .name = "mixup",
             .summary = "Trains on weighted averages of pairs of samples and of their targets.",
             .cite = "Zhang et al., mixup: Beyond Empirical Risk Minimization (arXiv 1710.09412)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_mixup_opts)},
    .phase = VV_PHASE_MIX,
    .conflicts = conflicts,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER) | VV_EVENT_BIT(VV_EVENT_BEFORE_LOSS),
    .self_size = sizeof(mixer),
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_mixup(double alpha)
{
    vv_mixup_opts opts = VV_MIXUP_DEFAULTS;
    vv_method *method = NULL;
    opts.alpha = alpha;
    return vv_method_new(&method, &vv_method_mixup, &opts) == VV_OK ? method : NULL;
}
