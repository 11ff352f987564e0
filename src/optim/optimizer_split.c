/* optimizer_split.c - a new parameter group whose learning rates are another group's, scaled. */
#include <string.h>

#include <vivace/memory.h>
#include <vivace/optim.h>

/* "lr", "fallback_lr"; "weight_decay", "fallback_weight_decay". */
static bool ends_with(const char *name, const char *tail)
{
    const size_t length = strlen(name), most = strlen(tail);
    if (length < most || strcmp(name + length - most, tail) != 0)
        return false;
    return length == most || name[length - most - 1] == '_';
}

static void scale_options(const vv_desc *desc, void *options, double lr_scale, double decay_scale)
{
    for (const vv_field *f = desc->fields; f->name; f++) {
        double value;
        char *at = (char *)options + f->offset;
        if (f->type != VV_FIELD_FLOAT)
            continue;
        memcpy(&value, at, sizeof value);
        if (ends_with(f->name, "lr"))
            value *= lr_scale;
        else if (ends_with(f->name, "weight_decay"))
            value *= decay_scale;
        memcpy(at, &value, sizeof value);
    }
}

vv_status vv_optimizer_split_scaled(vv_optimizer *optimizer, vv_module *module, int group,
                                    bool (*match)(void *ctx, const char *path, vv_module *owner,
                                                  vv_param *param),
                                    void *ctx, double lr_scale, double weight_decay_scale)
{
    const vv_desc *desc = &vv_optimizer_type(optimizer)->desc;
    const void *from = vv_optimizer_group_opts(optimizer, group);
    void *options = NULL;
    if (!from)
        return vv_fail(VV_EINVAL, "optimizer %s: there is no group %d", desc->name, group);
    VV_TRY(vv_alloc(&options, desc->opts_size));
    vv_status status = vv_opts_copy(desc, options, from);
    if (status == VV_OK) {
        scale_options(desc, options, lr_scale, weight_decay_scale);
        status = vv_optimizer_split(optimizer, module, match, ctx, options);
        vv_opts_fini(desc, options);
    }
    vv_dealloc(options);
    return status;
}
