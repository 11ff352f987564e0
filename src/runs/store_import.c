/* store_import.c - runs from our JSON and from DAWNBench entries; what a file is. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vivace/memory.h>

#include "base/file.h"
#include "base/number.h"
#include "runs/store.h"

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static vv_status json_load(json_t **out, const char *path, const char *text, size_t length)
{
    json_error_t error;
    *out = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    return *out ? VV_OK
                : vv_fail(VV_EFORMAT, "%s: line %d: no JSON: %s", path, error.line, error.text);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double real_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static int64_t int_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

/* ---- our own JSON ---- */

static vv_status read_row(vv_run_row *row, const json_t *run, const char *path, size_t index)
{
    if (!json_is_object(run) || !text_of(run, "id")[0])
        return vv_fail(VV_EFORMAT, "%s: runs[%zu] has no id", path, index);
    vv_run_row_init(row);
    for (int i = 0; i < vvi_run_column_count; i++) {
        const vvi_column *c = &vvi_run_columns[i];
        const json_t *value = json_object_get(run, c->name);
        char *at = (char *)row + c->offset;
        if (!value || json_is_null(value))
            continue;
        const bool fits = c->kind == 't'   ? json_is_string(value)
                          : c->kind == 'i' ? json_is_integer(value)
                          : c->kind == 'r' ? json_is_number(value)
                                           : json_is_boolean(value);
        if (!fits)
            return vv_fail(VV_EFORMAT, "%s: runs[%zu].%s is not of its kind", path, index, c->name);
        if (c->kind == 't')
            *(const char **)(void *)at = json_string_value(value);
        else if (c->kind == 'i')
            *(int64_t *)(void *)at = json_integer_value(value);
        else if (c->kind == 'r')
            *(double *)(void *)at = json_number_value(value);
        else
            *(bool *)(void *)at = json_is_true(value);
    }
    return VV_OK;
}

/* As it was: jansson itself would write 0.2 with seventeen digits. */
static void add_json(vv_str *out, json_t *value)
{
    char text[40];
    const char *key;
    json_t *inner;
    int count = 0;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        vv_str_add(out, "{");
        json_object_foreach(value, key, inner)
        {
            vv_str_add(out, count++ ? "," : "");
            vv_str_add_json(out, key);
            vv_str_add(out, ":");
            add_json(out, inner);
        }
        vv_str_add(out, "}");
        break;
    case JSON_ARRAY:
        vv_str_add(out, "[");
        for (size_t i = 0; i < json_array_size(value); i++) {
            vv_str_add(out, i ? "," : "");
            add_json(out, json_array_get(value, i));
        }
        vv_str_add(out, "]");
        break;
    case JSON_STRING:
        vv_str_add_json(out, json_string_value(value));
        break;
    case JSON_INTEGER:
    case JSON_REAL:
        vv_str_add(out, vvi_number_text(json_number_value(value), text, sizeof text));
        break;
    default:
        vv_str_add(out, json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false");
    }
}

static vv_status put_methods(vv_run_store *store, const char *id, const json_t *methods)
{
    const size_t count = json_array_size(methods);
    VV_TRY(vv_run_store_set_methods(store, id, NULL, 0));
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(methods, i);
        vv_str settings = {0};
        json_t *object = json_object_get(item, "settings");
        if (json_is_object(object))
            add_json(&settings, object);
        vv_status status = vv_str_status(&settings);
        if (status == VV_OK)
            status = vvi_sql_exec(store, NULL, "INSERT INTO methods VALUES(?,?,?,?)", "titt", id,
                                  (int64_t)i, text_of(item, "name"),
                                  settings.length ? vv_str_text(&settings) : "{}");
        vv_str_fini(&settings);
        VV_TRY(status);
    }
    return VV_OK;
}

static vv_status put_settings(vv_run_store *store, const char *id, json_t *settings)
{
    vv_run_setting *list = NULL;
    const size_t count = json_object_size(settings);
    int n = 0;
    const char *key;
    json_t *value;
    if (count)
        VV_TRY(vv_alloc_array(&list, count, sizeof *list));
    json_object_foreach(settings, key, value) if (json_is_string(value)) list[n++] =
        (vv_run_setting){key, json_string_value(value)};
    vv_status status = vv_run_store_set_settings(store, id, list, n);
    vv_dealloc(list);
    return status;
}

