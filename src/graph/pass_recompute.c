/* pass_recompute.c - activation checkpointing: activations that the backward part reads are
 * dropped after the forward part and computed again just before they are needed (Chen et al.,
 * Training Deep Nets with Sublinear Memory Cost, arXiv 1604.06174).
 *
 * It works on instructions that have their kernels: the second run uses the same kernel with the
 * same operands and the same counters for random draws, so every bit is the same. Results (the
 * loss, running statistics) come from the first run alone. Each instruction runs at most twice.
 *
 * What to drop is chosen greedily: of all activations, the one that takes away the most memory
 * above the limit per FLOP; at the end those that turned out not to be needed are kept after
 * all. */
#include "graph/recompute.h"

#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

/* Smaller activations are not worth a second run. */
#define VVI_SMALLEST_DROP 1024
/* Instructions looked at per round of the choice: bounds the time of planning. */
#define VVI_LOOKS_PER_ROUND 400000

typedef struct candidate {
    int value;
    double guess; /* bytes above the limit per cost of its maker alone */
} candidate;

static int compare_candidates(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->guess != y->guess)
        return x->guess < y->guess ? 1 : -1;
    return x->value - y->value;
}

static double maker_cost(const vvi_trial *t, int value)
{
    return (double)t->plan->instrs[t->maker[value]].flops +
           (double)t->plan->values[value].bytes;
}

/* Activations worth a try: alive at some turn that is above the limit. Best guesses first. */
static int list_candidates(const vvi_trial *t, candidate *list)
{
    int count = 0;
    for (int v = 0; v < t->value_count; v++) {
        if (!t->saved[v] || t->dropped[v] || t->plan->values[v].bytes < VVI_SMALLEST_DROP)
            continue;
        double turns = 0.0;
        int holder = t->holder[v];
        for (int at = t->first[holder]; at <= t->last[holder]; at++)
            turns += t->live[at] > (double)t->limit ? 1.0 : 0.0;
        if (turns > 0.0)
            list[count++] = (candidate){
                v, turns * (double)t->plan->values[v].bytes / maker_cost(t, v)};
    }
    qsort(list, (size_t)count, sizeof *list, compare_candidates);
    int most = VVI_LOOKS_PER_ROUND / (t->plan->instr_count + 1) + 8;
    return count < most ? count : most;
}

/* Drops until nothing is above the limit, or nothing helps. */
static void drop_greedily(vvi_trial *t, candidate *list)
{
    vvi_trial_run(t);
    while (t->excess > 0.0) {
        const double excess = t->excess, cost = t->cost;
        int count = list_candidates(t, list), best = -1;
        double best_score = 0.0;
        for (int i = 0; i < count; i++) {
            t->dropped[list[i].value] = true;
            vvi_trial_run(t);
            t->dropped[list[i].value] = false;
            double gain = excess - t->excess, price = t->cost - cost;
            double score = gain / (price > 1.0 ? price : 1.0);
            if (gain > 0.0 && score > best_score) {
                best_score = score;
                best = list[i].value;
            }
        }
        if (best >= 0)
            t->dropped[best] = true;
        vvi_trial_run(t);
        if (best < 0)
            return;
    }
}

/* Keeps again what need not be dropped, dearest first. */
static void keep_spare(vvi_trial *t, candidate *list)
{
    int count = 0;
    for (int v = 0; v < t->value_count; v++)
        if (t->dropped[v])
            list[count++] = (candidate){v, maker_cost(t, v)};
    qsort(list, (size_t)count, sizeof *list, compare_candidates);
    for (int i = 0; i < count; i++) {
        t->dropped[list[i].value] = false;
        vvi_trial_run(t);
        if (t->excess > 0.0)
            t->dropped[list[i].value] = true;
    }
    vvi_trial_run(t);
}

static void choose_for_limit(vvi_trial *t, candidate *list, size_t limit)
{
    memset(t->dropped, 0, (size_t)t->value_count * sizeof *t->dropped);
    t->limit = limit;
    drop_greedily(t, list);
    if (t->excess <= 0.0)
        keep_spare(t, list);
}

