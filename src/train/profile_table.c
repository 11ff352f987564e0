/* profile_table.c - where the time of the profiled batches went, as a table. */
#include "profile.h"

#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#define MOST_OPS 25 /* lines about ops */

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

void vvi_profile_count(vvi_profile_table *table, const char *category, const char *name,
                       const char *detail, bool backward, double seconds, int64_t flops)
{
    vvi_profile_row *row = NULL;
    for (int i = 0; i < table->count && !row; i++) {
        vvi_profile_row *r = &table->rows[(table->next + i) % table->count];
        if (r->backward == backward && same(r->name, name) && same(r->category, category) &&
            same(r->detail, detail))
            row = r;
    }
    if (!row) {
        if (table->count == table->capacity) {
            int capacity = table->capacity ? 2 * table->capacity : 64;
            if (vv_realloc_array(&table->rows, (size_t)capacity, sizeof *table->rows) != VV_OK)
                return;
            table->capacity = capacity;
        }
        row = &table->rows[table->count++];
        *row = (vvi_profile_row){category, name, detail, backward, 0, 0, 0.0};
    }
    table->next = (int)(row - table->rows) + 1;
    row->calls++;
    row->seconds += seconds;
    row->flops += flops;
}

static double seconds_of(const vvi_profile_table *table, const char *category, const char *name)
{
    double sum = 0.0;
    for (int i = 0; i < table->count; i++)
        if (same(table->rows[i].category, category) && (!name || same(table->rows[i].name, name)))
            sum += table->rows[i].seconds;
    return sum;
}

static int by_seconds(const void *a, const void *b)
{
    const vvi_profile_row *x = a, *y = b;
    return x->seconds > y->seconds ? -1 : x->seconds < y->seconds;
}

static void add_part(vv_str *out, const char *what, double seconds, double total, int64_t batches)
{
    vv_str_addf(out, "  %-34s %10.3f ms %6.1f%%\n", what, 1e3 * seconds / (double)batches,
                total > 0.0 ? 100.0 * seconds / total : 0.0);
}

static void add_op(vv_str *out, const vvi_profile_row *row, double total, int64_t batches)
{
    vv_str name = {0};
    vv_str_addf(&name, "%s %s%s", row->name, row->detail, row->backward ? " (backward)" : "");
    vv_str_addf(out, "  %-44s %6lld %10.3f ms %6.1f%%", vv_str_text(&name),
                (long long)(row->calls / batches), 1e3 * row->seconds / (double)batches,
                total > 0.0 ? 100.0 * row->seconds / total : 0.0);
    if (row->flops > 0 && row->seconds > 0.0)
        vv_str_addf(out, " %8.1f GFLOP/s", 1e-9 * (double)row->flops / row->seconds);
    vv_str_add(out, "\n");
    vv_str_fini(&name);
}

void vvi_profile_text(vvi_profile_table *table, vv_str *out)
{
    static const struct {
        const char *what, *category, *name;
    } parts[] = {
        {"waiting for the loader", "loader", NULL}, {"methods", "method", NULL},
        {"building the graph", "build", NULL},      {"forward", "graph", "forward"},
        {"backward", "graph", "backward"},          {"clipping", "clip", NULL},
        {"optimizer", "optimizer", NULL},           {"callbacks", "callback", NULL},
        {"loggers", "logger", NULL},
    };
    int64_t batches = table->batches;
    double total = seconds_of(table, "train", "batch");
    vv_str_addf(out, "profile: %lld batches, %.3f ms each\n", (long long)batches,
                1e3 * total / (double)batches);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        add_part(out, parts[i].what, seconds_of(table, parts[i].category, parts[i].name), total,
                 batches);
    vv_str_addf(out, "beside them: evaluation %.3f s, checkpoints %.3f s\n",
                seconds_of(table, "evaluation", NULL), seconds_of(table, "checkpoint", NULL));
    vv_str_add(out, "memory at most:");
    for (int i = 0; i < 4; i++)
        vv_str_addf(out, "%s %s %lld", i ? "," : "", vvi_profile_memory_names[i],
                    (long long)table->most_bytes[i]);
    vv_str_add(out, "\nops, per batch: calls, time, share of the batch\n");
    qsort(table->rows, (size_t)table->count, sizeof *table->rows, by_seconds);
    table->next = 0;
    int lines = 0, more = 0;
    for (int i = 0; i < table->count; i++) {
        if (!same(table->rows[i].category, "op"))
            continue;
        if (lines++ < MOST_OPS)
            add_op(out, &table->rows[i], total, batches);
        else
            more++;
    }
    if (more)
        vv_str_addf(out, "  and %d more\n", more);
}