static vv_status put_evals(vv_run_store *store, const char *id, const json_t *evals)
{
    for (size_t i = 0; i < json_array_size(evals); i++) {
        const json_t *e = json_array_get(evals, i);
        const vv_run_eval eval = {.label = text_of(e, "label"),
                                  .metric = text_of(e, "metric"),
                                  .higher_is_better =
                                      json_is_true(json_object_get(e, "higher_is_better")),
                                  .epoch = int_of(e, "epoch"),
                                  .batch = int_of(e, "batch"),
                                  .sample = int_of(e, "sample"),
                                  .train_seconds = real_of(e, "train_seconds"),
                                  .wall_seconds = real_of(e, "wall_seconds"),
                                  .value = real_of(e, "value")};
        VV_TRY(vv_run_store_add_eval(store, id, &eval));
    }
    return VV_OK;
}

static vv_status put_points(vv_run_store *store, const char *id, json_t *points)
{
    const char *name;
    json_t *series;
    json_object_foreach(points, name, series) for (size_t i = 0; i < json_array_size(series); i++)
    {
        const json_t *p = json_array_get(series, i);
        const json_t *value = json_array_get(p, 3), *seconds = json_array_get(p, 2);
        const vv_run_point point = {name, json_integer_value(json_array_get(p, 1)),
                                    json_integer_value(json_array_get(p, 0)),
                                    json_is_number(seconds) ? json_number_value(seconds)
                                                            : (double)NAN,
                                    json_is_number(value) ? json_number_value(value) : (double)NAN};
        VV_TRY(vv_run_store_add_point(store, id, &point));
    }
    return VV_OK;
}

static vv_status put_run(vv_run_store *store, const json_t *run, const char *path, size_t index)
{
    vv_run_row row;
    VV_TRY(read_row(&row, run, path, index));
    if (strcmp(row.status, "running") == 0)
        row.status = "killed"; /* it does not run here */
    VV_TRY(vv_run_store_put(store, &row));
    VV_TRY(vv_run_store_rewind(store, row.id, -2));
    VV_TRY(put_methods(store, row.id, json_object_get(run, "methods")));
    VV_TRY(put_settings(store, row.id, json_object_get(run, "settings")));
    VV_TRY(put_evals(store, row.id, json_object_get(run, "evals")));
    VV_TRY(put_points(store, row.id, json_object_get(run, "points")));
    const json_t *tags = json_object_get(run, "tags");
    for (size_t i = 0; i < json_array_size(tags); i++) {
        const char *tag = json_string_value(json_array_get(tags, i));
        if (tag)
            VV_TRY(vv_run_store_tag(store, row.id, tag, true));
    }
    return VV_OK;
}

static vv_status import_runs_json(vv_run_store *store, const char *path, const char *text,
                                  size_t length, int *count)
{
    json_t *root;
    VV_TRY(json_load(&root, path, text, length));
    const json_t *runs = json_object_get(root, "runs");
    const json_int_t version = json_integer_value(json_object_get(root, "version"));
    vv_status status = VV_OK;
    if (strcmp(text_of(root, "format"), "vivace-runs") != 0 || !json_is_array(runs))
        status = vv_fail(VV_EFORMAT,
                         "%s: neither runs that Vivace exported nor a DAWNBench entry "
                         "(which has its .tsv beside it)",
                         path);
    else if (version != 1)
        status = vv_fail(VV_EUNSUPPORTED, "%s: version %lld of the format; this Vivace reads 1",
                         path, (long long)version);
    for (size_t i = 0; status == VV_OK && i < json_array_size(runs); i++, ++*count)
        status = put_run(store, json_array_get(runs, i), path, i);
    json_decref(root);
    return status;
}

/* ---- DAWNBench: X.json and X.tsv {epoch, hours, top1Accuracy[, top5Accuracy]} ---- */

