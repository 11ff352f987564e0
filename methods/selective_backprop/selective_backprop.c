/* selective_backprop.c - trains on the samples of a batch whose loss is high (Jiang et al., arXiv
 * 1910.00762). */
#include "selective_backprop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "selective_proxy.h"

bool vv_should_selective_backprop(double progress, int64_t batch_in_epoch, double start, double end,
                                  int64_t interrupt)
{
    return progress >= start && progress < end &&
           (interrupt == 0 || (batch_in_epoch + 1) % interrupt != 0);
}

int64_t vv_selective_count(int64_t count, double keep)
{
    const int64_t kept = (int64_t)(keep * (double)count);
    return kept > 1 || count < 1 ? kept : 1;
}

/* ---- choosing ---- */

typedef struct ranked {
    double key; /* higher = sooner kept */
    int64_t index;
} ranked;

static int by_key(const void *left, const void *right)
{
    const ranked *a = left, *b = right;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int by_index(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* Drawing one after the other with probabilities w is taking the largest log(u) / w (Efraimidis &
   Spirakis, Inf. Process. Lett. 97, 2006). */
static void draw_keys(ranked *items, int64_t count, double keep, vv_rng *rng)
{
    for (int64_t i = 0; i < count; i++) { /* items fall: the first has the highest loss */
        const double p = ((double)(count - 1 - i) + 0.5) / (double)count;
        const double u = 1.0 - vv_rng_uniform(rng); /* (0, 1] */
        items[i].key = log(u) / pow(p, 1.0 / keep - 1.0);
    }
}

vv_status vv_select_using_loss(int64_t *kept, const float *losses, int64_t count, double keep,
                               vv_rng *rng)
{
    if (count < 1 || !(keep > 0.0 && keep <= 1.0))
        return vv_fail(VV_EINVAL,
                       "selective backprop: keep %g of %lld samples; keep lies in (0, 1]", keep,
                       (long long)count);
    const int64_t n = vv_selective_count(count, keep);
    ranked *items;
    VV_TRY(vv_alloc_array(&items, (size_t)count, sizeof *items));
    for (int64_t i = 0; i < count; i++)
        items[i] =
            (ranked){isnan(losses[i]) ? (double)INFINITY : (double)losses[i], i};
    qsort(items, (size_t)count, sizeof *items, by_key);
    if (rng) {
        draw_keys(items, count, keep, rng);
        qsort(items, (size_t)count, sizeof *items, by_key);
    }
    for (int64_t i = 0; i < n; i++)
        kept[i] = items[i].index;
    qsort(kept, (size_t)n, sizeof *kept, by_index);
    vv_dealloc(items);
    return VV_OK;
}

/* ---- losses ---- */

vv_status vvi_selective_read(float *losses, vv_graph *graph, vv_model *model, vv_node *input,
                             vv_tensor *target)
{
    vv_node *items = vv_model_loss(model, vv_module_forward(model->net, graph, input),
                                   vv_leaf(graph, target));
    VV_TRY(vv_graph_status(graph));
    int axes[VV_MAX_DIMS];
    const int ndim = vv_node_ndim(items);
    for (int i = 1; i < ndim; i++)
        axes[i - 1] = i;
    if (ndim > 1)
        items = vv_mean(items, axes, ndim - 1, false);
    const vv_tensor *value;
    VV_TRY(vv_graph_status(graph));
    VV_TRY(vv_node_value(items, &value));
    for (int64_t i = 0; i < value->count; i++)
        losses[i] = (float)vv_tensor_get(value, i);
    return VV_OK;
}

static vv_node *smaller(vv_node *x, double factor)
{
    if (!x || factor == 1.0)
        return x;
    const int64_t *shape = vv_node_shape(x);
    const int64_t height = (int64_t)(factor * (double)shape[1]);
    const int64_t width = (int64_t)(factor * (double)shape[2]);
    return vv_resize(x, height > 1 ? height : 1, width > 1 ? width : 1, VV_RESIZE_BILINEAR);
}

static vv_status check_images(const vv_tensor *input, double scale_factor)
{
    if (!(scale_factor > 0.0 && scale_factor <= 1.0))
        return vv_fail(VV_EINVAL, "scale_factor %g is outside (0, 1]", scale_factor);
    if (scale_factor != 1.0 && (input->ndim != 4 || !vv_dtype_is_float(input->dtype)))
        return vv_fail(VV_ESHAPE, "scale_factor %g needs images [N,H,W,C], the input has %d axes",
                       scale_factor, input->ndim);
    return VV_OK;
}

vv_status vv_selective_losses(float *losses, vv_graph *graph, vv_model *model, vv_tensor *input,
                              vv_tensor *target, double scale_factor, int64_t rows)
{
    VV_TRY(check_images(input, scale_factor));
    const int64_t count = input->shape[0], size = rows > 0 && rows < count ? rows : count;
    const bool training = vv_module_training(model->net);
    vv_status status = VV_OK;
    vv_module_set_training(model->net, false);
    for (int64_t first = 0; first < count && status == VV_OK; first += size) {
        const int64_t part = count - first < size ? count - first : size;
        vv_tensor *x = NULL, *y = NULL;
        status = vv_tensor_rows(&x, input, first, part);
        if (status == VV_OK)
            status = vv_tensor_rows(&y, target, first, part);
        vv_graph_reset(graph);
        vv_graph_set_updates(graph, false);
        if (status == VV_OK)
            status = vvi_selective_read(losses + first, graph, model,
                                        smaller(vv_leaf(graph, x), scale_factor), y);
        vv_graph_reset(graph);
        vv_tensor_free(x);
        vv_tensor_free(y);
    }
    vv_module_set_training(model->net, training);
    return status;
}

/* ---- the batch ---- */

static vv_status pick(vv_tensor **out, const vv_tensor *from, const int64_t *kept, int64_t count)
{
    int64_t shape[VV_MAX_DIMS];
    memcpy(shape, from->shape, sizeof shape);
    const size_t bytes = from->shape[0] ? from->bytes / (size_t)from->shape[0] : 0;
    shape[0] = count;
    VV_TRY(vv_tensor_reuse(out, from->dtype, from->ndim, shape));
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)(*out)->data + (size_t)i * bytes,
               (const char *)from->data + (size_t)kept[i] * bytes, bytes);
    return VV_OK;
}

