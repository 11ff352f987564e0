/* vec_random.c - sixty-four blocks of Philox 4x32-10 (Salmon et al., SC 2011) side by side, so that
 * the rounds vectorise. */
#include "backend/cpu/vec_random.h"
#include "backend/cpu/parallel.h"

enum { LANES = VVI_DRAW_BLOCKS };

#define M0 0xD2511F53u
#define M1 0xCD9E8D57u
#define W0 0x9E3779B9u
#define W1 0xBB67AE85u

vvi_philox vvi_philox_of(uint64_t seed, uint64_t step, uint64_t id)
{
    return (vvi_philox){
        .key = {(uint32_t)seed ^ 0x5bd1e995u,
                (uint32_t)(seed >> 32) ^ ((uint32_t)(step >> 32) * W0)},
        .counter = {0, (uint32_t)(id >> 32) * W1, (uint32_t)step, (uint32_t)id},
    };
}

VVI_CLONES void vvi_vec_draws(const vvi_philox *p, uint64_t first, int run, uint64_t stride,
                              float *out)
{
    uint32_t a[LANES], b[LANES], c[LANES], d[LANES];
    for (int begin = 0; begin < LANES; begin += run, first += stride) {
        VVI_SIMD
        for (int i = 0; i < run; i++) {
            const uint64_t block = first + (uint64_t)i;
            a[begin + i] = (uint32_t)block;
            b[begin + i] = (uint32_t)(block >> 32) ^ p->counter[1];
            c[begin + i] = p->counter[2];
            d[begin + i] = p->counter[3];
        }
    }
    uint32_t k0 = p->key[0], k1 = p->key[1];
    for (int round = 0; round < 10; round++) {
        VVI_SIMD
        for (int i = 0; i < LANES; i++) {
            const uint64_t u = (uint64_t)M0 * a[i], v = (uint64_t)M1 * c[i];
            a[i] = (uint32_t)(v >> 32) ^ b[i] ^ k0;
            b[i] = (uint32_t)v;
            c[i] = (uint32_t)(u >> 32) ^ d[i] ^ k1;
            d[i] = (uint32_t)u;
        }
        k0 += W0;
        k1 += W1;
    }
    for (int i = 0; i < LANES; i++) {
        out[4 * i] = (float)(int32_t)(a[i] >> 8) * 0x1p-24f;
        out[4 * i + 1] = (float)(int32_t)(b[i] >> 8) * 0x1p-24f;
        out[4 * i + 2] = (float)(int32_t)(c[i] >> 8) * 0x1p-24f;
        out[4 * i + 3] = (float)(int32_t)(d[i] >> 8) * 0x1p-24f;
    }
}

float vvi_draw_limit(double p)
{
    const double grid = p * 0x1p24;
    const int64_t whole = (int64_t)grid;
    return (float)((double)(whole + ((double)whole < grid)) * 0x1p-24);
}
