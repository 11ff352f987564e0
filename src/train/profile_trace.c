/* profile_trace.c - a trace in Chrome's format, for Perfetto (ui.perfetto.dev) and
 * chrome://tracing: times in microseconds, spans as complete events ("X"), so that none lacks its
 * end. */
#include "profile.h"

#include <stdlib.h>

#include "base/file.h"

/* By start; what contains others comes before them. */
static int by_time(const void *a, const void *b)
{
    const vvi_span *x = a, *y = b;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return 0;
}

static void add_time(vv_str *out, const char *key, int64_t ns)
{
    vv_str_addf(out, ",\"%s\":%lld.%03d", key, (long long)(ns / 1000), (int)(ns % 1000));
}

static void add_name(vv_str *out, const vvi_span *span)
{
    vv_str text = {0};
    vv_str_add(&text, span->name);
    if (span->detail)
        vv_str_addf(&text, "/%s", span->detail);
    vv_str_add_json(out, vv_str_text(&text));
    vv_str_fini(&text);
}

static void add_args(vv_str *out, const vvi_span *span, const vv_str *names)
{
    if (span->phase == 'C') {
        for (int i = 0; i < 4; i++)
            vv_str_addf(out, "%s\"%s\":%lld", i ? "," : "", vvi_profile_memory_names[i],
                        (long long)span->bytes[i]);
        return;
    }
    if (span->kernel) {
        vv_str_add(out, "\"node\":");
        vv_str_add_json(out, span->node >= 0 ? names->text + span->node : "");
        vv_str_add(out, ",\"kernel\":");
        vv_str_add_json(out, span->kernel);
        return;
    }
    vv_str_addf(out, "\"epoch\":%lld,\"batch\":%lld", (long long)span->epoch,
                (long long)span->batch);
}

static vv_status put_span(vvi_file *file, const vvi_span *span, const vv_str *names, vv_str *line)
{
    vv_str_clear(line);
    vv_str_addf(line, ",\n{\"ph\":\"%c\",\"pid\":0,\"tid\":1,\"name\":", span->phase);
    add_name(line, span);
    vv_str_addf(line, ",\"cat\":\"%s\"", span->category);
    add_time(line, "ts", span->start_ns);
    if (span->phase == 'X')
        add_time(line, "dur", span->ns);
    if (span->phase == 'i')
        vv_str_add(line, ",\"s\":\"p\""); /* a line through the whole process */
    vv_str_add(line, ",\"args\":{");
    add_args(line, span, names);
    vv_str_add(line, "}}");
    VV_TRY(vv_str_status(line));
    return vvi_file_put(file, line->text, line->length);
}

typedef struct writing {
    const vvi_trace *trace;
    const char *run_name;
} writing;

static vv_status write_trace(vvi_file *file, const void *ctx)
{
    const writing *w = ctx;
    const vvi_trace *trace = w->trace;
    vv_str line = {0};
    vv_str_addf(&line,
                "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"vivace\",\"spans\":%lld,"
                "\"dropped\":%lld},\n\"traceEvents\":[\n",
                (long long)trace->count, (long long)trace->dropped);
    vv_str_add(&line, "{\"ph\":\"M\",\"pid\":0,\"tid\":1,\"name\":\"process_name\",");
    vv_str_add(&line, "\"args\":{\"name\":");
    vv_str_add_json(&line, w->run_name && w->run_name[0] ? w->run_name : "vivace");
    vv_str_add(&line, "}},\n{\"ph\":\"M\",\"pid\":0,\"tid\":1,\"name\":\"thread_name\",");
    vv_str_add(&line, "\"args\":{\"name\":\"trainer\"}}");
    vv_status status = vv_str_status(&line);
    if (status == VV_OK)
        status = vvi_file_put(file, line.text, line.length);
    for (int64_t i = 0; i < trace->count && status == VV_OK; i++)
        status = put_span(file, &trace->spans[i], &trace->names, &line);
    if (status == VV_OK)
        status = vvi_file_put(file, "\n]}\n", 4);
    vv_str_fini(&line);
    return status;
}

vv_status vvi_trace_write(vvi_trace *trace, const char *path, const char *run_name)
{
    if (trace->count)
        qsort(trace->spans, (size_t)trace->count, sizeof *trace->spans, by_time);
    const writing w = {trace, run_name};
    return vvi_file_write_atomic_with(path, write_trace, &w);
}
