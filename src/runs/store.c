/* store.c - the run store's file: opening, schema, statements, writing. */
#include "runs/store.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vivace/memory.h>

#include "base/file.h"
#include "vvi_config.h"

#define CHAR_t 't'
#define CHAR_i 'i'
#define CHAR_r 'r'
#define CHAR_b 'b'
#define COLUMN(name, kind) {#name, CHAR_##kind, offsetof(vv_run_row, name)},
const vvi_column vvi_run_columns[] = {VV_RUN_COLUMNS(COLUMN)};
const int vvi_run_column_count = (int)(sizeof vvi_run_columns / sizeof vvi_run_columns[0]);

void vv_run_row_init(vv_run_row *row)
{
#define NOT_KNOWN_t ""
#define NOT_KNOWN_i (-1)
#define NOT_KNOWN_r ((double)NAN)
#define NOT_KNOWN_b false
#define NOT_KNOWN(name, kind) row->name = NOT_KNOWN_##kind;
    VV_RUN_COLUMNS(NOT_KNOWN)
}

bool vvi_process_alive(const char *host, int64_t pid)
{
    char here[256] = "";
    if (pid <= 0 || gethostname(here, sizeof here - 1) != 0 || strcmp(here, host) != 0)
        return true;
    return kill((pid_t)pid, 0) == 0 || errno != ESRCH;
}

bool vv_run_store_available(void)
{
    return VVI_HAVE_SQLITE != 0;
}

#if VVI_HAVE_SQLITE
#include <sqlite3.h>

/* Statements that were used lately: to compile one takes longer than to run it for one run. */
enum { KEPT_STATEMENTS = 24 };
typedef struct kept_statement {
    sqlite3_stmt *stmt;
    bool busy;
} kept_statement;

struct vv_run_store {
    sqlite3 *db;
    char *path;
    kept_statement kept[KEPT_STATEMENTS];
    int next; /* to give way */
};
struct vvi_sql {
    vv_run_store *store;
    sqlite3_stmt *stmt;
};

static vv_status trouble(const vv_run_store *store)
{
    int code = sqlite3_errcode(store->db) & 0xff;
    if (code == SQLITE_NOMEM)
        return vv_fail(VV_ENOMEM, "%s: out of memory", store->path);
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        return vv_fail(VV_EFORMAT, "%s is no run store, or is damaged: %s", store->path,
                       sqlite3_errmsg(store->db));
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return vv_fail(VV_EIO, "%s: another process has held the store for long; try again",
                       store->path);
    return vv_fail(VV_EIO, "%s: %s", store->path, sqlite3_errmsg(store->db));
}

/* ---- statements ---- */

static int bind(sqlite3_stmt *stmt, int at, char kind, const void *value)
{
    double real;
    int64_t whole;
    bool flag;
    switch (kind) {
    case 't': {
        const char *text = *(const char *const *)value;
        return sqlite3_bind_text(stmt, at, text ? text : "", -1, SQLITE_TRANSIENT);
    }
    case 'r':
        memcpy(&real, value, sizeof real);
        return isnan(real) ? sqlite3_bind_null(stmt, at) : sqlite3_bind_double(stmt, at, real);
    case 'i':
        memcpy(&whole, value, sizeof whole);
        return sqlite3_bind_int64(stmt, at, whole);
    default:
        memcpy(&flag, value, sizeof flag);
        return sqlite3_bind_int(stmt, at, flag);
    }
}

static int bind_all(sqlite3_stmt *stmt, const char *kinds, va_list list)
{
    int code = SQLITE_OK;
    for (int i = 0; kinds[i] && code == SQLITE_OK; i++) {
        if (kinds[i] == 't') {
            const char *text = va_arg(list, const char *);
            code = bind(stmt, i + 1, 't', &text);
        } else if (kinds[i] == 'r') {
            double real = va_arg(list, double);
            code = bind(stmt, i + 1, 'r', &real);
        } else if (kinds[i] == 'i') {
            int64_t whole = va_arg(list, int64_t);
            code = bind(stmt, i + 1, 'i', &whole);
        } else {
            bool flag = va_arg(list, int) != 0;
            code = bind(stmt, i + 1, 'b', &flag);
        }
    }
    return code;
}

