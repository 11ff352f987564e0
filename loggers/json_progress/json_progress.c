/* json_progress.c - the json_progress logger: what `vivace train --json` prints. */
#include "json_progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const streams[] = {"stdout", "stderr", NULL};
static const vv_field fields[] = {
    {"stream", "Where to write.", VV_FIELD_CHOICE, offsetof(vv_json_progress_opts, stream), "stdout",
     0, 0, streams},
    {"interval", "Seconds between two lines about batches; 0 = every batch.", VV_FIELD_FLOAT,
     offsetof(vv_json_progress_opts, interval), "0", 0, 86400, NULL},
    {.name = NULL},
};

typedef struct json_progress {
    FILE *out;
    double last;
    vv_str metrics; /* of the evaluation that runs: ,"eval/accuracy":0.9 */
} json_progress;

static void add_number(vv_str *out, const char *key, double value)
{
    if (isfinite(value))
        vv_str_addf(out, ",\"%s\":%.9g", key, value);
    else
        vv_str_addf(out, ",\"%s\":null", key);
}

/* Ends and writes a line, and forgets it. */
static vv_status put(json_progress *p, vv_str *line)
{
    vv_str_add(line, "}\n");
    vv_status status = vv_str_status(line);
    if (status == VV_OK && (fputs(line->text, p->out) < 0 || fflush(p->out)))
        status = vv_fail(VV_EIO, "logger json_progress: cannot write to its stream; is it closed?");
    vv_str_fini(line);
    return status;
}

static void head(vv_str *line, const char *event, const vv_state *s)
{
    vv_str_addf(line,
                "{\"event\":\"%s\",\"epoch\":%lld,\"batch\":%lld", event, (long long)s->time.epoch,
                (long long)s->time.batch);
    if (s->axis.total_batches >= 0)
        vv_str_addf(line, ",\"batches\":%lld", (long long)s->axis.total_batches);
    else /* a budget of time */
        vv_str_add(line, ",\"batches\":null");
    vv_str_addf(line, ",\"sample\":%lld", (long long)s->time.sample);
    add_number(line, "progress", s->progress);
    add_number(line, "seconds", s->time.total_seconds);
}

static vv_status open_stream(vv_logger *logger, const char *run_dir, bool resumed)
{
    (void)run_dir;
    (void)resumed;
    const vv_json_progress_opts *opts = logger->opts;
    ((json_progress *)logger->self)->out = opts->stream == 1 ? stderr : stdout;
    return VV_OK;
}

static vv_status note_metric(vv_logger *logger, const vv_state *state, const char *name,
                             double value)
{
    (void)state;
    json_progress *p = logger->self;
    if (strncmp(name, "metrics/", 8) != 0)
        return VV_OK;
    vv_str_add(&p->metrics, ",");
    vv_str_add_json(&p->metrics, name + 8);
    if (isfinite(value))
        vv_str_addf(&p->metrics, ":%.17g", value);
    else
        vv_str_add(&p->metrics, ":null");
    return vv_str_status(&p->metrics);
}

static vv_status put_message(vv_logger *logger, const vv_state *s, const char *text)
{
    vv_str line = {0};
    head(&line, "message", s);
    vv_str_add(&line, ",\"text\":");
    vv_str_add_json(&line, text);
    return put(logger->self, &line);
}

static vv_status put_event(vv_logger *logger, vv_event event, const vv_state *s)
{
    const vv_json_progress_opts *opts = logger->opts;
    json_progress *p = logger->self;
    vv_str line = {0};
    switch (event) {
    case VV_EVENT_FIT_START:
        head(&line, "start", s);
        return put(p, &line);
    case VV_EVENT_BATCH_END:
        if (vv_clock() - p->last < opts->interval)
            return VV_OK;
        p->last = vv_clock();
        head(&line, "batch", s);
        add_number(&line, "loss", s->train_loss);
        add_number(&line, "lr", s->optimizer ? vv_optimizer_lr(s->optimizer, 0) : (double)NAN);
        return put(p, &line);
    case VV_EVENT_EPOCH_END:
        head(&line, "epoch", s);
        add_number(&line, "loss", s->train_loss);
        return put(p, &line);
    case VV_EVENT_EVAL_END:
        head(&line, "eval", s);
        vv_str_addf(&line, ",\"metrics\":{%s}", p->metrics.length ? p->metrics.text + 1 : "");
        vv_str_clear(&p->metrics);
        return put(p, &line);
    case VV_EVENT_FIT_END:
        head(&line, "end", s);
        return put(p, &line);
    default:
        return VV_OK;
    }
}

static void close_stream(vv_logger *logger)
{
    json_progress *p = logger->self;
    fflush(p->out);
    vv_str_fini(&p->metrics);
}

const vv_logger_desc vv_logger_json_progress = {
    .desc = {"logger", "json_progress", "Progress as JSON lines, for programs that watch a run.",
             "", "any", fields, sizeof(vv_json_progress_opts)},
    .self_size = sizeof(json_progress),
    .open = open_stream,
    .metric = note_metric,
    .event = put_event,
    .message = put_message,
    .close = close_stream,
};
