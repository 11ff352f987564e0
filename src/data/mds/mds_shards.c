/* mds_shards.c - opening a set of MDS shards and reading samples. */
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>
#include <vivace/str.h>

#include "data/mds/mds_set.h"

enum { MOST_TRIES = 10 };

static vv_status read_index(vv_mds *mds)
{
    char *path = NULL;
    void *data = NULL;
    size_t bytes;
    vv_status status = vv_data_file_find(&path, mds->dir, "index.json");
    const bool json = status == VV_OK;
    if (status == VV_ENOTFOUND)
        status = vv_data_file_find(&path, mds->dir, "index.mds");
    if (status == VV_ENOTFOUND)
        status = vv_fail(VV_ENOTFOUND, "%s: no index.json (or index.mds) in it; a set of MDS "
                                       "shards has one", mds->dir);
    VV_GO(status);
    VV_GO(vv_data_file_read(&data, &bytes, path, VVI_MDS_MAX_INDEX));
    status = json ? vvi_mds_index_parse_json(&mds->index, path, data, bytes)
                  : vvi_mds_index_parse_v1(&mds->index, path, data, bytes);
out:
    vv_dealloc(path);
    vv_dealloc(data);
    return status;
}

vv_status vv_mds_open_with(vv_mds **out, const vv_mds_opts *opts)
{
    vv_status status;
    vv_mds *mds;
    *out = NULL;
    VV_TRY(vv_alloc(&mds, sizeof *mds));
    pthread_mutex_init(&mds->lock, NULL);
    mds->limit = opts->cache_bytes;
    VV_GO(vv_strdup(&mds->dir, opts->dir));
    if (opts->remote && opts->remote[0])
        VV_GO(vvi_mds_remote_open(mds, opts));
    VV_GO(read_index(mds));
    VV_GO(vv_alloc_array(&mds->shards, (size_t)mds->index.shard_count, sizeof *mds->shards));
    if (mds->remote)
        VV_GO(vvi_mds_remote_start(mds));
    *out = mds;
    return VV_OK;
out:
    vv_mds_free(mds);
    return status;
}

vv_status vv_mds_open(vv_mds **out, const char *dir)
{
    vv_mds_opts opts = VV_MDS_DEFAULTS;
    opts.dir = dir;
    return vv_mds_open_with(out, &opts);
}

static void put_down(vvi_mds_held *held)
{
    vvi_file_unmap(&held->mapping);
    vv_dealloc(held->unpacked);
    held->unpacked = NULL;
    held->data = NULL;
    held->bytes = 0;
}

void vv_mds_free(vv_mds *mds)
{
    if (!mds)
        return;
    vvi_mds_remote_close(mds);
    for (int64_t s = 0; mds->shards && s < mds->index.shard_count; s++)
        put_down(&mds->shards[s]);
    vvi_mds_classes_fini(mds);
    vv_dealloc(mds->shards);
    vvi_mds_index_fini(&mds->index);
    pthread_mutex_destroy(&mds->lock);
    vv_dealloc(mds->dir);
    vv_dealloc(mds);
}

int64_t vv_mds_count(const vv_mds *mds)
{
    return mds->index.samples;
}

int vv_mds_column_count(const vv_mds *mds)
{
    return mds->index.column_count;
}

const vv_mds_column *vv_mds_column_at(const vv_mds *mds, int column)
{
    return column >= 0 && column < mds->index.column_count ? &mds->index.columns[column] : NULL;
}

vv_status vv_mds_find(int *column, const vv_mds *mds, const char *name)
{
    vv_str names = {0};
    for (int c = 0; c < mds->index.column_count; c++) {
        if (strcmp(mds->index.columns[c].name, name) == 0) {
            *column = c;
            vv_str_fini(&names);
            return VV_OK;
        }
        vv_str_addf(&names, "%s%s", c ? ", " : "", mds->index.columns[c].name);
    }
    const vv_status status = vv_fail(VV_ENOTFOUND, "%s: no column \"%s\"; there are: %s", mds->dir,
                                     name, names.length ? vv_str_text(&names) : "none");
    vv_str_fini(&names);
    return status;
}

