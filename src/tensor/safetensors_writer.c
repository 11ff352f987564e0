/* safetensors_writer.c - collects tensors and texts and writes them as one safetensors file. */
#include <vivace/safetensors.h>

#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>
#include <vivace/str.h>

#include "base/file.h"
#include "base/utf8.h"
#include "tensor/safetensors_format.h"
#include "tensor/safetensors_zstd.h"

typedef struct entry {
    char *name;
    vv_tensor *tensor;
    uint64_t begin; /* within the data; set when written */
} entry;

typedef struct text {
    char *key, *value;
} text;

struct vv_safetensors_writer {
    entry *entries;
    text *texts;
    size_t entry_count, entry_room;
    size_t text_count, text_room;
};

vv_status vv_safetensors_writer_new(vv_safetensors_writer **out)
{
    return vv_alloc(out, sizeof **out);
}

void vv_safetensors_writer_free(vv_safetensors_writer *writer)
{
    if (!writer)
        return;
    for (size_t i = 0; i < writer->entry_count; i++) {
        vv_dealloc(writer->entries[i].name);
        vv_tensor_free(writer->entries[i].tensor);
    }
    for (size_t i = 0; i < writer->text_count; i++) {
        vv_dealloc(writer->texts[i].key);
        vv_dealloc(writer->texts[i].value);
    }
    vv_dealloc(writer->entries);
    vv_dealloc(writer->texts);
    vv_dealloc(writer);
}

static vv_status grow(void *items, size_t count, size_t *room, size_t item_bytes)
{
    if (count < *room)
        return VV_OK;
    size_t wanted = *room ? 2 * *room : 16;
    VV_TRY(vv_realloc_array(items, wanted, item_bytes));
    *room = wanted;
    return VV_OK;
}

vv_status vv_safetensors_add(vv_safetensors_writer *writer, const char *name, vv_tensor *tensor)
{
    if (!name[0] || strcmp(name, VVI_METADATA_KEY) == 0 || !vvi_utf8_valid(name))
        return vv_fail(VV_EINVAL,
                       "safetensors: '%s' cannot name a tensor; choose a UTF-8 text other than "
                       "" VVI_METADATA_KEY,
                       name);
    for (size_t i = 0; i < writer->entry_count; i++)
        if (strcmp(writer->entries[i].name, name) == 0)
            return vv_fail(VV_EEXIST, "safetensors: there is a tensor '%s' already", name);
    VV_TRY(grow(&writer->entries, writer->entry_count, &writer->entry_room, sizeof(entry)));
    entry *made = &writer->entries[writer->entry_count];
    VV_TRY(vv_strdup(&made->name, name));
    made->tensor = vv_tensor_keep(tensor);
    made->begin = 0;
    writer->entry_count++;
    return VV_OK;
}

vv_status vv_safetensors_add_text(vv_safetensors_writer *writer, const char *key, const char *value)
{
    if (!vvi_utf8_valid(key) || !vvi_utf8_valid(value))
        return vv_fail(VV_EINVAL, "safetensors: the text '%s' is not UTF-8", key);
    if (strcmp(key, VVI_DATA_CRC_KEY) == 0 || strcmp(key, VVI_HEADER_CRC_KEY) == 0)
        return vv_fail(VV_EINVAL, "safetensors: the text '%s' is set by the writer itself", key);
    for (size_t i = 0; i < writer->text_count; i++)
        if (strcmp(writer->texts[i].key, key) == 0)
            return vv_fail(VV_EEXIST, "safetensors: there is a text '%s' already", key);
    VV_TRY(grow(&writer->texts, writer->text_count, &writer->text_room, sizeof(text)));
    text made = {NULL, NULL};
    VV_TRY(vv_strdup(&made.key, key));
    vv_status status = vv_strdup(&made.value, value);
    if (status != VV_OK) {
        vv_dealloc(made.key);
        return status;
    }
    writer->texts[writer->text_count++] = made;
    return VV_OK;
}

/* Wide elements first: ranges are packed without gaps, and so every tensor is aligned to its
   element. This is the order of the format's own library, so that a file which it has read and
   written again, texts and all, still has the checksums it was written with. */
static int compare_entries(const void *a, const void *b)
{
    static const int rank[VV_DTYPE_COUNT] = {
        [VV_I64] = 6, [VV_F64] = 5, [VV_F32] = 4, [VV_I32] = 3, [VV_BF16] = 2, [VV_U8] = 1,
    };
    const entry *x = a, *y = b;
    int x_rank = rank[x->tensor->dtype], y_rank = rank[y->tensor->dtype];
    return x_rank != y_rank ? y_rank - x_rank : strcmp(x->name, y->name);
}