/* The least memory: the limit is lowered by a tenth as long as it can be kept. */
static void choose_least(vvi_trial *t, candidate *list, bool *best)
{
    memset(t->dropped, 0, (size_t)t->value_count * sizeof *t->dropped);
    t->limit = SIZE_MAX;
    vvi_trial_run(t);
    double least = t->peak;
    memcpy(best, t->dropped, (size_t)t->value_count * sizeof *best);
    for (;;) {
        t->limit = (size_t)(least * 0.9);
        drop_greedily(t, list);
        if (t->excess > 0.0)
            break;
        least = t->peak;
        memcpy(best, t->dropped, (size_t)t->value_count * sizeof *best);
    }
    if (t->peak >= least) /* the last, unfinished try may still be a little better */
        memcpy(t->dropped, best, (size_t)t->value_count * sizeof *best);
    vvi_trial_run(t);
    t->limit = (size_t)t->peak;
    keep_spare(t, list);
}

/* ---- rewriting the plan ---- */

typedef struct rewrite {
    vvi_plan *plan;
    const vvi_trial *trial;
    int *copy; /* per value: its number of the second run, -1 = none yet */
} rewrite;

/* The value that reader `turn` takes for its operand; -2: out of memory. */
static int new_operand(rewrite *r, vvi_turn turn, int value)
{
    vvi_plan *plan = r->plan;
    if (value < 0 || (turn.instr < r->trial->boundary && !turn.again))
        return value;
    int root = vvi_plan_root(plan, value);
    if (vvi_trial_resolve(r->trial, root) < r->trial->value_count)
        return value;
    if (root == value)
        return r->copy[root];
    vvi_shape shape = plan->values[value].shape; /* through a reshape */
    int alias = vvi_plan_value(plan, &shape);
    if (alias < 0)
        return -2;
    plan->values[alias].alias = r->copy[root];
    return alias;
}

static vv_status rewrite_turn(rewrite *r, vvi_turn turn, const vvi_instr *from, vvi_instr *to)
{
    vvi_plan *plan = r->plan;
    *to = *from;
    int *operands =
        vvi_arena_alloc(&plan->arena, (size_t)(from->n_in + from->n_out + 1) * sizeof *operands);
    if (!operands)
        return VV_ENOMEM;
    to->in = operands;
    to->out = operands + from->n_in;
    for (int k = 0; k < from->n_in; k++) {
        to->in[k] = new_operand(r, turn, from->in[k]);
        if (to->in[k] == -2)
            return VV_ENOMEM;
    }
    to->again = turn.again;
    for (int k = 0; k < from->n_out; k++) {
        to->out[k] = from->out[k];
        if (!turn.again || from->out[k] < 0)
            continue;
        vvi_shape shape = plan->values[from->out[k]].shape;
        to->out[k] = r->copy[from->out[k]] = vvi_plan_value(plan, &shape);
        if (to->out[k] < 0)
            return VV_ENOMEM;
    }
    return VV_OK;
}

/* New instructions in the trial's order. */
static vv_status rewrite_plan(vvi_plan *plan, const vvi_trial *t, const vvi_instr *from)
{
    vv_status status = VV_OK;
    rewrite r = {.plan = plan, .trial = t};
    vvi_instr *instrs = NULL;
    VV_GO(vv_alloc_array(&r.copy, (size_t)t->value_count + 1, sizeof *r.copy));
    VV_GO(vv_alloc_array(&instrs, (size_t)t->turn_count + 1, sizeof *instrs));
    for (int v = 0; v < t->value_count; v++)
        r.copy[v] = -1;
    for (int at = 0; at < t->turn_count; at++)
        VV_GO(rewrite_turn(&r, t->turns[at], &from[t->turns[at].instr], &instrs[at]));
    plan->instrs = instrs;
    plan->instr_count = plan->instr_capacity = t->turn_count;
    plan->recompute_flops = t->flops;
    instrs = NULL;
out:
    vv_dealloc(r.copy);
    vv_dealloc(instrs);
    return status;
}

