/* input_noise.c - Gaussian noise on the inputs, drawn anew for each batch. */
#include "input_noise.h"

/* ---- the plain function: everything that counts happens here ---- */

vv_status vv_input_noise_add(vv_tensor **noisy, const vv_tensor *input, double std, vv_rng *rng)
{
    if (input->dtype != VV_F32)
        return vv_fail(VV_ETYPE, "input_noise: input is %s; f32 is needed",
                       vv_dtype_name(input->dtype));
    if (*noisy == input)
        return vv_fail(VV_EINVAL, "input_noise: the result needs a tensor of its own");
    VV_TRY(vv_tensor_reuse(noisy, VV_F32, input->ndim, input->shape));
    const float *x = input->data;
    float *y = (*noisy)->data;
    for (int64_t i = 0; i < input->count; i++)
        y[i] = x[i] + (float)(std * vv_rng_normal(rng));
    return VV_OK;
}

/* ---- the Trainer's method: a thin wrapper ---- */

typedef struct noiser {
    vv_tensor *noisy; /* used again once the batch before has let go of it */
} noiser;

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_input_noise_opts *opts = method->opts;
    noiser *self = method->self;
    vv_batch *batch = state->batch;
    (void)event;
    vv_rng rng = vv_state_rng(state, "input_noise");
    VV_TRY(vv_input_noise_add(&self->noisy, batch->input, opts->std, &rng));
    /* The loader's tensor is replaced, never written. */
    vv_tensor_free(batch->input);
    batch->input = vv_tensor_keep(self->noisy);
    method->effect++;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_input_noise_opts *opts = method->opts;
    (void)state;
    vv_str_addf(line, "adds noise of standard deviation %g to each batch", opts->std);
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    noiser *self = method->self;
    vv_tensor_free(self->noisy);
}

static const vv_field fields[] = {
    {"std", "Standard deviation of the noise, in units of the input.", VV_FIELD_FLOAT,
     offsetof(vv_input_noise_opts, std), "0.1", 0, 100, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_input_noise = {
    .desc = {.kind = "method",
             .name = "input_noise",
             .summary = "Adds Gaussian noise to the inputs.",
             .cite = "Bishop, Training with Noise is Equivalent to Tikhonov Regularization (1995)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_input_noise_opts)},
    .phase = VV_PHASE_AUGMENT,
    .events = VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER),
    .self_size = sizeof(noiser),
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_input_noise(double std)
{
    const vv_input_noise_opts opts = {std};
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_input_noise, &opts) == VV_OK ? method : NULL;
}
