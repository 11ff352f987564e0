/* mds_remote.c - sets of MDS shards whose files lie in an object store.
 *
 * Shards come into the cache whole and checked, unpacked if they were packed, so that a cached one
 * is mapped like a local one. What will be needed stands in a line; from its front it goes to the
 * fetching threads as long as what came and was not used yet fills at most half of the cache. What
 * the network does decides when a sample is there, never which sample it is. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>
#include <vivace/str.h>

#include "data/mds/mds_set.h"
#include "data/remote/fetch_queue.h"
#include "data/remote/remote.h"

struct vvi_mds_remote {
    vvi_remote *store;
    vvi_fetch_queue *queue;
    int downloads;
    bool changed; /* the index is not the one that the cache was filled by */
    int64_t *line; /* shards that will be needed and are not in the queue yet */
    int64_t waiting;
    uint64_t unused; /* bytes of those in the queue, or come, that nobody held yet */
};

static vv_status path_of(const vv_mds *mds, const char *name, char **out)
{
    return vvi_path_join(out, mds->dir, name);
}

/* ---- the index ---- */

static bool same_file(const char *a, const char *b)
{
    void *left = NULL, *right = NULL;
    size_t left_bytes, right_bytes;
    const bool same = vv_data_file_read(&left, &left_bytes, a, VVI_MDS_MAX_INDEX) == VV_OK &&
                      vv_data_file_read(&right, &right_bytes, b, VVI_MDS_MAX_INDEX) == VV_OK &&
                      left_bytes == right_bytes && memcmp(left, right, left_bytes) == 0;
    vv_dealloc(left);
    vv_dealloc(right);
    return same;
}

/* Fetched each time: what the cache holds must be what the store has. */
static vv_status fetch_file(vv_mds *mds, const char *name, bool optional, bool *changed)
{
    vv_status status;
    char *path = NULL, *fresh = NULL;
    char fresh_name[64];
    const vvi_remote_object object = {name, UINT64_MAX, VVI_DIGEST_KINDS, NULL, optional};
    snprintf(fresh_name, sizeof fresh_name, "%s.new-%ld", name, (long)getpid());
    VV_GO(path_of(mds, name, &path));
    VV_GO(path_of(mds, fresh_name, &fresh));
    VV_GO(vvi_file_remove(fresh));
    VV_GO(vvi_remote_get(mds->remote->store, &object, fresh, NULL));
    *changed = !vvi_exists(path) || !same_file(path, fresh);
    if (rename(fresh, path) != 0)
        VV_GO(vv_fail(VV_EIO, "%s: cannot be written", path));
out:
    vv_dealloc(path);
    vv_dealloc(fresh);
    return status;
}

vv_status vvi_mds_remote_file(vv_mds *mds, const char *name)
{
    bool changed;
    return fetch_file(mds, name, true, &changed);
}

/* The forms an index has, in the order in which they are looked for; those that the store does not
   have leave the cache. */
static vv_status find_index(vv_mds *mds)
{
    static const char *const names[] = {"index.json", "index.mds", "index.mds.gz"};
    vv_status status = VV_ENOTFOUND;
    for (int i = 0; i < 3; i++) {
        char *other;
        if (status == VV_ENOTFOUND) {
            status = fetch_file(mds, names[i], false, &mds->remote->changed);
            if (status == VV_OK)
                continue;
        }
        if (status != VV_OK && status != VV_ENOTFOUND)
            return status;
        VV_TRY(path_of(mds, names[i], &other));
        const vv_status removed = vvi_file_remove(other);
        vv_dealloc(other);
        VV_TRY(removed);
    }
    return status == VV_ENOTFOUND
               ? vv_fail_within(status, "neither index.json nor index.mds, which a set of MDS "
                                        "shards has")
               : status;
}

static vv_status check_opts(const vv_mds_opts *opts)
{
    if (opts->downloads < 1 || opts->downloads > 64)
        return vv_fail(VV_EINVAL, "remote: %d downloads at once, expected 1 to 64",
                       opts->downloads);
    if (opts->retries < 0 || !(opts->retry_wait >= 0.0) || !(opts->timeout > 0.0))
        return vv_fail(VV_EINVAL, "remote: retries %d, retry_wait %g s, timeout %g s: expected "
                                  "none below 0, and a timeout", opts->retries, opts->retry_wait,
                       opts->timeout);
    return VV_OK;
}

