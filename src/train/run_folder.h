/* run_folder.h - the checkpoints in a run's folder. */
#ifndef VVI_RUN_FOLDER_H
#define VVI_RUN_FOLDER_H

#include <vivace/safetensors.h>
#include <vivace/str.h>

#include "train/save_name.h"

/* What is known of a checkpoint without reading its data. */
typedef struct vvi_checkpoint {
    char *name;         /* of the file, with its ending */
    int64_t batch;      /* finished when it was made */
    int64_t order;      /* which save of its run it was; 0 = not known */
    bool peeked;        /* its header was read: what follows is known */
    bool weights_only;
    bool valued;        /* `value` of the metric by which the best are chosen */
    double value;
    bool damaged;       /* its header cannot be read: it may be anything */
    bool old;           /* removed after the next save: replaced, or damaged */
} vvi_checkpoint;
typedef struct vvi_checkpoint_list {
    vvi_checkpoint *items; /* newest first; damaged ones before all */
    int count, room;
} vvi_checkpoint_list;

/* Checkpoints of a folder (".safetensors", ".safetensors.zst"); none if there is no such folder.
   Files of other programs are left out. A name that the template explains is believed; the headers
   of others, and with `peek` of all, are read. */
vv_status vvi_checkpoint_list_read(vvi_checkpoint_list *out, const char *folder,
                                   const char *pattern, const vvi_name_facts *facts, bool peek);
/* Puts `item` in its place (it replaces the one of the same name); takes item.name, even on
   failure. */
vv_status vvi_checkpoint_list_put(vvi_checkpoint_list *list, vvi_checkpoint item);
void vvi_checkpoint_list_drop(vvi_checkpoint_list *list, int i);
void vvi_checkpoint_list_fini(vvi_checkpoint_list *list);
/* Fills `item` from a file's texts; false if no Trainer wrote it. */
bool vvi_checkpoint_read_texts(vvi_checkpoint *item, const vv_safetensors *file);
/* Length of a checkpoint's name without its ending; 0 if the name has none of the endings. */
size_t vvi_checkpoint_stem(const char *name);

/* *file = the newest of the list from which a run can go on, or (`weights`) that has weights,
   verified; NULL if there is none. Damaged ones are told to `told`, a line each, and marked as
   old. */
vv_status vvi_checkpoint_find(vvi_checkpoint_list *list, const char *folder, bool weights,
                              vv_safetensors **file, char **path, vv_str *told);
/* Makes the run's folders, proves that they can be written to, removes what killed writes left. */
vv_status vvi_folders_prepare(const char *run_dir, const char *checkpoint_dir);

#endif
