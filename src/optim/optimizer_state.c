/* optimizer_state.c - an optimizer's state by the names of the parameters, for checkpoints. */
#include <string.h>

#include <vivace/memory.h>
#include <vivace/str.h>

#include "optim/optimizer.h"

typedef struct state_walk {
    vv_optimizer *optimizer;
    int hint;
    vv_str name;
    vv_status status;
    /* each_state */
    vv_state_fn fn;
    bool stopped;
    /* load */
    const vv_tensor *(*find)(void *ctx, const char *name);
    void *ctx;
    bool partial;
    vvi_optim_entry *loaded; /* per entry: step and state to come */
} state_walk;

static int find_entry(state_walk *walk, const char *path, const vv_param *param)
{
    int at = vvi_optim_find(walk->optimizer, param, walk->hint);
    if (at < 0)
        walk->status = vv_fail(VV_EINTERNAL,
                               "optimizer %s does not hold the model's parameter %s; call "
                               "vv_optimizer_sync after changing the model",
                               walk->optimizer->type->desc.name, path);
    walk->hint = at + 1;
    return at;
}

static vv_status set_name(state_walk *walk, const char *path, const char *part)
{
    vv_str_clear(&walk->name);
    vv_str_addf(&walk->name, "%s.%s", path, part);
    return vv_str_status(&walk->name);
}

/* ---- out ---- */
static vv_status give_entry(state_walk *walk, const char *path, const vvi_optim_entry *entry)
{
    const vv_optimizer_desc *type = walk->optimizer->type;
    for (int i = 0; entry->step > 0 && i < type->state_count; i++) {
        if (!entry->state[i])
            continue;
        VV_TRY(set_name(walk, path, type->state_names[i]));
        walk->stopped = !walk->fn(walk->ctx, vv_str_text(&walk->name), entry->state[i]);
        if (walk->stopped)
            return VV_OK;
    }
    if (entry->step > 0 && type->scalar_count > 0) {
        vv_tensor *scalars = NULL;
        const int64_t count = type->scalar_count;
        VV_TRY(set_name(walk, path, type->scalars_name));
        VV_TRY(vv_tensor_from(&scalars, VV_F64, 1, &count, entry->scalars));
        walk->stopped = !walk->fn(walk->ctx, vv_str_text(&walk->name), scalars);
        vv_tensor_free(scalars);
        if (walk->stopped)
            return VV_OK;
    }
    vv_tensor *step = NULL; /* fresh each time: the receiver may keep it */
    VV_TRY(set_name(walk, path, "step"));
    VV_TRY(vv_tensor_from(&step, VV_I64, 0, NULL, &entry->step));
    walk->stopped = !walk->fn(walk->ctx, vv_str_text(&walk->name), step);
    vv_tensor_free(step);
    return VV_OK;
}

static bool give_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    state_walk *walk = ctx;
    (void)owner;
    int at = find_entry(walk, path, param);
    if (at >= 0)
        walk->status = give_entry(walk, path, &walk->optimizer->entries[at]);
    return walk->status == VV_OK && !walk->stopped;
}

vv_status vv_optimizer_each_state(vv_optimizer *optimizer, vv_module *module, vv_state_fn fn,
                                  void *ctx)
{
    state_walk walk = {.optimizer = optimizer, .fn = fn, .ctx = ctx};
    vv_module_each_param(module, give_param, &walk);
    vv_str_fini(&walk.name);
    return walk.status;
}

/* ---- in ---- */
static vv_status take_tensor(state_walk *walk, const char *path, const char *part,
                             const vv_tensor **out)
{
    VV_TRY(set_name(walk, path, part));
    *out = walk->find(walk->ctx, vv_str_text(&walk->name));
    if (!*out)
        return vv_fail(
            VV_ENOTFOUND,
            "optimizer %s: the saved state has no \"%s\"; it was saved from another model "
            "or another optimizer",
            walk->optimizer->type->desc.name, vv_str_text(&walk->name));
    return VV_OK;
}

/* Whether everything an entry needs is there. */
static vv_status has_state(state_walk *walk, const char *path, const vvi_optim_entry *entry,
                           bool *out)
{
    const vv_optimizer_desc *type = walk->optimizer->type;
    VV_TRY(set_name(walk, path, "step"));
    const vv_tensor *step = walk->find(walk->ctx, vv_str_text(&walk->name));
    *out = step != NULL;
    bool fresh = step && step->dtype == VV_I64 && step->count == 1 &&
                 *(const int64_t *)step->data == 0;
    for (int i = 0; *out && !fresh && i < type->state_count; i++) {
        int ndim;
        int64_t shape[VV_MAX_DIMS];
        if (!vvi_optim_state_shape(walk->optimizer, entry, i, &ndim, shape))
            continue;
        VV_TRY(set_name(walk, path, type->state_names[i]));
        *out = walk->find(walk->ctx, vv_str_text(&walk->name)) != NULL;
    }
    return VV_OK;
}

