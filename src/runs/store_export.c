/* store_export.c - runs as JSON and as a table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <vivace/frontier.h>
#include <vivace/memory.h>

#include "base/csv_cell.h"
#include "base/number.h"
#include "runs/store.h"

void vvi_json_real(vv_str *out, double value)
{
    char text[40];
    vv_str_add(out, isfinite(value) ? vvi_number_text(value, text, sizeof text) : "null");
}

/* ---- JSON ---- */

void vvi_json_column(vv_str *out, const vv_run_row *row, int i)
{
    const void *at = vvi_column_of(row, i);
    vv_str_add(out, i ? ",\"" : "\"");
    vv_str_add(out, vvi_run_columns[i].name);
    vv_str_add(out, "\":");
    switch (vvi_run_columns[i].kind) {
    case 't':
        vv_str_add_json(out, *(const char *const *)at);
        break;
    case 'i':
        if (*(const int64_t *)at == -1)
            vv_str_add(out, "null");
        else
            vv_str_addf(out, "%lld", (long long)*(const int64_t *)at);
        break;
    case 'r':
        vvi_json_real(out, *(const double *)at);
        break;
    default:
        vv_str_add(out, *(const bool *)at ? "true" : "false");
    }
}

static bool json_row(void *ctx, const vv_run_row *row)
{
    vv_str *out = ctx;
    vv_str_add(out, "{");
    for (int i = 0; i < vvi_run_column_count; i++)
        vvi_json_column(out, row, i);
    return true;
}

typedef struct list { /* of things in one JSON array or object */
    vv_str *out;
    int count;
    char name[128];    /* of the series that is open */
    double last, best; /* of the metric that is open */
    bool higher;
} list;

static bool json_method(void *ctx, const vv_run_method *method)
{
    list *l = ctx;
    vv_str_add(l->out, l->count++ ? ",{\"name\":" : "{\"name\":");
    vv_str_add_json(l->out, method->name);
    vv_str_addf(l->out, ",\"settings\":%s}", method->settings[0] ? method->settings : "{}");
    return true;
}

static bool json_setting(void *ctx, const vv_run_setting *setting)
{
    list *l = ctx;
    vv_str_add(l->out, l->count++ ? "," : "");
    vv_str_add_json(l->out, setting->key);
    vv_str_add(l->out, ":");
    vv_str_add_json(l->out, setting->value);
    return true;
}

static bool json_tag(void *ctx, const char *tag)
{
    list *l = ctx;
    vv_str_add(l->out, l->count++ ? "," : "");
    vv_str_add_json(l->out, tag);
    return true;
}

static bool json_eval(void *ctx, const vv_run_eval *eval)
{
    list *l = ctx;
    vv_str_add(l->out, l->count++ ? ",{\"label\":" : "{\"label\":");
    vv_str_add_json(l->out, eval->label);
    vv_str_add(l->out, ",\"metric\":");
    vv_str_add_json(l->out, eval->metric);
    vv_str_addf(l->out, ",\"higher_is_better\":%s,\"epoch\":%lld,\"batch\":%lld,\"sample\":%lld",
                eval->higher_is_better ? "true" : "false", (long long)eval->epoch,
                (long long)eval->batch, (long long)eval->sample);
    vv_str_add(l->out, ",\"train_seconds\":");
    vvi_json_real(l->out, eval->train_seconds);
    vv_str_add(l->out, ",\"wall_seconds\":");
    vvi_json_real(l->out, eval->wall_seconds);
    vv_str_add(l->out, ",\"value\":");
    vvi_json_real(l->out, eval->value);
    vv_str_add(l->out, "}");
    return true;
}

static void close_metric(list *l)
{
    if (!l->name[0])
        return;
    vv_str_add(l->out, l->count++ ? "," : "");
    vv_str_add_json(l->out, l->name);
    vv_str_add(l->out, ":{\"final\":");
    vvi_json_real(l->out, l->last);
    vv_str_add(l->out, ",\"best\":");
    vvi_json_real(l->out, l->best);
    vv_str_addf(l->out, ",\"higher_is_better\":%s}", l->higher ? "true" : "false");
}

