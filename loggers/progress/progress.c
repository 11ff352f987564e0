/* progress.c - the progress logger: rate, loss, time left. It writes to the stream the user
 * chose. */
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
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
    {"usd_per_hour", "Price of the machine, for the cost so far; 0 = the run's.", VV_FIELD_FLOAT,
     offsetof(vv_progress_opts, usd_per_hour), "0", 0, 1e9, NULL},
    {.name = NULL},
};

typedef struct progress {
    FILE *out;
    bool bar, drawn; /* drawn: the cursor stands in an unfinished line */
    double started, last; /* clock at the fit's start and at the last output */
    int64_t first_sample, first_token;
    double first_progress, first_seconds;
    double usd;     /* last cost that was logged; NaN = none */
    vv_str metrics; /* of the evaluation that runs: "  eval/accuracy 0.9000" */
    vv_str standing; /* of the last round of evaluations */
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

/* What was paid so far: what a callback logs, else the time since the start by the price. */
static double cost(const vv_logger *logger, const vv_state *s, double wall_seconds)
{
    const progress *p = logger->self;
    const vv_progress_opts *opts = logger->opts;
    if (!isnan(p->usd))
        return p->usd;
    double price = opts->usd_per_hour > 0.0 ? opts->usd_per_hour : s->usd_per_hour;
    return price > 0.0 ? price * wall_seconds / 3600.0 : (double)NAN;
}

static void describe(const vv_logger *logger, const vv_state *s, vv_str *out)
{
    char left[32];
    const progress *p = logger->self;
    double seconds = s->time.total_seconds - p->first_seconds, wall = vv_clock() - p->started;
    const bool tokens = s->time.token > 0;
    const int64_t trained = tokens ? s->time.token - p->first_token
                                   : s->time.sample - p->first_sample;
    double rate = seconds > 0.0 ? (double)trained / seconds : 0.0;
    double done = s->progress - p->first_progress;
    double eta = done > 0.0 ? wall / done * (1.0 - s->progress) : (double)NAN;
    double usd = cost(logger, s, wall);
    vv_str_addf(out, "%3.0f%%  epoch %lld  batch %lld", 100.0 * s->progress,
                (long long)s->time.epoch, (long long)s->time.batch);
    if (s->axis.total_batches > 0)
        vv_str_addf(out, "/%lld", (long long)s->axis.total_batches);
    vv_str_addf(out, "  loss %.4f  %.*f %s/s  left %s", s->train_loss, rate < 10.0 ? 2 : 0, rate,
                tokens ? "tokens" : "samples", vv_progress_time(eta, left, sizeof left));
    if (!isnan(usd))
        vv_str_addf(out, "  $%.*f", usd < 10.0 ? 4 : 2, usd);
    vv_str_add(out, vv_str_text(&p->standing));
}

/* Columns that the stream shows; a bar that is longer would leave its first half behind. */
static size_t columns(const progress *p)
{
    struct winsize size;
    return ioctl(fileno(p->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 4096;
}

/* What stands behind the bar: the run, or the evaluation that runs. */
static vv_status redraw(vv_logger *logger, const vv_state *s, const char *behind)
{
    progress *p = logger->self;
    vv_str text = {0};
    size_t room = columns(p);
    int filled = (int)(s->progress * BAR_CELLS);
    vv_str_add(&text, "[");
    for (int i = 0; i < BAR_CELLS; i++)
        vv_str_add(&text, i < filled ? "#" : i == filled ? ">" : ".");
    vv_str_add(&text, "] ");
    vv_str_add(&text, behind);
    vv_status status = vv_str_status(&text);
    size_t length = text.length < room ? text.length : room - 1;
    if (status == VV_OK &&
        (fprintf(p->out, "\r%.*s\033[K", (int)length, vv_str_text(&text)) < 0 || fflush(p->out)))
        status = write_failed();
    vv_str_fini(&text);
    p->drawn = true;
    return status;
}

/* The bar, or a line. */
static vv_status show(vv_logger *logger, const vv_state *s)
{
    progress *p = logger->self;
    vv_str text = {0};
    describe(logger, s, &text);
    vv_status status = vv_str_status(&text);
    if (status == VV_OK)
        status = p->bar ? redraw(logger, s, vv_str_text(&text)) : say(p, vv_str_text(&text));
    vv_str_fini(&text);
    return status;
}

static vv_status show_evaluation(vv_logger *logger, const vv_state *s)
{
    vv_str text = {0};
    vv_str_addf(&text, "%3.0f%%  epoch %lld  evaluating %s  batch %lld/%lld", 100.0 * s->progress,
                (long long)s->time.epoch, s->eval_label ? s->eval_label : "",
                (long long)s->eval_batch, (long long)s->eval_batch_count);
    vv_status status = vv_str_status(&text);
    if (status == VV_OK)
        status = redraw(logger, s, vv_str_text(&text));
    vv_str_fini(&text);
    return status;
}

static vv_status show_metrics(progress *p, const vv_state *s)
{
    vv_str text = {0};
    vv_str_addf(&text, "epoch %lld  batch %lld%s", (long long)s->time.epoch,
                (long long)s->time.batch, vv_str_text(&p->metrics));
    vv_status status = vv_str_status(&text);
    if (status == VV_OK)
        status = say(p, vv_str_text(&text));
    vv_str_fini(&text);
    vv_str_add(&p->standing, vv_str_text(&p->metrics));
    vv_str_clear(&p->metrics);
    return status == VV_OK ? vv_str_status(&p->standing) : status;
}

static vv_status progress_open(vv_logger *logger, const char *run_dir, bool resumed)
{
    (void)run_dir;
    (void)resumed;
    const vv_progress_opts *opts = logger->opts;
    progress *p = logger->self;
    p->out = opts->stream == VV_PROGRESS_STDOUT ? stdout : stderr;
    p->usd = (double)NAN;
    p->bar = opts->style == VV_PROGRESS_BAR ||
             (opts->style == VV_PROGRESS_AUTO && isatty(fileno(p->out)));
    return VV_OK;
}

static vv_status progress_metric(vv_logger *logger, const vv_state *state, const char *name,
                                 double value)
{
    (void)state;
    progress *p = logger->self;
    if (strcmp(name, "cost/usd") == 0)
        p->usd = value;
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
    p->first_progress = s->progress;
    p->first_sample = s->time.sample;
    p->first_token = s->time.token;
    p->first_seconds = s->time.total_seconds;
}

static vv_status progress_event(vv_logger *logger, vv_event event, const vv_state *s)
{
    const vv_progress_opts *opts = logger->opts;
    progress *p = logger->self;
    bool due = vv_clock() - p->last >= (p->bar ? REDRAW_SECONDS : opts->interval);
    if (due && (event == VV_EVENT_BATCH_END || (event == VV_EVENT_EVAL_BATCH_END && p->bar)))
        p->last = vv_clock();
    switch (event) {
    case VV_EVENT_FIT_START:
        begin(p, s);
        return VV_OK;
    case VV_EVENT_BATCH_END:
        return due ? show(logger, s) : VV_OK;
    case VV_EVENT_EPOCH_END:
        return show(logger, s);
    case VV_EVENT_EVAL_BEFORE_ALL:
        vv_str_clear(&p->standing);
        return VV_OK;
    case VV_EVENT_EVAL_BATCH_END:
        return due && p->bar ? show_evaluation(logger, s) : VV_OK;
    case VV_EVENT_EVAL_END:
        return show_metrics(p, s);
    default:
        return VV_OK;
    }
}

static void progress_close(vv_logger *logger)
{
    progress *p = logger->self;
    if (p->drawn)
        fputc('\n', p->out);
    fflush(p->out);
    vv_str_fini(&p->metrics);
    vv_str_fini(&p->standing);
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
