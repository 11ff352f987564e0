/* recipe.c - from a YAML tree to a resolved recipe: every key is known, every value in range. */
#include "recipe/recipe_impl.h"

#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

#include "base/file.h"

#define TOP(field) offsetof(vvi_recipe_top, field)
static const char *const conv_names[] = {"rule", "auto", "direct", "winograd", NULL};
static const char *const precision_names[] = {"fp32", "amp_bf16", "bf16", "auto", NULL};
static const char *const recompute_names[] = {"off", "auto", "full", NULL};
static const char *const backend_names[] = {"auto", "cpu", "ref", NULL};
static const char *const better_names[] = {"auto", "min", "max", NULL};
static const char *const compress_names[] = {"none", "zstd", NULL};
static const vv_field top_fields[] = {
    {.name = "name", .help = "name of the run", .type = VV_FIELD_STRING, .offset = TOP(name), .fallback = ""},
    {.name = "seed", .help = "seed of everything random", .type = VV_FIELD_INT, .offset = TOP(seed), .fallback = "17", .min = 0, .max = 4294967295.0},
    {.name = "max_duration", .help = "how long to train, absolute: 10ep, 500ba, 1e6sp, 1e9tok, 3iter, or a budget of training time: 900sec, 1h20m, 2usd", .type = VV_FIELD_TIME, .offset = TOP(max_duration), .fallback = "10ep"},
    {.name = "iteration_length", .help = "length of the spans that iter counts, in ep, ba or tok; none = no iterations", .type = VV_FIELD_TIME, .offset = TOP(iteration_length), .fallback = "none"},
    {.name = "batch_size", .help = "samples per optimizer step", .type = VV_FIELD_INT, .offset = TOP(batch_size), .fallback = "128", .min = 1, .max = 1e9},
    {.name = "eval_batch_size", .help = "samples per evaluation batch", .type = VV_FIELD_INT, .offset = TOP(eval_batch_size), .fallback = "1000", .min = 1, .max = 1e9},
    {.name = "microbatch", .help = "samples computed at once; 0 = the whole batch, auto = the largest that fits, fastest = by timing some", .type = VV_FIELD_STRING, .offset = TOP(microbatch), .fallback = "0"},
    {.name = "precision", .help = "arithmetic of convolutions and matmuls", .type = VV_FIELD_CHOICE, .offset = TOP(precision), .fallback = "auto", .choices = precision_names},
    {.name = "conv", .help = "kernels of convolutions: rule = by shape, the same on every machine; auto = timed trials, kept in checkpoints; direct; winograd = wherever it can be done", .type = VV_FIELD_CHOICE, .offset = TOP(conv), .fallback = "rule", .choices = conv_names},
    {.name = "memory_limit", .help = "memory for weights, gradients, optimizer and a step: 4GiB; 0 = what is free", .type = VV_FIELD_STRING, .offset = TOP(memory_limit), .fallback = "0"},
    {.name = "recompute", .help = "activations computed again instead of kept: auto = where a step does not fit, full = the least memory", .type = VV_FIELD_CHOICE, .offset = TOP(recompute), .fallback = "auto", .choices = recompute_names},
    {.name = "backend", .help = "kernels to use", .type = VV_FIELD_CHOICE, .offset = TOP(backend), .fallback = "auto", .choices = backend_names},
    {.name = "initializers", .help = "weight initialisers, in order, comma-separated", .type = VV_FIELD_STRING, .offset = TOP(initializers), .fallback = ""},
    {.name = "scale_schedule_ratio", .help = "stretches duration and schedules", .type = VV_FIELD_FLOAT, .offset = TOP(scale_schedule_ratio), .fallback = "1", .min = 1e-6, .max = 1e6},
    {.name = "grad_clip_norm", .help = "largest global gradient norm; 0 = no clipping", .type = VV_FIELD_FLOAT, .offset = TOP(grad_clip_norm), .fallback = "0", .min = 0, .max = 1e30},
    {.name = "eval_interval", .help = "time between evaluations; 0ep = only at the end, none = never", .type = VV_FIELD_TIME, .offset = TOP(eval_interval), .fallback = "1ep"},
    {.name = "eval_metrics", .help = "metrics, comma-separated; none = accuracy,cross_entropy (mse for numbers)", .type = VV_FIELD_STRING, .offset = TOP(eval_metrics), .fallback = ""},
    {.name = "train_metrics", .help = "metrics of the training pass, comma-separated; none = the loss alone", .type = VV_FIELD_STRING, .offset = TOP(train_metrics), .fallback = ""},
    {.name = "save_interval", .help = "time between checkpoints; 0ep = only at the end, none = never", .type = VV_FIELD_TIME, .offset = TOP(save_interval), .fallback = "1ep"},
    {.name = "save_keep", .help = "newest checkpoints kept; 0 = all", .type = VV_FIELD_INT, .offset = TOP(save_keep), .fallback = "2", .min = 0, .max = 1e6},
    {.name = "save_keep_best", .help = "best checkpoints kept beside the newest, by save_best_metric; an evaluation among them is saved at once", .type = VV_FIELD_INT, .offset = TOP(save_keep_best), .fallback = "0", .min = 0, .max = 1e6},
    {.name = "save_best_metric", .help = "metric of the best: accuracy, eval/accuracy; empty = the first that is evaluated", .type = VV_FIELD_STRING, .offset = TOP(save_best_metric), .fallback = ""},
    {.name = "save_best_mode", .help = "which values are better; auto = as the metric says", .type = VV_FIELD_CHOICE, .offset = TOP(save_best_mode), .fallback = "auto", .choices = better_names},
    {.name = "save_name", .help = "checkpoint's name without ending, with {run_name} {epoch} {batch} {sample} {token} {batch_in_epoch} {total_wct} {rank} ...; {batch:08} pads with zeros", .type = VV_FIELD_STRING, .offset = TOP(save_name), .fallback = "ep{epoch:04}-ba{batch:08}"},
    {.name = "save_latest", .help = "link to the newest checkpoint; none = no link", .type = VV_FIELD_STRING, .offset = TOP(save_latest), .fallback = "latest"},
    {.name = "save_weights_only", .help = "checkpoints hold weights only; such a run cannot be continued", .type = VV_FIELD_BOOL, .offset = TOP(save_weights_only), .fallback = "false"},
    {.name = "save_compress", .help = "how checkpoints are packed", .type = VV_FIELD_CHOICE, .offset = TOP(save_compress), .fallback = "none", .choices = compress_names},
    {.name = "save_overwrite", .help = "checkpoints of an earlier run in the folder are replaced", .type = VV_FIELD_BOOL, .offset = TOP(save_overwrite), .fallback = "false"},
    {.name = "load_path", .help = "checkpoint or run folder to start from; may hold {run_name}", .type = VV_FIELD_STRING, .offset = TOP(load_path), .fallback = ""},
    {.name = "load_weights_only", .help = "take the weights and nothing else", .type = VV_FIELD_BOOL, .offset = TOP(load_weights_only), .fallback = "false"},
    {.name = "load_strict", .help = "weights that are missing or too many are an error", .type = VV_FIELD_BOOL, .offset = TOP(load_strict), .fallback = "true"},
    {.name = "load_new_head", .help = "a head for another number of classes starts anew: for fine-tuning, with load_weights_only", .type = VV_FIELD_BOOL, .offset = TOP(load_new_head), .fallback = "false"},
    {.name = "load_ignore", .help = "patterns of what is not taken, comma-separated: fc.*, optimizer, callbacks/*", .type = VV_FIELD_STRING, .offset = TOP(load_ignore), .fallback = ""},
    {.name = "load_exclude_methods", .help = "methods of the checkpoint that are not done again, comma-separated", .type = VV_FIELD_STRING, .offset = TOP(load_exclude_methods), .fallback = ""},
    {.name = "threads", .help = "threads of kernels; 0 = all cores", .type = VV_FIELD_INT, .offset = TOP(threads), .fallback = "0", .min = 0, .max = 4096},
    {.name = "workers", .help = "threads that prepare batches ahead", .type = VV_FIELD_INT, .offset = TOP(workers), .fallback = "1", .min = 0, .max = 256},
    {.name = "limit", .help = "train on only this many samples; 0 = all", .type = VV_FIELD_INT, .offset = TOP(limit), .fallback = "0", .min = 0, .max = 1e15},
    {.name = "drop_last", .help = "leave out an incomplete last batch", .type = VV_FIELD_BOOL, .offset = TOP(drop_last), .fallback = "true"},
    {.name = "autoresume", .help = "go on where the run's folder stands; false = start a new run only", .type = VV_FIELD_BOOL, .offset = TOP(autoresume), .fallback = "true"},
    {.name = "deadline", .help = "seconds the machine lasts after SIGTERM (spot instances); 0 = not known", .type = VV_FIELD_FLOAT, .offset = TOP(deadline), .fallback = "0", .min = 0, .max = 1e6},
    {.name = "hardware", .help = "local, or a name of the price table", .type = VV_FIELD_STRING, .offset = TOP(hardware), .fallback = "local"},
    {.name = "usd_per_hour", .help = "price of the hardware; 0 = the price table's, if it has one", .type = VV_FIELD_FLOAT, .offset = TOP(usd_per_hour), .fallback = "0", .min = 0, .max = 1e9},
    {.name = "run_db", .help = "run store with a row for this run; empty = runs.db beside the run's folder, off = none", .type = VV_FIELD_STRING, .offset = TOP(run_db), .fallback = ""},
    {.name = "allow_no_effect", .help = "a method that changes nothing is not an error", .type = VV_FIELD_BOOL, .offset = TOP(allow_no_effect), .fallback = "false"},
    {.name = NULL},
};
const vv_desc vvi_recipe_top_desc = {.kind = "recipe",
                                     .name = "recipe",
                                     .summary = "What a recipe says beside its sections.",
                                     .cite = "",
                                     .domains = "any",
                                     .fields = top_fields,
                                     .opts_size = sizeof(vvi_recipe_top)};

