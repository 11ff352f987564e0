/* cmd_eval.c - `vivace eval`: what a trained model is worth. */
#include "cli.h"

#include <string.h>

#include <vivace/memory.h>

/* "accuracy: 0.9" for the only evaluator, "label/accuracy: 0.9" where there are several; in JSON
   {"accuracy": 0.9} or {"label": {"accuracy": 0.9}}. */
static vv_status print_metrics(vv_trainer *trainer, bool json)
{
    vv_str out = {0};
    const vv_state *state = vv_trainer_state(trainer);
    const char *label, *name, *first = NULL, *before = NULL;
    double value;
    bool several = false;
    for (int i = 0; vv_state_metric_at(state, i, &label, &name, &value); i++) {
        first = first ? first : label;
        several = several || strcmp(first, label) != 0;
    }
    vv_str_add(&out, json ? "{" : "");
    for (int i = 0; vv_state_metric_at(state, i, &label, &name, &value); i++) {
        const bool next = !before || strcmp(before, label) != 0;
        if (json && several && next)
            vv_str_addf(&out, "%s\"%s\": {", before ? "}, " : "", label);
        else if (i)
            vv_str_add(&out, json ? ", " : "\n");
        if (json)
            vv_str_addf(&out, value == value ? "\"%s\": %.9g" : "\"%s\": null", name, value);
        else
            vv_str_addf(&out, "%s%s%s: %.6g", several ? label : "", several ? "/" : "", name,
                        value);
        before = label;
    }
    vv_str_add(&out, json && several ? "}}\n" : json ? "}\n" : "\n");
    vv_status status = vv_str_status(&out);
    if (status == VV_OK)
        fputs(vv_str_text(&out), stdout);
    vv_str_fini(&out);
    return status;
}

static int eval(int argc, char **argv)
{
    bool json = false;
    const char *recipe = NULL;
    cli_args args;
    const cli_option options[] = {{"--json", &json, NULL}, {"--recipe", NULL, &recipe},
                                  {NULL, NULL, NULL}};
    int code = cli_parse(&cli_eval, argc, argv, options, 1, &args);
    cli_loaded l = {0};
    if (code == CLI_DONE && !args.word_count)
        code = cli_usage(&cli_eval, "no run was given");
    if (code == CLI_DONE &&
        (cli_load_run(&l, args.words[0], recipe, &args, false) != VV_OK ||
         vv_trainer_eval(vv_run_trainer(l.run)) != VV_OK ||
         print_metrics(vv_run_trainer(l.run), json) != VV_OK))
        code = cli_fail();
    cli_unload(&l);
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_eval = {"eval", "RUN|CHECKPOINT [--recipe FILE] [key=value ...] [--json]",
                           "Evaluates a run's latest checkpoint on its evaluation sets.", eval};
