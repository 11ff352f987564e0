/* jpeg_file.c - decodes and writes JPEG images; the only user of libjpeg(-turbo).
 *
 * The library reports an error by a jump out of it: everything that lives across it is in a
 * struct. */
#include <stdio.h> /* jpeglib.h wants it before */
#include <string.h>

#include <vivace/memory.h>

#include "data/image_file.h"
#include "vvi_config.h"

#if VVI_HAVE_JPEG
#include <jerror.h>
#include <jpeglib.h>
#include <math.h>
#include <setjmp.h>

typedef struct vvi_jpeg {
    struct jpeg_error_mgr errors; /* first: what the library hands back is cast to this struct */
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    struct jpeg_decompress_struct in;
    struct jpeg_compress_struct out;
    char message[JMSG_LENGTH_MAX];
    uint8_t *row; /* one row as the library gives it */
    struct jpeg_destination_mgr to;
    uint8_t *bytes; /* what was written */
    size_t capacity;
} vvi_jpeg;

/* A progressive file of a few kB can ask for as many passes over all pixels as it likes. */
enum { MOST_SCANS = 200, ROWS_MARGIN = 16 };

static void on_error(j_common_ptr info)
{
    vvi_jpeg *jpeg = (vvi_jpeg *)(void *)info->err;
    info->err->format_message(info, jpeg->message);
    longjmp(jpeg->back, 1);
}

/* What the library would only warn of: pixels that it had to make up are an error here. */
static void on_message(j_common_ptr info, int level)
{
    if (level >= 0)
        return;
    switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC: on_error(info); break;
    default: info->err->num_warnings++; break;
    }
}

static void on_progress(j_common_ptr info)
{
    if (info->is_decompressor && ((j_decompress_ptr)(void *)info)->input_scan_number > MOST_SCANS) {
        vvi_jpeg *jpeg = (vvi_jpeg *)(void *)info->err;
        snprintf(jpeg->message, sizeof jpeg->message, "more than %d scans", MOST_SCANS);
        longjmp(jpeg->back, 1);
    }
}

static void no_output(j_common_ptr info)
{
    (void)info;
}

static void handlers(vvi_jpeg *jpeg)
{
    jpeg_std_error(&jpeg->errors);
    jpeg->errors.error_exit = on_error;
    jpeg->errors.emit_message = on_message;
    jpeg->errors.output_message = no_output;
    jpeg->progress.progress_monitor = on_progress;
}

static vv_status damaged(const vvi_image_job *job, const vvi_jpeg *jpeg)
{
    size_t length = strlen(jpeg->message);
    if (length > 0 && jpeg->message[length - 1] == '.')
        length--;
    return vv_fail(VV_EFORMAT, "%s: damaged JPEG image: %.*s; fetch it again or take it out",
                   job->name, (int)length, jpeg->message);
}

/* The largest of 1, 2, 4, 8 by which the box may shrink. */
static unsigned shrinkage(const vvi_image_job *job)
{
    unsigned by = 1;
    if (job->opts.min_height < 1 || job->opts.min_width < 1)
        return by;
    const double height = job->box[3] - job->box[1], width = job->box[2] - job->box[0];
    while (by < 8 && height / (2 * by) >= (double)job->opts.min_height &&
           width / (2 * by) >= (double)job->opts.min_width)
        by *= 2;
    return by;
}

/* Each 8 x 8 block of the largest component takes at least one bit. */
static bool too_short(const vvi_image_job *job)
{
    return job->info.height * job->info.width / (64 * 8) > (int64_t)job->bytes;
}

static void start(vvi_jpeg *jpeg, vvi_image_job *job)
{
    struct jpeg_decompress_struct *in = &jpeg->in;
    in->err = &jpeg->errors;
    jpeg_create_decompress(in);
    in->progress = &jpeg->progress;
    jpeg_mem_src(in, job->data, (unsigned long)job->bytes);
    jpeg_read_header(in, TRUE);
    const bool cmyk = in->num_components == 4;
    const bool grey = job->opts.channels == 1 ||
                      (job->opts.channels == 0 && in->num_components == 1);
    in->out_color_space = cmyk ? JCS_CMYK
                          : grey && in->jpeg_color_space != JCS_RGB ? JCS_GRAYSCALE : JCS_RGB;
    in->scale_num = 1;
    in->scale_denom = shrinkage(job);
    jpeg_start_decompress(in);
}

