/* sweep.c - a sweep from its file. */
#include "sweep/sweep_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>
#include <vivace/metrics.h>
#include <vivace/recipe.h>

#include "base/file.h"
#include "base/number.h"
#include "recipe/yaml_tree.h"

static const char *const keys[] = {"name",  "recipe",  "strategy", "parameters", "methods", "seeds",
                                   "set",   "samples", "seed",     "metric",     "ratios",  "keep",
                                   "reach", "budget",  "jobs",     "threads",    "launcher",
                                   "asynchronous"};
static const char *const strategies[] = {"grid",      "random",  "one_at_a_time",
                                         "factorial", "halving", "bandit"};

typedef struct names {
    const char *const *items;
} names;

static const char *name_at(const void *ctx, int i)
{
    return ((const names *)ctx)->items[i];
}

static vv_status unknown(const vv_sweep *s, int line, const char *what, const char *word,
                         const char *const *items, int count)
{
    const names list = {items};
    int nearest = vv_nearest(word, name_at, &list, count);
    if (nearest >= 0)
        return vv_fail(VV_EINVAL, "%s:%d: %s '%s' is unknown; did you mean '%s'?", s->origin, line,
                       what, word, items[nearest]);
    return vv_fail(VV_EINVAL, "%s:%d: %s '%s' is unknown", s->origin, line, what, word);
}

/* ---- values ---- */

static vv_status text_of(const vv_sweep *s, const vvi_yaml *node, const char *key, char **out)
{
    if (node->kind != VVI_YAML_TEXT)
        return vv_fail(VV_EINVAL, "%s:%d: %s: give one value", s->origin, node->line, key);
    vv_dealloc(*out);
    *out = NULL;
    return vv_strdup(out, node->text);
}

static vv_status number_of(const vv_sweep *s, const vvi_yaml *node, const char *key, double min,
                           double max, double *out)
{
    vvi_number number;
    const char *rest = node->kind == VVI_YAML_TEXT ? vvi_number_read(&number, node->text) : NULL;
    if (!rest || *rest || number.value < min || number.value > max)
        return vv_fail(VV_EINVAL, "%s:%d: %s: give a number from %g to %g", s->origin, node->line,
                       key, min, max);
    *out = number.value;
    return VV_OK;
}

static vv_status whole_of(const vv_sweep *s, const vvi_yaml *node, const char *key, double min,
                          double max, int *out)
{
    double value = 0.0;
    VV_TRY(number_of(s, node, key, min, max, &value));
    if (value != floor(value))
        return vv_fail(VV_EINVAL, "%s:%d: %s: give a whole number", s->origin, node->line, key);
    *out = (int)value;
    return VV_OK;
}

static vv_status truth_of(const vv_sweep *s, const vvi_yaml *node, const char *key, int *out)
{
    const char *text = node->kind == VVI_YAML_TEXT ? node->text : "";
    *out = strcmp(text, "true") == 0;
    if (*out || strcmp(text, "false") == 0)
        return VV_OK;
    return vv_fail(VV_EINVAL, "%s:%d: %s: give true or false", s->origin, node->line, key);
}

vv_status vvi_append_text(char ***list, int *count, const char *text)
{
    VV_TRY(vv_realloc_array(list, (size_t)*count + 2, sizeof **list));
    VV_TRY(vv_strdup(&(*list)[*count], text));
    (*list)[++*count] = NULL;
    return VV_OK;
}

/* "key=value" of a YAML value; lists in one text. */
static vv_status append_override(char ***list, int *count, const char *key, const vvi_yaml *value)
{
    vv_str text = {0};
    vv_str_addf(&text, "%s=", key);
    vv_status status = vvi_yaml_flat(value, &text);
    if (status == VV_OK)
        status = vv_str_status(&text);
    if (status == VV_OK)
        status = vvi_append_text(list, count, vv_str_text(&text));
    vv_str_fini(&text);
    return status;
}

/* ---- factors ---- */

