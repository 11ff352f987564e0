/* console.c - the console logger: a block of lines every so often, one per evaluation. A block
 * shows the newest value of every name that was logged since the last one. */
#include "console.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

#define RULE "******************************\n"
#define INDENT "    "
#define EVAL_LINES 10 /* and the last batch's */

static const char *const streams[] = {"stderr", "stdout", NULL};
static const vv_field fields[] = {
    {"interval", "Batches or epochs between two blocks.", VV_FIELD_TIME,
     offsetof(vv_console_opts, interval), "1ba", 0, 0, NULL},
    {"stream", "Where to write.", VV_FIELD_CHOICE, offsetof(vv_console_opts, stream), "stderr", 0, 0,
     streams},
    {"recipe", "Print the resolved recipe when a run starts.", VV_FIELD_BOOL,
     offsetof(vv_console_opts, recipe), "true", 0, 0, NULL},
    {.name = NULL},
};

typedef struct number {
    char *name;
    double value;
    bool fresh;
} number;

typedef struct console {
    FILE *out;
    bool resumed, told; /* told: a block about batches was printed */
    number *numbers;
    int count, next; /* next: the one that is likely to come */
} console;

static vv_status put(const console *c, const vv_str *text)
{
    VV_TRY(vv_str_status(text));
    if (fputs(vv_str_text(text), c->out) < 0 || fflush(c->out))
        return vv_fail(VV_EIO, "logger console: cannot write to its stream; is it closed?");
    return VV_OK;
}

static vv_status console_open(vv_logger *logger, const char *run_dir, bool resumed)
{
    (void)run_dir;
    const vv_console_opts *opts = logger->opts;
    console *c = logger->self;
    if (opts->interval.count < 1 ||
        (opts->interval.unit != VV_UNIT_BATCH && opts->interval.unit != VV_UNIT_EPOCH))
        return vv_fail(VV_EINVAL, "interval: give batches or epochs, such as 100ba or 1ep");
    c->out = opts->stream == VV_CONSOLE_STDOUT ? stdout : stderr;
    c->resumed = resumed;
    return VV_OK;
}

/* Whole numbers without decimals, others with four, or four digits where that would hide them. */
static void add_value(vv_str *out, double value)
{
    double size = fabs(value);
    if (value == floor(value) && size < 1e15)
        vv_str_addf(out, "%.0f", value);
    else if (size >= 1e-2 && size < 1e6)
        vv_str_addf(out, "%.4f", value);
    else
        vv_str_addf(out, "%.4g", value);
}

/* "[epoch=E][batch=b/B]" in the unit the run is measured in. */
static void add_head(vv_str *out, const vv_state *s)
{
    const vv_timestamp *now = &s->time;
    if (s->max_duration.unit == VV_UNIT_EPOCH && s->axis.batches_per_epoch > 0) {
        vv_str_addf(out, "[epoch=%lld][batch=%lld/%lld]:\n", (long long)now->epoch,
                    (long long)now->batch_in_epoch,
                    (long long)vv_axis_epoch_batches(&s->axis, now->epoch));
        return;
    }
    int64_t count;
    if (vv_timestamp_get(&count, now, s->max_duration.unit) == VV_OK)
        vv_str_addf(out, "[%s=%lld/%lld]:\n", vv_unit_name(s->max_duration.unit), (long long)count,
                    (long long)s->max_duration.count);
    else
        vv_str_addf(out, "[batch=%lld/%lld]:\n", (long long)now->batch,
                    (long long)s->axis.total_batches);
}

static void add_line(vv_str *out, const char *what, const char *name, double value)
{
    vv_str_addf(out, INDENT "%s %s: ", what, name);
    add_value(out, value);
    vv_str_add(out, "\n");
}

static bool is_metric(const number *n)
{
    return strncmp(n->name, "metrics/", 8) == 0;
}

