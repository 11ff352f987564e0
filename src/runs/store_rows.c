/* store_rows.c - what belongs to a run: methods, settings, evaluations, points, tags; and reading
 * all of it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <vivace/memory.h>

#include "runs/store.h"

enum { SILENT_SECONDS = 60 }; /* a running run that is not heard of for so long is gone */

/* ---- writing ---- */

vv_status vv_run_store_set_methods(vv_run_store *store, const char *id,
                                   const vv_run_method *methods, int count)
{
    VV_TRY(vvi_sql_exec(store, NULL, "DELETE FROM methods WHERE run = ?", "t", id));
    for (int i = 0; i < count; i++)
        VV_TRY(vvi_sql_exec(store, NULL, "INSERT INTO methods VALUES(?,?,?,?)", "titt", id,
                            (int64_t)i, methods[i].name, methods[i].settings));
    return VV_OK;
}

vv_status vv_run_store_set_settings(vv_run_store *store, const char *id,
                                    const vv_run_setting *settings, int count)
{
    VV_TRY(vvi_sql_exec(store, NULL, "DELETE FROM settings WHERE run = ?", "t", id));
    for (int i = 0; i < count; i++)
        VV_TRY(vvi_sql_exec(store, NULL, "INSERT OR REPLACE INTO settings VALUES(?,?,?)", "ttt", id,
                            settings[i].key, settings[i].value));
    return VV_OK;
}

vv_status vv_run_store_add_eval(vv_run_store *store, const char *id, const vv_run_eval *eval)
{
    return vvi_sql_exec(store, NULL,
                        "INSERT OR REPLACE INTO evals(run, label, metric, batch, epoch, sample, "
                        "train_seconds, wall_seconds, value, higher_is_better) "
                        "VALUES(?,?,?,?,?,?,?,?,?,?)",
                        "tttiiirrrb", id, eval->label, eval->metric, eval->batch, eval->epoch,
                        eval->sample, eval->train_seconds, eval->wall_seconds, eval->value,
                        (int)eval->higher_is_better);
}

vv_status vv_run_store_add_point(vv_run_store *store, const char *id, const vv_run_point *point)
{
    return vvi_sql_exec(
        store, NULL,
        "INSERT OR REPLACE INTO points(run, name, batch, epoch, train_seconds, value) "
        "VALUES(?,?,?,?,?,?)",
        "ttiirr", id, point->name, point->batch, point->epoch, point->train_seconds, point->value);
}

vv_status vv_run_store_rewind(vv_run_store *store, const char *id, int64_t batch)
{
    VV_TRY(vvi_sql_exec(store, NULL, "DELETE FROM evals WHERE run = ? AND batch > ?", "ti", id,
                        batch));
    return vvi_sql_exec(store, NULL, "DELETE FROM points WHERE run = ? AND batch > ?", "ti", id,
                        batch);
}

vv_status vv_run_store_tag(vv_run_store *store, const char *id, const char *tag, bool on)
{
    vv_str full = {0};
    VV_TRY(vv_run_store_find(store, id, &full));
    vv_status status = VV_OK;
    if (!tag[0] || strlen(tag) > 64 || strpbrk(tag, " \t\r\n,\"'"))
        status = vv_fail(VV_EINVAL,
                         "tag \"%s\": a tag is one word of at most 64 bytes, without "
                         "commas and quotes",
                         tag);
    if (status == VV_OK)
        status = vvi_sql_exec(store, NULL,
                              on ? "INSERT OR IGNORE INTO tags(run, tag) VALUES(?,?)"
                                 : "DELETE FROM tags WHERE run = ? AND tag = ?",
                              "tt", vv_str_text(&full), tag);
    vv_str_fini(&full);
    return status;
}

vv_status vv_run_store_note(vv_run_store *store, const char *id, const char *note)
{
    vv_str full = {0};
    VV_TRY(vv_run_store_find(store, id, &full));
    vv_status status = vvi_sql_exec(store, NULL, "UPDATE runs SET note = ? WHERE id = ?", "tt",
                                    note, vv_str_text(&full));
    vv_str_fini(&full);
    return status;
}

