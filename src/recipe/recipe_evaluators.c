/* recipe_evaluators.c - the section `evaluators`: label -> data set, metrics, interval, subset. */
#include "recipe/recipe_impl.h"

#include <string.h>

#include <vivace/memory.h>

#define OPT(field) offsetof(vvi_eval_opts, field)
static const char *const splits[] = {"eval", "train", NULL};
static const vv_field fields[] = {
    {.name = "metrics", .help = "metrics, comma-separated; none = the recipe's eval_metrics", .type = VV_FIELD_STRING, .offset = OPT(metrics), .fallback = ""},
    {.name = "interval", .help = "time between evaluations, 0ep = only at the end; none = the recipe's eval_interval", .type = VV_FIELD_TIME, .offset = OPT(interval), .fallback = "none"},
    {.name = "subset", .help = "only the first samples, in batches or samples: 10ba, 500sp; none = all", .type = VV_FIELD_TIME, .offset = OPT(subset), .fallback = "none"},
    {.name = "batch_size", .help = "samples per batch; 0 = the recipe's eval_batch_size", .type = VV_FIELD_INT, .offset = OPT(batch_size), .fallback = "0", .min = 0, .max = 1e9},
    {.name = "microbatch", .help = "samples computed at once; 0 = the whole batch", .type = VV_FIELD_INT, .offset = OPT(microbatch), .fallback = "0", .min = 0, .max = 1e9},
    {.name = "split", .help = "part of the data set", .type = VV_FIELD_CHOICE, .offset = OPT(split), .fallback = "eval", .choices = splits},
    {.name = NULL},
};
const vv_desc vvi_eval_desc = {.kind = "evaluator", .name = "evaluator",
                               .summary = "One entry of `evaluators`; beside these settings, "
                                          "`dataset`: a name, or a name with settings.",
                               .cite = "", .domains = "any", .fields = fields,
                               .opts_size = sizeof(vvi_eval_opts)};

/* What is not given is the recipe's, from now on in so many words. */
static vv_status inherit(const vv_recipe *r, vvi_eval_opts *opts)
{
    if (!opts->metrics || !opts->metrics[0])
        VV_TRY(vv_opts_set(&vvi_eval_desc, opts, "metrics", r->top.eval_metrics));
    if (vv_time_is_none(opts->interval))
        opts->interval = r->top.eval_interval;
    if (opts->batch_size == 0)
        opts->batch_size = r->top.eval_batch_size;
    if (!vv_time_is_none(opts->subset) &&
        ((opts->subset.unit != VV_UNIT_BATCH && opts->subset.unit != VV_UNIT_SAMPLE) ||
         opts->subset.count < 1))
        return vv_fail(VV_EINVAL, "subset: give batches or samples, like 10ba or 500sp");
    return VV_OK;
}

/* The recipe's own data set, with its settings, unless the entry names one. */
static vv_status read_dataset(const vv_recipe *r, const vvi_yaml *entry, vvi_part *part)
{
    if (vvi_yaml_get(entry, "dataset"))
        return vvi_recipe_read_single(r, entry, "dataset", "dataset", r->dataset.desc->name, part);
    void *opts = NULL;
    VV_TRY(vv_alloc(&opts, r->dataset.desc->opts_size + 1));
    vv_status status = vv_opts_copy(r->dataset.desc, opts, r->dataset.opts);
    if (status != VV_OK) {
        vv_dealloc(opts);
        return status;
    }
    *part = (vvi_part){r->dataset.desc, opts};
    return VV_OK;
}

static vv_status read_entry(const vv_recipe *r, const char *label, const vvi_yaml *entry,
                            vvi_eval_part *e)
{
    const bool empty = entry->kind == VVI_YAML_TEXT &&
                       (!entry->text[0] || strcmp(entry->text, "on") == 0);
    if (!label[0] || (entry->kind != VVI_YAML_MAP && !empty))
        return vvi_recipe_within(r, entry,
                                 vv_fail(VV_EINVAL, "evaluators.%s: give settings by name, like "
                                                    "`%s: {dataset: NAME, metrics: accuracy}`",
                                         label, label[0] ? label : "LABEL"));
    VV_TRY(vv_strdup(&e->label, label));
    VV_TRY(vv_opts_init(&vvi_eval_desc, &e->opts));
    e->ready = true;
    for (int i = 0; i < entry->count; i++)
        if (strcmp(entry->keys[i], "dataset") != 0)
            VV_TRY(vvi_recipe_set_field(r, &vvi_eval_desc, &e->opts, entry->keys[i],
                                        entry->items[i]));
    VV_TRY(read_dataset(r, entry, &e->dataset));
    return vvi_recipe_within(r, entry, inherit(r, &e->opts));
}

vv_status vvi_recipe_read_evaluators(vv_recipe *r, const vvi_yaml *root)
{
    const vvi_yaml *node = vvi_yaml_get(root, "evaluators");
    if (!node || (node->kind == VVI_YAML_TEXT && !node->text[0]))
        return VV_OK;
    if (node->kind != VVI_YAML_MAP)
        return vvi_recipe_within(
            r, node,
            vv_fail(VV_EINVAL,
                    "evaluators: each has a label, like `eval: {}` or `hard: {dataset: NAME}`"));
    for (int i = 0; i < node->count; i++) {
        const vvi_yaml *entry = node->items[i];
        if (entry->kind == VVI_YAML_TEXT && strcmp(entry->text, "off") == 0)
            continue;
        VV_TRY(vv_realloc_array(&r->evaluators, (size_t)r->evaluator_count + 1,
                                sizeof *r->evaluators));
        vvi_eval_part *e = &r->evaluators[r->evaluator_count++];
        *e = (vvi_eval_part){0};
        VV_TRY(read_entry(r, node->keys[i], entry, e));
    }
    return VV_OK;
}

void vvi_recipe_free_evaluators(vv_recipe *r)
{
    for (int i = 0; i < r->evaluator_count; i++) {
        vvi_eval_part *e = &r->evaluators[i];
        if (e->ready)
            vv_opts_fini(&vvi_eval_desc, &e->opts);
        vvi_part_fini(&e->dataset);
        vv_dealloc(e->label);
    }
    vv_dealloc(r->evaluators);
}
