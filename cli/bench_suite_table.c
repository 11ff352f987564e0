/* bench_suite_table.c - medians of a suite's runs, and its tables. */
#include "bench.h"
#include "bench_suite.h"

#include <string.h>

enum { MOST_RUNS = 1000, MOST_GROUPS = 12 };

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

/* ---- medians ---- */

static double median_of(const json_t *runs, const char *key)
{
    double values[MOST_RUNS];
    size_t count = json_array_size(runs) < MOST_RUNS ? json_array_size(runs) : MOST_RUNS;
    for (size_t i = 0; i < count; i++)
        values[i] = number(json_array_get(runs, i), key);
    return count ? bench_median(values, count) : 0.0;
}

/* Milliseconds of one run by group. */
static json_t *groups_of(const json_t *run)
{
    json_t *groups = json_object(), *ms;
    const char *op;
    json_object_foreach(json_object_get(run, "by_op"), op, ms) {
        const char *group = bench_group_of(op);
        json_object_set_new(groups, group,
                            json_real(number(groups, group) + json_number_value(ms)));
    }
    return groups;
}

static json_t *median_groups(const json_t *runs)
{
    json_t *per_run = json_array(), *sums = json_object(), *ms;
    const char *group;
    for (size_t i = 0; i < json_array_size(runs); i++)
        json_array_append_new(per_run, groups_of(json_array_get(runs, i)));
    json_object_foreach(json_array_get(per_run, 0), group, ms)
        json_object_set_new(sums, group, json_real(median_of(per_run, group)));
    json_decref(per_run);
    return sums;
}

void bench_suite_sum(json_t *row)
{
    static const char *const keys[] = {"step_ms", "step_cpu_ms", "samples_per_second", "gflops",
                                       "first_step_ms", "plan_ms", "peak_memory_bytes", "batch"};
    const json_t *runs = json_object_get(row, "runs"), *others = json_object_get(row, "other_runs");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set_new(row, keys[i], json_real(median_of(runs, keys[i])));
    if (number(json_array_get(runs, 0), "seq") > 0)
        json_object_set_new(row, "tokens_per_second",
                            json_real(median_of(runs, "tokens_per_second")));
    json_object_set_new(row, "by_group_ms", median_groups(runs));
    if (!json_array_size(others)) {
        json_object_del(row, "other_runs");
        return;
    }
    json_object_set_new(row, "other_step_ms", json_real(median_of(others, "step_ms")));
}

void bench_suite_peaks(json_t *all)
{
    json_t *peaks = json_object(), *row, *run;
    size_t i, k;
    json_array_foreach(json_object_get(all, "workloads"), i, row) {
        const char *precision = text(row, "precision");
        json_array_foreach(json_object_get(row, "runs"), k, run)
            if (number(run, "peak_gflops") > number(peaks, precision))
                json_object_set_new(peaks, precision, json_real(number(run, "peak_gflops")));
    }
    json_array_foreach(json_object_get(all, "workloads"), i, row) {
        double peak = number(peaks, text(row, "precision"));
        json_object_set_new(row, "percent_of_peak",
                            json_real(peak > 0 ? 100.0 * number(row, "gflops") / peak : 0.0));
    }
    json_object_set_new(all, "peak_gflops", peaks);
}

/* ---- tables ---- */

/* "conv 71%, norm 12%, ...": the largest first. */
static void add_groups(const json_t *row, vv_str *out)
{
    json_t *groups = json_object_get(row, "by_group_ms"), *ms;
    const char *names[MOST_GROUPS], *group;
    double shares[MOST_GROUPS], sum = 0.0;
    int count = 0;
    json_object_foreach(groups, group, ms) {
        if (count == MOST_GROUPS)
            break;
        int at = count++;
        for (; at > 0 && shares[at - 1] < json_number_value(ms); at--) {
            shares[at] = shares[at - 1];
            names[at] = names[at - 1];
        }
        shares[at] = json_number_value(ms);
        names[at] = group;
        sum += shares[at];
    }
    for (int i = 0; i < count && sum > 0; i++)
        if (shares[i] >= 0.01 * sum)
            vv_str_addf(out, "%s%s %.0f%%", i ? ", " : "  ", names[i], 100.0 * shares[i] / sum);
}