vv_status vv_run_store_delete(vv_run_store *store, const char *id)
{
    vv_str full = {0};
    VV_TRY(vv_run_store_find(store, id, &full));
    vv_status status =
        vvi_sql_exec(store, NULL, "DELETE FROM runs WHERE id = ?", "t", vv_str_text(&full));
    vv_str_fini(&full);
    return status;
}

/* ---- reading ---- */

static void read_row(vvi_sql *s, vv_run_row *row)
{
    for (int i = 0; i < vvi_run_column_count; i++) {
        char *at = (char *)row + vvi_run_columns[i].offset;
        const char *text;
        int64_t whole;
        double real;
        bool flag;
        switch (vvi_run_columns[i].kind) {
        case 't':
            text = vvi_sql_text(s, i);
            memcpy(at, &text, sizeof text);
            break;
        case 'i':
            whole = vvi_sql_int(s, i);
            memcpy(at, &whole, sizeof whole);
            break;
        case 'r':
            real = vvi_sql_real(s, i);
            memcpy(at, &real, sizeof real);
            break;
        default:
            flag = vvi_sql_int(s, i) != 0;
            memcpy(at, &flag, sizeof flag);
        }
    }
    if (strcmp(row->status, "running") == 0 && ((double)time(NULL) - row->seen > SILENT_SECONDS ||
                                                !vvi_process_alive(row->host, row->pid)))
        row->status = "killed";
}

/* light: recipe and command are left empty; they are most of a row. */
static vv_status select_runs(vvi_sql **out, vv_run_store *store, bool light, const char *behind,
                             const char *id)
{
    vv_str sql = {0};
    vv_str_add(&sql, "SELECT ");
    for (int i = 0; i < vvi_run_column_count; i++) {
        const char *name = vvi_run_columns[i].name;
        const bool empty = light && (strcmp(name, "recipe") == 0 || strcmp(name, "command") == 0);
        vv_str_addf(&sql, "%s%s", i ? "," : "", empty ? "''" : name);
    }
    vv_str_addf(&sql, " FROM runs %s", behind);
    vv_status status = vv_str_status(&sql);
    if (status == VV_OK)
        status = vvi_sql_prepare(out, store, vv_str_text(&sql), id ? "t" : "", id);
    vv_str_fini(&sql);
    return status;
}

static vv_status each_run(vv_run_store *store, bool light, const char *behind, const char *id,
                          vv_run_fn fn, void *ctx, int *count)
{
    vvi_sql *s;
    vv_run_row row;
    bool more = true;
    *count = 0;
    VV_TRY(select_runs(&s, store, light, behind, id));
    vv_status status = vvi_sql_step(s, &more);
    while (status == VV_OK && more) {
        read_row(s, &row);
        ++*count;
        if (!fn(ctx, &row))
            break;
        status = vvi_sql_step(s, &more);
    }
    vvi_sql_finish(s);
    return status;
}

vv_status vv_run_store_each(vv_run_store *store, vv_run_fn fn, void *ctx)
{
    int count;
    return each_run(store, false, "ORDER BY started, id", NULL, fn, ctx, &count);
}

vv_status vvi_runs_light(vv_run_store *store, double seen_from, vv_run_fn fn, void *ctx)
{
    int count;
    char behind[96] = "ORDER BY id";
    if (isfinite(seen_from))
        snprintf(behind, sizeof behind, "WHERE seen >= %.3f", seen_from);
    return each_run(store, true, behind, NULL, fn, ctx, &count);
}

vv_status vv_run_store_get(vv_run_store *store, const char *id, vv_run_fn fn, void *ctx)
{
    int count;
    VV_TRY(each_run(store, false, "WHERE id = ?", id, fn, ctx, &count));
    return count ? VV_OK : vv_fail(VV_ENOTFOUND, "there is no run \"%s\"", id);
}

