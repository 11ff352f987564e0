/* settings_json.c - the settings in which runs differ, by setting: what the page draws and sorts by
 * beside the columns of a run. */
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "explorer/api.h"
#include "runs/run_table.h"

typedef struct setting {
    char *key;
    char **values; /* each once */
    int value_count;
    int *of; /* by run in order of id: which value, -1 = it has none */
} setting;

typedef struct settings {
    setting *items;
    int count;
    int last; /* the one found last: those of a run come in one order */
} settings;

static void drop(settings *all)
{
    for (int i = 0; i < all->count; i++) {
        setting *s = &all->items[i];
        for (int j = 0; j < s->value_count; j++)
            vv_dealloc(s->values[j]);
        vv_dealloc(s->values);
        vv_dealloc(s->of);
        vv_dealloc(s->key);
    }
    vv_dealloc(all->items);
}

/* Runs have these as columns. */
static bool is_column(const char *key)
{
    for (int i = 0; i < vvi_run_column_count; i++)
        if (strcmp(vvi_run_columns[i].name, key) == 0)
            return true;
    return false;
}

static vv_status setting_named(settings *all, const char *key, int runs, setting **out)
{
    for (int i = 0; i < all->count; i++) {
        const int at = (all->last + 1 + i) % all->count;
        if (strcmp(all->items[at].key, key) == 0) {
            all->last = at;
            *out = &all->items[at];
            return VV_OK;
        }
    }
    VV_TRY(vv_realloc_array(&all->items, (size_t)all->count + 1, sizeof *all->items));
    setting *s = &all->items[all->count];
    *s = (setting){NULL, NULL, 0, NULL};
    all->last = all->count++;
    VV_TRY(vv_strdup(&s->key, key));
    VV_TRY(vv_alloc_array(&s->of, (size_t)runs, sizeof *s->of));
    for (int i = 0; i < runs; i++)
        s->of[i] = -1;
    *out = s;
    return VV_OK;
}

static vv_status value_of(setting *s, const char *text, int *out)
{
    for (*out = 0; *out < s->value_count; ++*out)
        if (strcmp(s->values[*out], text) == 0)
            return VV_OK;
    VV_TRY(vv_realloc_array(&s->values, (size_t)s->value_count + 1, sizeof *s->values));
    s->values[s->value_count] = NULL;
    s->value_count++;
    return vv_strdup(&s->values[*out], text);
}

static vv_status take(const vvi_api *api, settings *all, vvi_sql *s, int *at)
{
    const vv_run_table *table = api->table;
    const char *run = vvi_sql_text(s, 0), *key = vvi_sql_text(s, 1);
    setting *into;
    while (*at < table->count && strcmp(table->ids[*at]->run.row.id, run) < 0)
        ++*at;
    if (*at == table->count || strcmp(table->ids[*at]->run.row.id, run) != 0 ||
        !vvi_of_configuration(key) || is_column(key))
        return VV_OK;
    VV_TRY(setting_named(all, key, table->count, &into));
    return value_of(into, vvi_sql_text(s, 2), &into->of[*at]);
}

static vv_status read_all(const vvi_api *api, settings *all)
{
    vvi_sql *s;
    bool more = true;
    int at = 0;
    VV_TRY(vvi_sql_prepare(&s, api->store, "SELECT run, key, value FROM settings ORDER BY run, key",
                           ""));
    vv_status status = vvi_sql_step(s, &more);
    while (status == VV_OK && more) {
        status = take(api, all, s, &at);
        if (status == VV_OK)
            status = vvi_sql_step(s, &more);
    }
    vvi_sql_finish(s);
    return status;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const setting *)a)->key, ((const setting *)b)->key);
}

static void add_setting(vv_str *out, const setting *s, int runs)
{
    vv_str_add(out, "{\"key\":");
    vv_str_add_json(out, s->key);
    vv_str_add(out, ",\"values\":[");
    for (int i = 0; i < s->value_count; i++) {
        vv_str_add(out, i ? "," : "");
        vv_str_add_json(out, s->values[i]);
    }
    vv_str_add(out, "],\"of\":[");
    for (int i = 0; i < runs; i++)
        vv_str_addf(out, i ? ",%d" : "%d", s->of[i]);
    vv_str_add(out, "]}");
}

vv_status vvi_settings_answer(vvi_api *api, vv_str *out)
{
    const vv_run_table *table = api->table;
    settings all = {NULL, 0, 0};
    int told = 0;
    vv_status status;
    VV_GO(read_all(api, &all));
    if (all.count > 1)
        qsort(all.items, (size_t)all.count, sizeof *all.items, by_key);
    vv_str_add(out, "{\"runs\":[");
    for (int i = 0; i < table->count; i++) {
        vv_str_add(out, i ? "," : "");
        vv_str_add_json(out, table->ids[i]->run.row.id);
    }
    vv_str_add(out, "],\"settings\":[");
    for (int i = 0; i < all.count; i++)
        if (all.items[i].value_count >
            1) { /* one that only some runs have is a method's, and told by it */
            vv_str_add(out, told++ ? ",\n" : "\n");
            add_setting(out, &all.items[i], table->count);
        }
    vv_str_add(out, "\n]}\n");
    VV_GO(vv_str_status(out));
out:
    drop(&all);
    return status;
}
