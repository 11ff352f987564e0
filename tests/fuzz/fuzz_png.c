/* fuzz_png.c - PNG files, also as masks: any bytes give an image that fits its header, or a
 * sentence. */
#include <stdlib.h>
#include <string.h>

#include <vivace/image_files.h>
#include <vivace/memory.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    /* The sizes asked for depend on the bytes, so that parts and masks are searched too. */
    const int pick = bytes ? data[bytes / 2] : 0;
    const vv_image_decode_opts opts = {.channels = pick % 3 == 2 ? 3 : pick % 3,
                                       .palette_index = pick % 4 == 3,
                                       .orient = pick % 2 == 1,
                                       .max_pixels = 1 << 14};
    double box[4] = {pick % 5, pick % 7, pick % 64 + 8, pick % 32 + 8};
    vv_image image;
    vv_error_clear();
    const vv_status status = vv_image_decode_part(&image, box, "fuzz", data, bytes, &opts);
    if (status == VV_OK) {
        const vv_image_shape *s = &image.shape;
        if (s->height < 1 || s->width < 1 || !(box[0] >= 0.0 && box[1] >= 0.0) ||
            box[2] > (double)s->width || box[3] > (double)s->height)
            abort();
        int64_t sum = 0;
        for (int64_t i = 0; i < s->height * s->width * s->channels; i++)
            sum += image.pixels[i];
        if (sum < 0)
            abort();
    } else if (image.pixels || !vv_error()[0]) {
        abort();
    }
    vv_image_fini(&image);
    return 0;
}