static vv_status console_metric(vv_logger *logger, const vv_state *s, const char *name,
                                double value)
{
    (void)s;
    console *c = logger->self;
    number *n = NULL;
    for (int i = 0; i < c->count && !n; i++)
        if (strcmp(c->numbers[(c->next + i) % c->count].name, name) == 0)
            n = &c->numbers[(c->next + i) % c->count];
    if (!n) {
        VV_TRY(vv_realloc_array(&c->numbers, (size_t)c->count + 1, sizeof *c->numbers));
        n = &c->numbers[c->count];
        VV_TRY(vv_strdup(&n->name, name));
        c->count++;
    }
    c->next = (int)(n - c->numbers) + 1;
    n->value = value;
    n->fresh = true;
    return VV_OK;
}

static vv_status put_block(console *c, const vv_state *s, bool evaluation)
{
    vv_str text = {0};
    add_head(&text, s);
    if (!evaluation) /* told to loggers after this event */
        add_line(&text, "Train", "loss/train/total", s->train_loss);
    for (int i = 0; i < c->count; i++) {
        number *n = &c->numbers[i];
        if (!n->fresh || is_metric(n) != evaluation)
            continue;
        n->fresh = false;
        if (strcmp(n->name, "loss/train/total") != 0)
            add_line(&text, evaluation ? "Eval" : "Train", n->name, n->value);
    }
    vv_status status = put(c, &text);
    vv_str_fini(&text);
    return status;
}

static vv_status put_recipe(const console *c, const vv_state *s)
{
    const char *recipe = vv_state_recipe(s);
    if (!recipe)
        return VV_OK;
    vv_str text = {0};
    vv_str_addf(&text, RULE "Recipe:\n%s" RULE, recipe);
    vv_status status = put(c, &text);
    vv_str_fini(&text);
    return status;
}

static vv_status put_eval_batch(const console *c, const vv_state *s)
{
    int64_t i = s->eval_batch, n = s->eval_batch_count, step = (n + EVAL_LINES - 1) / EVAL_LINES;
    if (n < 1 || (i % step != 0 && i != n))
        return VV_OK;
    vv_str text = {0};
    vv_str_addf(&text, "[Eval batch=%lld/%lld] Eval on %s data\n", (long long)i, (long long)n,
                s->eval_label ? s->eval_label : "evaluation");
    vv_status status = put(c, &text);
    vv_str_fini(&text);
    return status;
}

/* The first batch of this process always; then when the interval is complete. */
static bool due(const console *c, const vv_console_opts *opts, const vv_state *s)
{
    return !c->told || (opts->interval.unit == VV_UNIT_BATCH &&
                        s->time.batch % opts->interval.count == 0);
}

static vv_status console_event(vv_logger *logger, vv_event event, const vv_state *s)
{
    const vv_console_opts *opts = logger->opts;
    console *c = logger->self;
    switch (event) {
    case VV_EVENT_FIT_START:
        return opts->recipe && !c->resumed ? put_recipe(c, s) : VV_OK;
    case VV_EVENT_BATCH_END:
        if (!due(c, opts, s))
            return VV_OK;
        c->told = true;
        return put_block(c, s, false);
    case VV_EVENT_EPOCH_END:
        if (opts->interval.unit != VV_UNIT_EPOCH || s->time.epoch % opts->interval.count != 0)
            return VV_OK;
        return put_block(c, s, false);
    case VV_EVENT_EVAL_BATCH_END:
        return put_eval_batch(c, s);
    case VV_EVENT_EVAL_END:
        return put_block(c, s, true);
    default:
        return VV_OK;
    }
}

static vv_status console_message(vv_logger *logger, const vv_state *s, const char *text)
{
    (void)s;
    vv_str line = {0};
    vv_str_addf(&line, "%s\n", text);
    vv_status status = put(logger->self, &line);
    vv_str_fini(&line);
    return status;
}

static void console_close(vv_logger *logger)
{
    console *c = logger->self;
    for (int i = 0; i < c->count; i++)
        vv_dealloc(c->numbers[i].name);
    vv_dealloc(c->numbers);
    fflush(c->out);
}

const vv_logger_desc vv_logger_console = {
    .desc = {"logger", "console", "What was logged, as blocks of lines.", "", "any", fields,
             sizeof(vv_console_opts)},
    .self_size = sizeof(console),
    .open = console_open,
    .metric = console_metric,
    .event = console_event,
    .message = console_message,
    .close = console_close,
};