/* "CIFAR10/train/X.json" is of cifar10; the folder's name otherwise. */
static void dataset_of(const char *path, char *out, size_t bytes)
{
    const char *end = strrchr(path, '/'), *begin;
    if (end && end - path >= 6 && strncmp(end - 6, "/train", 6) == 0)
        end -= 6;
    if (!end)
        end = path;
    for (begin = end; begin > path && begin[-1] != '/'; begin--) {
    }
    size_t n = (size_t)(end - begin) < bytes - 1 ? (size_t)(end - begin) : bytes - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(begin[i] >= 'A' && begin[i] <= 'Z' ? begin[i] + 32 : begin[i]);
    out[n] = '\0';
}

/* "2019-12-11" as seconds since 1970, NaN if it is none. */
static double date_of(const char *text)
{
    int year, month, day;
    if (sscanf(text, "%4d-%2d-%2d", &year, &month, &day) != 3 || month < 1 || month > 12)
        return (double)NAN;
    struct tm when = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
    return (double)timegm(&when);
}

static vv_status put_tsv(vv_run_store *store, vv_run_row *row, const char *path, char *text)
{
    int columns[4] = {-1, -1, -1, -1}; /* epoch, hours, top-1, top-5 */
    static const char *const names[] = {"epoch", "hours", "top1Accuracy", "top5Accuracy"};
    int line_number = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        double values[4] = {(double)NAN, (double)NAN, (double)NAN, (double)NAN};
        int column = 0;
        char *cell_rest = NULL;
        line_number++;
        for (char *cell = strtok_r(line, "\t", &cell_rest); cell;
             cell = strtok_r(NULL, "\t", &cell_rest), column++)
            for (int i = 0; i < 4; i++) {
                char *end;
                if (line_number == 1 && strcmp(cell, names[i]) == 0)
                    columns[i] = column;
                else if (line_number > 1 && columns[i] == column) {
                    values[i] = strtod(cell, &end);
                    if (end == cell)
                        return vv_fail(VV_EFORMAT, "%s: line %d: \"%s\" is no number", path,
                                       line_number, cell);
                }
            }
        if (line_number == 1 && (columns[0] < 0 || columns[1] < 0 || columns[2] < 0))
            return vv_fail(VV_EFORMAT, "%s: line 1 must name epoch, hours and top1Accuracy", path);
        if (line_number == 1)
            continue;
        if (isnan(values[0]) || isnan(values[1]) || isnan(values[2]))
            return vv_fail(VV_EFORMAT, "%s: line %d lacks a value", path, line_number);
        const int64_t epoch = fabs(values[0]) < 1e15 ? (int64_t)values[0] : -1;
        vv_run_eval eval = {.label = "eval",
                            .metric = "accuracy",
                            .higher_is_better = true,
                            .epoch = epoch,
                            .batch = line_number - 1,
                            .sample = -1,
                            .train_seconds = values[1] * 3600.0,
                            .wall_seconds = values[1] * 3600.0,
                            .value = values[2] / 100.0};
        VV_TRY(vv_run_store_add_eval(store, row->id, &eval));
        if (!isnan(values[3])) {
            eval.metric = "top5_accuracy";
            eval.value = values[3] / 100.0;
            VV_TRY(vv_run_store_add_eval(store, row->id, &eval));
        }
        row->epochs = epoch;
        row->train_seconds = row->wall_seconds = values[1] * 3600.0;
    }
    return line_number > 1 ? VV_OK : vv_fail(VV_EFORMAT, "%s has no rows", path);
}

static vv_status put_entry(vv_run_store *store, const char *path, const json_t *entry, char *tsv,
                           const char *tsv_path)
{
    char dataset[64], id[256];
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    vv_run_row row;
    vv_run_row_init(&row);
    dataset_of(path, dataset, sizeof dataset);
    snprintf(id, sizeof id, "dawnbench-%s-%.*s", dataset, (int)(strlen(base) - 5), base);
    row.id = row.name = id;
    row.source = "dawnbench";
    row.status = "done";
    row.dataset = dataset;
    row.model = text_of(entry, "model");
    row.hardware = text_of(entry, "hardware");
    row.usd_per_hour = real_of(entry, "costPerHour");
    row.price_date = text_of(entry, "timestamp");
    row.price_source = "DAWNBench entry";
    row.started = date_of(row.price_date);
    row.version = text_of(entry, "framework");
    row.command = text_of(entry, "codeURL");
    row.note = text_of(entry, "author");
    VV_TRY(vv_run_store_put(store, &row));
    VV_TRY(vv_run_store_rewind(store, id, -2));
    VV_TRY(put_tsv(store, &row, tsv_path, tsv));
    row.usd = row.train_seconds / 3600.0 * row.usd_per_hour;
    row.progress = 1.0;
    row.seen = row.ended = row.started;
    return vv_run_store_put(store, &row);
}