static vv_status take_step(state_walk *walk, const char *path, int64_t *out)
{
    const vv_tensor *step = NULL;
    VV_TRY(take_tensor(walk, path, "step", &step));
    if (step->dtype != VV_I64 || step->count != 1 || *(const int64_t *)step->data < 0)
        return vv_fail(VV_EFORMAT, "optimizer %s: \"%s\" must be one i64 number, 0 or more",
                       walk->optimizer->type->desc.name, vv_str_text(&walk->name));
    *out = *(const int64_t *)step->data;
    return VV_OK;
}

static vv_status take_entry(state_walk *walk, const char *path, const vvi_optim_entry *entry,
                            vvi_optim_entry *loaded)
{
    const vv_optimizer_desc *type = walk->optimizer->type;
    bool there = true;
    if (walk->partial)
        VV_TRY(has_state(walk, path, entry, &there));
    if (!there)
        return VV_OK;
    VV_TRY(take_step(walk, path, &loaded->step));
    for (int i = 0; loaded->step > 0 && i < type->state_count; i++) {
        int ndim;
        int64_t shape[VV_MAX_DIMS];
        if (!vvi_optim_state_shape(walk->optimizer, entry, i, &ndim, shape))
            continue;
        const vv_tensor *saved = NULL;
        VV_TRY(take_tensor(walk, path, type->state_names[i], &saved));
        if (saved->dtype != VV_F32 || saved->ndim != ndim ||
            memcmp(saved->shape, shape, (size_t)ndim * sizeof *shape) != 0) {
            char a[128], b[128];
            return vv_fail(VV_ESHAPE, "optimizer %s: \"%s\" is %s %s, the parameter needs f32 %s",
                           type->desc.name, vv_str_text(&walk->name), vv_dtype_name(saved->dtype),
                           vv_shape_text(saved->ndim, saved->shape, a, sizeof a),
                           vv_shape_text(ndim, shape, b, sizeof b));
        }
        VV_TRY(vv_tensor_clone(&loaded->state[i], saved));
    }
    if (loaded->step > 0 && type->scalar_count > 0) {
        const vv_tensor *saved = NULL;
        VV_TRY(take_tensor(walk, path, type->scalars_name, &saved));
        if (saved->dtype != VV_F64 || saved->count != type->scalar_count)
            return vv_fail(VV_EFORMAT, "optimizer %s: \"%s\" must be %d f64 numbers",
                           type->desc.name, vv_str_text(&walk->name), type->scalar_count);
        memcpy(loaded->scalars, saved->data, saved->bytes);
    }
    return VV_OK;
}

static bool take_param(void *ctx, const char *path, vv_module *owner, vv_param *param)
{
    state_walk *walk = ctx;
    (void)owner;
    int at = find_entry(walk, path, param);
    if (at >= 0)
        walk->status = take_entry(walk, path, &walk->optimizer->entries[at], &walk->loaded[at]);
    return walk->status == VV_OK;
}

static vv_status load(vv_optimizer *optimizer, vv_module *module,
                      const vv_tensor *(*find)(void *ctx, const char *name), void *ctx,
                      bool partial)
{
    state_walk walk = {.optimizer = optimizer, .find = find, .ctx = ctx, .partial = partial};
    vv_status status;
    VV_TRY(vv_optimizer_check(optimizer, module));
    VV_TRY(vvi_optim_sort(optimizer));
    VV_GO(vv_alloc_array(&walk.loaded, (size_t)optimizer->entry_count, sizeof *walk.loaded));
    vv_module_each_param(module, take_param, &walk);
    VV_GO(walk.status);
    for (int i = 0; i < optimizer->entry_count; i++) {
        vvi_optim_entry *entry = &optimizer->entries[i];
        vvi_optim_drop_state(entry);
        entry->step = walk.loaded[i].step;
        memcpy(entry->scalars, walk.loaded[i].scalars, sizeof entry->scalars);
        for (int s = 0; s < VVI_OPTIM_MAX_STATE; s++) {
            entry->state[s] = walk.loaded[i].state[s];
            walk.loaded[i].state[s] = NULL;
        }
    }
out:
    for (int i = 0; walk.loaded && i < optimizer->entry_count; i++)
        vvi_optim_drop_state(&walk.loaded[i]);
    vv_dealloc(walk.loaded);
    vv_str_fini(&walk.name);
    return status;
}

vv_status vv_optimizer_load(vv_optimizer *optimizer, vv_module *module,
                            const vv_tensor *(*find)(void *ctx, const char *name), void *ctx)
{
    return load(optimizer, module, find, ctx, false);
}

vv_status vv_optimizer_load_partial(vv_optimizer *optimizer, vv_module *module,
                                    const vv_tensor *(*find)(void *ctx, const char *name),
                                    void *ctx)
{
    return load(optimizer, module, find, ctx, true);
}
