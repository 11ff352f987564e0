/* memory.c - heap blocks with a small header, counters, and the hook that fails one allocation. */
#include <vivace/memory.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vvi_config.h"

enum { ALIGNMENT = 64 };
#define HUGE_PAGE ((size_t)2 << 20)

/* Stands right before the caller's bytes; `offset` leads back to what malloc gave. */
typedef struct block_head {
    _Alignas(16) size_t bytes;
    size_t offset;
} block_head;

static _Atomic int64_t fail_countdown;
static _Atomic uint64_t alloc_count;
static _Atomic int64_t live_count;
static _Atomic size_t live_bytes;
static _Atomic size_t peak_bytes;

static bool must_fail(void)
{
    return atomic_load(&fail_countdown) > 0 && atomic_fetch_sub(&fail_countdown, 1) == 1;
}

static void count_bytes(size_t bytes)
{
    size_t now = atomic_fetch_add(&live_bytes, bytes) + bytes;
    size_t peak = atomic_load(&peak_bytes);
    while (now > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, now)) {
    }
}

static void count_new(size_t bytes)
{
    atomic_fetch_add(&alloc_count, 1);
    atomic_fetch_add(&live_count, 1);
    count_bytes(bytes);
}

static void count_freed(size_t bytes)
{
    atomic_fetch_sub(&live_count, 1);
    atomic_fetch_sub(&live_bytes, bytes);
}

/* `out` is declared void * so that any T ** fits without a cast; this is the one place that writes
   through it. */
static void give(void *out, void *block)
{
    memcpy(out, &block, sizeof block);
}

static block_head *head_of(void *block)
{
    return (block_head *)((char *)block - sizeof(block_head));
}

static vv_status no_memory(size_t bytes)
{
    return vv_fail(VV_ENOMEM,
                   "out of memory: %zu bytes are not to be had; use a smaller batch or model, or "
                   "free memory on this machine",
                   bytes);
}

static void *finish_block(char *raw, size_t offset, size_t bytes)
{
    void *block = raw + offset;
    block_head *head = head_of(block);
    head->bytes = bytes;
    head->offset = offset;
    count_new(bytes);
    return block;
}

vv_status vv_alloc(void *out, size_t bytes)
{
    give(out, NULL);
    size_t total;
    VV_TRY(vv_size_add(&total, bytes, sizeof(block_head)));
    char *raw = must_fail() ? NULL : calloc(1, total);
    if (!raw)
        return no_memory(bytes);
    give(out, finish_block(raw, sizeof(block_head), bytes));
    return VV_OK;
}

vv_status vv_alloc_array(void *out, size_t count, size_t size)
{
    give(out, NULL);
    size_t bytes;
    VV_TRY(vv_size_mul(&bytes, count, size));
    return vv_alloc(out, bytes);
}

vv_status vv_alloc_aligned(void *out, size_t bytes)
{
    give(out, NULL);
    size_t total;
    VV_TRY(vv_size_add(&total, bytes, ALIGNMENT));
    void *raw = NULL;
    if (must_fail() || posix_memalign(&raw, ALIGNMENT, total))
        return no_memory(bytes);
    give(out, finish_block(raw, ALIGNMENT, bytes));
    return VV_OK;
}

/* realloc does not keep an alignment of 64, so such a block moves by hand. */
static vv_status move_aligned(void *inout, void *old, size_t bytes)
{
    void *block;
    VV_TRY(vv_alloc_aligned(&block, bytes));
    size_t old_bytes = head_of(old)->bytes;
    memcpy(block, old, old_bytes < bytes ? old_bytes : bytes);
    vv_dealloc(old);
    give(inout, block);
    return VV_OK;
}

vv_status vv_realloc_array(void *inout, size_t count, size_t size)
{
    void *old;
    memcpy(&old, inout, sizeof old);
    size_t bytes, total;
    VV_TRY(vv_size_mul(&bytes, count, size));
    VV_TRY(vv_size_add(&total, bytes, sizeof(block_head)));
    if (!old)
        return vv_alloc(inout, bytes);
    block_head *head = head_of(old);
    if (head->offset != sizeof(block_head))
        return move_aligned(inout, old, bytes);
    size_t old_bytes = head->bytes;
    char *raw = must_fail() ? NULL : realloc(head, total);
    if (!raw)
        return no_memory(bytes);
    count_freed(old_bytes);
    give(inout, finish_block(raw, sizeof(block_head), bytes));
    return VV_OK;
}

