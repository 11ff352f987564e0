/* optimizer.c - an optimizer's groups, state and step: one pass over all parameters. */
#include "optim/optimizer.h"

#include <math.h>
#include <string.h>

#include <vivace/graph.h>
#include <vivace/memory.h>

#include "vvi_config.h"

#define VVI_SERIAL_BELOW 32768 /* elements; waking the threads costs more than so small a step */

int vvi_optim_find(const vv_optimizer *optimizer, const vv_param *param, int hint)
{
    int count = optimizer->entry_count;
    for (int i = 0; i < count; i++) {
        int at = (hint + i) % count;
        if (optimizer->entries[at].param->id == param->id)
            return at;
    }
    return -1;
}

void vvi_optim_drop_state(vvi_optim_entry *entry)
{
    for (int i = 0; i < VVI_OPTIM_MAX_STATE; i++) {
        vv_tensor_free(entry->state[i]);
        entry->state[i] = NULL;
    }
    entry->step = 0;
    memset(entry->scalars, 0, sizeof entry->scalars);
}

void vvi_optim_take(vvi_optim_entry *entry, vvi_tree_param *from, int group)
{
    entry->param = vv_param_keep(from->param);
    entry->path = from->path;
    entry->kind = from->kind;
    entry->group = group;
    from->path = NULL;
}

void vvi_optim_release(vvi_optim_entry *entry)
{
    vvi_optim_drop_state(entry);
    vv_param_free(entry->param);
    vv_dealloc(entry->path);
}

/* ---- groups ---- */
static vv_status make_opts(void **out, const vv_optimizer_desc *type, const void *opts)
{
    void *copy = NULL;
    bool filled = false;
    vv_status status = VV_OK;
    *out = NULL;
    VV_GO(vv_alloc(&copy, type->desc.opts_size));
    VV_GO(opts ? vv_opts_copy(&type->desc, copy, opts) : vv_opts_init(&type->desc, copy));
    filled = true;
    VV_GO(vv_opts_check(&type->desc, copy));
    if (type->check)
        VV_GO(type->check(copy));
    *out = copy;
    copy = NULL;
out:
    if (copy && filled)
        vv_opts_fini(&type->desc, copy);
    vv_dealloc(copy);
    return vv_fail_within(status, "optimizer %s", type->desc.name);
}

static void free_opts(const vv_optimizer *optimizer, void *opts)
{
    if (opts)
        vv_opts_fini(&optimizer->type->desc, opts);
    vv_dealloc(opts);
}

/* Appends a group; the caller may take it back by lowering group_count after freeing its options.
 */
static vv_status add_group(vv_optimizer *optimizer, const void *opts)
{
    void *copy = NULL;
    VV_TRY(make_opts(&copy, optimizer->type, opts));
    vv_status status = vv_realloc_array(&optimizer->groups, (size_t)optimizer->group_count + 1,
                                        sizeof *optimizer->groups);
    if (status != VV_OK) {
        free_opts(optimizer, copy);
        return status;
    }
    vvi_optim_group *group = &optimizer->groups[optimizer->group_count++];
    group->opts = copy;
    memcpy(&group->initial_lr, (const char *)copy + optimizer->lr_offset, sizeof group->initial_lr);
    return VV_OK;
}

static vv_status check_type(const vv_optimizer_desc *type, size_t *lr_offset)
{
    if (!type || !type->update)
        return vv_fail(VV_EINVAL, "optimizer: no descriptor with an update function given");
    if (type->state_count < 0 || type->state_count > VVI_OPTIM_MAX_STATE)
        return vv_fail(VV_EINVAL,
                       "optimizer %s: %d state tensors per parameter, at most %d are possible",
                       type->desc.name, type->state_count, VVI_OPTIM_MAX_STATE);
    if (type->scalar_count < 0 || type->scalar_count > VV_OPTIMIZER_MAX_SCALARS ||
        (type->scalar_count > 0 && (!type->scalars_name || !type->advance)))
        return vv_fail(VV_EINVAL,
                       "optimizer %s: at most %d numbers per parameter, with a name and a function",
                       type->desc.name, VV_OPTIMIZER_MAX_SCALARS);
    const vv_field *lr = vv_desc_field(&type->desc, "lr");
    if (!lr || lr->type != VV_FIELD_FLOAT)
        return vv_fail(VV_EINVAL, "optimizer %s: its fields need a float called lr",
                       type->desc.name);
    *lr_offset = lr->offset;
    return VV_OK;
}

