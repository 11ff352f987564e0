/* layout.h - where epochs are cut into batches: a function of the position alone, in closed
 * form. */
#ifndef VVI_LAYOUT_H
#define VVI_LAYOUT_H

#include <vivace/data.h>

typedef struct vvi_layout {
    int64_t count; /* samples of an epoch */
    bool drop_last;
    vv_loader_stage *stages; /* in order; the first from 0 */
    int stage_count;
} vvi_layout;

typedef struct vvi_place { /* a batch */
    int64_t epoch, batch; /* which of which epoch */
    int64_t first, rows;  /* its samples within the epoch's order */
} vvi_place;

VV_MUST_USE vv_status vvi_layout_init(vvi_layout *layout, int64_t count, int64_t size,
                                      bool drop_last);
void vvi_layout_fini(vvi_layout *layout);
/* Copies the stages; on failure nothing has changed. */
VV_MUST_USE vv_status vvi_layout_set(vvi_layout *layout, const vv_loader_stage *stages, int count);

int64_t vvi_layout_epoch_batches(const vvi_layout *layout, int64_t epoch);
int64_t vvi_layout_epoch_samples(const vvi_layout *layout, int64_t epoch);
/* Batches and samples of all epochs before; either may be NULL. */
void vvi_layout_before(const vvi_layout *layout, int64_t epoch, int64_t *batches,
                       int64_t *samples);
/* Epochs from this one on that are cut alike, INT64_MAX = all. */
int64_t vvi_layout_alike(const vvi_layout *layout, int64_t epoch);
/* A batch of an epoch; of the run. The epochs must have batches. */
vvi_place vvi_layout_at(const vvi_layout *layout, int64_t epoch, int64_t batch);
vvi_place vvi_layout_find(const vvi_layout *layout, int64_t number);
/* The fewest batches from the run's start that have this many samples. */
int64_t vvi_layout_batches_for(const vvi_layout *layout, int64_t samples);
/* Batches that begin before a position: epoch * count + sample. */
int64_t vvi_layout_batches_to(const vvi_layout *layout, int64_t position);

const vvi_layout *vvi_loader_layout(const vv_loader *loader);

#endif
