/* store_csv.c - runs from a table (RFC 4180) with a row a run: ours, MLflow's, W&B's, or any with
 * our columns' names; or from the log of one run with a row a moment, as Composer's loggers write
 * it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vivace/memory.h>

#include "base/number.h"
#include "runs/store.h"

enum { MOST_COLUMNS = 2000 };

typedef struct table {
    const char *path;
    char *at; /* what is not read yet */
    int line; /* of the row that was read last */
    int next_line;
    char **cells, **heads;
    int count, head_count;
    bool composer; /* its times are in hours */
} table;

/* Reads a cell in place and moves on; *last = it ends its row. */
static vv_status read_cell(table *t, char **out, bool *last)
{
    char *from = t->at, *to;
    bool quoted = *from == '"';
    *out = to = from = quoted ? from + 1 : from;
    for (;; from++) {
        if (!*from && quoted)
            return vv_fail(VV_EFORMAT, "%s: line %d: a quote is not closed", t->path, t->line);
        if (quoted && *from == '"') {
            if (from[1] != '"') {
                from++;
                break;
            }
            from++;
        } else if (!quoted && (!*from || *from == ',' || *from == '\n' || *from == '\r')) {
            break;
        }
        t->next_line += *from == '\n';
        *to++ = *from;
    }
    if (*from == '\r')
        from++;
    if (*from && *from != ',' && *from != '\n')
        return vv_fail(VV_EFORMAT, "%s: line %d: text after a closing quote", t->path, t->line);
    *last = *from != ',';
    t->next_line += *from == '\n';
    t->at = *from ? from + 1 : from;
    *to = '\0';
    return VV_OK;
}

/* *more = whether there was another row. */
static vv_status read_cells(table *t, bool *more)
{
    bool last = false;
    while (*t->at == '\n' || *t->at == '\r') {
        t->next_line += *t->at == '\n';
        t->at++;
    }
    t->count = 0;
    t->line = t->next_line;
    *more = *t->at != '\0';
    while (*more && !last) {
        if (t->count == MOST_COLUMNS)
            return vv_fail(VV_EFORMAT, "%s: line %d has more than %d columns", t->path, t->line,
                           (int)MOST_COLUMNS);
        VV_TRY(read_cell(t, &t->cells[t->count], &last));
        t->count++;
    }
    return VV_OK;
}

/* What MLflow's search_runs and its page, W&B's page and Composer's loggers call our columns. */
static const char *const aliases[][2] = {
    {"run_id", "id"},
    {"Run ID", "id"},
    {"tags.mlflow.runName", "name"},
    {"Name", "name"},
    {"run_name", "name"},
    {"Status", "status"},
    {"params.model", "model"},
    {"params.seed", "seed"},
    {"params.dataset", "dataset"},
    {"params.max_duration", "max_duration"},
    {"params.model_name", "model"},
    {"params.dataset_name", "dataset"},
    {"params.batch_size", "batch_size"},
    {"tags.mlflow.source.git.commit", "git_commit"},
    {"start_time", "started"},
    {"end_time", "ended"},
    {"Duration", "train_seconds"},
    {"metrics.time/train", "train_seconds"},
    {"metrics.time/total", "wall_seconds"},
    {"time/train", "train_seconds"},
    {"time/total", "wall_seconds"},
    {"metrics.wall_clock/train", "train_seconds"},
    {"metrics.wall_clock/total", "wall_seconds"},
    {"wall_clock/train", "train_seconds"},
    {"wall_clock/total", "wall_seconds"},
    {"metrics.throughput/samples_per_sec", "samples_per_second"},
    {"throughput/samples_per_sec", "samples_per_second"},
    {"State", "status"},
    {"ID", "id"},
    {"Runtime", "train_seconds"},
    {"Created", "started"},
    {"metrics.cost/usd", "usd"},
};

static int column_named(const char *name)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(aliases[i][0], name) == 0)
            name = aliases[i][1];
    for (int i = 0; i < vvi_run_column_count; i++)
        if (strcmp(vvi_run_columns[i].name, name) == 0)
            return i;
    return -1;
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* "2024-05-01 10:00:00", with T and fractions and zone or not (then UTC). */
static bool read_date(const char *text, double *out)
{
    struct tm when = {0};
    int year, month;
    double second = 0.0;
    if (sscanf(text, "%4d-%2d-%2d%*[ T]%2d:%2d:%lf", &year, &month, &when.tm_mday, &when.tm_hour,
               &when.tm_min, &second) < 3)
        return false;
    when.tm_year = year - 1900;
    when.tm_mon = month - 1;
    *out = (double)timegm(&when) + second;
    return true;
}

