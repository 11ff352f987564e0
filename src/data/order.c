/* order.c - the permutation of an epoch: a pure function of (seed, epoch). */
#include "data/order.h"

#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>
#include <vivace/rng.h>

vv_status vvi_order_init(vvi_order *order, vv_dataset *dataset, uint64_t seed, int64_t count,
                         bool shuffle)
{
    memset(order, 0, sizeof *order);
    order->dataset = dataset;
    order->seed = seed;
    order->count = count;
    order->shuffle = shuffle;
    order->epoch[0] = order->epoch[1] = -1;
    if (!shuffle)
        return VV_OK;
    for (int i = 0; i < 2; i++) {
        vv_status status = vv_alloc_array(&order->perm[i], (size_t)count, sizeof(int64_t));
        if (status != VV_OK) {
            vvi_order_fini(order);
            return status;
        }
    }
    return VV_OK;
}

vv_status vvi_order_get(vvi_order *order, int64_t epoch, int64_t first, int64_t count, int64_t *out)
{
    vv_dataset *dataset = order->dataset;
    if (!order->shuffle) {
        for (int64_t i = 0; i < count; i++)
            out[i] = first + i;
        return VV_OK;
    }
    if (count == 0)
        return VV_OK;
    const int slot = (int)(epoch & 1);
    if (order->epoch[slot] != epoch) {
        order->epoch[slot] = -1;
        if (dataset->type->order) {
            VV_TRY(dataset->type->order(dataset, order->seed, epoch, order->count,
                                        order->perm[slot]));
        } else {
            vv_rng rng = vv_rng_at(order->seed, "shuffle", (uint64_t)epoch);
            vv_rng_permutation(&rng, order->perm[slot], order->count);
        }
        order->epoch[slot] = epoch;
    }
    memcpy(out, order->perm[slot] + first, (size_t)count * sizeof *out);
    return VV_OK;
}

vv_status vv_order_windows(int64_t *out, int64_t count, const int64_t *first, int64_t groups,
                           int64_t window, uint64_t seed, int64_t epoch)
{
    int64_t *order;
    if (count < 0 || groups < 1 || window < 1 || first[0] != 0)
        return vv_fail(VV_EINVAL, "an order of %lld samples in %lld groups and windows of %lld: "
                                  "expected at least one of each", (long long)count,
                       (long long)groups, (long long)window);
    VV_TRY(vv_alloc_array(&order, (size_t)groups, sizeof *order));
    vv_rng rng = vv_rng_at(seed, "groups", (uint64_t)epoch);
    vv_rng_permutation(&rng, order, groups);
    int64_t at = 0;
    for (int64_t g = 0; g < groups; g++) {
        const int64_t end = order[g] + 1 < groups ? first[order[g] + 1] : count;
        for (int64_t i = first[order[g]]; i < end && i < count; i++)
            out[at++] = i;
    }
    vv_dealloc(order);
    rng = vv_rng_at(seed, "window", (uint64_t)epoch);
    for (int64_t from = 0; from < count; from += window) {
        const int64_t size = count - from < window ? count - from : window;
        for (int64_t i = size - 1; i > 0; i--) { /* Fisher and Yates */
            const int64_t k = vv_rng_below(&rng, i + 1), held = out[from + i];
            out[from + i] = out[from + k];
            out[from + k] = held;
        }
    }
    return VV_OK;
}

void vvi_order_fini(vvi_order *order)
{
    vv_dealloc(order->perm[0]);
    vv_dealloc(order->perm[1]);
    order->perm[0] = order->perm[1] = NULL;
}
