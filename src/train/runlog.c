/* runlog.c - log.jsonl in the run's folder: one JSON object per line for each batch, epoch and
 * evaluation; and the fan-out of numbers and sentences to loggers. A checkpoint remembers the log's
 * length, so that a resumed run's log is the one of a run that was never interrupted. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/number.h"
#include "trainer_impl.h"

void vvi_json_number(vv_str *out, double value)
{
    char text[40];
    vv_str_add(out, isfinite(value) ? vvi_number_text(value, text, sizeof text) : "null");
}

static vv_status io_failure(const char *what, const vv_trainer *t)
{
    return vv_fail(VV_EIO, "%s/log.jsonl: cannot %s: %s", t->run_dir, what, strerror(errno));
}

static vv_status put_line(vv_trainer *t, const vv_str *line)
{
    VV_TRY(vv_str_status(line));
    if (fwrite(line->text, 1, line->length, t->log) != line->length || fflush(t->log))
        return io_failure("write", t);
    return VV_OK;
}

/* Cuts the log where the checkpoint left it (a new run: at 0) and appends from there. */
vv_status vvi_log_open(vv_trainer *t)
{
    if (!t->run_dir || t->log)
        return VV_OK;
    vv_status status = VV_OK;
    char *path = NULL;
    VV_GO(vvi_path_join(&path, t->run_dir, "log.jsonl"));
    t->log = fopen(path, t->log_bytes >= 0 ? "ab" : "wb");
    if (!t->log) {
        status = io_failure("open", t);
        goto out;
    }
    struct stat info;
    if (t->log_bytes >= 0 && (fstat(fileno(t->log), &info) ||
                              (info.st_size > (off_t)t->log_bytes &&
                               ftruncate(fileno(t->log), (off_t)t->log_bytes)))) {
        status = io_failure("cut", t);
        goto out;
    }
    if (t->log_bytes >= 0 && info.st_size < (off_t)t->log_bytes)
        vv_log_message(&t->state,
                       "log.jsonl is shorter than the checkpoint says; lines are missing");
    if (t->early.length)
        VV_GO(put_line(t, &t->early));
    vv_str_fini(&t->early);
out:
    vv_dealloc(path);
    return status;
}

void vvi_log_close(vv_trainer *t)
{
    if (t->log)
        fclose(t->log);
    t->log = NULL;
}

vv_status vvi_log_sync(vv_trainer *t, int64_t *bytes)
{
    *bytes = -1;
    if (!t->log)
        return VV_OK;
    struct stat info;
    if (fflush(t->log) || fsync(fileno(t->log)) || fstat(fileno(t->log), &info))
        return io_failure("write", t);
    *bytes = (int64_t)info.st_size;
    return VV_OK;
}

/* What went wrong where no status could be returned. */
static vv_status deferred_failure(vv_trainer *t)
{
    vv_status status = t->deferred;
    if (status == VV_OK)
        return VV_OK;
    t->deferred = VV_OK;
    vv_fail(status, "%s", vv_str_text(&t->deferred_text));
    vv_str_clear(&t->deferred_text);
    return status;
}

static void defer(vv_trainer *t, vv_status status)
{
    if (status == VV_OK || t->deferred != VV_OK)
        return;
    t->deferred = status;
    vv_str_clear(&t->deferred_text);
    vv_str_add(&t->deferred_text, vv_error());
}

static vv_status tell_number(vv_trainer *t, const char *name, double value)
{
    for (int i = 0; i < t->loggers_open; i++)
        if (t->loggers[i]->type->metric)
            VV_TRY(vv_fail_within(
                t->loggers[i]->type->metric(t->loggers[i], &t->state, name, value), "logger %s",
                t->loggers[i]->type->desc.name));
    return VV_OK;
}

void vv_log_metric(vv_state *state, const char *name, double value)
{
    vv_trainer *t = state->trainer;
    if (state->dry)
        return;
    defer(t, tell_number(t, name, value));
    if (!t->run_dir)
        return;
    vv_str_add(&t->pending, ",");
    vv_str_add_json(&t->pending, name);
    vv_str_add(&t->pending, ":");
    vvi_json_number(&t->pending, value);
    defer(t, vv_str_status(&t->pending));
}