/* Turns one row of the library into one of ours. */
static void convert_row(const vvi_jpeg *jpeg, uint8_t *out, const uint8_t *in, int64_t width,
                        int64_t channels)
{
    const J_COLOR_SPACE space = jpeg->in.out_color_space;
    if (space == JCS_CMYK) /* stored inverted, as Adobe does and everyone expects */
        for (int64_t x = 0; x < width; x++, in += 4) {
            uint8_t rgb[3];
            for (int c = 0; c < 3; c++) {
                const unsigned t = (255u - in[c]) * in[3] + 128u; /* product / 255, rounded */
                const int value = in[3] - (int)((t + (t >> 8)) >> 8);
                rgb[c] = (uint8_t)(value < 0 ? 0 : value);
            }
            if (channels == 3)
                memcpy(out + 3 * x, rgb, 3);
            else
                vvi_grey_row(out + x, rgb, 1);
        }
    else if (space == JCS_RGB && channels == 1)
        vvi_grey_row(out, in, width);
    else
        memcpy(out, in, (size_t)(width * channels));
}

static int64_t stored_channels(const vvi_jpeg *jpeg, const vvi_image_job *job)
{
    return job->opts.channels ? job->opts.channels : jpeg->in.num_components == 1 ? 1 : 3;
}

/* The region of the scaled image to decode: the box rounded outwards. */
static void region_of(const vvi_jpeg *jpeg, vvi_image_job *job, int64_t region[4])
{
    const double by = (double)jpeg->in.scale_denom;
    const int64_t most[2] = {jpeg->in.output_width, jpeg->in.output_height};
    for (int i = 0; i < 4; i++) {
        job->box[i] /= by;
        if (job->box[i] > (double)most[i % 2])
            job->box[i] = (double)most[i % 2];
        region[i] = (int64_t)(i < 2 ? floor(job->box[i]) : ceil(job->box[i]));
    }
    for (int i = 0; i < 2; i++)
        if (region[i] >= region[i + 2])
            region[i] = region[i + 2] - 1;
    for (int i = 0; i < 4; i++)
        job->box[i] -= (double)region[i % 2];
}

/* Columns around the region that cost nothing to leave out; *first = where the rows begin then. The
   library cuts at whole blocks of samples, and interpolates colours next to a cut from one side
   only, so that a block more is kept on each side. */
static void cut_columns(vvi_jpeg *jpeg, const int64_t region[4], int64_t *first)
{
    struct jpeg_decompress_struct *in = &jpeg->in;
    const int64_t block = (int64_t)in->max_h_samp_factor * DCTSIZE;
    const int64_t from = region[0] > block ? region[0] - block : 0;
    const int64_t all = in->output_width, end = region[2] + block < all ? region[2] + block : all;
    JDIMENSION x = (JDIMENSION)from, width = (JDIMENSION)(end - from);
    *first = 0;
    if (end - from > all - 2 * block)
        return;
    jpeg_crop_scanline(in, &x, &width);
    *first = x;
}

static vv_status decode_rows(vv_image *out, vvi_jpeg *jpeg, vvi_image_job *job)
{
    struct jpeg_decompress_struct *in = &jpeg->in;
    int64_t region[4], first;
    region_of(jpeg, job, region);
    const int64_t width = region[2] - region[0], channels = stored_channels(jpeg, job);
    const int64_t stored = in->out_color_components;
    VV_TRY(vvi_image_new(out, region[3] - region[1], width, channels));
    VV_TRY(vv_alloc_array(&jpeg->row, in->output_width, (size_t)stored));
    cut_columns(jpeg, region, &first);
    const bool direct = width == (int64_t)in->output_width && stored == channels;
    const int64_t before = region[1] > ROWS_MARGIN ? region[1] - ROWS_MARGIN : 0;
    if (before > 0)
        jpeg_skip_scanlines(in, (JDIMENSION)before);
    for (int64_t y = before; y < region[3]; y++) {
        const bool wanted = y >= region[1];
        uint8_t *to = wanted ? out->pixels + (y - region[1]) * width * channels : NULL;
        JSAMPROW row = direct && wanted ? to : jpeg->row;
        jpeg_read_scanlines(in, &row, 1);
        if (wanted && !direct)
            convert_row(jpeg, to, row + (region[0] - first) * stored, width, channels);
    }
    return VV_OK;
}

vv_status vvi_jpeg_decode(vv_image *out, vvi_image_job *job)
{
    if (job->opts.palette_index)
        return vv_fail(VV_EFORMAT, "%s: a mask may not be a JPEG image, which changes its numbers; "
                                   "store it as PNG", job->name);
    if (too_short(job))
        return vv_fail(VV_EFORMAT, "%s: damaged JPEG image: %zu bytes cannot hold %lld x %lld "
                                   "pixels; fetch it again or take it out", job->name, job->bytes,
                       (long long)job->info.width, (long long)job->info.height);
    vvi_jpeg *jpeg = NULL;
    VV_TRY(vv_alloc(&jpeg, sizeof *jpeg));
    handlers(jpeg);
    vv_status status;
    if (setjmp(jpeg->back)) {
        status = damaged(job, jpeg);
    } else {
        start(jpeg, job);
        status = decode_rows(out, jpeg, job);
    }
    jpeg_destroy_decompress(&jpeg->in);
    vv_dealloc(jpeg->row);
    vv_dealloc(jpeg);
    return status;
}