#define TRANSFORM(field) offsetof(vv_image_transform, field)
static const vv_field transform_fields[] = {
    {.name = "crop_pad", .help = "random crop after padding each side by this many pixels", .type = VV_FIELD_INT, .offset = TRANSFORM(crop_pad), .fallback = "0", .min = 0, .max = 1024},
    {.name = "translate", .help = "random shift of up to this many pixels", .type = VV_FIELD_INT, .offset = TRANSFORM(translate), .fallback = "0", .min = 0, .max = 1024},
    {.name = "flip", .help = "mirror left-right half of the time", .type = VV_FIELD_BOOL, .offset = TRANSFORM(flip), .fallback = "false"},
    {.name = "normalise", .help = "subtract the mean, divide by the deviation", .type = VV_FIELD_BOOL, .offset = TRANSFORM(normalise), .fallback = "true"},
    {.name = NULL},
};
const vv_desc vvi_transform_desc = {.kind = "transform", .name = "transform",
                                    .summary = "Augmentation of training images.", .cite = "",
                                    .domains = "cv", .fields = transform_fields,
                                    .opts_size = sizeof(vv_image_transform)};

#define PROFILE(field) offsetof(vv_profile_opts, field)
static const vv_field profile_fields[] = {
    {.name = "skip_first", .help = "batches of each epoch before the first cycle", .type = VV_FIELD_INT, .offset = PROFILE(skip_first), .fallback = "0", .min = 0, .max = 1e15},
    {.name = "wait", .help = "batches of a cycle that are left alone", .type = VV_FIELD_INT, .offset = PROFILE(wait), .fallback = "0", .min = 0, .max = 1e15},
    {.name = "warmup", .help = "batches of a cycle that run with the profiler on but are not recorded", .type = VV_FIELD_INT, .offset = PROFILE(warmup), .fallback = "1", .min = 0, .max = 1e15},
    {.name = "active", .help = "batches of a cycle that are recorded", .type = VV_FIELD_INT, .offset = PROFILE(active), .fallback = "4", .min = 1, .max = 1e6},
    {.name = "repeat", .help = "cycles in each epoch; 0 = as many as fit", .type = VV_FIELD_INT, .offset = PROFILE(repeat), .fallback = "1", .min = 0, .max = 1e15},
    {.name = NULL},
};
const vv_desc vvi_profile_desc = {.kind = "profile", .name = "profile",
                                  .summary = "Which batches are profiled.", .cite = "",
                                  .domains = "any", .fields = profile_fields,
                                  .opts_size = sizeof(vv_profile_opts)};

