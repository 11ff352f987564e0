/* mds_writer.c - writes sets of MDS shards, version 2.
 *
 * A shard is put together in memory and written whole; the index comes last. Names, the order of
 * columns (sorted) and what shards and index say are those of the format's own writer, so that its
 * readers find what they expect. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include <vivace/memory.h>
#include <vivace/str.h>

#include "base/file.h"
#include "data/data_file.h"
#include "data/digest.h"
#include "data/mds/mds_index.h"

#define MAX_COLUMNS 4096

struct vv_mds_writer {
    char *dir, *compression; /* "" = none */
    bool zstd;
    int level;
    bool digests[VVI_DIGEST_KINDS];
    uint64_t limit;
    int column_count;
    int *order;          /* column c of the files is column order[c] of the caller */
    json_t *config;      /* what each shard says of itself */
    char *head;          /* the same as text, in front of a shard's samples */
    uint64_t head_bytes; /* of `head`, and what else a shard has before its offsets */
    int64_t *sizes;      /* of the columns, in the files' order; 0 = each its own */
    unsigned char *data; /* samples of the shard at hand */
    size_t used, room;
    uint32_t *ends; /* where each ends in `data` */
    size_t count, ends_room;
    json_t *shards; /* written so far */
    int64_t samples;
    uint64_t bytes;
    bool finished;
};

/* ---- the folder ---- */

static bool is_shard_name(const char *name)
{
    if (strncmp(name, "shard.", 6) != 0)
        return false;
    name += 6;
    const size_t digits = strspn(name, "0123456789");
    return digits >= 5 && strncmp(name + digits, ".mds", 4) == 0;
}

static vv_status clear_folder(const char *dir, bool overwrite)
{
    vv_status status;
    char *index = NULL, *path = NULL;
    DIR *list = NULL;
    VV_GO(vvi_mkdirs(dir));
    VV_GO(vvi_path_join(&index, dir, "index.json"));
    if (vvi_exists(index) && !overwrite)
        VV_GO(vv_fail(VV_EEXIST, "%s: there is a finished set in it already; remove it, name "
                                 "another folder, or ask to overwrite it", dir));
    VV_GO(vvi_file_remove(index)); /* first: what has no index is not a set */
    list = opendir(dir);
    if (!list)
        VV_GO(vv_fail(VV_EIO, "%s: cannot be listed", dir));
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;) {
        if (!is_shard_name(entry->d_name))
            continue;
        VV_GO(vvi_path_join(&path, dir, entry->d_name));
        VV_GO(vvi_file_remove(path));
        vv_dealloc(path);
        path = NULL;
    }
out:
    if (list)
        closedir(list);
    vv_dealloc(index);
    vv_dealloc(path);
    return status;
}

/* ---- what shards say of themselves ---- */

static vv_status no_memory(void)
{
    return vv_fail(VV_ENOMEM, "out of memory while writing an index");
}

/* As text, keys sorted. */
static vv_status dump(char **out, const json_t *json)
{
    const size_t bytes = json ? json_dumpb(json, NULL, 0, JSON_SORT_KEYS) : 0;
    *out = NULL;
    if (bytes == 0)
        return no_memory();
    VV_TRY(vv_alloc(out, bytes + 1));
    return json_dumpb(json, *out, bytes, JSON_SORT_KEYS) == bytes ? VV_OK : no_memory();
}

static vv_status check_opts(const vv_mds_writer_opts *opts)
{
    if (opts->column_count < 1 || opts->column_count > MAX_COLUMNS)
        return vv_fail(VV_EINVAL, "%d columns, expected 1 to %d", opts->column_count, MAX_COLUMNS);
    if (opts->shard_bytes < 1024 || opts->shard_bytes > UINT32_MAX)
        return vv_fail(VV_EINVAL, "shards of %llu bytes, expected 1024 to %u",
                       (unsigned long long)opts->shard_bytes, UINT32_MAX);
    for (int c = 0; c < opts->column_count; c++) {
        const vv_mds_column *column = &opts->columns[c];
        if (!column->name || !column->name[0] || !column->encoding || !column->encoding[0])
            return vv_fail(VV_EINVAL, "column %d: expected a name and an encoding", c);
        for (int k = 0; k < c; k++)
            if (strcmp(opts->columns[k].name, column->name) == 0)
                return vv_fail(VV_EINVAL, "column \"%s\" is there twice", column->name);
    }
    return VV_OK;
}

