/* csv.c - the csv logger: a wide table, one row per step. The last row stays open (numbers of one
 * step come from several places), and is written again, in its place, until the next step begins.
 * A name seen for the first time adds a column at the right end: the file is then written anew
 * beside the old one and takes its place. Resuming cuts the rows behind the checkpoint and opens
 * the last one again. */
#include "csv.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vivace/memory.h>

static const vv_field fields[] = {
    {"path", "The file; relative to the run's folder.", VV_FIELD_STRING,
     offsetof(vv_csv_opts, path), "metrics.csv", 0, 0, NULL},
    {.name = NULL},
};

/* Every row starts with these. */
#define CLOCK_HEAD "epoch,batch,sample,seconds"
#define CLOCK_COLUMNS 4

typedef struct csv {
    FILE *out; /* NULL until the run's position is known */
    char *path;
    bool resumed;
    char **names; /* columns behind the clock, in order */
    double *cells;
    bool *filled;
    int count, next; /* next: the column that is likely to come */
    vv_timestamp time;       /* of the open row */
    bool open_row, dirty;    /* there is one; it differs from the file */
    bool header_dirty;       /* the file lacks columns */
    long row_start;          /* where the open row stands in the file */
} csv;

static vv_status failed(const csv *c, const char *what)
{
    return vv_fail(VV_EIO, "logger csv: cannot %s %s: %s", what, c->path, strerror(errno));
}

static vv_status csv_open(vv_logger *logger, const char *run_dir, bool resumed)
{
    const vv_csv_opts *opts = logger->opts;
    csv *c = logger->self;
    const char *name = opts->path && opts->path[0] ? opts->path : "metrics.csv";
    c->resumed = resumed;
    return vv_run_path(&c->path, run_dir, name);
}

/* ---- texts (RFC 4180) ---- */

static void add_quoted(vv_str *out, const char *text)
{
    bool quotes = strpbrk(text, ",\"") != NULL;
    vv_str_add(out, quotes ? "\"" : "");
    for (const char *p = text; *p; p++) {
        const char c = *p == '\n' || *p == '\r' ? ' ' : *p; /* the header is one line */
        vv_str_addn(out, &c, 1);
        if (c == '"')
            vv_str_addn(out, &c, 1);
    }
    vv_str_add(out, quotes ? "\"" : "");
}

static void add_header(const csv *c, vv_str *out)
{
    vv_str_add(out, CLOCK_HEAD);
    for (int i = 0; i < c->count; i++) {
        vv_str_add(out, ",");
        add_quoted(out, c->names[i]);
    }
    vv_str_add(out, "\n");
}

static void add_row(const csv *c, vv_str *out)
{
    vv_str_addf(out, "%lld,%lld,%lld,%.6f", (long long)c->time.epoch, (long long)c->time.batch,
                (long long)c->time.sample, c->time.total_seconds);
    for (int i = 0; i < c->count; i++) {
        vv_str_add(out, ",");
        if (c->filled[i] && isnan(c->cells[i]))
            vv_str_add(out, "nan");
        else if (c->filled[i]) /* infinities come out as "inf" */
            vv_str_addf(out, "%.17g", c->cells[i]);
    }
    vv_str_add(out, "\n");
}

/* ---- columns ---- */

static vv_status add_column(csv *c, const char *name, size_t length)
{
    size_t count = (size_t)c->count + 1;
    VV_TRY(vv_realloc_array(&c->names, count, sizeof *c->names));
    VV_TRY(vv_realloc_array(&c->cells, count, sizeof *c->cells));
    VV_TRY(vv_realloc_array(&c->filled, count, sizeof *c->filled));
    char *copy;
    VV_TRY(vv_alloc(&copy, length + 1));
    memcpy(copy, name, length);
    c->names[c->count] = copy;
    c->filled[c->count] = false;
    c->count++;
    return VV_OK;
}

static vv_status column_of(csv *c, const char *name, int *out)
{
    for (int i = 0; i < c->count; i++) {
        *out = (c->next + i) % c->count;
        if (strcmp(c->names[*out], name) == 0) {
            c->next = *out + 1;
            return VV_OK;
        }
    }
    *out = c->count;
    c->header_dirty = true;
    return add_column(c, name, strlen(name));
}

/* ---- the file ---- */

/* The next line without its end; false at the end of the file, and for a line without one (a killed
   writer's). */
static bool next_line(FILE *in, vv_str *line)
{
    char part[4096];
    vv_str_clear(line);
    while (fgets(part, sizeof part, in)) {
        size_t length = strlen(part);
        bool whole = length > 0 && part[length - 1] == '\n';
        vv_str_addn(line, part, length - whole);
        if (whole)
            return vv_str_status(line) == VV_OK;
    }
    return false;
}

