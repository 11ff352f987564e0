/* lr_monitor.c - the lr_monitor callback: `lr-<optimizer>/group<i>` after each batch. */
#include "lr_monitor.h"

static const vv_field fields[] = {{.name = NULL}};

static vv_status apply(vv_callback *callback, vv_event event, vv_state *state)
{
    (void)callback;
    (void)event;
    const vv_optimizer *optimizer = state->optimizer;
    for (int i = 0; i < vv_optimizer_group_count(optimizer); i++) {
        vv_str name = {0};
        vv_str_addf(&name, "lr-%s/group%d", vv_optimizer_type(optimizer)->desc.name, i);
        vv_status status = vv_str_status(&name);
        if (status == VV_OK)
            vv_log_metric(state, vv_str_text(&name), vv_optimizer_lr(optimizer, i));
        vv_str_fini(&name);
        VV_TRY(status);
    }
    return VV_OK;
}

const vv_callback_desc vv_callback_lr_monitor = {
    .desc = {"callback", "lr_monitor", "Logs the learning rate of each parameter group.", "", "any",
             fields, 0},
    .events = VV_EVENT_BIT(VV_EVENT_BATCH_END),
    .apply = apply,
};