vv_status vvi_mds_remote_open(vv_mds *mds, const vv_mds_opts *opts)
{
    VV_TRY(check_opts(opts));
    VV_TRY(vv_alloc(&mds->remote, sizeof *mds->remote));
    mds->remote->downloads = opts->downloads;
    const vvi_remote_opts remote = {opts->remote,  opts->endpoint,   opts->region,
                                    opts->retries, opts->retry_wait, opts->timeout};
    VV_TRY(vvi_remote_new(&mds->remote->store, &remote));
    VV_TRY(vvi_mkdirs(mds->dir));
    return find_index(mds);
}

/* ---- fetching a shard ---- */

static vv_status get(vv_mds *mds, const char *name, uint64_t bytes, const vvi_mds_sum *sum,
                     const char *path, const atomic_bool *stop)
{
    const vvi_remote_object object = {name, bytes, sum->kind, sum->hex, false};
    return vvi_remote_get(mds->remote->store, &object, path, stop);
}

/* Packed: fetched beside its place and unpacked into it. */
static vv_status get_packed(vv_mds *mds, const vvi_mds_shard *shard, const char *path,
                            const atomic_bool *stop)
{
    vv_status status;
    char *packed = NULL;
    void *data = NULL;
    size_t bytes;
    VV_GO(path_of(mds, shard->packed_name, &packed));
    VV_GO(get(mds, shard->packed_name, shard->packed_bytes, &shard->packed_sum, packed, stop));
    status = vv_data_file_read(&data, &bytes, packed, (size_t)shard->bytes + 1);
    if (status == VV_OK && bytes != shard->bytes)
        status = vv_fail(VV_EFORMAT, "%s: expected %llu bytes when unpacked, found %zu", packed,
                         (unsigned long long)shard->bytes, bytes);
    if (status == VV_OK)
        status = vvi_file_write_atomic(path, data, bytes);
    if (remove(packed) != 0 && status == VV_OK)
        status = vv_fail(VV_EIO, "%s: cannot be removed", packed);
out:
    vv_dealloc(packed);
    vv_dealloc(data);
    return status;
}

static vv_status make_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    vv_str folder = {0};
    if (!slash)
        return VV_OK;
    vv_str_addn(&folder, path, (size_t)(slash - path));
    vv_status status = vv_str_status(&folder);
    if (status == VV_OK)
        status = vvi_mkdirs(vv_str_text(&folder));
    vv_str_fini(&folder);
    return status;
}

/* Version 2 says whether a shard is packed; of version 1 both forms may be there. */
static vv_status get_shard(vv_mds *mds, const vvi_mds_shard *shard, const atomic_bool *stop)
{
    vv_status status;
    char *path = NULL;
    VV_GO(path_of(mds, shard->name, &path));
    VV_GO(make_folder_of(path));
    VV_GO(vvi_room_for(mds->dir, shard->bytes));
    if (shard->packed_name && mds->index.version == 2)
        status = get_packed(mds, shard, path, stop);
    else
        status = get(mds, shard->name, shard->bytes, &shard->sum, path, stop);
    if (status == VV_ENOTFOUND && shard->packed_name)
        status = mds->index.version == 2
                     ? get(mds, shard->name, shard->bytes, &shard->sum, path, stop)
                     : get_packed(mds, shard, path, stop);
out:
    vv_dealloc(path);
    return status;
}

static vv_status fetch(void *ctx, int64_t s, const atomic_bool *stop)
{
    vv_mds *mds = ctx;
    const vvi_mds_shard *shard = &mds->index.shards[s];
    vvi_mds_held *held = &mds->shards[s];
    if (shard->bytes > VVI_MDS_MAX_SHARD)
        return vv_fail(VV_EFORMAT, "%s: a shard of %llu bytes; at most %llu are read", shard->name,
                       (unsigned long long)shard->bytes, (unsigned long long)VVI_MDS_MAX_SHARD);
    pthread_mutex_lock(&mds->lock);
    vvi_mds_make_room(mds, shard->bytes);
    held->fetching = true;
    held->costs = shard->bytes;
    mds->used += shard->bytes;
    pthread_mutex_unlock(&mds->lock);
    const vv_status status = get_shard(mds, shard, stop);
    pthread_mutex_lock(&mds->lock);
    held->fetching = false;
    if (status != VV_OK) {
        mds->used -= held->costs;
        held->costs = 0;
    }
    pthread_mutex_unlock(&mds->lock);
    return status;
}

/* ---- the cache ---- */