static vv_status check_rows(const vv_batch *batch, const int64_t *kept, int64_t count)
{
    if (batch->mix_target)
        return vv_fail(VV_ESTATE, "the batch is mixed already: its rows belong together");
    for (int64_t i = 0; i < count; i++)
        if (kept[i] < 0 || kept[i] >= batch->count || (i && kept[i] <= kept[i - 1]))
            return vv_fail(VV_EINVAL, "row %lld of the choice is not a row of the batch, or not in "
                                      "rising order", (long long)i);
    return VV_OK;
}

/* input and target: buffers of the caller's, used again. */
static vv_status select_rows(vv_batch *batch, const int64_t *kept, int64_t count, vv_tensor **input,
                             vv_tensor **target)
{
    VV_TRY(check_rows(batch, kept, count));
    VV_TRY(pick(input, batch->input, kept, count));
    VV_TRY(pick(target, batch->target, kept, count));
    vv_tensor_free(batch->input);
    vv_tensor_free(batch->target);
    batch->input = vv_tensor_keep(*input);
    batch->target = vv_tensor_keep(*target);
    for (int64_t i = 0; batch->sample && i < count; i++)
        batch->sample[i] = batch->sample[kept[i]];
    batch->count = count;
    return VV_OK;
}

vv_status vv_batch_select(vv_batch *batch, const int64_t *kept, int64_t count)
{
    vv_tensor *input = NULL, *target = NULL;
    const vv_status status = select_rows(batch, kept, count, &input, &target);
    vv_tensor_free(input);
    vv_tensor_free(target);
    return status;
}

/* ---- the Trainer's method ---- */

typedef struct selector {
    selective_proxy proxy;
    vv_graph *graph; /* of another precision than the run's; else NULL */
    vv_tensor *input, *target;             /* buffers of the kept rows */
    vv_tensor *proxy_input, *proxy_target; /* the same for the proxy's own step */
    float *losses;
    int64_t *kept;
} selector;

static bool has_proxy(const vv_selective_backprop_opts *opts)
{
    return opts->proxy && opts->proxy[0];
}

static vv_status check(const void *options)
{
    const vv_selective_backprop_opts *opts = options;
    if (!(opts->start < opts->end))
        return vv_fail(VV_EINVAL, "start %g must come before end %g", opts->start, opts->end);
    if (has_proxy(opts) && (opts->scale_factor != 1.0 || opts->precision != VV_SELECTIVE_RUN))
        return vv_fail(VV_EINVAL, "scale_factor and precision belong to the trained model's own "
                                  "choosing pass; a proxy is small already: leave them out");
    return VV_OK;
}