/* One that is kept and not in use, else a new one. */
static int statement(sqlite3_stmt **out, vv_run_store *store, const char *sql)
{
    for (int i = 0; i < KEPT_STATEMENTS; i++) {
        kept_statement *kept = &store->kept[i];
        if (kept->stmt && !kept->busy && strcmp(sqlite3_sql(kept->stmt), sql) == 0) {
            kept->busy = true;
            *out = kept->stmt;
            return SQLITE_OK;
        }
    }
    const int code = sqlite3_prepare_v2(store->db, sql, -1, out, NULL);
    for (int i = 0; i < KEPT_STATEMENTS && code == SQLITE_OK && *out; i++) {
        kept_statement *kept = &store->kept[store->next];
        store->next = (store->next + 1) % KEPT_STATEMENTS;
        if (kept->busy)
            continue;
        sqlite3_finalize(kept->stmt);
        *kept = (kept_statement){*out, true};
        break;
    }
    return code;
}

static void let_go(vv_run_store *store, sqlite3_stmt *stmt)
{
    for (int i = 0; i < KEPT_STATEMENTS; i++)
        if (stmt && store->kept[i].stmt == stmt) {
            sqlite3_reset(stmt);
            sqlite3_clear_bindings(stmt);
            store->kept[i].busy = false;
            return;
        }
    sqlite3_finalize(stmt);
}

static vv_status prepare(vvi_sql **out, vv_run_store *store, const char *sql, const char *kinds,
                         va_list list)
{
    vvi_sql *s;
    *out = NULL;
    VV_TRY(vv_alloc(&s, sizeof *s));
    s->store = store;
    if (statement(&s->stmt, store, sql) != SQLITE_OK ||
        bind_all(s->stmt, kinds, list) != SQLITE_OK) {
        vv_status status = trouble(store);
        vvi_sql_finish(s);
        return status;
    }
    *out = s;
    return VV_OK;
}

vv_status vvi_sql_prepare(vvi_sql **out, vv_run_store *store, const char *sql, const char *kinds,
                          ...)
{
    va_list list;
    va_start(list, kinds);
    vv_status status = prepare(out, store, sql, kinds, list);
    va_end(list);
    return status;
}

vv_status vvi_sql_step(vvi_sql *s, bool *row)
{
    int code = sqlite3_step(s->stmt);
    *row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? VV_OK : trouble(s->store);
}

const char *vvi_sql_text(vvi_sql *s, int column)
{
    const unsigned char *text = sqlite3_column_text(s->stmt, column);
    return text ? (const char *)text : "";
}

int64_t vvi_sql_int(vvi_sql *s, int column)
{
    return sqlite3_column_int64(s->stmt, column);
}

double vvi_sql_real(vvi_sql *s, int column)
{
    return sqlite3_column_type(s->stmt, column) == SQLITE_NULL
               ? (double)NAN
               : sqlite3_column_double(s->stmt, column);
}

void vvi_sql_finish(vvi_sql *s)
{
    if (!s)
        return;
    let_go(s->store, s->stmt);
    vv_dealloc(s);
}

vv_status vvi_sql_exec(vv_run_store *store, int *changed, const char *sql, const char *kinds, ...)
{
    vvi_sql *s;
    bool row;
    va_list list;
    va_start(list, kinds);
    vv_status status = prepare(&s, store, sql, kinds, list);
    va_end(list);
    if (status == VV_OK)
        status = vvi_sql_step(s, &row);
    if (changed)
        *changed = sqlite3_changes(store->db);
    vvi_sql_finish(s);
    return status;
}

static vv_status script(vv_run_store *store, const char *sql)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? VV_OK : trouble(store);
}

/* ---- schema ---- */

static const char *const tables =
    "CREATE TABLE methods(run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " position INTEGER NOT NULL, name TEXT NOT NULL, settings TEXT NOT NULL,"
    " PRIMARY KEY(run, position)) WITHOUT ROWID;"
    "CREATE INDEX methods_by_name ON methods(name, run);"
    "CREATE TABLE settings(run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY(run, key)) WITHOUT ROWID;"
    "CREATE TABLE evals(run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " label TEXT NOT NULL, metric TEXT NOT NULL, batch INTEGER NOT NULL, epoch INTEGER,"
    " sample INTEGER, train_seconds REAL, wall_seconds REAL, value REAL,"
    " higher_is_better INTEGER NOT NULL, PRIMARY KEY(run, label, metric, batch)) WITHOUT ROWID;"
    "CREATE TABLE points(run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " name TEXT NOT NULL, batch INTEGER NOT NULL, epoch INTEGER, train_seconds REAL, value REAL,"
    " PRIMARY KEY(run, name, batch)) WITHOUT ROWID;"
    "CREATE TABLE tags(run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,"
    " tag TEXT NOT NULL, PRIMARY KEY(run, tag)) WITHOUT ROWID;";

