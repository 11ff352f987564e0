/* mds_index.h - what the index of a set of MDS shards says. */
#ifndef VVI_MDS_INDEX_H
#define VVI_MDS_INDEX_H

#include <vivace/ext/mds_shards.h>

#include "data/digest.h"

/* A checksum of a file. */
typedef struct vvi_mds_sum {
    vvi_digest_kind kind; /* VVI_DIGEST_KINDS = none that we know */
    char hex[65];
} vvi_mds_sum;

typedef struct vvi_mds_shard {
    char *name, *packed_name; /* of its files; NULL = not told */
    vvi_mds_sum sum, packed_sum;
    uint64_t packed_bytes; /* UINT64_MAX = not told */
    int64_t samples, first;   /* first: number of its first sample in the set */
    uint64_t bytes;           /* when unpacked */
    uint64_t *offsets;        /* version 1: samples + 1 of them; NULL = the shard knows */
} vvi_mds_shard;

typedef struct vvi_mds_index {
    int version; /* 1 or 2 */
    vv_mds_column *columns;
    int column_count;
    vvi_mds_shard *shards;
    int64_t shard_count, samples;
} vvi_mds_index;

/* From the bytes of an index; `name` is for sentences. *out is empty after a failure. */
VV_MUST_USE vv_status vvi_mds_index_parse_json(vvi_mds_index *out, const char *name,
                                               const void *data, size_t bytes);
VV_MUST_USE vv_status vvi_mds_index_parse_v1(vvi_mds_index *out, const char *name,
                                             const void *data, size_t bytes);
void vvi_mds_index_fini(vvi_mds_index *index);

/* Where a sample's bytes lie in an unpacked shard: [*begin, *end) within `bytes`. */
VV_MUST_USE vv_status vvi_mds_locate(const vvi_mds_index *index, const vvi_mds_shard *shard,
                                     const void *data, size_t bytes, int64_t sample,
                                     uint64_t *begin, uint64_t *end);
/* Where a column's bytes lie in a sample's. */
VV_MUST_USE vv_status vvi_mds_pick(const vvi_mds_index *index, const unsigned char *sample,
                                   size_t bytes, int column, size_t *begin, size_t *end);

/* Bytes of every value of an encoding; 0 = each its own. */
int64_t vvi_mds_encoded_size(const char *encoding);

static inline uint64_t vvi_mds_number(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

#endif
