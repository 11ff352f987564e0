/* mds_shards.c - opening a set of MDS shards and reading samples. */
#include <pthread.h>
#include <string.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>
#include <vivace/str.h>

#include "base/file.h"
#include "data/mds/mds_index.h"

#define MAX_INDEX_BYTES ((size_t)1 << 32)
#define MAX_SHARD_BYTES ((uint64_t)1 << 34)

/* A shard's bytes, once they are needed. */
typedef struct shard_data {
    vvi_mapping mapping;
    void *unpacked;
    const unsigned char *data; /* NULL = not yet */
    size_t bytes;
} shard_data;

struct vv_mds {
    vvi_mds_index index;
    char *dir;
    pthread_mutex_t lock; /* of `shards` */
    shard_data *shards;
};

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
    VV_GO(vv_data_file_read(&data, &bytes, path, MAX_INDEX_BYTES));
    status = json ? vvi_mds_index_parse_json(&mds->index, path, data, bytes)
                  : vvi_mds_index_parse_v1(&mds->index, path, data, bytes);
out:
    vv_dealloc(path);
    vv_dealloc(data);
    return status;
}

vv_status vv_mds_open(vv_mds **out, const char *dir)
{
    vv_status status;
    vv_mds *mds;
    *out = NULL;
    VV_TRY(vv_alloc(&mds, sizeof *mds));
    pthread_mutex_init(&mds->lock, NULL);
    VV_GO(vv_strdup(&mds->dir, dir));
    VV_GO(read_index(mds));
    VV_GO(vv_alloc_array(&mds->shards, (size_t)mds->index.shard_count, sizeof *mds->shards));
    *out = mds;
    return VV_OK;
out:
    vv_mds_free(mds);
    return status;
}

void vv_mds_free(vv_mds *mds)
{
    if (!mds)
        return;
    for (int64_t s = 0; mds->shards && s < mds->index.shard_count; s++) {
        vvi_file_unmap(&mds->shards[s].mapping);
        vv_dealloc(mds->shards[s].unpacked);
    }
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

/* ---- shards ---- */

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

static vv_status load(const vv_mds *mds, const vvi_mds_shard *shard, shard_data *out)
{
    vv_status status;
    char *path = NULL;
    void *unpacked = NULL;
    vvi_mapping mapping = {0};
    bool packed;
    size_t bytes = 0;
    VV_GO(find_file(mds, shard, &path, &packed));
    if (shard->bytes > MAX_SHARD_BYTES)
        VV_GO(vv_fail(VV_EFORMAT, "%s: a shard of %llu bytes; at most %llu are read", path,
                      (unsigned long long)shard->bytes, (unsigned long long)MAX_SHARD_BYTES));
    if (packed)
        VV_GO(vv_data_file_read(&unpacked, &bytes, path, (size_t)shard->bytes + 1));
    else
        VV_GO(vvi_file_map(&mapping, path));
    if (!packed)
        bytes = mapping.bytes;
    if (bytes != shard->bytes)
        VV_GO(vv_fail(VV_EFORMAT, "%s: expected %llu bytes%s, found %zu; the shard is cut short, "
                                  "or packed otherwise than with gzip or zstd", path,
                      (unsigned long long)shard->bytes, packed ? " when unpacked" : "", bytes));
    *out = (shard_data){mapping, unpacked, unpacked ? unpacked : mapping.data, bytes};
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

vv_status vv_mds_read(vv_mds *mds, int64_t index, int column, const void **data, size_t *bytes)
{
    uint64_t begin, end;
    *data = NULL;
    *bytes = 0;
    if (index < 0 || index >= mds->index.samples || !vv_mds_column_at(mds, column))
        return vv_fail(VV_EINVAL, "%s: no column %d of sample %lld; there are %d columns and %lld "
                                  "samples", mds->dir, column, (long long)index,
                       mds->index.column_count, (long long)mds->index.samples);
    const int64_t s = shard_of(&mds->index, index);
    const vvi_mds_shard *shard = &mds->index.shards[s];
    pthread_mutex_lock(&mds->lock);
    vv_status status = VV_OK;
    if (!mds->shards[s].data)
        status = load(mds, shard, &mds->shards[s]);
    const shard_data held = mds->shards[s];
    pthread_mutex_unlock(&mds->lock);
    VV_TRY(status);
    VV_TRY(vv_fail_within(vvi_mds_locate(&mds->index, shard, held.data, held.bytes,
                                         index - shard->first, &begin, &end),
                          "%s", mds->dir));
    size_t first, last;
    VV_TRY(vv_fail_within(vvi_mds_pick(&mds->index, held.data + begin, (size_t)(end - begin),
                                       column, &first, &last),
                          "%s: sample %lld", mds->dir, (long long)index));
    *data = held.data + begin + first;
    *bytes = last - first;
    return VV_OK;
}
