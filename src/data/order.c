/* order.c - the permutation of an epoch: a pure function of (seed, epoch). */
#include "data/order.h"

#include <string.h>

#include <vivace/memory.h>
#include <vivace/rng.h>

vv_status vvi_order_init(vvi_order *order, uint64_t seed, int64_t count, bool shuffle)
{
    memset(order, 0, sizeof *order);
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

void vvi_order_get(vvi_order *order, int64_t epoch, int64_t first, int64_t count, int64_t *out)
{
    if (!order->shuffle) {
        for (int64_t i = 0; i < count; i++)
            out[i] = first + i;
        return;
    }
    if (count == 0)
        return;
    const int slot = (int)(epoch & 1);
    if (order->epoch[slot] != epoch) {
        vv_rng rng = vv_rng_at(order->seed, "shuffle", (uint64_t)epoch);
        vv_rng_permutation(&rng, order->perm[slot], order->count);
        order->epoch[slot] = epoch;
    }
    memcpy(out, order->perm[slot] + first, (size_t)count * sizeof *out);
}

void vvi_order_fini(vvi_order *order)
{
    vv_dealloc(order->perm[0]);
    vv_dealloc(order->perm[1]);
    order->perm[0] = order->perm[1] = NULL;
}
