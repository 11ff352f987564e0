/* image_files.h - JPEG and PNG images in memory and in files.
 *
 * The format is told by the first bytes, never by a name. Any bytes give an image or one sentence;
 * nothing is allocated for sizes that a header merely promises. Pixels are what Pillow gives for
 * the same file (its "L" and "RGB"), to the bit where the JPEG library is the same. */
#ifndef VIVACE_IMAGE_FILES_H
#define VIVACE_IMAGE_FILES_H

#include <vivace/image.h>

VV_BEGIN_DECLS

typedef struct vv_image {
    uint8_t *pixels; /* [height, width, channels]; vv_dealloc or vv_image_fini frees them */
    vv_image_shape shape;
} vv_image;
VV_API void vv_image_fini(vv_image *image); /* a zeroed one is allowed */

typedef enum vv_image_format { VV_IMAGE_UNKNOWN, VV_IMAGE_JPEG, VV_IMAGE_PNG } vv_image_format;
/* By the first bytes (8 are enough). */
VV_API vv_image_format vv_image_format_of(const void *data, size_t bytes);
/* True if this build reads (and writes) the format. */
VV_API bool vv_image_format_available(vv_image_format format);

typedef struct vv_image_info {
    vv_image_format format;
    int64_t height, width; /* as stored; with orientation 5..8 the picture is seen with them
                              swapped */
    int channels; /* as stored: grey 1, grey and alpha 2, palette or RGB 3, CMYK or RGBA 4 */
    int bits;              /* of one stored value: 1, 2, 4, 8, 16 */
    bool palette;
    int orientation; /* EXIF's, 1..8; 1 if the file says nothing */
} vv_image_info;
/* From the header alone: `data` may end behind it. `name` is for sentences only. Works in every
   build. */
VV_API VV_MUST_USE vv_status vv_image_probe(vv_image_info *out, const char *name, const void *data,
                                            size_t bytes);

typedef struct vv_image_decode_opts {
    int channels; /* 0 = as stored (grey 1, all else 3); 1 = grey; 3 = RGB. Alpha is dropped. */
    bool palette_index; /* the stored numbers of a palette or grey PNG (masks), one channel */
    /* A JPEG may be decoded at 1/2, 1/4 or 1/8 as long as the result (or, with a box, the box in
       it) stays at least so large; 0 = full size. */
    int64_t min_height, min_width;
    int64_t max_pixels; /* larger images are refused; 0 = 178,956,970 (Pillow's limit) */
    bool orient;        /* turn and mirror as EXIF says; Pillow does so only when asked */
} vv_image_decode_opts;
/* opts NULL = all zero. */
VV_API VV_MUST_USE vv_status vv_image_decode(vv_image *out, const char *name, const void *data,
                                             size_t bytes, const vv_image_decode_opts *opts);
/* Only the part around `box` (x0,y0,x1,y1 in pixels of the whole image, made to lie inside): what
   is outside need not be decoded. On return `box` is the same region in pixels of *out. At full
   size *out is the box rounded outwards, so that a box of whole numbers is all of it. */
VV_API VV_MUST_USE vv_status vv_image_decode_part(vv_image *out, double box[4], const char *name,
                                                  const void *data, size_t bytes,
                                                  const vv_image_decode_opts *opts);
VV_API VV_MUST_USE vv_status vv_image_read(vv_image *out, const char *path,
                                           const vv_image_decode_opts *opts);

/* Grey or RGB as a baseline JPEG, chroma at half resolution (4:2:0), quality 1..100. */
VV_API VV_MUST_USE vv_status vv_jpeg_encode(VV_OWNED void **out, size_t *bytes,
                                            const vv_image_shape *shape, const uint8_t *pixels,
                                            int quality);

VV_END_DECLS

#endif
