/* record.c - named values that methods and callbacks save, and their form in a checkpoint file.
 *
 * In the file a tensor has its key as name, the others are small tensors whose name tells the kind:
 * "key#int" i64 [], "key#double" f64 [], "key#text" u8 [bytes]. So they are bit-exact and under the
 * file's checksum. */
#include "train/record.h"

#include <string.h>

#include <vivace/memory.h>

typedef enum kind { KIND_INT, KIND_DOUBLE, KIND_TEXT, KIND_TENSOR, KIND_COUNT } kind;
static const char *const kind_names[KIND_COUNT] = {"an integer", "a double", "a text", "a tensor"};
static const char *const suffixes[KIND_COUNT] = {"#int", "#double", "#text", ""};

typedef struct item {
    char *key;
    kind kind;
    int64_t integer;
    double number;
    char *text;
    vv_tensor *tensor;
} item;

struct vv_record {
    item *items;
    size_t count, capacity;
};

static void item_fini(item *it)
{
    vv_dealloc(it->key);
    vv_dealloc(it->text);
    vv_tensor_free(it->tensor);
}

vv_status vv_record_new(vv_record **out)
{
    return vv_alloc(out, sizeof **out);
}

void vv_record_free(vv_record *record)
{
    if (!record)
        return;
    for (size_t i = 0; i < record->count; i++)
        item_fini(&record->items[i]);
    vv_dealloc(record->items);
    vv_dealloc(record);
}

static item *find(const vv_record *record, const char *key, size_t length)
{
    for (size_t i = 0; i < record->count; i++)
        if (strncmp(record->items[i].key, key, length) == 0 && !record->items[i].key[length])
            return &record->items[i];
    return NULL;
}

/* ---- set ---- */

/* Takes what value holds; its key is a copy of the first `length` bytes of `key`. A key set again
   keeps its place. */
static vv_status put(vv_record *record, const char *key, size_t length, item value)
{
    vv_status status = VV_OK;
    item *old = NULL;
    if (length == 0 || memchr(key, '#', length))
        VV_GO(vv_fail(VV_EINVAL, "record: \"%.*s\" is no key; give a text without '#'", (int)length,
                      key));
    old = find(record, key, length);
    if (!old && record->count == record->capacity) {
        size_t capacity = record->capacity ? 2 * record->capacity : 8;
        VV_GO(vv_realloc_array(&record->items, capacity, sizeof *record->items));
        record->capacity = capacity;
    }
    VV_GO(vv_alloc(&value.key, length + 1));
    memcpy(value.key, key, length);
    if (old)
        item_fini(old);
    else
        old = &record->items[record->count++];
    *old = value;
    return VV_OK;
out:
    item_fini(&value);
    return status;
}

vv_status vv_record_set_int(vv_record *record, const char *key, int64_t value)
{
    return put(record, key, strlen(key), (item){.kind = KIND_INT, .integer = value});
}

vv_status vv_record_set_double(vv_record *record, const char *key, double value)
{
    return put(record, key, strlen(key), (item){.kind = KIND_DOUBLE, .number = value});
}

vv_status vv_record_set_text(vv_record *record, const char *key, const char *text)
{
    item value = {.kind = KIND_TEXT};
    VV_TRY(vv_strdup(&value.text, text));
    return put(record, key, strlen(key), value);
}

vv_status vv_record_set_tensor(vv_record *record, const char *key, vv_tensor *tensor)
{
    if (!tensor)
        return vv_fail(VV_EINVAL, "record: no tensor given for \"%s\"", key);
    return put(record, key, strlen(key),
               (item){.kind = KIND_TENSOR, .tensor = vv_tensor_keep(tensor)});
}

/* ---- get ---- */
static vv_status get(const vv_record *record, const char *key, kind wanted, const item **out)
{
    *out = find(record, key, strlen(key));
    if (!*out)
        return vv_fail(VV_ENOTFOUND, "the saved state has no \"%s\"", key);
    if ((*out)->kind != wanted)
        return vv_fail(VV_ETYPE, "\"%s\" in the saved state is %s, not %s", key,
                       kind_names[(*out)->kind], kind_names[wanted]);
    return VV_OK;
}

vv_status vv_record_get_int(const vv_record *record, const char *key, int64_t *out)
{
    const item *it;
    VV_TRY(get(record, key, KIND_INT, &it));
    *out = it->integer;
    return VV_OK;
}

