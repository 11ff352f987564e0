/* photo_list.h - the files of a set of photographs. */
#ifndef VVI_PHOTO_LIST_H
#define VVI_PHOTO_LIST_H

#include <vivace/ext/image_sets.h>
#include <vivace/str.h>

#include "base/arena.h"

typedef struct vvi_photo {
    const char *path; /* below root */
    int32_t label;    /* -1 = not told yet */
} vvi_photo;

typedef struct vvi_photo_list {
    vvi_arena texts;
    const char *root;
    vvi_photo *photos;
    int64_t count, room;
    const char **classes; /* sorted folder names */
    int64_t class_count;
    const char **shown; /* what the classes are called, in their order */
} vvi_photo_list;

/* Fills a zeroed list with the files of one split below `dir`; they need not be images. */
VV_MUST_USE vv_status vvi_photo_list_fill(vvi_photo_list *list, const char *set, const char *dir,
                                          bool train, double eval_fraction, const char *labels);
void vvi_photo_list_fini(vvi_photo_list *list);
/* Takes out what is no image; damaged files are refused, or taken out and named in `notice`. */
VV_MUST_USE vv_status vvi_photo_list_check(vvi_photo_list *list, const char *set,
                                           vv_photo_check check, vv_photo_damaged damaged,
                                           vv_str *notice);
/* A path of the list joined to its root, for reading and sentences. */
VV_MUST_USE vv_status vvi_photo_path(const vvi_photo_list *list, int64_t i, vv_str *out);

/* ---- photo_labels.c ---- */
/* A file of lines "key value": calls `row` for each. */
typedef vv_status vvi_label_fn(void *ctx, const char *key, const char *value);
VV_MUST_USE vv_status vvi_label_file_read(const char *path, vvi_label_fn *row, void *ctx);
/* Labels of files that lie in no class folder, from the file `labels` ("" = usual names in dir). */
VV_MUST_USE vv_status vvi_photo_labels(vvi_photo_list *list, const char *set, const char *dir,
                                       const char *labels);
/* Names for the classes, if a file in dir tells them. */
VV_MUST_USE vv_status vvi_photo_class_names(vvi_photo_list *list, const char *dir);

#endif
