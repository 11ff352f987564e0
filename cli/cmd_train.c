/* cmd_train.c - `vivace train` and `vivace check`: a run from a recipe, and its plan alone. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

/* A logger by name with its defaults. */
static vv_status make_logger(vv_logger **out, const char *name)
{
    const vv_logger_desc *desc;
    *out = NULL;
    VV_TRY(vv_logger_find(&desc, name));
    return vv_logger_new(out, desc, NULL);
}

/* runs/<file name without .yaml>, unless the user names a folder. */
static vv_status default_run_dir(vv_str *out, const char *recipe)
{
    const char *base = strrchr(recipe, '/');
    base = base ? base + 1 : recipe;
    const char *dot = strrchr(base, '.');
    const char *folder_end = base > recipe ? base - 1 : recipe;
    const char *folder = folder_end;
    while (folder > recipe && folder[-1] != '/')
        folder--;
    vv_str_add(out, "runs/");
    /* recipes/demo/fast.yaml -> runs/demo-fast */
    if (folder_end > folder && strncmp(folder, "recipes", 7) != 0) {
        vv_str_addn(out, folder, (size_t)(folder_end - folder));
        vv_str_add(out, "-");
    }
    vv_str_addn(out, base, dot ? (size_t)(dot - base) : strlen(base));
    return vv_str_status(out);
}

static vv_status command_line(vv_str *out, const char *verb, int argc, char **argv)
{
    vv_str_addf(out, "vivace %s", verb);
    for (int i = 0; i < argc; i++)
        vv_str_addf(out, " %s", argv[i]);
    return vv_str_status(out);
}

/* Where the time went, if that was asked for, and where to look next. */
static int print_end(vv_trainer *trainer, const char *run_dir)
{
    vv_str text = {0};
    vv_status status = vv_trainer_profile(trainer, &text);
    if (status == VV_OK && text.length)
        printf("%straces: %s/traces\n", vv_str_text(&text), run_dir);
    vv_str_fini(&text);
    if (status != VV_OK)
        return cli_fail();
    printf("done: %s/summary.json\n", run_dir);
    return CLI_DONE;
}

static int train_recipe(const char *path, const cli_args *args, const char *run_dir, bool json,
                        bool fresh, bool synthetic, const char *command)
{
    vv_recipe *recipe = NULL;
    vv_run *run = NULL;
    vv_logger *loggers[2] = {NULL, NULL};
    vv_str plan = {0};
    int code = CLI_DONE;
    vv_run_opts opts = VV_RUN_DEFAULTS;
    opts.run_dir = run_dir;
    opts.resume = !fresh;
    opts.command = command;
    opts.synthetic = synthetic;
    opts.loggers = loggers;
    if (vv_recipe_load(&recipe, path, args->overrides, args->override_count) != VV_OK ||
        make_logger(&loggers[0], json ? "json_progress" : "progress") != VV_OK ||
        vv_run_new(&run, recipe, &opts) != VV_OK) {
        code = cli_fail();
        goto out;
    }
    const char *notice;
    for (int i = 0; (notice = vv_run_notice(run, i)) != NULL; i++)
        fprintf(stderr, "vivace: %s\n", notice);
    if (!json) {
        if (vv_trainer_plan(vv_run_trainer(run), &plan) != VV_OK) {
            code = cli_fail();
            goto out;
        }
        fputs(vv_str_text(&plan), stdout);
        fflush(stdout);
    }
    if (!json && vv_trainer_finished(vv_run_trainer(run)))
        puts("this run is finished already: nothing is left to train; a longer max_duration goes "
             "on");
    cli_watch_interrupt(vv_run_trainer(run));
    vv_status status = vv_trainer_fit(vv_run_trainer(run));
    cli_watch_interrupt(NULL);
    if (status == VV_EINTERRUPTED)
        fprintf(stderr, "vivace: stopped and saved; the same command continues\n");
    if (status != VV_OK)
        code = status == VV_EINTERRUPTED ? CLI_FAILED : cli_fail();
    else if (!json)
        code = print_end(vv_run_trainer(run), run_dir);
out:
    vv_str_fini(&plan);
    vv_run_free(run);
    vv_recipe_free(recipe);
    return code;
}

static int train(int argc, char **argv)
{
    const char *run_dir = NULL;
    bool json = false, fresh = false, synthetic = false;
    cli_args args;
    const cli_option options[] = {{"--run-dir", NULL, &run_dir},
                                  {"--json", &json, NULL},
                                  {"--no-resume", &fresh, NULL},
                                  {"--synthetic", &synthetic, NULL},
                                  {NULL, NULL, NULL}};
    int code = cli_parse(&cli_train, argc, argv, options, 1, &args);
    vv_str dir = {0}, command = {0};
    if (code == CLI_DONE && !args.word_count)
        code = cli_usage(&cli_train, "no recipe was given");
    if (code == CLI_DONE) {
        if (!run_dir && default_run_dir(&dir, args.words[0]) != VV_OK)
            code = cli_fail();
        else if (command_line(&command, "train", argc, argv) != VV_OK)
            code = cli_fail();
        else
            code = train_recipe(args.words[0], &args, run_dir ? run_dir : vv_str_text(&dir), json,
                                fresh, synthetic, vv_str_text(&command));
    }
    vv_str_fini(&dir);
    vv_str_fini(&command);
    cli_args_fini(&args);
    return code;
}

static vv_status check_plan(vv_run *run, bool json, vv_str *plan)
{
    vv_trainer *trainer = vv_run_trainer(run);
    VV_TRY(vv_trainer_time_step(trainer));
    return json ? vv_trainer_plan_json(trainer, plan) : vv_trainer_plan(trainer, plan);
}

static int check(int argc, char **argv)
{
    bool synthetic = false, json = false;
    const char *run_dir = NULL;
    cli_args args;
    const cli_option options[] = {{"--synthetic", &synthetic, NULL},
                                  {"--json", &json, NULL},
                                  {"--run-dir", NULL, &run_dir},
                                  {NULL, NULL, NULL}};
    int code = cli_parse(&cli_check, argc, argv, options, 1, &args);
    vv_recipe *recipe = NULL;
    vv_run *run = NULL;
    vv_str plan = {0};
    if (code == CLI_DONE && !args.word_count)
        code = cli_usage(&cli_check, "no recipe was given");
    if (code == CLI_DONE) {
        vv_run_opts opts = VV_RUN_DEFAULTS;
        opts.synthetic = synthetic;
        opts.run_dir = run_dir;
        if (vv_recipe_load(&recipe, args.words[0], args.overrides, args.override_count) != VV_OK ||
            vv_run_new(&run, recipe, &opts) != VV_OK ||
            check_plan(run, json, &plan) != VV_OK)
            code = cli_fail();
        else
            fputs(vv_str_text(&plan), stdout);
    }
    vv_str_fini(&plan);
    vv_run_free(run);
    vv_recipe_free(recipe);
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_train = {
    "train", "RECIPE [key=value ...] [--run-dir DIR] [--json] [--no-resume] [--synthetic]",
    "Trains what a recipe says; the same command continues an interrupted run.", train};
const cli_verb cli_check = {"check",
                            "RECIPE [key=value ...] [--json] [--run-dir DIR] [--synthetic]",
                            "Prints a recipe's plan, or why it cannot work, without training.",
                            check};
