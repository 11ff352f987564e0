/* photo_load.c - one photograph's bytes to one sample: choose a part, decode it, resize,
 * colours. */
#include <math.h>
#include <string.h>
#include <time.h>

#include <vivace/ext/image_sets.h>
#include <vivace/memory.h>

/* This thread's own time: neighbours on the machine do not count. */
static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int64_t vv_photo_resize(const vv_photo_opts *opts)
{
    const int64_t resize = opts->resize > 0 ? opts->resize : opts->size * 8 / 7;
    return resize > opts->size ? resize : opts->size;
}

/* The size as it is seen. */
static void seen_size(const vv_image_info *info, const vv_photo_opts *opts, int64_t *height,
                      int64_t *width)
{
    const bool turned = opts->orient && info->orientation >= 5;
    *height = turned ? info->width : info->height;
    *width = turned ? info->height : info->width;
}

/* Evaluation cuts after resizing, so that the filter reaches beyond the cut: a part with that
   margin is decoded, with as many pixels more. On return `box` is the cut in pixels of *image. */
static vv_status decode_with_margin(vv_image *image, double box[4], const vv_image_info *info,
                                    const char *name, const void *data, size_t bytes,
                                    const vv_photo_opts *opts, vv_image_decode_opts decode)
{
    const double reach = 2.0, size = (double)opts->size; /* reach: the widest filter's */
    double wide[4], part[4];
    int64_t height, width;
    seen_size(info, opts, &height, &width);
    for (int i = 0; i < 2; i++) {
        const double span = box[i + 2] - box[i], most = (double)(i ? height : width);
        const double margin = reach * fmax(1.0, span / size) + 1.0;
        wide[i] = fmax(0.0, floor(box[i] - margin));
        wide[i + 2] = fmin(most, ceil(box[i + 2] + margin));
        if (opts->scaled)
            *(i ? &decode.min_height : &decode.min_width) =
                (int64_t)ceil(size * (wide[i + 2] - wide[i]) / span);
    }
    memcpy(part, wide, sizeof part);
    VV_TRY(vv_image_decode_part(image, part, name, data, bytes, &decode));
    for (int i = 0; i < 4; i++) {
        const int k = i % 2;
        box[i] = part[k] + (box[i] - wide[k]) * (part[k + 2] - part[k]) / (wide[k + 2] - wide[k]);
    }
    return VV_OK;
}

/* The part that is used of an image as it is seen. */
static void choose(double box[4], int64_t height, int64_t width, const vv_photo_opts *opts,
                   vv_rng *rng)
{
    if (rng)
        vv_image_random_resized_crop(box, rng, height, width, opts->scale, opts->ratio);
    else
        vv_image_centre_crop(box, height, width, vv_photo_resize(opts), opts->size, opts->size);
}

/* Decodes the part that is used; `box` = where it lies in *image. */
static vv_status decode_part(vv_image *image, double box[4], const char *name, const void *data,
                        size_t bytes, const vv_photo_opts *opts, vv_rng *rng)
{
    vv_image_decode_opts decode = {.channels = (int)opts->channels, .orient = opts->orient};
    vv_image_info info;
    int64_t height, width;
    VV_TRY(vv_image_probe(&info, name, data, bytes));
    seen_size(&info, opts, &height, &width);
    choose(box, height, width, opts, rng);
    if (!rng)
        return decode_with_margin(image, box, &info, name, data, bytes, opts, decode);
    if (opts->scaled)
        decode.min_height = decode.min_width = opts->size;
    return vv_image_decode_part(image, box, name, data, bytes, &decode);
}

static vv_status recolour(uint8_t *image, const vv_image_shape *shape, const vv_photo_opts *opts,
                          vv_rng *rng)
{
    uint8_t *scratch = NULL;
    VV_TRY(vv_alloc_aligned(&scratch,
                            (size_t)(shape->height * shape->width * shape->channels)));
    vv_image_color_jitter(shape, image, scratch, &opts->jitter, rng);
    vv_dealloc(scratch);
    return VV_OK;
}

static bool recolours(const vv_color_jitter *jitter, const vv_rng *rng)
{
    return rng && (jitter->brightness > 0.0 || jitter->contrast > 0.0 ||
                   jitter->saturation > 0.0 || jitter->hue > 0.0);
}

vv_status vv_photo_cut(uint8_t *out, const vv_image_shape *in_shape, const uint8_t *in,
                       const vv_photo_opts *opts, vv_rng *rng)
{
    const vv_image_shape shape = {opts->size, opts->size, opts->channels};
    double box[4];
    choose(box, in_shape->height, in_shape->width, opts, rng);
    VV_TRY(vv_image_resample(&shape, out, in_shape, in, box, opts->filter));
    return recolours(&opts->jitter, rng) ? recolour(out, &shape, opts, rng) : VV_OK;
}

vv_status vv_photo_load(uint8_t *out, const char *name, const void *data, size_t bytes,
                        const vv_photo_opts *opts, vv_rng *rng, vv_photo_times *times)
{
    const vv_image_shape shape = {opts->size, opts->size, opts->channels};
    vv_image image = {0};
    double box[4], clock[4];
    vv_status status;
    clock[0] = thread_seconds();
    VV_GO(decode_part(&image, box, name, data, bytes, opts, rng));
    clock[1] = thread_seconds();
    VV_GO(vv_fail_within(vv_image_resample(&shape, out, &image.shape, image.pixels, box,
                                           opts->filter), "%s", name));
    clock[2] = thread_seconds();
    if (recolours(&opts->jitter, rng))
        VV_GO(recolour(out, &shape, opts, rng));
    clock[3] = thread_seconds();
    if (times) {
        times->decode += clock[1] - clock[0];
        times->resample += clock[2] - clock[1];
        times->colour += clock[3] - clock[2];
    }
out:
    vv_image_fini(&image);
    return status;
}
