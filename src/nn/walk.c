/* walk.c - traversals of the module tree, each shared thing once; state by name. */
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

typedef enum vvi_part { PART_CHILD, PART_PARAM, PART_BUFFER } vvi_part;

const char *vvi_name_join(char *buf, size_t buf_bytes, const char *path, const char *name)
{
    snprintf(buf, buf_bytes, "%s%s%s", path, path[0] ? "." : "", name);
    return buf;
}

static const vvi_slots *slots_of(const vv_module *module, vvi_part part)
{
    return part == PART_CHILD   ? &module->children
           : part == PART_PARAM ? &module->params
                                : &module->buffers;
}

/* The first slot, in the order of traversal, that holds `thing`. Searching instead of marking keeps
   traversals free of allocation (they cannot fail) and lets one run inside another. */
static const vvi_slot *first_slot(const vv_module *module, vvi_part part, const void *thing)
{
    const vvi_slots *own = slots_of(module, part);

    if (part != PART_CHILD)
        for (int i = 0; i < own->count; i++)
            if (own->items[i].u.thing == thing)
                return &own->items[i];
    for (int i = 0; i < module->children.count; i++) {
        const vvi_slot *slot = &module->children.items[i];

        if (part == PART_CHILD && slot->u.thing == thing)
            return slot;
        slot = first_slot(slot->u.module, part, thing);
        if (slot)
            return slot;
    }
    return NULL;
}

typedef struct vvi_walk {
    const vv_module *root;
    vv_module_fn fn;
    void *ctx;
    char path[VVI_PATH_BYTES];
} vvi_walk;

static bool walk_below(vvi_walk *walk, vv_module *module)
{
    size_t length = strlen(walk->path);

    if (!walk->fn(walk->ctx, walk->path, module))
        return false;
    for (int i = 0; i < module->children.count; i++) {
        const vvi_slot *slot = &module->children.items[i];
        vv_module *child = slot->u.module;
        bool going;

        if (child->links > 1 && first_slot(walk->root, PART_CHILD, child) != slot)
            continue;
        snprintf(walk->path + length, sizeof walk->path - length, "%s%s", length ? "." : "",
                 slot->name);
        going = walk_below(walk, child);
        walk->path[length] = '\0';
        if (!going)
            return false;
    }
    return true;
}

void vv_module_each(vv_module *module, vv_module_fn fn, void *ctx)
{
    vvi_walk walk = {.root = module, .fn = fn, .ctx = ctx, .path = ""};

    walk_below(&walk, module);
}

/* Parameters and buffers of the modules met: any of the functions may be NULL. */
typedef struct vvi_parts {
    const vv_module *root;
    vv_param_fn on_param;
    vv_buffer_fn on_buffer;
    vv_state_fn on_state;
    void *ctx;
} vvi_parts;

static bool parts_of(void *ctx, const char *path, vv_module *module)
{
    const vvi_parts *parts = ctx;
    char name[VVI_PATH_BYTES + VVI_NAME_BYTES];

    for (int i = 0; i < module->params.count && !parts->on_buffer; i++) {
        const vvi_slot *slot = &module->params.items[i];
        vv_param *param = slot->u.param;

        if (param->owners > 1 && first_slot(parts->root, PART_PARAM, param) != slot)
            continue;
        vvi_name_join(name, sizeof name, path, slot->name);
        if (parts->on_param ? !parts->on_param(parts->ctx, name, module, param)
                            : !parts->on_state(parts->ctx, name, param->value))
            return false;
    }
    for (int i = 0; i < module->buffers.count && !parts->on_param; i++) {
        const vvi_slot *slot = &module->buffers.items[i];
        vv_tensor *tensor = slot->u.tensor;

        if (tensor->refs > 1 && first_slot(parts->root, PART_BUFFER, tensor) != slot)
            continue;
        vvi_name_join(name, sizeof name, path, slot->name);
        if (parts->on_buffer ? !parts->on_buffer(parts->ctx, name, module, tensor)
                             : !parts->on_state(parts->ctx, name, tensor))
            return false;
    }
    return true;
}

void vv_module_each_param(vv_module *module, vv_param_fn fn, void *ctx)
{
    vvi_parts parts = {.root = module, .on_param = fn, .ctx = ctx};

    vv_module_each(module, parts_of, &parts);
}

void vv_module_each_buffer(vv_module *module, vv_buffer_fn fn, void *ctx)
{
    vvi_parts parts = {.root = module, .on_buffer = fn, .ctx = ctx};

    vv_module_each(module, parts_of, &parts);
}

void vv_module_each_state(vv_module *module, vv_state_fn fn, void *ctx)
{
    vvi_parts parts = {.root = module, .on_state = fn, .ctx = ctx};

    vv_module_each(module, parts_of, &parts);
}

/* ---- counting and freezing ---- */

static bool add_count(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)path;
    (void)owner;
    *(int64_t *)ctx += param->value->count;
    return true;
}

int64_t vv_module_param_count(vv_module *module)
{
    int64_t count = 0;

    vv_module_each_param(module, add_count, &count);
    return count;
}

typedef struct vvi_type_count {
    const vv_module *root;
    const vv_module_class *type;
    int count;
} vvi_type_count;

static bool add_type(void *ctx, const char *path, vv_module *module)
{
    vvi_type_count *wanted = ctx;

    (void)path;
    wanted->count += module != wanted->root && module->type == wanted->type;
    return true;
}

int vv_module_count(vv_module *module, const vv_module_class *type)
{
    vvi_type_count wanted = {module, type, 0};

    vv_module_each(module, add_type, &wanted);
    return wanted.count;
}

static bool freeze_one(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    (void)path;
    (void)owner;
    param->frozen = *(const bool *)ctx;
    return true;
}

void vv_module_set_frozen(vv_module *module, bool frozen)
{
    vv_module_each_param(module, freeze_one, &frozen);
}

/* ---- loading ---- */

typedef struct vvi_load {
    const vv_tensor *(*find)(void *ctx, const char *name);
    void *ctx;
    bool strict, copy;
    int count;
    vv_status status;
} vvi_load;

static bool load_one(void *ctx, const char *name, vv_tensor *tensor)
{
    vvi_load *load = ctx;
    const vv_tensor *given = load->find(load->ctx, name);
    char have[96], want[96];

    if (!given) {
        if (load->strict)
            load->status = vv_fail(VV_ENOTFOUND,
                                   "load: no tensor named \"%s\" among those given; load without "
                                   "strict to keep the model's own",
                                   name);
        return load->status == VV_OK;
    }
    if (!vv_tensor_same_shape(tensor, given)) {
        load->status = vv_fail(VV_ESHAPE,
                               "load: \"%s\" has shape %s, the model needs %s; was it saved from a "
                               "model with other settings?",
                               name, vv_shape_text(given->ndim, given->shape, have, sizeof have),
                               vv_shape_text(tensor->ndim, tensor->shape, want, sizeof want));
        return false;
    }
    if (load->copy)
        load->status = vv_tensor_copy(tensor, given);
    load->count++;
    return load->status == VV_OK;
}

vv_status vv_module_load(vv_module *module, const vv_tensor *(*find)(void *ctx, const char *name),
                         void *ctx, bool strict, int *loaded)
{
    vvi_load load = {find, ctx, strict, false, 0, VV_OK};

    if (loaded)
        *loaded = 0;
    /* Everything is checked before anything is changed. */
    vv_module_each_state(module, load_one, &load);
    VV_TRY(load.status);
    load.copy = true;
    load.count = 0;
    vv_module_each_state(module, load_one, &load);
    if (loaded)
        *loaded = load.count;
    return load.status;
}
