/* gyro_dropout.c - Gyro Dropout (Lee et al., MLSys 2022): layer, surgery, method.
 *
 * Mask number i of a layer, and the choice of tau masks for a period, are functions of (seed,
 * layer, i or period): nothing need be saved, and a resumed run uses the same. */
#include "gyro_dropout.h"

#include <vivace/memory.h>

/* ---- which mask ---- */

int64_t vv_gyro_dropout_period(int64_t total_steps, const vv_gyro_dropout_opts *opts)
{
    const int64_t each = total_steps / opts->sigma;
    return (each > 1 ? each : 1) * opts->tau;
}

int64_t vv_gyro_dropout_group(int64_t row, int64_t batch_rows, int64_t tau)
{
    const int64_t size = batch_rows / tau > 1 ? batch_rows / tau : 1;
    return row / size < tau ? row / size : tau - 1;
}

/* ---- the layer ---- */

typedef struct gyro {
    vv_gyro_dropout_opts opts;
    uint64_t seed;
    uint32_t layer; /* its number: layers draw apart from each other */
    int64_t period;
    int64_t step, first_row, batch_rows;
    vv_tensor *masks; /* [tau,C], 0 or 1 / (1 - p), of period `chosen` */
    int64_t chosen;
} gyro;

static void gyro_fini(vv_module *module)
{
    gyro *self = vv_module_self(module);
    vv_tensor_free(self->masks);
}

static void draw_mask(const gyro *self, int64_t number, float *out, int64_t count)
{
    const float kept = self->opts.p < 1.0 ? (float)(1.0 / (1.0 - self->opts.p)) : 0.0f;
    vv_rng rng = vv_rng_at2(self->seed, "gyro_dropout/mask", (uint64_t)number, self->layer);
    for (int64_t i = 0; i < count; i++)
        out[i] = vv_rng_uniform(&rng) >= self->opts.p ? kept : 0.0f;
}

/* The masks of the current period, for C features. */
static vv_status choose(gyro *self, int64_t features)
{
    const int64_t period = self->step / self->period;
    if (self->masks && self->chosen == period && self->masks->shape[1] == features)
        return VV_OK;
    const int64_t shape[2] = {self->opts.tau, features};
    VV_TRY(vv_tensor_reuse(&self->masks, VV_F32, 2, shape));
    vv_rng rng = vv_rng_at2(self->seed, "gyro_dropout/choice", (uint64_t)period, self->layer);
    for (int64_t t = 0; t < self->opts.tau; t++)
        draw_mask(self, vv_rng_below(&rng, self->opts.sigma),
                  (float *)self->masks->data + t * features, features);
    self->chosen = period;
    return VV_OK;
}

/* Index of the mask of each row, i32 [rows]. */
static vv_node *groups(const gyro *self, vv_graph *graph, int64_t rows)
{
    int32_t *index = NULL;
    const int64_t batch = self->batch_rows > 0 ? self->batch_rows : rows;
    vv_status status = vv_alloc_array(&index, (size_t)rows + 1, sizeof *index);
    if (status != VV_OK)
        return vv_graph_fail(graph, status);
    for (int64_t i = 0; i < rows; i++)
        index[i] = (int32_t)vv_gyro_dropout_group(self->first_row + i, batch, self->opts.tau);
    vv_node *node = vv_data(graph, VV_I32, 1, &rows, index);
    vv_dealloc(index);
    return node;
}

static vv_node *forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    gyro *self = vv_module_self(module);
    if (!x || !vv_module_training(module) || !(self->opts.p > 0.0))
        return x;
    const int ndim = vv_node_ndim(x);
    if (ndim < 2)
        return vv_graph_fail(graph, vv_fail(VV_ESHAPE, "GyroDropout: needs [N,...,C], x has %d "
                                                       "axes", ndim));
    const int64_t rows = vv_node_shape(x)[0], features = vv_node_shape(x)[ndim - 1];
    const vv_status status = choose(self, features);
    if (status != VV_OK)
        return vv_graph_fail(graph, status);
    int64_t shape[VV_MAX_DIMS];
    for (int i = 0; i < ndim; i++)
        shape[i] = i == 0 ? rows : i == ndim - 1 ? features : 1;
    vv_node *mask = vv_gather(vv_leaf(graph, self->masks), groups(self, graph, rows), 0);
    return vv_mul(x, vv_cast(vv_reshape(mask, ndim, shape), vv_node_dtype(x)));
}

const vv_module_class vv_gyro_dropout_class = {"GyroDropout", forward, gyro_fini};

/* ---- surgery ---- */