static vv_status init(vv_method *method, vv_state *state)
{
    const vv_selective_backprop_opts *opts = method->opts;
    selector *self = method->self;
    if (has_proxy(opts))
        return vvi_selective_proxy_init(&self->proxy, opts, state);
    if (opts->precision == VV_SELECTIVE_RUN)
        return VV_OK;
    vv_graph_opts graph = VV_GRAPH_DEFAULTS;
    graph.precision =
        opts->precision == VV_SELECTIVE_BF16 ? VV_PRECISION_BF16 : VV_PRECISION_FP32;
    return vv_graph_new(&self->graph, &graph);
}

static vv_graph *graph_of(const selector *self, const vv_state *state)
{
    return self->graph ? self->graph : state->graph;
}

static vv_status zeros(vv_tensor **out, vv_dtype dtype, int ndim, const int64_t *shape)
{
    int64_t full[VV_MAX_DIMS] = {1};
    for (int i = 0; i < ndim && i + 1 < VV_MAX_DIMS; i++)
        full[i + 1] = shape[i];
    return vv_tensor_new(out, dtype, ndim + 1, full);
}

/* The choosing pass on one sample of zeros, though it is first needed in the middle of the run. */
static vv_status try_out(const selector *self, const vv_selective_backprop_opts *opts,
                         vv_state *state)
{
    const vv_sample_spec *spec = &state->input_spec;
    const bool image = spec->input_dtype == VV_U8 && spec->input_ndim == 3;
    vv_tensor *input = NULL, *target = NULL;
    float loss;
    vv_status status = VV_OK;
    if (has_proxy(opts) || !state->train_loader)
        return VV_OK;
    VV_GO(zeros(&input, image ? VV_F32 : spec->input_dtype, spec->input_ndim, spec->input_shape));
    VV_GO(zeros(&target, spec->target_dtype, spec->target_ndim, spec->target_shape));
    VV_GO(vv_selective_losses(&loss, graph_of(self, state), state->model, input, target,
                              opts->scale_factor, 0));
out:
    vv_tensor_free(input);
    vv_tensor_free(target);
    return vv_fail_within(status, "the pass that chooses samples");
}

static vv_status score(selector *self, const vv_selective_backprop_opts *opts, vv_state *state)
{
    vv_batch *batch = state->batch;
    VV_TRY(vv_realloc_array(&self->losses, (size_t)batch->count + 1, sizeof *self->losses));
    VV_TRY(vv_realloc_array(&self->kept, (size_t)batch->count + 1, sizeof *self->kept));
    if (has_proxy(opts))
        return vvi_selective_proxy_losses(&self->proxy, self->losses, batch->input, batch->target);
    return vv_selective_losses(self->losses, graph_of(self, state), state->model, batch->input,
                               batch->target, opts->scale_factor, state->microbatch);
}

static vv_status train_proxy(selector *self, const vv_state *state, int64_t count)
{
    const vv_batch *batch = state->batch;
    VV_TRY(pick(&self->proxy_input, batch->input, self->kept, count));
    VV_TRY(pick(&self->proxy_target, batch->target, self->kept, count));
    return vvi_selective_proxy_train(&self->proxy, state, self->proxy_input, self->proxy_target);
}

static vv_status choose(vv_method *method, vv_state *state)
{
    const vv_selective_backprop_opts *opts = method->opts;
    selector *self = method->self;
    vv_batch *batch = state->batch;
    const bool selects = vv_should_selective_backprop(state->progress, state->time.batch_in_epoch,
                                                      opts->start, opts->end, opts->interrupt);
    const bool learns = has_proxy(opts) && state->progress < opts->end &&
                        state->time.batch % opts->proxy_interval == 0;
    if (opts->keep == 1.0 || (!selects && !learns) || batch->count < 1)
        return VV_OK;
    VV_TRY(vv_model_check_target(state->model, batch->target));
    VV_TRY(score(self, opts, state));
    vv_rng rng = vv_state_rng(state, "selective_backprop");
    VV_TRY(vv_select_using_loss(self->kept, self->losses, batch->count, opts->keep,
                                opts->variant == VV_SELECTIVE_SAMPLE ? &rng : NULL));
    const int64_t count = vv_selective_count(batch->count, opts->keep);
    if (learns)
        VV_TRY(train_proxy(self, state, count));
    if (!selects)
        return VV_OK;
    method->effect++;
    return select_rows(batch, self->kept, count, &self->input, &self->target);
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    if (event == VV_EVENT_INIT)
        return init(method, state);
    if (event == VV_EVENT_AFTER_LOAD)
        return try_out(method->self, method->opts, state);
    return choose(method, state);
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_selective_backprop_opts *opts = method->opts;
    (void)state;
    vv_str_addf(line, "trains on %g of each batch, %s high losses, from %g to %g of the run",
                opts->keep,
                opts->variant == VV_SELECTIVE_TOP ? "those with" : "drawn in favour of",
                opts->start, opts->end);
    if (opts->interrupt > 0)
        vv_str_addf(line, "; every %lld. batch whole", (long long)opts->interrupt);
    if (has_proxy(opts))
        vv_str_addf(line, "; %s chooses", opts->proxy);
    else if (opts->scale_factor != 1.0)
        vv_str_addf(line, "; chosen at %g of the side", opts->scale_factor);
    return vv_str_status(line);
}