void bench_suite_table(const json_t *all, vv_str *out)
{
    json_t *row, *peak;
    const char *precision;
    size_t i;
    vv_str_addf(out, "vivace %s, %s, %lld cores, %lld threads; %s\n", text(all, "version"),
                text(all, "processor"), (long long)number(all, "cores"),
                (long long)number(all, "threads"), text(all, "backend"));
    json_object_foreach(json_object_get(all, "peak_gflops"), precision, peak)
        vv_str_addf(out, "measured peak, %s: %.1f GFLOP/s\n", precision, json_number_value(peak));
    vv_str_addf(out, "%-12s %5s %-9s %11s %10s %9s %7s  %s\n", "workload", "batch", "precision",
                "samples/s", "step ms", "GFLOP/s", "% peak", "where the time goes");
    json_array_foreach(json_object_get(all, "workloads"), i, row) {
        vv_str_addf(out, "%-12s %5.0f %-9s %11.2f %10.1f %9.1f %7.1f", text(row, "name"),
                    number(row, "batch"), text(row, "precision"),
                    number(row, "samples_per_second"), number(row, "step_ms"),
                    number(row, "gflops"), number(row, "percent_of_peak"));
        add_groups(row, out);
        vv_str_add(out, "\n");
    }
    json_array_foreach(json_object_get(all, "skipped"), i, row)
        vv_str_addf(out, "%-12s       %-9s skipped: %s\n", text(row, "name"),
                    text(row, "precision"), text(row, "reason"));
}

/* A ratio above 1 says that this program is faster. Spread: the least and the largest ratio of the
   two steps of one round. */
void bench_suite_turns(const json_t *all, const char *other, vv_str *out)
{
    json_t *row;
    size_t i;
    vv_str_addf(out, "\nin turns with %s (above 1: this program is faster)\n", other);
    vv_str_addf(out, "%-12s %-9s %10s %10s %7s   %s\n", "workload", "precision", "step ms",
                "its", "ratio", "of single rounds");
    json_array_foreach(json_object_get(all, "workloads"), i, row) {
        const json_t *mine = json_object_get(row, "runs"),
                     *others = json_object_get(row, "other_runs");
        double low = 0.0, high = 0.0, step = number(row, "step_ms"),
               its = number(row, "other_step_ms");
        for (size_t k = 0; k < json_array_size(mine) && k < json_array_size(others); k++) {
            double ratio = number(json_array_get(others, k), "step_ms") /
                           number(json_array_get(mine, k), "step_ms");
            low = k && low < ratio ? low : ratio;
            high = high > ratio ? high : ratio;
        }
        vv_str_addf(out, "%-12s %-9s %10.1f %10.1f %7.3f   %.3f to %.3f\n", text(row, "name"),
                    text(row, "precision"), step, its, its / step, low, high);
    }
}

static const json_t *same_row(const json_t *all, const json_t *like)
{
    json_t *row;
    size_t i;
    json_array_foreach(json_object_get(all, "workloads"), i, row)
        if (!strcmp(text(row, "name"), text(like, "name")) &&
            !strcmp(text(row, "precision"), text(like, "precision")) &&
            (long long)number(row, "batch") == (long long)number(like, "batch"))
            return row;
    return NULL;
}

void bench_suite_against(const json_t *all, const json_t *earlier, const char *name, vv_str *out)
{
    json_t *row;
    size_t i;
    vv_str_addf(out, "\nagainst %s of %s, vivace %s (above 1: faster now; another time, so perhaps "
                     "another load)\n", name, text(earlier, "at"), text(earlier, "version"));
    if (strcmp(text(all, "processor"), text(earlier, "processor")) ||
        number(all, "threads") != number(earlier, "threads"))
        vv_str_addf(out, "measured on another machine: %s, %.0f threads\n",
                    text(earlier, "processor"), number(earlier, "threads"));
    vv_str_addf(out, "%-12s %-9s %10s %10s %7s %15s\n", "workload", "precision", "step ms", "then",
                "ratio", "ratio of % peak");
    json_array_foreach(json_object_get(all, "workloads"), i, row) {
        const json_t *then = same_row(earlier, row);
        if (!then) {
            vv_str_addf(out, "%-12s %-9s not in that file with batch %.0f\n", text(row, "name"),
                        text(row, "precision"), number(row, "batch"));
            continue;
        }
        vv_str_addf(out, "%-12s %-9s %10.1f %10.1f %7.3f %15.3f\n", text(row, "name"),
                    text(row, "precision"), number(row, "step_ms"), number(then, "step_ms"),
                    number(then, "step_ms") / number(row, "step_ms"),
                    number(row, "percent_of_peak") / number(then, "percent_of_peak"));
    }
}