const vv_desc *vv_recipe_desc(const char *name)
{
    if (strcmp(name, vvi_recipe_top_desc.name) == 0)
        return &vvi_recipe_top_desc;
    if (strcmp(name, vvi_eval_desc.name) == 0)
        return &vvi_eval_desc;
    if (strcmp(name, vvi_profile_desc.name) == 0)
        return &vvi_profile_desc;
    return strcmp(name, vvi_transform_desc.name) == 0 ? &vvi_transform_desc : NULL;
}

/* Names of sections, for the nearest-name search beside the top fields. */
static const char *const sections[] = {"model",     "dataset",   "transform", "evaluators",
                                       "optimizer", "schedules", "methods",   "callbacks",
                                       "loggers",   "profile", "loss"};
enum { SECTIONS = sizeof sections / sizeof sections[0],
       TOP_FIELDS = sizeof top_fields / sizeof top_fields[0] - 1 };

static const char *key_at(const void *ctx, int i)
{
    (void)ctx;
    return i < SECTIONS ? sections[i] : top_fields[i - SECTIONS].name;
}

vv_status vvi_recipe_within(const vv_recipe *r, const vvi_yaml *node, vv_status status)
{
    if (!node)
        return vv_fail_within(status, "%s", r->origin);
    if (!node->line)
        return vv_fail_within(status, "%s (override)", r->origin);
    return vv_fail_within(status, "%s:%d", r->origin, node->line);
}

