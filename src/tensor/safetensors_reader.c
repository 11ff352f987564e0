/* safetensors_reader.c - opens and checks safetensors files. Files are untrusted: every number of
 * the header is checked before it is used. */
#include <vivace/safetensors.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <vivace/memory.h>

#include "base/file.h"
#include "tensor/safetensors_format.h"
#include "tensor/safetensors_peek.h"
#include "tensor/safetensors_zstd.h"

typedef struct entry {
    char *name;
    vv_tensor *tensor;
    uint64_t begin, end; /* within the data */
} entry;

typedef struct text {
    char *key, *value;
} text;

struct vv_safetensors {
    char *bytes;          /* the file; NULL if the caller owns the memory */
    const char *what;     /* its name for sentences, while it is opened */
    entry *entries;       /* by place in the file */
    const entry **sorted; /* by name */
    text *texts;
    int count, text_count;
    const char *data;
    size_t data_bytes;
    char *data_crc, *header_crc; /* NULL if the file has none */
};

/* VV_EFORMAT with "'<file>' is not a valid safetensors file: ..." */
static vv_status refuse(const vv_safetensors *file)
{
    return vv_fail_within(VV_EFORMAT, "%s is not a valid safetensors file", file->what);
}

#define REFUSE(file, ...) (vv_fail(VV_EFORMAT, __VA_ARGS__), refuse(file))

static vv_status read_shape(const vv_safetensors *file, const char *name, const json_t *shape,
                            int *ndim, int64_t dims[VV_MAX_DIMS])
{
    if (!json_is_array(shape))
        return REFUSE(file, "tensor '%s': \"shape\" should be a list of whole numbers", name);
    size_t count = json_array_size(shape);
    if (count > VV_MAX_DIMS)
        return vv_fail(VV_EUNSUPPORTED,
                       "%s: tensor '%s' has %zu dimensions; at most %d are supported", file->what,
                       name, count, VV_MAX_DIMS);
    for (size_t i = 0; i < count; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return REFUSE(file, "tensor '%s': dimension %zu should be a whole number from 0 on",
                          name, i);
        dims[i] = json_integer_value(dim);
    }
    *ndim = (int)count;
    return VV_OK;
}

static vv_status read_dtype(const vv_safetensors *file, const char *name, const json_t *dtype,
                            vv_dtype *out)
{
    const char *word = json_string_value(dtype);
    if (!word)
        return REFUSE(file, "tensor '%s': \"dtype\" should be a text such as \"F32\"", name);
    *out = vvi_safetensors_dtype(word);
    if (*out == VV_DTYPE_COUNT)
        return vv_fail(VV_EUNSUPPORTED,
                       "%s: tensor '%s' has dtype '%s'; F32, BF16, F64, I32, I64, U8 and BOOL are "
                       "supported, so convert it first",
                       file->what, name, word);
    return VV_OK;
}