/* ---- a run by what the user calls it ---- */

typedef struct ids {
    char **items;
    int count;
} ids;

static const char *id_at(const void *ctx, int i)
{
    return ((const ids *)ctx)->items[i];
}

static vv_status not_found(vv_run_store *store, const char *text)
{
    ids all = {NULL, 0};
    vvi_sql *s = NULL;
    bool more = false;
    vv_status status;
    VV_GO(vvi_sql_prepare(&s, store, "SELECT id FROM runs UNION SELECT name FROM runs", ""));
    for (;;) {
        VV_GO(vvi_sql_step(s, &more));
        if (!more)
            break;
        VV_GO(vv_realloc_array(&all.items, (size_t)all.count + 1, sizeof *all.items));
        VV_GO(vv_strdup(&all.items[all.count], vvi_sql_text(s, 0)));
        all.count++;
    }
    int nearest = vv_nearest(text, id_at, &all, all.count);
    status = nearest >= 0 ? vv_fail(VV_ENOTFOUND, "there is no run \"%s\"; did you mean \"%s\"?",
                                    text, all.items[nearest])
                          : vv_fail(VV_ENOTFOUND, "there is no run \"%s\"; the store has %s", text,
                                    all.count ? "others (vivace runs list)" : "none");
out:
    vvi_sql_finish(s);
    for (int i = 0; i < all.count; i++)
        vv_dealloc(all.items[i]);
    vv_dealloc(all.items);
    return status;
}

/* The first column of the first row; *count = rows, at most 2 are looked at. */
static vv_status lookup(vv_run_store *store, const char *sql, const char *text, vv_str *out,
                        int *count)
{
    vvi_sql *s;
    bool more = true;
    *count = 0;
    VV_TRY(vvi_sql_prepare(&s, store, sql, "t", text));
    vv_status status = VV_OK;
    while (status == VV_OK && more && *count < 2) {
        status = vvi_sql_step(s, &more);
        if (status != VV_OK || !more)
            break;
        if (++*count == 1)
            vv_str_add(out, vvi_sql_text(s, 0));
    }
    vvi_sql_finish(s);
    return status == VV_OK ? vv_str_status(out) : status;
}

vv_status vv_run_store_find(vv_run_store *store, const char *text, vv_str *out)
{
    int count;
    VV_TRY(lookup(store, "SELECT id FROM runs WHERE id = ?", text, out, &count));
    if (count)
        return VV_OK;
    VV_TRY(lookup(store, "SELECT id FROM runs WHERE name = ? ORDER BY started DESC LIMIT 1", text,
                  out, &count));
    if (count)
        return VV_OK;
    VV_TRY(lookup(store,
                  "SELECT id FROM runs WHERE substr(id, 1, length(?1)) = ?1 AND length(?1) > 2",
                  text, out, &count));
    if (count == 1)
        return VV_OK;
    vv_str_clear(out);
    return count ? vv_fail(VV_EINVAL, "several runs begin with \"%s\"; write more of the id", text)
                 : not_found(store, text);
}

/* ---- what belongs to a run ---- */

/* Calls `each` for every row until it says no. */
static vv_status each_of(vv_run_store *store, const char *sql, const char *id,
                         bool (*each)(void *call, vvi_sql *s), void *call)
{
    vvi_sql *s;
    bool more = true;
    VV_TRY(vvi_sql_prepare(&s, store, sql, "t", id));
    vv_status status = vvi_sql_step(s, &more);
    while (status == VV_OK && more && each(call, s))
        status = vvi_sql_step(s, &more);
    vvi_sql_finish(s);
    return status;
}

typedef struct method_call {
    bool (*fn)(void *ctx, const vv_run_method *);
    void *ctx;
} method_call;

