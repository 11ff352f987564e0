/* run_table.c - every run of a store in memory, kept up with what is written. */
#include <vivace/frontier.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vivace/memory.h>

#include "runs/run_table.h"

/* Rows heard of so long before the newest are read at every change, all of them now and then. */
enum { RECENT_SECONDS = 120, FULL_SECONDS = 10, KEEP_GONE = 256 };

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- one run ---- */

static void free_words(char **words, int count)
{
    for (int i = 0; i < count; i++)
        vv_dealloc(words[i]);
    vv_dealloc(words);
}

void vvi_entry_free(vvi_entry *entry)
{
    if (!entry)
        return;
    free_words(entry->run.methods, entry->run.method_count);
    free_words(entry->run.tags, entry->run.tag_count);
    vv_dealloc(entry->run.metrics);
    vv_dealloc(entry->texts);
    vv_str_fini(&entry->kept);
    vv_dealloc(entry);
}

/* A copy of the row whose texts lie in one block of the entry's own. */
static vv_status entry_of(vvi_entry **out, const vv_run_row *row)
{
    vvi_entry *entry;
    size_t bytes = 0;
    *out = NULL;
    VV_TRY(vv_alloc(&entry, sizeof *entry));
    entry->run.row = *row;
    for (int i = 0; i < vvi_run_column_count; i++)
        if (vvi_run_columns[i].kind == 't')
            bytes += strlen(*(const char *const *)vvi_column_of(row, i)) + 1;
    vv_status status = vv_alloc(&entry->texts, bytes);
    if (status != VV_OK) {
        vv_dealloc(entry);
        return status;
    }
    char *at = entry->texts;
    for (int i = 0; i < vvi_run_column_count; i++)
        if (vvi_run_columns[i].kind == 't') {
            const char *text = *(const char *const *)vvi_column_of(row, i);
            const size_t length = strlen(text) + 1;
            const char *copy = memcpy(at, text, length);
            memcpy((char *)&entry->run.row + vvi_run_columns[i].offset, &copy, sizeof copy);
            at += length;
        }
    entry->fresh = true;
    *out = entry;
    return VV_OK;
}

static bool same_row(const vv_run_row *a, const vv_run_row *b)
{
    for (int i = 0; i < vvi_run_column_count; i++) {
        const void *x = vvi_column_of(a, i), *y = vvi_column_of(b, i);
        switch (vvi_run_columns[i].kind) {
        case 't':
            if (strcmp(*(const char *const *)x, *(const char *const *)y) != 0)
                return false;
            break;
        case 'b':
            if (*(const bool *)x != *(const bool *)y)
                return false;
            break;
        default: /* bits: NaN is as good as NaN */
            if (memcmp(x, y, sizeof(double)) != 0)
                return false;
        }
    }
    return true;
}

/* ---- by id and by start ---- */

static int by_id(const void *a, const void *b)
{
    const vvi_entry *x = *(vvi_entry *const *)a, *y = *(vvi_entry *const *)b;
    return strcmp(x->run.row.id, y->run.row.id);
}

static int by_start(const void *a, const void *b)
{
    const vvi_entry *x = *(vvi_entry *const *)a, *y = *(vvi_entry *const *)b;
    const double s = x->run.row.started, t = y->run.row.started;
    if (isnan(s) != isnan(t)) /* as SQLite sorts: what is not known comes first */
        return isnan(s) ? -1 : 1;
    return s < t ? -1 : s > t ? 1 : strcmp(x->run.row.id, y->run.row.id);
}

