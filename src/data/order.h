/* order.h - in which order an epoch visits the samples. */
#ifndef VVI_ORDER_H
#define VVI_ORDER_H

#include <vivace/data.h>

/* Two epochs are kept because prefetching runs across the end of one. */
typedef struct vvi_order {
    vv_dataset *dataset; /* may have an order of its own */
    uint64_t seed;
    int64_t count;
    bool shuffle;
    int64_t *perm[2];
    int64_t epoch[2]; /* -1 = empty */
} vvi_order;

VV_MUST_USE vv_status vvi_order_init(vvi_order *order, vv_dataset *dataset, uint64_t seed,
                                     int64_t count, bool shuffle);
/* Samples at positions [first, first + count) of an epoch. */
VV_MUST_USE vv_status vvi_order_get(vvi_order *order, int64_t epoch, int64_t first, int64_t count,
                                    int64_t *out);
void vvi_order_fini(vvi_order *order);

#endif
