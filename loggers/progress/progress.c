/* progress.c - the progress logger: rate, loss, time left. It writes to the stream the user
 * chose. */
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_CELLS 24
#define REDRAW_SECONDS 0.1

static const char *const streams[] = {"stderr", "stdout", NULL};
static const char *const styles[] = {"auto", "bar", "lines", NULL};
static const vv_field fields[] = {
    {"stream", "Where to write.", VV_FIELD_CHOICE, offsetof(vv_progress_opts, stream), "stderr", 0, 0,
     streams},
    {"style", "A bar that is redrawn, or lines; auto: a bar on a terminal.", VV_FIELD_CHOICE,
     offsetof(vv_progress_opts, style), "auto", 0, 0, styles},
    {"interval", "Seconds between two lines (style lines).", VV_FIELD_FLOAT,
     offsetof(vv_progress_opts, interval), "10", 0, 86400, NULL},
    {.name = NULL},
};

typedef struct progress {
    FILE *out;
    bool bar, drawn; /* drawn: the cursor stands in an unfinished line */
    double started, last; /* clock at the fit's start and at the last output */
    int64_t first_batch, first_sample;
    double first_seconds;
    vv_str metrics; /* of the evaluation that runs: " accuracy 0.9" */
} progress;

const char *vv_progress_time(double seconds, char *buf, size_t buf_bytes)
{
    if (!(seconds >= 0.0) || seconds > 1e9) {
        snprintf(buf, buf_bytes, "?");
        return buf;
    }
    long long s = llround(seconds);
    if (s >= 3600)
        snprintf(buf, buf_bytes, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(buf, buf_bytes, "%lld:%02lld", s / 60, s % 60);
    return buf;
}

static vv_status write_failed(void)
{
    return vv_fail(VV_EIO, "logger progress: cannot write to its stream; is it closed?");
}

/* A whole line, above the bar if there is one. */
static vv_status say(progress *p, const char *text)
{
    const char *clear = p->drawn ? "\r\033[K" : "";
    p->drawn = false;
    if (fprintf(p->out, "%s%s\n", clear, text) < 0 || fflush(p->out))
        return write_failed();
    return VV_OK;
}

static void describe(const progress *p, const vv_state *s, vv_str *out)
{
    char left[32];
    double seconds = s->time.total_seconds - p->first_seconds;
    double rate = seconds > 0.0 ? (double)(s->time.sample - p->first_sample) / seconds : 0.0;
    int64_t done = s->time.batch - p->first_batch;
    int64_t rest = s->axis.total_batches - s->time.batch;
    double eta = done > 0 ? (vv_clock() - p->started) / (double)done * (double)rest : (double)NAN;
    vv_str_addf(out, "%3.0f%%  epoch %lld  batch %lld/%lld  loss %.4f  %.*f samples/s  left %s",
                100.0 * s->progress, (long long)s->time.epoch, (long long)s->time.batch,
                (long long)s->axis.total_batches, s->train_loss, rate < 10.0 ? 2 : 0, rate,
                vv_progress_time(eta, left, sizeof left));
}

static vv_status draw(progress *p, const vv_state *s)
{
    vv_str text = {0};
    int filled = (int)(s->progress * BAR_CELLS);
    vv_str_add(&text, "\r[");
    for (int i = 0; i < BAR_CELLS; i++)
        vv_str_add(&text, i < filled ? "#" : i == filled ? ">" : ".");
    vv_str_add(&text, "] ");
    describe(p, s, &text);
    vv_str_add(&text, "\033[K");
    vv_status status = vv_str_status(&text);
    if (status == VV_OK && (fputs(vv_str_text(&text), p->out) < 0 || fflush(p->out)))
        status = write_failed();
    vv_str_fini(&text);
    p->drawn = true;
    return status;
}

static vv_status line(progress *p, const vv_state *s)
{
    vv_str text = {0};
    describe(p, s, &text);
    vv_status status = vv_str_status(&text);
    if (status == VV_OK)
        status = say(p, vv_str_text(&text));
    vv_str_fini(&text);
    return status;
}

static vv_status progress_open(vv_logger *logger, const char *run_dir, bool resumed)
{
    (void)run_dir;
    (void)resumed;
    const vv_progress_opts *opts = logger->opts;
    progress *p = logger->self;
    p->out = opts->stream == VV_PROGRESS_STDOUT ? stdout : stderr;
    p->bar = opts->style == VV_PROGRESS_BAR ||
             (opts->style == VV_PROGRESS_AUTO && isatty(fileno(p->out)));
    return VV_OK;
}

static vv_status progress_metric(vv_logger *logger, const vv_state *state, const char *name,
                                 double value)
{
    (void)state;
    progress *p = logger->self;
    if (strncmp(name, "metrics/", 8) != 0)
        return VV_OK;
    vv_str_addf(&p->metrics, "  %s %.4f", name + 8, value);
    return vv_str_status(&p->metrics);
}

static vv_status progress_message(vv_logger *logger, const vv_state *state, const char *text)
{
    (void)state;
    return say(logger->self, text);
}

static void begin(progress *p, const vv_state *s)
{
    p->started = p->last = vv_clock();
    p->first_batch = s->time.batch;
    p->first_sample = s->time.sample;
    p->first_seconds = s->time.total_seconds;
}

static vv_status progress_event(vv_logger *logger, vv_event event, const vv_state *s)
{
    const vv_progress_opts *opts = logger->opts;
    progress *p = logger->self;
    vv_status status = VV_OK;
    vv_str text = {0};
    switch (event) {
    case VV_EVENT_FIT_START:
        begin(p, s);
        break;
    case VV_EVENT_BATCH_END:
        if (vv_clock() - p->last < (p->bar ? REDRAW_SECONDS : opts->interval))
            break;
        p->last = vv_clock();
        status = p->bar ? draw(p, s) : line(p, s);
        break;
    case VV_EVENT_EPOCH_END:
        status = p->bar ? draw(p, s) : line(p, s);
        break;
    case VV_EVENT_EVAL_END:
        vv_str_addf(&text, "epoch %lld  batch %lld%s", (long long)s->time.epoch,
                    (long long)s->time.batch, vv_str_text(&p->metrics));
        status = vv_str_status(&text);
        if (status == VV_OK)
            status = say(p, vv_str_text(&text));
        vv_str_clear(&p->metrics);
        break;
    default:
        break;
    }
    vv_str_fini(&text);
    return status;
}

static void progress_close(vv_logger *logger)
{
    progress *p = logger->self;
    if (p->drawn)
        fputc('\n', p->out);
    fflush(p->out);
    vv_str_fini(&p->metrics);
}

const vv_logger_desc vv_logger_progress = {
    .desc = {"logger", "progress", "Progress on the terminal: rate, loss, time left.", "", "any",
             fields, sizeof(vv_progress_opts)},
    .self_size = sizeof(progress),
    .open = progress_open,
    .metric = progress_metric,
    .event = progress_event,
    .message = progress_message,
    .close = progress_close,
};
