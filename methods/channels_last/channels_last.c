/* channels_last.c - accepted, and already so: tensors are [N,H,W,C] everywhere. */
#include "channels_last.h"

static const char says[] =
    "images are stored with channels last ([N,H,W,C]) already; nothing to do";

vv_status vv_apply_channels_last(vv_module *net)
{
    return net ? VV_OK : vv_fail(VV_EINVAL, "channels_last: no net");
}

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    (void)method;
    (void)event;
    VV_TRY(vv_apply_channels_last(state->model->net));
    vv_str text = {0};
    vv_str_addf(&text, "channels_last: %s", says);
    vv_status status = vv_str_status(&text);
    if (status == VV_OK)
        vv_log_message(state, vv_str_text(&text));
    vv_str_fini(&text);
    return status;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    (void)method;
    (void)state;
    vv_str_add(line, says);
    return vv_str_status(line);
}

static const vv_field fields[] = {{.name = NULL}};

const vv_method_desc vv_method_channels_last = {
    .desc = {.kind = "method",
             .name = "channels_last",
             .summary = "Stores images with channels last; always so here, so it changes nothing.",
             .cite = "",
             .domains = "cv",
             .fields = fields},
    .phase = VV_PHASE_LAYOUT,
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .apply = apply,
    .plan = plan,
};

vv_method *vv_channels_last(void)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_channels_last, NULL) == VV_OK ? method : NULL;
}
