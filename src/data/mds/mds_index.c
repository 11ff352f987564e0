/* mds_index.c - the index of MDS version 2 (JSON), and where samples and columns lie.
 *
 * A shard of version 2, little endian: u32 samples; u32 offsets of each and of the end, from the
 * file's start; a description we take from the index; the samples. A sample, both versions: the
 * sizes of the columns that have no fixed one (u32; version 1: i64, all columns), then the columns'
 * bytes in order. */
#include "data/mds/mds_index.h"

#include <string.h>

#include <jansson.h>

#include <vivace/memory.h>

void vvi_mds_index_fini(vvi_mds_index *index)
{
    for (int c = 0; index->columns && c < index->column_count; c++) {
        vv_dealloc((void *)(uintptr_t)index->columns[c].name);
        vv_dealloc((void *)(uintptr_t)index->columns[c].encoding);
    }
    for (int64_t s = 0; index->shards && s < index->shard_count; s++) {
        vv_dealloc(index->shards[s].name);
        vv_dealloc(index->shards[s].packed_name);
        vv_dealloc(index->shards[s].offsets);
    }
    vv_dealloc(index->columns);
    vv_dealloc(index->shards);
    *index = (vvi_mds_index){0};
}

/* ---- JSON ---- */

static vv_status wrong(const char *name, size_t shard, const char *key, const char *what)
{
    return vv_fail(VV_EFORMAT, "%s: shard %zu: %s: expected %s", name, shard, key, what);
}

static vv_status read_columns(vvi_mds_index *out, const char *name, const json_t *shard)
{
    const json_t *names = json_object_get(shard, "column_names");
    const json_t *encodings = json_object_get(shard, "column_encodings");
    const json_t *sizes = json_object_get(shard, "column_sizes");
    const size_t count = json_array_size(names);
    if (count < 1 || count > 4096 || json_array_size(encodings) != count ||
        json_array_size(sizes) != count)
        return wrong(name, 0, "column_names, column_encodings, column_sizes",
                     "three lists of the same length");
    VV_TRY(vv_alloc_array(&out->columns, count, sizeof *out->columns));
    out->column_count = (int)count;
    for (size_t c = 0; c < count; c++) {
        const char *column = json_string_value(json_array_get(names, c));
        const char *encoding = json_string_value(json_array_get(encodings, c));
        const json_t *size = json_array_get(sizes, c);
        if (!column || !encoding)
            return wrong(name, 0, "column_names, column_encodings", "texts");
        if (!json_is_null(size) && (!json_is_integer(size) || json_integer_value(size) < 0 ||
                                    json_integer_value(size) > INT32_MAX))
            return wrong(name, 0, "column_sizes", "bytes or null");
        VV_TRY(vv_strdup((char **)(uintptr_t)&out->columns[c].name, column));
        VV_TRY(vv_strdup((char **)(uintptr_t)&out->columns[c].encoding, encoding));
        out->columns[c].size = json_is_null(size) ? 0 : json_integer_value(size);
    }
    return VV_OK;
}

/* Later shards must say what the first one says. */
static vv_status check_columns(const vvi_mds_index *index, const char *name, const json_t *shard,
                               size_t at)
{
    const json_t *names = json_object_get(shard, "column_names");
    const json_t *encodings = json_object_get(shard, "column_encodings");
    const json_t *sizes = json_object_get(shard, "column_sizes");
    bool same = json_array_size(names) == (size_t)index->column_count;
    for (int c = 0; same && c < index->column_count; c++) {
        const char *column = json_string_value(json_array_get(names, (size_t)c));
        const char *encoding = json_string_value(json_array_get(encodings, (size_t)c));
        same = column && encoding && strcmp(column, index->columns[c].name) == 0 &&
               strcmp(encoding, index->columns[c].encoding) == 0 &&
               json_integer_value(json_array_get(sizes, (size_t)c)) == index->columns[c].size;
    }
    return same ? VV_OK : wrong(name, at, "column_names", "the columns of the first shard");
}

/* A path below the folder: no shard may name a file elsewhere. */
static bool is_below(const char *path)
{
    if (!path[0] || path[0] == '/')
        return false;
    for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    return true;
}

/* The quickest checksum that both we and the index know. */
static vv_status read_sum(vvi_mds_sum *out, const char *name, size_t at, const json_t *file,
                          const char *key)
{
    static const vvi_digest_kind order[] = {VVI_XXH64, VVI_SHA1, VVI_SHA256};
    static const size_t digits[VVI_DIGEST_KINDS] = {40, 64, 16};
    const json_t *hashes = json_object_get(file, "hashes");
    out->kind = VVI_DIGEST_KINDS;
    for (int i = 0; i < VVI_DIGEST_KINDS; i++) {
        const json_t *hex = json_object_get(hashes, vvi_digest_name(order[i]));
        if (!hex)
            continue;
        const char *text = json_string_value(hex);
        if (!text || strspn(text, "0123456789abcdef") != digits[order[i]] ||
            strlen(text) != digits[order[i]])
            return wrong(name, at, key, "checksums of hexadecimal digits");
        out->kind = order[i];
        memcpy(out->hex, text, digits[order[i]] + 1);
        return VV_OK;
    }
    return VV_OK;
}