vv_status vv_optimizer_new(vv_optimizer **out, const vv_optimizer_desc *desc, const void *opts,
                           vv_module *module)
{
    vv_optimizer *optimizer = NULL;
    vvi_param_list list = {NULL, 0, 0, VV_OK};
    vv_status status = VV_OK;
    size_t lr_offset = 0;
    *out = NULL;
    VV_GO(check_type(desc, &lr_offset));
    VV_GO(vv_alloc(&optimizer, sizeof *optimizer));
    optimizer->type = desc;
    optimizer->lr_offset = lr_offset;
    optimizer->lr_factor = 1.0;
    VV_GO(vv_alloc(&optimizer->self, desc->self_size));
    VV_GO(add_group(optimizer, opts));
    VV_GO(vvi_param_list_of(&list, module));
    if (list.count == 0)
        VV_GO(vv_fail(VV_EINVAL, "optimizer %s: the model has no parameters to train",
                      desc->desc.name));
    VV_GO(vv_alloc_array(&optimizer->entries, (size_t)list.count, sizeof *optimizer->entries));
    for (int i = 0; i < list.count; i++)
        vvi_optim_take(&optimizer->entries[i], &list.items[i], 0);
    optimizer->entry_count = list.count;
    *out = optimizer;
    optimizer = NULL;
out:
    vvi_param_list_fini(&list);
    vv_optimizer_free(optimizer);
    return status;
}

void vv_optimizer_free(vv_optimizer *optimizer)
{
    if (!optimizer)
        return;
    for (int i = 0; i < optimizer->entry_count; i++)
        vvi_optim_release(&optimizer->entries[i]);
    for (int i = 0; i < optimizer->group_count; i++)
        free_opts(optimizer, optimizer->groups[i].opts);
    vv_dealloc(optimizer->entries);
    vv_dealloc(optimizer->groups);
    if (optimizer->self && optimizer->type->fini_self)
        optimizer->type->fini_self(optimizer->self);
    vv_dealloc(optimizer->self);
    vv_dealloc(optimizer->views);
    vv_dealloc(optimizer->roles);
    vv_dealloc(optimizer->items);
    vv_dealloc(optimizer);
}

typedef struct split_walk {
    vv_optimizer *optimizer;
    bool (*match)(void *ctx, const char *path, vv_module *owner, vv_param *param);
    void *ctx;
    unsigned char *chosen; /* per entry */
    int count, hint;
    vv_status status;
} split_walk;

static bool choose(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    split_walk *walk = ctx;
    if (!walk->match(walk->ctx, path, owner, param))
        return true;
    int at = vvi_optim_find(walk->optimizer, param, walk->hint);
    if (at < 0) {
        walk->status = vv_fail(VV_ESTATE,
                               "optimizer %s: parameter %s of the model is not in it; call "
                               "vv_optimizer_sync before splitting groups",
                               walk->optimizer->type->desc.name, path);
        return false;
    }
    walk->hint = at + 1;
    walk->chosen[at] = 1;
    walk->count++;
    return true;
}

vv_status vv_optimizer_split(vv_optimizer *optimizer, vv_module *module,
                             bool (*match)(void *ctx, const char *path, vv_module *owner,
                                           vv_param *param),
                             void *ctx, const void *opts)
{
    vv_status status = VV_OK;
    split_walk walk = {optimizer, match, ctx, NULL, 0, 0, VV_OK};
    VV_GO(vv_alloc_array(&walk.chosen, (size_t)optimizer->entry_count, 1));
    vv_module_each_param(module, choose, &walk);
    VV_GO(walk.status);
    if (walk.count == 0)
        VV_GO(vv_fail(VV_ENOTFOUND,
                      "optimizer %s: no parameter matches the new group; check what it selects by",
                      optimizer->type->desc.name));
    VV_GO(add_group(optimizer, opts));
    for (int i = 0; i < optimizer->entry_count; i++)
        if (walk.chosen[i])
            optimizer->entries[i].group = optimizer->group_count - 1;
    optimizer->sorted = false;
out:
    vv_dealloc(walk.chosen);
    return status;
}

