/* module.c - the module tree: life, parts, names, forward. */
#include "nn/module.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

/* ---- parameters ---- */

vv_status vv_param_new(vv_param **out, int ndim, const int64_t *shape)
{
    static _Atomic uint64_t next_id = 1;
    vv_param *param = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    VV_GO(vv_alloc(&param, sizeof *param));
    VV_GO(vv_tensor_new(&param->value, VV_F32, ndim, shape));
    param->id = atomic_fetch_add(&next_id, 1);
    param->refs = 1;
    *out = param;
    param = NULL;
out:
    vv_dealloc(param);
    return status;
}

vv_param *vv_param_keep(vv_param *param)
{
    if (param)
        param->refs++;
    return param;
}

void vv_param_free(vv_param *param)
{
    if (!param || --param->refs > 0)
        return;
    vv_tensor_free(param->value);
    vv_tensor_free(param->grad);
    vv_dealloc(param);
}

/* ---- life of a module ---- */

vv_status vv_module_new(vv_module **out, const vv_module_class *type, size_t self_bytes)
{
    vv_module *module = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    if (!type || !type->name || !type->forward)
        return vv_fail(VV_EINVAL, "module: the class needs a name and a forward function");
    VV_GO(vv_alloc(&module, sizeof *module));
    VV_GO(vv_alloc(&module->self, self_bytes));
    module->type = type;
    module->refs = 1;
    module->training = true;
    *out = module;
    module = NULL;
out:
    vv_dealloc(module);
    return status;
}

vv_module *vv_module_keep(vv_module *module)
{
    if (module)
        module->refs++;
    return module;
}

void vv_module_free(vv_module *module)
{
    if (!module || --module->refs > 0)
        return;
    if (module->type->fini)
        module->type->fini(module);
    for (int i = 0; i < module->children.count; i++) {
        module->children.items[i].u.module->links--;
        vv_module_free(module->children.items[i].u.module);
    }
    for (int i = 0; i < module->params.count; i++) {
        module->params.items[i].u.param->owners--;
        vv_param_free(module->params.items[i].u.param);
    }
    for (int i = 0; i < module->buffers.count; i++)
        vv_tensor_free(module->buffers.items[i].u.tensor);
    vv_dealloc(module->children.items);
    vv_dealloc(module->params.items);
    vv_dealloc(module->buffers.items);
    vv_dealloc(module->self);
    vv_dealloc(module);
}

void *vv_module_self(vv_module *module)
{
    return module->self;
}

const vv_module_class *vv_module_type(const vv_module *module)
{
    return module->type;
}

/* ---- parts ---- */

static const vvi_slot *slot_find(const vvi_slots *slots, const char *name, size_t length)
{
    for (int i = 0; i < slots->count; i++)
        if (!strncmp(slots->items[i].name, name, length) && !slots->items[i].name[length])
            return &slots->items[i];
    return NULL;
}

static vv_status check_name(const vv_module *module, const char *name)
{
    const char *type = module->type->name;
    size_t length = name ? strlen(name) : 0;

    if (!length || strchr(name, '.'))
        return vv_fail(VV_EINVAL,
                       "%s: \"%s\" cannot name a part; it must not be empty or hold a dot", type,
                       name ? name : "");
    if (length >= VVI_NAME_BYTES)
        return vv_fail(VV_EINVAL, "%s: the name \"%s\" is longer than %d bytes; shorten it", type,
                       name, VVI_NAME_BYTES - 1);
    if (slot_find(&module->children, name, length) || slot_find(&module->params, name, length) ||
        slot_find(&module->buffers, name, length))
        return vv_fail(VV_EEXIST, "%s: there is a part \"%s\" already; give another name", type,
                       name);
    return VV_OK;
}

static vv_status slot_add(vvi_slots *slots, const char *name, vvi_slot **out)
{
    if (slots->count == slots->capacity) {
        int capacity = slots->capacity ? 2 * slots->capacity : 4;

        VV_TRY(vv_realloc_array(&slots->items, (size_t)capacity, sizeof *slots->items));
        slots->capacity = capacity;
    }
    *out = &slots->items[slots->count++];
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    return VV_OK;
}

static void take_scope(vv_module *child, const char *name)
{
    snprintf(child->scope, sizeof child->scope, "%s", name);
}

bool vvi_module_contains(const vv_module *module, const vv_module *part)
{
    if (module == part)
        return true;
    for (int i = 0; i < module->children.count; i++)
        if (vvi_module_contains(module->children.items[i].u.module, part))
            return true;
    return false;
}

static vv_status check_child(const vv_module *module, const char *name, const vv_module *child)
{
    if (!child)
        return vv_fail(VV_EINVAL, "%s: part \"%s\" is NULL; make the layer first",
                       module->type->name, name);
    if (vvi_module_contains(child, module))
        return vv_fail(VV_EINVAL, "%s: part \"%s\" contains this module; a tree has no cycles",
                       module->type->name, name);
    return VV_OK;
}

vv_status vv_module_add_child(vv_module *module, const char *name, vv_module *child)
{
    vvi_slot *slot = NULL;
    vv_status status = VV_OK;

    VV_GO(check_name(module, name));
    VV_GO(check_child(module, name, child));
    VV_GO(slot_add(&module->children, name, &slot));
    slot->u.module = child;
    child->links++;
    take_scope(child, name);
    return VV_OK;
out:
    vv_module_free(child);
    return status;
}

