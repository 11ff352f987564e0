/* jsonl.c - the jsonl logger: one line per number,
 * {"name","value","epoch","batch","sample","seconds"}. A resumed run first cuts off what lies after
 * the checkpoint it starts from, so that no number stands there twice. */
#include "jsonl.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vivace/memory.h>

static const vv_field fields[] = {
    {"path", "The file; relative to the run's folder.", VV_FIELD_STRING,
     offsetof(vv_jsonl_opts, path), "metrics.jsonl", 0, 0, NULL},
    {.name = NULL},
};

typedef struct jsonl {
    FILE *out;
    char *path;
    bool resumed;
    vv_str early; /* lines from before the position is known */
} jsonl;

static vv_status failed(const jsonl *j, const char *what)
{
    return vv_fail(VV_EIO, "logger jsonl: cannot %s %s: %s", what, j->path, strerror(errno));
}

static vv_status jsonl_open(vv_logger *logger, const char *run_dir, bool resumed)
{
    const vv_jsonl_opts *opts = logger->opts;
    jsonl *j = logger->self;
    const char *name = opts->path && opts->path[0] ? opts->path : "metrics.jsonl";
    j->resumed = resumed;
    return vv_run_path(&j->path, run_dir, name);
}

/* Whether a line belongs to what the checkpoint has seen. */
static bool before(const char *line, const vv_timestamp *now)
{
    const char *epoch = strstr(line, "\"epoch\":"), *batch = strstr(line, "\"batch\":");
    if (!epoch || !batch || line[strlen(line) - 1] != '\n')
        return false;
    int64_t e = strtoll(epoch + 8, NULL, 10), b = strtoll(batch + 8, NULL, 10);
    return b < now->batch || (b == now->batch && e <= now->epoch);
}

/* Length of the part to keep. */
static vv_status find_cut(const jsonl *j, const vv_timestamp *now, long *cut)
{
    *cut = 0;
    FILE *in = fopen(j->path, "r");
    if (!in)
        return errno == ENOENT ? VV_OK : failed(j, "read");
    char line[4096]; /* far longer than a line with any sensible name */
    while (fgets(line, sizeof line, in) && before(line, now))
        *cut = ftell(in);
    fclose(in);
    return VV_OK;
}

static vv_status start(jsonl *j, const vv_state *s)
{
    long cut = 0;
    if (j->resumed)
        VV_TRY(find_cut(j, &s->time, &cut));
    j->out = fopen(j->path, j->resumed ? "a" : "w");
    if (!j->out)
        return failed(j, "write");
    if (j->resumed && ftruncate(fileno(j->out), (off_t)cut))
        return failed(j, "cut");
    if (!j->resumed && j->early.length && fputs(j->early.text, j->out) < 0)
        return failed(j, "write");
    vv_str_fini(&j->early);
    return VV_OK;
}

static vv_status jsonl_metric(vv_logger *logger, const vv_state *s, const char *name, double value)
{
    jsonl *j = logger->self;
    vv_str line = {0};
    vv_str_add(&line, "{\"name\":");
    vv_str_add_json(&line, name);
    if (isfinite(value))
        vv_str_addf(&line, ",\"value\":%.17g", value);
    else
        vv_str_add(&line, ",\"value\":null");
    vv_str_addf(&line, ",\"epoch\":%lld,\"batch\":%lld,\"sample\":%lld,\"seconds\":%.6f}\n",
                (long long)s->time.epoch, (long long)s->time.batch, (long long)s->time.sample,
                s->time.total_seconds);
    vv_status status = vv_str_status(&line);
    if (status == VV_OK && !j->out) {
        vv_str_add(&j->early, line.text);
        status = vv_str_status(&j->early);
    } else if (status == VV_OK && fputs(line.text, j->out) < 0) {
        status = failed(j, "write");
    }
    vv_str_fini(&line);
    return status;
}

static vv_status jsonl_event(vv_logger *logger, vv_event event, const vv_state *s)
{
    jsonl *j = logger->self;
    bool flush =
        event == VV_EVENT_BATCH_END || event == VV_EVENT_EVAL_END || event == VV_EVENT_FIT_END;
    if (event == VV_EVENT_AFTER_LOAD && !j->out)
        return start(j, s);
    if (flush && j->out && fflush(j->out))
        return failed(j, "write");
    return VV_OK;
}

static void jsonl_close(vv_logger *logger)
{
    jsonl *j = logger->self;
    if (j->out)
        fclose(j->out);
    vv_dealloc(j->path);
    vv_str_fini(&j->early);
}

const vv_logger_desc vv_logger_jsonl = {
    .desc = {"logger", "jsonl", "Every logged number as a line of JSON in a file.", "", "any",
             fields, sizeof(vv_jsonl_opts)},
    .self_size = sizeof(jsonl),
    .open = jsonl_open,
    .metric = jsonl_metric,
    .event = jsonl_event,
    .close = jsonl_close,
};