/* "1.5h", "27.0min", "12s": MLflow's durations; a bare number is in seconds. */
static bool read_number(const char *text, double *out)
{
    vvi_number number;
    const char *rest = vvi_number_read(&number, text);
    if (!rest)
        return false;
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1.0}, {"ms", 1e-3}, {"s", 1.0}, {"min", 60.0}, {"h", 3600.0}, {"d", 86400.0}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(rest, units[i].unit) == 0) {
            *out = number.value * units[i].seconds;
            return true;
        }
    return false;
}

/* SpeedMonitor's time/... are in hours, its older wall_clock/... in seconds, ours in seconds. */
static double unit_of(const table *t, const char *head)
{
    const bool time = starts(head, "time/") || starts(head, "metrics.time/");
    return t->composer && time ? 3600.0 : 1.0;
}

static vv_status set_column(vv_run_row *row, int i, const char *text, const char *head,
                            const table *t)
{
    const vvi_column *c = &vvi_run_columns[i];
    char *at = (char *)row + c->offset;
    double value = (double)NAN;
    if (!text[0])
        return VV_OK;
    if (c->kind == 't') {
        *(const char **)(void *)at = text[0] == '\'' && strchr("=+-@", text[1]) ? text + 1 : text;
        return VV_OK;
    }
    if (c->kind == 'b') {
        *(bool *)(void *)at = strcmp(text, "true") == 0 || strcmp(text, "True") == 0;
        return VV_OK;
    }
    bool date = strcmp(c->name, "started") == 0 || strcmp(c->name, "ended") == 0;
    if (!(date && read_date(text, &value)) && !read_number(text, &value))
        return vv_fail(VV_EFORMAT, "%s: line %d: %s: \"%s\" is no number", t->path, t->line,
                       c->name, text);
    if (c->kind == 'r')
        *(double *)(void *)at = value * unit_of(t, head);
    else if (fabs(value) <= 9007199254740992.0)
        *(int64_t *)(void *)at = (int64_t)value;
    else
        return vv_fail(VV_EFORMAT, "%s: line %d: %s: %s is too large", t->path, t->line, c->name,
                       text);
    return VV_OK;
}

/* "metrics.eval/accuracy", or Composer's "metrics/eval/MulticlassAccuracy", which MLflow calls
   "metrics.metrics/eval/MulticlassAccuracy". */
static bool metric_of(const char *head, char *label, char *metric, size_t bytes)
{
    static const char *const names[][2] = {
        {"MulticlassAccuracy", "accuracy"},         {"Accuracy", "accuracy"},
        {"CrossEntropy", "cross_entropy"},          {"LanguageCrossEntropy", "cross_entropy"},
        {"LanguagePerplexity", "perplexity"},       {"MaskedAccuracy", "masked_accuracy"},
        {"MIoU", "miou"},
    };
    const bool dotted = starts(head, "metrics.");
    head += dotted ? 8 : 0;
    const bool named = starts(head, "metrics/");
    head += named ? 8 : 0;
    if (!dotted && !named)
        return false;
    const char *slash = strchr(head, '/');
    snprintf(label, bytes, "%.*s", slash ? (int)(slash - head) : 4, slash ? head : "eval");
    snprintf(metric, bytes, "%s", slash ? slash + 1 : head);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(metric, names[i][0]) == 0)
            snprintf(metric, bytes, "%s", names[i][1]);
    return true;
}

static bool less_is_better(const char *metric)
{
    return strstr(metric, "loss") || strstr(metric, "entropy") || strstr(metric, "perplexity") ||
           strstr(metric, "error") || strstr(metric, "Loss") || strstr(metric, "Entropy") ||
           strstr(metric, "Perplexity") || strstr(metric, "Error");
}

static void lower(const char **text)
{
    static const char *const from[] = {"FINISHED", "FAILED",  "KILLED", "RUNNING",
                                       "SCHEDULED", "finished", "crashed"};
    static const char *const to[] = {"done",   "failed", "killed", "killed",
                                     "killed", "done",   "failed"};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
        if (strcmp(*text, from[i]) == 0)
            *text = to[i];
    if (!(*text)[0] || strcmp(*text, "running") == 0)
        *text = (*text)[0] ? "killed" : "done";
}

