/* cmd_compare.c - `vivace compare`: two runs at equal quality. */
#include "cli.h"

#include <string.h>

#include <vivace/runs.h>

static void print_run(const char *name, const vv_curve_point *best, const vv_curve_point *reached,
                      const vv_curve_point *last)
{
    printf("%-28s best %.4f, trained %.1f s and %lld samples; reached the target after %.1f s "
           "and %lld samples\n",
           name, best->value, last->train_seconds, (long long)last->sample, reached->train_seconds,
           (long long)reached->sample);
}

static int compare(int argc, char **argv)
{
    const char *metric = "accuracy", *label = "eval";
    cli_args args;
    const cli_option options[] = {{"--metric", NULL, &metric}, {"--label", NULL, &label},
                                  {NULL, NULL, NULL}};
    int code = cli_parse(&cli_compare, argc, argv, options, 2, &args);
    const char *a_dir = args.words[0], *b_dir = args.words[1];
    cli_args_fini(&args);
    if (code != CLI_DONE)
        return code;
    if (!b_dir)
        return cli_usage(&cli_compare, "name two runs' folders");
    const vv_metric_desc *desc = vv_metric_find(metric);
    bool higher = desc ? desc->higher_is_better : true;
    vv_curve a, b = {0};
    if (vv_curve_read(&a, a_dir, label, metric) != VV_OK)
        return cli_fail();
    if (vv_curve_read(&b, b_dir, label, metric) != VV_OK) {
        vv_curve_fini(&a);
        return cli_fail();
    }
    /* equal quality: the best that both have reached */
    const vv_curve_point *best_a = vv_curve_best(&a, higher), *best_b = vv_curve_best(&b, higher);
    double target = (best_a->value < best_b->value) == higher ? best_a->value : best_b->value;
    const vv_curve_point *at_a = vv_curve_reach(&a, target, higher),
                         *at_b = vv_curve_reach(&b, target, higher);
    printf("target: %s %.4f, the best that both runs reached\n", metric, target);
    print_run(a_dir, best_a, at_a, &a.points[a.count - 1]);
    print_run(b_dir, best_b, at_b, &b.points[b.count - 1]);
    double saved = 100.0 * (1.0 - at_b->train_seconds / at_a->train_seconds);
    printf("%s needs %.1f%% %s training time than %s at equal %s (%.2f times as fast)\n", b_dir,
           saved < 0 ? -saved : saved, saved < 0 ? "more" : "less", a_dir, metric,
           at_a->train_seconds / at_b->train_seconds);
    vv_curve_fini(&a);
    vv_curve_fini(&b);
    return CLI_DONE;
}

const cli_verb cli_compare = {"compare", "RUN RUN [--metric NAME] [--label NAME]",
                              "Tells what the second run saved over the first at equal quality.",
                              compare};
