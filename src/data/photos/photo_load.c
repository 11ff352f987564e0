/* photo_load.c - one photograph's bytes to one sample: choose a part, decode it, resize,
 * colours. */
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

static void choose(double box[4], int64_t height, int64_t width, const vv_photo_opts *opts,
                   vv_rng *rng)
{
    const int64_t resize = opts->resize > 0 ? opts->resize : opts->size * 8 / 7;
    if (rng)
        vv_image_random_resized_crop(box, rng, height, width, opts->scale, opts->ratio);
    else
        vv_image_centre_crop(box, height, width, resize > opts->size ? resize : opts->size,
                             opts->size, opts->size);
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
    vv_image_decode_opts decode = {.channels = (int)opts->channels, .orient = opts->orient};
    vv_image_info info;
    vv_image image = {0};
    double box[4], clock[4];
    vv_status status;
    if (opts->scaled)
        decode.min_height = decode.min_width = opts->size;
    clock[0] = thread_seconds();
    VV_GO(vv_image_probe(&info, name, data, bytes));
    const bool turned = opts->orient && info.orientation >= 5;
    choose(box, turned ? info.width : info.height, turned ? info.height : info.width, opts, rng);
    VV_GO(vv_image_decode_part(&image, box, name, data, bytes, &decode));
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
