/* memory.h - the library's only way to the heap, so that tests can fail each allocation once. */
#ifndef VIVACE_MEMORY_H
#define VIVACE_MEMORY_H

#include <vivace/status.h>

VV_BEGIN_DECLS

/* *out = zeroed memory of `bytes` (0 is allowed and gives a valid pointer). VV_ENOMEM with a
   sentence and *out = NULL on failure. */
VV_API VV_MUST_USE vv_status vv_alloc(VV_OWNED void *out, size_t bytes);

/* *out = zeroed array of count * size bytes; the product is checked. */
VV_API VV_MUST_USE vv_status vv_alloc_array(VV_OWNED void *out, size_t count, size_t size);

/* Resizes *inout (may be NULL) to count * size bytes; on failure the old block stays. New bytes are
   not zeroed. */
VV_API VV_MUST_USE vv_status vv_realloc_array(void *inout, size_t count, size_t size);

/* *out = memory aligned to 64 bytes, not zeroed. Freed by vv_dealloc. */
VV_API VV_MUST_USE vv_status vv_alloc_aligned(VV_OWNED void *out, size_t bytes);

/* *out = a large block, aligned to 2 MiB where possible, every page touched once so that the first
   step is not slowed by page faults. Freed by vv_slab_free with the same size. */
VV_API VV_MUST_USE vv_status vv_slab_alloc(VV_OWNED void *out, size_t bytes);
VV_API void vv_slab_free(VV_TAKES void *slab, size_t bytes);

/* Frees what the functions above gave; NULL is allowed. */
VV_API void vv_dealloc(VV_TAKES void *block);

/* *out = copy of a NUL-terminated text. */
VV_API VV_MUST_USE vv_status vv_strdup(VV_OWNED char **out, const char *text);

/* VV_EINVAL if a * b (or a + b) does not fit in size_t. */
VV_API VV_MUST_USE vv_status vv_size_mul(size_t *out, size_t a, size_t b);
VV_API VV_MUST_USE vv_status vv_size_add(size_t *out, size_t a, size_t b);

/* Test hooks, per process: the nth allocation from now on (1 = the next) fails once; 0 switches it
   off. Counters tell how many allocations were made and how many blocks are live. */
VV_API void vv_memory_fail_at(uint64_t nth);
VV_API uint64_t vv_memory_alloc_count(void);
VV_API int64_t vv_memory_live_count(void);
/* Bytes now live and their peak since the last reset (slabs and aligned blocks included). */
VV_API size_t vv_memory_live_bytes(void);
VV_API size_t vv_memory_peak_bytes(void);
VV_API void vv_memory_peak_reset(void);

/* Bytes that this process may still take: what is free on the machine, or less where a control
   group (a container) limits it. 0 = unknown. */
VV_API size_t vv_memory_available(void);

VV_END_DECLS

#endif