/* Header and rows as they are, each row with empty cells for the columns it lacks. */
static vv_status widen(csv *c)
{
    vv_status status = VV_OK;
    vv_str temp = {0}, text = {0}, line = {0};
    FILE *in = NULL, *out = NULL;
    int old_columns = 0;
    vv_str_addf(&temp, "%s.tmp", c->path);
    add_header(c, &text);
    VV_GO(vv_str_status(&temp));
    VV_GO(vv_str_status(&text));
    in = fopen(c->path, "r");
    out = fopen(temp.text, "w");
    if (!in || !out || fputs(text.text, out) < 0) {
        status = failed(c, "write");
        goto out;
    }
    for (bool first = true; next_line(in, &line); first = false) {
        if (first) { /* one more column than commas outside quotes */
            bool quoted = false;
            for (const char *p = vv_str_text(&line); *p; p++) {
                quoted ^= *p == '"';
                old_columns += *p == ',' && !quoted;
            }
            old_columns -= CLOCK_COLUMNS - 1;
            continue;
        }
        if (ftell(in) > c->row_start && c->open_row)
            break; /* the open row comes anew */
        fputs(vv_str_text(&line), out);
        for (int i = old_columns; i < c->count; i++)
            fputc(',', out);
        fputc('\n', out);
    }
    VV_GO(vv_str_status(&line));
    c->row_start = ftell(out);
    if (ferror(in) || ferror(out) || fclose(out)) {
        out = NULL;
        status = failed(c, "write");
        goto out;
    }
    out = NULL;
    if (rename(temp.text, c->path)) {
        status = failed(c, "replace");
        goto out;
    }
    fclose(c->out);
    c->out = fopen(c->path, "r+");
    if (!c->out)
        status = failed(c, "open");
    else
        c->header_dirty = false;
out:
    if (in)
        fclose(in);
    if (out)
        fclose(out);
    if (status != VV_OK && vv_str_text(&temp)[0])
        unlink(temp.text);
    vv_str_fini(&temp);
    vv_str_fini(&text);
    vv_str_fini(&line);
    return status;
}

/* The open row as it is now, in its place at the end of the file. */
static vv_status write_row(csv *c)
{
    if (!c->out || !c->open_row || !c->dirty)
        return VV_OK;
    if (c->header_dirty)
        VV_TRY(widen(c));
    vv_str row = {0};
    add_row(c, &row);
    vv_status status = vv_str_status(&row);
    if (status == VV_OK &&
        (fseek(c->out, c->row_start, SEEK_SET) || fputs(row.text, c->out) < 0 || fflush(c->out) ||
         ftruncate(fileno(c->out), (off_t)c->row_start + (off_t)row.length)))
        status = failed(c, "write");
    vv_str_fini(&row);
    if (status == VV_OK)
        c->dirty = false;
    return status;
}

static vv_status close_row(csv *c)
{
    VV_TRY(write_row(c));
    if (c->open_row && c->out) {
        fseek(c->out, 0, SEEK_END);
        c->row_start = ftell(c->out);
    }
    c->open_row = false;
    memset(c->filled, 0, (size_t)c->count * sizeof *c->filled);
    return VV_OK;
}

/* ---- resuming ---- */

static bool starts_with(const char *text, const char *head)
{
    return strncmp(text, head, strlen(head)) == 0;
}

/* Columns of a header line that this logger wrote. */
static vv_status read_header(csv *c, const char *line)
{
    const char *p = line + strlen(CLOCK_HEAD);
    vv_str name = {0};
    vv_status status = VV_OK;
    while (status == VV_OK && *p == ',') {
        vv_str_clear(&name);
        bool quoted = *++p == '"';
        p += quoted;
        for (; *p && (quoted || *p != ','); p++) {
            if (quoted && *p == '"' && *++p != '"')
                break;
            vv_str_addn(&name, p, 1);
        }
        status = vv_str_status(&name);
        if (status == VV_OK)
            status = add_column(c, vv_str_text(&name), name.length);
    }
    vv_str_fini(&name);
    return status;
}

/* A row as the open one. */
static void read_row(csv *c, const char *line)
{
    char *p;
    c->time.epoch = strtoll(line, &p, 10);
    c->time.batch = strtoll(p + 1, &p, 10);
    c->time.sample = strtoll(p + 1, &p, 10);
    c->time.total_seconds = strtod(p + 1, &p);
    for (int i = 0; i < c->count && *p == ','; i++) {
        const char *cell = ++p;
        c->cells[i] = strtod(cell, &p);
        c->filled[i] = p != cell;
    }
    c->open_row = true;
}