static const char *sql_type(char kind)
{
    return kind == 't'   ? "TEXT NOT NULL DEFAULT ''"
           : kind == 'r' ? "REAL"
           : kind == 'i' ? "INTEGER NOT NULL DEFAULT -1"
                         : "INTEGER NOT NULL DEFAULT 0";
}

static vv_status create(vv_run_store *store)
{
    vv_str sql = {0};
    vv_str_add(&sql, "CREATE TABLE runs(");
    for (int i = 0; i < vvi_run_column_count; i++)
        vv_str_addf(&sql, "%s%s %s%s", i ? ", " : "", vvi_run_columns[i].name,
                    sql_type(vvi_run_columns[i].kind), i ? "" : " PRIMARY KEY");
    vv_str_addf(&sql, ") WITHOUT ROWID;CREATE INDEX runs_by_set ON runs(dataset, model);%s",
                tables);
    vv_status status = vv_str_status(&sql);
    if (status == VV_OK)
        status = script(store, vv_str_text(&sql));
    vv_str_fini(&sql);
    return status;
}

/* A column of this version that an older store lacks. */
static vv_status add_missing_columns(vv_run_store *store)
{
    for (int i = 0; i < vvi_run_column_count; i++) {
        const vvi_column *c = &vvi_run_columns[i];
        vvi_sql *s;
        bool row = false;
        VV_TRY(vvi_sql_prepare(&s, store, "SELECT 1 FROM pragma_table_info('runs') WHERE name = ?",
                               "t", c->name));
        vv_status status = vvi_sql_step(s, &row);
        vvi_sql_finish(s);
        VV_TRY(status);
        if (row)
            continue;
        vv_str sql = {0};
        vv_str_addf(&sql, "ALTER TABLE runs ADD COLUMN %s %s", c->name, sql_type(c->kind));
        status =
            vv_str_status(&sql) == VV_OK ? script(store, vv_str_text(&sql)) : vv_str_status(&sql);
        vv_str_fini(&sql);
        VV_TRY(status);
    }
    return VV_OK;
}

static vv_status version_of(vv_run_store *store, int64_t *out)
{
    vvi_sql *s;
    bool row = false;
    VV_TRY(vvi_sql_prepare(&s, store, "PRAGMA user_version", ""));
    vv_status status = vvi_sql_step(s, &row);
    *out = row ? vvi_sql_int(s, 0) : 0;
    vvi_sql_finish(s);
    return status;
}

/* Version 0 is an empty file. A step of each later version will stand here, oldest first; columns
   that a version adds need none. */
static vv_status migrate(vv_run_store *store, bool write)
{
    int64_t version;
    VV_TRY(version_of(store, &version));
    if (version > VVI_STORE_VERSION)
        return vv_fail(VV_EUNSUPPORTED,
                       "%s was written by a newer Vivace (store version %lld, this "
                       "one knows %d); use that one",
                       store->path, (long long)version, (int)VVI_STORE_VERSION);
    if (!write)
        return version == VVI_STORE_VERSION
                   ? VV_OK
                   : vv_fail(VV_EFORMAT, "%s is no run store", store->path);
    VV_TRY(script(store, "BEGIN IMMEDIATE"));
    vv_status status = version_of(store, &version); /* another process may have been first */
    if (status == VV_OK && version == 0)
        status = create(store);
    else if (status == VV_OK)
        status = add_missing_columns(store);
    if (status == VV_OK) /* who watches the store asks for what was heard of lately */
        status = script(store, "CREATE INDEX IF NOT EXISTS runs_by_seen ON runs(seen)");
    if (status == VV_OK)
        status = script(store, "PRAGMA user_version = 1");
    if (status == VV_OK)
        return script(store, "COMMIT");
    vv_run_store_rollback(store);
    return status;
}

