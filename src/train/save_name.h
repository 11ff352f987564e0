/* save_name.h - names of checkpoints made from a template: "ep{epoch}-ba{batch}-rank{rank}". */
#ifndef VVI_SAVE_NAME_H
#define VVI_SAVE_NAME_H

#include <vivace/str.h>
#include <vivace/training_time.h>

#define VVI_SAVE_NAME "ep{epoch:04}-ba{batch:08}"

typedef struct vvi_name_facts {
    const char *run_name; /* NULL = "run" */
    vv_timestamp time;    /* an epoch that is done counts as done, before and after its end */
    int rank, local_rank, world_size, local_world_size, node_rank;
} vvi_name_facts;

/* Placeholders are known, none is left open, the text is a file's name, and it says how far the run
   is. `key` names it in sentences. */
VV_MUST_USE vv_status vvi_name_check(const char *pattern, const char *key);
/* Appends the template with its placeholders filled. {NAME:08} pads a number with zeros. */
VV_MUST_USE vv_status vvi_name_fill(vv_str *out, const char *pattern, const vvi_name_facts *facts);
/* Whether `name` is what the template gives at some time with these facts; then *batch is the batch
   it says. Only for templates with {batch} and without seconds, else false. */
bool vvi_name_batch(const char *pattern, const vvi_name_facts *facts, const char *name,
                    int64_t *batch);

#endif
