/* bench_step.c - `vivace bench step`: how fast a training step is, against the machine's own
 * peak. */
#include "bench.h"

#include <string.h>
#include <time.h>

#include <vivace/memory.h>

#include "vvi_config.h"

typedef struct result {
    double step_ms, cpu_ms, optimizer_ms, peak, gflops; /* cpu: of all threads together */
    double first_ms, plan_ms;     /* the first step, and making plans within it */
    double low_ms, high_ms;       /* quartiles of the steps */
    double forward_backward_ms;   /* mean, as the profile's times are */
    int64_t flops;
} result;

static vv_status time_steps(bench_work *b, result *r, double *times, size_t n)
{
    double *optimizer_times = times + n, *cpu_times = times + 2 * n;
    double fb, sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double start = vv_clock();
        clock_t cpu = clock();
        VV_TRY(bench_work_step(b, &fb, &r->flops));
        times[i] = vv_clock() - start;
        cpu_times[i] = (double)(clock() - cpu) / CLOCKS_PER_SEC;
        optimizer_times[i] = times[i] - fb;
        sum += fb;
    }
    r->step_ms = 1e3 * bench_median(times, n);
    r->low_ms = 1e3 * times[n / 4];
    r->high_ms = 1e3 * times[n - 1 - n / 4];
    r->cpu_ms = 1e3 * bench_median(cpu_times, n);
    r->optimizer_ms = 1e3 * bench_median(optimizer_times, n);
    r->forward_backward_ms = 1e3 * sum / (double)n;
    r->gflops = (double)r->flops / (r->step_ms / 1e3) / 1e9;
    return VV_OK;
}

static vv_status measure(bench_work *b, result *r)
{
    double *times, fb, start = vv_clock();
    size_t n = (size_t)b->opts.steps;
    vv_graph_stats stats;
    VV_TRY(bench_work_step(b, &fb, &r->flops));
    r->first_ms = 1e3 * (vv_clock() - start);
    vv_graph_get_stats(b->graph, &stats);
    r->plan_ms = 1e3 * stats.plan_seconds;
    for (int64_t i = 1; i < b->opts.warmup; i++)
        VV_TRY(bench_work_step(b, &fb, &r->flops));
    VV_TRY(vv_alloc_array(&times, 3 * n, sizeof *times));
    vv_graph_set_profile(b->graph, true);
    vv_graph_profile_clear(b->graph);
    r->peak = vv_measure_peak_gflops(b->precision);
    vv_status status = time_steps(b, r, times, n);
    double again = vv_measure_peak_gflops(b->precision);
    r->peak = again > r->peak ? again : r->peak;
    vv_dealloc(times);
    return status;
}

/* ---- what is printed ---- */

enum { MOST_OPS = 64 };

typedef struct by_op {
    vv_str *out;
    int64_t steps;
    bool json;
    double total_ms;
    const char *names[MOST_OPS]; /* kinds seen already: one kind may have several kernels */
    double ms[MOST_OPS];
    int count;
} by_op;

static void add_op(void *ctx, const char *op, const char *kernel, int64_t calls, double seconds,
                   int64_t flops)
{
    by_op *table = ctx;
    double ms = 1e3 * seconds / (double)table->steps;
    table->total_ms += ms;
    if (!table->json) {
        vv_str_addf(table->out, "  %-25s %-14s %6.1f calls %9.2f ms", op, kernel,
                    (double)calls / (double)table->steps, ms);
        if (flops && seconds > 0)
            vv_str_addf(table->out, " %8.1f GFLOP/s", (double)flops / seconds / 1e9);
        vv_str_add(table->out, "\n");
        return;
    }
    int k = 0;
    while (k < table->count && strcmp(table->names[k], op) != 0)
        k++;
    if (k == MOST_OPS)
        return;
    if (k == table->count) {
        table->names[table->count++] = op;
        table->ms[k] = 0.0;
    }
    table->ms[k] += ms;
}

static const vv_backend *backend_of(const bench_work *b)
{
    static const char *const names[] = {"auto", "cpu", "ref"};
    return b->opts.backend ? vv_backend_find(names[b->opts.backend]) : vv_backend_default();
}

