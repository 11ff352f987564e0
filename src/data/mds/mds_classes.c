/* mds_classes.c - class names beside a set of MDS shards, and columns that hold a class. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

#include "data/mds/mds_set.h"

#define MAX_BYTES ((size_t)1 << 28)

void vvi_mds_classes_fini(vv_mds *mds)
{
    for (int64_t c = 0; mds->classes && c < mds->class_count; c++)
        vv_dealloc(mds->classes[c]);
    vv_dealloc(mds->classes);
    vv_dealloc(mds->by_name);
    mds->classes = NULL;
    mds->by_name = NULL;
    mds->class_count = 0;
}

static int compare(const void *a, const void *b, void *ctx)
{
    const vv_mds *mds = ctx;
    return strcmp(mds->classes[*(const int64_t *)a], mds->classes[*(const int64_t *)b]);
}

static vv_status keep_names(vv_mds *mds, const char *path, const json_t *root)
{
    const size_t count = json_array_size(root);
    if (!json_is_array(root) || count < 1 || count > INT32_MAX)
        return vv_fail(VV_EFORMAT, "%s: expected a list of class names", path);
    VV_TRY(vv_alloc_array(&mds->classes, count, sizeof *mds->classes));
    VV_TRY(vv_alloc_array(&mds->by_name, count, sizeof *mds->by_name));
    mds->class_count = (int64_t)count;
    for (size_t c = 0; c < count; c++) {
        const char *name = json_string_value(json_array_get(root, c));
        if (!name)
            return vv_fail(VV_EFORMAT, "%s: class %zu: expected a text", path, c);
        VV_TRY(vv_strdup(&mds->classes[c], name));
        mds->by_name[c] = (int64_t)c;
    }
    qsort_r(mds->by_name, count, sizeof *mds->by_name, compare, mds);
    return VV_OK;
}

static vv_status read_names(vv_mds *mds)
{
    vv_status status;
    char *path = NULL;
    void *data = NULL;
    size_t bytes;
    json_t *root = NULL;
    json_error_t error;
    if (mds->remote)
        VV_GO(vvi_mds_remote_file(mds, "classes.json"));
    VV_GO(vv_data_file_find(&path, mds->dir, "classes.json"));
    VV_GO(vv_data_file_read(&data, &bytes, path, MAX_BYTES));
    root = json_loadb(data, bytes, 0, &error);
    status = root ? keep_names(mds, path, root)
                  : vv_fail(VV_EFORMAT, "%s:%d: no JSON: %s", path, error.line, error.text);
out:
    json_decref(root);
    vv_dealloc(data);
    vv_dealloc(path);
    return status;
}

vv_status vv_mds_class_names(const char *const **out, int64_t *count, vv_mds *mds)
{
    *out = NULL;
    *count = 0;
    if (!mds->classes_read) {
        const vv_status status = read_names(mds);
        if (status != VV_OK && status != VV_ENOTFOUND) {
            vvi_mds_classes_fini(mds);
            return status;
        }
        mds->classes_read = true;
    }
    *out = (const char *const *)mds->classes;
    *count = mds->class_count;
    return VV_OK;
}

/* ---- columns ---- */

static vv_status class_called(int32_t *out, const vv_mds *mds, const char *name, size_t length)
{
    int64_t low = 0, high = mds->class_count; /* the first that is not before it */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const char *there = mds->classes[mds->by_name[middle]];
        const int order = strncmp(there, name, length);
        if (order < 0 || (order == 0 && strlen(there) < length))
            low = middle + 1;
        else
            high = middle;
    }
    if (low < mds->class_count) {
        const char *there = mds->classes[mds->by_name[low]];
        if (strlen(there) == length && memcmp(there, name, length) == 0) {
            *out = (int32_t)mds->by_name[low];
            return VV_OK;
        }
    }
    if (mds->class_count == 0)
        return vv_fail(VV_EFORMAT, "its class is a name, and there is no classes.json beside the "
                                   "index with the names in order");
    return vv_fail(VV_EFORMAT, "class \"%.*s\" is not in classes.json",
                   (int)(length < 60 ? length : 60), name);
}

static vv_status json_label(int32_t *out, const vv_mds *mds, const void *data, size_t bytes)
{
    json_error_t error;
    json_t *value = json_loadb(data, bytes, JSON_DECODE_ANY, &error);
    if (!value)
        return vv_fail(VV_EFORMAT, "no JSON: %s", error.text);
    vv_status status = VV_OK;
    if (json_is_string(value))
        status = class_called(out, mds, json_string_value(value), json_string_length(value));
    else if (json_is_integer(value) && json_integer_value(value) >= INT32_MIN &&
             json_integer_value(value) <= INT32_MAX)
        *out = (int32_t)json_integer_value(value);
    else
        status = vv_fail(VV_EFORMAT, "expected a class as JSON, a whole number or a text");
    json_decref(value);
    return status;
}

vv_status vv_mds_label(int32_t *out, const vv_mds *mds, const char *encoding, const void *data,
                       size_t bytes, const char *bytes_dtype)
{
    vv_mds_values values;
    *out = 0;
    if (strcmp(encoding, "str") == 0)
        return class_called(out, mds, data, bytes);
    if (strcmp(encoding, "json") == 0)
        return json_label(out, mds, data, bytes);
    VV_TRY(vv_mds_values_of(&values, encoding, data, bytes, bytes_dtype));
    if (values.count != 1)
        return vv_fail(VV_EFORMAT, "expected one class, found %lld numbers",
                       (long long)values.count);
    return vv_mds_values_i32(&values, 0, 1, INT32_MIN, INT32_MAX, out);
}
