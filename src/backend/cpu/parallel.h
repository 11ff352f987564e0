/* parallel.h - threads for kernels, and the marker for loops compiled once per instruction set. */
#ifndef VVI_PARALLEL_H
#define VVI_PARALLEL_H

#include <vivace/ext/backend.h>

/* A function so marked is compiled for AVX-512, AVX2 and plain x86-64; the loader picks. It must
   hold plain loops only: no vector types, no OpenMP parallel regions (their bodies are not cloned).
   Sanitizers instrument the resolver, which runs before they are ready, so they get one version. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&      \
    __GNUC__ >= 12 && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&          \
    !defined(VVI_NO_CLONES)
#define VVI_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VVI_CLONES
#endif

#define VVI_SIMD _Pragma("omp simd")
#define VVI_SIMD_SUM(v) VVI_SIMD_SUM_(omp simd reduction(+ : v))
#define VVI_SIMD_SUM_(text) _Pragma(#text)

/* Calls fn(ctx, chunk, slot) for chunk 0..chunks-1, handed out dynamically. Slots number the
   threads from 0 and stay below max_slots (0 = any number). What a chunk computes may not depend on
   the slot, and chunks must be cut without regard to the number of threads: then neither do
   results. */
typedef void (*vvi_chunk_fn)(void *ctx, int64_t chunk, int slot);
void vvi_cpu_for(int64_t chunks, int max_slots, vvi_chunk_fn fn, void *ctx);

/* Chunks of `grain` items that cover count. */
static inline int64_t vvi_chunks(int64_t count, int64_t grain)
{
    return (count + grain - 1) / grain;
}

/* Rows a chunk takes so that it holds about 32 thousand elements. */
static inline int64_t vvi_row_grain(int64_t row_elements)
{
    const int64_t rows = 32768 / (row_elements > 0 ? row_elements : 1);
    return rows > 0 ? rows : 1;
}

static inline int64_t vvi_min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t vvi_max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Bytes rounded up to whole cache lines. */
static inline size_t vvi_align64(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

#endif