/* ---- the pass ---- */

typedef struct original { /* the plan as it was, to start over from */
    vvi_instr *instrs;
    vvi_value *values;
    int instr_count, instr_capacity, value_count;
} original;

static vv_status keep_original(const vvi_plan *plan, original *o)
{
    *o = (original){.instrs = plan->instrs, .instr_count = plan->instr_count,
                    .instr_capacity = plan->instr_capacity, .value_count = plan->value_count};
    VV_TRY(vv_alloc_array(&o->values, (size_t)plan->value_count + 1, sizeof *o->values));
    memcpy(o->values, plan->values, (size_t)plan->value_count * sizeof *o->values);
    return VV_OK;
}

static void return_to(vvi_plan *plan, const original *o)
{
    if (plan->instrs != o->instrs)
        vv_dealloc(plan->instrs);
    plan->instrs = o->instrs;
    plan->instr_count = o->instr_count;
    plan->instr_capacity = o->instr_capacity;
    plan->value_count = o->value_count;
    plan->recompute_flops = 0;
    memcpy(plan->values, o->values, (size_t)o->value_count * sizeof *o->values);
}

static vv_status least(vvi_plan *plan, vvi_trial *t, candidate *list, const original *o,
                       bool in_place)
{
    bool *best;
    VV_TRY(vv_alloc_array(&best, (size_t)t->value_count + 1, sizeof *best));
    choose_least(t, list, best);
    vv_dealloc(best);
    return_to(plan, o);
    VV_TRY(rewrite_plan(plan, t, o->instrs));
    return vvi_pass_memory(plan, in_place);
}

/* Places do not always fit together without gaps: what the slab takes above the limit is taken off
   the bytes that may be alive, and the choice made again. */
static vv_status fit(vvi_plan *plan, vvi_trial *t, candidate *list, const original *o, size_t limit,
                     bool in_place)
{
    size_t alive = limit;
    for (int tries = 0; tries < 5; tries++) {
        choose_for_limit(t, list, alive);
        if (t->excess > 0.0)
            break;
        return_to(plan, o);
        VV_TRY(rewrite_plan(plan, t, o->instrs));
        VV_TRY(vvi_pass_memory(plan, in_place));
        if (plan->slab_bytes <= limit)
            return VV_OK;
        size_t above = plan->slab_bytes - limit;
        alive = alive > above ? alive - above : 0;
    }
    return least(plan, t, list, o, in_place);
}

vv_status vvi_pass_recompute(vvi_plan *plan, vv_recompute mode, size_t limit, bool in_place)
{
    vv_status status = VV_OK;
    vvi_trial trial = {0};
    original before = {0};
    candidate *list = NULL;
    vvi_plan frozen = *plan; /* the trial looks at the plan as it was */
    VV_GO(keep_original(plan, &before));
    VV_GO(vvi_pass_memory(plan, in_place));
    plan->whole_bytes = plan->slab_bytes;
    if (mode == VV_RECOMPUTE_OFF || (mode == VV_RECOMPUTE_AUTO && plan->slab_bytes <= limit))
        goto out;
    return_to(plan, &before);
    VV_GO(vv_alloc_array(&list, (size_t)plan->value_count + 1, sizeof *list));
    frozen.values = before.values;
    VV_GO(vvi_trial_init(&trial, &frozen, in_place));
    status = mode == VV_RECOMPUTE_FULL ? least(plan, &trial, list, &before, in_place)
                                       : fit(plan, &trial, list, &before, limit, in_place);
out:
    if (status != VV_OK && before.values)
        return_to(plan, &before); /* kernels' states belong to these instructions */
    if (plan->instrs != before.instrs && before.values)
        vv_dealloc(before.instrs);
    vvi_trial_fini(&trial);
    vv_dealloc(before.values);
    vv_dealloc(list);
    return status;
}