typedef struct surgeon {
    const vv_gyro_dropout_opts *opts;
    uint64_t seed;
    int64_t period;
} surgeon;

static vv_status replace(void *ctx, vv_module *layer, int index, vv_module **out)
{
    const surgeon *s = ctx;
    (void)layer;
    VV_TRY(vv_module_new(out, &vv_gyro_dropout_class, sizeof(gyro)));
    *(gyro *)vv_module_self(*out) = (gyro){
        .opts = *s->opts, .seed = s->seed, .layer = (uint32_t)index, .period = s->period};
    return VV_OK;
}

static vv_status check(const void *opts)
{
    const vv_gyro_dropout_opts *o = opts;
    if (!(o->p >= 0.0 && o->p <= 1.0) || o->sigma < 1 || o->tau < 1 || o->tau > INT32_MAX)
        return vv_fail(VV_EINVAL, "p %g must be within 0..1, sigma %lld and tau %lld at least 1",
                       o->p, (long long)o->sigma, (long long)o->tau);
    return VV_OK;
}

static const vv_gyro_dropout_opts defaults = VV_GYRO_DROPOUT_DEFAULTS;

vv_status vv_apply_gyro_dropout(vv_module *net, const vv_gyro_dropout_opts *opts, uint64_t seed,
                                int64_t total_steps, int *count)
{
    surgeon s = {.opts = opts ? opts : &defaults, .seed = seed};
    const vv_policy policy = {&vv_dropout_class, replace, &s, NULL};
    if (count)
        *count = 0;
    if (!net || total_steps < 0)
        return vv_fail(VV_EINVAL, "gyro_dropout: %s",
                       net ? "total_steps must not be negative" : "no net");
    VV_TRY(vv_fail_within(check(s.opts), "gyro_dropout"));
    s.period = vv_gyro_dropout_period(total_steps, s.opts);
    return vv_module_replace(net, &policy, 1, NULL, count);
}

static bool set_step(void *ctx, const char *path, vv_module *module)
{
    const int64_t *at = ctx;
    (void)path;
    if (vv_module_type(module) != &vv_gyro_dropout_class)
        return true;
    gyro *self = vv_module_self(module);
    self->step = at[0];
    self->first_row = at[1];
    self->batch_rows = at[2];
    return true;
}

void vv_gyro_dropout_set_step(vv_module *net, int64_t step, int64_t first_row, int64_t batch_rows)
{
    int64_t at[3] = {step, first_row, batch_rows};
    vv_module_each(net, set_step, at);
}

/* ---- the Trainer's method ---- */

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    vv_module *net = state->model->net;
    int count;
    if (event == VV_EVENT_BEFORE_FORWARD) {
        vv_gyro_dropout_set_step(net, state->time.batch, state->micro_first, state->batch->count);
        return VV_OK;
    }
    const int64_t steps = state->axis.total_batches > 0 ? state->axis.total_batches : 0;
    VV_TRY(vv_apply_gyro_dropout(net, method->opts, state->seed, steps, &count));
    method->effect += count;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_gyro_dropout_opts *o = method->opts;
    const int count = vv_module_count(state->model->net, &vv_dropout_class);
    vv_str_addf(line, "%d dropout%s %lld of %lld masks at a time", count,
                count == 1 ? " uses" : "s use", (long long)o->tau, (long long)o->sigma);
    if (state->axis.total_batches > 0)
        vv_str_addf(line, ", others every %lld batches",
                    (long long)vv_gyro_dropout_period(state->axis.total_batches, o));
    return vv_str_status(line);
}

#define AT(member) offsetof(vv_gyro_dropout_opts, member)
static const vv_field fields[] = {
    {"p", "Probability that a feature is dropped; the layers' own is not looked at.",
     VV_FIELD_FLOAT, AT(p), "0.5", 0, 1, NULL},
    {"sigma", "Masks chosen for the whole training.", VV_FIELD_INT, AT(sigma), "256", 1, 1e9, NULL},
    {"tau", "Masks in use at a time.", VV_FIELD_INT, AT(tau), "16", 1, 1e6, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_gyro_dropout = {
    .desc = {.kind = "method",
             .name = "gyro_dropout",
             .summary = "Dropout with a few masks that are used again and again.",
             .cite = "Lee et al., Gyro Dropout: Maximizing Ensemble Effect in Neural Network "
                     "Training (MLSys 2022)",
             .domains = "any",
             .fields = fields,
             .opts_size = sizeof(vv_gyro_dropout_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_BEFORE_FORWARD),
    .required_on_load = true,
    .check = check,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_gyro_dropout(const vv_gyro_dropout_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_gyro_dropout, opts) == VV_OK ? method : NULL;
}