vv_status vv_run_store_open(vv_run_store **out, const char *path, bool write)
{
    vv_run_store *store;
    *out = NULL;
    if (!write && !vvi_exists(path))
        return vv_fail(VV_ENOTFOUND,
                       "%s: there is no run store here; trainings make one beside "
                       "their runs' folders, or name it with --db",
                       path);
    VV_TRY(vv_alloc(&store, sizeof *store));
    vv_status status = vv_strdup(&store->path, path);
    if (status == VV_OK &&
        sqlite3_open_v2(path, &store->db,
                        write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
                              : SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        status = store->db ? trouble(store) : vv_fail(VV_ENOMEM, "%s: out of memory", path);
    if (status == VV_OK) {
        sqlite3_busy_timeout(store->db, 10000);
        if (write) /* readers never wait for the writer; a crash loses at most the last second */
            status = script(store, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;");
    }
    if (status == VV_OK)
        status = script(store, "PRAGMA foreign_keys = ON");
    if (status == VV_OK)
        status = migrate(store, write);
    if (status != VV_OK) {
        vv_run_store_close(store);
        return status;
    }
    *out = store;
    return VV_OK;
}

void vv_run_store_close(vv_run_store *store)
{
    if (!store)
        return;
    for (int i = 0; i < KEPT_STATEMENTS; i++)
        sqlite3_finalize(store->kept[i].stmt);
    sqlite3_close_v2(store->db);
    vv_dealloc(store->path);
    vv_dealloc(store);
}

/* ---- writing ---- */

vv_status vv_run_store_begin(vv_run_store *store)
{
    return script(store, "BEGIN IMMEDIATE");
}

vv_status vv_run_store_commit(vv_run_store *store)
{
    return script(store, "COMMIT");
}

void vv_run_store_rollback(vv_run_store *store)
{
    if (!sqlite3_get_autocommit(store->db))
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
}

/* A note is the reader's: a run that is written again keeps it. */
static vv_status put_sql(vv_str *sql)
{
    vv_str_add(sql, "INSERT INTO runs(");
    for (int i = 0; i < vvi_run_column_count; i++)
        vv_str_addf(sql, "%s%s", i ? "," : "", vvi_run_columns[i].name);
    vv_str_add(sql, ") VALUES(");
    for (int i = 0; i < vvi_run_column_count; i++)
        vv_str_add(sql, i ? ",?" : "?");
    vv_str_add(sql, ") ON CONFLICT(id) DO UPDATE SET ");
    for (int i = 1; i < vvi_run_column_count; i++) {
        const char *name = vvi_run_columns[i].name;
        if (strcmp(name, "note") != 0)
            vv_str_addf(sql, "%s%s=excluded.%s", i > 1 ? "," : "", name, name);
    }
    return vv_str_status(sql);
}

vv_status vv_run_store_put(vv_run_store *store, const vv_run_row *row)
{
    vv_str sql = {0};
    vvi_sql *s = NULL;
    bool more;
    vv_status status;
    if (!row->id || !row->id[0])
        return vv_fail(VV_EINVAL, "%s: a run needs an id", store->path);
    VV_GO(put_sql(&sql));
    VV_GO(vvi_sql_prepare(&s, store, vv_str_text(&sql), ""));
    for (int i = 0; i < vvi_run_column_count; i++)
        if (bind(s->stmt, i + 1, vvi_run_columns[i].kind, vvi_column_of(row, i)) != SQLITE_OK)
            VV_GO(trouble(store));
    VV_GO(vvi_sql_step(s, &more));
out:
    vvi_sql_finish(s);
    vv_str_fini(&sql);
    return status;
}

#else /* without SQLite: never reached beyond open */

struct vv_run_store {
    int none;
};

static vv_status none(void)
{
    return vv_fail(VV_EUNSUPPORTED, "this build has no run store; build it with SQLite "
                                    "(-Dsqlite=enabled)");
}

vv_status vv_run_store_open(vv_run_store **out, const char *path, bool write)
{
    (void)path, (void)write;
    *out = NULL;
    return none();
}

void vv_run_store_close(vv_run_store *store)
{
    (void)store;
}

vv_status vv_run_store_begin(vv_run_store *store)
{
    (void)store;
    return none();
}

vv_status vv_run_store_commit(vv_run_store *store)
{
    (void)store;
    return none();
}

void vv_run_store_rollback(vv_run_store *store)
{
    (void)store;
}

vv_status vv_run_store_put(vv_run_store *store, const vv_run_row *row)
{
    (void)store, (void)row;
    return none();
}

vv_status vvi_sql_prepare(vvi_sql **out, vv_run_store *store, const char *sql, const char *kinds,
                          ...)
{
    (void)store, (void)sql, (void)kinds;
    *out = NULL;
    return none();
}

vv_status vvi_sql_step(vvi_sql *s, bool *row)
{
    (void)s;
    *row = false;
    return none();
}

const char *vvi_sql_text(vvi_sql *s, int column)
{
    (void)s, (void)column;
    return "";
}

int64_t vvi_sql_int(vvi_sql *s, int column)
{
    (void)s, (void)column;
    return 0;
}

double vvi_sql_real(vvi_sql *s, int column)
{
    (void)s, (void)column;
    return (double)NAN;
}

void vvi_sql_finish(vvi_sql *s)
{
    (void)s;
}

vv_status vvi_sql_exec(vv_run_store *store, int *changed, const char *sql, const char *kinds, ...)
{
    (void)store, (void)sql, (void)kinds;
    if (changed)
        *changed = 0;
    return none();
}
#endif
