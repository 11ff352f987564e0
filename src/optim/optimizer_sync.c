/* optimizer_sync.c - keeps an optimizer's parameters those of a tree that was re-wired. */
#include <string.h>

#include <vivace/memory.h>

#include "optim/optimizer.h"

/* The group added parameters join: the only one, or the one that the removed ones lived in. */
static vv_status infer_group(const vv_optimizer *optimizer, const unsigned char *in_tree, int added,
                             int *out)
{
    *out = 0;
    if (optimizer->group_count == 1 || added == 0)
        return VV_OK;
    int group = -1;
    for (int i = 0; i < optimizer->entry_count; i++) {
        if (in_tree[i])
            continue;
        if (group >= 0 && optimizer->entries[i].group != group)
            return vv_fail(VV_ESTATE,
                           "optimizer %s: the removed parameters lived in groups %d and %d, so the "
                           "group of the %d added ones is open; use one group, or change the model "
                           "before making the optimizer",
                           optimizer->type->desc.name, group, optimizer->entries[i].group, added);
        group = optimizer->entries[i].group;
    }
    if (group < 0)
        return vv_fail(
            VV_ESTATE,
            "optimizer %s: %d parameters were added and none removed, so which of the %d "
            "groups they join is open; use one group, or change the model before making "
            "the optimizer",
            optimizer->type->desc.name, added, optimizer->group_count);
    *out = group;
    return VV_OK;
}

/* Paths and kinds as the tree has them now. */
static void refresh(vvi_optim_entry *entries, int count, vvi_param_list *tree)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < tree->count; k++) {
            vvi_tree_param *from = &tree->items[k];
            if (from->param->id != entries[i].param->id || !from->path)
                continue;
            vv_dealloc(entries[i].path);
            entries[i].path = from->path;
            entries[i].kind = from->kind;
            from->path = NULL;
        }
}

vv_status vv_optimizer_sync(vv_optimizer *optimizer, vv_module *module)
{
    vvi_param_list tree = {NULL, 0, 0, VV_OK};
    unsigned char *in_tree = NULL, *known = NULL;
    vvi_optim_entry *entries = NULL;
    int added = 0, group = 0, hint = 0, n = 0;
    vv_status status = VV_OK;
    VV_GO(vvi_param_list_of(&tree, module));
    VV_GO(vv_alloc_array(&in_tree, (size_t)optimizer->entry_count, 1));
    VV_GO(vv_alloc_array(&known, (size_t)tree.count, 1));
    VV_GO(vv_alloc_array(&entries, (size_t)tree.count, sizeof *entries));
    for (int i = 0; i < tree.count; i++) {
        int at = vvi_optim_find(optimizer, tree.items[i].param, hint);
        if (at < 0) {
            added++;
            continue;
        }
        known[i] = in_tree[at] = 1;
        hint = at + 1;
    }
    VV_GO(infer_group(optimizer, in_tree, added, &group));
    for (int i = 0; i < optimizer->entry_count; i++) {
        if (in_tree[i]) {
            entries[n++] = optimizer->entries[i];
        } else {
            vvi_optim_release(&optimizer->entries[i]);
        }
    }
    for (int i = 0; i < tree.count; i++) {
        if (known[i])
            continue;
        vvi_optim_take(&entries[n++], &tree.items[i], group);
    }
    refresh(entries, n, &tree);
    optimizer->sorted = false;
    vv_dealloc(optimizer->entries);
    optimizer->entries = entries;
    optimizer->entry_count = n;
    entries = NULL;
out:
    vv_dealloc(entries);
    vv_dealloc(known);
    vv_dealloc(in_tree);
    vvi_param_list_fini(&tree);
    return status;
}

typedef struct check_walk {
    const vv_optimizer *optimizer;
    int hint, found;
    vv_status status;
} check_walk;

static bool check_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    check_walk *walk = ctx;
    (void)owner;
    int at = vvi_optim_find(walk->optimizer, param, walk->hint);
    if (at < 0) {
        walk->status = vv_fail(VV_EINTERNAL,
                               "optimizer %s does not hold the model's parameter %s; call "
                               "vv_optimizer_sync after changing the model",
                               walk->optimizer->type->desc.name, path);
        return false;
    }
    walk->hint = at + 1;
    walk->found++;
    return true;
}

vv_status vv_optimizer_check(const vv_optimizer *optimizer, vv_module *module)
{
    check_walk walk = {optimizer, 0, 0, VV_OK};
    vv_module_each_param(module, check_param, &walk);
    VV_TRY(walk.status);
    if (walk.found != optimizer->entry_count)
        return vv_fail(
            VV_EINTERNAL,
            "optimizer %s holds %d parameters that are no longer in the model (it has %d); "
            "call vv_optimizer_sync after changing the model",
            optimizer->type->desc.name, optimizer->entry_count - walk.found, walk.found);
    return VV_OK;
}