vvi_entry *vvi_table_entry(const vv_run_table *table, const char *id)
{
    int low = 0, high = table->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = strcmp(table->ids[middle]->run.row.id, id);
        if (order == 0)
            return table->ids[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- taking rows in ---- */

static void sort(vvi_entry **entries, int count, int (*order)(const void *, const void *))
{
    if (count > 1)
        qsort(entries, (size_t)count, sizeof(vvi_entry *), order);
}

typedef struct intake {
    vv_run_table *table;
    vvi_entry **items; /* what the table will hold; those that were there are not owned */
    int count, capacity, fresh;
    vv_status status;
} intake;

static vv_status add_entry(intake *in, vvi_entry *entry)
{
    if (in->count == in->capacity) {
        const int capacity = in->capacity ? 2 * in->capacity : 64;
        VV_TRY(vv_realloc_array(&in->items, (size_t)capacity, sizeof(vvi_entry *)));
        in->capacity = capacity;
    }
    in->items[in->count++] = entry;
    return VV_OK;
}

static bool take_row(void *ctx, const vv_run_row *row)
{
    intake *in = ctx;
    vvi_entry *old = vvi_table_entry(in->table, row->id), *entry = old;
    in->status = VV_OK;
    if (!old || !same_row(&old->run.row, row)) {
        in->status = entry_of(&entry, row);
        if (in->status != VV_OK)
            return false;
        in->fresh++;
    }
    in->status = add_entry(in, entry);
    if (in->status != VV_OK && entry != old)
        vvi_entry_free(entry);
    return in->status == VV_OK;
}

static void drop_fresh(intake *in)
{
    for (int i = 0; i < in->count; i++)
        if (in->items[i]->fresh)
            vvi_entry_free(in->items[i]);
    vv_dealloc(in->items);
}

/* A run that is no longer there leaves its id, the oldest of many is forgotten. */
static vv_status note_gone(vv_run_table *table, const char *id)
{
    char *copy;
    VV_TRY(vv_strdup(&copy, id));
    vv_status status =
        table->gone ? VV_OK : vv_alloc_array(&table->gone, KEEP_GONE, sizeof *table->gone);
    if (status != VV_OK) {
        vv_dealloc(copy);
        return status;
    }
    if (table->gone_count == KEEP_GONE) {
        vv_dealloc(table->gone[0].id);
        memmove(table->gone, table->gone + 1, (KEEP_GONE - 1) * sizeof *table->gone);
        table->gone_count--;
    }
    table->gone[table->gone_count++] = (vvi_gone){copy, table->revision + 1};
    return VV_OK;
}

/* What a scan of some rows leaves out stays: the old entries that have no new one. */
static vv_status keep_others(intake *in)
{
    const vv_run_table *table = in->table;
    const int seen = in->count;
    sort(in->items, seen, by_id);
    for (int i = 0, j = 0; i < table->count; i++) {
        int order = 1;
        while (j < seen && (order = strcmp(in->items[j]->run.row.id,
                                           table->ids[i]->run.row.id)) < 0)
            j++;
        if (j >= seen || order != 0)
            VV_TRY(add_entry(in, table->ids[i]));
    }
    return VV_OK;
}

/* The intake becomes the table's content; entries that were exchanged are freed. */
static vv_status settle(intake *in)
{
    vv_run_table *table = in->table;
    vvi_entry **starts;
    VV_TRY(vv_alloc_array(&starts, (size_t)in->count, sizeof(vvi_entry *)));
    sort(in->items, in->count, by_id);
    if (in->count > 0)
        memcpy(starts, in->items, (size_t)in->count * sizeof(vvi_entry *));
    sort(starts, in->count, by_start);
    bool changed = in->fresh > 0;
    vv_status status = VV_OK;
    for (int i = 0, j = 0; i < table->count; i++) {
        vvi_entry *old = table->ids[i];
        while (j < in->count && strcmp(in->items[j]->run.row.id, old->run.row.id) < 0)
            j++;
        const bool there = j < in->count && strcmp(in->items[j]->run.row.id, old->run.row.id) == 0;
        if (!there) {
            changed = true;
            if (status == VV_OK)
                status = note_gone(table, old->run.row.id);
        }
        if (!there || in->items[j] != old)
            vvi_entry_free(old);
    }
    table->revision += changed;
    table->newest = (double)NAN;
    for (int i = 0; i < in->count; i++) {
        vvi_entry *entry = in->items[i];
        if (entry->fresh)
            entry->run.revision = table->revision;
        entry->fresh = false;
        if (!(entry->run.row.seen <= table->newest) && isfinite(entry->run.row.seen))
            table->newest = entry->run.row.seen;
    }
    vv_dealloc(table->ids);
    vv_dealloc(table->starts);
    table->ids = in->items;
    table->starts = starts;
    table->count = in->count;
    return status;
}

static vv_status scan(vv_run_table *table, bool full)
{
    intake in = {.table = table};
    const double from = full ? (double)NAN : table->newest - RECENT_SECONDS;
    vv_status status = vvi_runs_light(table->store, from, take_row, &in);
    if (status == VV_OK)
        status = in.status;
    if (status == VV_OK && !full)
        status = keep_others(&in);
    if (status == VV_OK && in.fresh > 0)
        status = vvi_table_read_parts(table, in.items, in.count, in.fresh);
    if (status != VV_OK) {
        drop_fresh(&in);
        return status;
    }
    vv_status settled = settle(&in);
    if (settled != VV_OK && table->ids != in.items)
        drop_fresh(&in);
    return settled;
}

/* ---- the table ---- */

static vv_status ask_number(vv_run_store *store, const char *sql, int64_t *out)
{
    vvi_sql *s;
    bool row = false;
    VV_TRY(vvi_sql_prepare(&s, store, sql, ""));
    vv_status status = vvi_sql_step(s, &row);
    *out = row ? vvi_sql_int(s, 0) : 0;
    vvi_sql_finish(s);
    return status;
}

vv_status vv_run_table_refresh(vv_run_table *table, bool all)
{
    int64_t version, count;
    const double now = now_seconds();
    VV_TRY(ask_number(table->store, "PRAGMA data_version", &version));
    const bool old = now - table->full > FULL_SECONDS;
    const bool changed = all || version != table->version || (table->stale && old);
    /* a run that falls silent changes nothing in the file */
    bool running = false;
    for (int i = 0; i < table->count && !running; i++)
        running = strcmp(table->ids[i]->run.row.status, "running") == 0;
    if (!changed && !(running && now - table->scanned > FULL_SECONDS))
        return VV_OK;
    VV_TRY(ask_number(table->store, "SELECT count(*) FROM runs", &count));
    bool full = all || !changed || old || !isfinite(table->newest);
    VV_TRY(scan(table, full));
    if (!full && table->count != count) { /* some went, or came in from elsewhere */
        full = true;
        VV_TRY(scan(table, true));
    }
    VV_TRY(vvi_table_read_tags(table));
    table->scanned = now;
    if (full)
        table->full = now;
    table->stale = !full; /* what the scan of some rows may have missed */
    table->version = version;
    return VV_OK;
}

vv_status vv_run_table_read(vv_run_table **out, vv_run_store *store)
{
    vv_run_table *table;
    *out = NULL;
    VV_TRY(vv_alloc(&table, sizeof *table));
    table->store = store;
    table->newest = (double)NAN;
    /* a table that is read later counts on from a higher number, in any process */
    table->revision = (uint64_t)time(NULL) << 10;
    vv_status status = vv_run_table_refresh(table, true);
    if (status != VV_OK) {
        vv_run_table_free(table);
        return status;
    }
    *out = table;
    return VV_OK;
}

void vv_run_table_free(vv_run_table *table)
{
    if (!table)
        return;
    for (int i = 0; i < table->count; i++)
        vvi_entry_free(table->ids[i]);
    for (int i = 0; i < table->gone_count; i++)
        vv_dealloc(table->gone[i].id);
    for (int i = 0; i < table->name_count; i++)
        vv_dealloc(table->names[i]);
    vv_dealloc(table->gone);
    vv_dealloc(table->names);
    vv_dealloc(table->ids);
    vv_dealloc(table->starts);
    vv_dealloc(table);
}

int vv_run_table_count(const vv_run_table *table)
{
    return table->count;
}

const vv_run_light *vv_run_table_at(const vv_run_table *table, int i)
{
    return &table->starts[i]->run;
}

vv_str *vvi_table_kept(vv_run_table *table, int i)
{
    vvi_entry *entry = table->starts[i];
    if (entry->kept_revision != entry->run.revision)
        vv_str_clear(&entry->kept);
    entry->kept_revision = entry->run.revision;
    return &entry->kept;
}

const vv_run_light *vv_run_table_find(const vv_run_table *table, const char *id)
{
    const vvi_entry *entry = vvi_table_entry(table, id);
    return entry ? &entry->run : NULL;
}

uint64_t vv_run_table_revision(const vv_run_table *table)
{
    return table->revision;
}

const char *vv_run_table_gone(const vv_run_table *table, int i, uint64_t *revision)
{
    if (i < 0 || i >= table->gone_count)
        return NULL;
    *revision = table->gone[i].revision;
    return table->gone[i].id;
}

const vv_run_metric *vv_run_light_metric(const vv_run_light *run, const char *name)
{
    for (int i = 0; i < run->metric_count; i++)
        if (strcmp(run->metrics[i].name, name) == 0)
            return &run->metrics[i];
    return NULL;
}
