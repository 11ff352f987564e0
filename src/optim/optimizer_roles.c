/* optimizer_roles.c - what the tree says of each parameter, and what an optimizer makes of it. */
#include <string.h>

#include <vivace/memory.h>

#include "optim/optimizer.h"

/* ---- the tree ---- */

static bool collect(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    vvi_param_list *list = ctx;
    (void)owner;
    if (list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 64;
        list->status = vv_realloc_array(&list->items, (size_t)capacity, sizeof *list->items);
        if (list->status != VV_OK)
            return false;
        list->capacity = capacity;
    }
    vvi_tree_param *item = &list->items[list->count];
    *item = (vvi_tree_param){param, NULL, VV_PARAM_PLAIN};
    list->status = vv_strdup(&item->path, path);
    list->count += list->status == VV_OK;
    return list->status == VV_OK;
}

static void mark(vvi_param_list *list, const vv_param *param, vv_param_kind kind)
{
    for (int i = 0; i < list->count; i++)
        if (list->items[i].param == param && list->items[i].kind == VV_PARAM_PLAIN)
            list->items[i].kind = kind;
}

static bool mark_table(void *ctx, const char *path, vv_module *module)
{
    (void)path;
    if (vv_module_type(module) == &vv_embedding_class)
        mark(ctx, vv_module_param(module, "weight"), VV_PARAM_TABLE);
    return true;
}

/* A head that shares a table's weight is none. */
static void mark_head(vvi_param_list *list, vv_module *module)
{
    const vv_language *language = vv_module_language(module);
    if (language && language->tokens) { /* whatever surgery made of it */
        const vv_module *table = vv_module_find(module, language->tokens);
        if (table)
            mark(list, vv_module_param(table, "weight"), VV_PARAM_TABLE);
    }
    if (language && language->head) {
        const vv_module *head = vv_module_find(module, language->head);
        if (head)
            mark(list, vv_module_param(head, "weight"), VV_PARAM_HEAD);
        return;
    }
    for (int i = list->count - 1; i >= 0; i--)
        if (list->items[i].param->value->ndim >= 2 && list->items[i].kind == VV_PARAM_PLAIN) {
            list->items[i].kind = VV_PARAM_HEAD;
            return;
        }
}

vv_status vvi_param_list_of(vvi_param_list *list, vv_module *module)
{
    *list = (vvi_param_list){NULL, 0, 0, VV_OK};
    if (!module)
        return vv_fail(VV_EINVAL, "optimizer: no module given");
    vv_module_each_param(module, collect, list);
    VV_TRY(list->status);
    vv_module_each(module, mark_table, list);
    mark_head(list, module);
    return VV_OK;
}

void vvi_param_list_fini(vvi_param_list *list)
{
    for (int i = 0; i < list->count; i++)
        vv_dealloc(list->items[i].path);
    vv_dealloc(list->items);
    *list = (vvi_param_list){NULL, 0, 0, VV_OK};
}

/* ---- roles ---- */

static vv_optimizer_view view_of(const vv_optimizer *optimizer, const vvi_optim_entry *entry)
{
    return (vv_optimizer_view){.opts = optimizer->groups[entry->group].opts,
                               .value = entry->param->value, .path = entry->path,
                               .kind = entry->kind, .role = entry->role};
}

static vv_status reserve_views(vv_optimizer *optimizer)
{
    const int count = optimizer->entry_count;
    if (count <= optimizer->view_capacity)
        return VV_OK;
    VV_TRY(vv_realloc_array(&optimizer->views, (size_t)count, sizeof *optimizer->views));
    VV_TRY(vv_realloc_array(&optimizer->roles, (size_t)count, sizeof *optimizer->roles));
    optimizer->view_capacity = count;
    return VV_OK;
}

vv_status vvi_optim_sort(vv_optimizer *optimizer)
{
    const int count = optimizer->entry_count;
    VV_TRY(reserve_views(optimizer));
    for (int i = 0; i < count; i++)
        optimizer->views[i] = view_of(optimizer, &optimizer->entries[i]);
    if (optimizer->sorted || !optimizer->type->sort)
        return VV_OK;
    memset(optimizer->roles, 0, (size_t)count * sizeof *optimizer->roles);
    VV_TRY(vv_fail_within(optimizer->type->sort(optimizer->views, count, optimizer->roles),
                          "optimizer %s", optimizer->type->desc.name));
    for (int i = 0; i < count; i++) {
        vvi_optim_entry *entry = &optimizer->entries[i];
        if (entry->role != optimizer->roles[i])
            vvi_optim_drop_state(entry);
        entry->role = optimizer->views[i].role = optimizer->roles[i];
    }
    optimizer->sorted = true;
    return VV_OK;
}

bool vvi_optim_state_shape(const vv_optimizer *optimizer, const vvi_optim_entry *entry, int i,
                           int *ndim, int64_t *shape)
{
    const vv_optimizer_desc *type = optimizer->type;
    const vv_tensor *value = entry->param->value;
    *ndim = value->ndim;
    memcpy(shape, value->shape, (size_t)value->ndim * sizeof *shape);
    if (type->uses_state && !type->uses_state(optimizer->groups[entry->group].opts, i))
        return false;
    const vv_optimizer_view view = view_of(optimizer, entry);
    return !type->state_shape || type->state_shape(&view, i, ndim, shape);
}