static vv_status read_hashes(vv_mds_writer *writer, const char *text)
{
    while (text && *text) {
        char name[16] = "";
        const size_t length = strcspn(text, ",");
        if (length < sizeof name)
            memcpy(name, text, length);
        const vvi_digest_kind kind = vvi_digest_called(name);
        if (kind == VVI_DIGEST_KINDS)
            return vv_fail(VV_EINVAL, "checksum \"%.*s\" is not known; sha1, sha256 and xxh64 are",
                           (int)length, text);
        writer->digests[kind] = true;
        text += length + (text[length] == ',');
    }
    return VV_OK;
}

/* Columns by name, as the format's own writer has them. */
static void sort_columns(vv_mds_writer *writer, const vv_mds_column *columns)
{
    for (int c = 0; c < writer->column_count; c++) {
        int at = c;
        for (; at > 0 && strcmp(columns[writer->order[at - 1]].name, columns[c].name) > 0; at--)
            writer->order[at] = writer->order[at - 1];
        writer->order[at] = c;
    }
}

static vv_status make_config(vv_mds_writer *writer, const vv_mds_column *columns)
{
    json_t *names = json_array(), *encodings = json_array(), *sizes = json_array();
    json_t *hashes = json_array();
    int failed = 0;
    for (int c = 0; c < writer->column_count; c++) {
        const vv_mds_column *column = &columns[writer->order[c]];
        writer->sizes[c] = vvi_mds_encoded_size(column->encoding);
        failed |= json_array_append_new(names, json_string(column->name));
        failed |= json_array_append_new(encodings, json_string(column->encoding));
        failed |= json_array_append_new(sizes, writer->sizes[c] ? json_integer(writer->sizes[c])
                                                                : json_null());
    }
    for (int k = 0; k < VVI_DIGEST_KINDS; k++)
        if (writer->digests[k])
            failed |= json_array_append_new(hashes, json_string(vvi_digest_name(k)));
    writer->config = json_pack(
        "{s:o, s:o, s:o, s:o, s:s?, s:s, s:I, s:i}", "column_names", names, "column_encodings",
        encodings, "column_sizes", sizes, "hashes", hashes, "compression",
        writer->compression[0] ? writer->compression : NULL, "format", "mds", "size_limit",
        (json_int_t)writer->limit, "version", 2);
    if (failed || !writer->config)
        return no_memory();
    VV_TRY(dump(&writer->head, writer->config));
    writer->head_bytes = 8 + strlen(writer->head);
    return VV_OK;
}

vv_status vv_mds_writer_new(vv_mds_writer **out, const char *dir, const vv_mds_writer_opts *opts)
{
    vv_status status;
    vv_mds_writer *writer = NULL;
    *out = NULL;
    VV_GO(check_opts(opts));
    VV_GO(vv_alloc(&writer, sizeof *writer));
    writer->limit = opts->shard_bytes;
    writer->column_count = opts->column_count;
    VV_GO(vv_strdup(&writer->dir, dir));
    VV_GO(vv_strdup(&writer->compression, opts->compression ? opts->compression : ""));
    if (writer->compression[0])
        VV_GO(vvi_compression_parse(writer->compression, &writer->zstd, &writer->level));
    VV_GO(read_hashes(writer, opts->hashes));
    VV_GO(vv_alloc_array(&writer->order, (size_t)opts->column_count, sizeof *writer->order));
    VV_GO(vv_alloc_array(&writer->sizes, (size_t)opts->column_count, sizeof *writer->sizes));
    sort_columns(writer, opts->columns);
    VV_GO(make_config(writer, opts->columns));
    writer->shards = json_array();
    if (!writer->shards)
        VV_GO(no_memory());
    VV_GO(clear_folder(dir, opts->overwrite));
    *out = writer;
    return VV_OK;
out:
    vv_mds_writer_free(writer);
    return vv_fail_within(status, "MDS writer");
}

void vv_mds_writer_free(vv_mds_writer *writer)
{
    if (!writer)
        return;
    json_decref(writer->config);
    json_decref(writer->shards);
    vv_dealloc(writer->head);
    vv_dealloc(writer->dir);
    vv_dealloc(writer->compression);
    vv_dealloc(writer->order);
    vv_dealloc(writer->sizes);
    vv_dealloc(writer->data);
    vv_dealloc(writer->ends);
    vv_dealloc(writer);
}

int64_t vv_mds_writer_count(const vv_mds_writer *writer)
{
    return writer->samples;
}

uint64_t vv_mds_writer_bytes(const vv_mds_writer *writer)
{
    return writer->bytes;
}

/* ---- shards ---- */

