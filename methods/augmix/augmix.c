/* augmix.c - AugMix (Hendrycks et al., arXiv 1912.02781), in the loader's workers. */
#include "augmix.h"

#include <string.h>

#include <vivace/memory.h>

static const vv_augmix_opts defaults = VV_AUGMIX_DEFAULTS;

void vv_augmix_draw(const vv_augmix_opts *opts, vv_rng *rng, double *w, double *m)
{
    const vv_augmix_opts *o = opts ? opts : &defaults;
    double sum = 0.0;
    for (int64_t i = 0; i < o->width; i++) {
        w[i] = vv_rng_gamma(rng, o->alpha);
        sum += w[i];
    }
    for (int64_t i = 0; i < o->width; i++) /* tiny alphas: all may be 0 */
        w[i] = sum > 0.0 ? w[i] / sum : 1.0 / (double)o->width;
    *m = vv_rng_beta(rng, o->alpha, o->alpha);
}

static void run_chain(const vv_augmix_opts *o, vv_rng *rng, const vv_image_shape *shape,
                      uint8_t *image, uint8_t *scratch, size_t bytes)
{
    const int64_t depth = o->depth > 0 ? o->depth : 1 + vv_rng_below(rng, 3);
    for (int64_t i = 0; i < depth; i++) {
        const vv_augment_op op = vv_augment_choose((vv_augment_set)o->augmentation_set, rng);
        vv_augment_apply(op, o->severity, rng, shape, image, scratch);
        memcpy(image, scratch, bytes);
    }
}

static vv_status check(const void *opts)
{
    const vv_augmix_opts *o = opts;
    if (!(o->alpha > 0.0) || o->width < 1 || o->width > VV_AUGMIX_MOST_CHAINS)
        return vv_fail(VV_EINVAL, "alpha %g must be above 0, width %lld within 1..%d", o->alpha,
                       (long long)o->width, VV_AUGMIX_MOST_CHAINS);
    return VV_OK;
}

vv_status vv_augmix_image(uint8_t *image, const vv_image_shape *shape, const vv_augmix_opts *opts,
                          vv_rng *rng)
{
    const vv_augmix_opts *o = opts ? opts : &defaults;
    double w[VV_AUGMIX_MOST_CHAINS], m;
    vv_status status = VV_OK;
    uint8_t *copies = NULL;
    float *sum = NULL;
    const size_t bytes = (size_t)(shape->height * shape->width * shape->channels);
    VV_TRY(vv_fail_within(check(o), "augmix"));
    VV_GO(vv_alloc_array(&copies, 2, bytes));
    VV_GO(vv_alloc_array(&sum, bytes, sizeof *sum));
    vv_augmix_draw(o, rng, w, &m);
    for (int64_t i = 0; i < o->width; i++) {
        memcpy(copies, image, bytes);
        run_chain(o, rng, shape, copies, copies + bytes, bytes);
        const float weight = (float)(m * w[i]);
        for (size_t k = 0; k < bytes; k++)
            sum[k] += weight * (float)copies[k];
    }
    const float own = (float)(1.0 - m);
    for (size_t k = 0; k < bytes; k++) { /* rounded: cutting off would darken */
        const float value = own * (float)image[k] + sum[k] + 0.5f;
        image[k] = value >= 255.0f ? 255 : (uint8_t)value;
    }
out:
    vv_dealloc(copies);
    vv_dealloc(sum);
    return status;
}

/* ---- the Trainer's method ---- */

static vv_status change(const void *ctx, vv_augment_call *call, uint8_t *image, uint8_t *scratch)
{
    (void)scratch;
    return vv_augmix_image(image, &call->shape, ctx, &call->rng);
}

typedef struct hook {
    vv_loader *loader; /* that has the change; NULL = none yet */
} hook;

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    hook *self = method->self;
    (void)event;
    VV_TRY(vv_loader_set_augment(state->train_loader, "augmix", change, method->opts));
    self->loader = state->train_loader;
    method->effect++;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_augmix_opts *o = method->opts;
    if (!state->train_loader) {
        vv_str_add(line, "nothing to train");
        return vv_str_status(line);
    }
    VV_TRY(vv_sample_spec_check_image(&state->input_spec, true));
    VV_TRY(vv_sample_spec_check_movable(&state->input_spec));
    vv_str_addf(line, "mixes each image with %lld chain%s of ", (long long)o->width,
                o->width == 1 ? "" : "s");
    if (o->depth > 0)
        vv_str_addf(line, "%lld", (long long)o->depth);
    else
        vv_str_add(line, "1 to 3");
    vv_str_addf(line, " changes, strength up to %g", o->severity);
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    const hook *self = method->self;
    if (self->loader) /* taking out cannot fail */
        (void)!vv_loader_set_augment(self->loader, "augmix", NULL, NULL);
}

#define AT(member) offsetof(vv_augmix_opts, member)
static const char *const sets[] = {"all", "safe", "original", NULL};
static const vv_field fields[] = {
    {"severity", "Most strength of a change.", VV_FIELD_FLOAT, AT(severity), "3", 0, 10, NULL},
    {"depth", "Changes in a chain; 0 or less: 1 to 3, drawn for each chain.", VV_FIELD_INT,
     AT(depth), "-1", -1, 100, NULL},
    {"width", "Chains that are mixed.", VV_FIELD_INT, AT(width), "3", 1, VV_AUGMIX_MOST_CHAINS,
     NULL},
    {"alpha", "Of the Dirichlet and Beta distributions that weights are drawn from; above 0.",
     VV_FIELD_FLOAT, AT(alpha), "1", 0, 100, NULL},
    {"augmentation_set", "all: thirteen changes; safe: without colour, contrast, brightness and "
                         "sharpness; original: those four as in the paper's code.",
     VV_FIELD_CHOICE, AT(augmentation_set), "all", 0, 0, sets},
    {.name = NULL},
};

const vv_method_desc vv_method_augmix = {
    .desc = {.kind = "method",
             .name = "augmix",
             .summary = "Mixes each training image with randomly changed copies of itself.",
             .cite = "Hendrycks et al., AugMix: A Simple Data Processing Method to Improve "
                     "Robustness and Uncertainty (arXiv 1912.02781)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_augmix_opts)},
    .phase = VV_PHASE_AUGMENT,
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START),
    .self_size = sizeof(hook),
    .check = check,
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_augmix(const vv_augmix_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_augmix, opts) == VV_OK ? method : NULL;
}