/* ---- writing ---- */

/* The output grows by doubling; without memory the library is left as on an error. */
static void more_room(vvi_jpeg *jpeg)
{
    const size_t filled = jpeg->capacity, capacity = filled ? 2 * filled : 1 << 14;
    if (vv_realloc_array(&jpeg->bytes, capacity, 1) != VV_OK) {
        snprintf(jpeg->message, sizeof jpeg->message, "no memory");
        longjmp(jpeg->back, 1);
    }
    jpeg->capacity = capacity;
    jpeg->to.next_output_byte = jpeg->bytes + filled;
    jpeg->to.free_in_buffer = capacity - filled;
}

static void begin_output(j_compress_ptr info)
{
    more_room((vvi_jpeg *)(void *)info->err);
}

static boolean full_output(j_compress_ptr info) /* called when nothing is left */
{
    more_room((vvi_jpeg *)(void *)info->err);
    return TRUE;
}

static void end_output(j_compress_ptr info)
{
    (void)info;
}

static void encode(vvi_jpeg *jpeg, const vv_image_shape *shape, const uint8_t *pixels, int quality)
{
    struct jpeg_compress_struct *out = &jpeg->out;
    out->err = &jpeg->errors;
    jpeg_create_compress(out);
    jpeg->to.init_destination = begin_output;
    jpeg->to.empty_output_buffer = full_output;
    jpeg->to.term_destination = end_output;
    out->dest = &jpeg->to;
    out->image_width = (JDIMENSION)shape->width;
    out->image_height = (JDIMENSION)shape->height;
    out->input_components = (int)shape->channels;
    out->in_color_space = shape->channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(out);
    jpeg_set_quality(out, quality, TRUE);
    jpeg_start_compress(out, TRUE);
    for (int64_t y = 0; y < shape->height; y++) {
        /* The library only reads rows; its type does not say so. */
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + y * shape->width * shape->channels);
        jpeg_write_scanlines(out, &row, 1);
    }
    jpeg_finish_compress(out);
}

vv_status vv_jpeg_encode(VV_OWNED void **out, size_t *bytes, const vv_image_shape *shape,
                         const uint8_t *pixels, int quality)
{
    *out = NULL;
    *bytes = 0;
    if (shape->height < 1 || shape->width < 1 || shape->height > JPEG_MAX_DIMENSION ||
        shape->width > JPEG_MAX_DIMENSION || (shape->channels != 1 && shape->channels != 3))
        return vv_fail(VV_EINVAL, "a JPEG image has 1 or 3 channels and at most %ld pixels a side; "
                                  "this one is %lld x %lld x %lld", (long)JPEG_MAX_DIMENSION,
                       (long long)shape->height, (long long)shape->width,
                       (long long)shape->channels);
    if (quality < 1 || quality > 100)
        return vv_fail(VV_EINVAL, "the quality of a JPEG image is 1 to 100, not %d", quality);
    vvi_jpeg *jpeg = NULL;
    VV_TRY(vv_alloc(&jpeg, sizeof *jpeg));
    handlers(jpeg);
    vv_status status = VV_OK;
    if (setjmp(jpeg->back)) {
        status = vv_fail(jpeg->capacity ? VV_EIO : VV_ENOMEM, "cannot make a JPEG image: %s",
                         jpeg->message);
    } else {
        encode(jpeg, shape, pixels, quality);
        *out = jpeg->bytes;
        *bytes = jpeg->capacity - jpeg->to.free_in_buffer;
        jpeg->bytes = NULL;
    }
    jpeg_destroy_compress(&jpeg->out);
    vv_dealloc(jpeg->bytes);
    vv_dealloc(jpeg);
    return status;
}
#else
vv_status vvi_jpeg_decode(vv_image *out, vvi_image_job *job)
{
    (void)out;
    return vv_fail(VV_EUNSUPPORTED, "%s: this build cannot read JPEG images; build it with "
                                    "libjpeg-turbo (-Djpeg=enabled)", job->name);
}

vv_status vv_jpeg_encode(VV_OWNED void **out, size_t *bytes, const vv_image_shape *shape,
                         const uint8_t *pixels, int quality)
{
    (void)shape, (void)pixels, (void)quality;
    *out = NULL;
    *bytes = 0;
    return vv_fail(VV_EUNSUPPORTED, "this build cannot write JPEG images; build it with "
                                    "libjpeg-turbo (-Djpeg=enabled)");
}
#endif