void vv_log_message(vv_state *state, const char *text)
{
    vv_trainer *t = state->trainer;
    if (state->dry)
        return;
    for (int i = 0; i < t->loggers_open; i++)
        if (t->loggers[i]->type->message)
            defer(t, t->loggers[i]->type->message(t->loggers[i], state, text));
    if (!t->run_dir)
        return;
    vv_str line = {0};
    vv_str_addf(&line, "{\"event\":\"message\",\"batch\":%lld,\"text\":",
                (long long)state->time.batch);
    vv_str_add_json(&line, text);
    vv_str_add(&line, "}\n");
    if (t->log)
        defer(t, put_line(t, &line));
    else
        vv_str_addn(&t->early, vv_str_text(&line), line.length);
    vv_str_fini(&line);
}

/* Starts a line: event, epoch (that the last batch belongs to, for a batch), counts of the
   clock. */
static void line_head(const vv_trainer *t, vv_str *line, const char *event, int64_t epoch)
{
    vv_str_addf(line, "{\"event\":\"%s\",\"epoch\":%lld,\"batch\":%lld,\"sample\":%lld", event,
                (long long)epoch, (long long)t->state.time.batch, (long long)t->state.time.sample);
}

/* Ends a line: what was logged, then the times (the only part that differs from run to run). */
static vv_status finish_line(vv_trainer *t, vv_str *line, double seconds)
{
    if (t->pending.length) {
        vv_str_add(line, ",\"logged\":{");
        vv_str_add(line, t->pending.text + 1);
        vv_str_add(line, "}");
        vv_str_clear(&t->pending);
    }
    vv_str_add(line, ",\"seconds\":");
    vvi_json_number(line, seconds);
    vv_str_add(line, "}\n");
    vv_status status = put_line(t, line);
    vv_str_fini(line);
    return status;
}

vv_status vvi_log_batch(vv_trainer *t)
{
    vv_state *s = &t->state;
    VV_TRY(deferred_failure(t));
    VV_TRY(tell_number(t, "loss/train/total", s->train_loss));
    if (!isnan(s->grad_norm))
        VV_TRY(tell_number(t, "grad_norm", s->grad_norm));
    if (!t->log)
        return VV_OK;
    vv_str line = {0};
    line_head(t, &line, "batch", t->previous.epoch);
    vv_str_add(&line, ",\"lr\":");
    vvi_json_number(&line, vv_optimizer_lr(s->optimizer, 0));
    vv_str_add(&line, ",\"loss\":");
    vvi_json_number(&line, s->train_loss);
    if (!isnan(s->grad_norm)) {
        vv_str_add(&line, ",\"grad_norm\":");
        vvi_json_number(&line, s->grad_norm);
    }
    return finish_line(t, &line, s->time.total_seconds);
}

vv_status vvi_log_eval(vv_trainer *t, const vvi_evaluator *e, int64_t samples, double seconds)
{
    VV_TRY(deferred_failure(t));
    for (int i = 0; i < e->metric_count; i++) {
        vv_str name = {0};
        vv_str_addf(&name, "metrics/%s/%s", e->label, e->metrics[i].name);
        vv_status status = vv_str_status(&name);
        if (status == VV_OK)
            status = tell_number(t, vv_str_text(&name), e->metrics[i].value);
        vv_str_fini(&name);
        VV_TRY(status);
    }
    if (!t->log)
        return VV_OK;
    vv_str line = {0};
    line_head(t, &line, "eval", t->state.time.epoch);
    vv_str_add(&line, ",\"label\":");
    vv_str_add_json(&line, e->label);
    vv_str_addf(&line, ",\"eval_samples\":%lld,\"metrics\":{", (long long)samples);
    for (int i = 0; i < e->metric_count; i++) {
        vv_str_addf(&line, "%s\"%s\":", i ? "," : "", e->metrics[i].name);
        vvi_json_number(&line, e->metrics[i].value);
    }
    vv_str_add(&line, "}");
    return finish_line(t, &line, seconds);
}

vv_status vvi_log_mark(vv_trainer *t, const char *event)
{
    VV_TRY(deferred_failure(t));
    if (!t->log)
        return VV_OK;
    vv_str line = {0};
    line_head(t, &line, event, t->state.time.epoch);
    return finish_line(t, &line, t->state.time.total_seconds);
}
