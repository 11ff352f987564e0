/* randaugment.c - RandAugment (Cubuk et al., arXiv 1909.13719), in the loader's workers. */
#include "randaugment.h"

#include <string.h>

static const vv_randaugment_opts defaults = VV_RANDAUGMENT_DEFAULTS;

void vv_randaugment_image(uint8_t *image, const vv_image_shape *shape,
                          const vv_randaugment_opts *opts, vv_rng *rng, uint8_t *scratch)
{
    const vv_randaugment_opts *o = opts ? opts : &defaults;
    const size_t bytes = (size_t)(shape->height * shape->width * shape->channels);
    for (int64_t i = 0; i < o->depth; i++) {
        const vv_augment_op op = vv_augment_choose((vv_augment_set)o->augmentation_set, rng);
        vv_augment_apply(op, o->severity, rng, shape, image, scratch);
        memcpy(image, scratch, bytes);
    }
}

/* ---- the Trainer's method ---- */

static vv_status change(const void *ctx, vv_augment_call *call, uint8_t *image, uint8_t *scratch)
{
    vv_randaugment_image(image, &call->shape, ctx, &call->rng, scratch);
    return VV_OK;
}

typedef struct hook {
    vv_loader *loader; /* that has the change; NULL = none yet */
} hook;

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    hook *self = method->self;
    (void)event;
    VV_TRY(vv_loader_set_augment(state->train_loader, "randaugment", change, method->opts));
    self->loader = state->train_loader;
    method->effect++;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    const vv_randaugment_opts *o = method->opts;
    static const char *const sets[] = {"all thirteen", "the nine safe", "the paper's thirteen"};
    if (!state->train_loader) {
        vv_str_add(line, "nothing to train");
        return vv_str_status(line);
    }
    VV_TRY(vv_sample_spec_check_image(&state->input_spec, true));
    VV_TRY(vv_sample_spec_check_movable(&state->input_spec));
    vv_str_addf(line, "changes each image %lld time%s by one of %s changes, strength up to %g",
                (long long)o->depth, o->depth == 1 ? "" : "s", sets[o->augmentation_set],
                o->severity);
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    const hook *self = method->self;
    if (self->loader) /* taking out cannot fail */
        (void)!vv_loader_set_augment(self->loader, "randaugment", NULL, NULL);
}

#define AT(member) offsetof(vv_randaugment_opts, member)
static const char *const sets[] = {"all", "safe", "original", NULL};
static const vv_field fields[] = {
    {"severity", "Most strength of a change.", VV_FIELD_FLOAT, AT(severity), "9", 0, 10, NULL},
    {"depth", "Changes of an image, one after the other.", VV_FIELD_INT, AT(depth), "2", 0, 100,
     NULL},
    {"augmentation_set", "all: thirteen changes; safe: without colour, contrast, brightness and "
                         "sharpness; original: those four as in AugMix.",
     VV_FIELD_CHOICE, AT(augmentation_set), "all", 0, 0, sets},
    {.name = NULL},
};

const vv_method_desc vv_method_randaugment = {
    .desc = {.kind = "method",
             .name = "randaugment",
             .summary = "Applies a few random changes to each training image.",
             .cite = "Cubuk et al., RandAugment: Practical automated data augmentation with a "
                     "reduced search space (arXiv 1909.13719)",
             .domains = "cv",
             .fields = fields,
             .opts_size = sizeof(vv_randaugment_opts)},
    .phase = VV_PHASE_AUGMENT,
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START),
    .self_size = sizeof(hook),
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_randaugment(const vv_randaugment_opts *opts)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_randaugment, opts) == VV_OK ? method : NULL;
}