void vvi_part_fini(vvi_part *part)
{
    if (part->opts) {
        vv_opts_fini(part->desc, part->opts);
        vv_dealloc(part->opts);
    }
    *part = (vvi_part){0};
}

/* A list of names for a text field such as `initializers`: "a,b". */
static vv_status join(const vvi_yaml *list, vv_str *out)
{
    for (int i = 0; i < list->count; i++) {
        if (i)
            vv_str_add(out, ",");
        VV_TRY(vvi_yaml_flat(list->items[i], out));
    }
    return vv_str_status(out);
}

vv_status vvi_recipe_set_field(const vv_recipe *r, const vv_desc *desc, void *opts, const char *key,
                               const vvi_yaml *value)
{
    vv_str text = {0};
    vv_status status = VV_OK;
    const vv_field *field = vv_desc_field(desc, key);
    if (field && value->kind == VVI_YAML_LIST && field->type == VV_FIELD_STRING)
        status = join(value, &text);
    else if (field)
        status = vvi_yaml_flat(value, &text);
    status = vv_fail_within(status, "%s", key);
    if (status == VV_OK)
        status = vv_opts_set(desc, opts, key, vv_str_text(&text));
    vv_str_fini(&text);
    return vvi_recipe_within(r, value, status);
}

/* What a section says about one thing: its name, and a map of settings or nothing. */
typedef struct entry {
    const char *name;
    const vvi_yaml *where;    /* of the name, for sentences; may be NULL */
    const vvi_yaml *settings; /* may be NULL */
    bool has_name;            /* the settings hold `name` */
} entry;

static vv_status need_all(const entry *e, const vv_desc *desc)
{
    for (const vv_field *field = desc->fields; field && field->name; field++)
        if (!field->fallback && !vvi_yaml_get(e->settings, field->name))
            return vv_fail(VV_EINVAL, "%s.%s must be given: %s", desc->name, field->name,
                           field->help);
    return VV_OK;
}

static vv_status make_part(const vv_recipe *r, vvi_part *part, const char *kind, const entry *e)
{
    vv_status status = vv_registry_find(&part->desc, kind, e->name);
    if (status != VV_OK)
        return vvi_recipe_within(r, e->where, status);
    VV_TRY(vv_alloc(&part->opts, part->desc->opts_size + 1));
    VV_GO(vv_opts_init(part->desc, part->opts));
    for (int i = 0; e->settings && i < e->settings->count; i++)
        if (!e->has_name || strcmp(e->settings->keys[i], "name") != 0)
            VV_GO(vvi_recipe_set_field(r, part->desc, part->opts, e->settings->keys[i],
                                       e->settings->items[i]));
    VV_GO(vvi_recipe_within(r, e->where, need_all(e, part->desc)));
    VV_GO(vvi_recipe_within(r, e->where, vv_opts_check(part->desc, part->opts)));
    return VV_OK;
out:
    vvi_part_fini(part);
    return status;
}

static bool is_empty(const vvi_yaml *node)
{
    return !node || (node->kind == VVI_YAML_TEXT && !node->text[0]);
}

static bool is_word(const vvi_yaml *node, const char *a, const char *b)
{
    return node->kind == VVI_YAML_TEXT &&
           (strcmp(node->text, a) == 0 || strcmp(node->text, b) == 0);
}