static vv_status new_factor(vv_sweep *s, const char *name, vvi_factor **out)
{
    VV_TRY(vv_realloc_array(&s->factors, (size_t)s->factor_count + 1, sizeof *s->factors));
    vvi_factor *f = &s->factors[s->factor_count];
    *f = (vvi_factor){0};
    VV_TRY(vv_strdup(&f->name, name));
    s->factor_count++;
    *out = f;
    return VV_OK;
}

static vv_status new_option(vvi_factor *f, char ****out)
{
    VV_TRY(vv_realloc_array(&f->options, (size_t)f->count + 1, sizeof *f->options));
    f->options[f->count] = NULL;
    *out = &f->options[f->count++];
    return VV_OK;
}

/* {min, max, steps, log}: that many values, both ends among them. */
static vv_status add_range(const vv_sweep *s, vvi_factor *f, const char *key, const vvi_yaml *node)
{
    double min = (double)NAN, max = (double)NAN;
    int steps = 8;
    bool log_scale = false;
    for (int i = 0; i < node->count; i++) {
        const char *name = node->keys[i];
        const vvi_yaml *value = node->items[i];
        if (strcmp(name, "min") == 0)
            VV_TRY(number_of(s, value, "min", -1e300, 1e300, &min));
        else if (strcmp(name, "max") == 0)
            VV_TRY(number_of(s, value, "max", -1e300, 1e300, &max));
        else if (strcmp(name, "steps") == 0)
            VV_TRY(whole_of(s, value, "steps", 2, 1000, &steps));
        else if (strcmp(name, "log") == 0)
            log_scale = value->kind == VVI_YAML_TEXT && strcmp(value->text, "true") == 0;
        else
            return vv_fail(VV_EINVAL, "%s:%d: %s: '%s' is none of min, max, steps and log",
                           s->origin, value->line, key, name);
    }
    if (isnan(min) || isnan(max) || min >= max || (log_scale && min <= 0.0))
        return vv_fail(VV_EINVAL, "%s:%d: %s: give min and max, min the smaller%s", s->origin,
                       node->line, key, log_scale ? " and above 0" : "");
    for (int i = 0; i < steps; i++) {
        const double part = (double)i / (steps - 1);
        const double value = log_scale ? min * pow(max / min, part) : min + part * (max - min);
        char text[512], number[40];
        char ***option;
        int count = 0;
        snprintf(number, sizeof number, "%.4g", value);
        snprintf(text, sizeof text, "%s=%s", key, number);
        VV_TRY(new_option(f, &option));
        VV_TRY(vvi_append_text(option, &count, text));
    }
    return VV_OK;
}

static vv_status add_parameter(vv_sweep *s, const char *key, const vvi_yaml *node)
{
    vvi_factor *f;
    if (strcmp(key, "seed") == 0)
        return vv_fail(VV_EINVAL,
                       "%s:%d: seeds are no parameter: every setting is tried with each; "
                       "write `seeds: [...]` beside `parameters`",
                       s->origin, node->line);
    VV_TRY(new_factor(s, key, &f));
    if (node->kind == VVI_YAML_MAP)
        return add_range(s, f, key, node);
    if (node->kind != VVI_YAML_LIST || node->count < 1)
        return vv_fail(VV_EINVAL, "%s:%d: %s: give a list of values, or {min, max, steps, log}",
                       s->origin, node->line, key);
    for (int i = 0; i < node->count; i++) {
        char ***option;
        int count = 0;
        VV_TRY(new_option(f, &option));
        VV_TRY(append_override(option, &count, key, node->items[i]));
    }
    return VV_OK;
}

/* A method is off or on with the settings given. */
static vv_status add_method(vv_sweep *s, const char *name, const vvi_yaml *node)
{
    vvi_factor *f;
    char ***off, ***on;
    char text[256];
    int off_count = 0, on_count = 0;
    VV_TRY(new_factor(s, name, &f));
    snprintf(text, sizeof text, "methods.%s=off", name);
    VV_TRY(new_option(f, &off));
    VV_TRY(vvi_append_text(off, &off_count, text));
    snprintf(text, sizeof text, "methods.%s=on", name);
    VV_TRY(new_option(f, &on));
    VV_TRY(vvi_append_text(&f->options[1], &on_count, text));
    if (node->kind == VVI_YAML_LIST)
        return vv_fail(VV_EINVAL, "%s:%d: %s: give its settings as a map", s->origin, node->line,
                       name);
    for (int i = 0; node->kind == VVI_YAML_MAP && i < node->count; i++) {
        snprintf(text, sizeof text, "methods.%s.%s", name, node->keys[i]);
        VV_TRY(append_override(&f->options[1], &on_count, text, node->items[i]));
    }
    return VV_OK;
}

