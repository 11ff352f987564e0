/* patch_whitening.c - whitening filters from patches of the training images. */
#include "patch_whitening.h"

#include <math.h>

#include <vivace/linalg.h>
#include <vivace/memory.h>

/* ---- the layer ---- */

typedef struct search {
    vv_module *found;
} search;

static bool first_conv(void *ctx, const char *path, vv_module *module)
{
    search *s = ctx;
    (void)path;
    if (vv_module_type(module) == &vv_conv2d_class)
        s->found = module;
    return !s->found;
}

static int64_t patch_values(const vv_conv2d_layer *layer)
{
    return layer->in_channels * layer->kernel[0] * layer->kernel[1];
}

vv_module *vv_patch_whitening_layer(vv_module *net, int64_t channels)
{
    search s = {NULL};
    vv_module_each(net, first_conv, &s);
    if (!s.found)
        return NULL;
    const vv_conv2d_layer *layer = vv_module_self(s.found);
    const bool fits = layer->in_channels == channels && layer->conv.groups == 1 &&
                      layer->conv.dilation[0] == 1 && layer->conv.dilation[1] == 1 &&
                      layer->out_channels >= patch_values(layer);
    return fits ? s.found : NULL;
}

/* ---- the filters ---- */

/* Values of the patch at (y, x) in the weight's order: channel, row, column. */
static void take_patch(const float *image, const int64_t *shape, const vv_conv2d_layer *layer,
                       int64_t y, int64_t x, double *patch)
{
    for (int64_t c = 0; c < shape[3]; c++)
        for (int64_t i = 0; i < layer->kernel[0]; i++)
            for (int64_t k = 0; k < layer->kernel[1]; k++)
                *patch++ = (double)image[((y + i) * shape[2] + x + k) * shape[3] + c];
}

/* Mean over all patches of patch patch^T, not centred. */
static void second_moments(const vv_tensor *images, const vv_conv2d_layer *layer, double *patch,
                           double *moments)
{
    const int64_t *shape = images->shape, n = patch_values(layer);
    const int64_t down = shape[1] - layer->kernel[0] + 1, across = shape[2] - layer->kernel[1] + 1;
    const double share = 1.0 / ((double)shape[0] * (double)down * (double)across);
    const float *image = images->data;
    for (int64_t i = 0; i < shape[0]; i++, image += shape[1] * shape[2] * shape[3])
        for (int64_t y = 0; y < down; y++)
            for (int64_t x = 0; x < across; x++) {
                take_patch(image, shape, layer, y, x, patch);
                for (int64_t a = 0; a < n; a++)
                    for (int64_t b = 0; b <= a; b++)
                        moments[a * n + b] += share * patch[a] * patch[b];
            }
    for (int64_t a = 0; a < n; a++)
        for (int64_t b = a + 1; b < n; b++)
            moments[a * n + b] = moments[b * n + a];
}

static void write_filters(float *weight, int64_t filters, int64_t n, const double *values,
                          const double *vectors, double eps)
{
    for (int64_t f = 0; f < filters && f < 2 * n; f++) {
        const int64_t i = f % n;
        const double variance = values[i] > 0.0 ? values[i] : 0.0;
        const double scale = (f < n ? 1.0 : -1.0) / sqrt(variance + eps);
        for (int64_t k = 0; k < n; k++)
            weight[f * n + k] = (float)(scale * vectors[i * n + k]);
    }
}

static const vv_patch_whitening_opts defaults = VV_PATCH_WHITENING_DEFAULTS;

vv_status vv_whiten_patches(vv_module *conv, const vv_tensor *images,
                            const vv_patch_whitening_opts *opts)
{
    const double eps = (opts ? opts : &defaults)->eps;
    vv_status status = VV_OK;
    double *patch = NULL, *moments = NULL, *values = NULL, *vectors = NULL;
    if (!conv || vv_patch_whitening_layer(conv, images->shape[3]) != conv)
        return vv_fail(VV_EINVAL, "patch_whitening: needs a Conv2d of the images' channels with as "
                                  "many filters as a patch has values");
    const vv_conv2d_layer *layer = vv_module_self(conv);
    if (images->dtype != VV_F32 || images->ndim != 4 || images->shape[0] < 1 ||
        images->shape[1] < layer->kernel[0] || images->shape[2] < layer->kernel[1])
        return vv_fail(VV_ESHAPE,
                       "patch_whitening: needs f32 images [N,H,W,C] that are not smaller "
                       "than the kernel");
    const size_t n = (size_t)patch_values(layer);
    vv_param *weight = vv_module_param(conv, "weight");
    VV_GO(vv_alloc_array(&patch, n, sizeof *patch));
    VV_GO(vv_alloc_array(&moments, n * n, sizeof *moments));
    VV_GO(vv_alloc_array(&values, n, sizeof *values));
    VV_GO(vv_alloc_array(&vectors, n * n, sizeof *vectors));
    second_moments(images, layer, patch, moments);
    VV_GO(vv_symmetric_eigen(moments, (int64_t)n, values, vectors));
    write_filters(weight->value->data, layer->out_channels, (int64_t)n, values, vectors, eps);
    weight->frozen = true;
out:
    vv_dealloc(patch);
    vv_dealloc(moments);
    vv_dealloc(values);
    vv_dealloc(vectors);
    return status;
}