static vv_status save(vv_method *method, vv_record *record)
{
    const selector *self = method->self;
    return self->proxy.model ? vvi_selective_proxy_save(&self->proxy, record) : VV_OK;
}

static vv_status load(vv_method *method, const vv_record *record)
{
    selector *self = method->self;
    return self->proxy.model ? vvi_selective_proxy_load(&self->proxy, record) : VV_OK;
}

static void fini(vv_method *method)
{
    selector *self = method->self;
    vvi_selective_proxy_fini(&self->proxy);
    vv_graph_free(self->graph);
    vv_tensor_free(self->input);
    vv_tensor_free(self->target);
    vv_tensor_free(self->proxy_input);
    vv_tensor_free(self->proxy_target);
    vv_dealloc(self->losses);
    vv_dealloc(self->kept);
}

#define ROW(member, kind, fallback, low, high, choices, help) \
    {#member, help, kind, offsetof(vv_selective_backprop_opts, member), fallback, low, high, choices}
static const char *const variants[] = {"sample", "top", NULL};
static const char *const precisions[] = {"run", "fp32", "bf16", NULL};
static const vv_field fields[] = {
    ROW(start, VV_FIELD_FLOAT, "0.5", 0, 1, NULL, "Share of the run after which batches select."),
    ROW(end, VV_FIELD_FLOAT, "0.9", 0, 1, NULL, "Share of the run from which on they do not."),
    ROW(keep, VV_FIELD_FLOAT, "0.5", 1e-6, 1, NULL, "Share of a batch that is trained on."),
    ROW(scale_factor, VV_FIELD_FLOAT, "1", 1e-3, 1, NULL,
        "Images are this much smaller, per side, in the pass that chooses."),
    ROW(interrupt, VV_FIELD_INT, "2", 0, 1e9, NULL,
        "Every interrupt-th batch of an epoch is trained whole; 0 = none."),
    ROW(variant, VV_FIELD_CHOICE, "sample", 0, 0, variants,
        "Draw in favour of high losses, or take the highest."),
    ROW(precision, VV_FIELD_CHOICE, "run", 0, 0, precisions,
        "Precision of the pass that chooses; run = as the run trains."),
    ROW(proxy, VV_FIELD_STRING, "", 0, 0, NULL,
        "Name of a small model that chooses and learns beside; empty = the trained model."),
    ROW(proxy_width, VV_FIELD_INT, "0", 0, 65536, NULL, "Width of the proxy; 0 = its default."),
    ROW(proxy_interval, VV_FIELD_INT, "4", 1, 1e9, NULL,
        "The proxy learns from every proxy_interval-th batch, from what it chose there."),
    ROW(proxy_lr, VV_FIELD_FLOAT, "0.1", 0, 1e6, NULL,
        "Learning rate of the proxy, falling to 0 in a line."),
    {.name = NULL},
};

const vv_method_desc vv_method_selective_backprop = {
    .desc = {.kind = "method",
             .name = "selective_backprop",
             .summary = "Trains on those samples of a batch whose loss is high.",
             .cite = "Jiang et al., Accelerating Deep Learning by Focusing on the Biggest Losers "
                     "(arXiv 1910.00762)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_selective_backprop_opts)},
    .phase = VV_PHASE_SELECT,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_AFTER_LOAD) |
              VV_EVENT_BIT(VV_EVENT_AFTER_DATALOADER),
    .self_size = sizeof(selector),
    .check = check,
    .apply = apply,
    .plan = plan,
    .save = save,
    .load = load,
    .fini = fini,
};

vv_method *vv_selective_backprop(double keep)
{
    const vv_desc *desc = &vv_method_selective_backprop.desc;
    vv_selective_backprop_opts opts;
    vv_method *method = NULL;
    if (vv_opts_init(desc, &opts) != VV_OK)
        return NULL;
    opts.keep = keep;
    if (vv_method_new(&method, &vv_method_selective_backprop, &opts) != VV_OK)
        method = NULL;
    vv_opts_fini(desc, &opts);
    return method;
}
