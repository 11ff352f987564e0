/* recipe_impl.h - a resolved recipe: settings and parts, each with its descriptor. */
#ifndef VVI_RECIPE_IMPL_H
#define VVI_RECIPE_IMPL_H

#include <vivace/recipe.h>
#include <vivace/registry.h>

#include "recipe/yaml_tree.h"

/* What stands at the top of a recipe beside the parts. */
typedef struct vvi_recipe_top {
    const char *name, *initializers, *eval_metrics, *hardware, *microbatch, *memory_limit;
    int64_t batch_size, eval_batch_size, seed, threads, workers, limit, save_keep;
    vv_time max_duration, iteration_length, eval_interval, save_interval;
    double scale_schedule_ratio, grad_clip_norm, usd_per_hour, deadline;
    int precision; /* vv_precision */
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

struct vv_recipe {
    char *origin;
    vvi_recipe_top top;
    bool top_ready;
    int64_t microbatch, memory_limit; /* the settings at the top, as numbers */
    vvi_part model, dataset, optimizer;
    vv_image_transform transform;
    bool profiled;
    vv_profile_opts profile;
    vvi_parts schedules, methods, callbacks, loggers;
};

void vvi_part_fini(vvi_part *part);
/* Callback number *i of those on by default, from *i on; NULL if there is none left. */
const vv_desc *vvi_default_callback(int *i);
bool vvi_parts_have(const vvi_parts *parts, const vv_desc *desc);

#endif