static vv_status import_dawnbench(vv_run_store *store, const char *path, int *count)
{
    char *text = NULL, *tsv = NULL;
    size_t length = 0;
    json_t *entry = NULL;
    vv_str tsv_path = {0};
    vv_status status;
    vv_str_addn(&tsv_path, path, strlen(path) - 5);
    vv_str_add(&tsv_path, ".tsv");
    VV_GO(vv_str_status(&tsv_path));
    VV_GO(vvi_file_read_all(&text, &length, path));
    VV_GO(vvi_file_read_all(&tsv, NULL, vv_str_text(&tsv_path)));
    VV_GO(json_load(&entry, path, text, length));
    VV_GO(put_entry(store, path, entry, tsv, vv_str_text(&tsv_path)));
    ++*count;
out:
    json_decref(entry);
    vv_str_fini(&tsv_path);
    vv_dealloc(text);
    vv_dealloc(tsv);
    return status;
}

/* ---- whatever it is ---- */

/* *entry = the file is a DAWNBench entry: X.json with X.tsv beside it. */
static vv_status is_entry(const char *path, bool *entry)
{
    vv_str tsv = {0};
    *entry = false;
    if (!ends_with(path, ".json"))
        return VV_OK;
    vv_str_addn(&tsv, path, strlen(path) - 5);
    vv_str_add(&tsv, ".tsv");
    const vv_status status = vv_str_status(&tsv);
    *entry = status == VV_OK && vvi_exists(vv_str_text(&tsv));
    vv_str_fini(&tsv);
    return status;
}

static vv_status import_file(vv_run_store *store, const char *path, int *count)
{
    char *text;
    size_t length;
    bool entry;
    VV_TRY(is_entry(path, &entry));
    if (entry)
        return import_dawnbench(store, path, count);
    VV_TRY(vvi_file_read_all(&text, &length, path));
    size_t first = strspn(text, " \t\r\n");
    vv_status status = text[first] == '{' ? import_runs_json(store, path, text, length, count)
                                          : vvi_import_csv(store, path, text, length, count);
    vv_dealloc(text);
    return status;
}

/* Entries of a folder and of those in it, four deep. */
static vv_status import_folder(vv_run_store *store, const char *path, int depth, int *count)
{
    DIR *dir = opendir(path);
    vv_status status = VV_OK;
    if (!dir)
        return vv_fail(VV_EIO, "%s cannot be read", path);
    for (struct dirent *entry; status == VV_OK && (entry = readdir(dir)) != NULL;) {
        char *inner;
        if (entry->d_name[0] == '.')
            continue;
        status = vvi_path_join(&inner, path, entry->d_name);
        if (status != VV_OK)
            break;
        if (vvi_is_folder(inner))
            status = depth < 4 ? import_folder(store, inner, depth + 1, count) : VV_OK;
        else {
            bool is_one;
            status = is_entry(inner, &is_one);
            if (status == VV_OK && is_one)
                status = import_dawnbench(store, inner, count);
        }
        vv_dealloc(inner);
    }
    closedir(dir);
    return status;
}

vv_status vv_run_store_import(vv_run_store *store, const char *path, int *count)
{
    *count = 0;
    VV_TRY(vv_run_store_begin(store));
    vv_status status = vvi_is_folder(path) ? import_folder(store, path, 0, count)
                                           : import_file(store, path, count);
    if (status == VV_OK && *count == 0)
        status = vv_fail(VV_ENOTFOUND, "%s: no runs in it", path);
    if (status == VV_OK)
        return vv_run_store_commit(store);
    vv_run_store_rollback(store);
    *count = 0;
    return status;
}
