/* sweep_halving.c - many short trainings, the better ones longer: rung by rung (Jamieson &
 * Talwalkar, arXiv 1502.07943), or without waiting for a rung to be full (ASHA: Li et al., arXiv
 * 1810.05934). */
#include <math.h>

#include <vivace/memory.h>

#include "sweep/sweep_impl.h"

int vvi_halving_kept(const vv_sweep *s, int count)
{
    return (int)ceil(count * s->keep - 1e-9);
}

int vvi_halving_size(const vv_sweep *s, int rung)
{
    const double all = vvi_combinations(s);
    int size = all < s->samples ? (int)all : s->samples;
    for (int i = 0; i < rung; i++)
        size = vvi_halving_kept(s, size);
    return size;
}

static double score_of(const vv_sweep *s, int config)
{
    const double quality = vvi_config_quality(s, config);
    return !isfinite(quality) ? -HUGE_VAL : s->higher ? quality : -quality;
}

/* ---- rung by rung ---- */

static vv_status next_rung(vv_sweep *s)
{
    const int rung = s->configs[s->config_count - 1].rung;
    vvi_ranked *list;
    int count = 0;
    if (rung + 1 >= s->ratio_count)
        return VV_OK;
    for (int i = 0; i < s->config_count; i++)
        if (s->configs[i].rung == rung && vvi_config_open(s, i))
            return VV_OK;
    VV_TRY(vv_alloc_array(&list, (size_t)s->config_count, sizeof *list));
    for (int i = 0; i < s->config_count; i++)
        if (s->configs[i].rung == rung)
            list[count++] = (vvi_ranked){i, score_of(s, i)};
    vvi_rank(list, count);
    vv_status status = VV_OK;
    const int wanted = vvi_halving_size(s, rung + 1);
    for (int i = 0; i < count && i < wanted && status == VV_OK; i++)
        if (list[i].score > -HUGE_VAL)
            status = vvi_sweep_add(s, s->configs[list[i].item].choice, rung + 1);
    vv_dealloc(list);
    return status;
}

/* ---- asynchronous ----
   A job that is free takes the best configuration that is among the better ones of its rung and has
   not gone on yet, from the highest rung that has one, else a new one. Which that is hangs on what
   has ended by then, so on the clock. Here it does not: a training is reckoned to last as long as
   its part of the schedule, the jobs are free in that order, and each decision waits for the
   results of what has ended by the reckoning, whatever else has come in. So results alone decide,
   and a sweep that was killed decides again as it did. */

static bool after(vvi_moment a, vvi_moment b)
{
    return a.time != b.time ? a.time > b.time : a.slot > b.slot;
}

static vvi_moment end_of(const vv_sweep *s, int slot)
{
    return (vvi_moment){s->slots[slot].ends, slot};
}

static int rung_of(const vv_sweep *s, int slot)
{
    return s->configs[s->slots[slot].config].rung;
}

static bool all_ended(const vv_sweep *s, int rung, vvi_moment now)
{
    for (int i = 0; i < s->slot_count; i++)
        if (rung_of(s, i) == rung && after(end_of(s, i), now))
            return false;
    return true;
}

/* The slot that goes on from a rung, -1 = none. complete: the rung grows no more. */
static int promotable(const vv_sweep *s, int rung, vvi_moment now, bool complete, vvi_ranked *list)
{
    int count = 0;
    for (int i = 0; i < s->slot_count; i++)
        if (rung_of(s, i) == rung && !after(end_of(s, i), now))
            list[count++] = (vvi_ranked){i, score_of(s, s->slots[i].config)};
    vvi_rank(list, count);
    const int most =
        complete ? vvi_halving_kept(s, count) : (int)floor(count * s->keep + 1e-9);
    for (int i = 0; i < most; i++)
        if (list[i].score > -HUGE_VAL && !s->slots[list[i].item].promoted)
            return list[i].item;
    return -1;
}

/* From the highest rung that has one. */
static int next_promotion(const vv_sweep *s, vvi_moment now, vvi_ranked *list)
{
    bool complete = s->begun == s->first_count;
    int found = -1;
    for (int rung = 0; rung + 1 < s->ratio_count; rung++) {
        complete = complete && all_ended(s, rung, now);
        const int slot = promotable(s, rung, now, complete, list);
        if (slot >= 0)
            found = slot;
        complete = complete && slot < 0;
    }
    return found;
}

static vv_status begin(vv_sweep *s, int config, vvi_moment *clock)
{
    const int seeds = s->seed_count ? s->seed_count : 1;
    VV_TRY(vv_realloc_array(&s->slots, (size_t)s->slot_count + 1, sizeof *s->slots));
    const double ends = clock->time + s->ratios[s->configs[config].rung] * seeds;
    s->slots[s->slot_count] = (vvi_slot){config, ends, false};
    *clock = end_of(s, s->slot_count++);
    return VV_OK;
}

/* Moves a job that has nothing to do to the next end of a training; false: there is none. */
static bool idle(const vv_sweep *s, vvi_moment *clock)
{
    int next = -1;
    for (int i = 0; i < s->slot_count; i++)
        if (after(end_of(s, i), *clock) && (next < 0 || after(end_of(s, next), end_of(s, i))))
            next = i;
    if (next >= 0)
        *clock = end_of(s, next);
    return next >= 0;
}

static bool results_are_in(const vv_sweep *s, vvi_moment now)
{
    for (int i = 0; i < s->slot_count; i++)
        if (!after(end_of(s, i), now) && vvi_config_open(s, s->slots[i].config))
            return false;
    return true;
}

static vv_status start_clocks(vv_sweep *s, int jobs)
{
    VV_TRY(vv_alloc_array(&s->clocks, (size_t)jobs, sizeof *s->clocks));
    s->clock_count = jobs;
    s->first_count = s->config_count;
    for (int i = 0; i < jobs; i++)
        s->clocks[i] = (vvi_moment){0.0, -1};
    return VV_OK;
}

static vvi_moment *first_free(const vv_sweep *s)
{
    vvi_moment *first = s->clocks;
    for (int i = 1; i < s->clock_count; i++)
        if (after(*first, s->clocks[i]))
            first = &s->clocks[i];
    return first;
}

static vv_status next_asynchronous(vv_sweep *s, int jobs)
{
    if (!s->clocks)
        VV_TRY(start_clocks(s, jobs));
    for (;;) {
        vvi_moment *clock = first_free(s);
        vvi_ranked *list;
        if (!results_are_in(s, *clock))
            return VV_OK;
        VV_TRY(vv_alloc_array(&list, (size_t)s->slot_count + 1, sizeof *list));
        const int slot = next_promotion(s, *clock, list);
        vv_dealloc(list);
        if (slot >= 0) {
            const vvi_config *from = &s->configs[s->slots[slot].config];
            VV_TRY(vvi_sweep_add(s, from->choice, from->rung + 1));
            s->slots[slot].promoted = true;
            VV_TRY(begin(s, s->config_count - 1, clock));
        } else if (s->begun < s->first_count) {
            VV_TRY(begin(s, s->begun++, clock));
        } else if (!idle(s, clock)) {
            return VV_OK;
        }
    }
}

vv_status vvi_halving_next(vv_sweep *s, int jobs)
{
    if (s->asynchronous < 0)
        s->asynchronous = jobs > 1;
    return s->asynchronous ? next_asynchronous(s, jobs) : next_rung(s);
}
