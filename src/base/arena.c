/* arena.c - memory for one step: taken piece by piece, given back all at once. */
#include "base/arena.h"

#include <string.h>

#include <vivace/memory.h>

struct vvi_arena_chunk {
    vvi_arena_chunk *next;
    size_t bytes;
    char *data;
};

enum { FIRST_CHUNK = 64 * 1024, ALIGN = 64 };

static bool add_chunk(vvi_arena *arena, size_t bytes)
{
    vvi_arena_chunk *chunk;
    if (vv_alloc(&chunk, sizeof *chunk) != VV_OK)
        return false;
    if (vv_alloc_aligned(&chunk->data, bytes) != VV_OK) {
        vv_dealloc(chunk);
        return false;
    }
    chunk->bytes = bytes;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->used = 0;
    return true;
}

void *vvi_arena_alloc(vvi_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 4) {
        vv_fail(VV_ENOMEM, "out of memory: a step asked for %zu bytes", bytes);
        return NULL;
    }
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    vvi_arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->bytes - arena->used < bytes) {
        size_t want = chunk ? 2 * chunk->bytes : FIRST_CHUNK;
        if (!add_chunk(arena, want > bytes ? want : bytes))
            return NULL;
        chunk = arena->chunks;
    }
    void *out = chunk->data + arena->used;
    arena->used += bytes;
    arena->total += bytes;
    memset(out, 0, bytes);
    return out;
}

char *vvi_arena_text(vvi_arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = vvi_arena_alloc(arena, bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

static void free_chunks(vvi_arena_chunk *chunk)
{
    while (chunk) {
        vvi_arena_chunk *next = chunk->next;
        vv_dealloc(chunk->data);
        vv_dealloc(chunk);
        chunk = next;
    }
}

void vvi_arena_reset(vvi_arena *arena)
{
    /* The newest chunk is the largest; if it was not enough alone, the next step's first chunk is
       made to hold all of this one's. */
    if (arena->chunks && arena->chunks->next) {
        size_t want = arena->total + arena->total / 4;
        free_chunks(arena->chunks);
        arena->chunks = NULL;
        if (!add_chunk(arena, want))
            vv_error_clear(); /* not fatal: the next allocation tries again and reports */
    }
    arena->used = 0;
    arena->total = 0;
}

void vvi_arena_fini(vvi_arena *arena)
{
    free_chunks(arena->chunks);
    *arena = (vvi_arena){0};
}