/* Header, columns and rows of the file up to the clock; the row of `batch` itself is opened. */
static vv_status read_back(csv *c, int64_t batch, long *cut)
{
    *cut = 0;
    FILE *in = fopen(c->path, "r");
    if (!in)
        return errno == ENOENT ? VV_OK : failed(c, "read");
    vv_str text = {0};
    vv_status status = VV_OK;
    while (status == VV_OK && next_line(in, &text)) {
        const char *line = vv_str_text(&text);
        if (*cut == 0 && !starts_with(line, CLOCK_HEAD)) {
            status = vv_fail(VV_EFORMAT,
                             "logger csv: %s is not a table of this logger; move it, or set "
                             "loggers.csv.path", c->path);
        } else if (*cut == 0) {
            status = read_header(c, line);
        } else {
            const char *second = strchr(line, ',');
            int64_t row = second ? strtoll(second + 1, NULL, 10) : INT64_MAX;
            if (row > batch)
                break;
            if (row == batch) {
                read_row(c, line);
                c->row_start = *cut;
            }
        }
        *cut = ftell(in);
    }
    if (status == VV_OK)
        status = vv_str_status(&text);
    vv_str_fini(&text);
    fclose(in);
    return status;
}

/* What was logged before the position was known joins the row of that position. */
static vv_status start(csv *c, const vv_state *s)
{
    vv_status status = VV_OK;
    csv early = *c;
    long cut = 0;
    c->names = NULL;
    c->cells = NULL;
    c->filled = NULL;
    c->count = c->next = 0;
    c->open_row = false;
    c->time = s->time;
    if (c->resumed)
        VV_GO(read_back(c, s->time.batch, &cut));
    c->out = fopen(c->path, cut ? "r+" : "w+");
    if (!c->out || ftruncate(fileno(c->out), (off_t)cut)) {
        status = failed(c, c->out ? "cut" : "write");
        goto out;
    }
    if (!c->open_row)
        c->row_start = cut;
    if (!cut) {
        if (fputs(CLOCK_HEAD "\n", c->out) < 0 || fflush(c->out)) {
            status = failed(c, "write");
            goto out;
        }
        c->row_start = ftell(c->out);
    }
    for (int i = 0; i < early.count; i++) {
        int k;
        VV_GO(column_of(c, early.names[i], &k));
        c->cells[k] = early.cells[i];
        c->filled[k] = early.filled[i];
        c->open_row = c->dirty = true;
    }
out:
    for (int i = 0; i < early.count; i++)
        vv_dealloc(early.names[i]);
    vv_dealloc(early.names);
    vv_dealloc(early.cells);
    vv_dealloc(early.filled);
    return status;
}

/* ---- the logger ---- */

static vv_status csv_metric(vv_logger *logger, const vv_state *s, const char *name, double value)
{
    csv *c = logger->self;
    if (c->open_row && c->time.batch != s->time.batch)
        VV_TRY(close_row(c));
    if (!c->open_row) {
        c->open_row = true;
        c->time = s->time;
    }
    int k;
    VV_TRY(column_of(c, name, &k));
    c->cells[k] = value;
    c->filled[k] = c->dirty = true;
    return VV_OK;
}

static vv_status csv_event(vv_logger *logger, vv_event event, const vv_state *s)
{
    csv *c = logger->self;
    switch (event) {
    case VV_EVENT_AFTER_LOAD:
        return c->out ? VV_OK : start(c, s);
    case VV_EVENT_BATCH_CHECKPOINT: /* before a checkpoint may be written */
    case VV_EVENT_EPOCH_CHECKPOINT:
    case VV_EVENT_EVAL_END:
    case VV_EVENT_FIT_END:
        return write_row(c);
    default:
        return VV_OK;
    }
}

static void csv_close(vv_logger *logger)
{
    csv *c = logger->self;
    if (c->out) {
        /* Nobody can be told any more; the row was written when it mattered. */
        if (write_row(c) != VV_OK)
            vv_error_clear();
    }
    if (c->out)
        fclose(c->out);
    for (int i = 0; i < c->count; i++)
        vv_dealloc(c->names[i]);
    vv_dealloc(c->names);
    vv_dealloc(c->cells);
    vv_dealloc(c->filled);
    vv_dealloc(c->path);
}

const vv_logger_desc vv_logger_csv = {
    .desc = {"logger", "csv", "Logged numbers as a table: a row per step, a column per name.", "",
             "any", fields, sizeof(vv_csv_opts)},
    .self_size = sizeof(csv),
    .open = csv_open,
    .metric = csv_metric,
    .event = csv_event,
    .close = csv_close,
};
