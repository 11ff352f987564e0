/* transform.c - crop, shift, mirror and normalise, straight into the batch.
 *
 * Pixels go through a table of 256 floats per channel, computed in double once: one load per pixel,
 * and the same bits whatever the vector width. Padding is a pixel of value 0, so it is normalised
 * like any other. */
#include "data/transform.h"

#include <string.h>

#include <vivace/memory.h>
#include <vivace/rng.h>

static vv_status check(const vv_sample_spec *spec, const vv_image_transform *opts)
{
    const int64_t height = spec->input_shape[0], width = spec->input_shape[1];
    const int64_t channels = spec->input_shape[2];
    const int64_t smaller = height < width ? height : width;
    if (opts->crop_pad < 0 || opts->crop_pad > smaller)
        return vv_fail(VV_EINVAL, "transform: crop_pad %lld is outside [0, %lld] for images of %lldx%lld",
                       (long long)opts->crop_pad, (long long)smaller, (long long)height,
                       (long long)width);
    if (opts->translate < 0 || opts->translate > smaller)
        return vv_fail(VV_EINVAL,
                       "transform: translate %lld is outside [0, %lld] for images of %lldx%lld",
                       (long long)opts->translate, (long long)smaller, (long long)height,
                       (long long)width);
    if (!opts->normalise)
        return VV_OK;
    if (channels > 4)
        return vv_fail(VV_EINVAL, "transform: normalise knows mean and std of up to 4 channels, the "
                                  "images have %lld; set normalise to false",
                       (long long)channels);
    for (int64_t c = 0; c < channels; c++)
        if (!(spec->std[c] > 0))
            return vv_fail(VV_EINVAL, "transform: normalise needs the std of channel %lld, which the "
                                      "data set does not give; set normalise to false",
                           (long long)c);
    return VV_OK;
}

vv_status vvi_transform_init(vvi_transform *transform, const vv_sample_spec *spec,
                             const vv_image_transform *opts, uint64_t seed)
{
    memset(transform, 0, sizeof *transform);
    VV_TRY(check(spec, opts));
    transform->height = spec->input_shape[0];
    transform->width = spec->input_shape[1];
    transform->channels = spec->input_shape[2];
    transform->radius = opts->crop_pad > opts->translate ? opts->crop_pad : opts->translate;
    transform->flip = opts->flip;
    transform->normalise = opts->normalise;
    transform->seed = seed;
    transform->tables = opts->normalise ? (int)transform->channels : 1;
    VV_TRY(vv_alloc_array(&transform->table, (size_t)transform->tables * 256, sizeof(float)));
    for (int t = 0; t < transform->tables; t++)
        for (int value = 0; value < 256; value++) {
            double pixel = value / 255.0;
            if (opts->normalise)
                pixel = (pixel - (double)spec->mean[t]) / (double)spec->std[t];
            transform->table[t * 256 + value] = (float)pixel;
        }
    return VV_OK;
}

void vvi_transform_fini(vvi_transform *transform)
{
    vv_dealloc(transform->table);
    transform->table = NULL;
}

vvi_warp vvi_transform_draw(const vvi_transform *transform, int64_t epoch, int64_t index)
{
    vvi_warp warp = {0, 0, false};
    if (!transform->flip && transform->radius == 0)
        return warp;
    vv_rng rng = vv_rng_at2(transform->seed, "augment", (uint64_t)epoch, (uint32_t)index);
    /* The flip is drawn first and always, so that the shift's range does not change it. */
    const bool mirrored = vv_rng_u32(&rng) & 1;
    warp.flip = transform->flip && mirrored;
    if (transform->radius > 0) {
        warp.dy = vv_rng_below(&rng, 2 * transform->radius + 1) - transform->radius;
        warp.dx = vv_rng_below(&rng, 2 * transform->radius + 1) - transform->radius;
    }
    return warp;
}

/* `count` pixels from `in`, stepping `step` pixels (1 or -1), through the tables. */
static void run_1(const float *table, const uint8_t *in, int64_t step, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = table[in[i * step]];
}

static void run_3(const float *table, int64_t table_step, const uint8_t *in, int64_t step,
                  int64_t count, float *out)
{
    const float *red = table, *green = table + table_step, *blue = green + table_step;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *pixel = in + 3 * step * i;
        out[3 * i] = red[pixel[0]];
        out[3 * i + 1] = green[pixel[1]];
        out[3 * i + 2] = blue[pixel[2]];
    }
}

static void run_any(const float *table, int64_t table_step, int64_t channels, const uint8_t *in,
                    int64_t step, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t c = 0; c < channels; c++)
            out[i * channels + c] = table[c * table_step + in[step * i * channels + c]];
}

/* `count` pixels of padding. */
static void pad(const vvi_transform *transform, int64_t count, float *out)
{
    const int64_t table_step = transform->tables > 1 ? 256 : 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t c = 0; c < transform->channels; c++)
            out[i * transform->channels + c] = transform->table[c * table_step];
}

void vvi_transform_apply(const vvi_transform *transform, vvi_warp warp, const uint8_t *in, float *out)
{
    const int64_t height = transform->height, width = transform->width;
    const int64_t channels = transform->channels, table_step = transform->tables > 1 ? 256 : 0;
    const float *table = transform->table;
    /* Output columns [lo, hi) come from inside the image: 0 <= source column < width. */
    const int64_t shift = warp.flip ? -warp.dx : warp.dx;
    const int64_t lo = shift < 0 ? -shift : 0, hi = shift > 0 ? width - shift : width;
    const int64_t first = warp.flip ? width - 1 - lo + warp.dx : lo + warp.dx;
    const int64_t step = warp.flip ? -1 : 1;
    for (int64_t y = 0; y < height; y++, out += width * channels) {
        const int64_t src_y = y + warp.dy;
        if (src_y < 0 || src_y >= height || lo >= hi) {
            pad(transform, width, out);
            continue;
        }
        const uint8_t *src = in + (src_y * width + first) * channels;
        pad(transform, lo, out);
        if (channels == 1)
            run_1(table, src, step, hi - lo, out + lo);
        else if (channels == 3)
            run_3(table, table_step, src, step, hi - lo, out + lo * 3);
        else
            run_any(table, table_step, channels, src, step, hi - lo, out + lo * channels);
        pad(transform, width - hi, out + hi * channels);
    }
}
