/* loader_hooks.c - what methods may change in a loader: images one by one, and the flip. */
#include <string.h>

#include <vivace/memory.h>

#include "data/loader_impl.h"

static vv_status need_images(const vv_loader *loader, const char *what)
{
    if (loader->images)
        return VV_OK;
    return vv_fail(VV_ETYPE, "loader: %s works on u8 images [H,W,C]; data set %s has %s inputs "
                             "with %d dimensions",
                   what, loader->dataset->name, vv_dtype_name(loader->dataset->spec.input_dtype),
                   loader->dataset->spec.input_ndim);
}

static void quiet(const vv_loader *loader)
{
    if (loader->prefetch)
        vvi_prefetch_pause(loader->prefetch);
}

static void take_out(vv_loader *loader, int i)
{
    vv_dealloc(loader->augments[i].name);
    loader->augment_count--;
    memmove(loader->augments + i, loader->augments + i + 1,
            (size_t)(loader->augment_count - i) * sizeof *loader->augments);
}

vv_status vv_loader_set_augment(vv_loader *loader, const char *name, vv_augment_fn fn,
                                const void *ctx)
{
    char *copy = NULL;
    int i = 0;
    if (!name || !name[0])
        return vv_fail(VV_EINVAL, "loader: a change of images needs a name");
    VV_TRY(need_images(loader, name));
    while (i < loader->augment_count && strcmp(loader->augments[i].name, name) != 0)
        i++;
    if (i == loader->augment_count && !fn)
        return VV_OK;
    if (i == loader->augment_count)
        VV_TRY(vv_strdup(&copy, name));
    quiet(loader);
    if (!fn) {
        take_out(loader, i);
        return VV_OK;
    }
    if (copy) {
        const vv_status status =
            vv_realloc_array(&loader->augments, (size_t)i + 1, sizeof *loader->augments);
        if (status != VV_OK) {
            vv_dealloc(copy);
            return status;
        }
        loader->augments[loader->augment_count++].name = copy;
    }
    loader->augments[i].fn = fn;
    loader->augments[i].ctx = ctx;
    return VV_OK;
}

vv_status vv_loader_set_alternating_flip(vv_loader *loader, bool on)
{
    VV_TRY(need_images(loader, "alternating flip"));
    if (on)
        VV_TRY(vv_sample_spec_check_movable(&loader->dataset->spec));
    quiet(loader);
    loader->transform.alternate = on;
    return VV_OK;
}

void vvi_augments_fini(vv_loader *loader)
{
    while (loader->augment_count > 0)
        take_out(loader, loader->augment_count - 1);
    vv_dealloc(loader->augments);
}

vv_status vvi_augments_apply(const vv_loader *loader, int64_t epoch, int64_t index,
                             const void **image, void *scratch)
{
    const vvi_transform *t = &loader->transform;
    if (loader->augment_count == 0)
        return VV_OK;
    if (*image != scratch)
        memcpy(scratch, *image, loader->input_bytes);
    *image = scratch;
    for (int i = 0; i < loader->augment_count; i++) {
        const vvi_augment *a = &loader->augments[i];
        vv_augment_call call = {
            epoch, index, vv_rng_at2(t->seed, a->name, (uint64_t)epoch, (uint32_t)index),
            {t->height, t->width, t->channels}};
        VV_TRY(vv_fail_within(a->fn(a->ctx, &call, scratch,
                                    (uint8_t *)scratch + loader->input_bytes),
                              "%s of sample %lld", a->name, (long long)index));
    }
    return VV_OK;
}
