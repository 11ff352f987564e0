/* resample_pass.c - the two passes of resampling: sums of pixels times weights, in integers.
 *
 * Sums are exact, so their order is free: down columns, a strip of bytes is summed tap by tap;
 * along rows, a pixel's channels lie in one vector of four lanes and several rows share a
 * weight. */
#include "data/resample.h"

#include <string.h>

#define HALF (1 << (VVI_RESAMPLE_BITS - 1))

/* Clones need ifunc resolvers (glibc), and those run before a sanitizer's runtime is ready. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

static inline uint8_t to_byte(int32_t sum)
{
    const int32_t value = sum >> VVI_RESAMPLE_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* ---- along rows ---- */

static void one_row(uint8_t *out, const uint8_t *in, int64_t channels, int64_t from,
                    const vvi_taps *taps)
{
    for (int64_t x = 0; x < taps->size; x++, out += channels) {
        const int32_t *weight = taps->weight + x * taps->most;
        const uint8_t *at = in + (taps->first[x] - from) * channels;
        int32_t sum[3] = {HALF, HALF, HALF};
        for (int32_t k = 0; k < taps->count[x]; k++, at += channels)
            for (int64_t c = 0; c < channels; c++)
                sum[c] += at[c] * weight[k];
        for (int64_t c = 0; c < channels; c++)
            out[c] = to_byte(sum[c]);
    }
}

#if defined(__GNUC__)
typedef int32_t lanes __attribute__((vector_size(16)));
typedef uint8_t four_bytes __attribute__((vector_size(4)));

/* A pixel and one byte behind it. */
static inline lanes load_pixel(const uint8_t *at)
{
    four_bytes bytes;
    memcpy(&bytes, at, 4);
    return __builtin_convertvector(bytes, lanes);
}

static inline void store_pixel(uint8_t *out, lanes sum)
{
    for (int c = 0; c < 3; c++)
        out[c] = to_byte(sum[c]);
}

/* Four rows of RGB; every pixel read has a byte behind it. */
CLONES static void four_rows(uint8_t *out, const uint8_t *in, int64_t stride, int64_t from,
                             const vvi_taps *taps)
{
    const int64_t row = 3 * taps->size;
    const lanes half = {HALF, HALF, HALF, HALF};
    for (int64_t x = 0; x < taps->size; x++, out += 3) {
        const int32_t *weight = taps->weight + x * taps->most;
        const uint8_t *at = in + (taps->first[x] - from) * 3;
        lanes a = half, b = half, c = half, d = half;
        for (int32_t k = 0; k < taps->count[x]; k++, at += 3) {
            const lanes w = {weight[k], weight[k], weight[k], weight[k]};
            a += load_pixel(at) * w;
            b += load_pixel(at + stride) * w;
            c += load_pixel(at + 2 * stride) * w;
            d += load_pixel(at + 3 * stride) * w;
        }
        store_pixel(out, a);
        store_pixel(out + row, b);
        store_pixel(out + 2 * row, c);
        store_pixel(out + 3 * row, d);
    }
}
#endif

void vvi_resample_rows(uint8_t *out, const uint8_t *in, int64_t stride, int64_t rows,
                       int64_t channels, int64_t from, const vvi_taps *taps)
{
    int64_t y = 0;
#if defined(__GNUC__)
    /* The last rows have no byte behind their last pixel. */
    for (; channels == 3 && y + 4 < rows; y += 4)
        four_rows(out + y * taps->size * 3, in + y * stride, stride, from, taps);
#endif
    for (; y < rows; y++)
        one_row(out + y * taps->size * channels, in + y * stride, channels, from, taps);
}

/* ---- down columns ---- */

CLONES static void one_line(uint8_t *restrict out, const uint8_t *restrict in, int64_t stride,
                            int64_t count, const int32_t *weight, int32_t taps)
{
    enum { STRIP = 64 };
    int64_t i = 0;
    for (; i + STRIP <= count; i += STRIP) {
        int32_t sum[STRIP];
        for (int j = 0; j < STRIP; j++)
            sum[j] = HALF;
        for (int32_t k = 0; k < taps; k++) {
            const uint8_t *at = in + k * stride + i;
            const int32_t w = weight[k];
            for (int j = 0; j < STRIP; j++)
                sum[j] += at[j] * w;
        }
        for (int j = 0; j < STRIP; j++)
            out[i + j] = to_byte(sum[j]);
    }
    for (; i < count; i++) {
        int32_t sum = HALF;
        for (int32_t k = 0; k < taps; k++)
            sum += in[k * stride + i] * weight[k];
        out[i] = to_byte(sum);
    }
}

void vvi_resample_columns(uint8_t *out, const uint8_t *in, int64_t stride, int64_t row,
                          int64_t from, const vvi_taps *taps)
{
    for (int64_t y = 0; y < taps->size; y++, out += row)
        one_line(out, in + (taps->first[y] - from) * stride, stride, row,
                 taps->weight + y * taps->most, taps->count[y]);
}