int64_t vv_mds_shard_count(const vv_mds *mds)
{
    return mds->index.shard_count;
}

int64_t vv_mds_shard_first(const vv_mds *mds, int64_t shard)
{
    return shard < mds->index.shard_count ? mds->index.shards[shard].first : mds->index.samples;
}

/* ---- shards ---- */

void vvi_mds_make_room(vv_mds *mds, uint64_t more)
{
    while (mds->limit > 0 && mds->used + more > mds->limit) {
        int64_t oldest = -1;
        for (int64_t s = 0; s < mds->index.shard_count; s++) {
            const vvi_mds_held *held = &mds->shards[s];
            if (held->costs > 0 && held->holds == 0 && !held->fetching &&
                (oldest < 0 || held->tick < mds->shards[oldest].tick))
                oldest = s;
        }
        if (oldest < 0)
            return;
        put_down(&mds->shards[oldest]);
        mds->used -= mds->shards[oldest].costs;
        mds->shards[oldest].costs = 0;
        if (mds->remote)
            vvi_mds_remote_drop(mds, oldest);
    }
}

/* The plain file if it is there, else the packed one. */
static vv_status find_file(const vv_mds *mds, const vvi_mds_shard *shard, char **path, bool *packed)
{
    VV_TRY(vvi_path_join(path, mds->dir, shard->name));
    *packed = false;
    if (vvi_exists(*path))
        return VV_OK;
    if (shard->packed_name) {
        vv_dealloc(*path);
        *path = NULL;
        VV_TRY(vvi_path_join(path, mds->dir, shard->packed_name));
        *packed = true;
        if (vvi_exists(*path))
            return VV_OK;
    }
    return vv_fail(VV_ENOTFOUND, "%s: the index names the shard %s%s%s, which is not there",
                   mds->dir, shard->name, shard->packed_name ? " or " : "",
                   shard->packed_name ? shard->packed_name : "");
}

/* Maps or unpacks it; with the lock held. */
static vv_status load(vv_mds *mds, const vvi_mds_shard *shard, vvi_mds_held *held)
{
    vv_status status;
    char *path = NULL;
    void *unpacked = NULL;
    vvi_mapping mapping = {0};
    bool packed;
    size_t bytes = 0;
    VV_GO(find_file(mds, shard, &path, &packed));
    if (shard->bytes > VVI_MDS_MAX_SHARD)
        VV_GO(vv_fail(VV_EFORMAT, "%s: a shard of %llu bytes; at most %llu are read", path,
                      (unsigned long long)shard->bytes, (unsigned long long)VVI_MDS_MAX_SHARD));
    if (packed) {
        vvi_mds_make_room(mds, shard->bytes);
        VV_GO(vv_data_file_read(&unpacked, &bytes, path, (size_t)shard->bytes + 1));
    } else {
        VV_GO(vvi_file_map(&mapping, path));
        bytes = mapping.bytes;
    }
    if (bytes != shard->bytes)
        VV_GO(vv_fail(VV_EFORMAT, "%s: expected %llu bytes%s, found %zu; the shard is cut short, "
                                  "or packed otherwise than with gzip or zstd", path,
                      (unsigned long long)shard->bytes, packed ? " when unpacked" : "", bytes));
    if (packed && !mds->remote) {
        held->costs = bytes;
        mds->used += bytes;
    }
    held->mapping = mapping;
    held->unpacked = unpacked;
    held->data = unpacked ? unpacked : mapping.data;
    held->bytes = bytes;
    mapping = (vvi_mapping){0};
    unpacked = NULL;
out:
    vvi_file_unmap(&mapping);
    vv_dealloc(unpacked);
    vv_dealloc(path);
    return status;
}