static vv_status read_file(char **out, const char *name, size_t at, const json_t *shard,
                           const char *key, uint64_t *bytes, vvi_mds_sum *sum)
{
    const json_t *file = json_object_get(shard, key);
    sum->kind = VVI_DIGEST_KINDS;
    if (!file || json_is_null(file))
        return VV_OK;
    const char *basename = json_string_value(json_object_get(file, "basename"));
    const json_t *size = json_object_get(file, "bytes");
    if (!basename || !is_below(basename))
        return wrong(name, at, key, "a basename within the folder");
    const bool may_lack = strcmp(key, "zip_data") == 0 && (!size || json_is_null(size));
    if (!may_lack && (!json_is_integer(size) || json_integer_value(size) < 0))
        return wrong(name, at, key, "a number of bytes");
    *bytes = may_lack ? UINT64_MAX : (uint64_t)json_integer_value(size);
    VV_TRY(read_sum(sum, name, at, file, key));
    return vv_strdup(out, basename);
}

static vv_status read_shard(vvi_mds_index *out, const char *name, const json_t *shard, size_t at)
{
    vvi_mds_shard *to = &out->shards[at];
    const char *format = json_string_value(json_object_get(shard, "format"));
    const json_t *samples = json_object_get(shard, "samples");
    if (!format || strcmp(format, "mds") != 0)
        return wrong(name, at, "format", "mds (other formats of the streaming package are not "
                                         "read)");
    if (json_integer_value(json_object_get(shard, "version")) != 2)
        return wrong(name, at, "version", "2");
    if (!json_is_integer(samples) || json_integer_value(samples) < 0 ||
        json_integer_value(samples) > UINT32_MAX)
        return wrong(name, at, "samples", "a number of samples");
    VV_TRY(at == 0 ? read_columns(out, name, shard) : check_columns(out, name, shard, at));
    to->first = out->samples;
    to->samples = json_integer_value(samples);
    out->samples += to->samples;
    VV_TRY(read_file(&to->name, name, at, shard, "raw_data", &to->bytes, &to->sum));
    if (!to->name)
        return wrong(name, at, "raw_data", "a file");
    return read_file(&to->packed_name, name, at, shard, "zip_data", &to->packed_bytes,
                     &to->packed_sum);
}

static vv_status parse_json(vvi_mds_index *out, const char *name, const json_t *root)
{
    const json_t *shards = json_object_get(root, "shards");
    const size_t count = json_array_size(shards);
    if (json_integer_value(json_object_get(root, "version")) != 2 || !json_is_array(shards))
        return vv_fail(VV_EFORMAT, "%s: expected {\"shards\": [...], \"version\": 2}, found "
                                   "something else", name);
    if (count < 1)
        return vv_fail(VV_EFORMAT, "%s: the set has no shards", name);
    out->version = 2;
    VV_TRY(vv_alloc_array(&out->shards, count, sizeof *out->shards));
    out->shard_count = (int64_t)count;
    for (size_t s = 0; s < count; s++)
        VV_TRY(read_shard(out, name, json_array_get(shards, s), s));
    return VV_OK;
}

vv_status vvi_mds_index_parse_json(vvi_mds_index *out, const char *name, const void *data,
                                   size_t bytes)
{
    json_error_t error;
    *out = (vvi_mds_index){0};
    json_t *root = json_loadb(data, bytes, 0, &error);
    if (!root)
        return vv_fail(VV_EFORMAT, "%s:%d: no JSON: %s", name, error.line, error.text);
    const vv_status status = parse_json(out, name, root);
    json_decref(root);
    if (status != VV_OK)
        vvi_mds_index_fini(out);
    return status;
}

/* ---- samples ---- */

vv_status vvi_mds_locate(const vvi_mds_index *index, const vvi_mds_shard *shard, const void *data,
                         size_t bytes, int64_t sample, uint64_t *begin, uint64_t *end)
{
    const unsigned char *at = data;
    if (shard->offsets) {
        *begin = shard->offsets[sample];
        *end = shard->offsets[sample + 1];
    } else {
        const uint64_t head = 4 * ((uint64_t)shard->samples + 2);
        if (bytes < head || vvi_mds_number(at, 4) != (uint64_t)shard->samples)
            return vv_fail(VV_EFORMAT, "%s: expected %lld samples, found %lld", shard->name,
                           (long long)shard->samples,
                           bytes < 4 ? 0LL : (long long)vvi_mds_number(at, 4));
        *begin = vvi_mds_number(at + 4 * (sample + 1), 4);
        *end = vvi_mds_number(at + 4 * (sample + 2), 4);
    }
    if (*begin <= *end && *end <= bytes)
        return VV_OK;
    return vv_fail(VV_EFORMAT, "%s: sample %lld is at bytes %llu to %llu of %zu; the shard is "
                               "damaged (version %d)", shard->name, (long long)sample,
                   (unsigned long long)*begin, (unsigned long long)*end, bytes, index->version);
}

vv_status vvi_mds_pick(const vvi_mds_index *index, const unsigned char *sample, size_t bytes,
                       int column, size_t *begin, size_t *end)
{
    const size_t width = index->version == 1 ? 8 : 4;
    size_t sizes = 0, head = 0;
    for (int c = 0; c < index->column_count; c++)
        head += index->columns[c].size > 0 ? 0 : width;
    size_t at = head;
    for (int c = 0; c <= column && head <= bytes; c++) {
        uint64_t size = (uint64_t)index->columns[c].size;
        if (size == 0) {
            size = vvi_mds_number(sample + sizes, (int)width);
            sizes += width;
        }
        if (size > bytes - at)
            break;
        *begin = at;
        at += (size_t)size;
        *end = at;
        if (c == column)
            return VV_OK;
    }
    return vv_fail(VV_EFORMAT, "column %s ends behind the sample's %zu bytes",
                   index->columns[column].name, bytes);
}