static vv_status read_map(vv_sweep *s, const vvi_yaml *node, const char *key,
                          vv_status (*add)(vv_sweep *, const char *, const vvi_yaml *))
{
    if (node->kind == VVI_YAML_LIST && add == add_method) { /* names alone */
        const vvi_yaml none = {.kind = VVI_YAML_MAP};
        for (int i = 0; i < node->count; i++) {
            if (node->items[i]->kind != VVI_YAML_TEXT)
                return vv_fail(VV_EINVAL, "%s:%d: methods: give names, or a map", s->origin,
                               node->line);
            VV_TRY(add_method(s, node->items[i]->text, &none));
        }
        return VV_OK;
    }
    if (node->kind != VVI_YAML_MAP)
        return vv_fail(VV_EINVAL, "%s:%d: %s: give a map", s->origin, node->line, key);
    for (int i = 0; i < node->count; i++)
        VV_TRY(add(s, node->keys[i], node->items[i]));
    return VV_OK;
}

static vv_status add_fixed(vv_sweep *s, const char *key, const vvi_yaml *value)
{
    return append_override(&s->fixed, &s->fixed_count, key, value);
}

/* ---- the rest ---- */

static vv_status read_seeds(vv_sweep *s, const vvi_yaml *node)
{
    double value = 0.0;
    if (node->kind != VVI_YAML_LIST || node->count < 1)
        return vv_fail(VV_EINVAL, "%s:%d: seeds: give a list", s->origin, node->line);
    for (int i = 0; i < node->count; i++) {
        VV_TRY(number_of(s, node->items[i], "seeds", 0, 4294967295.0, &value));
        VV_TRY(vvi_append_text(&s->seeds, &s->seed_count, node->items[i]->text));
    }
    return VV_OK;
}

static vv_status read_ratios(vv_sweep *s, const vvi_yaml *node)
{
    if (node->kind != VVI_YAML_LIST || node->count < 1)
        return vv_fail(VV_EINVAL, "%s:%d: ratios: give a list", s->origin, node->line);
    VV_TRY(vv_alloc_array(&s->ratios, (size_t)node->count, sizeof *s->ratios));
    for (int i = 0; i < node->count; i++) {
        VV_TRY(number_of(s, node->items[i], "ratios", 1e-6, 1e6, &s->ratios[i]));
        if (i > 0 && s->ratios[i] <= s->ratios[i - 1])
            return vv_fail(VV_EINVAL, "%s:%d: ratios must grow", s->origin, node->line);
    }
    s->ratio_count = node->count;
    return VV_OK;
}

/* "60sec", "0.5usd" */
static vv_status read_budget(vv_sweep *s, const vvi_yaml *node)
{
    vvi_number number;
    const char *rest = node->kind == VVI_YAML_TEXT ? vvi_number_read(&number, node->text) : NULL;
    if (!rest || number.value <= 0.0 || (strcmp(rest, "sec") != 0 && strcmp(rest, "usd") != 0))
        return vv_fail(VV_EINVAL, "%s:%d: budget: give training time or a price: 60sec, 0.05usd",
                       s->origin, node->line);
    s->budget = number.value;
    s->budget_usd = *rest == 'u';
    return VV_OK;
}