/* ---- the step ---- */
static bool is_active(const vvi_optim_entry *entry)
{
    return !entry->param->frozen && entry->param->grad;
}

/* All that can fail happens here, before the first weight changes. */
static vv_status prepare_entry(vv_optimizer *optimizer, vvi_optim_entry *entry, size_t *items)
{
    const vv_param *param = entry->param;
    const vv_tensor *value = param->value;
    if (!vv_tensor_same_shape(value, param->grad)) {
        char a[128], b[128];
        return vv_fail(
            VV_ESHAPE, "optimizer %s: a parameter of shape %s has a gradient of shape %s",
            optimizer->type->desc.name, vv_shape_text(value->ndim, value->shape, a, sizeof a),
            vv_shape_text(param->grad->ndim, param->grad->shape, b, sizeof b));
    }
    if (value->dtype != VV_F32 || param->grad->dtype != VV_F32)
        return vv_fail(VV_ETYPE,
                       "optimizer %s: a parameter is %s and its gradient %s; both must be f32",
                       optimizer->type->desc.name, vv_dtype_name(value->dtype),
                       vv_dtype_name(param->grad->dtype));
    for (int i = 0; i < optimizer->type->state_count; i++) {
        int ndim;
        int64_t shape[VV_MAX_DIMS];
        if (!entry->state[i] && vvi_optim_state_shape(optimizer, entry, i, &ndim, shape))
            VV_TRY(vv_tensor_new(&entry->state[i], VV_F32, ndim, shape));
    }
    *items += (size_t)((value->count + VVI_OPTIM_CHUNK - 1) / VVI_OPTIM_CHUNK);
    return VV_OK;
}

static vv_status prepare(vv_optimizer *optimizer, size_t *items)
{
    *items = 0;
    for (int i = 0; i < optimizer->entry_count; i++)
        if (is_active(&optimizer->entries[i]))
            VV_TRY(prepare_entry(optimizer, &optimizer->entries[i], items));
    if (*items > optimizer->item_capacity) {
        VV_TRY(vv_realloc_array(&optimizer->items, *items, sizeof *optimizer->items));
        optimizer->item_capacity = *items;
    }
    return VV_OK;
}

static void fill_slot(vvi_optim_entry *entry)
{
    vv_optimizer_slot *slot = &entry->slot;
    *slot = (vv_optimizer_slot){.value = entry->param->value->data,
                                .grad = entry->param->grad->data,
                                .count = entry->param->value->count,
                                .step = entry->step + 1,
                                .scalars = entry->scalars,
                                .scale = 1.0,
                                .role = entry->role};
    for (int i = 0; i < VVI_OPTIM_MAX_STATE; i++)
        slot->state[i] = entry->state[i] ? entry->state[i]->data : NULL;
}

/* Shows all parameters to an optimizer that looks at more than single elements. */
static vv_status direct(vv_optimizer *optimizer)
{
    const int count = optimizer->entry_count;
    for (int i = 0; i < count; i++)
        if (is_active(&optimizer->entries[i]))
            fill_slot(&optimizer->entries[i]);
    if (!optimizer->type->direct)
        return VV_OK;
    for (int i = 0; i < count; i++)
        if (is_active(&optimizer->entries[i]))
            optimizer->views[i].slot = &optimizer->entries[i].slot;
    return vv_fail_within(optimizer->type->direct(optimizer->self, optimizer->views, count),
                          "optimizer %s", optimizer->type->desc.name);
}