void vv_dealloc(void *block)
{
    if (!block)
        return;
    block_head *head = head_of(block);
    count_freed(head->bytes);
    free((char *)block - head->offset);
}

static size_t page_bytes(void)
{
    long bytes = sysconf(_SC_PAGESIZE);
    return bytes > 0 ? (size_t)bytes : 4096;
}

/* What a slab of `bytes` takes in the address space: whole pages, huge ones when it fills one. */
static size_t slab_span(size_t bytes)
{
    size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : page_bytes();
    size_t units = bytes / unit + (bytes % unit != 0);
    return (units ? units : 1) * unit;
}

/* A mapping that starts at a multiple of `align`: maps too much and gives both ends back. */
static char *map_aligned(size_t span, size_t align)
{
    size_t slack = align > page_bytes() ? align : 0;
    if (span > SIZE_MAX - slack)
        return NULL;
    char *raw =
        mmap(NULL, span + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;
    if (!slack)
        return raw;
    size_t front = (align - (uintptr_t)raw % align) % align;
    if (front)
        munmap(raw, front);
    if (slack - front)
        munmap(raw + front + span, slack - front);
    return raw + front;
}

static void touch_pages(char *slab, size_t span)
{
    int64_t pages = (int64_t)(span / page_bytes());
    size_t step = page_bytes();
#if VVI_HAVE_OPENMP
#pragma omp parallel for schedule(static) if (pages > 1024)
#endif
    for (int64_t i = 0; i < pages; i++)
        *(volatile char *)(slab + (size_t)i * step) = 0;
}

vv_status vv_slab_alloc(void *out, size_t bytes)
{
    give(out, NULL);
    if (bytes > SIZE_MAX - 2 * HUGE_PAGE)
        return no_memory(bytes);
    size_t span = slab_span(bytes);
    char *slab = must_fail() ? NULL : map_aligned(span, span >= HUGE_PAGE ? HUGE_PAGE : 1);
    if (!slab)
        return no_memory(bytes);
#if defined(MADV_HUGEPAGE)
    /* Only advice: a machine without huge pages works all the same. */
    (void)madvise(slab, span, MADV_HUGEPAGE);
#endif
    touch_pages(slab, span);
    count_new(bytes);
    give(out, slab);
    return VV_OK;
}

void vv_slab_free(void *slab, size_t bytes)
{
    if (!slab)
        return;
    munmap(slab, slab_span(bytes));
    count_freed(bytes);
}

vv_status vv_strdup(char **out, const char *text)
{
    *out = NULL;
    size_t bytes = strlen(text) + 1;
    VV_TRY(vv_alloc(out, bytes));
    memcpy(*out, text, bytes);
    return VV_OK;
}

vv_status vv_size_mul(size_t *out, size_t a, size_t b)
{
    *out = 0;
    if (b && a > SIZE_MAX / b)
        return vv_fail(VV_EINVAL, "a size of %zu * %zu bytes does not fit in this machine", a, b);
    *out = a * b;
    return VV_OK;
}

vv_status vv_size_add(size_t *out, size_t a, size_t b)
{
    *out = 0;
    if (a > SIZE_MAX - b)
        return vv_fail(VV_EINVAL, "a size of %zu + %zu bytes does not fit in this machine", a, b);
    *out = a + b;
    return VV_OK;
}

void vv_memory_fail_at(uint64_t nth)
{
    atomic_store(&fail_countdown, nth > INT64_MAX ? INT64_MAX : (int64_t)nth);
}

uint64_t vv_memory_alloc_count(void)
{
    return atomic_load(&alloc_count);
}

int64_t vv_memory_live_count(void)
{
    return atomic_load(&live_count);
}

size_t vv_memory_live_bytes(void)
{
    return atomic_load(&live_bytes);
}

size_t vv_memory_peak_bytes(void)
{
    return atomic_load(&peak_bytes);
}

void vv_memory_peak_reset(void)
{
    atomic_store(&peak_bytes, atomic_load(&live_bytes));
}