static vv_status read_key(vv_sweep *s, const char *key, const vvi_yaml *node)
{
    char *text = NULL;
    double value = 0.0;
    if (strcmp(key, "name") == 0)
        return text_of(s, node, key, &s->name);
    if (strcmp(key, "recipe") == 0)
        return text_of(s, node, key, &s->recipe);
    if (strcmp(key, "metric") == 0)
        return text_of(s, node, key, &s->metric);
    if (strcmp(key, "launcher") == 0)
        return text_of(s, node, key, &s->launcher);
    if (strcmp(key, "parameters") == 0)
        return read_map(s, node, key, add_parameter);
    if (strcmp(key, "methods") == 0)
        return read_map(s, node, key, add_method);
    if (strcmp(key, "set") == 0)
        return read_map(s, node, key, add_fixed);
    if (strcmp(key, "seeds") == 0)
        return read_seeds(s, node);
    if (strcmp(key, "ratios") == 0)
        return read_ratios(s, node);
    if (strcmp(key, "budget") == 0)
        return read_budget(s, node);
    if (strcmp(key, "samples") == 0)
        return whole_of(s, node, key, 1, 100000, &s->samples);
    if (strcmp(key, "jobs") == 0)
        return whole_of(s, node, key, 1, 1024, &s->jobs);
    if (strcmp(key, "threads") == 0)
        return whole_of(s, node, key, 0, 4096, &s->threads);
    if (strcmp(key, "asynchronous") == 0)
        return truth_of(s, node, key, &s->asynchronous);
    if (strcmp(key, "keep") == 0)
        return number_of(s, node, key, 0.01, 0.99, &s->keep);
    if (strcmp(key, "reach") == 0)
        return number_of(s, node, key, -1e300, 1e300, &s->reach);
    if (strcmp(key, "seed") == 0) {
        VV_TRY(number_of(s, node, key, 0, 4294967295.0, &value));
        s->seed = (int64_t)value;
        return VV_OK;
    }
    VV_TRY(text_of(s, node, key, &text));
    const int count = (int)(sizeof strategies / sizeof strategies[0]);
    vv_status status = VV_OK;
    int found = -1;
    for (int i = 0; i < count; i++)
        if (strcmp(text, strategies[i]) == 0)
            found = i;
    if (found < 0)
        status = unknown(s, node->line, "strategy", text, strategies, count);
    else
        s->strategy = (vvi_strategy)found;
    vv_dealloc(text);
    return status;
}

static vv_status read_tree(vv_sweep *s, const vvi_yaml *root)
{
    const int count = (int)(sizeof keys / sizeof keys[0]);
    for (int i = 0; i < root->count; i++) {
        bool known = false;
        for (int k = 0; k < count; k++)
            known = known || strcmp(root->keys[i], keys[k]) == 0;
        if (!known)
            return unknown(s, root->items[i]->line, "key", root->keys[i], keys, count);
        VV_TRY(read_key(s, root->keys[i], root->items[i]));
    }
    if (!s->recipe)
        return vv_fail(VV_EINVAL, "%s: `recipe` must name the recipe to train", s->origin);
    if (s->strategy == VVI_SWEEP_HALVING && s->ratio_count < 2)
        return vv_fail(VV_EINVAL,
                       "%s: halving needs `ratios`, parts of the schedule that grow: "
                       "[0.25, 0.5, 1]",
                       s->origin);
    if (s->strategy == VVI_SWEEP_BANDIT && isnan(s->reach) == isnan(s->budget))
        return vv_fail(VV_EINVAL,
                       "%s: bandit needs its question: `reach` (a quality to reach at "
                       "least cost) or `budget` (a cost to get the best quality within)",
                       s->origin);
    return VV_OK;
}

/* Beside the sweep's file, if it is not where the program runs. */
static vv_status find_recipe(vv_sweep *s, const char *path)
{
    const char *slash = strrchr(path, '/');
    vv_str beside = {0};
    if (vvi_exists(s->recipe) || !slash)
        return VV_OK;
    vv_str_addn(&beside, path, (size_t)(slash - path) + 1);
    vv_str_add(&beside, s->recipe);
    vv_status status = vv_str_status(&beside);
    if (status == VV_OK && vvi_exists(vv_str_text(&beside))) {
        vv_dealloc(s->recipe);
        s->recipe = NULL;
        status = vv_strdup(&s->recipe, vv_str_text(&beside));
    }
    vv_str_fini(&beside);
    return status;
}

