/* cmd_eval.c - `vivace eval` and `vivace predict`: what a trained model is worth, and what it
 * says. */
#include "cli.h"

#include <string.h>

#include <vivace/memory.h>

typedef struct loaded {
    vv_recipe *recipe;
    vv_run *run;
    vv_str recipe_path, checkpoint_path;
} loaded;

static bool is_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file)
        fclose(file);
    return file != NULL;
}

/* RUN is a run's folder (its recipe.yaml and latest checkpoint), or a checkpoint file beside which
   --recipe names the recipe. */
static vv_status load_run(loaded *l, const char *run, const char *recipe, const cli_args *args)
{
    vv_str_addf(&l->recipe_path, "%s/recipe.yaml", run);
    VV_TRY(vv_str_status(&l->recipe_path));
    bool folder = is_file(vv_str_text(&l->recipe_path));
    if (!folder && !recipe)
        return vv_fail(
            VV_ENOTFOUND,
            "%s: neither a run's folder (it has no recipe.yaml) nor, without --recipe, a "
            "checkpoint that can be used",
            run);
    VV_TRY(vv_recipe_load(&l->recipe, recipe ? recipe : vv_str_text(&l->recipe_path),
                          args->overrides, args->override_count));
    if (folder)
        VV_TRY(vv_checkpoint_latest(&l->checkpoint_path, run));
    vv_run_opts opts = VV_RUN_DEFAULTS;
    opts.resume = false;
    opts.load_path = folder ? vv_str_text(&l->checkpoint_path) : run;
    return vv_run_new(&l->run, l->recipe, &opts);
}

static void unload(loaded *l)
{
    vv_run_free(l->run);
    vv_recipe_free(l->recipe);
    vv_str_fini(&l->recipe_path);
    vv_str_fini(&l->checkpoint_path);
}

static vv_status print_metrics(vv_trainer *trainer, bool json)
{
    vv_str line = {0};
    const vv_metric_desc *const *table = vv_metric_table();
    const vv_state *state = vv_trainer_state(trainer);
    bool first = true;
    vv_str_add(&line, json ? "{" : "");
    for (int i = 0; table[i]; i++) {
        double value;
        if (vv_state_metric(state, "eval", table[i]->name, &value) != VV_OK)
            continue;
        vv_str_addf(&line, json ? "%s\"%s\": %.9g" : "%s%s: %.6g", first ? "" : json ? ", " : "\n",
                    table[i]->name, value);
        first = false;
    }
    vv_str_add(&line, json ? "}\n" : "\n");
    vv_status status = vv_str_status(&line);
    if (status == VV_OK)
        fputs(vv_str_text(&line), stdout);
    vv_str_fini(&line);
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
    loaded l = {0};
    if (code == CLI_DONE && !args.word_count)
        code = cli_usage(&cli_eval, "no run was given");
    if (code == CLI_DONE &&
        (load_run(&l, args.words[0], recipe, &args) != VV_OK ||
         vv_trainer_eval(vv_run_trainer(l.run)) != VV_OK ||
         print_metrics(vv_run_trainer(l.run), json) != VV_OK))
        code = cli_fail();
    unload(&l);
    cli_args_fini(&args);
    return code;
}

/* One line a sample: index, predicted class, its logit, and (in the data) the true class. */
static vv_status print_predictions(vv_run *run, const vv_tensor *logits, bool json)
{
    vv_dataset *set = vv_loader_dataset(vv_run_eval_loader(run));
    int64_t classes = logits->ndim == 2 ? logits->shape[1] : 0;
    for (int64_t i = 0; i < logits->shape[0]; i++) {
        int64_t best = 0;
        for (int64_t k = 1; k < classes; k++)
            if (vv_tensor_get(logits, i * classes + k) > vv_tensor_get(logits, i * classes + best))
                best = k;
        int32_t label = -1;
        VV_TRY(vv_dataset_read(set, i, NULL, &label));
        const char *name = set->class_names ? set->class_names[best] : "";
        printf(json ? "{\"index\": %lld, \"class\": %lld, \"name\": \"%s\", \"logit\": %.6g, "
                      "\"target\": %d}\n"
                    : "%lld\t%lld\t%s\t%.6g\t%d\n",
               (long long)i, (long long)best, name, vv_tensor_get(logits, i * classes + best),
               (int)label);
    }
    return VV_OK;
}

static int predict(int argc, char **argv)
{
    bool json = false;
    const char *recipe = NULL;
    cli_args args;
    const cli_option options[] = {{"--json", &json, NULL}, {"--recipe", NULL, &recipe},
                                  {NULL, NULL, NULL}};
    int code = cli_parse(&cli_predict, argc, argv, options, 1, &args);
    loaded l = {0};
    vv_tensor *logits = NULL;
    if (code == CLI_DONE && !args.word_count)
        code = cli_usage(&cli_predict, "no run was given");
    if (code == CLI_DONE &&
        (load_run(&l, args.words[0], recipe, &args) != VV_OK ||
         vv_trainer_predict(vv_run_trainer(l.run), vv_run_eval_loader(l.run), &logits) != VV_OK ||
         print_predictions(l.run, logits, json) != VV_OK))
        code = cli_fail();
    vv_tensor_free(logits);
    unload(&l);
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_eval = {"eval", "RUN|CHECKPOINT [--recipe FILE] [key=value ...] [--json]",
                           "Evaluates a run's latest checkpoint on its evaluation set.", eval};
const cli_verb cli_predict = {"predict", "RUN|CHECKPOINT [--recipe FILE] [key=value ...] [--json]",
                              "Prints the class a trained model gives to each evaluation sample.",
                              predict};
