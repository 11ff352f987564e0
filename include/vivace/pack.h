/* pack.h - a folder of photographs as a set of MDS shards: few large files instead of many small
 * ones, for a disk, a file server or an object store. */
#ifndef VIVACE_PACK_H
#define VIVACE_PACK_H

#include <vivace/ext/image_sets.h>

VV_BEGIN_DECLS

typedef enum vv_pack_keep {
    VV_PACK_JPEG, /* JPEG files: as they are where they fit into max_side, else made anew */
    VV_PACK_RAW,  /* pixels: larger, and nothing to decode when training */
} vv_pack_keep;
typedef struct vv_pack_opts {
    const char *src; /* folder of photographs, as image_folder reads it */
    const char *dst; /* gets the folders train and val, each with shards, index and class names */
    vv_pack_keep keep;
    int64_t max_side; /* larger images are made smaller, their longer side to this; 0 = none */
    int quality;      /* of JPEGs that are made anew, 1..100 */
    uint64_t shard_bytes;
    const char *compression, *hashes; /* as in vv_mds_writer_opts */
    double eval_fraction;             /* where no folder says what is for evaluation */
    const char *labels;               /* as image_folder's */
    vv_photo_damaged damaged;
    vv_photo_check check;
    int threads; /* 0 = one a processor */
    bool overwrite;
    /* done of total images so far; false = stop. May be NULL. */
    bool (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
} vv_pack_opts;
/* JPEG, any size, quality 90, 64 MiB, SHA-256, a fifth to evaluate on, damaged files refused. */
#define VV_PACK_DEFAULTS                                                                        \
    {                                                                                           \
        NULL, NULL, VV_PACK_JPEG, 0, 90, (uint64_t)1 << 26, "", "sha256", 0.2, "",              \
            VV_DAMAGED_REFUSE, VV_CHECK_ENDS, 0, false, NULL, NULL                              \
    }
typedef struct vv_pack_info {
    int64_t train, eval, classes, left_out; /* images; left_out: damaged ones */
    int64_t made_anew;                      /* not the files' own bytes */
    uint64_t bytes_in, bytes_out;
    char *notice; /* which were left out; NULL = none. vv_dealloc frees it */
} vv_pack_info;
/* ---- ext: for those who pack sets of another kind ---- */
typedef struct vv_packed_image {
    void *bytes; /* a JPEG file, or the encoding pil; vv_dealloc frees it */
    size_t size, read; /* read: of the file */
    int64_t height, width;
    bool made_anew;
} vv_packed_image;
/* A file as the options keep it; `orient`: what is made anew is turned as EXIF says. */
VV_API VV_MUST_USE vv_status vv_pack_image(vv_packed_image *out, const vv_pack_opts *opts,
                                           const char *path, bool orient);
/* Pixels (1 or 3 channels) as the encoding pil. */
VV_API VV_MUST_USE vv_status vv_pack_pixels(vv_packed_image *out, const vv_image *image);

/* Columns "image" (jpeg, or pil for raw pixels) and "label" (int). The same for any number of
   threads. What is interrupted has no index, and is begun anew. *info is zero after a failure. */
VV_API VV_MUST_USE vv_status vv_pack_photos(vv_pack_info *info, const vv_pack_opts *opts);

VV_END_DECLS

#endif