/* A thing by its name alone, or a map with `name`; false if the node is neither. */
static bool read_named(const vvi_yaml *node, entry *e)
{
    const vvi_yaml *name = node->kind == VVI_YAML_TEXT ? node : vvi_yaml_get(node, "name");
    if (!name || name->kind != VVI_YAML_TEXT)
        return false;
    *e = (entry){name->text, name, name == node ? NULL : node, name != node};
    return true;
}

vv_status vvi_recipe_read_single(const vv_recipe *r, const vvi_yaml *root, const char *section,
                                 const char *kind, const char *fallback, vvi_part *part)
{
    const vvi_yaml *node = vvi_yaml_get(root, section);
    entry e = {.name = fallback};
    if (is_empty(node) && !fallback)
        return vvi_recipe_within(
            r, node,
            vv_fail(VV_EINVAL, "the recipe names no %s; add `%s: NAME`", section, section));
    if (!is_empty(node) && !read_named(node, &e)) {
        if (!fallback || node->kind != VVI_YAML_MAP || vvi_yaml_get(node, "name"))
            return vvi_recipe_within(r, node,
                          vv_fail(VV_EINVAL, "%s has no `name`; write `%s: NAME`, or `name: NAME` "
                                             "beside its settings", section, section));
        e = (entry){fallback, node, node, false};
    }
    return make_part(r, part, kind, &e);
}

static vv_status push_part(const vv_recipe *r, vvi_parts *parts, const char *kind, const entry *e)
{
    VV_TRY(vv_realloc_array(&parts->items, (size_t)parts->count + 1, sizeof *parts->items));
    parts->items[parts->count] = (vvi_part){0};
    VV_TRY(make_part(r, &parts->items[parts->count], kind, e));
    parts->count++;
    return VV_OK;
}

/* "NAME: {settings}"; `off` leaves it out, nothing or `on` takes the defaults. */
static vv_status read_keyed(const vv_recipe *r, const char *section, const char *kind,
                            const char *name, const vvi_yaml *item, vvi_parts *parts)
{
    const vv_desc *desc;
    if (is_word(item, "off", "false")) /* a misspelt name must not go unseen */
        return vvi_recipe_within(r, item, vv_registry_find(&desc, kind, name));
    entry e = {name, item, item->kind == VVI_YAML_MAP ? item : NULL, false};
    if (item->kind == VVI_YAML_LIST ||
        !(e.settings || is_empty(item) || is_word(item, "on", "true")))
        return vvi_recipe_within(r, item,
                      vv_fail(VV_EINVAL,
                              "%s.%s: settings are `key: value` lines, or `on`, or "
                              "`off`%s%s%s",
                              section, name, item->text ? "; found '" : "",
                              item->text ? item->text : "", item->text ? "'" : ""));
    return push_part(r, parts, kind, &e);
}

/* A section that names several: a map name -> settings, or a list of names, maps of one such entry,
   and maps with `name`; or one thing, as in read_single. */
static vv_status read_several(const vv_recipe *r, const vvi_yaml *root, const char *section,
                              const char *kind, vvi_parts *parts)
{
    const vvi_yaml *node = vvi_yaml_get(root, section);
    entry e;
    if (is_empty(node) || is_word(node, "off", "none"))
        return VV_OK;
    if (read_named(node, &e))
        return push_part(r, parts, kind, &e);
    for (int i = 0; i < node->count; i++) {
        const vvi_yaml *item = node->items[i];
        if (node->kind == VVI_YAML_MAP)
            VV_TRY(read_keyed(r, section, kind, node->keys[i], item, parts));
        else if (is_word(item, "off", "false")) /* methods.0=off */
            continue;
        else if (read_named(item, &e))
            VV_TRY(push_part(r, parts, kind, &e));
        else if (item->kind == VVI_YAML_MAP && item->count == 1)
            VV_TRY(read_keyed(r, section, kind, item->keys[0], item->items[0], parts));
        else
            return vvi_recipe_within(r, item,
                                     vv_fail(VV_EINVAL,
                                             "%s: entry %d is neither a name nor `name: "
                                             "settings`",
                                             section, i));
    }
    return VV_OK;
}

const vv_desc *vvi_default_callback(int *i)
{
    const vv_desc *desc;
    while ((desc = vv_registry_at("callback", *i)) &&
           !((const vv_callback_desc *)(const void *)desc)->on_by_default)
        ++*i;
    return desc;
}

