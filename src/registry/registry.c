/* registry.c - finding descriptors by kind and name. Every descriptor starts with its vv_desc, so
 * all tables can be read alike. */
#include <vivace/registry.h>

#include <string.h>

#include <vivace/losses.h>
#include <vivace/memory.h>

#include "registry/registry_table.h"

/* A table of pointers to descriptors, whatever their kind. */
typedef const void *const *table;

static table optimizers(void)
{
    return (table)(const void *)vv_optimizer_table();
}

static table schedules(void)
{
    return (table)(const void *)vv_schedule_table();
}

static table metrics(void)
{
    return (table)(const void *)vv_metric_table();
}

static table losses(void)
{
    return (table)(const void *)vv_loss_table();
}

/* The table of a kind, singular or plural; *singular = the kind's name as sentences use it. */
static table table_of(const char *kind, const char **singular)
{
    static const struct {
        const char *name;
        const void *table; /* NULL: asked from built_in */
        table (*built_in)(void);
    } kinds[] = {
        {"method", vvi_method_table, NULL},     {"model", vvi_model_table, NULL},
        {"dataset", vvi_dataset_table, NULL},   {"callback", vvi_callback_table, NULL},
        {"logger", vvi_logger_table, NULL},     {"optimizer", NULL, optimizers},
        {"schedule", NULL, schedules},          {"metric", NULL, metrics},
        {"loss", NULL, losses},
    };
    *singular = "";
    size_t length = kind ? strlen(kind) : 0;
    if (length > 4 && strcmp(kind + length - 4, "sses") == 0)
        length -= 2; /* losses */
    else if (length > 1 && kind[length - 1] == 's' && kind[length - 2] != 's')
        length--;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i].name) == length && strncmp(kinds[i].name, kind, length) == 0) {
            *singular = kinds[i].name;
            return kinds[i].table ? kinds[i].table : kinds[i].built_in();
        }
    return NULL;
}

const vv_desc *vv_registry_at(const char *kind, int i)
{
    const char *singular;
    table rows = table_of(kind, &singular);
    for (int k = 0; rows && rows[k]; k++)
        if (k == i)
            return rows[k];
    return NULL;
}

static const char *name_at(const void *ctx, int i)
{
    return vv_registry_at(ctx, i)->name;
}

vv_status vv_registry_find(const vv_desc **out, const char *kind, const char *name)
{
    const char *singular;
    *out = NULL;
    if (!table_of(kind, &singular))
        return vv_fail(
            VV_EINVAL,
            "'%s' is not a kind of thing; kinds are methods, models, datasets, optimizers, "
            "schedules, callbacks, loggers, metrics, losses",
            kind ? kind : "");
    if (!name)
        return vv_fail(VV_EINVAL, "%s: no name was given", singular);
    int count = 0;
    for (const vv_desc *desc; (desc = vv_registry_at(kind, count)); count++)
        if (strcmp(desc->name, name) == 0) {
            *out = desc;
            return VV_OK;
        }
    int near = vv_nearest(name, name_at, kind, count);
    if (near >= 0)
        return vv_fail(VV_ENOTFOUND, "there is no %s called '%s'; did you mean '%s'?", singular,
                       name, name_at(kind, near));
    return vv_fail(VV_ENOTFOUND, "there is no %s called '%s'; see `vivace list %ss`", singular,
                   name, singular);
}

#define DEFINE_FIND(kind)                                                                          \
    vv_status vv_##kind##_find(const vv_##kind##_desc **out, const char *name)                     \
    {                                                                                              \
        const vv_desc *desc;                                                                       \
        vv_status status = vv_registry_find(&desc, #kind, name);                                   \
        *out = (const vv_##kind##_desc *)(const void *)desc;                                       \
        return status;                                                                             \
    }
DEFINE_FIND(method)
DEFINE_FIND(model)
DEFINE_FIND(dataset)
DEFINE_FIND(callback)
DEFINE_FIND(logger)

vv_status vv_method_make(vv_method **out, const char *name, const char *settings)
{
    *out = NULL;
    const vv_method_desc *desc;
    VV_TRY(vv_method_find(&desc, name));
    void *opts = NULL;
    VV_TRY(vv_alloc(&opts, desc->desc.opts_size + 1));
    vv_status status = vv_opts_init(&desc->desc, opts);
    if (status == VV_OK) {
        if (settings && settings[0])
            status = vv_opts_set_all(&desc->desc, opts, settings);
        if (status == VV_OK)
            status = vv_method_new(out, desc, opts);
        vv_opts_fini(&desc->desc, opts);
    }
    vv_dealloc(opts);
    return status;
}
