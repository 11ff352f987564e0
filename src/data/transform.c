/* transform.c - crop, shift, mirror and normalise, straight into the batch.
 *
 * A pixel of value v becomes v / 255, or v * scale + bias in single precision with two roundings:
 * the same bits for any vector width. Scale and bias are stored for a whole row, so that the loop
 * over a row of interleaved channels has no inner loop. Padding is a pixel of value 0, so it
 * becomes bias. */
#include "data/transform.h"

#include <string.h>

#include <vivace/memory.h>
#include <vivace/rng.h>

#define PIECE_BYTES 1024

static vv_status check(const vv_sample_spec *spec, const vv_image_transform *opts)
{
    const int64_t height = spec->input_shape[0], width = spec->input_shape[1];
    const int64_t channels = spec->input_shape[2];
    const int64_t smaller = height < width ? height : width;
    if (opts->crop_pad < 0 || opts->crop_pad > smaller)
        return vv_fail(
            VV_EINVAL, "transform: crop_pad %lld is outside [0, %lld] for images of %lldx%lld",
            (long long)opts->crop_pad, (long long)smaller, (long long)height, (long long)width);
    if (opts->translate < 0 || opts->translate > smaller)
        return vv_fail(
            VV_EINVAL, "transform: translate %lld is outside [0, %lld] for images of %lldx%lld",
            (long long)opts->translate, (long long)smaller, (long long)height, (long long)width);
    if (channels > PIECE_BYTES)
        return vv_fail(VV_EINVAL, "transform: images have %lld channels, at most %d are handled",
                       (long long)channels, PIECE_BYTES);
    if (!opts->normalise)
        return VV_OK;
    if (channels > 4)
        return vv_fail(VV_EINVAL,
                       "transform: normalise knows mean and std of up to 4 channels, the "
                       "images have %lld; set normalise to false",
                       (long long)channels);
    for (int64_t c = 0; c < channels; c++)
        if (!(spec->std[c] > 0))
            return vv_fail(VV_EINVAL,
                           "transform: normalise needs the std of channel %lld, which the "
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
    transform->seed = seed;
    size_t count;
    VV_TRY(vv_size_mul(&count, (size_t)transform->width, (size_t)transform->channels));
    VV_TRY(vv_alloc_array(&transform->bias, count, sizeof(float)));
    if (!opts->normalise)
        return VV_OK;
    const vv_status status = vv_alloc_array(&transform->scale, count, sizeof(float));
    if (status != VV_OK) {
        vvi_transform_fini(transform);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        const double mean = (double)spec->mean[i % (size_t)transform->channels];
        const double std = (double)spec->std[i % (size_t)transform->channels];
        transform->scale[i] = (float)(1 / (255 * std));
        transform->bias[i] = (float)(0 - mean / std); /* never -0 */
    }
    return VV_OK;
}

void vvi_transform_fini(vvi_transform *transform)
{
    vv_dealloc(transform->scale);
    vv_dealloc(transform->bias);
    transform->scale = transform->bias = NULL;
}

vvi_warp vvi_transform_draw(const vvi_transform *transform, int64_t epoch, int64_t index)
{
    vvi_warp warp = {0, 0, false};
    if (!transform->flip && !transform->alternate && transform->radius == 0)
        return warp;
    vv_rng rng = vv_rng_at2(transform->seed, "augment", (uint64_t)epoch, (uint32_t)index);
    /* The flip is drawn first and always, so that the shift's range does not change it. */
    const bool mirrored = vv_rng_u32(&rng) & 1;
    warp.flip = transform->flip && mirrored;
    if (transform->alternate) {
        vv_rng once = vv_rng_at2(transform->seed, "alternating_flip", 0, (uint32_t)index);
        warp.flip = (vv_rng_u32(&once) & 1) != (epoch & 1);
    }
    if (transform->radius > 0) {
        warp.dy = vv_rng_below(&rng, 2 * transform->radius + 1) - transform->radius;
        warp.dx = vv_rng_below(&rng, 2 * transform->radius + 1) - transform->radius;
    }
    return warp;
}

/* Values of whole pixels into row positions from `at` on. */
static void convert(const vvi_transform *transform, const uint8_t *restrict in, int64_t at,
                    int64_t count, float *restrict out)
{
    if (!transform->scale) {
        for (int64_t i = 0; i < count; i++)
            out[i] = (float)in[i] / 255.0f;
        return;
    }
    const float *restrict scale = transform->scale + at, *restrict bias = transform->bias + at;
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)in[i] * scale[i] + bias[i];
}

/* `count` pixels going left from `last`. */
static void mirror(const uint8_t *last, int64_t channels, int64_t count, uint8_t *out)
{
    if (channels == 1) {
        for (int64_t i = 0; i < count; i++)
            out[i] = last[-i];
    } else if (channels == 3) {
        for (int64_t i = 0; i < count; i++, out += 3, last -= 3) {
            memcpy(out, last, 2);
            out[2] = last[2];
        }
    } else {
        for (int64_t i = 0; i < count; i++)
            memcpy(out + i * channels, last - i * channels, (size_t)channels);
    }
}

/* Mirrors piecewise through a small buffer, so that the conversion stays one straight loop. */
static void convert_mirrored(const vvi_transform *transform, const uint8_t *last,
                             int64_t first_column, int64_t count, float *out)
{
    uint8_t piece[PIECE_BYTES];
    const int64_t channels = transform->channels, most = PIECE_BYTES / channels;
    for (int64_t done = 0; done < count; done += most) {
        const int64_t pixels = count - done < most ? count - done : most;
        mirror(last - done * channels, channels, pixels, piece);
        convert(transform, piece, (first_column + done) * channels, pixels * channels,
                out + done * channels);
    }
}

void vvi_transform_apply(const vvi_transform *transform, vvi_warp warp, const uint8_t *in,
                         float *out)
{
    const int64_t height = transform->height, width = transform->width;
    const int64_t channels = transform->channels;
    const float *bias = transform->bias;
    /* Output columns [lo, hi) come from inside the image: 0 <= source column < width. */
    const int64_t shift = warp.flip ? -warp.dx : warp.dx;
    const int64_t lo = shift < 0 ? -shift : 0, hi = shift > 0 ? width - shift : width;
    const int64_t first = warp.flip ? width - 1 - lo + warp.dx : lo + warp.dx;
    for (int64_t y = 0; y < height; y++, out += width * channels) {
        const int64_t src_y = y + warp.dy;
        if (src_y < 0 || src_y >= height || lo >= hi) {
            memcpy(out, bias, (size_t)(width * channels) * sizeof *out);
            continue;
        }
        const uint8_t *src = in + (src_y * width + first) * channels;
        float *run = out + lo * channels;
        if (warp.flip)
            convert_mirrored(transform, src, lo, hi - lo, run);
        else
            convert(transform, src, lo * channels, (hi - lo) * channels, run);
        memcpy(out, bias, (size_t)(lo * channels) * sizeof *out);
        memcpy(out + hi * channels, bias, (size_t)((width - hi) * channels) * sizeof *out);
    }
}
