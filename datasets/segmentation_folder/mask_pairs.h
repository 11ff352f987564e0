/* mask_pairs.h - which pictures and masks a folder has, and what the numbers in masks mean. */
#ifndef VVI_MASK_PAIRS_H
#define VVI_MASK_PAIRS_H

#include <vivace/image_files.h>

#include "segmentation_folder.h"

typedef struct vvi_mask_pair {
    char *image, *mask; /* paths */
} vvi_mask_pair;
typedef struct vvi_mask_pairs {
    vvi_mask_pair *items;
    int64_t count, room;
} vvi_mask_pairs;

/* Pairs of the split in the folder, sorted by the image's path (lists: in their order); *layout =
   the one that was found. */
vv_status vvi_mask_pairs_find(vvi_mask_pairs *out, int *layout,
                              const vv_segmentation_folder_opts *opts, const char *dir, bool train);
void vvi_mask_pairs_fini(vvi_mask_pairs *pairs);

#define VVI_NO_CLASS (-1)
#define VVI_BAD_CLASS (-2)

/* Masks' numbers and colours as classes. */
typedef struct vvi_mask_classes {
    int32_t of[256];    /* class of a number, VVI_NO_CLASS or VVI_BAD_CLASS */
    uint32_t colour[256]; /* 0xRRGGBB of the number `number[i]` */
    uint8_t number[256];
    int colours;
    char *names[257]; /* NULL-ended after the classes; all NULL = none known */
    int64_t classes;
} vvi_mask_classes;
vv_status vvi_mask_classes_read(vvi_mask_classes *out, const vv_segmentation_folder_opts *opts,
                                const char *dir, int layout);
void vvi_mask_classes_fini(vvi_mask_classes *classes);
/* Grey or palette numbers [count], or RGB [count,3], to numbers in `out` [count]. */
vv_status vvi_mask_numbers(const vvi_mask_classes *classes, const char *name, const uint8_t *pixels,
                           int64_t channels, int64_t count, uint8_t *out);

/* A PNG mask's numbers, one channel, checked. */
vv_status vvi_mask_read(const vvi_mask_classes *classes, const char *path, vv_image *out);

/* ---- mask_shards.c ---- */
typedef struct vvi_mask_shards vvi_mask_shards;
/* The split of a packed set in `dir`, with its classes; *out = NULL if it is none. */
vv_status vvi_mask_shards_open(vvi_mask_shards **out, vvi_mask_classes *classes,
                               const vv_segmentation_folder_opts *opts, const char *dir,
                               bool train);
void vvi_mask_shards_close(vvi_mask_shards *shards);
int64_t vvi_mask_shards_count(const vvi_mask_shards *shards);
/* *file = the image's bytes, *mask = the classes' numbers: the caller frees both. */
vv_status vvi_mask_shards_read(const vvi_mask_shards *shards, int64_t index, void **file,
                               size_t *bytes, vv_image *mask);

#endif
