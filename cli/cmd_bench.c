/* cmd_bench.c - `vivace bench`: speed, measured. Each thing that can be measured has a file. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(const cli_args *args, bool json);
} parts[] = {
    {"step", bench_step}, {"op", bench_op}, {"data", bench_data}, {"suite", bench_suite}};

vv_status bench_read_settings(const vv_desc *desc, void *opts, const cli_args *args)
{
    VV_TRY(vv_opts_init(desc, opts));
    for (int i = 0; i < args->override_count; i++) {
        char key[64];
        const char *equals = strchr(args->overrides[i], '=');
        snprintf(key, sizeof key, "%.*s", (int)(equals - args->overrides[i]), args->overrides[i]);
        VV_TRY(vv_opts_set(desc, opts, key, equals + 1));
    }
    return VV_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

const char *bench_group_of(const char *op)
{
    static const struct {
        const char *part, *group; /* the first whose part is in the op's name */
    } groups[] = {{"conv2d", "conv"},
                  {"linear_cross_entropy", "matmul"},
                  {"matmul", "matmul"},
                  {"attention", "attention"},
                  {"_norm", "norm"},
                  {"pool", "pool"},
                  {"entropy", "loss"},
                  {"softmax", "loss"},
                  {"fused", "element-wise"},
                  {"unary", "element-wise"},
                  {"binary", "element-wise"},
                  {"where", "element-wise"},
                  {"cast", "element-wise"},
                  {"dropout", "element-wise"},
                  {"optimizer", "optimizer"},
                  {"graph", "graph"}};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strstr(op, groups[i].part))
            return groups[i].group;
    return "other";
}

static int bench_run(int argc, char **argv)
{
    bool json = false;
    cli_args args;
    const cli_option options[] = {{"--json", &json, NULL}, {NULL, NULL, NULL}};
    int code = cli_parse(&cli_bench, argc, argv, options, 2, &args);
    size_t part = 0, count = sizeof parts / sizeof *parts;
    while (code == CLI_DONE && args.word_count && part < count &&
           strcmp(args.words[0], parts[part].name) != 0)
        part++;
    if (code == CLI_DONE && (!args.word_count || part == count))
        code = cli_usage(&cli_bench, "say what to measure: step, op, data or suite");
    else if (code == CLI_DONE && args.word_count > 1 && strcmp(args.words[0], "op") != 0)
        code = cli_usage(&cli_bench, "'%s' is not expected here", args.words[1]);
    else if (code == CLI_DONE)
        code = parts[part].run(&args, json);
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_bench = {
    "bench", "step|data|suite|op [KIND] [key=value ...] [--json]",
    "Measures training steps, single operations, the loader, or the standard workloads.",
    bench_run};
