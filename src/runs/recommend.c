/* recommend.c - the three questions, methods by matched pairs, and pairs of methods. */
#include <vivace/recommend.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

typedef struct sample { /* a run that counts */
    const vv_run_light *run;
    double quality, seconds, usd;
    uint64_t family; /* all but length and seed; methods are a sum, so that one can go */
    uint64_t exact;  /* and the length */
} sample;

typedef struct samples {
    sample *items;
    int count;
    double *numbers; /* room for three a sample */
    vv_dot *dots;    /* room for two a sample */
    bool higher_is_better;
} samples;

static uint64_t mix(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return (hash ^ 0xff) * UINT64_C(1099511628211);
}

static uint64_t method_hash(const char *name)
{
    return mix(UINT64_C(14695981039346656037), name);
}

static void hash_run(sample *s)
{
    const vv_run_row *row = &s->run->row;
    uint64_t hash = method_hash(row->dataset);
    hash = mix(mix(mix(hash, row->model), row->optimizer), row->hardware);
    hash += (uint64_t)row->batch_size * UINT64_C(0x9e3779b97f4a7c15) + s->run->base;
    uint64_t methods = 0;
    for (int i = 0; i < s->run->method_count; i++)
        methods += method_hash(s->run->methods[i]);
    const double ratio = isfinite(row->scale_schedule_ratio) ? row->scale_schedule_ratio : 1.0;
    uint64_t bits;
    memcpy(&bits, &ratio, sizeof bits);
    s->family = hash + methods;
    s->exact = mix(hash, row->max_duration) + bits * UINT64_C(0x9e3779b97f4a7c15) + methods;
}

static bool wanted(const char *asked, const char *text)
{
    return !asked || strcmp(asked, text) == 0;
}

static int by_exact(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    return (x->exact > y->exact) - (x->exact < y->exact);
}

static int by_group(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    if (x->run->group != y->run->group)
        return x->run->group < y->run->group ? -1 : 1;
    return strcmp(x->run->row.id, y->run->row.id);
}

static void drop(samples *all)
{
    vv_dealloc(all->items);
    vv_dealloc(all->numbers);
    vv_dealloc(all->dots);
}

static vv_status collect(samples *all, const vv_run_table *table, const vv_recommend_opts *opts)
{
    const size_t runs = (size_t)vv_run_table_count(table);
    *all = (samples){.higher_is_better = true};
    VV_TRY(vv_alloc_array(&all->items, runs, sizeof *all->items));
    VV_TRY(vv_alloc_array(&all->numbers, runs, 3 * sizeof *all->numbers));
    VV_TRY(vv_alloc_array(&all->dots, runs, 2 * sizeof *all->dots));
    for (int i = 0; i < (int)runs; i++) {
        const vv_run_light *run = vv_run_table_at(table, i);
        const vv_run_metric *metric = vv_run_light_metric(run, opts->metric);
        if (!metric || !isfinite(metric->final) || strcmp(run->row.status, "done") != 0 ||
            !isfinite(run->row.train_seconds) || run->row.train_seconds < 0.0 ||
            !wanted(opts->dataset, run->row.dataset) || !wanted(opts->model, run->row.model))
            continue;
        sample *s = &all->items[all->count++];
        *s = (sample){run, metric->final, run->row.train_seconds, run->row.usd, 0, 0};
        hash_run(s);
        all->higher_is_better = metric->higher_is_better;
    }
    return VV_OK;
}

static bool at_least(const samples *all, double value, double wanted_value)
{
    return all->higher_is_better ? value >= wanted_value : value <= wanted_value;
}

/* ---- the three questions ---- */

static vv_choice choice_of(const samples *all, int begin, int end)
{
    const int n = end - begin;
    for (int i = 0; i < n; i++) {
        all->numbers[i] = all->items[begin + i].quality;
        all->numbers[n + i] = all->items[begin + i].seconds;
        all->numbers[2 * n + i] = all->items[begin + i].usd;
    }
    return (vv_choice){all->items[begin].run, vv_interval_of(all->numbers, n),
                       vv_interval_of(all->numbers + n, n),
                       vv_interval_of(all->numbers + 2 * n, n)};
}