static void report_text(const bench_work *b, const result *r, const vv_graph_stats *stats,
                        vv_str *out)
{
    double rate = (double)b->opts.batch / (r->step_ms / 1e3), percent = 100.0 * r->gflops / r->peak;
    by_op table = {.out = out, .steps = b->opts.steps};
    vv_str_addf(out, "%s, batch %lld, %s, %d threads, backend %s\n", b->opts.model,
                (long long)b->opts.batch, bench_precisions[b->precision], vv_threads(),
                vv_backend_name(backend_of(b)));
    vv_str_addf(out,
                "%.1f samples/s, %.1f ms a step (median of %lld, quartiles %.1f and %.1f; "
                "%.1f ms of CPU time), %.1f GFLOP/s = %.1f%% of the measured peak %.1f\n",
                rate, r->step_ms, (long long)b->opts.steps, r->low_ms, r->high_ms, r->cpu_ms,
                r->gflops, percent, r->peak);
    if (b->opts.seq)
        vv_str_addf(out, "%.1f tokens/s\n", rate * (double)b->opts.seq);
    vv_str_addf(out, "memory: slab %.1f MB planned, %.1f MB used; process peak %.1f MB\n",
                (double)stats->planned_bytes / 1e6, (double)stats->peak_bytes / 1e6,
                (double)vv_memory_peak_bytes() / 1e6);
    vv_str_addf(out, "first step: %.1f ms, of which %.1f ms made the plan\n", r->first_ms,
                r->plan_ms);
    vv_graph_profile(b->graph, add_op, &table);
    vv_str_addf(out, "  %-25s %-14s %6.1f calls %9.2f ms\n", "optimizer", "", 1.0,
                r->optimizer_ms);
    vv_str_addf(out, "  %-25s %-14s %6s       %9.2f ms\n", "graph", "", "",
                r->forward_backward_ms - table.total_ms);
}

static void report_json(const bench_work *b, const result *r, const vv_graph_stats *stats,
                        vv_str *out)
{
    double rate = (double)b->opts.batch / (r->step_ms / 1e3), percent = 100.0 * r->gflops / r->peak;
    by_op table = {.out = out, .steps = b->opts.steps, .json = true};
    char processor[128];
    vv_str_add(out, "{\"model\": ");
    vv_str_add_json(out, b->opts.model);
    vv_str_addf(out, ", \"version\": \"%s\", \"processor\": ", VVI_VERSION);
    vv_str_add_json(out, vv_processor_name(processor, sizeof processor));
    vv_str backend = {0};
    vv_backend_describe(backend_of(b), &backend);
    vv_str_add(out, ", \"backend\": ");
    vv_str_add_json(out, vv_str_text(&backend));
    vv_str_fini(&backend);
    vv_str_addf(out,
                ", \"batch\": %lld, \"precision\": \"%s\", \"threads\": %d, "
                "\"samples_per_second\": %.3f, \"step_ms\": %.4f, \"step_low_ms\": %.4f, "
                "\"step_high_ms\": %.4f, \"step_cpu_ms\": %.4f, \"first_step_ms\": %.4f, "
                "\"plan_ms\": %.4f, \"flops\": %lld, \"gflops\": %.3f, "
                "\"peak_gflops\": %.3f, \"percent_of_peak\": %.2f, ",
                (long long)b->opts.batch, bench_precisions[b->precision], vv_threads(), rate,
                r->step_ms, r->low_ms, r->high_ms, r->cpu_ms, r->first_ms, r->plan_ms,
                (long long)r->flops, r->gflops, r->peak, percent);
    vv_str_addf(out,
                "\"peak_memory_bytes\": %zu, \"planned_memory_bytes\": %zu, "
                "\"used_memory_bytes\": %zu, ",
                vv_memory_peak_bytes(), stats->planned_bytes, stats->peak_bytes);
    if (b->opts.seq)
        vv_str_addf(out, "\"seq\": %lld, \"tokens_per_second\": %.3f, ", (long long)b->opts.seq,
                    rate * (double)b->opts.seq);
    vv_str_add(out, "\"by_op\": {");
    vv_graph_profile(b->graph, add_op, &table);
    for (int k = 0; k < table.count; k++)
        vv_str_addf(out, "\"%s\": %.4f, ", table.names[k], table.ms[k]);
    vv_str_addf(out, "\"optimizer\": %.4f, \"graph\": %.4f}}\n", r->optimizer_ms,
                r->forward_backward_ms - table.total_ms);
}

int bench_step(const cli_args *args, bool json)
{
    bench_work b;
    memset(&b, 0, sizeof b);
    result r = {0};
    vv_str out = {0};
    int code = CLI_DONE;
    vv_status status = bench_read_settings(&bench_step_desc, &b.opts, args);
    if (status == VV_OK) {
        vv_set_threads((int)b.opts.threads);
        status = bench_work_make(&b);
    }
    if (status == VV_OK)
        status = measure(&b, &r);
    if (status == VV_OK) {
        vv_graph_stats stats;
        vv_graph_get_stats(b.graph, &stats);
        (json ? report_json : report_text)(&b, &r, &stats, &out);
        status = vv_str_status(&out);
    }
    if (status == VV_OK)
        fputs(vv_str_text(&out), stdout);
    else
        code = cli_fail();
    vv_str_fini(&out);
    bench_work_free(&b);
    return code;
}
