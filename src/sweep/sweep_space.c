/* sweep_space.c - which configurations a sweep tries: all at once, or the next ones from what came
 * out so far. Draws are functions of the sweep's seed and the configuration's number. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>
#include <vivace/rng.h>

#include "sweep/sweep_impl.h"

enum { MOST_CONFIGS = 100000, CANDIDATES = 24 };

/* ---- what came out ---- */

static int seeds_of(const vv_sweep *s)
{
    return s->seed_count ? s->seed_count : 1;
}

bool vvi_config_open(const vv_sweep *s, int config)
{
    for (int i = 0; i < seeds_of(s); i++) {
        const vv_trial_status status = s->trials[s->configs[config].trial + i].status;
        if (status == VV_TRIAL_WAITING || status == VV_TRIAL_RUNNING)
            return true;
    }
    return false;
}

static double mean_of(const vv_sweep *s, int config, double (*value)(const vv_sweep *, int))
{
    double sum = 0.0;
    int count = 0;
    for (int i = 0; i < seeds_of(s); i++) {
        const double v = value(s, s->configs[config].trial + i);
        if (isfinite(v)) {
            sum += v;
            count++;
        }
    }
    return count && !vvi_config_open(s, config) ? sum / count : (double)NAN;
}

static double quality_of(const vv_sweep *s, int trial)
{
    return s->trials[trial].quality;
}

static double cost_of(const vv_sweep *s, int trial)
{
    return s->budget_usd ? s->trials[trial].usd : s->trials[trial].train_seconds;
}

double vvi_config_quality(const vv_sweep *s, int config)
{
    return mean_of(s, config, quality_of);
}

double vvi_config_cost(const vv_sweep *s, int config)
{
    return mean_of(s, config, cost_of);
}

bool vvi_sweep_has(const vv_sweep *s, const int *choice, int rung)
{
    for (int i = 0; i < s->config_count; i++)
        if (s->configs[i].rung == rung &&
            memcmp(s->configs[i].choice, choice, (size_t)s->factor_count * sizeof *choice) == 0)
            return true;
    return false;
}

/* ---- from the start ---- */

/* Every combination of options first, first + step, ... of each factor. */
static vv_status add_combinations(vv_sweep *s, int *choice, bool ends_only)
{
    double total = 1.0;
    for (int i = 0; i < s->factor_count; i++)
        total *= ends_only && s->factors[i].count > 2 ? 2 : s->factors[i].count;
    if (total > MOST_CONFIGS)
        return vv_fail(VV_EINVAL,
                       "%s: %.3g combinations are too many; strategy: random tries "
                       "`samples` of them",
                       s->origin, total);
    for (;;) {
        int i;
        VV_TRY(vvi_sweep_add(s, choice, 0));
        for (i = s->factor_count - 1; i >= 0; i--) {
            const int count = s->factors[i].count;
            choice[i] += ends_only && count > 1 ? count - 1 : 1;
            if (choice[i] < count)
                break;
            choice[i] = 0;
        }
        if (i < 0)
            return VV_OK;
    }
}

static vv_status add_each_alone(vv_sweep *s, int *choice)
{
    VV_TRY(vvi_sweep_add(s, choice, 0));
    for (int i = 0; i < s->factor_count; i++) {
        for (choice[i] = 1; choice[i] < s->factors[i].count; choice[i]++)
            VV_TRY(vvi_sweep_add(s, choice, 0));
        choice[i] = 0;
    }
    return VV_OK;
}

double vvi_combinations(const vv_sweep *s)
{
    double total = 1.0;
    for (int i = 0; i < s->factor_count; i++)
        total *= s->factors[i].count;
    return total;
}

static void draw(const vv_sweep *s, vv_rng *rng, int *choice)
{
    for (int i = 0; i < s->factor_count; i++)
        choice[i] = (int)vv_rng_below(rng, s->factors[i].count);
}

/* `count` different ones; all there are, if they are fewer. */
static vv_status add_random(vv_sweep *s, int *choice, int count)
{
    vv_rng rng = vv_rng_at((uint64_t)s->seed, "sweep random", 0);
    const double all = vvi_combinations(s);
    if (all <= count)
        return add_combinations(s, choice, false);
    while (s->config_count < count) {
        draw(s, &rng, choice);
        if (!vvi_sweep_has(s, choice, 0))
            VV_TRY(vvi_sweep_add(s, choice, 0));
    }
    return VV_OK;
}

static int random_start(const vv_sweep *s) /* of bandit: before anything is known */
{
    const int some = s->samples / 4 > 4 ? s->samples / 4 : 4;
    return some < s->samples ? some : s->samples;
}

vv_status vvi_sweep_first(vv_sweep *s)
{
    int *choice;
    VV_TRY(vv_alloc_array(&choice, (size_t)s->factor_count + 1, sizeof *choice));
    vv_status status = VV_OK;
    switch (s->strategy) {
    case VVI_SWEEP_GRID:
        status = add_combinations(s, choice, false);
        break;
    case VVI_SWEEP_FACTORIAL:
        status = add_combinations(s, choice, true);
        break;
    case VVI_SWEEP_ONE:
        status = add_each_alone(s, choice);
        break;
    case VVI_SWEEP_RANDOM:
    case VVI_SWEEP_HALVING:
        status = add_random(s, choice, s->samples);
        break;
    case VVI_SWEEP_BANDIT:
        status = add_random(s, choice, random_start(s));
        break;
    }
    vv_dealloc(choice);
    return status;
}

/* ---- ranks ---- */

static int by_score(const void *a, const void *b)
{
    const vvi_ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->item - y->item;
}

