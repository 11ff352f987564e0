/* processor.c - what the processor can do, and how many threads kernels use. */
#include <vivace/graph.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "vvi_config.h"

#if VVI_HAVE_OPENMP
#include <omp.h>
#endif

#if defined(__x86_64__)
#include <cpuid.h>

/* XCR0: which register files the operating system saves. */
static uint64_t saved_registers(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool detect_bf16(void)
{
    enum { OSXSAVE = 1 << 27, AMX_BF16 = 1 << 22, AVX512_BF16 = 1 << 5 };
    const uint64_t zmm = 0xe6, tiles = 0x60000;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE))
        return false;
    const uint64_t saved = saved_registers();
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return false;
    const bool amx = d & AMX_BF16;
    if (a < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d))
        a = 0;
    const bool avx512 = a & AVX512_BF16;
    return (saved & zmm) == zmm && (avx512 || (amx && (saved & tiles) == tiles));
}
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

static bool detect_bf16(void)
{
    const unsigned long hwcap2_bf16 = 1ul << 14;
    return getauxval(AT_HWCAP2) & hwcap2_bf16;
}
#else
static bool detect_bf16(void)
{
    return false;
}
#endif

bool vv_cpu_has_bf16(void)
{
    static atomic_int known; /* 0 = not asked yet, 1 = no, 2 = yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (!answer) {
        answer = detect_bf16() ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

static atomic_int thread_count; /* 0 = as many as there are */
static atomic_int found_count;  /* what OpenMP offered when first asked; 0 = not asked yet */

static int found_threads(void)
{
    int found = atomic_load_explicit(&found_count, memory_order_relaxed);
    if (!found) {
#if VVI_HAVE_OPENMP
        found = omp_get_max_threads();
#endif
        if (found < 1)
            found = 1;
        atomic_store_explicit(&found_count, found, memory_order_relaxed);
    }
    return found;
}

void vv_set_threads(int count)
{
    found_threads();
    atomic_store(&thread_count, count < 0 ? 0 : count);
}

int vv_threads(void)
{
    const int wanted = atomic_load_explicit(&thread_count, memory_order_relaxed);
    return wanted > 0 ? wanted : found_threads();
}

const char *vv_processor_name(char *buf, size_t buf_bytes)
{
    static const char *const keys[] = {"model name", "Model", "cpu model", "Processor"};
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(buf, buf_bytes, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; value && i < sizeof keys / sizeof keys[0]; i++)
            if (strncmp(line, keys[i], strlen(keys[i])) == 0) {
                snprintf(buf, buf_bytes, "%s", value + 1 + strspn(value + 1, " \t"));
                fclose(file);
                return buf;
            }
    }
    if (file)
        fclose(file);
    return buf;
}