static vv_status put_cells(vv_run_store *store, const table *t, const vv_run_row *row)
{
    char **heads = t->heads;
    vv_run_setting *settings;
    int count = 0;
    VV_TRY(vv_alloc_array(&settings, (size_t)t->count + 1, sizeof *settings));
    vv_status status = VV_OK;
    for (int i = 0; i < t->count && status == VV_OK; i++) {
        char label[128], metric[128];
        double value;
        if (t->cells[i][0] && (strncmp(heads[i], "params.", 7) == 0))
            settings[count++] = (vv_run_setting){heads[i] + 7, t->cells[i]};
        if (column_named(heads[i]) >= 0 || !metric_of(heads[i], label, metric, sizeof label) ||
            !read_number(t->cells[i], &value))
            continue;
        const vv_run_eval eval = {label,
                                  metric,
                                  !less_is_better(metric),
                                  row->epochs,
                                  row->batches > 0 ? row->batches : 0,
                                  row->samples,
                                  row->train_seconds,
                                  row->wall_seconds,
                                  value};
        status = vv_run_store_add_eval(store, row->id, &eval);
    }
    if (status == VV_OK)
        status = vv_run_store_set_settings(store, row->id, settings, count);
    vv_dealloc(settings);
    return status;
}

/* The column "methods": names with spaces or commas between. */
static vv_status put_names(vv_run_store *store, const char *id, char *names)
{
    vv_run_method methods[64];
    int count = 0;
    char *rest = NULL;
    for (char *name = strtok_r(names, " ,;+", &rest); name && count < 64;
         name = strtok_r(NULL, " ,;+", &rest))
        methods[count++] = (vv_run_method){name, "{}"};
    return vv_run_store_set_methods(store, id, methods, count);
}

static vv_status set_columns(vv_run_row *row, const table *t)
{
    if (t->count != t->head_count)
        return vv_fail(VV_EFORMAT, "%s: line %d has %d columns, the head %d", t->path, t->line,
                       t->count, t->head_count);
    for (int i = 0; i < t->count; i++) {
        const int column = column_named(t->heads[i]);
        if (column >= 0)
            VV_TRY(set_column(row, column, t->cells[i], t->heads[i], t));
    }
    return VV_OK;
}

static vv_status put_row(vv_run_store *store, const table *t)
{
    vv_run_row row;
    char made[64];
    vv_run_row_init(&row);
    VV_TRY(set_columns(&row, t));
    if (!row.id[0] && !row.name[0])
        return vv_fail(VV_EFORMAT, "%s: line %d: neither id nor name", t->path, t->line);
    if (!row.id[0]) {
        snprintf(made, sizeof made, "%.40s-line%d", row.name, t->line);
        row.id = made;
    }
    if (!row.source[0])
        row.source = "csv";
    lower(&row.status);
    if (isnan(row.usd) && row.usd_per_hour > 0.0)
        row.usd = row.train_seconds / 3600.0 * row.usd_per_hour;
    VV_TRY(vv_run_store_put(store, &row));
    VV_TRY(vv_run_store_rewind(store, row.id, -2));
    VV_TRY(put_cells(store, t, &row));
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->heads[i], "methods") == 0 || strcmp(t->heads[i], "params.algorithms") == 0)
            VV_TRY(put_names(store, row.id, t->cells[i]));
    return VV_OK;
}

/* ---- the log of one run ---- */

typedef struct moment {
    vv_run_row row; /* its numbers as they were said last */
    int64_t epoch, batch;
} moment;

static bool is_epoch(const char *head)
{
    return strcmp(head, "epoch") == 0 || strcmp(head, "trainer/epoch") == 0 ||
           strcmp(head, "time/epoch") == 0;
}

static bool is_batch(const char *head)
{
    static const char *const names[] = {"batch", "step", "Step", "trainer/global_step",
                                        "trainer/batch_idx", "time/batch"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(head, names[i]) == 0)
            return true;
    return false;
}

/* A log has a column of batches, and numbers named as loggers do, with a slash. */
static bool is_log(const table *t)
{
    bool batch = false, metric = false;
    for (int i = 0; i < t->head_count; i++) {
        batch = batch || is_batch(t->heads[i]);
        metric = metric || starts(t->heads[i], "metrics/") || starts(t->heads[i], "loss/");
    }
    return batch && metric;
}

static bool whole_of(const char *text, int64_t *out)
{
    double value;
    if (!read_number(text, &value) || fabs(value) > 9007199254740992.0)
        return false;
    *out = (int64_t)value;
    return true;
}

