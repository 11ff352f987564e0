/* mds_index_v1.c - the binary index of MDS version 1.
 *
 * Little endian: u32 magic, version, shards; i64 samples, bytes in all; i64 samples of each shard;
 * i64 bytes of each shard; i32 width of a sample's size, 0 = one i64 for all of them, else 1, 2, 4
 * or 8 bytes each; i32 columns; i32 length of each name; the names. Sizes are unsigned: the first
 * writer stored up to 255 in one byte. */
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

#include "data/mds/mds_index.h"

#define MAGIC 0xDA7AD06Eu
#define MAX_SAMPLES ((int64_t)1 << 40)

typedef struct reader {
    const unsigned char *at;
    size_t left;
    const char *name;
} reader;

static vv_status need(const reader *in, uint64_t count, uint64_t each)
{
    if (each == 0 || count <= in->left / each)
        return VV_OK;
    return vv_fail(VV_EFORMAT, "%s: expected %llu more numbers of %llu bytes, found %zu bytes; the "
                               "index is cut short", in->name, (unsigned long long)count,
                   (unsigned long long)each, in->left);
}

static uint64_t take(reader *in, int bytes)
{
    const uint64_t value = vvi_mds_number(in->at, bytes);
    in->at += bytes;
    in->left -= (size_t)bytes;
    return value;
}

static vv_status read_shards(vvi_mds_index *out, reader *in, uint64_t samples)
{
    uint64_t sum = 0;
    VV_TRY(need(in, (uint64_t)out->shard_count * 2, 8));
    VV_TRY(vv_alloc_array(&out->shards, (size_t)out->shard_count, sizeof *out->shards));
    for (int64_t s = 0; s < out->shard_count; s++) {
        const uint64_t count = take(in, 8);
        if (count > samples - sum)
            return vv_fail(VV_EFORMAT, "%s: shard %lld has %llu samples, more than the %llu in all",
                           in->name, (long long)s, (unsigned long long)count,
                           (unsigned long long)samples);
        out->shards[s].first = (int64_t)sum;
        out->shards[s].samples = (int64_t)count;
        sum += count;
    }
    if (sum != samples)
        return vv_fail(VV_EFORMAT, "%s: expected %llu samples in all, found %llu in the shards",
                       in->name, (unsigned long long)samples, (unsigned long long)sum);
    for (int64_t s = 0; s < out->shard_count; s++) {
        char name[64];
        out->shards[s].bytes = take(in, 8);
        out->shards[s].packed_bytes = UINT64_MAX;
        out->shards[s].sum.kind = out->shards[s].packed_sum.kind = VVI_DIGEST_KINDS;
        snprintf(name, sizeof name, "%06lld.mds", (long long)s);
        VV_TRY(vv_strdup(&out->shards[s].name, name));
        snprintf(name, sizeof name, "%06lld.mds.gz", (long long)s);
        VV_TRY(vv_strdup(&out->shards[s].packed_name, name));
    }
    return VV_OK;
}

static vv_status read_sizes(vvi_mds_index *out, reader *in)
{
    VV_TRY(need(in, 1, 4));
    const uint64_t width = take(in, 4);
    uint64_t same = 0;
    if (width != 0 && width != 1 && width != 2 && width != 4 && width != 8)
        return vv_fail(VV_EFORMAT, "%s: expected sizes of 0, 1, 2, 4 or 8 bytes, found %llu",
                       in->name, (unsigned long long)width);
    VV_TRY(need(in, width ? (uint64_t)out->samples : 1, width ? width : 8));
    if (width == 0)
        same = take(in, 8);
    for (int64_t s = 0; s < out->shard_count; s++) {
        vvi_mds_shard *shard = &out->shards[s];
        VV_TRY(vv_alloc_array(&shard->offsets, (size_t)shard->samples + 1, sizeof(uint64_t)));
        for (int64_t i = 0; i < shard->samples; i++) {
            const uint64_t size = width ? take(in, (int)width) : same;
            if (size > shard->bytes - shard->offsets[i])
                return vv_fail(VV_EFORMAT, "%s: sample %lld of shard %lld ends behind the shard's "
                                           "%llu bytes", in->name, (long long)i, (long long)s,
                               (unsigned long long)shard->bytes);
            shard->offsets[i + 1] = shard->offsets[i] + size;
        }
    }
    return VV_OK;
}

static vv_status copy_text(const char **out, const unsigned char *text, size_t bytes)
{
    char *copy;
    VV_TRY(vv_alloc(&copy, bytes + 1));
    memcpy(copy, text, bytes);
    *out = copy;
    return VV_OK;
}

static vv_status read_columns(vvi_mds_index *out, reader *in)
{
    VV_TRY(need(in, 1, 4));
    const uint64_t count = take(in, 4);
    VV_TRY(need(in, count, 4));
    if (count < 1 || count > 4096)
        return vv_fail(VV_EFORMAT, "%s: expected 1 to 4096 columns, found %llu", in->name,
                       (unsigned long long)count);
    VV_TRY(vv_alloc_array(&out->columns, count, sizeof *out->columns));
    out->column_count = (int)count;
    reader names = {in->at + 4 * count, in->left - 4 * count, in->name};
    for (uint64_t c = 0; c < count; c++) {
        const uint64_t length = take(in, 4);
        VV_TRY(need(&names, length, 1));
        VV_TRY(copy_text(&out->columns[c].name, names.at, (size_t)length));
        VV_TRY(copy_text(&out->columns[c].encoding, (const unsigned char *)"bytes", 5));
        names.at += length;
        names.left -= (size_t)length;
    }
    return VV_OK;
}

static vv_status parse(vvi_mds_index *out, reader *in)
{
    VV_TRY(need(in, 28, 1));
    const uint64_t magic = take(in, 4), version = take(in, 4), shards = take(in, 4);
    const uint64_t samples = take(in, 8);
    take(in, 8); /* bytes in all: the shards say the same */
    if (magic != MAGIC)
        return vv_fail(VV_EFORMAT, "%s: expected an index of MDS shards (0x%08x), found 0x%08llx",
                       in->name, MAGIC, (unsigned long long)magic);
    if (version != 1)
        return vv_fail(VV_EFORMAT, "%s: expected version 1 of the index, found %llu", in->name,
                       (unsigned long long)version);
    if (samples > (uint64_t)MAX_SAMPLES)
        return vv_fail(VV_EFORMAT, "%s: expected a number of samples, found %llu", in->name,
                       (unsigned long long)samples);
    out->version = 1;
    out->samples = (int64_t)samples;
    out->shard_count = (int64_t)shards;
    VV_TRY(read_shards(out, in, samples));
    VV_TRY(read_sizes(out, in));
    return read_columns(out, in);
}

vv_status vvi_mds_index_parse_v1(vvi_mds_index *out, const char *name, const void *data,
                                 size_t bytes)
{
    reader in = {data, bytes, name};
    *out = (vvi_mds_index){0};
    const vv_status status = parse(out, &in);
    if (status != VV_OK)
        vvi_mds_index_fini(out);
    return status;
}
