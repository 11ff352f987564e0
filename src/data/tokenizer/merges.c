/* merges.c - byte-pair merging: of all neighbours that merge, those of the lowest rank come first,
 * from left to right (Sennrich et al. 2016). A heap of candidates keeps long words at n log n. */
#include <string.h>

#include <vivace/memory.h>

#include "data/tokenizer/tokenizer_impl.h"

/* ---- the table ---- */

static size_t place_of(const vvi_merges *merges, uint64_t pair)
{
    const uint64_t mixed = pair * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    return (size_t)(mixed ^ mixed >> 32) & merges->mask;
}

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

vv_status vvi_merges_init(vvi_merges *merges, size_t expected)
{
    size_t places = 16;
    while (places / 2 < expected)
        VV_TRY(vv_size_mul(&places, places, 2));
    VV_TRY(vv_alloc_array(&merges->places, places, sizeof *merges->places));
    for (size_t i = 0; i < places; i++)
        merges->places[i].rank = -1;
    merges->mask = places - 1;
    merges->count = 0;
    return VV_OK;
}

bool vvi_merges_put(vvi_merges *merges, int32_t left, int32_t right, int32_t rank, int32_t id)
{
    const uint64_t pair = pair_of(left, right);
    size_t i = place_of(merges, pair);
    for (; merges->places[i].rank >= 0; i = (i + 1) & merges->mask)
        if (merges->places[i].pair == pair)
            return false;
    merges->places[i] = (vvi_merge){pair, rank, id};
    merges->count++;
    return true;
}

const vvi_merge *vvi_merges_find(const vvi_merges *merges, int32_t left, int32_t right)
{
    if (!merges->places)
        return NULL;
    const uint64_t pair = pair_of(left, right);
    for (size_t i = place_of(merges, pair); merges->places[i].rank >= 0; i = (i + 1) & merges->mask)
        if (merges->places[i].pair == pair)
            return &merges->places[i];
    return NULL;
}

/* ---- merging a word ---- */

typedef struct vvi_candidate {
    uint64_t order; /* rank << 32 | position: what is merged first */
    int32_t left, right, id;
} candidate;

void vvi_merger_fini(vvi_merger *merger)
{
    vv_dealloc(merger->id);
    vv_dealloc(merger->next);
    vv_dealloc(merger->before);
    vv_dealloc(merger->heap);
    *merger = (vvi_merger){0};
}

static vv_status make_room(vvi_merger *merger, size_t count)
{
    size_t room = merger->room ? merger->room : 64;
    if (count <= merger->room)
        return VV_OK;
    while (room < count)
        VV_TRY(vv_size_mul(&room, room, 2));
    merger->room = 0; /* until all four have it */
    VV_TRY(vv_realloc_array(&merger->id, room, sizeof *merger->id));
    VV_TRY(vv_realloc_array(&merger->next, room, sizeof *merger->next));
    VV_TRY(vv_realloc_array(&merger->before, room, sizeof *merger->before));
    /* One candidate for each neighbour at first, and two for each of fewer merges. */
    VV_TRY(vv_realloc_array(&merger->heap, room, 3 * sizeof *merger->heap));
    merger->room = room;
    return VV_OK;
}

static void heap_push(candidate *heap, size_t *size, candidate item)
{
    size_t at = (*size)++;
    while (at > 0 && heap[(at - 1) / 2].order > item.order) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = item;
}

static candidate heap_pop(candidate *heap, size_t *size)
{
    const candidate top = heap[0], item = heap[--*size];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= *size)
            break;
        if (child + 1 < *size && heap[child + 1].order < heap[child].order)
            child++;
        if (heap[child].order >= item.order)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
    return top;
}

static void consider(vvi_merger *merger, const vvi_merges *merges, size_t *size, int32_t at)
{
    const int32_t next = merger->next[at];
    if (next < 0)
        return;
    const vvi_merge *merge = vvi_merges_find(merges, merger->id[at], merger->id[next]);
    if (merge)
        heap_push(merger->heap, size,
                  (candidate){(uint64_t)merge->rank << 32 | (uint32_t)at, merger->id[at],
                              merger->id[next], merge->id});
}

vv_status vvi_merger_run(vvi_merger *merger, const vvi_merges *merges, int32_t *ids, size_t *count)
{
    const size_t n = *count;
    size_t size = 0, left = 0;
    if (n < 2)
        return VV_OK;
    VV_TRY(make_room(merger, n));
    memcpy(merger->id, ids, n * sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        merger->next[i] = i + 1 < n ? (int32_t)(i + 1) : -1;
        merger->before[i] = (int32_t)i - 1;
    }
    for (size_t i = 0; i + 1 < n; i++)
        consider(merger, merges, &size, (int32_t)i);
    while (size > 0) {
        const candidate best = heap_pop(merger->heap, &size);
        const int32_t at = (int32_t)(best.order & 0xffffffffu), next = merger->next[at];
        if (merger->id[at] != best.left || next < 0 || merger->id[next] != best.right)
            continue; /* one of the two has been merged meanwhile */
        merger->id[at] = best.id;
        merger->id[next] = -1;
        merger->next[at] = merger->next[next];
        if (merger->next[at] >= 0)
            merger->before[merger->next[at]] = at;
        if (merger->before[at] >= 0)
            consider(merger, merges, &size, merger->before[at]);
        consider(merger, merges, &size, at);
    }
    for (int32_t at = 0; at >= 0; at = merger->next[at])
        ids[left++] = merger->id[at];
    *count = left;
    return VV_OK;
}