void vvi_rank(vvi_ranked *list, int count)
{
    if (count > 1)
        qsort(list, (size_t)count, sizeof *list, by_score);
}

/* ---- bandit: the next one where good ones are dense and bad ones are not (the tree-structured
   Parzen estimator of Bergstra et al., NeurIPS 2011, section 4, on finite sets) ---- */

/* Larger is better: those that answer the question by how well, the others by how nearly. */
static double answer(const vv_sweep *s, int config)
{
    const double quality = vvi_config_quality(s, config), cost = vvi_config_cost(s, config);
    const double up = s->higher ? quality : -quality;
    const double far = 1e12;
    if (!isfinite(quality) || !isfinite(cost))
        return -HUGE_VAL;
    if (isfinite(s->reach)) {
        const double target = s->higher ? s->reach : -s->reach;
        return up >= target ? -cost : up - target - far;
    }
    return cost <= s->budget ? up : -cost - far;
}

/* Share of option o of factor f among the first `count` of the list, one added to each option. */
static double density(const vv_sweep *s, const vvi_ranked *list, int from, int to, int f, int o)
{
    double seen = 1.0;
    for (int i = from; i < to; i++)
        seen += s->configs[list[i].item].choice[f] == o;
    return seen / (to - from + s->factors[f].count);
}

static double gain(const vv_sweep *s, const vvi_ranked *list, int good, int count,
                   const int *choice)
{
    double sum = 0.0;
    for (int f = 0; f < s->factor_count; f++)
        sum += log(density(s, list, 0, good, f, choice[f])) -
               log(density(s, list, good, count, f, choice[f]));
    return sum;
}

/* A candidate drawn as the good ones lie. */
static void draw_good(const vv_sweep *s, vv_rng *rng, const vvi_ranked *list, int good,
                      int *choice)
{
    for (int f = 0; f < s->factor_count; f++) {
        double at = vv_rng_uniform(rng);
        choice[f] = s->factors[f].count - 1;
        for (int o = 0; o < s->factors[f].count; o++) {
            at -= density(s, list, 0, good, f, o);
            if (at < 0.0) {
                choice[f] = o;
                break;
            }
        }
    }
}

static vv_status propose(vv_sweep *s, int known)
{
    vvi_ranked *list;
    int *choice, *best;
    double best_gain = -HUGE_VAL;
    vv_status status = VV_OK;
    VV_TRY(vv_alloc_array(&list, (size_t)known, sizeof *list));
    status = vv_alloc_array(&choice, 2 * (size_t)s->factor_count + 2, sizeof *choice);
    if (status != VV_OK) {
        vv_dealloc(list);
        return status;
    }
    best = choice + s->factor_count + 1;
    for (int i = 0; i < known; i++)
        list[i] = (vvi_ranked){i, answer(s, i)};
    vvi_rank(list, known);
    const int good = known / 4 > 1 ? known / 4 : 1;
    vv_rng rng = vv_rng_at((uint64_t)s->seed, "sweep bandit", (uint64_t)s->config_count);
    for (int i = 0; i < CANDIDATES; i++) {
        draw_good(s, &rng, list, good, choice);
        const double g = gain(s, list, good, known, choice);
        if (g > best_gain && !vvi_sweep_has(s, choice, 0)) {
            best_gain = g;
            memcpy(best, choice, (size_t)s->factor_count * sizeof *choice);
        }
    }
    while (best_gain == -HUGE_VAL) { /* all of them were tried: any new one */
        draw(s, &rng, best);
        if (!vvi_sweep_has(s, best, 0))
            best_gain = 0.0;
    }
    status = vvi_sweep_add(s, best, 0);
    vv_dealloc(choice);
    vv_dealloc(list);
    return status;
}

/* Configuration i follows from those up to i - jobs, whichever ended first: so the order in which
   trainings end changes nothing. */
static vv_status next_proposals(vv_sweep *s, int jobs)
{
    const int total = vvi_sweep_config_total(s);
    while (s->config_count < total) {
        const int known = s->config_count - jobs + 1;
        if (known < random_start(s) - jobs + 1 || known < 1)
            return VV_OK;
        for (int i = 0; i < known; i++)
            if (vvi_config_open(s, i))
                return VV_OK;
        VV_TRY(propose(s, known));
    }
    return VV_OK;
}

/* ---- what follows ---- */

vv_status vvi_sweep_next(vv_sweep *s, int jobs)
{
    if (s->strategy == VVI_SWEEP_HALVING)
        return vvi_halving_next(s, jobs);
    if (s->strategy == VVI_SWEEP_BANDIT)
        return next_proposals(s, jobs);
    return VV_OK;
}

int vvi_sweep_in_order(const vv_sweep *s, int n)
{
    const int seeds = seeds_of(s);
    if (s->strategy == VVI_SWEEP_HALVING && s->asynchronous > 0)
        return n < s->slot_count * seeds
                   ? s->configs[s->slots[n / seeds].config].trial + n % seeds
                   : -1;
    return n < s->trial_count ? n : -1;
}

int vvi_sweep_config_total(const vv_sweep *s)
{
    int total = s->config_count;
    if (s->strategy == VVI_SWEEP_HALVING) {
        total = 0;
        for (int i = 0; i < s->ratio_count; i++)
            total += vvi_halving_size(s, i);
        if (total < s->config_count) /* some went on before better ones came */
            total = s->config_count;
    }
    if (s->strategy == VVI_SWEEP_BANDIT)
        total = vvi_combinations(s) < s->samples ? (int)vvi_combinations(s) : s->samples;
    return total;
}
