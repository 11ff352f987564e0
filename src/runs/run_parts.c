/* run_parts.c - what belongs to runs that are taken into a table: methods, metrics, tags, and the
 * group of their configuration. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "runs/run_table.h"

enum { FEW = 48 }; /* so many runs are asked for one by one, more in one sweep */

/* ---- the group: FNV-1a over what makes a configuration ---- */

static uint64_t mix_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    return hash;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return mix_bytes(hash, text, strlen(text) + 1); /* with the NUL: "ab" "c" is not "a" "bc" */
}

static uint64_t group_of_row(const vv_run_row *row)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    hash = mix_text(hash, row->source);
    hash = mix_text(hash, row->dataset);
    hash = mix_text(hash, row->model);
    hash = mix_text(hash, row->optimizer);
    hash = mix_text(hash, row->max_duration);
    hash = mix_bytes(hash, &row->batch_size, sizeof row->batch_size);
    const double ratio = isfinite(row->scale_schedule_ratio) ? row->scale_schedule_ratio : 1.0;
    return mix_bytes(hash, &ratio, sizeof ratio);
}

/* Settings that say who ran it, where, or what is looked at and kept, and do not change what the
   training does beyond rounding. */
bool vvi_of_configuration(const char *key)
{
    static const char *const left_out[] = {
        "name",        "seed",          "eval_batch_size", "microbatch", "memory_limit",
        "recompute",   "backend",       "eval_interval",   "eval_metrics", "train_metrics",
        "threads",     "workers",       "autoresume",      "deadline",   "hardware",
        "usd_per_hour", "run_db",       "allow_no_effect", "dataset.dir", "dataset.path",
        "dataset.root",
    };
    if (strncmp(key, "save_", 5) == 0)
        return false;
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
        if (strcmp(key, left_out[i]) == 0)
            return false;
    return true;
}

/* ---- rows of other tables; column 0 is the run ---- */

static vv_status add_word(char ***words, int *count, const char *text)
{
    VV_TRY(vv_realloc_array(words, (size_t)*count + 1, sizeof(char *)));
    VV_TRY(vv_strdup(&(*words)[*count], text));
    ++*count;
    return VV_OK;
}

static vv_status take_method(vv_run_table *table, vvi_entry *entry, vvi_sql *s)
{
    (void)table;
    entry->run.group = mix_text(entry->run.group, vvi_sql_text(s, 1));
    entry->run.group = mix_text(entry->run.group, vvi_sql_text(s, 2));
    return add_word(&entry->run.methods, &entry->run.method_count, vvi_sql_text(s, 1));
}

/* Of the training itself: neither a method's, nor how long it is. */
static bool of_base(const char *key)
{
    return strncmp(key, "methods.", 8) != 0 && strcmp(key, "max_duration") != 0 &&
           strcmp(key, "scale_schedule_ratio") != 0;
}

static vv_status take_setting(vv_run_table *table, vvi_entry *entry, vvi_sql *s)
{
    const char *key = vvi_sql_text(s, 1);
    (void)table;
    if (vvi_of_configuration(key)) {
        entry->run.group = mix_text(entry->run.group, key);
        entry->run.group = mix_text(entry->run.group, vvi_sql_text(s, 2));
        if (of_base(key)) {
            entry->run.base = mix_text(entry->run.base, key);
            entry->run.base = mix_text(entry->run.base, vvi_sql_text(s, 2));
        }
    }
    return VV_OK;
}

static vv_status metric_name(vv_run_table *table, const char *name, const char **out)
{
    for (int i = 0; i < table->name_count; i++)
        if (strcmp(table->names[i], name) == 0) {
            *out = table->names[i];
            return VV_OK;
        }
    VV_TRY(add_word(&table->names, &table->name_count, name));
    *out = table->names[table->name_count - 1];
    return VV_OK;
}

/* Evaluations come by label, metric and batch. */
static vv_status take_eval(vv_run_table *table, vvi_entry *entry, vvi_sql *s)
{
    vv_run_light *run = &entry->run;
    const char *name = vvi_sql_text(s, 1);
    const double value = vvi_sql_real(s, 3);
    vv_run_metric *m = run->metric_count ? &run->metrics[run->metric_count - 1] : NULL;
    if (!m || strcmp(m->name, name) != 0) {
        const char *kept;
        VV_TRY(metric_name(table, name, &kept));
        VV_TRY(vv_realloc_array(&run->metrics, (size_t)run->metric_count + 1,
                                sizeof *run->metrics));
        m = &run->metrics[run->metric_count++];
        *m = (vv_run_metric){kept, (double)NAN, (double)NAN, vvi_sql_int(s, 2) != 0};
    }
    m->final = value;
    if (isfinite(value) &&
        (isnan(m->best) || (m->higher_is_better ? value > m->best : value < m->best)))
        m->best = value;
    return VV_OK;
}

typedef vv_status take_fn(vv_run_table *table, vvi_entry *entry, vvi_sql *s);
typedef struct part {
    const char *all, *one;
    take_fn *take;
} part;
#define PART(columns, table, order)                                               \
    "SELECT run, " columns " FROM " table " ORDER BY run, " order,                \
        "SELECT run, " columns " FROM " table " WHERE run = ? ORDER BY run, " order
