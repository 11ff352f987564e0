/* image_file.h - what the readers of single image formats share. */
#ifndef VVI_IMAGE_FILE_H
#define VVI_IMAGE_FILE_H

#include <vivace/image_files.h>

/* What is to be decoded: one file's bytes and the part that is wanted. */
typedef struct vvi_image_job {
    const char *name;
    const uint8_t *data;
    size_t bytes;
    vv_image_decode_opts opts;
    vv_image_info info;
    double
        box[4]; /* wanted, in pixels of the whole stored image; afterwards in those of the result */
} vvi_image_job;

/* Decode what `job->info` describes into *out; sizes were checked. */
VV_MUST_USE vv_status vvi_jpeg_decode(vv_image *out, vvi_image_job *job);
VV_MUST_USE vv_status vvi_png_decode(vv_image *out, vvi_image_job *job);
/* The headers. */
VV_MUST_USE vv_status vvi_jpeg_probe(vv_image_info *out, const char *name, const uint8_t *data,
                                     size_t bytes);
VV_MUST_USE vv_status vvi_png_probe(vv_image_info *out, const char *name, const uint8_t *data,
                                    size_t bytes);
/* Orientation in a block of EXIF data ("II*\0..." or "MM\0*..."), 1 if it says none. */
int vvi_exif_orientation(const uint8_t *data, size_t bytes);
/* *out = pixels of the shape, not zeroed. */
VV_MUST_USE vv_status vvi_image_new(vv_image *out, int64_t height, int64_t width, int64_t channels);
/* RGB to grey as Pillow's "L"; out may be in. */
void vvi_grey_row(uint8_t *out, const uint8_t *in, int64_t width);

#endif