static void choose(const samples *all, const vv_recommend_opts *opts, vv_recommendation *out)
{
    const bool budget = isfinite(opts->usd) || isfinite(opts->seconds);
    for (int i = 0, end; i < all->count; i = end) {
        for (end = i + 1; end < all->count; end++)
            if (all->items[end].run->group != all->items[i].run->group)
                break;
        const vv_choice c = choice_of(all, i, end);
        const bool good = isfinite(opts->quality) && at_least(all, c.quality.mean, opts->quality);
        out->configuration_count++;
        if (good && (!out->fastest.run || c.seconds.mean < out->fastest.seconds.mean))
            out->fastest = c;
        if (good && isfinite(c.usd.mean) &&
            (!out->cheapest.run || c.usd.mean < out->cheapest.usd.mean))
            out->cheapest = c;
        const bool within = budget && !(isfinite(opts->usd) && !(c.usd.mean <= opts->usd)) &&
                            !(isfinite(opts->seconds) && !(c.seconds.mean <= opts->seconds));
        if (within && (!out->best.run || (c.quality.mean != out->best.quality.mean &&
                                          at_least(all, c.quality.mean, out->best.quality.mean))))
            out->best = c;
    }
}

/* ---- methods ---- */

/* Mean quality of the runs of one exact hash, which lie together; NaN if there are none. */
static double mean_quality(const samples *all, uint64_t exact)
{
    int low = 0, high = all->count, count = 0;
    double sum = 0.0;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (all->items[middle].exact < exact)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < all->count && all->items[low].exact == exact; low++, count++)
        sum += all->items[low].quality;
    return count ? sum / count : (double)NAN;
}

static bool has_method(const vv_run_light *run, const char *name)
{
    for (int i = 0; i < run->method_count; i++)
        if (strcmp(run->methods[i], name) == 0)
            return true;
    return false;
}

static int family_dots(const samples *all, uint64_t family, vv_dot *dots, bool usd)
{
    int count = 0;
    for (int i = 0; i < all->count; i++)
        if (all->items[i].family == family)
            dots[count++] = (vv_dot){usd ? all->items[i].usd : all->items[i].seconds,
                                     all->items[i].quality, false};
    return count;
}

/* Between the qualities of a frontier, and above the dot with the least time. */
static double x_between(const samples *all, const vv_dot *dots, int count, double quality)
{
    bool below = false;
    for (int i = 0; i < count; i++)
        below = below || (dots[i].frontier && at_least(all, quality, dots[i].quality));
    return below ? vv_frontier_x_at(dots, count, all->higher_is_better, quality) : (double)NAN;
}

static void add_logs(const samples *all, const vv_dot *a, int an, const vv_dot *b, int bn,
                     double sign, double *sum, int *count)
{
    for (int i = 0; i < an; i++) {
        const double x = a[i].frontier ? x_between(all, b, bn, a[i].quality) : (double)NAN;
        if (isfinite(x) && x > 0.0 && a[i].x > 0.0) {
            *sum += sign * log(a[i].x / x);
            ++*count;
        }
    }
}

/* The sum of ln(time with / time without): at the quality of each frontier dot of one family, the
   other's time there. Both ways: dots that are better than all of the other family have no partner,
   which alone would speak against the family they are of. */
static vv_status time_family(const samples *all, uint64_t with, uint64_t without, double *sum,
                             int *count)
{
    vv_dot *a = all->dots, *b = all->dots + all->count;
    const int an = family_dots(all, with, a, false), bn = family_dots(all, without, b, false);
    if (bn == 0)
        return VV_OK;
    VV_TRY(vv_frontier_mark(a, an, all->higher_is_better));
    VV_TRY(vv_frontier_mark(b, bn, all->higher_is_better));
    add_logs(all, a, an, b, bn, 1.0, sum, count);
    add_logs(all, b, bn, a, an, -1.0, sum, count);
    return VV_OK;
}

static bool family_done(const samples *all, int at, const char *method)
{
    for (int i = 0; i < at; i++)
        if (all->items[i].family == all->items[at].family && has_method(all->items[i].run, method))
            return true;
    return false;
}

static vv_status measure(const samples *all, vv_method_effect *effect)
{
    const uint64_t hash = method_hash(effect->name);
    double difference = 0.0, logs = 0.0;
    for (int i = 0; i < all->count; i++) {
        const sample *s = &all->items[i];
        if (!has_method(s->run, effect->name))
            continue;
        if (i == 0 || all->items[i - 1].exact != s->exact) {
            const double without = mean_quality(all, s->exact - hash);
            if (isfinite(without)) {
                difference += mean_quality(all, s->exact) - without;
                effect->pairs++;
            }
        }
        if (!family_done(all, i, effect->name))
            VV_TRY(time_family(all, s->family, s->family - hash, &logs, &effect->timed));
    }
    effect->quality_difference = effect->pairs ? difference / effect->pairs : (double)NAN;
    effect->time_ratio = effect->timed ? exp(logs / effect->timed) : (double)NAN;
    return VV_OK;
}

