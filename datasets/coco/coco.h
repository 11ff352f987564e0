/* coco.h - photographs with boxes, as COCO's JSON files describe them (Lin et al., arXiv
 * 1405.0312). */
#ifndef VIVACE_DATASETS_COCO_H
#define VIVACE_DATASETS_COCO_H

#include <vivace/data.h>

VV_BEGIN_DECLS

typedef struct vv_coco_opts {
    vv_dataset_common common;
    const char *train_annotations, *eval_annotations; /* JSON files, below dir */
    const char *train_images, *eval_images;           /* folders, below dir */
    int64_t size;      /* images are made size x size pixels */
    int64_t max_boxes; /* rows of a target */
    bool augment;      /* training images as SSD's recipe changes them */
} vv_coco_opts;

VV_API extern const vv_dataset_desc vv_dataset_coco;

VV_END_DECLS

#endif
