/* image_file.c - JPEG and PNG images: which format, how large, which part; orientation. */
#include "data/image_file.h"

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

#include "base/file.h"
#include "vvi_config.h"

enum { DEFAULT_MAX_PIXELS = 178956970 };
#define MAX_FILE_BYTES ((size_t)1 << 31)

void vv_image_fini(vv_image *image)
{
    vv_dealloc(image->pixels);
    memset(image, 0, sizeof *image);
}

vv_status vvi_image_new(vv_image *out, int64_t height, int64_t width, int64_t channels)
{
    size_t bytes;
    VV_TRY(vv_size_mul(&bytes, (size_t)height, (size_t)width));
    VV_TRY(vv_size_mul(&bytes, bytes, (size_t)channels));
    VV_TRY(vv_alloc_aligned(&out->pixels, bytes));
    out->shape = (vv_image_shape){height, width, channels};
    return VV_OK;
}

void vvi_grey_row(uint8_t *out, const uint8_t *in, int64_t width)
{
    for (int64_t x = 0; x < width; x++, in += 3)
        out[x] = (uint8_t)((in[0] * 19595 + in[1] * 38470 + in[2] * 7471 + 0x8000) >> 16);
}

/* ---- formats ---- */

vv_image_format vv_image_format_of(const void *data, size_t bytes)
{
    static const uint8_t png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    const uint8_t *p = data;
    if (bytes >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff)
        return VV_IMAGE_JPEG;
    if (bytes >= sizeof png && memcmp(p, png, sizeof png) == 0)
        return VV_IMAGE_PNG;
    return VV_IMAGE_UNKNOWN;
}

bool vv_image_format_available(vv_image_format format)
{
    return (format == VV_IMAGE_JPEG && VVI_HAVE_JPEG) || (format == VV_IMAGE_PNG && VVI_HAVE_PNG);
}

/* What a file is that is neither, for the sentence. */
static const char *other_format(const uint8_t *data, size_t bytes)
{
    static const struct {
        const char *start;
        size_t length;
        const char *name;
    } known[] = {
        {"GIF8", 4, "a GIF image"},      {"BM", 2, "a BMP image"},   {"RIFF", 4, "a WebP image"},
        {"II*\0", 4, "a TIFF image"},    {"MM\0*", 4, "a TIFF image"}, {"<", 1, "a text (HTML or XML)"},
        {"\0\0\0\x0cjP", 6, "a JPEG 2000 image"}, {"P6", 2, "a PPM image"}, {"P5", 2, "a PGM image"},
    };
    if (bytes == 0)
        return "empty";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (bytes >= known[i].length && memcmp(data, known[i].start, known[i].length) == 0)
            return known[i].name;
    return "something else";
}

vv_status vv_image_probe(vv_image_info *out, const char *name, const void *data, size_t bytes)
{
    memset(out, 0, sizeof *out);
    switch (vv_image_format_of(data, bytes)) {
    case VV_IMAGE_JPEG: return vvi_jpeg_probe(out, name, data, bytes);
    case VV_IMAGE_PNG: return vvi_png_probe(out, name, data, bytes);
    case VV_IMAGE_UNKNOWN: break;
    }
    return vv_fail(VV_EFORMAT, "%s: not a JPEG or PNG image (it is %s); convert it or take it out",
                   name, other_format(data, bytes));
}

static uint32_t exif_number(const uint8_t *p, int bytes, bool big)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | p[big ? i : bytes - 1 - i];
    return value;
}

