/* cli.h - what the verbs of the program share. The program uses public headers only. */
#ifndef VIVACE_CLI_H
#define VIVACE_CLI_H

#include <stdio.h>

#include <vivace/recipe.h>
#include <vivace/registry.h>

/* PARTLY: done, but some of what was given had to be passed over. */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_PARTLY = 3 };

typedef struct cli_verb {
    const char *name;
    const char *usage;   /* after "vivace NAME " */
    const char *summary; /* one line */
    int (*run)(int argc, char **argv); /* arguments after the verb */
} cli_verb;

extern const cli_verb cli_train, cli_check, cli_eval, cli_predict, cli_list, cli_describe,
    cli_bench, cli_data, cli_compare, cli_export, cli_checkpoint, cli_runs, cli_sweep,
    cli_generate, cli_explore, cli_recommend;
const cli_verb *cli_verb_find(const char *name);

/* Arguments of a verb, sorted: options the verb knows, key=value overrides, plain words. */
typedef struct cli_args {
    const char **words; /* point into argv; two NULLs behind them */
    int word_count;
    const char **overrides; /* point into argv */
    int override_count;
} cli_args;
/* One option: "--json" (flag) or "--run-dir" (text). A table ends with name NULL. */
typedef struct cli_option {
    const char *name;
    bool *flag;
    const char **text;
} cli_option;
/* CLI_DONE, or CLI_USAGE after saying what is wrong (with the nearest option). */
int cli_parse(const cli_verb *verb, int argc, char **argv, const cli_option *options, int max_words,
              cli_args *args);
void cli_args_fini(cli_args *args);

/* `vivace data tokenize`, `data train-bpe` and `data pack`, with the arguments behind these words.
 */
int cli_data_tokenize(int argc, char **argv);
int cli_data_train_bpe(int argc, char **argv);
int cli_data_pack(int argc, char **argv);
/* The help of a verb whose settings are a table of fields; its overrides into their struct. */
int cli_fields_help(const cli_verb *verb, const vv_field *fields);
vv_status cli_read_settings(const vv_desc *desc, void *opts, const cli_args *args);
/* Takes what are settings of the verb; dotted keys stay in args, for the recipe. */
vv_status cli_take_settings(const vv_desc *desc, void *opts, cli_args *args);

/* A bar on stderr, if that is a terminal, of work that the library does: give cli_bar_show and the
   bar as its `progress`. Ctrl-C ends the work. Numbers are divided by `scale`. */
typedef struct cli_bar {
    double start, shown;
    bool terminal;
    const char *unit;
    double scale;
    int digits;
} cli_bar;
void cli_bar_start(cli_bar *bar, const char *unit, double scale, int digits);
bool cli_bar_show(void *bar, int64_t done, int64_t total);

/* `vivace describe model NAME`: the tree, as these key=value say. */
int cli_describe_model(const vv_desc *desc, const char *const *settings, int count);
bool cli_describe_as_json(const char *const *settings, int count);

/* Prints the library's sentence; returns CLI_FAILED. */
int cli_fail(void);
/* Prints a sentence and the verb's usage; returns CLI_USAGE. */
int cli_usage(const cli_verb *verb, const char *format, ...) VV_PRINTF(2, 3);

/* A trained model with its recipe: RUN is a run's folder (its recipe.yaml and latest checkpoint),
   or a checkpoint file (with the recipe in it, or the one named). `synthetic`: the data are not
   needed. Zero it first, cli_unload it after a failure too. */
typedef struct cli_loaded {
    vv_recipe *recipe;
    vv_run *run;
    vv_str recipe_path, checkpoint_path;
    vv_saved_input input; /* with `synthetic`: what the checkpoint says of its data, if it does */
    bool input_known;
} cli_loaded;
vv_status cli_load_run(cli_loaded *loaded, const char *run, const char *recipe,
                       const cli_args *args, bool synthetic);
void cli_unload(cli_loaded *loaded);

/* While a trainer is at work, Ctrl-C stops it cleanly; a second one leaves at once. */
void cli_watch_interrupt(vv_trainer *trainer);

#endif