static const part parts[] = {
    {PART("name, settings", "methods", "position"), take_method},
    {PART("key, value", "settings", "key"), take_setting},
    {PART("label || '/' || metric, higher_is_better, value", "evals", "label, metric, batch"), take_eval},
};

static vv_status read_one(vv_run_table *table, const part *what, vvi_entry *entry)
{
    vvi_sql *s;
    bool more = true;
    VV_TRY(vvi_sql_prepare(&s, table->store, what->one, "t", entry->run.row.id));
    vv_status status = vvi_sql_step(s, &more);
    while (status == VV_OK && more) {
        status = what->take(table, entry, s);
        if (status == VV_OK)
            status = vvi_sql_step(s, &more);
    }
    vvi_sql_finish(s);
    return status;
}

static int by_id(const void *a, const void *b)
{
    const vvi_entry *x = *(vvi_entry *const *)a, *y = *(vvi_entry *const *)b;
    return strcmp(x->run.row.id, y->run.row.id);
}

/* Entries and rows are both in order of id. */
static vv_status read_sweep(vv_run_table *table, const part *what, vvi_entry **fresh, int count)
{
    vvi_sql *s;
    bool more = true;
    int at = 0;
    VV_TRY(vvi_sql_prepare(&s, table->store, what->all, ""));
    vv_status status = vvi_sql_step(s, &more);
    while (status == VV_OK && more) {
        const char *run = vvi_sql_text(s, 0);
        while (at < count && strcmp(fresh[at]->run.row.id, run) < 0)
            at++;
        if (at == count)
            break;
        if (strcmp(fresh[at]->run.row.id, run) == 0)
            status = what->take(table, fresh[at], s);
        if (status == VV_OK)
            status = vvi_sql_step(s, &more);
    }
    vvi_sql_finish(s);
    return status;
}

vv_status vvi_table_read_parts(vv_run_table *table, vvi_entry **entries, int count, int fresh)
{
    vvi_entry **chosen;
    int used = 0;
    VV_TRY(vv_alloc_array(&chosen, (size_t)fresh, sizeof(vvi_entry *)));
    for (int i = 0; i < count && used < fresh; i++)
        if (entries[i]->fresh) {
            entries[i]->run.group = group_of_row(&entries[i]->run.row);
            entries[i]->run.base = UINT64_C(14695981039346656037);
            chosen[used++] = entries[i];
        }
    if (used > 1)
        qsort(chosen, (size_t)used, sizeof(vvi_entry *), by_id);
    vv_status status = VV_OK;
    for (size_t p = 0; p < sizeof parts / sizeof parts[0] && status == VV_OK; p++) {
        if (used > FEW)
            status = read_sweep(table, &parts[p], chosen, used);
        for (int i = 0; i < used && used <= FEW && status == VV_OK; i++)
            status = read_one(table, &parts[p], chosen[i]);
    }
    vv_dealloc(chosen);
    return status;
}

/* ---- tags ---- */

typedef struct words {
    char **items;
    int count;
} words;

static void drop_words(words *w)
{
    for (int i = 0; i < w->count; i++)
        vv_dealloc(w->items[i]);
    vv_dealloc(w->items);
    *w = (words){NULL, 0};
}

/* The run's tags are these now; takes the words. */
static void settle_tags(vv_run_table *table, vvi_entry *entry, words *now, bool *changed)
{
    vv_run_light *run = &entry->run;
    bool same = now->count == run->tag_count;
    for (int i = 0; i < now->count && same; i++)
        same = strcmp(now->items[i], run->tags[i]) == 0;
    if (!same) {
        words old = {run->tags, run->tag_count};
        drop_words(&old);
        run->tags = now->items;
        run->tag_count = now->count;
        *now = (words){NULL, 0};
        run->revision = table->revision + 1;
        *changed = true;
    }
    drop_words(now);
}

vv_status vvi_table_read_tags(vv_run_table *table)
{
    vvi_sql *s;
    words now = {NULL, 0};
    bool more = true, changed = false;
    int at = 0; /* runs before it are settled */
    VV_TRY(vvi_sql_prepare(&s, table->store, "SELECT run, tag FROM tags ORDER BY run, tag", ""));
    vv_status status = vvi_sql_step(s, &more);
    while (status == VV_OK && more && at < table->count) {
        const int order = strcmp(table->ids[at]->run.row.id, vvi_sql_text(s, 0));
        if (order < 0)
            settle_tags(table, table->ids[at++], &now, &changed);
        else {
            if (order == 0)
                status = add_word(&now.items, &now.count, vvi_sql_text(s, 1));
            if (status == VV_OK)
                status = vvi_sql_step(s, &more);
        }
    }
    while (status == VV_OK && at < table->count)
        settle_tags(table, table->ids[at++], &now, &changed);
    vvi_sql_finish(s);
    drop_words(&now);
    table->revision += changed;
    return status;
}
