/* parallel.c - one loop over chunks, shared by all vector kernels. */
#include "backend/cpu/parallel.h"

#include "vvi_config.h"

#if VVI_HAVE_OPENMP
#include <omp.h>
#endif

void vvi_cpu_for(int64_t chunks, int max_slots, vvi_chunk_fn fn, void *ctx)
{
    int threads = vv_threads();
    if (max_slots > 0 && threads > max_slots)
        threads = max_slots;
    if (threads > chunks)
        threads = (int)chunks;
#if VVI_HAVE_OPENMP
    if (threads > 1 && !omp_in_parallel()) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
        for (int64_t i = 0; i < chunks; i++)
            fn(ctx, i, omp_get_thread_num());
        return;
    }
#endif
    for (int64_t i = 0; i < chunks; i++)
        fn(ctx, i, 0);
}