/* Evaluations come sorted by label and metric: the open one ends where another begins. */
static bool sum_metric(void *ctx, const vv_run_eval *eval)
{
    list *l = ctx;
    char name[128];
    snprintf(name, sizeof name, "%s/%s", eval->label, eval->metric);
    if (strcmp(name, l->name) != 0) {
        close_metric(l);
        memcpy(l->name, name, sizeof name);
        l->last = l->best = (double)NAN;
        l->higher = eval->higher_is_better;
    }
    l->last = eval->value;
    if (isnan(l->best) || (l->higher ? eval->value > l->best : eval->value < l->best))
        l->best = eval->value;
    return true;
}

static bool json_point(void *ctx, const vv_run_point *point)
{
    list *l = ctx;
    if (strncmp(point->name, l->name, sizeof l->name - 1) != 0 || !l->count) {
        vv_str_add(l->out, l->count ? "]," : "");
        vv_str_add_json(l->out, point->name);
        vv_str_add(l->out, ":[");
        snprintf(l->name, sizeof l->name, "%s", point->name);
    } else {
        vv_str_add(l->out, ",");
    }
    l->count++;
    vv_str_addf(l->out, "[%lld,%lld,", (long long)point->batch, (long long)point->epoch);
    vvi_json_real(l->out, point->train_seconds);
    vv_str_add(l->out, ",");
    vvi_json_real(l->out, point->value);
    vv_str_add(l->out, "]");
    return true;
}

vv_status vvi_json_methods(vv_run_store *store, const char *id, vv_str *out)
{
    list l = {.out = out};
    vv_str_add(out, "[");
    VV_TRY(vv_run_store_methods(store, id, json_method, &l));
    vv_str_add(out, "]");
    return VV_OK;
}

vv_status vvi_json_settings(vv_run_store *store, const char *id, vv_str *out)
{
    list l = {.out = out};
    vv_str_add(out, "{");
    VV_TRY(vv_run_store_settings(store, id, json_setting, &l));
    vv_str_add(out, "}");
    return VV_OK;
}

vv_status vvi_json_evals(vv_run_store *store, const char *id, vv_str *out)
{
    list l = {.out = out};
    vv_str_add(out, "[");
    VV_TRY(vv_run_store_evals(store, id, json_eval, &l));
    vv_str_add(out, "]");
    return VV_OK;
}

vv_status vvi_json_points(vv_run_store *store, const char *id, vv_str *out)
{
    list l = {.out = out};
    vv_str_add(out, "{");
    VV_TRY(vv_run_store_points(store, id, json_point, &l));
    vv_str_add(out, l.count ? "]}" : "}");
    return VV_OK;
}

vv_status vv_run_store_json(vv_run_store *store, const char *id, bool points, vv_str *out)
{
    list l = {.out = out};
    VV_TRY(vv_run_store_get(store, id, json_row, out));
    vv_str_add(out, ",\"methods\":");
    VV_TRY(vvi_json_methods(store, id, out));
    vv_str_add(out, ",\"settings\":");
    VV_TRY(vvi_json_settings(store, id, out));
    vv_str_add(out, ",\"tags\":[");
    VV_TRY(vv_run_store_tags(store, id, json_tag, &l));
    vv_str_add(out, "],\"metrics\":{");
    l = (list){.out = out};
    VV_TRY(vv_run_store_evals(store, id, sum_metric, &l));
    close_metric(&l);
    vv_str_add(out, "},\"evals\":");
    VV_TRY(vvi_json_evals(store, id, out));
    if (points) {
        vv_str_add(out, ",\"points\":");
        VV_TRY(vvi_json_points(store, id, out));
    }
    vv_str_add(out, "}");
    return vv_str_status(out);
}

/* ---- every run ---- */

/* The ids first: a statement that is open while others run would keep the file's old state. */
typedef struct run_ids {
    char **items;
    int count;
    vv_status status;
} run_ids;

static bool keep_id(void *ctx, const vv_run_row *row)
{
    run_ids *ids = ctx;
    ids->status = vv_realloc_array(&ids->items, (size_t)ids->count + 1, sizeof *ids->items);
    if (ids->status == VV_OK)
        ids->status = vv_strdup(&ids->items[ids->count], row->id);
    ids->count += ids->status == VV_OK;
    return ids->status == VV_OK;
}

static vv_status read_ids(vv_run_store *store, run_ids *ids)
{
    *ids = (run_ids){NULL, 0, VV_OK};
    VV_TRY(vv_run_store_each(store, keep_id, ids));
    return ids->status;
}

static void free_ids(run_ids *ids)
{
    for (int i = 0; i < ids->count; i++)
        vv_dealloc(ids->items[i]);
    vv_dealloc(ids->items);
}

