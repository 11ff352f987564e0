/* png_read.c - decodes PNG images in memory (libpng); the header is read without it.
 *
 * The library reports an error by a jump out of it: everything that lives across it is in a
 * struct. */
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

#include "data/image_file.h"
#include "vvi_config.h"

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The eXIf chunk, if it comes before the pixels. */
static int orientation_of(const uint8_t *data, size_t bytes)
{
    for (size_t at = 8; bytes - at >= 12;) {
        const size_t length = big_endian(data + at), there = bytes - at - 8;
        if (memcmp(data + at + 4, "IDAT", 4) == 0 || length > there)
            return 1;
        if (memcmp(data + at + 4, "eXIf", 4) == 0)
            return vvi_exif_orientation(data + at + 8, length);
        if (there - length < 4)
            return 1;
        at += 12 + length;
    }
    return 1;
}

vv_status vvi_png_probe(vv_image_info *out, const char *name, const uint8_t *data, size_t bytes)
{
    static const int channels[7] = {1, 0, 3, 3, 2, 0, 4};
    out->format = VV_IMAGE_PNG;
    if (bytes < 8 + 25)
        return vv_fail(VV_EFORMAT,
                       "%s: this PNG image is cut short before its size; fetch it again "
                       "or take it out",
                       name);
    const int64_t width = big_endian(data + 16), height = big_endian(data + 20);
    const int bits = data[24], kind = data[25];
    if (big_endian(data + 8) != 13 || memcmp(data + 12, "IHDR", 4) != 0 || width < 1 ||
        height < 1 || width > INT32_MAX || height > INT32_MAX || kind > 6 || channels[kind] == 0 ||
        (bits != 1 && bits != 2 && bits != 4 && bits != 8 && bits != 16))
        return vv_fail(VV_EFORMAT, "%s: damaged PNG image: its header is no valid one; fetch it "
                                   "again or take it out", name);
    out->width = width;
    out->height = height;
    out->channels = channels[kind];
    out->bits = bits;
    out->palette = kind == 3;
    out->orientation = orientation_of(data, bytes);
    return VV_OK;
}

#if VVI_HAVE_PNG
#include <png.h>

typedef struct vvi_png {
    png_structp png;
    png_infop info;
    vvi_image_job *job;
    size_t at;
    uint8_t **rows;
    char message[160];
} vvi_png;

static void on_error(png_structp png, png_const_charp text)
{
    vvi_png *self = png_get_error_ptr(png);
    snprintf(self->message, sizeof self->message, "%s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

static void on_read(png_structp png, png_bytep to, size_t bytes)
{
    vvi_png *self = png_get_io_ptr(png);
    if (bytes > self->job->bytes - self->at)
        png_error(png, "it is cut short");
    memcpy(to, self->job->data + self->at, bytes);
    self->at += bytes;
}

static png_voidp on_alloc(png_structp png, png_alloc_size_t bytes)
{
    void *block = NULL;
    (void)png;
    return vv_alloc_aligned(&block, bytes) == VV_OK ? block : NULL;
}

static void on_free(png_structp png, png_voidp block)
{
    (void)png;
    vv_dealloc(block);
}

/* Sets the conversions; returns the channels a row will have. */
static int64_t conversions(vvi_png *self)
{
    const vvi_image_job *job = self->job;
    const vv_image_info *info = &job->info;
    png_structp png = self->png;
    if (job->opts.palette_index) {
        png_set_packing(png); /* one number a byte, as it is */
        return 1;
    }
    if (info->palette)
        png_set_palette_to_rgb(png);
    else if (info->channels <= 2 && info->bits < 8)
        png_set_expand_gray_1_2_4_to_8(png);
    if (info->bits == 16)
        png_set_scale_16(png);
    png_set_strip_alpha(png);
    const bool grey = info->channels <= 2;
    if (grey && job->opts.channels == 3)
        png_set_gray_to_rgb(png);
    return grey && job->opts.channels != 3 ? 1 : 3;
}

static vv_status read_rows(vv_image *out, vvi_png *self)
{
    png_structp png = self->png;
    const vv_image_info *info = &self->job->info;
    png_set_read_fn(png, self, on_read);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_chunk_malloc_max(png, 1 << 24);
    png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_WARN_DISCARD);
    png_set_check_for_invalid_index(png, 0);
    png_read_info(png, self->info);
    const int64_t channels = conversions(self);
    png_set_interlace_handling(png);
    png_read_update_info(png, self->info);
    VV_TRY(vvi_image_new(out, info->height, info->width, channels));
    const size_t row = (size_t)(info->width * channels);
    if (png_get_rowbytes(png, self->info) != row)
        return vv_fail(VV_EINTERNAL, "%s: a row of this PNG image has %zu bytes, expected %zu",
                       self->job->name, png_get_rowbytes(png, self->info), row);
    VV_TRY(vv_alloc_array(&self->rows, (size_t)info->height, sizeof *self->rows));
    for (int64_t y = 0; y < info->height; y++)
        self->rows[y] = out->pixels + (size_t)y * row;
    png_read_image(png, self->rows);
    png_read_end(png, NULL);
    if (channels == 3 && self->job->opts.channels == 1) {
        for (int64_t y = 0; y < info->height; y++)
            vvi_grey_row(out->pixels + y * info->width, self->rows[y], info->width);
        out->shape.channels = 1;
    }
    return VV_OK;
}

/* Deflate packs at most 1032 to 1. */
static bool too_short(const vvi_image_job *job)
{
    const vv_image_info *info = &job->info;
    const int64_t row = (info->width * info->channels * info->bits + 7) / 8;
    return row > (int64_t)job->bytes * 1032 / info->height;
}

static vv_status check(const vvi_image_job *job)
{
    const vv_image_info *info = &job->info;
    if (job->opts.palette_index && ((!info->palette && info->channels != 1) || info->bits == 16))
        return vv_fail(VV_EFORMAT, "%s: a mask must be a PNG image with a palette or of grey with "
                                   "at most 8 bits; this one has %d channels of %d bits", job->name,
                       info->channels, info->bits);
    if (too_short(job))
        return vv_fail(VV_EFORMAT, "%s: damaged PNG image: %zu bytes cannot hold %lld x %lld "
                                   "pixels; fetch it again or take it out", job->name, job->bytes,
                       (long long)info->width, (long long)info->height);
    return VV_OK;
}

vv_status vvi_png_decode(vv_image *out, vvi_image_job *job)
{
    VV_TRY(check(job));
    vvi_png *self = NULL;
    VV_TRY(vv_alloc(&self, sizeof *self));
    vv_status status = VV_OK;
    self->job = job;
    self->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, self, on_error, on_warning, NULL,
                                         on_alloc, on_free);
    self->info = self->png ? png_create_info_struct(self->png) : NULL;
    if (!self->info) {
        status = vv_fail(VV_ENOMEM, "%s: no memory to read this PNG image", job->name);
        goto out;
    }
    if (setjmp(png_jmpbuf(self->png)))
        status = vv_fail(VV_EFORMAT, "%s: damaged PNG image: %s; fetch it again or take it out",
                         job->name, self->message);
    else
        status = read_rows(out, self);
out:
    png_destroy_read_struct(&self->png, &self->info, NULL);
    vv_dealloc(self->rows);
    vv_dealloc(self);
    return status;
}
#else
vv_status vvi_png_decode(vv_image *out, vvi_image_job *job)
{
    (void)out;
    return vv_fail(VV_EUNSUPPORTED, "%s: this build cannot read PNG images; build it with libpng "
                                    "(-Dpng=enabled)", job->name);
}
#endif
