/* recipe_impl.h - a resolved recipe: settings and parts, each with its descriptor. */
#ifndef VVI_RECIPE_IMPL_H
#define VVI_RECIPE_IMPL_H

#include <vivace/prices.h>
#include <vivace/recipe.h>
#include <vivace/registry.h>

#include "recipe/yaml_tree.h"

/* What stands at the top of a recipe beside the parts. */
typedef struct vvi_recipe_top {
    const char *name, *initializers, *hardware, *microbatch, *memory_limit;
    const char *eval_metrics, *train_metrics, *run_db;
    int64_t batch_size, eval_batch_size, seed, threads, workers, limit, save_keep;
    vv_time max_duration, iteration_length, eval_interval, save_interval;
    double scale_schedule_ratio, grad_clip_norm, usd_per_hour, deadline;
    int precision; /* vv_precision */
    int conv;      /* vv_conv_choice */
    int recompute; /* vv_recompute */
    int backend;   /* 0 = auto, 1 = cpu, 2 = ref */
    bool drop_last, allow_no_effect;
    /* checkpoints */
    const char *save_name, *save_latest, *save_best_metric;
    const char *load_path, *load_ignore, *load_exclude_methods;
    int64_t save_keep_best;
    int save_best_mode; /* vv_better */
    int save_compress;  /* 0 = none, 1 = zstd */
    bool save_weights_only, save_overwrite, autoresume, load_weights_only, load_strict;
    bool load_new_head;
} vvi_recipe_top;
extern const vv_desc vvi_recipe_top_desc;
extern const vv_desc vvi_transform_desc; /* of a vv_image_transform */
extern const vv_desc vvi_profile_desc;   /* of a vv_profile_opts */

/* One named thing with its settings. */
typedef struct vvi_part {
    const vv_desc *desc;
    void *opts;
} vvi_part;
typedef struct vvi_parts {
    vvi_part *items;
    int count;
} vvi_parts;

/* One entry of `evaluators`; nothing in it is left open once the recipe is read. */
typedef struct vvi_eval_opts {
    const char *metrics;
    vv_time interval, subset; /* subset none = all */
    int64_t batch_size, microbatch;
    int split; /* 0 = eval, 1 = train */
} vvi_eval_opts;
extern const vv_desc vvi_eval_desc;
typedef struct vvi_eval_part {
    char *label;
    vvi_part dataset;
    vvi_eval_opts opts;
    bool ready; /* opts hold something */
} vvi_eval_part;

struct vv_recipe {
    char *origin;
    vvi_recipe_top top;
    bool top_ready;
    int64_t microbatch, memory_limit; /* the settings at the top, as numbers */
    vvi_part model, dataset, optimizer;
    vvi_part loss; /* none: the model's own */
    vv_image_transform transform;
    bool profiled;
    vv_profile_opts profile;
    vvi_parts schedules, methods, callbacks, loggers;
    vvi_eval_part *evaluators; /* none: one labelled "eval", from the settings at the top */
    int evaluator_count;
};

/* "recipe.yaml:12" in front of a failure; node NULL = the recipe as a whole. */
vv_status vvi_recipe_within(const vv_recipe *r, const vvi_yaml *node, vv_status status);
vv_status vvi_recipe_set_field(const vv_recipe *r, const vv_desc *desc, void *opts, const char *key,
                               const vvi_yaml *value);
/* A section that names one thing: "model: resnet9" or "model: {name: resnet9, width: 16}"; settings
   without a name are the fallback's. */
vv_status vvi_recipe_read_single(const vv_recipe *r, const vvi_yaml *root, const char *section,
                                 const char *kind, const char *fallback, vvi_part *part);
vv_status vvi_recipe_read_evaluators(vv_recipe *r, const vvi_yaml *root);
void vvi_recipe_free_evaluators(vv_recipe *r);

/* What the logger run_db is told, as JSON; price NULL = none. */
vv_status vvi_recipe_facts(const vv_recipe *r, const vv_price *price, vv_str *out);

/* blank_set.c */
vv_status vvi_blank_set(vv_dataset **out, const vv_saved_input *input);

void vvi_part_fini(vvi_part *part);
/* Callback number *i of those on by default, from *i on; NULL if there is none left. */
const vv_desc *vvi_default_callback(int *i);
bool vvi_parts_have(const vvi_parts *parts, const vv_desc *desc);

#endif