static int64_t shard_of(const vvi_mds_index *index, int64_t sample)
{
    int64_t low = 0, high = index->shard_count; /* shards[low].first <= sample */
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (index->shards[middle].first <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Brings a shard that is held into memory. Another process may have thrown the file out of a cache
   that it shares with us, even again and again: then it is fetched once more. */
static vv_status bring(vv_mds *mds, int64_t s)
{
    vvi_mds_held *held = &mds->shards[s];
    vv_status status = VV_OK;
    for (int tries = 0; !held->data && tries < MOST_TRIES; tries++) {
        if (mds->remote) {
            pthread_mutex_unlock(&mds->lock);
            status = vvi_mds_remote_need(mds, s);
            pthread_mutex_lock(&mds->lock);
            if (status != VV_OK)
                return status;
        }
        if (!held->data)
            status = load(mds, &mds->index.shards[s], held);
        if (status != VV_ENOTFOUND || !mds->remote)
            return status;
        mds->used -= held->costs;
        held->costs = 0;
        vvi_mds_remote_drop(mds, s);
    }
    return status;
}

vv_status vv_mds_hold(vv_mds *mds, int64_t index, vv_mds_sample *out)
{
    uint64_t begin = 0, end = 0;
    *out = (vv_mds_sample){0};
    if (index < 0 || index >= mds->index.samples)
        return vv_fail(VV_EINVAL, "%s: no sample %lld; there are %lld", mds->dir, (long long)index,
                       (long long)mds->index.samples);
    const int64_t s = shard_of(&mds->index, index);
    const vvi_mds_shard *shard = &mds->index.shards[s];
    vvi_mds_held *held = &mds->shards[s];
    pthread_mutex_lock(&mds->lock);
    held->holds++;
    held->tick = ++mds->tick;
    if (mds->remote)
        vvi_mds_remote_used(mds, s);
    vv_status status = held->data ? VV_OK : bring(mds, s);
    if (status == VV_OK)
        status = vv_fail_within(vvi_mds_locate(&mds->index, shard, held->data, held->bytes,
                                               index - shard->first, &begin, &end),
                                "%s", mds->dir);
    if (status == VV_OK)
        *out = (vv_mds_sample){s, held->data + begin, (size_t)(end - begin)};
    else
        held->holds--;
    pthread_mutex_unlock(&mds->lock);
    return status;
}

void vv_mds_release(vv_mds *mds, const vv_mds_sample *sample)
{
    if (!sample->data)
        return;
    pthread_mutex_lock(&mds->lock);
    mds->shards[sample->shard].holds--;
    pthread_mutex_unlock(&mds->lock);
}

vv_status vv_mds_column_of(const vv_mds *mds, const vv_mds_sample *sample, int column,
                           const void **data, size_t *bytes)
{
    size_t first, last;
    *data = NULL;
    *bytes = 0;
    if (!vv_mds_column_at(mds, column))
        return vv_fail(VV_EINVAL, "%s: no column %d; there are %d", mds->dir, column,
                       mds->index.column_count);
    VV_TRY(vv_fail_within(vvi_mds_pick(&mds->index, sample->data, sample->bytes, column, &first,
                                       &last),
                          "%s", mds->dir));
    *data = sample->data + first;
    *bytes = last - first;
    return VV_OK;
}

/* Its shard stays held for good. */
vv_status vv_mds_read(vv_mds *mds, int64_t index, int column, const void **data, size_t *bytes)
{
    vv_mds_sample sample;
    *data = NULL;
    *bytes = 0;
    VV_TRY(vv_mds_hold(mds, index, &sample));
    const vv_status status = vv_fail_within(vv_mds_column_of(mds, &sample, column, data, bytes),
                                            "sample %lld", (long long)index);
    if (status != VV_OK)
        vv_mds_release(mds, &sample);
    return status;
}

void vv_mds_soon(vv_mds *mds, const int64_t *indices, int64_t count)
{
    if (!mds->remote)
        return;
    int64_t last = -1;
    pthread_mutex_lock(&mds->lock);
    for (int64_t i = 0; i < count; i++) {
        if (indices[i] < 0 || indices[i] >= mds->index.samples)
            continue;
        const int64_t s = shard_of(&mds->index, indices[i]);
        if (s != last)
            vvi_mds_remote_want(mds, s);
        last = s;
    }
    pthread_mutex_unlock(&mds->lock);
}