vv_status vv_module_add_param(vv_module *module, const char *name, vv_param *param)
{
    vvi_slot *slot = NULL;
    vv_status status = VV_OK;

    VV_GO(check_name(module, name));
    if (!param)
        return vv_fail(VV_EINVAL, "%s: parameter \"%s\" is NULL; make it first", module->type->name,
                       name);
    VV_GO(slot_add(&module->params, name, &slot));
    slot->u.param = param;
    param->owners++;
    return VV_OK;
out:
    vv_param_free(param);
    return status;
}

vv_status vv_module_add_buffer(vv_module *module, const char *name, vv_tensor *tensor)
{
    vvi_slot *slot = NULL;
    vv_status status = VV_OK;

    VV_GO(check_name(module, name));
    if (!tensor)
        return vv_fail(VV_EINVAL, "%s: buffer \"%s\" is NULL; make it first", module->type->name,
                       name);
    VV_GO(slot_add(&module->buffers, name, &slot));
    slot->u.tensor = tensor;
    return VV_OK;
out:
    vv_tensor_free(tensor);
    return status;
}

vv_status vvi_add_param(vv_module *module, const char *name, int ndim, const int64_t *shape,
                        double fill)
{
    vv_param *param = NULL;

    VV_TRY(vv_param_new(&param, ndim, shape));
    if (fill != 0.0)
        vv_tensor_fill(param->value, fill);
    return vv_module_add_param(module, name, param);
}

vv_status vvi_add_buffer(vv_module *module, const char *name, vv_dtype dtype, int ndim,
                         const int64_t *shape, double fill)
{
    vv_tensor *tensor = NULL;

    VV_TRY(vv_tensor_new(&tensor, dtype, ndim, shape));
    if (fill != 0.0)
        vv_tensor_fill(tensor, fill);
    return vv_module_add_buffer(module, name, tensor);
}

int vv_module_child_count(const vv_module *module)
{
    return module->children.count;
}

vv_module *vv_module_child(const vv_module *module, int i)
{
    return i >= 0 && i < module->children.count ? module->children.items[i].u.module : NULL;
}

const char *vv_module_child_name(const vv_module *module, int i)
{
    return i >= 0 && i < module->children.count ? module->children.items[i].name : NULL;
}

vv_module *vv_module_find(vv_module *module, const char *path)
{
    while (*path) {
        size_t length = strcspn(path, ".");
        const vvi_slot *slot = slot_find(&module->children, path, length);

        if (!slot || (path[length] && !path[length + 1]))
            return NULL;
        module = slot->u.module;
        path += length + (path[length] == '.');
    }
    return module;
}

vv_param *vv_module_param(const vv_module *module, const char *name)
{
    const vvi_slot *slot = slot_find(&module->params, name, strlen(name));

    return slot ? slot->u.param : NULL;
}

vv_tensor *vv_module_buffer(const vv_module *module, const char *name)
{
    const vvi_slot *slot = slot_find(&module->buffers, name, strlen(name));

    return slot ? slot->u.tensor : NULL;
}

vv_module *vvi_module_put(vv_module *module, int i, vv_module *child)
{
    vvi_slot *slot = &module->children.items[i];
    vv_module *old = slot->u.module;

    slot->u.module = child;
    child->links++;
    take_scope(child, slot->name);
    old->links--;
    return old;
}

vv_status vv_module_set_child(vv_module *module, int i, vv_module *child)
{
    vv_status status = VV_OK;

    if (i < 0 || i >= module->children.count) {
        status = vv_fail(VV_EINVAL, "%s: there is no part number %d; it has %d", module->type->name,
                         i, module->children.count);
        goto out;
    }
    VV_GO(check_child(module, module->children.items[i].name, child));
    child = vvi_module_put(module, i, child);
out:
    vv_module_free(child);
    return status;
}

/* ---- use ---- */

vv_node *vv_module_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *y;

    if (!module || !x)
        return NULL;
    if (module->scope[0])
        vv_graph_push_scope(graph, module->scope);
    y = module->type->forward(module, graph, x);
    if (y && module->observe)
        module->observe(module->observe_ctx, module, graph, y);
    if (module->scope[0])
        vv_graph_pop_scope(graph);
    return y;
}

void vv_module_set_training(vv_module *module, bool training)
{
    module->training = training;
    for (int i = 0; i < module->children.count; i++)
        vv_module_set_training(module->children.items[i].u.module, training);
}

void vv_module_observe(vv_module *module, vv_observe_fn fn, void *ctx)
{
    module->observe = fn;
    module->observe_ctx = ctx;
    for (int i = 0; i < module->children.count; i++)
        vv_module_observe(module->children.items[i].u.module, fn, ctx);
}

bool vv_module_training(const vv_module *module)
{
    return module->training;
}

vv_node *vv_module_param_node(vv_module *module, vv_graph *graph, const char *name)
{
    vv_param *param = name ? vv_module_param(module, name) : NULL;

    return param ? vv_leaf(graph, param->value) : NULL;
}