vv_status vv_run_store_export_json(vv_run_store *store, bool points, vv_str *out)
{
    run_ids ids;
    vv_status status = read_ids(store, &ids);
    vv_str_add(out, "{\"format\":\"vivace-runs\",\"version\":1,\"runs\":[");
    for (int i = 0; i < ids.count && status == VV_OK; i++) {
        vv_str_add(out, i ? ",\n" : "\n");
        status = vv_run_store_json(store, ids.items[i], points, out);
    }
    vv_str_add(out, "\n]}\n");
    free_ids(&ids);
    return status == VV_OK ? vv_str_status(out) : status;
}

/* ---- a table (RFC 4180) ---- */

static void csv_row(vv_str *out, const vv_run_row *row)
{
    for (int i = 0; i < vvi_run_column_count; i++) {
        const void *at = vvi_column_of(row, i);
        char text[40];
        vv_str_add(out, i ? "," : "");
        switch (vvi_run_columns[i].kind) {
        case 't':
            vvi_csv_cell(out, *(const char *const *)at);
            break;
        case 'i':
            if (*(const int64_t *)at != -1)
                vv_str_addf(out, "%lld", (long long)*(const int64_t *)at);
            break;
        case 'r':
            if (isfinite(*(const double *)at))
                vv_str_add(out, vvi_number_text(*(const double *)at, text, sizeof text));
            break;
        default:
            vv_str_add(out, *(const bool *)at ? "true" : "false");
        }
    }
}

/* "eval/accuracy" of every metric any run has. */
static vv_status metric_names(vv_run_store *store, run_ids *names)
{
    vvi_sql *s = NULL;
    bool more = true;
    vv_status status;
    *names = (run_ids){NULL, 0, VV_OK};
    VV_GO(vvi_sql_prepare(&s, store, "SELECT DISTINCT label || '/' || metric FROM evals ORDER BY 1",
                          ""));
    for (;;) {
        VV_GO(vvi_sql_step(s, &more));
        if (!more)
            break;
        VV_GO(vv_realloc_array(&names->items, (size_t)names->count + 1, sizeof *names->items));
        VV_GO(vv_strdup(&names->items[names->count], vvi_sql_text(s, 0)));
        names->count++;
    }
out:
    vvi_sql_finish(s);
    return status;
}

typedef struct csv {
    vv_str *out;
    const vv_run_table *table;
    const run_ids *metrics;
} csv;

static void add_words(vv_str *out, char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        vv_str_addf(out, "%s%s", i ? " " : "", words[i]);
}

static void add_number(vv_str *out, double value)
{
    char text[40];
    vv_str_add(out, ",");
    vv_str_add(out, isfinite(value) ? vvi_number_text(value, text, sizeof text) : "");
}

static bool csv_line(void *ctx, const vv_run_row *row)
{
    const csv *c = ctx;
    const vv_run_light *run = vv_run_table_find(c->table, row->id);
    if (!run) /* it came in between */
        return true;
    csv_row(c->out, row);
    vv_str_add(c->out, ",");
    add_words(c->out, run->methods, run->method_count);
    vv_str_add(c->out, ",");
    add_words(c->out, run->tags, run->tag_count);
    for (int i = 0; i < c->metrics->count; i++) {
        const vv_run_metric *m = vv_run_light_metric(run, c->metrics->items[i]);
        add_number(c->out, m ? m->final : (double)NAN);
        add_number(c->out, m ? m->best : (double)NAN);
    }
    vv_str_add(c->out, "\n");
    return true;
}

vv_status vv_run_store_export_csv(vv_run_store *store, vv_str *out)
{
    run_ids metrics = {NULL, 0, VV_OK};
    vv_run_table *table = NULL;
    vv_status status;
    VV_GO(metric_names(store, &metrics));
    VV_GO(vv_run_table_read(&table, store));
    for (int i = 0; i < vvi_run_column_count; i++)
        vv_str_addf(out, "%s%s", i ? "," : "", vvi_run_columns[i].name);
    vv_str_add(out, ",methods,tags");
    for (int i = 0; i < metrics.count; i++)
        vv_str_addf(out, ",metrics.%s,best.%s", metrics.items[i], metrics.items[i]);
    vv_str_add(out, "\n");
    csv each = {out, table, &metrics};
    VV_GO(vv_run_store_each(store, csv_line, &each));
    status = vv_str_status(out);
out:
    vv_run_table_free(table);
    free_ids(&metrics);
    return status;
}
