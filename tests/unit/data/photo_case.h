/* photo_case.h - the image that the photo goldens are of, and checksums. */
#ifndef PHOTO_CASE_H
#define PHOTO_CASE_H

#include <vivace/image_files.h>
#include <vivace/memory.h>

#include "../../golden/photo_golden.h"

static inline vv_image_shape photo_make(int channels, uint8_t *out)
{
    uint32_t state = GOLDEN_SEED;
    for (int i = 0; i < GOLDEN_HEIGHT * GOLDEN_WIDTH; i++) {
        uint8_t rgb[3];
        for (int c = 0; c < 3; c++) {
            state = (state * 1103515245u + 12345u) % 2147483648u;
            const int y = i / GOLDEN_WIDTH, x = i % GOLDEN_WIDTH;
            rgb[c] = (uint8_t)(((3 + c) * x + (5 - c) * y + (int)(state >> 16) % 48) % 256);
        }
        if (channels == 3)
            memcpy(out + 3 * i, rgb, 3);
        else /* ITU-R 601 */
            out[i] = (uint8_t)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
    }
    return (vv_image_shape){GOLDEN_HEIGHT, GOLDEN_WIDTH, channels};
}

static inline uint64_t photo_sum(const uint8_t *data, size_t bytes)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ data[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static inline uint64_t photo_image_sum(const vv_image *image)
{
    return photo_sum(image->pixels, (size_t)(image->shape.height * image->shape.width *
                                             image->shape.channels));
}

#endif
