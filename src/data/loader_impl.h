/* loader_impl.h - what loader.c and prefetch.c share. */
#ifndef VVI_LOADER_IMPL_H
#define VVI_LOADER_IMPL_H

#include <pthread.h>

#include <vivace/data.h>

#include "data/batch.h"
#include "data/layout.h"
#include "data/order.h"
#include "data/transform.h"

typedef struct vvi_prefetch vvi_prefetch;

typedef struct vvi_augment {
    char *name;
    vv_augment_fn fn;
    const void *ctx;
} vvi_augment;

struct vv_loader {
    vv_dataset *dataset;
    vv_loader_opts opts;
    int64_t count;   /* samples in use */
    vvi_layout layout; /* which are in which batch; changed only while no worker is at work */
    bool images;     /* u8 images go through the transform; everything else is copied */
    size_t input_bytes, target_bytes; /* of one sample in the data set */
    vvi_transform transform;
    vvi_augment *augments; /* in order; changed only while no worker is at work */
    int augment_count;
    vvi_order order; /* under the prefetcher's lock, if there is one */
    int64_t told; /* position, over all epochs, up to which the set's `soon` was told; like order */
    vvi_batch_pool *pool;
    void *scratch;        /* two raw inputs, for the caller's thread */
    int64_t epoch, batch; /* where the caller is */
    double wait_seconds;
    vvi_prefetch *prefetch; /* NULL with 0 workers */
};

/* Position on the axis of all batches of all epochs. */
static inline int64_t vvi_loader_ticket(const vv_loader *loader)
{
    int64_t before;
    vvi_layout_before(&loader->layout, loader->epoch, &before, NULL);
    return before + loader->batch;
}

/* Takes a batch from the pool and writes down which samples belong in it. Not thread-safe. */
VV_MUST_USE vv_status vvi_loader_begin(vv_loader *loader, int64_t ticket, VV_OWNED vv_batch **out);
/* Reads and transforms its samples. `scratch` has room for two raw inputs. Any thread. */
VV_MUST_USE vv_status vvi_loader_fill(const vv_loader *loader, vv_batch *batch, void *scratch);

VV_MUST_USE vv_status vvi_prefetch_new(VV_OWNED vvi_prefetch **out, vv_loader *loader);
/* Waits for workers at work, drops what they have made, and keeps them still until the next seek or
   next. */
void vvi_prefetch_pause(vvi_prefetch *prefetch);
void vvi_augments_fini(vv_loader *loader);
/* All changes on one raw image; `scratch` has room for two. *image = the result, the raw image
   itself if there is no change. */
VV_MUST_USE vv_status vvi_augments_apply(const vv_loader *loader, int64_t epoch, int64_t index,
                                         const void **image, void *scratch);
/* Stops and joins the threads. */
void vvi_prefetch_free(VV_TAKES vvi_prefetch *prefetch);
/* Work starts over at this ticket. */
void vvi_prefetch_seek(vvi_prefetch *prefetch, int64_t ticket);
/* The batch of this ticket, which must be the next in order. */
VV_MUST_USE vv_status vvi_prefetch_next(vvi_prefetch *prefetch, int64_t ticket,
                                        VV_OWNED vv_batch **out);

#endif