static void put_u32(unsigned char *at, uint64_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

/* u32 samples, u32 offsets of each and of the end, the description, the samples. */
static vv_status assemble(const vv_mds_writer *writer, unsigned char **out, size_t *bytes)
{
    const size_t told = strlen(writer->head);
    const uint64_t first = 4 * ((uint64_t)writer->count + 2) + told;
    const uint64_t all = first + writer->used;
    if (all > UINT32_MAX)
        return vv_fail(VV_EINVAL, "a sample of %zu bytes; a shard has room for 4 GiB",
                       writer->used);
    VV_TRY(vv_alloc_aligned(out, (size_t)all));
    put_u32(*out, writer->count);
    put_u32(*out + 4, first);
    for (size_t i = 0; i < writer->count; i++)
        put_u32(*out + 8 + 4 * i, first + writer->ends[i]);
    memcpy(*out + first - told, writer->head, told);
    if (writer->used)
        memcpy(*out + first, writer->data, writer->used);
    *bytes = (size_t)all;
    return VV_OK;
}

/* {"basename", "bytes", "hashes": {...}}; NULL = out of memory. */
static json_t *describe_file(const vv_mds_writer *writer, const char *name, const void *data,
                             size_t bytes)
{
    json_t *hashes = json_object();
    for (int k = 0; hashes && k < VVI_DIGEST_KINDS; k++) {
        vvi_digest digest;
        char hex[65];
        if (!writer->digests[k])
            continue;
        vvi_digest_init(&digest, (vvi_digest_kind)k);
        vvi_digest_add(&digest, data, bytes);
        vvi_digest_hex(&digest, hex);
        if (json_object_set_new(hashes, vvi_digest_name((vvi_digest_kind)k), json_string(hex))) {
            json_decref(hashes);
            hashes = NULL;
        }
    }
    return hashes ? json_pack("{s:s, s:I, s:o}", "basename", name, "bytes", (json_int_t)bytes,
                              "hashes", hashes)
                  : NULL;
}

static vv_status note_shard(vv_mds_writer *writer, json_t *raw, json_t *packed)
{
    json_t *shard = json_deep_copy(writer->config);
    int failed = json_object_set_new(shard, "raw_data", raw);
    failed |= json_object_set_new(shard, "zip_data", packed ? packed : json_null());
    failed |= json_object_set_new(shard, "samples", json_integer((json_int_t)writer->count));
    failed |= json_array_append(writer->shards, shard);
    json_decref(shard);
    return failed ? no_memory() : VV_OK;
}

static vv_status write_shard(vv_mds_writer *writer)
{
    vv_status status;
    unsigned char *data = NULL;
    void *packed = NULL;
    char *path = NULL;
    size_t bytes = 0, packed_bytes = 0;
    char name[64], packed_name[72];
    snprintf(name, sizeof name, "shard.%05zu.mds", json_array_size(writer->shards));
    snprintf(packed_name, sizeof packed_name, "%s.%s", name, writer->zstd ? "zstd" : "gz");
    const bool pack = writer->compression[0] != '\0';
    VV_GO(assemble(writer, &data, &bytes));
    if (pack)
        VV_GO(vvi_compress(&packed, &packed_bytes, writer->zstd, writer->level, data, bytes));
    VV_GO(vvi_path_join(&path, writer->dir, pack ? packed_name : name));
    VV_GO(pack ? vvi_file_write_atomic(path, packed, packed_bytes)
               : vvi_file_write_atomic(path, data, bytes));
    json_t *raw_info = describe_file(writer, name, data, bytes), *packed_info = NULL;
    if (pack)
        packed_info = describe_file(writer, packed_name, packed, packed_bytes);
    if (!raw_info || (pack && !packed_info)) {
        json_decref(raw_info);
        json_decref(packed_info);
        VV_GO(no_memory());
    }
    VV_GO(note_shard(writer, raw_info, packed_info));
    writer->bytes += pack ? packed_bytes : bytes;
    writer->used = writer->count = 0;
out:
    vv_dealloc(data);
    vv_dealloc(packed);
    vv_dealloc(path);
    return status;
}

/* ---- samples ---- */

static vv_status sample_bytes(const vv_mds_writer *writer, const vv_mds_bytes *values, size_t *out)
{
    *out = 0;
    for (int c = 0; c < writer->column_count; c++) {
        const vv_mds_bytes *value = &values[writer->order[c]];
        if (value->bytes > UINT32_MAX ||
            (writer->sizes[c] && value->bytes != (size_t)writer->sizes[c]))
            return vv_fail(VV_EINVAL, "sample %lld: column %d has %zu bytes, expected %s%lld",
                           (long long)writer->samples, writer->order[c], value->bytes,
                           writer->sizes[c] ? "" : "at most ",
                           writer->sizes[c] ? (long long)writer->sizes[c] : (long long)UINT32_MAX);
        VV_TRY(vv_size_add(out, *out, value->bytes));
        *out += writer->sizes[c] ? 0 : 4;
    }
    if (*out > UINT32_MAX)
        return vv_fail(VV_EINVAL, "sample %lld has %zu bytes; a shard has room for 4 GiB",
                       (long long)writer->samples, *out);
    return VV_OK;
}

static vv_status make_room(vv_mds_writer *writer, size_t bytes)
{
    if (bytes > writer->room - writer->used) {
        size_t want = writer->room * 2 > 65536 ? writer->room * 2 : 65536;
        want = want - writer->used < bytes ? writer->used + bytes : want;
        VV_TRY(vv_realloc_array(&writer->data, want, 1));
        writer->room = want;
    }
    if (writer->count == writer->ends_room) {
        const size_t want = writer->ends_room ? writer->ends_room * 2 : 1024;
        VV_TRY(vv_realloc_array(&writer->ends, want, sizeof *writer->ends));
        writer->ends_room = want;
    }
    return VV_OK;
}

vv_status vv_mds_writer_add(vv_mds_writer *writer, const vv_mds_bytes *values)
{
    size_t bytes;
    if (writer->finished)
        return vv_fail(VV_EINVAL, "MDS writer: %s is finished", writer->dir);
    VV_TRY(vv_fail_within(sample_bytes(writer, values, &bytes), "MDS writer"));
    const uint64_t now = writer->head_bytes + 4 * (uint64_t)writer->count + writer->used;
    if (writer->count > 0 && now + 4 + bytes > writer->limit)
        VV_TRY(vv_fail_within(write_shard(writer), "MDS writer: %s", writer->dir));
    VV_TRY(make_room(writer, bytes));
    unsigned char *sizes = writer->data + writer->used, *at = sizes;
    for (int c = 0; c < writer->column_count; c++)
        at += writer->sizes[c] ? 0 : 4;
    for (int c = 0; c < writer->column_count; c++) {
        const vv_mds_bytes *value = &values[writer->order[c]];
        if (!writer->sizes[c]) {
            put_u32(sizes, value->bytes);
            sizes += 4;
        }
        if (value->bytes)
            memcpy(at, value->data, value->bytes);
        at += value->bytes;
    }
    writer->used += bytes;
    writer->ends[writer->count++] = (uint32_t)writer->used;
    writer->samples++;
    return VV_OK;
}

vv_status vv_mds_writer_classes(vv_mds_writer *writer, const char *const *names, int64_t count)
{
    vv_status status;
    char *path = NULL, *text = NULL;
    json_t *list = json_array();
    for (int64_t i = 0; list && i < count; i++)
        if (json_array_append_new(list, json_string(names[i])))
            VV_GO(vv_fail(VV_EINVAL, "MDS writer: class %lld: its name is no UTF-8, or memory ran "
                                     "out", (long long)i));
    VV_GO(vvi_path_join(&path, writer->dir, "classes.json"));
    VV_GO(dump(&text, list));
    VV_GO(vvi_file_write_atomic(path, text, strlen(text)));
out:
    json_decref(list);
    vv_dealloc(path);
    vv_dealloc(text);
    return status;
}

static vv_status write_index(vv_mds_writer *writer)
{
    vv_status status;
    char *path = NULL, *text = NULL;
    json_t *root = json_pack("{s:O, s:i}", "shards", writer->shards, "version", 2);
    VV_GO(dump(&text, root));
    VV_GO(vvi_path_join(&path, writer->dir, "index.json"));
    VV_GO(vvi_file_write_atomic(path, text, strlen(text)));
    writer->bytes += strlen(text);
out:
    json_decref(root);
    vv_dealloc(path);
    vv_dealloc(text);
    return status;
}

vv_status vv_mds_writer_finish(vv_mds_writer *writer)
{
    vv_status status = VV_OK;
    if (writer->finished)
        return VV_OK;
    if (writer->count > 0 || json_array_size(writer->shards) == 0)
        status = write_shard(writer);
    if (status == VV_OK)
        status = write_index(writer);
    writer->finished = status == VV_OK;
    return vv_fail_within(status, "MDS writer: %s", writer->dir);
}
