/* curve.c - a metric over training time, read from a run's log. */
#include <vivace/runs.h>

#include <jansson.h>
#include <math.h>
#include <string.h>

#include <vivace/memory.h>
#include <vivace/str.h>

#include "base/file.h"

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static vv_status add_point(vv_curve *curve, const json_t *line, double train_seconds, double value)
{
    VV_TRY(vv_realloc_array(&curve->points, (size_t)curve->count + 1, sizeof *curve->points));
    curve->points[curve->count++] = (vv_curve_point){
        .epoch = (int64_t)number_of(line, "epoch"),
        .batch = (int64_t)number_of(line, "batch"),
        .sample = (int64_t)number_of(line, "sample"),
        .train_seconds = train_seconds,
        .value = value,
    };
    return VV_OK;
}

/* A batch's line carries the training time; an evaluation's belongs to the batch before it. */
static vv_status read_line(vv_curve *curve, const json_t *line, const char *label,
                           const char *metric, double *train_seconds)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    if (!event)
        return VV_OK;
    if (strcmp(event, "batch") == 0)
        *train_seconds = number_of(line, "seconds");
    if (strcmp(event, "eval") != 0)
        return VV_OK;
    const char *found = json_string_value(json_object_get(line, "label"));
    double value = number_of(json_object_get(line, "metrics"), metric);
    if (!found || strcmp(found, label) != 0 || isnan(value))
        return VV_OK;
    return add_point(curve, line, *train_seconds, value);
}

vv_status vv_curve_read(vv_curve *out, const char *run_dir, const char *label, const char *metric)
{
    *out = (vv_curve){0};
    char *path = NULL, *text = NULL;
    size_t length = 0;
    double train_seconds = 0.0;
    vv_status status;
    VV_GO(vvi_path_join(&path, run_dir, "log.jsonl"));
    VV_GO(vvi_file_read_all(&text, &length, path));
    for (char *at = text, *end; (end = memchr(at, '\n', length - (size_t)(at - text)));
         at = end + 1) {
        json_error_t error;
        json_t *line = json_loadb(at, (size_t)(end - at), 0, &error);
        if (!line)
            VV_GO(vv_fail(VV_EFORMAT, "%s: a line is not JSON: %s", path, error.text));
        status = read_line(out, line, label, metric, &train_seconds);
        json_decref(line);
        if (status != VV_OK)
            goto out;
    }
    if (!out->count)
        status = vv_fail(VV_ENOTFOUND, "%s: no evaluation of '%s' with the metric '%s'", path,
                         label, metric);
out:
    vv_dealloc(text);
    vv_dealloc(path);
    if (status != VV_OK)
        vv_curve_fini(out);
    return status;
}

void vv_curve_fini(vv_curve *curve)
{
    vv_dealloc(curve->points);
    *curve = (vv_curve){0};
}

const vv_curve_point *vv_curve_reach(const vv_curve *curve, double target, bool higher_is_better)
{
    for (int i = 0; i < curve->count; i++) {
        double value = curve->points[i].value;
        if (higher_is_better ? value >= target : value <= target)
            return &curve->points[i];
    }
    return NULL;
}

const vv_curve_point *vv_curve_best(const vv_curve *curve, bool higher_is_better)
{
    const vv_curve_point *best = NULL;
    for (int i = 0; i < curve->count; i++) {
        double value = curve->points[i].value;
        if (!best || (higher_is_better ? value > best->value : value < best->value))
            best = &curve->points[i];
    }
    return best;
}