/* Each place where both are: once, though several runs may stand there. */
static void interact(const samples *all, vv_method_pair *pair)
{
    const uint64_t a = method_hash(pair->a), b = method_hash(pair->b);
    double sum = 0.0;
    for (int i = 0; i < all->count; i++) {
        const sample *s = &all->items[i];
        if ((i > 0 && all->items[i - 1].exact == s->exact) || !has_method(s->run, pair->a) ||
            !has_method(s->run, pair->b))
            continue;
        const double beyond = mean_quality(all, s->exact) - mean_quality(all, s->exact - a) -
                              mean_quality(all, s->exact - b) +
                              mean_quality(all, s->exact - a - b);
        if (isfinite(beyond)) {
            sum += beyond;
            pair->places++;
        }
    }
    pair->interaction = pair->places ? sum / pair->places : (double)NAN;
}

static vv_status measure_pairs(const samples *all, vv_recommendation *out)
{
    for (int i = 0; i < out->effect_count; i++)
        for (int j = i + 1; j < out->effect_count; j++) {
            vv_method_pair pair = {out->effects[i].name, out->effects[j].name, 0, 0.0};
            interact(all, &pair);
            if (!pair.places)
                continue;
            VV_TRY(vv_realloc_array(&out->pairs, (size_t)out->pair_count + 1, sizeof *out->pairs));
            out->pairs[out->pair_count++] = pair;
        }
    return VV_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const vv_method_effect *)a)->name, ((const vv_method_effect *)b)->name);
}

static vv_status add_effect(vv_recommendation *out, const char *name)
{
    for (int i = 0; i < out->effect_count; i++)
        if (strcmp(out->effects[i].name, name) == 0)
            return VV_OK;
    VV_TRY(vv_realloc_array(&out->effects, (size_t)out->effect_count + 1, sizeof *out->effects));
    out->effects[out->effect_count++] = (vv_method_effect){.name = name};
    return VV_OK;
}

/* ---- the answer ---- */

vv_status vv_recommend(vv_recommendation *out, const vv_run_table *table,
                       const vv_recommend_opts *opts)
{
    samples all;
    *out = (vv_recommendation){.higher_is_better = true};
    vv_status status = collect(&all, table, opts);
    if (status != VV_OK)
        goto out;
    out->run_count = all.count;
    out->higher_is_better = all.higher_is_better;
    if (all.count > 1)
        qsort(all.items, (size_t)all.count, sizeof *all.items, by_group);
    choose(&all, opts, out);
    if (all.count > 1)
        qsort(all.items, (size_t)all.count, sizeof *all.items, by_exact);
    for (int i = 0; i < all.count; i++)
        for (int j = 0; j < all.items[i].run->method_count; j++)
            VV_GO(add_effect(out, all.items[i].run->methods[j]));
    if (out->effect_count > 1)
        qsort(out->effects, (size_t)out->effect_count, sizeof *out->effects, by_name);
    for (int i = 0; i < out->effect_count; i++)
        VV_GO(measure(&all, &out->effects[i]));
    VV_GO(measure_pairs(&all, out));
out:
    drop(&all);
    return status;
}

void vv_recommendation_fini(vv_recommendation *recommendation)
{
    vv_dealloc(recommendation->effects);
    recommendation->effects = NULL;
    recommendation->effect_count = 0;
    vv_dealloc(recommendation->pairs);
    recommendation->pairs = NULL;
    recommendation->pair_count = 0;
}

vv_status vv_recommend_same_quality(const vv_run_table *table, const vv_recommend_opts *opts,
                                    const vv_run_light *like, double quality, double *seconds,
                                    double *usd)
{
    samples all;
    sample wanted_one = {.run = like};
    *seconds = *usd = (double)NAN;
    vv_status status = collect(&all, table, opts);
    hash_run(&wanted_one);
    for (int i = 0; i < 2 && status == VV_OK; i++) {
        const int count = family_dots(&all, wanted_one.family, all.dots, i == 1);
        status = vv_frontier_mark(all.dots, count, all.higher_is_better);
        if (status == VV_OK)
            *(i ? usd : seconds) =
                vv_frontier_x_at(all.dots, count, all.higher_is_better, quality);
    }
    drop(&all);
    return status;
}
