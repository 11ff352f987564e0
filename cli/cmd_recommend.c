/* cmd_recommend.c - `vivace recommend`: what to train, from the runs of a store. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/recommend.h>

typedef struct wish {
    vv_recommend_opts opts;
    const char *baseline;
} wish;

static vv_status read_number(double *out, const char *text, const char *key)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out)
               ? VV_OK
               : vv_fail(VV_EINVAL, "%s=%s is no number", key, text);
}

static const char *const keys[] = {"model",  "dataset", "metric", "baseline",
                                   "quality", "cost",    "time"};
enum { KEYS = sizeof keys / sizeof keys[0] };

static const char *key_at(const void *ctx, int i)
{
    (void)ctx;
    return keys[i];
}

static vv_status read_wish(wish *w, const cli_args *args)
{
    for (int i = 0; i < args->override_count; i++) {
        const char *text = args->overrides[i], *value = strchr(text, '=') + 1;
        char key[32] = "";
        int at = 0;
        snprintf(key, sizeof key, "%.*s", (int)(value - text - 1), text);
        while (at < KEYS && strcmp(key, keys[at]) != 0)
            at++;
        const char **texts[] = {&w->opts.model, &w->opts.dataset, &w->opts.metric, &w->baseline};
        double *numbers[] = {&w->opts.quality, &w->opts.usd, &w->opts.seconds};
        if (at < 4) {
            *texts[at] = value;
        } else if (at < KEYS) {
            VV_TRY(read_number(numbers[at - 4], value, key));
        } else {
            const int nearest = vv_nearest(key, key_at, NULL, KEYS);
            return nearest >= 0
                       ? vv_fail(VV_EINVAL, "unknown key %s; did you mean %s?", key, keys[nearest])
                       : vv_fail(VV_EINVAL, "unknown key %s", key);
        }
    }
    if (!isfinite(w->opts.quality) && !isfinite(w->opts.usd) && !isfinite(w->opts.seconds))
        return vv_fail(VV_EINVAL, "say what is wanted: quality=, or a budget by cost= (USD) or "
                                  "time= (seconds)");
    return VV_OK;
}

static void print_interval(const char *name, const vv_interval *i, const char *unit)
{
    if (!isfinite(i->mean))
        printf("  %-10s not known\n", name);
    else if (isfinite(i->low))
        printf("  %-10s %.6g%s (95%%: %.6g to %.6g, %d runs)\n", name, i->mean, unit, i->low,
               i->high, i->count);
    else
        printf("  %-10s %.6g%s (one run)\n", name, i->mean, unit);
}

static void print_saving(const char *what, double mine, double theirs)
{
    if (!isfinite(mine) || mine <= 0.0 || !isfinite(theirs))
        printf("  %-10s not known: %s\n", what,
               isfinite(mine) ? "runs like the baseline do not reach this quality"
                              : "these runs have no price");
    else
        printf("  %-10s %.3g of what runs like the baseline need for this quality (%+.1f%%)\n",
               what, mine / theirs, 100.0 * (mine / theirs - 1.0));
}

static vv_status print_choice(const vv_run_table *table, const wish *w, const char *title,
                              const vv_choice *choice, const vv_run_light *baseline)
{
    printf("%s\n", title);
    if (!choice->run) {
        printf("  none of the runs does\n");
        return VV_OK;
    }
    printf("  %-10s %s\n  %-10s", "run", choice->run->row.id, "methods");
    for (int i = 0; i < choice->run->method_count; i++)
        printf(" %s", choice->run->methods[i]);
    printf("%s, %s\n", choice->run->method_count ? "" : " none", choice->run->row.max_duration);
    print_interval("quality", &choice->quality, "");
    print_interval("time", &choice->seconds, " s");
    print_interval("cost", &choice->usd, " USD");
    if (baseline) {
        double seconds, usd;
        VV_TRY(vv_recommend_same_quality(table, &w->opts, baseline, choice->quality.mean, &seconds,
                                         &usd));
        print_saving("time is", choice->seconds.mean, seconds);
        print_saving("cost is", choice->usd.mean, usd);
    }
    return VV_OK;
}

static void print_effects(const vv_recommendation *r)
{
    if (r->effect_count == 0)
        return;
    printf("what each method does, other things equal\n  %-26s %6s %12s %6s %12s\n", "method",
           "pairs", "quality", "timed", "time ratio");
    for (int i = 0; i < r->effect_count; i++) {
        const vv_method_effect *e = &r->effects[i];
        printf("  %-26s %6d ", e->name, e->pairs);
        if (e->pairs)
            printf("%+12.5f ", e->quality_difference);
        else
            printf("%12s ", "-");
        printf("%6d ", e->timed);
        if (e->timed)
            printf("%12.3f\n", e->time_ratio);
        else
            printf("%12s\n", "-");
    }
}

static void print_pairs(const vv_recommendation *r)
{
    if (r->pair_count == 0)
        return;
    printf("what two methods do together beyond what each does alone\n  %-44s %6s %12s\n",
           "methods", "places", "quality");
    for (int i = 0; i < r->pair_count; i++) {
        char names[128];
        snprintf(names, sizeof names, "%.60s, %.60s", r->pairs[i].a, r->pairs[i].b);
        printf("  %-44s %6d %+12.5f\n", names, r->pairs[i].places, r->pairs[i].interaction);
    }
}

static bool keep_recipe(void *ctx, const vv_run_row *row)
{
    vv_str_add(ctx, row->recipe);
    return true;
}

static vv_status write_recipe(vv_run_store *store, const vv_run_light *run, const char *path)
{
    vv_str text = {0};
    vv_status status;
    VV_GO(vv_run_store_get(store, run->row.id, keep_recipe, &text));
    VV_GO(vv_str_status(&text));
    if (!text.length)
        VV_GO(vv_fail(VV_ENOTFOUND, "run %s has no recipe: it was imported", run->row.id));
    FILE *file = fopen(path, "w");
    bool written = file && fwrite(text.text, 1, text.length, file) == text.length;
    if (file)
        written = fclose(file) == 0 && written;
    if (written)
        printf("recipe of %s: vivace train %s\n", run->row.id, path);
    else
        status = vv_fail(VV_EIO, "%s cannot be written", path);
out:
    vv_str_fini(&text);
    return status;
}

static vv_status find_baseline(vv_run_store *store, const vv_run_table *table, const wish *w,
                               const vv_run_light **out)
{
    vv_str id = {0};
    *out = NULL;
    if (!w->baseline)
        return VV_OK;
    vv_status status = vv_run_store_find(store, w->baseline, &id);
    if (status == VV_OK)
        *out = vv_run_table_find(table, vv_str_text(&id));
    vv_str_fini(&id);
    return status;
}

static vv_status answer(vv_run_store *store, const wish *w, const char *path)
{
    vv_run_table *table = NULL;
    vv_recommendation r = {.effects = NULL};
    const vv_run_light *baseline;
    vv_status status;
    VV_GO(vv_run_table_read(&table, store));
    VV_GO(find_baseline(store, table, w, &baseline));
    VV_GO(vv_recommend(&r, table, &w->opts));
    if (r.run_count == 0)
        VV_GO(vv_fail(VV_ENOTFOUND, "no finished run of this model and data set has %s",
                      w->opts.metric));
    printf("%d runs of %d configurations\n", r.run_count, r.configuration_count);
    const bool quality = isfinite(w->opts.quality);
    const bool budget = isfinite(w->opts.usd) || isfinite(w->opts.seconds);
    if (quality) {
        VV_GO(print_choice(table, w, "cheapest that reaches the quality", &r.cheapest, baseline));
        VV_GO(print_choice(table, w, "fastest that reaches the quality", &r.fastest, baseline));
    }
    if (budget)
        VV_GO(print_choice(table, w, "best within the budget", &r.best, baseline));
    print_effects(&r);
    print_pairs(&r);
    const vv_choice *chosen = budget ? &r.best : r.cheapest.run ? &r.cheapest : &r.fastest;
    if (path && chosen->run)
        VV_GO(write_recipe(store, chosen->run, path));
    if (!chosen->run)
        status = vv_fail(VV_ENOTFOUND, "none of the runs does what was asked for");
out:
    vv_recommendation_fini(&r);
    vv_run_table_free(table);
    return status;
}

static int recommend(int argc, char **argv)
{
    const char *db = "runs/runs.db", *path = NULL;
    wish w = {.opts = VV_RECOMMEND_DEFAULTS};
    cli_args args;
    vv_run_store *store = NULL;
    const cli_option options[] = {{"--db", NULL, &db}, {"--out", NULL, &path}, {NULL, NULL, NULL}};
    int code = cli_parse(&cli_recommend, argc, argv, options, 0, &args);
    if (code == CLI_DONE && read_wish(&w, &args) != VV_OK)
        code = cli_usage(&cli_recommend, "%s", vv_error());
    if (code == CLI_DONE) {
        vv_status status = vv_run_store_open(&store, db, false);
        if (status == VV_OK)
            status = answer(store, &w, path);
        vv_run_store_close(store);
        code = status == VV_OK ? CLI_DONE : cli_fail();
    }
    cli_args_fini(&args);
    return code;
}

const cli_verb cli_recommend = {
    "recommend",
    "[model=] [dataset=] quality=Q | cost=USD | time=SECONDS [metric=] [baseline=RUN] [--out FILE] "
    "[--db FILE]",
    "Says what to train: cheapest, fastest or best, from the runs of a store.", recommend};