static vv_status read_range(const vv_safetensors *file, entry *e, const json_t *range)
{
    const json_t *begin = json_array_get(range, 0), *end = json_array_get(range, 1);
    if (json_array_size(range) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return REFUSE(file, "tensor '%s': \"data_offsets\" should be two whole numbers", e->name);
    json_int_t first = json_integer_value(begin), last = json_integer_value(end);
    if (first < 0 || last < first || (uint64_t)last > file->data_bytes)
        return REFUSE(
            file,
            "tensor '%s': bytes %lld to %lld are not within the %zu bytes of data; the file "
            "may be cut short",
            e->name, (long long)first, (long long)last, file->data_bytes);
    e->begin = (uint64_t)first;
    e->end = (uint64_t)last;
    return VV_OK;
}

/* A view where the data is aligned for its type, a copy where it is not. */
static vv_status place_tensor(const vv_safetensors *file, entry *e, vv_dtype dtype, int ndim,
                              const int64_t *dims)
{
    const char *start = file->data + e->begin;
    void *data;
    memcpy(&data, &start, sizeof data); /* the tensor is handed out as const only */
    vv_status status = vv_tensor_wrap(&e->tensor, dtype, ndim, dims, data);
    if (status == VV_EINVAL || status == VV_ESHAPE)
        return REFUSE(file, "tensor '%s': its shape is too large", e->name);
    if (status != VV_OK)
        return status;
    if (e->tensor->bytes != e->end - e->begin) {
        char shape[128];
        return REFUSE(file, "tensor '%s': %s of %s takes %zu bytes, but its range has %llu",
                      e->name, vv_dtype_name(dtype), vv_shape_text(ndim, dims, shape, sizeof shape),
                      e->tensor->bytes, (unsigned long long)(e->end - e->begin));
    }
    if ((uintptr_t)data % vv_dtype_size(dtype) == 0)
        return VV_OK;
    vv_tensor_free(e->tensor);
    return vv_tensor_from(&e->tensor, dtype, ndim, dims, data);
}

static vv_status check_bools(const vv_safetensors *file, const entry *e)
{
    const unsigned char *values = e->tensor->data;
    for (size_t i = 0; e->tensor->dtype == VV_BOOL && i < e->tensor->bytes; i++)
        if (values[i] > 1)
            return REFUSE(file, "tensor '%s': element %zu is %u, but a BOOL is 0 or 1", e->name, i,
                          values[i]);
    return VV_OK;
}

static vv_status read_tensor(vv_safetensors *file, const char *name, const json_t *info)
{
    vv_dtype dtype = VV_F32;
    int ndim = 0;
    int64_t dims[VV_MAX_DIMS];
    if (!json_is_object(info))
        return REFUSE(file, "tensor '%s': its entry should be an object", name);
    entry *e = &file->entries[file->count];
    VV_TRY(vv_strdup(&e->name, name));
    file->count++; /* from here on vv_safetensors_close frees it */
    VV_TRY(read_dtype(file, name, json_object_get(info, "dtype"), &dtype));
    VV_TRY(read_shape(file, name, json_object_get(info, "shape"), &ndim, dims));
    VV_TRY(read_range(file, e, json_object_get(info, "data_offsets")));
    VV_TRY(place_tensor(file, e, dtype, ndim, dims));
    return check_bools(file, e);
}

static vv_status read_texts(vv_safetensors *file, json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return REFUSE(file, "\"" VVI_METADATA_KEY "\" should be an object");
    VV_TRY(vv_alloc_array(&file->texts, json_object_size(metadata), sizeof(text)));
    json_object_foreach(metadata, key, value)
    {
        const char *content = json_string_value(value);
        if (!content)
            return REFUSE(file, "\"" VVI_METADATA_KEY "\": '%s' should be a text", key);
        if (strcmp(key, VVI_DATA_CRC_KEY) == 0) {
            VV_TRY(vv_strdup(&file->data_crc, content));
            continue;
        }
        if (strcmp(key, VVI_HEADER_CRC_KEY) == 0) {
            VV_TRY(vv_strdup(&file->header_crc, content));
            continue;
        }
        text *made = &file->texts[file->text_count];
        VV_TRY(vv_strdup(&made->key, key));
        file->text_count++;
        VV_TRY(vv_strdup(&made->value, content));
    }
    return VV_OK;
}

static vv_status read_header(vv_safetensors *file, json_t *root)
{
    const char *name;
    json_t *info;
    VV_TRY(vv_alloc_array(&file->entries, json_object_size(root), sizeof(entry)));
    json_object_foreach(root, name, info)
    {
        if (strcmp(name, VVI_METADATA_KEY) == 0)
            VV_TRY(read_texts(file, info));
        else
            VV_TRY(read_tensor(file, name, info));
    }
    return VV_OK;
}

static int by_place(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    const entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* The ranges must cover the data exactly: a gap could hide bytes no checksum names. */
static vv_status check_cover(vv_safetensors *file)
{
    uint64_t at = 0;
    if (file->count)
        qsort(file->entries, (size_t)file->count, sizeof(entry), by_place);
    for (int i = 0; i < file->count; i++) {
        const entry *e = &file->entries[i];
        if (e->begin != at)
            return REFUSE(file,
                          "tensor '%s' begins at byte %llu, but the one before it ends at %llu",
                          e->name, (unsigned long long)e->begin, (unsigned long long)at);
        at = e->end;
    }
    if (at != file->data_bytes)
        return REFUSE(file, "the tensors take %llu bytes, but there are %zu",
                      (unsigned long long)at, file->data_bytes);
    VV_TRY(vv_alloc_array(&file->sorted, (size_t)file->count, sizeof *file->sorted));
    for (int i = 0; i < file->count; i++)
        file->sorted[i] = &file->entries[i];
    if (file->count)
        qsort(file->sorted, (size_t)file->count, sizeof *file->sorted, by_name);
    return VV_OK;
}

static vv_status compare_crc(const vv_safetensors *file, const char *of, const char *expected,
                             uint32_t crc)
{
    char found[16];
    snprintf(found, sizeof found, "%08x", (unsigned)crc);
    if (!expected || strcmp(found, expected) == 0)
        return VV_OK;
    return vv_fail(
        VV_EFORMAT,
        "%s is damaged: the checksum of its %s is %s, but %s was written; use another copy, or, if "
        "another program changed it on purpose, have it leave out the texts \"" VVI_DATA_CRC_KEY
        "\" and \"" VVI_HEADER_CRC_KEY "\" of the metadata",
        file->what, of, found, expected);
}

static vv_status check_crcs(const vv_safetensors *file)
{
    vvi_crc32 crc;
    vvi_crc32_init(&crc);
    if (file->data_crc) {
        vvi_crc32_add(&crc, file->data, file->data_bytes);
        VV_TRY(compare_crc(file, "data", file->data_crc, vvi_crc32_value(&crc)));
    }
    uint32_t sum = 0;
    for (int i = 0; i < file->count; i++) {
        const entry *e = &file->entries[i];
        sum += vvi_safetensors_tensor_crc(&crc, e->name, e->tensor, e->begin);
    }
    for (int i = 0; i < file->text_count; i++)
        sum += vvi_safetensors_text_crc(&crc, file->texts[i].key, file->texts[i].value);
    return compare_crc(file, "header", file->header_crc, sum);
}

static vv_status parse_json(const vv_safetensors *file, json_t **root, const char *json,
                            size_t bytes)
{
    json_error_t error;
    *root = json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!*root && json_error_code(&error) == json_error_out_of_memory)
        return vv_fail(VV_ENOMEM, "out of memory: the header of %s has %zu bytes", file->what,
                       bytes);
    if (!*root)
        return REFUSE(file, "its header is no JSON: %s at byte %d", error.text, error.position);
    if (!json_is_object(*root))
        return REFUSE(file, "its header should be a JSON object");
    return VV_OK;
}

/* Fills `file` from the bytes of a whole file. */
static vv_status parse(vv_safetensors *file, const char *bytes, size_t count)
{
    vv_status status = VV_OK;
    json_t *root = NULL;
    uint64_t length;
    if (count < VVI_SAFETENSORS_LENGTH_BYTES)
        return REFUSE(file, "it has %zu bytes, fewer than the %d of the header's length", count,
                      VVI_SAFETENSORS_LENGTH_BYTES);
    memcpy(&length, bytes, sizeof length);
    size_t rest = count - VVI_SAFETENSORS_LENGTH_BYTES;
    if (length > VVI_SAFETENSORS_HEADER_MAX)
        return REFUSE(file, "its header should have at most %llu bytes, but claims %llu",
                      (unsigned long long)VVI_SAFETENSORS_HEADER_MAX, (unsigned long long)length);
    if (length > rest)
        return REFUSE(file,
                      "its header claims %llu bytes, but only %zu follow; it may be cut short",
                      (unsigned long long)length, rest);
    const char *json = bytes + VVI_SAFETENSORS_LENGTH_BYTES;
    if (length == 0 || json[0] != '{')
        return REFUSE(file, "its header should begin with '{'");
    file->data = json + length;
    file->data_bytes = rest - (size_t)length;
    VV_GO(parse_json(file, &root, json, (size_t)length));
    VV_GO(read_header(file, root));
    VV_GO(check_cover(file));
    VV_GO(check_crcs(file));
out:
    json_decref(root);
    return status;
}

static vv_status open_bytes(vv_safetensors **out, const char *what, const char *bytes, size_t count,
                            char *owned)
{
    vv_safetensors *file;
    *out = NULL;
    vv_status status = vv_alloc(&file, sizeof *file);
    if (status != VV_OK) {
        vv_dealloc(owned);
        return status;
    }
    file->bytes = owned;
    file->what = what;
    status = parse(file, bytes, count);
    file->what = NULL;
    if (status != VV_OK) {
        vv_safetensors_close(file);
        return status;
    }
    *out = file;
    return VV_OK;
}

/* What a file packed with zstd holds, in the place of `bytes`. */
static vv_status unpack(char **bytes, size_t *count, const char *what)
{
    char *packed = *bytes;
    *bytes = NULL;
    vv_status status = vvi_zstd_unpack(bytes, count, packed, *count, SIZE_MAX, what);
    vv_dealloc(packed);
    return status;
}

vv_status vv_safetensors_open(vv_safetensors **out, const char *path)
{
    char *bytes, what[512];
    size_t count;
    *out = NULL;
    VV_TRY(vvi_file_read_all(&bytes, &count, path));
    snprintf(what, sizeof what, "'%s'", path);
    if (vvi_zstd_bytes(bytes, count))
        VV_TRY(unpack(&bytes, &count, what));
    return open_bytes(out, what, bytes, count, bytes);
}

/* The head of a file: as much as may hold the header, unpacked; at most `limit` bytes of it. */
static vv_status read_head(char **out, size_t *count, const char *path, size_t limit)
{
    /* zstd gives a block (128 KiB at most) only once it has all of it, and data that does not
       shrink grows a little. */
    VV_TRY(vvi_file_read_head(out, count, path, limit + limit / 128 + 262144));
    if (!vvi_zstd_bytes(*out, *count)) {
        *count = *count < limit ? *count : limit;
        return VV_OK;
    }
    char *packed = *out;
    vv_status status = vvi_zstd_unpack(out, count, packed, *count, limit, path);
    vv_dealloc(packed);
    return status;
}

vv_status vvi_safetensors_texts(vv_safetensors **out, const char *path)
{
    enum { FIRST = 65536 };
    char *head = NULL, what[512];
    size_t count;
    uint64_t length = 0;
    vv_safetensors *file = NULL;
    json_t *root = NULL;
    vv_status status;
    *out = NULL;
    snprintf(what, sizeof what, "'%s'", path);
    VV_GO(vv_alloc(&file, sizeof *file));
    file->what = what;
    for (size_t limit = FIRST;; limit = (size_t)length + VVI_SAFETENSORS_LENGTH_BYTES) {
        VV_GO(read_head(&head, &count, path, limit));
        if (count >= VVI_SAFETENSORS_LENGTH_BYTES)
            memcpy(&length, head, sizeof length);
        if (count < VVI_SAFETENSORS_LENGTH_BYTES || length > VVI_SAFETENSORS_HEADER_MAX ||
            (limit > FIRST && length > count - VVI_SAFETENSORS_LENGTH_BYTES))
            VV_GO(REFUSE(file, "its header is cut short"));
        if (length <= count - VVI_SAFETENSORS_LENGTH_BYTES)
            break;
        vv_dealloc(head);
        head = NULL;
    }
    VV_GO(parse_json(file, &root, head + VVI_SAFETENSORS_LENGTH_BYTES, (size_t)length));
    if (json_object_get(root, VVI_METADATA_KEY))
        VV_GO(read_texts(file, json_object_get(root, VVI_METADATA_KEY)));
    file->what = NULL;
    *out = file;
    file = NULL;
out:
    json_decref(root);
    vv_dealloc(head);
    vv_safetensors_close(file);
    return status;
}

vv_status vv_safetensors_open_memory(vv_safetensors **out, const void *data, size_t bytes)
{
    return open_bytes(out, "the memory given", data, bytes, NULL);
}

void vv_safetensors_close(vv_safetensors *file)
{
    if (!file)
        return;
    for (int i = 0; i < file->count; i++) {
        vv_dealloc(file->entries[i].name);
        vv_tensor_free(file->entries[i].tensor);
    }
    for (int i = 0; i < file->text_count; i++) {
        vv_dealloc(file->texts[i].key);
        vv_dealloc(file->texts[i].value);
    }
    vv_dealloc(file->entries);
    vv_dealloc(file->sorted);
    vv_dealloc(file->texts);
    vv_dealloc(file->data_crc);
    vv_dealloc(file->header_crc);
    vv_dealloc(file->bytes);
    vv_dealloc(file);
}

int vv_safetensors_count(const vv_safetensors *file)
{
    return file->count;
}

const char *vv_safetensors_name(const vv_safetensors *file, int i)
{
    return i >= 0 && i < file->count ? file->entries[i].name : NULL;
}

const vv_tensor *vv_safetensors_tensor(const vv_safetensors *file, int i)
{
    return i >= 0 && i < file->count ? file->entries[i].tensor : NULL;
}

const vv_tensor *vv_safetensors_find(const vv_safetensors *file, const char *name)
{
    int lo = 0, hi = file->count;
    while (lo < hi) {
        int middle = lo + (hi - lo) / 2;
        int order = strcmp(file->sorted[middle]->name, name);
        if (order == 0)
            return file->sorted[middle]->tensor;
        if (order < 0)
            lo = middle + 1;
        else
            hi = middle;
    }
    return NULL;
}

const char *vv_safetensors_text(const vv_safetensors *file, const char *key)
{
    for (int i = 0; i < file->text_count; i++)
        if (strcmp(file->texts[i].key, key) == 0)
            return file->texts[i].value;
    return NULL;
}

int vv_safetensors_text_count(const vv_safetensors *file)
{
    return file->text_count;
}

const char *vv_safetensors_text_key(const vv_safetensors *file, int i)
{
    return i >= 0 && i < file->text_count ? file->texts[i].key : NULL;
}