static vv_status look_at(vv_mds *mds, int64_t s)
{
    struct stat info;
    char *path;
    const vvi_mds_shard *shard = &mds->index.shards[s];
    VV_TRY(path_of(mds, shard->name, &path));
    vv_status status = VV_OK;
    if (mds->remote->changed) {
        status = vvi_file_remove(path);
    } else if (stat(path, &info) == 0 && (uint64_t)info.st_size == shard->bytes) {
        mds->shards[s].costs = shard->bytes;
        mds->used += shard->bytes;
        vvi_fetch_queue_mark(mds->remote->queue, s, true);
    }
    vv_dealloc(path);
    return status;
}

vv_status vvi_mds_remote_start(vv_mds *mds)
{
    vvi_mds_remote *remote = mds->remote;
    const int64_t count = mds->index.shard_count;
    uint64_t largest = 0;
    for (int64_t s = 0; s < count; s++)
        largest = mds->index.shards[s].bytes > largest ? mds->index.shards[s].bytes : largest;
    if (mds->limit > 0 && mds->limit / 2 < largest) {
        char have[32], need[32];
        return vv_fail(VV_EINVAL, "%s: a cache of %s does not hold two shards of %s; allow more",
                       mds->dir, vv_bytes_text((size_t)mds->limit, have, sizeof have),
                       vv_bytes_text((size_t)largest, need, sizeof need));
    }
    VV_TRY(vv_alloc_array(&remote->line, (size_t)count, sizeof *remote->line));
    VV_TRY(vvi_fetch_queue_new(&remote->queue, count, remote->downloads, fetch, mds));
    for (int64_t s = 0; s < count; s++)
        VV_TRY(look_at(mds, s));
    pthread_mutex_lock(&mds->lock);
    vvi_mds_make_room(mds, 0);
    pthread_mutex_unlock(&mds->lock);
    return VV_OK;
}

void vvi_mds_remote_close(vv_mds *mds)
{
    if (!mds->remote)
        return;
    vvi_fetch_queue_free(mds->remote->queue);
    vvi_remote_free(mds->remote->store);
    vv_dealloc(mds->remote->line);
    vv_dealloc(mds->remote);
    mds->remote = NULL;
}

vv_status vvi_mds_remote_need(vv_mds *mds, int64_t shard)
{
    return vvi_fetch_queue_need(mds->remote->queue, shard);
}

void vvi_mds_remote_drop(vv_mds *mds, int64_t shard)
{
    char *path;
    vvi_fetch_queue_mark(mds->remote->queue, shard, false);
    if (path_of(mds, mds->index.shards[shard].name, &path) == VV_OK)
        unlink(path); /* if it stays, the next fetch finds it and takes it as it is */
    vv_dealloc(path);
}

/* ---- what will be needed ---- */

/* From the line to the queue, as far as there is room; with the lock held. */
static void move_on(vv_mds *mds)
{
    vvi_mds_remote *remote = mds->remote;
    int64_t taken = 0;
    for (; taken < remote->waiting; taken++) {
        const int64_t s = remote->line[taken];
        const uint64_t bytes = mds->index.shards[s].bytes;
        if (mds->limit > 0 && remote->unused > 0 && remote->unused + bytes > mds->limit / 2)
            break;
        remote->unused += bytes;
        mds->shards[s].coming = 'q';
        vvi_fetch_queue_want(remote->queue, s);
    }
    remote->waiting -= taken;
    memmove(remote->line, remote->line + taken, (size_t)remote->waiting * sizeof *remote->line);
}

void vvi_mds_remote_want(vv_mds *mds, int64_t shard)
{
    vvi_mds_held *held = &mds->shards[shard];
    held->tick = ++mds->tick;
    if (held->coming || held->holds > 0 || (held->costs > 0 && !held->fetching))
        return;
    held->coming = 'l';
    mds->remote->line[mds->remote->waiting++] = shard;
    move_on(mds);
}

void vvi_mds_remote_used(vv_mds *mds, int64_t shard)
{
    vvi_mds_remote *remote = mds->remote;
    const char was = mds->shards[shard].coming;
    mds->shards[shard].coming = 0;
    if (was == 'q')
        remote->unused -= mds->index.shards[shard].bytes;
    int64_t kept = 0;
    for (int64_t i = 0; was == 'l' && i < remote->waiting; i++)
        if (remote->line[i] != shard)
            remote->line[kept++] = remote->line[i];
    remote->waiting = was == 'l' ? kept : remote->waiting;
    if (was)
        move_on(mds);
}
