/* word_counts.c - how often each word occurs. */
#include "data/text/word_counts.h"

#include <string.h>

#include <vivace/memory.h>

static uint64_t hash_of(const unsigned char *word, size_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ word[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

static vv_status more_places(vvi_word_counts *counts)
{
    const size_t places = counts->places ? 2 * (counts->mask + 1) : 1024;
    vvi_word_count *grown;
    VV_TRY(vv_alloc_array(&grown, places, sizeof *grown));
    for (size_t i = 0; counts->places && i <= counts->mask; i++) {
        if (counts->places[i].bytes == 0)
            continue;
        size_t at = (size_t)counts->places[i].hash & (places - 1);
        while (grown[at].bytes)
            at = (at + 1) & (places - 1);
        grown[at] = counts->places[i];
    }
    vv_dealloc(counts->places);
    counts->places = grown;
    counts->mask = places - 1;
    return VV_OK;
}

vvi_word_count *vvi_word_counts_find(const vvi_word_counts *counts, const unsigned char *word,
                                     size_t bytes)
{
    const uint64_t hash = hash_of(word, bytes);
    if (!counts->places)
        return NULL;
    for (size_t at = (size_t)hash & counts->mask; counts->places[at].bytes;
         at = (at + 1) & counts->mask) {
        vvi_word_count *place = &counts->places[at];
        if (place->hash == hash && place->bytes == bytes &&
            memcmp(counts->letters + place->text, word, bytes) == 0)
            return place;
    }
    return NULL;
}

vv_status vvi_word_counts_add(vvi_word_counts *counts, const unsigned char *word, size_t bytes,
                              int64_t count)
{
    const uint64_t hash = hash_of(word, bytes);
    vvi_word_count *known = vvi_word_counts_find(counts, word, bytes);
    if (known)
        known->count += count;
    if (known || bytes == 0)
        return VV_OK;
    if (!counts->places || counts->used >= (counts->mask + 1) / 2)
        VV_TRY(more_places(counts));
    size_t at = (size_t)hash & counts->mask;
    while (counts->places[at].bytes)
        at = (at + 1) & counts->mask;
    if (counts->letters_room - counts->letters_used < bytes) {
        size_t room = counts->letters_room ? counts->letters_room : 4096;
        while (room - counts->letters_used < bytes)
            VV_TRY(vv_size_mul(&room, room, 2));
        VV_TRY(vv_realloc_array(&counts->letters, room, 1));
        counts->letters_room = room;
    }
    memcpy(counts->letters + counts->letters_used, word, bytes);
    counts->places[at] = (vvi_word_count){hash, counts->letters_used, (uint32_t)bytes, count};
    counts->letters_used += bytes;
    counts->used++;
    return VV_OK;
}

void vvi_word_counts_fini(vvi_word_counts *counts)
{
    vv_dealloc(counts->places);
    vv_dealloc(counts->letters);
    *counts = (vvi_word_counts){0};
}