static vv_status file_name(char **out, const char *path)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    vv_str name = {0};
    vv_str_addn(&name, base, strcspn(base, "."));
    vv_status status = vv_str_status(&name);
    if (status == VV_OK)
        status = vv_strdup(out, name.length ? vv_str_text(&name) : "sweep");
    vv_str_fini(&name);
    return status;
}

/* Mistakes in settings are told now: each recipe is read with its overrides. */
static vv_status check_trials(vv_sweep *s)
{
    for (int i = 0; i < s->trial_count; i++) {
        vv_recipe *recipe;
        vv_status status =
            vv_recipe_load(&recipe, s->recipe, (const char *const *)s->trials[i].overrides,
                           s->trials[i].override_count);
        vv_recipe_free(recipe);
        if (status != VV_OK)
            return vv_fail_within(status, "%s: training %s", s->origin, s->trials[i].name);
    }
    return VV_OK;
}

vv_status vv_sweep_load(vv_sweep **out, const char *path, const char *const *overrides,
                        int override_count)
{
    vv_sweep *s = NULL;
    char *text = NULL;
    size_t length;
    vvi_yaml *root = NULL;
    vv_status status;
    *out = NULL;
    VV_GO(vv_alloc(&s, sizeof *s));
    s->samples = 16;
    s->keep = 0.5;
    s->seed = 17;
    s->jobs = 1;
    s->asynchronous = -1;
    s->reach = s->budget = (double)NAN;
    VV_GO(vv_strdup(&s->origin, path));
    VV_GO(file_name(&s->name, path));
    VV_GO(vv_strdup(&s->metric, "eval/accuracy"));
    VV_GO(vvi_file_read_all(&text, &length, path));
    VV_GO(vvi_yaml_parse(&root, text, length, path));
    if (root->kind != VVI_YAML_MAP)
        VV_GO(vv_fail(VV_EFORMAT, "%s: a sweep is a map: recipe, strategy, parameters, ...", path));
    for (int i = 0; i < override_count; i++)
        VV_GO(vvi_yaml_override(root, overrides[i]));
    VV_GO(read_tree(s, root));
    VV_GO(find_recipe(s, path));
    const char *metric = strrchr(s->metric, '/') ? strrchr(s->metric, '/') + 1 : s->metric;
    const vv_metric_desc *desc = vv_metric_find(metric);
    if (!desc)
        VV_GO(vv_fail(VV_EINVAL, "%s: metric '%s' is unknown", path, metric));
    s->higher = desc->higher_is_better;
    VV_GO(vvi_sweep_first(s));
    VV_GO(check_trials(s));
    *out = s;
    s = NULL;
out:
    vvi_yaml_free(root);
    vv_dealloc(text);
    vv_sweep_free(s);
    return status;
}

static void free_texts(char **texts)
{
    for (int i = 0; texts && texts[i]; i++)
        vv_dealloc(texts[i]);
    vv_dealloc(texts);
}

void vv_sweep_free(vv_sweep *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->factor_count; i++) {
        for (int j = 0; j < s->factors[i].count; j++)
            free_texts(s->factors[i].options[j]);
        vv_dealloc(s->factors[i].options);
        vv_dealloc(s->factors[i].name);
    }
    for (int i = 0; i < s->config_count; i++)
        vv_dealloc(s->configs[i].choice);
    for (int i = 0; i < s->trial_count; i++) {
        free_texts(s->trials[i].overrides);
        vv_dealloc(s->trials[i].name);
    }
    free_texts(s->seeds);
    free_texts(s->fixed);
    vv_dealloc(s->factors);
    vv_dealloc(s->configs);
    vv_dealloc(s->trials);
    vv_dealloc(s->slots);
    vv_dealloc(s->clocks);
    vv_dealloc(s->ratios);
    vv_dealloc(s->name);
    vv_dealloc(s->recipe);
    vv_dealloc(s->metric);
    vv_dealloc(s->launcher);
    vv_dealloc(s->origin);
    vv_dealloc(s);
}