int vvi_exif_orientation(const uint8_t *data, size_t bytes)
{
    if (bytes < 8 || (memcmp(data, "II*", 4) != 0 && memcmp(data, "MM\0*", 4) != 0))
        return 1;
    const bool big = data[0] == 'M';
    const size_t at = exif_number(data + 4, 4, big);
    if (at > bytes - 2 || bytes < 2)
        return 1;
    const size_t count = exif_number(data + at, 2, big);
    for (size_t i = 0; i < count; i++) {
        const size_t entry = at + 2 + 12 * i;
        if (entry + 12 > bytes)
            return 1;
        if (exif_number(data + entry, 2, big) != 0x0112)
            continue;
        const uint32_t value = exif_number(data + entry + 8, 2, big);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* ---- decoding ---- */

/* EXIF's 2..8: mirrored and turned; 5..8 swap height and width. */
static vv_status turned(vv_image *image, int orientation)
{
    const vv_image_shape in = image->shape;
    const bool swap = orientation >= 5;
    const bool flip_x =
        orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool flip_y =
        orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    vv_image out = {0};
    VV_TRY(vvi_image_new(&out, swap ? in.width : in.height, swap ? in.height : in.width,
                         in.channels));
    uint8_t *to = out.pixels;
    for (int64_t y = 0; y < out.shape.height; y++)
        for (int64_t x = 0; x < out.shape.width; x++) {
            int64_t from_y = swap ? x : y, from_x = swap ? y : x;
            from_y = flip_y ? in.height - 1 - from_y : from_y;
            from_x = flip_x ? in.width - 1 - from_x : from_x;
            const uint8_t *from = image->pixels + (from_y * in.width + from_x) * in.channels;
            for (int64_t c = 0; c < in.channels; c++)
                *to++ = from[c];
        }
    vv_image_fini(image);
    *image = out;
    return VV_OK;
}

static vv_status check_size(const vvi_image_job *job)
{
    const vv_image_info *info = &job->info;
    const int64_t most = job->opts.max_pixels > 0 ? job->opts.max_pixels : DEFAULT_MAX_PIXELS;
    if (info->height > most / info->width)
        return vv_fail(VV_EFORMAT, "%s: the image claims %lld x %lld pixels, more than the %lld "
                                   "allowed (max_pixels)", job->name, (long long)info->width,
                       (long long)info->height, (long long)most);
    if (job->opts.channels != 0 && job->opts.channels != 1 && job->opts.channels != 3)
        return vv_fail(VV_EINVAL, "%s: images can be decoded to 0 (as stored), 1 or 3 channels, "
                                  "not %d", job->name, job->opts.channels);
    return VV_OK;
}

/* Keeps the box inside an image and at least one pixel large; NaN becomes the whole. */
static void box_inside(double box[4], double height, double width)
{
    const double most[4] = {width, height, width, height};
    for (int i = 0; i < 4; i++)
        if (!(box[i] > 0.0))
            box[i] = i < 2 || box[i] <= 0.0 ? 0.0 : most[i];
        else if (box[i] > most[i])
            box[i] = most[i];
    for (int i = 0; i < 2; i++)
        if (!(box[i + 2] - box[i] >= 1.0)) {
            box[i] = fmin(floor(box[i]), most[i] - 1.0);
            box[i + 2] = box[i] + 1.0;
        }
}

/* Cuts out what the box needs of a whole image. */
static void cut(vv_image *image, double box[4])
{
    const vv_image_shape in = image->shape;
    const int64_t x0 = (int64_t)floor(box[0]), y0 = (int64_t)floor(box[1]);
    const int64_t width = (int64_t)ceil(box[2]) - x0, height = (int64_t)ceil(box[3]) - y0;
    if (height == in.height && width == in.width)
        return;
    const size_t row = (size_t)(width * in.channels);
    for (int64_t y = 0; y < height; y++)
        memmove(image->pixels + (size_t)y * row,
                image->pixels + ((y0 + y) * in.width + x0) * in.channels, row);
    image->shape.height = height;
    image->shape.width = width;
    box[0] -= (double)x0, box[2] -= (double)x0;
    box[1] -= (double)y0, box[3] -= (double)y0;
}

static vv_status decode(vv_image *out, vvi_image_job *job)
{
    if (job->info.format == VV_IMAGE_JPEG)
        return vvi_jpeg_decode(out, job);
    VV_TRY(vvi_png_decode(out, job));
    cut(out, job->box);
    return VV_OK;
}

vv_status vv_image_decode_part(vv_image *out, double box[4], const char *name, const void *data,
                               size_t bytes, const vv_image_decode_opts *opts)
{
    vvi_image_job job = {.name = name, .data = data, .bytes = bytes};
    memset(out, 0, sizeof *out);
    if (opts)
        job.opts = *opts;
    VV_TRY(vv_image_probe(&job.info, name, data, bytes));
    VV_TRY(check_size(&job));
    const double height = (double)job.info.height, width = (double)job.info.width;
    vv_status status = VV_OK;
    const bool turn = job.opts.orient && job.info.orientation > 1;
    const double whole[4] = {0.0, 0.0, width, height};
    if (!turn) {
        memcpy(job.box, box, sizeof job.box);
        box_inside(job.box, height, width);
        VV_GO(decode(out, &job));
        memcpy(box, job.box, sizeof job.box);
    } else { /* the box is one of the turned image, which is made first */
        const bool swap = job.info.orientation >= 5;
        box_inside(box, swap ? width : height, swap ? height : width);
        memcpy(job.box, whole, sizeof whole);
        job.opts.min_height = job.opts.min_width = 0;
        VV_GO(decode(out, &job));
        VV_GO(turned(out, job.info.orientation));
        cut(out, box);
    }
out:
    if (status != VV_OK)
        vv_image_fini(out);
    return status;
}

vv_status vv_image_decode(vv_image *out, const char *name, const void *data, size_t bytes,
                          const vv_image_decode_opts *opts)
{
    double box[4] = {0.0, 0.0, 1e18, 1e18};
    return vv_image_decode_part(out, box, name, data, bytes, opts);
}

vv_status vv_image_read(vv_image *out, const char *path, const vv_image_decode_opts *opts)
{
    char *data = NULL;
    size_t bytes = 0;
    memset(out, 0, sizeof *out);
    VV_TRY(vvi_file_read_head(&data, &bytes, path, MAX_FILE_BYTES));
    vv_status status = vv_image_decode(out, path, data, bytes, opts);
    vv_dealloc(data);
    return status;
}
