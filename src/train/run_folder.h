/* run_folder.h - names of checkpoints in a run's folder. */
#ifndef VVI_RUN_FOLDER_H
#define VVI_RUN_FOLDER_H

#include <vivace/status.h>

typedef struct vvi_checkpoint_name {
    int64_t epoch, batch;
    char text[80];
} vvi_checkpoint_name;
typedef struct vvi_checkpoint_list {
    vvi_checkpoint_name *items; /* newest first */
    int count, capacity;
} vvi_checkpoint_list;

void vvi_checkpoint_name_at(int64_t epoch, int64_t batch, vvi_checkpoint_name *out);
/* Checkpoints of a folder, newest first; none if there is no such folder. */
vv_status vvi_checkpoint_list_read(vvi_checkpoint_list *out, const char *folder);
void vvi_checkpoint_list_fini(vvi_checkpoint_list *list);

#endif
