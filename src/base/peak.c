/* peak.c - the machine's arithmetic peak, measured: independent chains of fused multiply-adds that
 * stay in registers, in the widest vectors this CPU has. */
#include <vivace/graph.h>
#include <vivace/training_time.h>

#include "vvi_config.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define X86 1
#else
#define X86 0
#endif

enum { CHAINS = 12, ROUNDS = 200000, REPEATS = 5 };

#if X86
/* Each returns the floating-point operations of one call; `sink` keeps the work alive. */
__attribute__((target("avx512f"))) static double chains_avx512(float *sink)
{
    __m512 a[CHAINS], m = _mm512_set1_ps(0.999f), c = _mm512_set1_ps(0.001f);
    for (int i = 0; i < CHAINS; i++)
        a[i] = _mm512_set1_ps((float)i);
    for (int r = 0; r < ROUNDS; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            a[i] = _mm512_fmadd_ps(a[i], m, c);
    }
    for (int i = 1; i < CHAINS; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    *sink = _mm512_reduce_add_ps(a[0]);
    return 2.0 * 16 * CHAINS * ROUNDS;
}

__attribute__((target("avx512f,avx512bf16"))) static double chains_bf16(float *sink)
{
    __m512 a[CHAINS];
    __m512bh m = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
    for (int i = 0; i < CHAINS; i++)
        a[i] = _mm512_set1_ps((float)i);
    for (int r = 0; r < ROUNDS; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            a[i] = _mm512_dpbf16_ps(a[i], m, m);
    }
    for (int i = 1; i < CHAINS; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    *sink = _mm512_reduce_add_ps(a[0]);
    return 4.0 * 16 * CHAINS * ROUNDS;
}

__attribute__((target("avx2,fma"))) static double chains_avx2(float *sink)
{
    __m256 a[CHAINS], m = _mm256_set1_ps(0.999f), c = _mm256_set1_ps(0.001f);
    for (int i = 0; i < CHAINS; i++)
        a[i] = _mm256_set1_ps((float)i);
    for (int r = 0; r < ROUNDS; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            a[i] = _mm256_fmadd_ps(a[i], m, c);
    }
    for (int i = 1; i < CHAINS; i++)
        a[0] = _mm256_add_ps(a[0], a[i]);
    float lanes[8];
    _mm256_storeu_ps(lanes, a[0]);
    *sink = lanes[0] + lanes[7];
    return 2.0 * 8 * CHAINS * ROUNDS;
}
#endif

/* Compilers turn this into whatever vectors the build allows. */
static double chains_plain(float *sink)
{
    enum { LANES = 4 * CHAINS };
    float a[LANES];
    for (int i = 0; i < LANES; i++)
        a[i] = (float)i;
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < LANES; i++)
            a[i] = a[i] * 0.999f + 0.001f;
    float sum = 0.0f;
    for (int i = 0; i < LANES; i++)
        sum += a[i];
    *sink = sum;
    return 2.0 * LANES * ROUNDS;
}

typedef double (*chains_fn)(float *sink);

static chains_fn best_chains(vv_precision precision)
{
#if X86
    __builtin_cpu_init();
    bool half = precision == VV_PRECISION_AMP_BF16 || precision == VV_PRECISION_BF16;
    if (half && __builtin_cpu_supports("avx512bf16"))
        return chains_bf16;
    if (__builtin_cpu_supports("avx512f"))
        return chains_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return chains_avx2;
#endif
    (void)precision;
    return chains_plain;
}

double vv_measure_peak_gflops(vv_precision precision)
{
    chains_fn chains = best_chains(precision);
    int threads = vv_threads();
    double best = 0.0;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double flops = 0.0, start = vv_clock();
#if VVI_HAVE_OPENMP
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : flops)
#endif
        for (int t = 0; t < threads; t++) {
            volatile float out;
            float sink;
            flops += chains(&sink);
            out = sink;
            (void)out;
        }
        double rate = flops / (vv_clock() - start) / 1e9;
        best = rate > best ? rate : best;
    }
    return best;
}