bool vvi_parts_have(const vvi_parts *parts, const vv_desc *desc)
{
    for (int i = 0; i < parts->count; i++)
        if (parts->items[i].desc == desc)
            return true;
    return false;
}

/* "NAME: off" in the section, or the whole section off. */
static bool is_waived(const vvi_yaml *section, const char *name)
{
    if (!section || section->kind == VVI_YAML_TEXT)
        return section && is_word(section, "off", "none");
    for (int i = 0; i < section->count; i++) {
        const vvi_yaml *item = section->items[i];
        if (section->kind == VVI_YAML_MAP ? strcmp(section->keys[i], name) == 0
                                          : vvi_yaml_get(item, name) != NULL)
            return true;
    }
    return false;
}

/* What every run has unless the recipe says otherwise. */
static vv_status add_defaults(vv_recipe *r, const vvi_yaml *root)
{
    const vvi_yaml *section = vvi_yaml_get(root, "callbacks");
    const vv_desc *desc;
    for (int i = 0; (desc = vvi_default_callback(&i)); i++) {
        entry e = {.name = desc->name};
        if (!vvi_parts_have(&r->callbacks, desc) && !is_waived(section, desc->name))
            VV_TRY(push_part(r, &r->callbacks, "callback", &e));
    }
    return VV_OK;
}

/* The trainer counts in these. */
static bool is_duration(vv_time time)
{
    if (time.unit == VV_UNIT_USD)
        return time.fraction > 0.0;
    return time.count > 0 && time.unit != VV_UNIT_DURATION && !vv_time_is_none(time);
}

static vv_status read_top(vv_recipe *r, const vvi_yaml *root)
{
    for (int i = 0; i < root->count; i++) {
        const char *key = root->keys[i];
        bool section = false;
        for (int k = 0; k < SECTIONS; k++)
            section = section || strcmp(key, sections[k]) == 0;
        if (section)
            continue;
        if (!vv_desc_field(&vvi_recipe_top_desc, key)) {
            int near = vv_nearest(key, key_at, NULL, SECTIONS + TOP_FIELDS);
            vv_status status =
                near >= 0 ? vv_fail(VV_EINVAL, "unknown key '%s'; did you mean '%s'?", key,
                                    key_at(NULL, near))
                          : vv_fail(VV_EINVAL, "unknown key '%s' in a recipe", key);
            return vvi_recipe_within(r, root->items[i], status);
        }
        VV_TRY(vvi_recipe_set_field(r, &vvi_recipe_top_desc, &r->top, key, root->items[i]));
    }
    VV_TRY(vvi_recipe_within(r, vvi_yaml_get(root, "microbatch"),
                  vv_microbatch_parse(&r->microbatch, r->top.microbatch)));
    VV_TRY(vvi_recipe_within(r, vvi_yaml_get(root, "memory_limit"),
                  vv_fail_within(vv_bytes_parse(&r->memory_limit, r->top.memory_limit),
                                 "memory_limit")));
    if (!is_duration(r->top.max_duration))
        return vvi_recipe_within(r, vvi_yaml_get(root, "max_duration"),
                      vv_fail(VV_EINVAL,
                              "max_duration must be a positive number of epochs, batches, samples, "
                              "tokens, iterations, seconds or dollars, like 10ep or 1h20m"));
    return VV_OK;
}

static vv_status read_transform(vv_recipe *r, const vvi_yaml *root)
{
    const vvi_yaml *node = vvi_yaml_get(root, "transform");
    const vv_dataset_desc *dataset = (const vv_dataset_desc *)(const void *)r->dataset.desc;
    r->transform = dataset->train_transform;
    if (is_empty(node))
        return VV_OK;
    if (node->kind != VVI_YAML_MAP)
        return vvi_recipe_within(r, node,
                      vv_fail(VV_EINVAL, "transform needs settings by name, like `flip: true`"));
    for (int i = 0; i < node->count; i++)
        VV_TRY(vvi_recipe_set_field(r, &vvi_transform_desc, &r->transform, node->keys[i],
                                    node->items[i]));
    return VV_OK;
}

