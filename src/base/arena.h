/* arena.h - memory for one step: taken piece by piece, given back all at once. */
#ifndef VVI_ARENA_H
#define VVI_ARENA_H

#include <vivace/status.h>

typedef struct vvi_arena_chunk vvi_arena_chunk;
typedef struct vvi_arena {
    vvi_arena_chunk *chunks; /* newest first */
    size_t used;             /* in the newest chunk */
    size_t total;            /* taken since the last reset */
} vvi_arena;

/* Zeroed, 64-byte aligned memory; NULL (with a sentence) when there is none. */
void *vvi_arena_alloc(vvi_arena *arena, size_t bytes);
char *vvi_arena_text(vvi_arena *arena, const char *text);
/* Gives everything back; keeps one chunk large enough for what the last step took. */
void vvi_arena_reset(vvi_arena *arena);
void vvi_arena_fini(vvi_arena *arena);

#endif