static void sum_up(vv_safetensors_writer *writer, uint32_t *data_crc, uint32_t *header_crc)
{
    vvi_crc32 crc;
    vvi_crc32_init(&crc);
    uint64_t at = 0;
    *header_crc = 0;
    for (size_t i = 0; i < writer->entry_count; i++) {
        entry *e = &writer->entries[i];
        e->begin = at;
        at += e->tensor->bytes;
        *header_crc += vvi_safetensors_tensor_crc(&crc, e->name, e->tensor, e->begin);
    }
    for (size_t i = 0; i < writer->text_count; i++)
        *header_crc += vvi_safetensors_text_crc(&crc, writer->texts[i].key, writer->texts[i].value);
    vvi_crc32_reset(&crc);
    for (size_t i = 0; i < writer->entry_count; i++)
        vvi_crc32_add(&crc, writer->entries[i].tensor->data, writer->entries[i].tensor->bytes);
    *data_crc = vvi_crc32_value(&crc);
}

static void add_tensor_header(const entry *e, vv_str *out)
{
    vv_str_add(out, ",");
    vv_str_add_json(out, e->name);
    vv_str_addf(out, ":{\"dtype\":\"%s\",\"shape\":[",
                vvi_safetensors_dtype_name(e->tensor->dtype));
    for (int i = 0; i < e->tensor->ndim; i++)
        vv_str_addf(out, "%s%lld", i ? "," : "", (long long)e->tensor->shape[i]);
    vv_str_addf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)e->begin,
                (unsigned long long)(e->begin + e->tensor->bytes));
}

static vv_status make_header(vv_safetensors_writer *writer, vv_str *out)
{
    uint32_t data_crc, header_crc;
    sum_up(writer, &data_crc, &header_crc);
    vv_str_add(out, "{\"" VVI_METADATA_KEY "\":{");
    for (size_t i = 0; i < writer->text_count; i++) {
        vv_str_add_json(out, writer->texts[i].key);
        vv_str_add(out, ":");
        vv_str_add_json(out, writer->texts[i].value);
        vv_str_add(out, ",");
    }
    vv_str_addf(out, "\"" VVI_DATA_CRC_KEY "\":\"%08x\",", (unsigned)data_crc);
    vv_str_addf(out, "\"" VVI_HEADER_CRC_KEY "\":\"%08x\"}", (unsigned)header_crc);
    for (size_t i = 0; i < writer->entry_count; i++)
        add_tensor_header(&writer->entries[i], out);
    vv_str_add(out, "}");
    while (out->status == VV_OK && out->length % 8)
        vv_str_add(out, " ");
    VV_TRY(vv_str_status(out));
    if (out->length > VVI_SAFETENSORS_HEADER_MAX)
        return vv_fail(VV_EINVAL,
                       "safetensors: a header of %zu bytes is too long; %llu are allowed",
                       out->length, (unsigned long long)VVI_SAFETENSORS_HEADER_MAX);
    return VV_OK;
}

typedef struct content {
    const vv_safetensors_writer *writer;
    const vv_str *header;
    bool packed;
} content;

/* Plain bytes, or through zstd. */
static vv_status put(vvi_file *file, vvi_zstd_writer *zstd, const void *data, size_t bytes)
{
    return zstd ? vvi_zstd_put(zstd, data, bytes) : vvi_file_put(file, data, bytes);
}

static vv_status put_content(vvi_file *file, const void *ctx)
{
    const content *c = ctx;
    uint64_t length = c->header->length, total = sizeof length + length;
    vvi_zstd_writer *zstd = NULL;
    vv_status status;
    for (size_t i = 0; i < c->writer->entry_count; i++)
        total += c->writer->entries[i].tensor->bytes;
    if (c->packed)
        VV_TRY(vvi_zstd_writer_new(&zstd, file, total));
    VV_GO(put(file, zstd, &length, sizeof length));
    VV_GO(put(file, zstd, c->header->text, c->header->length));
    for (size_t i = 0; i < c->writer->entry_count; i++) {
        const vv_tensor *tensor = c->writer->entries[i].tensor;
        VV_GO(put(file, zstd, tensor->data, tensor->bytes));
    }
    if (zstd)
        VV_GO(vvi_zstd_end(zstd));
out:
    vvi_zstd_writer_free(zstd);
    return status;
}

vv_status vv_safetensors_write(vv_safetensors_writer *writer, const char *path)
{
    vv_status status = VV_OK;
    vv_str header = {0};
    if (writer->entry_count)
        qsort(writer->entries, writer->entry_count, sizeof(entry), compare_entries);
    VV_GO(make_header(writer, &header));
    const content c = {writer, &header, vvi_zstd_path(path)};
    VV_GO(vvi_file_write_atomic_with(path, put_content, &c));
out:
    vv_str_fini(&header);
    return status;
}
