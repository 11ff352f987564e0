/* rng.h - counter-based random numbers (Philox 4x32-10; Salmon et al., "Parallel random numbers: as
 * easy as 1, 2, 3", SC 2011).
 *
 * A draw is a pure function of (seed, stream, step, counter): the same for any thread count, and
 * replayable after a resume without saving a generator state. A vv_rng is a cursor over one such
 * sequence: a plain value that may be copied. */
#ifndef VIVACE_RNG_H
#define VIVACE_RNG_H

#include <vivace/status.h>

VV_BEGIN_DECLS

typedef struct vv_rng {
    uint32_t key[2];
    uint32_t counter[4]; /* [0] counts blocks of four numbers, [1..3] hold stream and step */
    uint32_t block[4];
    int used; /* numbers already taken out of `block`; 4 = none left */
} vv_rng;

/* The cursor at the start of sequence (seed, stream, step). Streams are named by a text (hashed):
   "shuffle", "mixup", "dropout", ... so that methods do not disturb each other. */
VV_API vv_rng vv_rng_at(uint64_t seed, const char *stream, uint64_t step);
/* Same, with a second number beside the step (an index within it: sample, node, ...); index 0 is
   vv_rng_at's sequence. */
VV_API vv_rng vv_rng_at2(uint64_t seed, const char *stream, uint64_t step, uint32_t index);
/* 32-bit hash of a stream's name, as used by vv_rng_at. */
VV_API uint32_t vv_rng_stream(const char *name);

/* One block of four numbers straight from key and counter. */
VV_API void vv_philox4x32(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

VV_API uint32_t vv_rng_u32(vv_rng *rng);
VV_API uint64_t vv_rng_u64(vv_rng *rng);
VV_API double vv_rng_uniform(vv_rng *rng);                         /* [0, 1), 53 bits */
VV_API double vv_rng_uniform_in(vv_rng *rng, double lo, double hi); /* [lo, hi) */
VV_API int64_t vv_rng_below(vv_rng *rng, int64_t bound); /* 0..bound-1, unbiased; 0 if bound < 1 */
VV_API double vv_rng_normal(vv_rng *rng);                          /* mean 0, variance 1 */
VV_API double vv_rng_gamma(vv_rng *rng, double shape);             /* shape > 0, scale 1 */
VV_API double vv_rng_beta(vv_rng *rng, double a, double b);        /* a, b > 0 */
VV_API void vv_rng_permutation(vv_rng *rng, int64_t *out, int64_t count); /* of 0..count-1 */

/* Counter-based draw number `element` of random node `id`: uniform in [0,1), 24 bits. The
   definition every DROPOUT and RANDOM kernel follows: keep iff uniform >= p. */
VV_API float vv_random_element(uint64_t seed, uint64_t step, uint64_t id, uint64_t element);
/* Elements 4 * block .. 4 * block + 3 of the same, at the price of one. */
VV_API void vv_random_block(uint64_t seed, uint64_t step, uint64_t id, uint64_t block,
                            float out[4]);

VV_END_DECLS

#endif
