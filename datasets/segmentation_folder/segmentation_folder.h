/* segmentation_folder.h - pictures with a mask of classes each, from folders. */
#ifndef VIVACE_DATASETS_SEGMENTATION_FOLDER_H
#define VIVACE_DATASETS_SEGMENTATION_FOLDER_H

#include <vivace/pack.h>

VV_BEGIN_DECLS

typedef enum vv_mask_layout {
    VV_MASK_LAYOUT_AUTO,   /* the first of those below that the folder has */
    VV_MASK_LAYOUT_LIST,   /* SPLIT.txt: an image and its mask a line */
    VV_MASK_LAYOUT_ADE20K, /* images/training, annotations/training; 0 is no class */
    VV_MASK_LAYOUT_PETS,   /* images, annotations/trimaps, annotations/trainval.txt */
    VV_MASK_LAYOUT_PLAIN,  /* SPLIT/images and SPLIT/masks, or images/SPLIT and masks/SPLIT;
                              "labels" for "masks" too; equal stems belong together */
} vv_mask_layout;

typedef struct vv_segmentation_folder_opts {
    vv_dataset_common common;
    const char *set;         /* name of the folder in $VIVACE_DATA where dir is empty */
    int layout;              /* vv_mask_layout */
    const char *train, *eval; /* names of the splits; "" = the layout's */
    int64_t classes;         /* 0 = from classes.txt, or the layout's */
    int64_t ignore;          /* number in masks that is no class; -1 = none (255 never is one) */
    int64_t first;           /* number in masks of class 0; -1 = the layout's. Smaller ones are no
                                class */
    const char *colours;     /* file that tells the colours of masks in RGB; "" = classes.txt */
    int64_t height, width;   /* of samples */
    int64_t base_height, base_width; /* of a picture before a random scale; 0 = its own size */
    double min_scale, max_scale;     /* random resize, U(min, max) */
    double max_share;        /* a cut in which one class has more is drawn again; 1 = never */
    int64_t tries;           /* at most so often */
    bool flip, distort;      /* left-right with probability 1/2; photometric distortion */
    bool augment;            /* false: training sees what evaluation does */
} vv_segmentation_folder_opts;

extern VV_API const vv_dataset_desc vv_dataset_segmentation_folder;
/* Its pictures and masks as MDS shards, which the data set reads in place of the folder: columns
   "image" (jpeg) and "mask" (pil, one channel: the class, 255 = none), class names beside the
   index. max_side makes both smaller. */
VV_API VV_MUST_USE vv_status vv_pack_masks(vv_pack_info *info, const vv_pack_opts *pack,
                                           const vv_segmentation_folder_opts *opts);

VV_END_DECLS

#endif
