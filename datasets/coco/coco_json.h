/* coco_json.h - what a COCO annotation file says, in memory. */
#ifndef VVI_COCO_JSON_H
#define VVI_COCO_JSON_H

#include <vivace/box_augment.h>
#include <vivace/status.h>

typedef struct vvi_coco_image {
    int64_t id;
    char *file; /* relative, without ".." */
    int64_t height, width;
    int64_t first, count; /* its rows */
} vvi_coco_image;

typedef struct vvi_coco_category {
    int64_t id;
    char *name;
} vvi_coco_category;

typedef struct vvi_coco_set {
    vvi_coco_image *images; /* in the order of their ids */
    int64_t image_count, image_room;
    vvi_coco_category *categories; /* in the order of their ids: class 1 is the first */
    int64_t category_count, category_room;
    vv_box_row *rows; /* of image 0, then image 1, ... each in the file's order */
    int64_t *owners;  /* image of each row while the file is read, then NULL */
    int64_t row_count, row_room;
    int64_t empty; /* boxes without an area, which are left out */
} vvi_coco_set;

/* Any bytes give a set or one sentence; `name` is for sentences. A zeroed set may be freed. */
vv_status vvi_coco_parse(vvi_coco_set *out, const char *name, const void *data, size_t bytes);
void vvi_coco_fini(vvi_coco_set *set);

#endif
