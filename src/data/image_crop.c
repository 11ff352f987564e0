/* image_crop.c - which part of an image is used, and mirrored images. */
#include <vivace/image.h>

#include <math.h>
#include <string.h>

void vv_image_flip(const vv_image_shape *shape, uint8_t *image)
{
    const int64_t channels = shape->channels, row = shape->width * channels;
    for (int64_t y = 0; y < shape->height; y++, image += row)
        for (int64_t a = 0, b = row - channels; a < b; a += channels, b -= channels)
            for (int64_t c = 0; c < channels; c++) {
                const uint8_t held = image[a + c];
                image[a + c] = image[b + c];
                image[b + c] = held;
            }
}

/* The central width x height of an image, whole pixels. */
static void central(double box[4], int64_t image_height, int64_t image_width, int64_t height,
                    int64_t width)
{
    box[0] = (double)((image_width - width) / 2);
    box[1] = (double)((image_height - height) / 2);
    box[2] = box[0] + (double)width;
    box[3] = box[1] + (double)height;
}

void vv_image_random_resized_crop(double box[4], vv_rng *rng, int64_t height, int64_t width,
                                  const double scale[2], const double ratio[2])
{
    enum { TRIES = 10 };
    const double area = (double)height * (double)width;
    for (int i = 0; i < TRIES; i++) {
        const double wanted = area * vv_rng_uniform_in(rng, scale[0], scale[1]);
        const double r = exp(vv_rng_uniform_in(rng, log(ratio[0]), log(ratio[1])));
        const double w = rint(sqrt(wanted * r)), h = rint(sqrt(wanted / r));
        if (!(w >= 1.0 && h >= 1.0 && w <= (double)width && h <= (double)height))
            continue;
        box[1] = (double)vv_rng_below(rng, height - (int64_t)h + 1);
        box[0] = (double)vv_rng_below(rng, width - (int64_t)w + 1);
        box[2] = box[0] + w;
        box[3] = box[1] + h;
        return;
    }
    const double r = (double)width / (double)height;
    int64_t w = width, h = height;
    if (r < ratio[0])
        h = (int64_t)rint((double)w / ratio[0]);
    else if (r > ratio[1])
        w = (int64_t)rint((double)h * ratio[1]);
    central(box, height, width, h < 1 ? 1 : h, w < 1 ? 1 : w);
}

void vv_image_centre_crop(double box[4], int64_t image_height, int64_t image_width, int64_t resize,
                          int64_t height, int64_t width)
{
    /* The size the whole would have, and where the cut begins in it; rounded to even, as
       torchvision does. */
    const int64_t shorter = image_height < image_width ? image_height : image_width;
    const int64_t all_height = image_height == shorter ? resize : resize * image_height / shorter;
    const int64_t all_width = image_width == shorter ? resize : resize * image_width / shorter;
    const double by_y = (double)image_height / (double)all_height;
    const double by_x = (double)image_width / (double)all_width;
    if (height > all_height || width > all_width) {
        const double fit =
            fmin((double)all_height / (double)height, (double)all_width / (double)width);
        const double h = (double)height * fit * by_y, w = (double)width * fit * by_x;
        box[0] = fmax(0.0, ((double)image_width - w) / 2.0);
        box[1] = fmax(0.0, ((double)image_height - h) / 2.0);
        box[2] = fmin((double)image_width, box[0] + w);
        box[3] = fmin((double)image_height, box[1] + h);
        return;
    }
    const double top = rint((double)(all_height - height) / 2.0);
    const double left = rint((double)(all_width - width) / 2.0);
    box[0] = left * by_x;
    box[1] = top * by_y;
    box[2] = fmin((double)image_width, (left + (double)width) * by_x);
    box[3] = fmin((double)image_height, (top + (double)height) * by_y);
}
