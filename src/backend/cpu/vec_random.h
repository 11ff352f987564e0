/* vec_random.h - the draws of vv_random_element, 256 at a time. */
#ifndef VVI_VEC_RANDOM_H
#define VVI_VEC_RANDOM_H

#include <vivace/ext/backend.h>

/* Key and counter of block 0; must agree with vv_random_block, which a test checks. */
typedef struct vvi_philox {
    uint32_t key[2];
    uint32_t counter[4];
} vvi_philox;

enum { VVI_DRAW_BLOCKS = 64, VVI_DRAWS = 4 * VVI_DRAW_BLOCKS };

vvi_philox vvi_philox_of(uint64_t seed, uint64_t step, uint64_t id);
/* out [VVI_DRAWS]: number k of block b at 4 b + k, as uniform in [0, 1). Runs of `run` blocks (a
   divisor of 64) begin `stride` apart: block b is first + b / run * stride + b % run. */
void vvi_vec_draws(const vvi_philox *p, uint64_t first, int run, uint64_t stride, float *out);
/* u >= p over the 24-bit grid of u is u >= this. */
float vvi_draw_limit(double p);

#endif
