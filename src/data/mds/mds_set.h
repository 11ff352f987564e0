/* mds_set.h - an open set of MDS shards: what mds_shards.c and mds_remote.c share. */
#ifndef VVI_MDS_SET_H
#define VVI_MDS_SET_H

#include <pthread.h>

#include "base/file.h"
#include "data/mds/mds_index.h"

#define VVI_MDS_MAX_INDEX ((size_t)1 << 32)
#define VVI_MDS_MAX_SHARD ((uint64_t)1 << 34)

typedef struct vvi_mds_remote vvi_mds_remote;

/* A shard, once it is needed. */
typedef struct vvi_mds_held {
    vvi_mapping mapping;
    void *unpacked;
    const unsigned char *data; /* NULL = not in memory */
    size_t bytes;
    int64_t holds;  /* samples in hands; it stays while there are any */
    uint64_t tick;  /* when it was last used */
    uint64_t costs; /* bytes that count against the limit: in the cache, or unpacked */
    bool fetching;  /* remote: it is on its way */
    char coming;    /* remote: it will be needed: 'l' in the line, 'q' in the queue; 0 = not told */
} vvi_mds_held;

struct vv_mds {
    vvi_mds_index index;
    char *dir;
    pthread_mutex_t lock; /* of what follows; taken before the fetch queue's */
    vvi_mds_held *shards;
    uint64_t limit, used, tick;
    vvi_mds_remote *remote; /* NULL = all is in dir */
    bool classes_read;
    char **classes;
    int64_t class_count;
    int64_t *by_name; /* the classes' numbers, sorted by their names */
};

void vvi_mds_classes_fini(vv_mds *mds);

/* Gives up shards, those used longest ago first, until `more` bytes fit into the limit or all the
   rest is in use; with the lock held. */
void vvi_mds_make_room(vv_mds *mds, uint64_t more);

/* The index from the remote into mds->dir; before it is read. */
VV_MUST_USE vv_status vvi_mds_remote_open(vv_mds *mds, const vv_mds_opts *opts);
/* Looks what is in the cache, and begins to work; after the index was read. */
VV_MUST_USE vv_status vvi_mds_remote_start(vv_mds *mds);
void vvi_mds_remote_close(vv_mds *mds);
/* A small file beside the index, into mds->dir; VV_ENOTFOUND if there is none. */
VV_MUST_USE vv_status vvi_mds_remote_file(vv_mds *mds, const char *name);
/* Waits until the shard is in the cache; it must be held. */
VV_MUST_USE vv_status vvi_mds_remote_need(vv_mds *mds, int64_t shard);
/* Shards that will be needed; with the lock held. */
void vvi_mds_remote_want(vv_mds *mds, int64_t shard);
/* A shard that was coming is in use, so others may come; with the lock held. */
void vvi_mds_remote_used(vv_mds *mds, int64_t shard);
/* Removes its file; with the lock held. */
void vvi_mds_remote_drop(vv_mds *mds, int64_t shard);

#endif
