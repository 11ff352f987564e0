/* rng.c - Philox 4x32-10 and the distributions drawn from it. */
#include <vivace/rng.h>

#include <math.h>
#include <string.h>

/* Multipliers and Weyl constants of Salmon et al. 2011, table 2 and section 3.3. */
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

#define TWO_PI 6.283185307179586476925

void vv_philox4x32(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0;
        uint64_t p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint32_t vv_rng_stream(const char *name)
{
    /* FNV-1a, then the finisher of MurmurHash3 so that near names differ in every bit. */
    uint32_t h = 2166136261u;
    for (const unsigned char *s = (const unsigned char *)name; *s; s++)
        h = (h ^ *s) * 16777619u;
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    return h ^ (h >> 16);
}

/* Steps beyond 2^32 go into the key by a bijection, so no two steps share a sequence. */
static uint32_t key_high(uint64_t seed, uint64_t step)
{
    return (uint32_t)(seed >> 32) ^ ((uint32_t)(step >> 32) * PHILOX_W0);
}

vv_rng vv_rng_at2(uint64_t seed, const char *stream, uint64_t step, uint32_t index)
{
    return (vv_rng){
        .key = {(uint32_t)seed, key_high(seed, step)},
        .counter = {0, vv_rng_stream(stream), (uint32_t)step, index},
        .used = 4,
    };
}

vv_rng vv_rng_at(uint64_t seed, const char *stream, uint64_t step)
{
    return vv_rng_at2(seed, stream, step, 0);
}

void vv_random_block(uint64_t seed, uint64_t step, uint64_t id, uint64_t block, float out[4])
{
    /* The low key word is turned so that elements never share blocks with the cursors above. */
    const uint32_t key[2] = {(uint32_t)seed ^ 0x5bd1e995u, key_high(seed, step)};
    const uint32_t counter[4] = {(uint32_t)block,
                                 (uint32_t)(block >> 32) ^ ((uint32_t)(id >> 32) * PHILOX_W1),
                                 (uint32_t)step, (uint32_t)id};
    uint32_t bits[4];
    vv_philox4x32(key, counter, bits);
    for (int i = 0; i < 4; i++)
        out[i] = (float)(bits[i] >> 8) * 0x1p-24f;
}

float vv_random_element(uint64_t seed, uint64_t step, uint64_t id, uint64_t element)
{
    float four[4];
    vv_random_block(seed, step, id, element / 4, four);
    return four[element % 4];
}

uint32_t vv_rng_u32(vv_rng *rng)
{
    if (rng->used >= 4) {
        vv_philox4x32(rng->key, rng->counter, rng->block);
        rng->counter[0]++;
        rng->used = 0;
    }
    return rng->block[rng->used++];
}

uint64_t vv_rng_u64(vv_rng *rng)
{
    uint64_t low = vv_rng_u32(rng);
    return low | (uint64_t)vv_rng_u32(rng) << 32;
}

double vv_rng_uniform(vv_rng *rng)
{
    return (double)(vv_rng_u64(rng) >> 11) * 0x1p-53;
}

double vv_rng_uniform_in(vv_rng *rng, double lo, double hi)
{
    double u = vv_rng_uniform(rng);
    if (!(hi > lo))
        return lo;
    double x = lo + u * (hi - lo);
    return x < hi ? x : nextafter(hi, lo); /* rounding may reach hi */
}

int64_t vv_rng_below(vv_rng *rng, int64_t bound)
{
    if (bound < 1)
        return 0;
    /* Numbers of the last, incomplete run of `bound` are drawn again: no residue is favoured. */
    uint64_t n = (uint64_t)bound;
    uint64_t rest = (UINT64_MAX % n + 1) % n;
    uint64_t x;
    do {
        x = vv_rng_u64(rng);
    } while (x > UINT64_MAX - rest);
    return (int64_t)(x % n);
}

double vv_rng_normal(vv_rng *rng)
{
    /* Box and Muller 1958; 1 - u is in (0, 1], so the logarithm is finite. */
    double radius = sqrt(-2.0 * log(1.0 - vv_rng_uniform(rng)));
    return radius * cos(TWO_PI * vv_rng_uniform(rng));
}

/* Marsaglia and Tsang 2000, "A simple method for generating gamma variables"; shape >= 1. */
static double gamma_from_one(vv_rng *rng, double shape)
{
    double d = shape - 1.0 / 3.0;
    double c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        double x = vv_rng_normal(rng);
        double v = 1.0 + c * x;
        double u = 1.0 - vv_rng_uniform(rng);
        if (v <= 0.0)
            continue;
        v = v * v * v;
        if (log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}

/* Logarithm of a gamma draw: small shapes give values below the smallest double.
   Gamma(a) = Gamma(a + 1) * U^(1/a), section 6 of the same paper. */
static double log_gamma_draw(vv_rng *rng, double shape)
{
    if (shape >= 1.0)
        return log(gamma_from_one(rng, shape));
    double g = log(gamma_from_one(rng, shape + 1.0));
    return g + log(1.0 - vv_rng_uniform(rng)) / shape;
}

double vv_rng_gamma(vv_rng *rng, double shape)
{
    if (!(shape > 0.0) || !isfinite(shape))
        return 0.0;
    return shape >= 1.0 ? gamma_from_one(rng, shape) : exp(log_gamma_draw(rng, shape));
}

double vv_rng_beta(vv_rng *rng, double a, double b)
{
    if (!(a > 0.0) || !(b > 0.0) || !isfinite(a) || !isfinite(b))
        return 0.5;
    double log_x = log_gamma_draw(rng, a);
    double log_y = log_gamma_draw(rng, b);
    return 1.0 / (1.0 + exp(log_y - log_x));
}

void vv_rng_permutation(vv_rng *rng, int64_t *out, int64_t count)
{
    /* Fisher and Yates, inside out. */
    for (int64_t i = 0; i < count; i++) {
        int64_t j = vv_rng_below(rng, i + 1);
        if (j != i)
            out[i] = out[j];
        out[j] = i;
    }
}