/* `on`, `off` or settings. */
static vv_status read_profile(vv_recipe *r, const vvi_yaml *root)
{
    const vvi_yaml *node = vvi_yaml_get(root, "profile");
    if (is_empty(node) || is_word(node, "off", "false"))
        return VV_OK;
    bool plain = is_word(node, "on", "true");
    if (!plain && node->kind != VVI_YAML_MAP)
        return vvi_recipe_within(r, node,
                      vv_fail(VV_EINVAL, "profile is `on`, `off`, or settings by name, like "
                                         "`active: 4`"));
    r->profiled = true;
    VV_TRY(vv_opts_init(&vvi_profile_desc, &r->profile));
    for (int i = 0; !plain && i < node->count; i++)
        VV_TRY(
            vvi_recipe_set_field(r, &vvi_profile_desc, &r->profile, node->keys[i], node->items[i]));
    return VV_OK;
}

static vv_status resolve(vv_recipe *r, const vvi_yaml *root)
{
    if (root->kind != VVI_YAML_MAP)
        return vv_fail(VV_EFORMAT, "%s: a recipe is a list of `key: value` lines", r->origin);
    VV_TRY(vv_opts_init(&vvi_recipe_top_desc, &r->top));
    r->top_ready = true;
    VV_TRY(read_top(r, root));
    VV_TRY(vvi_recipe_read_single(r, root, "model", "model", NULL, &r->model));
    VV_TRY(vvi_recipe_read_single(r, root, "dataset", "dataset", NULL, &r->dataset));
    const vvi_yaml *loss = vvi_yaml_get(root, "loss");
    if (!is_empty(loss) && !is_word(loss, "auto", "none")) /* else the model's own */
        VV_TRY(vvi_recipe_read_single(r, root, "loss", "loss", NULL, &r->loss));
    VV_TRY(read_transform(r, root));
    VV_TRY(vvi_recipe_read_evaluators(r, root));
    VV_TRY(read_profile(r, root));
    VV_TRY(
        vvi_recipe_read_single(r, root, "optimizer", "optimizer", "decoupled_sgdw", &r->optimizer));
    VV_TRY(read_several(r, root, "schedules", "schedule", &r->schedules));
    VV_TRY(read_several(r, root, "methods", "method", &r->methods));
    VV_TRY(read_several(r, root, "callbacks", "callback", &r->callbacks));
    VV_TRY(add_defaults(r, root));
    return read_several(r, root, "loggers", "logger", &r->loggers);
}

vv_status vv_recipe_parse(vv_recipe **out, const char *text, const char *origin,
                          const char *const *overrides, int override_count)
{
    *out = NULL;
    vv_status status;
    vvi_yaml *root = NULL;
    vv_recipe *r = NULL;
    VV_GO(vvi_yaml_parse(&root, text, strlen(text), origin));
    for (int i = 0; i < override_count; i++) {
        if (root->kind != VVI_YAML_MAP)
            VV_GO(vv_fail(VV_EFORMAT, "%s: a recipe is a list of `key: value` lines", origin));
        VV_GO(vvi_yaml_override(root, overrides[i]));
    }
    VV_GO(vv_alloc(&r, sizeof *r));
    VV_GO(vv_strdup(&r->origin, origin));
    VV_GO(resolve(r, root));
    *out = r;
    r = NULL;
out:
    vv_recipe_free(r);
    vvi_yaml_free(root);
    return status;
}

vv_status vv_recipe_load(vv_recipe **out, const char *path, const char *const *overrides,
                         int override_count)
{
    *out = NULL;
    char *text = NULL;
    size_t length = 0;
    VV_TRY(vvi_file_read_all(&text, &length, path));
    vv_status status = VV_OK;
    if (memchr(text, 0, length))
        status = vv_fail(VV_EFORMAT, "%s: not a text file (it holds NUL bytes)", path);
    else
        status = vv_recipe_parse(out, text, path, overrides, override_count);
    vv_dealloc(text);
    return status;
}

static void free_parts(vvi_parts *parts)
{
    for (int i = 0; i < parts->count; i++)
        vvi_part_fini(&parts->items[i]);
    vv_dealloc(parts->items);
}

void vv_recipe_free(vv_recipe *r)
{
    if (!r)
        return;
    if (r->top_ready)
        vv_opts_fini(&vvi_recipe_top_desc, &r->top);
    vvi_part_fini(&r->model);
    vvi_part_fini(&r->dataset);
    vvi_part_fini(&r->loss);
    vvi_part_fini(&r->optimizer);
    vvi_recipe_free_evaluators(r);
    free_parts(&r->schedules);
    free_parts(&r->methods);
    free_parts(&r->callbacks);
    free_parts(&r->loggers);
    vv_dealloc(r->origin);
    vv_dealloc(r);
}
