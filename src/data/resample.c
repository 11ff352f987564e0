/* resample.c - images made larger or smaller with Pillow's arithmetic.
 *
 * Two passes, one along rows and one along columns, with eight bits between them. The weights of an
 * output pixel are the filter, widened by the scale when it shrinks, at the centres of the input
 * pixels it reaches, made to sum to 1 and rounded to 22 bits behind the point. */
#include <vivace/image.h>

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

#include "data/resample.h"

enum { BITS = VVI_RESAMPLE_BITS };

const char *vv_image_filter_name(vv_image_filter filter)
{
    static const char *const names[VV_IMAGE_FILTER_COUNT] = {"nearest", "bilinear", "bicubic",
                                                             "box"};
    return filter >= 0 && filter < VV_IMAGE_FILTER_COUNT ? names[filter] : "(none)";
}

/* ---- weights ---- */

static double reach_of(vv_image_filter filter)
{
    return filter == VV_IMAGE_BICUBIC ? 2.0 : filter == VV_IMAGE_BILINEAR ? 1.0 : 0.5;
}

static double weight_at(vv_image_filter filter, double x)
{
    const double a = -0.5; /* Keys's cubic */
    if (filter == VV_IMAGE_BOX)
        return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    x = fabs(x);
    if (filter == VV_IMAGE_BILINEAR)
        return x < 1.0 ? 1.0 - x : 0.0;
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

void vvi_taps_fini(vvi_taps *taps)
{
    vv_dealloc(taps->first);
    vv_dealloc(taps->weight);
    memset(taps, 0, sizeof *taps);
}

vv_status vvi_taps_make(vvi_taps *taps, int64_t in_size, double from, double to, int64_t out_size,
                        vv_image_filter filter)
{
    const double scale = (to - from) / (double)out_size, widen = scale < 1.0 ? 1.0 : scale;
    const double reach = reach_of(filter) * widen, narrow = 1.0 / widen;
    double *exact = NULL;
    memset(taps, 0, sizeof *taps);
    taps->size = out_size;
    taps->most = (int64_t)ceil(reach) * 2 + 1;
    vv_status status = VV_OK;
    VV_GO(vv_alloc_array(&taps->first, (size_t)out_size, 2 * sizeof *taps->first));
    taps->count = taps->first + out_size;
    VV_GO(vv_alloc_array(&taps->weight, (size_t)out_size * (size_t)taps->most,
                         sizeof *taps->weight));
    VV_GO(vv_alloc_array(&exact, (size_t)taps->most, sizeof *exact));
    for (int64_t i = 0; i < out_size; i++) {
        const double centre = from + ((double)i + 0.5) * scale;
        int64_t first = (int64_t)(centre - reach + 0.5), end = (int64_t)(centre + reach + 0.5);
        first = first < 0 ? 0 : first;
        end = end > in_size ? in_size : end;
        double sum = 0.0;
        for (int64_t k = first; k < end; k++) {
            exact[k - first] = weight_at(filter, ((double)k - centre + 0.5) * narrow);
            sum += exact[k - first];
        }
        int32_t *weight = taps->weight + i * taps->most;
        for (int64_t k = 0; k < end - first; k++) {
            const double w = (sum != 0.0 ? exact[k] / sum : exact[k]) * (1 << BITS);
            weight[k] = (int32_t)(w < 0.0 ? w - 0.5 : w + 0.5);
        }
        taps->first[i] = (int32_t)first;
        taps->count[i] = (int32_t)(end - first);
    }
out:
    vv_dealloc(exact);
    if (status != VV_OK)
        vvi_taps_fini(taps);
    return status;
}

/* ---- nearest ---- */

static vv_status nearest(const vv_image_shape *out_shape, uint8_t *out,
                         const vv_image_shape *in_shape, const uint8_t *in, const double box[4])
{
    const double step_x = (box[2] - box[0]) / (double)out_shape->width;
    const double step_y = (box[3] - box[1]) / (double)out_shape->height;
    const int64_t channels = out_shape->channels;
    int64_t *column = NULL;
    VV_TRY(vv_alloc_array(&column, (size_t)out_shape->width, sizeof *column));
    double at = box[0] + step_x * 0.5; /* summed up step by step, as Pillow does */
    for (int64_t x = 0; x < out_shape->width; x++, at += step_x)
        column[x] = channels * (at < (double)in_shape->width ? (int64_t)at : in_shape->width - 1);
    at = box[1] + step_y * 0.5;
    for (int64_t y = 0; y < out_shape->height; y++, at += step_y) {
        const int64_t line = at < (double)in_shape->height ? (int64_t)at : in_shape->height - 1;
        const uint8_t *from = in + line * in_shape->width * channels;
        for (int64_t x = 0; x < out_shape->width; x++)
            for (int64_t c = 0; c < channels; c++)
                *out++ = from[column[x] + c];
    }
    vv_dealloc(column);
    return VV_OK;
}

/* ---- both passes ---- */

static vv_status check(const vv_image_shape *out_shape, const vv_image_shape *in_shape,
                       const double box[4], vv_image_filter filter)
{
    enum { MOST = 1 << 24 };
    const vv_image_shape *both[2] = {out_shape, in_shape};
    for (int i = 0; i < 2; i++)
        if (both[i]->height < 1 || both[i]->width < 1 || both[i]->height > MOST ||
            both[i]->width > MOST)
            return vv_fail(VV_ESHAPE, "an image of %lld x %lld pixels cannot be resized",
                           (long long)both[i]->width, (long long)both[i]->height);
    if (out_shape->channels != in_shape->channels ||
        (out_shape->channels != 1 && out_shape->channels != 3))
        return vv_fail(VV_ESHAPE, "images of 1 or 3 channels can be resized, the same before and "
                                  "after; these have %lld and %lld",
                       (long long)in_shape->channels, (long long)out_shape->channels);
    if (!(box[0] >= 0.0 && box[1] >= 0.0 && box[2] <= (double)in_shape->width &&
          box[3] <= (double)in_shape->height && box[2] > box[0] && box[3] > box[1]))
        return vv_fail(VV_ESHAPE, "the box (%g, %g, %g, %g) is not inside an image of %lld x %lld "
                                  "pixels", box[0], box[1], box[2], box[3],
                       (long long)in_shape->width, (long long)in_shape->height);
    if (filter < 0 || filter >= VV_IMAGE_FILTER_COUNT)
        return vv_fail(VV_EINVAL, "there is no filter number %d", (int)filter);
    return VV_OK;
}

typedef struct span {
    int64_t first, count;
} span;

/* The input pixels that any output pixel reaches; all of them where nothing changes. */
static span reached(const vvi_taps *taps, int64_t size)
{
    if (taps->size == 0)
        return (span){0, size};
    const int64_t last = taps->size - 1, first = taps->first[0];
    return (span){first, taps->first[last] + taps->count[last] - first};
}

/* Which pass Pillow 13 makes first; the eight bits between them make it matter. */
static bool columns_first(const vv_image_shape *out, const vv_image_shape *in)
{
    return out->height < in->height && in->height - out->height > 2 * (in->width - out->width);
}

static vv_status both_passes(const vv_image_shape *out_shape, uint8_t *out,
                             const vv_image_shape *in_shape, const uint8_t *in,
                             const vvi_taps *across, const vvi_taps *down)
{
    const span x = reached(across, in_shape->width), y = reached(down, in_shape->height);
    const int64_t channels = out_shape->channels, row = out_shape->width * channels;
    const int64_t in_row = in_shape->width * channels;
    uint8_t *between;
    if (columns_first(out_shape, in_shape)) {
        VV_TRY(vv_alloc_aligned(&between, (size_t)(out_shape->height * x.count * channels)));
        vvi_resample_columns(between, in + x.first * channels, in_row, x.count * channels, 0, down);
        vvi_resample_rows(out, between, x.count * channels, out_shape->height, channels, x.first,
                          across);
    } else {
        VV_TRY(vv_alloc_aligned(&between, (size_t)(y.count * row)));
        vvi_resample_rows(between, in + y.first * in_row, in_row, y.count, channels, 0, across);
        vvi_resample_columns(out, between, row, row, y.first, down);
    }
    vv_dealloc(between);
    return VV_OK;
}

vv_status vv_image_resample(const vv_image_shape *out_shape, uint8_t *out,
                            const vv_image_shape *in_shape, const uint8_t *in, const double box[4],
                            vv_image_filter filter)
{
    const double whole[4] = {0.0, 0.0, (double)in_shape->width, (double)in_shape->height};
    box = box ? box : whole;
    VV_TRY(check(out_shape, in_shape, box, filter));
    if (filter == VV_IMAGE_NEAREST)
        return nearest(out_shape, out, in_shape, in, box);
    const int64_t channels = out_shape->channels, row = out_shape->width * channels;
    vvi_taps across = {0}, down = {0};
    vv_status status = VV_OK;
    if (out_shape->height != in_shape->height || box[1] != 0.0 || box[3] != whole[3])
        VV_GO(vvi_taps_make(&down, in_shape->height, box[1], box[3], out_shape->height, filter));
    if (out_shape->width != in_shape->width || box[0] != 0.0 || box[2] != whole[2])
        VV_GO(vvi_taps_make(&across, in_shape->width, box[0], box[2], out_shape->width, filter));
    if (across.size && down.size)
        VV_GO(both_passes(out_shape, out, in_shape, in, &across, &down));
    else if (across.size)
        vvi_resample_rows(out, in, in_shape->width * channels, in_shape->height, channels, 0,
                          &across);
    else if (down.size)
        vvi_resample_columns(out, in, row, row, 0, &down);
    else
        memcpy(out, in, (size_t)(out_shape->height * row));
out:
    vvi_taps_fini(&down);
    vvi_taps_fini(&across);
    return status;
}