static bool give_method(void *call, vvi_sql *s)
{
    const method_call *c = call;
    const vv_run_method method = {vvi_sql_text(s, 0), vvi_sql_text(s, 1)};
    return c->fn(c->ctx, &method);
}

vv_status vv_run_store_methods(vv_run_store *store, const char *id,
                               bool (*fn)(void *ctx, const vv_run_method *), void *ctx)
{
    method_call call = {fn, ctx};
    return each_of(store, "SELECT name, settings FROM methods WHERE run = ? ORDER BY position", id,
                   give_method, &call);
}

typedef struct setting_call {
    bool (*fn)(void *ctx, const vv_run_setting *);
    void *ctx;
} setting_call;

static bool give_setting(void *call, vvi_sql *s)
{
    const setting_call *c = call;
    const vv_run_setting setting = {vvi_sql_text(s, 0), vvi_sql_text(s, 1)};
    return c->fn(c->ctx, &setting);
}

vv_status vv_run_store_settings(vv_run_store *store, const char *id,
                                bool (*fn)(void *ctx, const vv_run_setting *), void *ctx)
{
    setting_call call = {fn, ctx};
    return each_of(store, "SELECT key, value FROM settings WHERE run = ? ORDER BY key", id,
                   give_setting, &call);
}

typedef struct eval_call {
    bool (*fn)(void *ctx, const vv_run_eval *);
    void *ctx;
} eval_call;

static bool give_eval(void *call, vvi_sql *s)
{
    const eval_call *c = call;
    const vv_run_eval eval = {.label = vvi_sql_text(s, 0),
                              .metric = vvi_sql_text(s, 1),
                              .higher_is_better = vvi_sql_int(s, 2) != 0,
                              .epoch = vvi_sql_int(s, 3),
                              .batch = vvi_sql_int(s, 4),
                              .sample = vvi_sql_int(s, 5),
                              .train_seconds = vvi_sql_real(s, 6),
                              .wall_seconds = vvi_sql_real(s, 7),
                              .value = vvi_sql_real(s, 8)};
    return c->fn(c->ctx, &eval);
}

vv_status vv_run_store_evals(vv_run_store *store, const char *id,
                             bool (*fn)(void *ctx, const vv_run_eval *), void *ctx)
{
    eval_call call = {fn, ctx};
    return each_of(store,
                   "SELECT label, metric, higher_is_better, epoch, batch, sample, train_seconds, "
                   "wall_seconds, value FROM evals WHERE run = ? ORDER BY label, metric, batch",
                   id, give_eval, &call);
}

typedef struct point_call {
    bool (*fn)(void *ctx, const vv_run_point *);
    void *ctx;
} point_call;

static bool give_point(void *call, vvi_sql *s)
{
    const point_call *c = call;
    const vv_run_point point = {vvi_sql_text(s, 0), vvi_sql_int(s, 1), vvi_sql_int(s, 2),
                                vvi_sql_real(s, 3), vvi_sql_real(s, 4)};
    return c->fn(c->ctx, &point);
}

vv_status vv_run_store_points(vv_run_store *store, const char *id,
                              bool (*fn)(void *ctx, const vv_run_point *), void *ctx)
{
    point_call call = {fn, ctx};
    return each_of(store,
                   "SELECT name, epoch, batch, train_seconds, value FROM points WHERE run = ? "
                   "ORDER BY name, batch",
                   id, give_point, &call);
}

typedef struct tag_call {
    bool (*fn)(void *ctx, const char *tag);
    void *ctx;
} tag_call;

static bool give_tag(void *call, vvi_sql *s)
{
    const tag_call *c = call;
    return c->fn(c->ctx, vvi_sql_text(s, 0));
}

vv_status vv_run_store_tags(vv_run_store *store, const char *id,
                            bool (*fn)(void *ctx, const char *tag), void *ctx)
{
    tag_call call = {fn, ctx};
    return each_of(store, "SELECT tag FROM tags WHERE run = ? ORDER BY tag", id, give_tag, &call);
}