/* Counts the step of every active parameter and cuts it into work items; returns the elements. */
static int64_t list_items(vv_optimizer *optimizer)
{
    const vv_optimizer_desc *type = optimizer->type;
    size_t n = 0;
    int64_t elements = 0;
    for (int e = 0; e < optimizer->entry_count; e++) {
        vvi_optim_entry *entry = &optimizer->entries[e];
        if (!is_active(entry))
            continue;
        const vv_optimizer_slot *slot = &entry->slot;
        const vvi_optim_group *group = &optimizer->groups[entry->group];
        entry->step = slot->step;
        if (type->advance)
            type->advance(group->opts, group->initial_lr * optimizer->lr_factor, slot->step,
                          entry->scalars);
        elements += slot->count;
        for (int64_t first = 0; first < slot->count; first += VVI_OPTIM_CHUNK) {
            int64_t last = first + VVI_OPTIM_CHUNK;
            optimizer->items[n++] =
                (vvi_optim_item){e, first, last < slot->count ? last : slot->count};
        }
    }
    return elements;
}

vv_status vv_optimizer_step(vv_optimizer *optimizer)
{
    size_t items = 0;
    VV_TRY(vvi_optim_sort(optimizer));
    VV_TRY(prepare(optimizer, &items));
    VV_TRY(direct(optimizer));
    int64_t elements = list_items(optimizer), count = (int64_t)items;
    (void)elements;
#if VVI_HAVE_OPENMP
#pragma omp parallel for schedule(dynamic, 1) \
    num_threads(vv_threads()) if (count > 1 && elements >= VVI_SERIAL_BELOW)
#endif
    for (int64_t i = 0; i < count; i++) {
        const vvi_optim_item *item = &optimizer->items[i];
        const vvi_optim_entry *entry = &optimizer->entries[item->entry];
        const vvi_optim_group *group = &optimizer->groups[entry->group];
        optimizer->type->update(group->opts, group->initial_lr * optimizer->lr_factor,
                                group->initial_lr, &entry->slot, item->first, item->last);
    }
    return VV_OK;
}

/* ---- weights to evaluate ---- */
bool vv_optimizer_averages(const vv_optimizer *optimizer)
{
    return optimizer->type->evaluated_state > 0;
}

void vv_optimizer_swap(vv_optimizer *optimizer)
{
    const int at = optimizer->type->evaluated_state - 1;
    for (int i = 0; at >= 0 && i < optimizer->entry_count; i++) {
        const vvi_optim_entry *entry = &optimizer->entries[i];
        if (!entry->state[at] || entry->step == 0)
            continue;
        float *a = entry->param->value->data, *b = entry->state[at]->data;
        for (int64_t k = 0; k < entry->param->value->count; k++) {
            const float held = a[k];
            a[k] = b[k];
            b[k] = held;
        }
    }
}

void vv_optimizer_reset(vv_optimizer *optimizer)
{
    for (int i = 0; i < optimizer->entry_count; i++)
        vvi_optim_drop_state(&optimizer->entries[i]);
}

/* ---- looking ---- */
void vv_optimizer_set_lr_factor(vv_optimizer *optimizer, double factor)
{
    optimizer->lr_factor = factor;
}

double vv_optimizer_lr(const vv_optimizer *optimizer, int group)
{
    if (group < 0 || group >= optimizer->group_count)
        return NAN;
    return optimizer->groups[group].initial_lr * optimizer->lr_factor;
}

int vv_optimizer_group_count(const vv_optimizer *optimizer)
{
    return optimizer->group_count;
}

const void *vv_optimizer_group_opts(const vv_optimizer *optimizer, int group)
{
    return group >= 0 && group < optimizer->group_count ? optimizer->groups[group].opts : NULL;
}

int vv_optimizer_group_of(const vv_optimizer *optimizer, const vv_param *param)
{
    const int at = vvi_optim_find(optimizer, param, 0);
    return at < 0 ? -1 : optimizer->entries[at].group;
}

int vv_optimizer_group_size(const vv_optimizer *optimizer, int group)
{
    int count = 0;
    for (int i = 0; i < optimizer->entry_count; i++)
        count += optimizer->entries[i].group == group;
    return count;
}

int vv_optimizer_param_count(const vv_optimizer *optimizer)
{
    return optimizer->entry_count;
}

const vv_optimizer_desc *vv_optimizer_type(const vv_optimizer *optimizer)
{
    return optimizer->type;
}
