/* load_run.c - a trained model from a run's folder or a checkpoint, for the verbs that need one. */
#include "cli.h"

#include <vivace/safetensors.h>

static bool is_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file)
        fclose(file);
    return file != NULL;
}

/* The recipe that a checkpoint carries. */
static vv_status recipe_inside(cli_loaded *l, const char *path, const cli_args *args)
{
    vv_safetensors *file;
    VV_TRY(vv_safetensors_open(&file, path));
    const char *text = vv_safetensors_text(file, "vivace.recipe");
    vv_status status =
        text ? vv_recipe_parse(&l->recipe, text, path, args->overrides, args->override_count)
             : vv_fail(VV_ENOTFOUND, "%s does not say its recipe; name one with --recipe", path);
    vv_safetensors_close(file);
    return status;
}

/* Where the data are not needed: what the checkpoint says of them, unless it is text (whose data
   know more). Older files say nothing. */
static vv_status input_inside(vv_saved_input *input, bool *found, const char *path)
{
    vv_safetensors *file;
    *found = false;
    VV_TRY(vv_safetensors_open(&file, path));
    vv_status status = vv_saved_input_read(input, file);
    *found = status == VV_OK && input->spec.tokens == 0;
    vv_safetensors_close(file);
    return status == VV_ENOTFOUND ? VV_OK : vv_fail_within(status, "checkpoint %s", path);
}

vv_status cli_load_run(cli_loaded *l, const char *run, const char *recipe, const cli_args *args,
                       bool synthetic)
{
    vv_str_addf(&l->recipe_path, "%s/recipe.yaml", run);
    VV_TRY(vv_str_status(&l->recipe_path));
    bool folder = is_file(vv_str_text(&l->recipe_path));
    if (!folder && !is_file(run))
        return vv_fail(VV_ENOTFOUND, "%s: neither a run's folder (it has no recipe.yaml) nor a "
                                     "checkpoint that can be used", run);
    if (recipe || folder)
        VV_TRY(vv_recipe_load(&l->recipe, recipe ? recipe : vv_str_text(&l->recipe_path),
                              args->overrides, args->override_count));
    else
        VV_TRY(recipe_inside(l, run, args));
    if (folder)
        VV_TRY(vv_checkpoint_latest(&l->checkpoint_path, run));
    vv_run_opts opts = VV_RUN_DEFAULTS;
    opts.resume = false;
    opts.load_path = folder ? vv_str_text(&l->checkpoint_path) : run;
    opts.synthetic = synthetic;
    if (synthetic)
        VV_TRY(input_inside(&l->input, &l->input_known, opts.load_path));
    opts.input = l->input_known ? &l->input : NULL;
    return vv_run_new(&l->run, l->recipe, &opts);
}

void cli_unload(cli_loaded *l)
{
    vv_run_free(l->run);
    vv_recipe_free(l->recipe);
    vv_str_fini(&l->recipe_path);
    vv_str_fini(&l->checkpoint_path);
    vv_saved_input_fini(&l->input);
}
