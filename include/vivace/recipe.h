/* recipe.h - a run is a file: YAML in, a checked set of objects out. */
#ifndef VIVACE_RECIPE_H
#define VIVACE_RECIPE_H

#include <vivace/train.h>

VV_BEGIN_DECLS

typedef struct vv_recipe vv_recipe;

/* Reads a YAML file and applies `key=value` overrides (dotted keys: "optimizer.lr=0.1"). Unknown
   keys and names are errors that give file, line and the nearest valid one. */
VV_API VV_MUST_USE vv_status vv_recipe_load(VV_OWNED vv_recipe **out, const char *path,
                                            const char *const *overrides, int override_count);
/* Same from text; `origin` stands for the file's name in sentences. */
VV_API VV_MUST_USE vv_status vv_recipe_parse(VV_OWNED vv_recipe **out, const char *text,
                                             const char *origin, const char *const *overrides,
                                             int override_count);
VV_API void vv_recipe_free(VV_TAKES vv_recipe *recipe);
/* The resolved recipe, every default written out, as YAML. Parsing it gives the same recipe. */
VV_API VV_MUST_USE vv_status vv_recipe_text(const vv_recipe *recipe, vv_str *out);
/* The settings at the top of a recipe ("recipe"), of its augmentation ("transform"), its profiling
   ("profile"), or one entry of `evaluators` ("evaluator"); NULL for any other name. */
VV_API VV_BORROWED const vv_desc *vv_recipe_desc(const char *name);

/* What to do with a recipe beside what it says. */
typedef struct vv_run_opts {
    const char *run_dir;    /* NULL = nothing is written */
    bool resume;            /* default true: continue where run_dir's latest checkpoint stands */
    const char *command;    /* for summary.json */
    VV_TAKES vv_logger **loggers; /* added to the recipe's; NULL-ended or NULL */
    const char *load_path;  /* weights to start from */
    bool synthetic;         /* same shapes, random data: for benchmarks and `check` without data */
    const vv_saved_input *input; /* a checkpoint's: no data set is opened, samples are zeros in
                                    this form; for using a model. NULL = the recipe's data */
} vv_run_opts;
#define VV_RUN_DEFAULTS {NULL, true, NULL, NULL, NULL, false, NULL}

/* A run made from a recipe: owns data sets, loaders and the trainer. */
typedef struct vv_run vv_run;
VV_API VV_MUST_USE vv_status vv_run_new(VV_OWNED vv_run **out, const vv_recipe *recipe,
                                        const vv_run_opts *opts);
VV_API VV_BORROWED vv_trainer *vv_run_trainer(vv_run *run);
/* Of the first evaluator. */
VV_API VV_BORROWED vv_loader *vv_run_eval_loader(vv_run *run);
/* What opening its data sets found that the user should know, number i; NULL = no more. */
VV_API VV_BORROWED const char *vv_run_notice(const vv_run *run, int i);
VV_API void vv_run_free(VV_TAKES vv_run *run);

VV_END_DECLS

#endif