/* ---- the Trainer's method ---- */

/* The first `count` images of the training set as the net sees them, without augmentation. */
static vv_status first_images(vv_loader *loader, int64_t count, vv_tensor **out)
{
    vv_dataset *set = vv_loader_dataset(loader);
    const vv_sample_spec *spec = &set->spec;
    const bool normalise = vv_loader_transform(loader)->normalise;
    const int64_t rows = count < set->count ? count : set->count;
    const int64_t shape[4] = {rows, spec->input_shape[0], spec->input_shape[1],
                              spec->input_shape[2]};
    const int64_t pixels = shape[1] * shape[2] * shape[3];
    vv_status status = VV_OK;
    uint8_t *raw = NULL;
    VV_TRY(vv_tensor_new(out, VV_F32, 4, shape));
    VV_GO(vv_alloc_array(&raw, (size_t)pixels, 1));
    for (int64_t i = 0; i < rows; i++) {
        VV_GO(vv_dataset_read(set, i, raw, NULL));
        float *to = (float *)(*out)->data + i * pixels;
        for (int64_t k = 0; k < pixels; k++) {
            const int64_t c = k % shape[3];
            to[k] = (float)raw[k] / 255.0f;
            if (normalise)
                to[k] = (to[k] - spec->mean[c]) / spec->std[c];
        }
    }
out:
    vv_dealloc(raw);
    if (status != VV_OK) {
        vv_tensor_free(*out);
        *out = NULL;
    }
    return status;
}

/* Whether the bias still learns. */
static vv_status set_bias(const vv_patch_whitening_opts *o, vv_state *state, vv_module *conv)
{
    double until;
    vv_param *bias = vv_module_param(conv, "bias");
    if (!bias || vv_time_is_none(o->bias_time))
        return VV_OK;
    if (o->bias_time.unit == VV_UNIT_DURATION) {
        bias->frozen = state->progress >= o->bias_time.fraction;
        return VV_OK;
    }
    VV_TRY(vv_fail_within(vv_time_to_batches(&until, o->bias_time, &state->axis), "bias_time"));
    bias->frozen = (double)state->time.batch >= until;
    return VV_OK;
}

typedef struct whitener {
    vv_module *conv; /* kept */
} whitener;

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    const vv_patch_whitening_opts *o = method->opts;
    whitener *self = method->self;
    vv_tensor *images = NULL;
    if (event == VV_EVENT_BATCH_START)
        return self->conv ? set_bias(o, state, self->conv) : VV_OK;
    vv_module *conv = vv_patch_whitening_layer(state->model->net, state->input_spec.input_shape[2]);
    if (!conv)
        return VV_OK;
    if (state->train_loader) { /* else the weights come from a file */
        VV_TRY(first_images(state->train_loader, o->samples, &images));
        const vv_status status = vv_whiten_patches(conv, images, o);
        vv_tensor_free(images);
        VV_TRY(status);
    }
    vv_module_free(self->conv);
    self->conv = vv_module_keep(conv);
    method->effect++;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_patch_whitening_opts *o = method->opts;
    VV_TRY(vv_sample_spec_check_image(&state->input_spec, false));
    vv_module *conv = vv_patch_whitening_layer(state->model->net, state->input_spec.input_shape[2]);
    if (!conv) {
        vv_str_add(line, "the first layer is no convolution with enough filters");
        return vv_str_status(line);
    }
    const vv_conv2d_layer *layer = vv_module_self(conv);
    vv_str_addf(line, "fixes the first convolution (%lldx%lld) to whiten patches of %lld images",
                (long long)layer->kernel[0], (long long)layer->kernel[1], (long long)o->samples);
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    const whitener *self = method->self;
    vv_module_free(self->conv);
}

#define AT(member) offsetof(vv_patch_whitening_opts, member)
static const vv_field fields[] = {
    {"samples", "Images that patches are taken from, the first of the training set.", VV_FIELD_INT,
     AT(samples), "5000", 1, 1e9, NULL},
    {"eps", "Added to the patches' variances: larger leaves weak directions weaker.",
     VV_FIELD_FLOAT, AT(eps), "0.0005", 1e-12, 1, NULL},
    {"bias_time", "The layer's bias learns for this long; none = always.", VV_FIELD_TIME,
     AT(bias_time), "none", 0, 0, NULL},
    {.name = NULL},
};

const vv_method_desc vv_method_patch_whitening = {
    .desc = {.kind = "method",
             .name = "patch_whitening",
             .summary = "Fixes the first convolution to filters that whiten the data's patches.",
             .cite = "Page, How to train your ResNet 8 (2018); Jordan (arXiv 2404.00498)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_patch_whitening_opts)},
    .phase = VV_PHASE_SURGERY,
    .events = VV_EVENT_BIT(VV_EVENT_INIT) | VV_EVENT_BIT(VV_EVENT_BATCH_START),
    .self_size = sizeof(whitener),
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_patch_whitening(const vv_patch_whitening_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_patch_whitening, opts) == VV_OK ? method : NULL;
}