vv_status vv_record_get_double(const vv_record *record, const char *key, double *out)
{
    const item *it;
    VV_TRY(get(record, key, KIND_DOUBLE, &it));
    *out = it->number;
    return VV_OK;
}

vv_status vv_record_get_text(const vv_record *record, const char *key, const char **out)
{
    const item *it;
    *out = NULL;
    VV_TRY(get(record, key, KIND_TEXT, &it));
    *out = it->text;
    return VV_OK;
}

vv_status vv_record_get_tensor(const vv_record *record, const char *key, const vv_tensor **out)
{
    const item *it;
    *out = NULL;
    VV_TRY(get(record, key, KIND_TENSOR, &it));
    *out = it->tensor;
    return VV_OK;
}

/* ---- in a file ---- */

/* *out = the item as a tensor, kept or new. */
static vv_status to_tensor(const item *it, vv_tensor **out)
{
    int64_t bytes;
    *out = NULL;
    switch (it->kind) {
    case KIND_INT:
        return vv_tensor_from(out, VV_I64, 0, NULL, &it->integer);
    case KIND_DOUBLE:
        return vv_tensor_from(out, VV_F64, 0, NULL, &it->number);
    case KIND_TEXT:
        bytes = (int64_t)strlen(it->text);
        return vv_tensor_from(out, VV_U8, 1, &bytes, it->text);
    default:
        *out = vv_tensor_keep(it->tensor);
        return VV_OK;
    }
}

vv_status vvi_record_write(const vv_record *record, vv_safetensors_writer *writer,
                           const char *prefix)
{
    vv_str name = {0};
    vv_tensor *tensor = NULL;
    vv_status status = VV_OK;
    for (size_t i = 0; i < record->count; i++) {
        const item *it = &record->items[i];
        vv_str_clear(&name);
        vv_str_addf(&name, "%s%s%s", prefix, it->key, suffixes[it->kind]);
        VV_GO(vv_str_status(&name));
        VV_GO(to_tensor(it, &tensor));
        VV_GO(vv_safetensors_add(writer, vv_str_text(&name), tensor));
        vv_tensor_free(tensor);
        tensor = NULL;
    }
out:
    vv_tensor_free(tensor);
    vv_str_fini(&name);
    return status;
}

static vv_status read_item(vv_record *record, const char *name, const vv_tensor *tensor)
{
    const char *mark = strchr(name, '#');
    size_t length = mark ? (size_t)(mark - name) : strlen(name);
    kind k = KIND_INT;
    while (k < KIND_TENSOR && strcmp(name + length, suffixes[k]) != 0)
        k++;
    item value = {.kind = k};
    if (k == KIND_INT && tensor->dtype == VV_I64 && tensor->count == 1) {
        memcpy(&value.integer, tensor->data, sizeof value.integer);
    } else if (k == KIND_DOUBLE && tensor->dtype == VV_F64 && tensor->count == 1) {
        memcpy(&value.number, tensor->data, sizeof value.number);
    } else if (k == KIND_TEXT && tensor->dtype == VV_U8) {
        VV_TRY(vv_alloc(&value.text, (size_t)tensor->count + 1));
        if (tensor->count > 0)
            memcpy(value.text, tensor->data, (size_t)tensor->count);
    } else if (k == KIND_TENSOR && !mark) {
        VV_TRY(vv_tensor_clone(&value.tensor, tensor));
    } else {
        return vv_fail(VV_EFORMAT, "\"%s\" in the saved state is not of the kind its name says",
                       name);
    }
    return put(record, name, length, value);
}

vv_status vvi_record_read(vv_record **out, const vv_safetensors *file, const char *prefix)
{
    vv_record *record = NULL;
    vv_status status = VV_OK;
    size_t length = strlen(prefix);
    *out = NULL;
    VV_GO(vv_record_new(&record));
    for (int i = 0; i < vv_safetensors_count(file); i++) {
        const char *name = vv_safetensors_name(file, i);
        if (strncmp(name, prefix, length) == 0)
            VV_GO(read_item(record, name + length, vv_safetensors_tensor(file, i)));
    }
    *out = record;
    record = NULL;
out:
    vv_record_free(record);
    return status;
}
