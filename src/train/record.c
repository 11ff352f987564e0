/* record.c - an ordered list of named values: what methods and callbacks save. */
#include "train/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

typedef enum entry_kind { INT, DOUBLE, TEXT, TENSOR } entry_kind;

typedef struct entry {
    char *key;
    entry_kind kind;
    int64_t integer;
    double real;
    char *text;
    vv_tensor *tensor;
} entry;

struct vv_record {
    entry *entries;
    int count;
};

static const char *const kind_names[] = {"integer", "number", "text", "tensor"};

vv_status vv_record_new(vv_record **out)
{
    return vv_alloc(out, sizeof **out);
}

static void entry_fini(entry *e)
{
    vv_dealloc(e->key);
    vv_dealloc(e->text);
    vv_tensor_free(e->tensor);
}

void vv_record_free(vv_record *record)
{
    if (!record)
        return;
    for (int i = 0; i < record->count; i++)
        entry_fini(&record->entries[i]);
    vv_dealloc(record->entries);
    vv_dealloc(record);
}

vv_status vvi_record_detach(vv_record *record)
{
    for (int i = 0; i < record->count; i++) {
        entry *e = &record->entries[i];
        vv_tensor *copy;
        if (e->kind != TENSOR)
            continue;
        VV_TRY(vv_tensor_clone(&copy, e->tensor));
        vv_tensor_free(e->tensor);
        e->tensor = copy;
    }
    return VV_OK;
}

static entry *find(const vv_record *record, const char *key)
{
    for (int i = 0; i < record->count; i++)
        if (strcmp(record->entries[i].key, key) == 0)
            return &record->entries[i];
    return NULL;
}

/* Takes what `value` owns (text, tensor), even on failure; its key is copied. Setting a key again
   replaces it. */
static vv_status put(vv_record *record, const char *key, entry value)
{
    vv_status status = vv_strdup(&value.key, key);
    entry *old = status == VV_OK ? find(record, key) : NULL;
    if (status == VV_OK && !old)
        status = vv_realloc_array(&record->entries, (size_t)record->count + 1, sizeof(entry));
    if (status != VV_OK) {
        entry_fini(&value);
        return status;
    }
    if (old) {
        entry_fini(old);
        *old = value;
    } else {
        record->entries[record->count++] = value;
    }
    return VV_OK;
}

vv_status vv_record_set_int(vv_record *record, const char *key, int64_t value)
{
    return put(record, key, (entry){.kind = INT, .integer = value});
}

vv_status vv_record_set_double(vv_record *record, const char *key, double value)
{
    return put(record, key, (entry){.kind = DOUBLE, .real = value});
}

vv_status vv_record_set_text(vv_record *record, const char *key, const char *text)
{
    entry value = {.kind = TEXT};
    VV_TRY(vv_strdup(&value.text, text));
    return put(record, key, value);
}

vv_status vv_record_set_tensor(vv_record *record, const char *key, vv_tensor *tensor)
{
    return put(record, key, (entry){.kind = TENSOR, .tensor = vv_tensor_keep(tensor)});
}

static vv_status get(const vv_record *record, const char *key, entry_kind kind, const entry **out)
{
    const entry *e = find(record, key);
    *out = NULL;
    if (!e)
        return vv_fail(VV_ENOTFOUND, "saved state has no '%s'", key);
    if (e->kind != kind)
        return vv_fail(VV_ETYPE, "saved state '%s' is a %s, not a %s", key, kind_names[e->kind],
                       kind_names[kind]);
    *out = e;
    return VV_OK;
}

vv_status vv_record_get_int(const vv_record *record, const char *key, int64_t *out)
{
    const entry *e;
    *out = 0;
    VV_TRY(get(record, key, INT, &e));
    *out = e->integer;
    return VV_OK;
}

vv_status vv_record_get_double(const vv_record *record, const char *key, double *out)
{
    const entry *e;
    *out = 0.0;
    VV_TRY(get(record, key, DOUBLE, &e));
    *out = e->real;
    return VV_OK;
}