static vv_status put_moment(vv_run_store *store, const table *t, const char *id, moment *m)
{
    VV_TRY(set_columns(&m->row, t));
    for (int i = 0; i < t->count; i++)
        if (is_epoch(t->heads[i]))
            (void)whole_of(t->cells[i], &m->epoch);
        else if (is_batch(t->heads[i]))
            (void)whole_of(t->cells[i], &m->batch);
    for (int i = 0; i < t->count; i++) {
        char label[128], metric[128];
        double value;
        if (column_named(t->heads[i]) >= 0 || is_epoch(t->heads[i]) || is_batch(t->heads[i]) ||
            !strchr(t->heads[i], '/') || !read_number(t->cells[i], &value))
            continue;
        if (metric_of(t->heads[i], label, metric, sizeof label) && strcmp(label, "train") != 0) {
            const vv_run_eval eval = {label, metric, !less_is_better(metric), m->epoch, m->batch,
                                      -1, m->row.train_seconds, m->row.wall_seconds, value};
            VV_TRY(vv_run_store_add_eval(store, id, &eval));
        } else {
            const vv_run_point point = {t->heads[i], m->epoch, m->batch, m->row.train_seconds,
                                        value};
            VV_TRY(vv_run_store_add_point(store, id, &point));
            if (strcmp(t->heads[i], "loss/train/total") == 0)
                m->row.loss = value;
        }
    }
    return VV_OK;
}

/* The run is called what the file is. */
static vv_status import_log(vv_run_store *store, table *t, int *count)
{
    const char *base = strrchr(t->path, '/') ? strrchr(t->path, '/') + 1 : t->path;
    char id[128];
    moment m = {.batch = 0};
    vv_run_row row;
    bool more;
    snprintf(id, sizeof id, "%.*s", (int)strcspn(base, "."), base);
    if (!id[0])
        snprintf(id, sizeof id, "log");
    vv_run_row_init(&row);
    row.id = row.name = id;
    row.source = "composer";
    row.status = "done";
    vv_run_row_init(&m.row);
    VV_TRY(vv_run_store_put(store, &row));
    VV_TRY(vv_run_store_rewind(store, id, -2));
    for (;;) {
        VV_TRY(read_cells(t, &more));
        if (!more)
            break;
        VV_TRY(put_moment(store, t, id, &m));
        row.epochs = m.epoch;
        row.batches = m.batch;
        row.train_seconds = m.row.train_seconds;
        row.wall_seconds = m.row.wall_seconds;
        row.samples_per_second = m.row.samples_per_second;
        row.loss = m.row.loss;
        row.progress = 1.0;
    }
    ++*count;
    return vv_run_store_put(store, &row);
}

/* ---- a table ---- */

static vv_status import_rows(vv_run_store *store, table *t, int *count)
{
    bool more;
    for (;;) {
        VV_TRY(read_cells(t, &more));
        if (!more)
            return VV_OK;
        VV_TRY(put_row(store, t));
        ++*count;
    }
}

vv_status vvi_import_csv(vv_run_store *store, const char *path, const char *text, size_t length,
                         int *count)
{
    table t = {.path = path, .next_line = 1};
    char *copy = NULL;
    vv_status status;
    bool more = false, known = false;
    VV_GO(vv_alloc_array(&t.cells, MOST_COLUMNS, sizeof *t.cells));
    VV_GO(vv_alloc_array(&t.heads, MOST_COLUMNS, sizeof *t.heads));
    VV_GO(vv_alloc(&copy, length + 1));
    memcpy(copy, text, length);
    t.at = copy;
    VV_GO(read_cells(&t, &more));
    t.head_count = t.count;
    for (int i = 0; i < t.head_count; i++) {
        t.heads[i] = t.cells[i];
        known = known || column_named(t.heads[i]) == 0 || column_named(t.heads[i]) == 1;
        t.composer = t.composer || starts(t.heads[i], "metrics/") ||
                     starts(t.heads[i], "metrics.metrics/");
    }
    if (known)
        VV_GO(import_rows(store, &t, count));
    else if (is_log(&t))
        VV_GO(import_log(store, &t, count));
    else
        VV_GO(vv_fail(VV_EFORMAT,
                      "%s: no table of runs: its first line names neither id, run_id nor name; "
                      "nor is it a log with batch and metrics/...",
                      path));
out:
    vv_dealloc(t.cells);
    vv_dealloc(t.heads);
    vv_dealloc(copy);
    return status;
}
