/* alternating_flip.c - mirrored in turns instead of by chance (Jordan, arXiv 2404.00498). */
#include "alternating_flip.h"

typedef struct hook {
    vv_loader *loader; /* that flips in turns; NULL = none yet */
} hook;

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    hook *self = method->self;
    (void)event;
    VV_TRY(vv_loader_set_alternating_flip(state->train_loader, true));
    self->loader = state->train_loader;
    method->effect++;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    (void)method;
    if (!state->train_loader) {
        vv_str_add(line, "nothing to train");
        return vv_str_status(line);
    }
    VV_TRY(vv_sample_spec_check_image(&state->input_spec, false));
    VV_TRY(vv_sample_spec_check_movable(&state->input_spec));
    vv_str_add(line, "mirrors each image by chance in the first epoch, then in turns");
    return vv_str_status(line);
}

static void fini(vv_method *method)
{
    const hook *self = method->self;
    if (self->loader) /* it took images before, so this cannot fail */
        (void)!vv_loader_set_alternating_flip(self->loader, false);
}

static const vv_field fields[] = {{.name = NULL}};

const vv_method_desc vv_method_alternating_flip = {
    .desc = {.kind = "method",
             .name = "alternating_flip",
             .summary = "Mirrors each image in every other epoch instead of by chance.",
             .cite = "Jordan, 94% on CIFAR-10 in 3.29 Seconds on a Single GPU (arXiv 2404.00498)",
             .domains = "cv",
             .fields = fields,
             .opts_size = 0},
    .phase = VV_PHASE_AUGMENT,
    .events = VV_EVENT_BIT(VV_EVENT_FIT_START),
    .self_size = sizeof(hook),
    .apply = apply,
    .plan = plan,
    .fini = fini,
};

vv_method *vv_alternating_flip(void)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_alternating_flip, NULL) == VV_OK ? method : NULL;
}
