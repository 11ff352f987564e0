/* resample_pass.c - the two passes of resampling: sums of pixels times weights, in integers. */
#include "data/resample.h"

#define HALF (1 << (VVI_RESAMPLE_BITS - 1))

static inline uint8_t to_byte(int32_t sum)
{
    const int32_t value = sum >> VVI_RESAMPLE_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

void vvi_resample_rows(uint8_t *out, const uint8_t *in, int64_t width, int64_t rows,
                       int64_t channels, const vvi_taps *taps)
{
    for (int64_t y = 0; y < rows; y++, in += width * channels)
        for (int64_t x = 0; x < taps->size; x++, out += channels) {
            const int32_t *weight = taps->weight + x * taps->most;
            const uint8_t *from = in + taps->first[x] * channels;
            int32_t sum[3] = {HALF, HALF, HALF};
            for (int32_t k = 0; k < taps->count[x]; k++, from += channels)
                for (int64_t c = 0; c < channels; c++)
                    sum[c] += from[c] * weight[k];
            for (int64_t c = 0; c < channels; c++)
                out[c] = to_byte(sum[c]);
        }
}

void vvi_resample_columns(uint8_t *out, const uint8_t *in, int64_t row, int64_t first,
                          const vvi_taps *taps)
{
    for (int64_t y = 0; y < taps->size; y++, out += row) {
        const int32_t *weight = taps->weight + y * taps->most;
        const uint8_t *from = in + (taps->first[y] - first) * row;
        for (int64_t i = 0; i < row; i++) {
            int32_t sum = HALF;
            for (int32_t k = 0; k < taps->count[y]; k++)
                sum += from[k * row + i] * weight[k];
            out[i] = to_byte(sum);
        }
    }
}