vv_status vv_record_get_text(const vv_record *record, const char *key, const char **out)
{
    const entry *e;
    *out = NULL;
    VV_TRY(get(record, key, TEXT, &e));
    *out = e->text;
    return VV_OK;
}

vv_status vv_record_get_tensor(const vv_record *record, const char *key, const vv_tensor **out)
{
    const entry *e;
    *out = NULL;
    VV_TRY(get(record, key, TENSOR, &e));
    *out = e->tensor;
    return VV_OK;
}

/* ---- in a checkpoint: scalars are metadata texts "i:<decimal>", "d:<bits in hex>", "t:<text>"
   ---- */

static vv_status write_entry(const entry *e, vv_safetensors_writer *writer, const char *name)
{
    char number[32];
    uint64_t bits;
    switch (e->kind) {
    case INT:
        snprintf(number, sizeof number, "i:%" PRId64, e->integer);
        return vv_safetensors_add_text(writer, name, number);
    case DOUBLE:
        memcpy(&bits, &e->real, sizeof bits);
        snprintf(number, sizeof number, "d:%016" PRIx64, bits);
        return vv_safetensors_add_text(writer, name, number);
    case TEXT: {
        vv_str text = {0};
        vv_str_addf(&text, "t:%s", e->text);
        vv_status status = vv_str_status(&text);
        if (status == VV_OK)
            status = vv_safetensors_add_text(writer, name, vv_str_text(&text));
        vv_str_fini(&text);
        return status;
    }
    case TENSOR: return vv_safetensors_add(writer, name, e->tensor);
    }
    return VV_OK;
}

vv_status vvi_record_write(const vv_record *record, vv_safetensors_writer *writer,
                           const char *prefix)
{
    vv_status status = VV_OK;
    vv_str name = {0};
    for (int i = 0; i < record->count && status == VV_OK; i++) {
        vv_str_clear(&name);
        vv_str_addf(&name, "%s%s", prefix, record->entries[i].key);
        status = vv_str_status(&name);
        if (status == VV_OK)
            status = write_entry(&record->entries[i], writer, vv_str_text(&name));
    }
    vv_str_fini(&name);
    return status;
}

static vv_status read_text(vv_record *record, const char *key, const char *text)
{
    char *end = NULL;
    if (strncmp(text, "t:", 2) == 0)
        return vv_record_set_text(record, key, text + 2);
    if (strncmp(text, "i:", 2) == 0) {
        int64_t value = strtoll(text + 2, &end, 10);
        if (end != text + 2 && *end == 0)
            return vv_record_set_int(record, key, value);
    }
    if (strncmp(text, "d:", 2) == 0) {
        uint64_t bits = strtoull(text + 2, &end, 16);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (end != text + 2 && *end == 0)
            return vv_record_set_double(record, key, value);
    }
    return vv_fail(VV_EFORMAT, "saved state '%s': '%.40s' is no value this version writes", key,
                   text);
}

vv_status vvi_record_read(vv_record **out, const vv_safetensors *file, const char *prefix)
{
    *out = NULL;
    size_t length = strlen(prefix);
    vv_record *record = NULL;
    vv_tensor *copy = NULL;
    vv_status status;
    VV_GO(vv_record_new(&record));
    for (int i = 0; i < vv_safetensors_text_count(file); i++) {
        const char *key = vv_safetensors_text_key(file, i);
        if (strncmp(key, prefix, length) == 0)
            VV_GO(read_text(record, key + length, vv_safetensors_text(file, key)));
    }
    for (int i = 0; i < vv_safetensors_count(file); i++) {
        const char *name = vv_safetensors_name(file, i);
        if (strncmp(name, prefix, length) != 0)
            continue;
        VV_GO(vv_tensor_clone(&copy, vv_safetensors_tensor(file, i)));
        status = vv_record_set_tensor(record, name + length, copy);
        vv_tensor_free(copy);
        copy = NULL;
        if (status != VV_OK)
            goto out;
    }
    *out = record;
    record = NULL;
out:
    vv_record_free(record);
    return status;
}
