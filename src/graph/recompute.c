/* recompute.c - tries a set of dropped activations: the order of instructions that follows, and
 * the memory alive at each. Nothing in the plan is changed. */
#include "graph/recompute.h"

#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

/* A byte moved costs about as much time as this many FLOPs. */
#define VVI_FLOPS_PER_BYTE 6.0

static bool in_slab(const vvi_plan *plan, int root)
{
    return root >= 0 && plan->values[root].place == VVI_SLAB;
}

static void find_makers(vvi_trial *t)
{
    const vvi_plan *plan = t->plan;
    t->boundary = plan->instr_count;
    for (int v = 0; v < t->value_count; v++)
        t->maker[v] = -1;
    for (int i = 0; i < plan->instr_count; i++) {
        const vvi_instr *instr = &plan->instrs[i];
        if (instr->backward && t->boundary == plan->instr_count)
            t->boundary = i;
        for (int k = 0; k < instr->n_out; k++)
            if (instr->out[k] >= 0)
                t->maker[vvi_plan_root(plan, instr->out[k])] = i;
    }
}

static void find_saved(vvi_trial *t)
{
    const vvi_plan *plan = t->plan;
    for (int i = t->boundary; i < plan->instr_count; i++)
        for (int k = 0; k < plan->instrs[i].n_in; k++) {
            int root = vvi_plan_root(plan, plan->instrs[i].in[k]);
            if (in_slab(plan, root) && t->maker[root] >= 0 && t->maker[root] < t->boundary)
                t->saved[root] = true;
        }
}

vv_status vvi_trial_init(vvi_trial *t, const vvi_plan *plan, bool in_place)
{
    *t = (vvi_trial){.plan = plan, .in_place = in_place, .value_count = plan->value_count};
    size_t values = (size_t)plan->value_count + 1, instrs = (size_t)plan->instr_count + 1;
    vv_status status = VV_OK;
    VV_GO(vv_alloc_array(&t->maker, values, sizeof *t->maker));
    VV_GO(vv_alloc_array(&t->saved, values, sizeof *t->saved));
    VV_GO(vv_alloc_array(&t->dropped, values, sizeof *t->dropped));
    VV_GO(vv_alloc_array(&t->turns, 2 * instrs, sizeof *t->turns));
    VV_GO(vv_alloc_array(&t->again, instrs, sizeof *t->again));
    VV_GO(vv_alloc_array(&t->needed, instrs, sizeof *t->needed));
    VV_GO(vv_alloc_array(&t->first, 2 * values, sizeof *t->first));
    VV_GO(vv_alloc_array(&t->last, 2 * values, sizeof *t->last));
    VV_GO(vv_alloc_array(&t->holder, 2 * values, sizeof *t->holder));
    VV_GO(vv_alloc_array(&t->live, 2 * instrs + 1, sizeof *t->live));
    find_makers(t);
    find_saved(t);
out:
    if (status != VV_OK)
        vvi_trial_fini(t);
    return status;
}

void vvi_trial_fini(vvi_trial *t)
{
    void *const blocks[] = {t->maker,  t->saved, t->dropped, t->turns,  t->again,
                            t->needed, t->first, t->last,    t->holder, t->live};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        vv_dealloc(blocks[i]);
    *t = (vvi_trial){0};
}

/* ---- the order ---- */

/* Made in the forward part and not there any more. */
static bool is_gone(const vvi_trial *t, int root)
{
    if (!in_slab(t->plan, root) || t->maker[root] < 0 || t->maker[root] >= t->boundary)
        return false;
    return !t->saved[root] || t->dropped[root];
}

int vvi_trial_resolve(const vvi_trial *t, int root)
{
    if (!in_slab(t->plan, root))
        return -1;
    return is_gone(t, root) ? t->value_count + root : root;
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void need_operands(vvi_trial *t, int instr, int *count)
{
    for (int k = 0; k < t->plan->instrs[instr].n_in; k++) {
        int root = vvi_plan_root(t->plan, t->plan->instrs[instr].in[k]);
        if (!is_gone(t, root) || t->again[t->maker[root]])
            continue;
        t->again[t->maker[root]] = true;
        t->needed[(*count)++] = t->maker[root];
    }
}

static void order(vvi_trial *t)
{
    const vvi_plan *plan = t->plan;
    t->turn_count = 0;
    memset(t->again, 0, (size_t)plan->instr_count * sizeof *t->again);
    for (int i = 0; i < plan->instr_count; i++) {
        if (i >= t->boundary) {
            int count = 0;
            need_operands(t, i, &count);
            for (int k = 0; k < count; k++)
                need_operands(t, t->needed[k], &count);
            qsort(t->needed, (size_t)count, sizeof *t->needed, compare_ints);
            for (int k = 0; k < count; k++)
                t->turns[t->turn_count++] = (vvi_turn){t->needed[k], true};
        }
        t->turns[t->turn_count++] = (vvi_turn){i, false};
    }
}

/* ---- lifetimes, as pass_memory.c will have them ---- */

static int operand_at(const vvi_trial *t, vvi_turn turn, int k)
{
    int root = vvi_plan_root(t->plan, t->plan->instrs[turn.instr].in[k]);
    if (turn.instr < t->boundary && !turn.again)
        return in_slab(t->plan, root) ? root : -1;
    return vvi_trial_resolve(t, root);
}

static int result_at(const vvi_trial *t, vvi_turn turn, int k)
{
    int value = t->plan->instrs[turn.instr].out[k];
    if (value < 0)
        return -1;
    if (turn.again)
        return t->value_count + value; /* results too: the second copy is nobody's result */
    return in_slab(t->plan, vvi_plan_root(t->plan, value)) ? vvi_plan_root(t->plan, value) : -1;
}

static const vvi_value *value_of(const vvi_trial *t, int id)
{
    return &t->plan->values[id < t->value_count ? id : id - t->value_count];
}

static void touch(vvi_trial *t, int id, int at)
{
    if (id < 0)
        return;
    if (t->first[id] < 0)
        t->first[id] = at;
    t->last[id] = at;
}

static void lifetimes(vvi_trial *t)
{
    for (int v = 0; v < 2 * t->value_count; v++) {
        t->first[v] = t->last[v] = -1;
        t->holder[v] = v;
    }
    for (int at = 0; at < t->turn_count; at++) {
        const vvi_instr *instr = &t->plan->instrs[t->turns[at].instr];
        for (int k = 0; k < instr->n_in; k++)
            touch(t, operand_at(t, t->turns[at], k), at);
        for (int k = 0; k < instr->n_out; k++)
            touch(t, result_at(t, t->turns[at], k), at);
    }
}

static void share(vvi_trial *t, int at)
{
    const vvi_turn turn = t->turns[at];
    const vvi_instr *instr = &t->plan->instrs[turn.instr];
    int out = instr->n_out ? result_at(t, turn, 0) : -1;
    if (out < 0 || !instr->kernel->in_place)
        return;
    for (int k = 0; k < instr->n_in && k < 32; k++) {
        int id = operand_at(t, turn, k);
        if (id < 0 || !(instr->kernel->in_place >> k & 1))
            continue;
        int holder = t->holder[id];
        bool same_place = false;
        for (int j = 0; j < instr->n_in; j++) {
            int other = operand_at(t, turn, j);
            same_place = same_place || (j != k && other >= 0 && t->holder[other] == holder &&
                                        !(instr->kernel->in_place >> j & 1));
        }
        if (t->last[holder] != at || t->first[holder] == at || same_place ||
            value_of(t, holder)->bytes != value_of(t, out)->bytes ||
            t->plan->values[instr->in[k]].shape.dtype != value_of(t, out)->shape.dtype)
            continue;
        t->last[holder] = t->last[out];
        t->holder[out] = holder;
        return;
    }
}

static double rounded(size_t bytes)
{
    return (double)((bytes + 63) / 64 * 64);
}

static void add_live(vvi_trial *t)
{
    memset(t->live, 0, ((size_t)t->turn_count + 1) * sizeof *t->live);
    for (int v = 0; v < 2 * t->value_count; v++) {
        if (t->first[v] < 0 || t->holder[v] != v)
            continue;
        t->live[t->first[v]] += rounded(value_of(t, v)->bytes);
        t->live[t->last[v] + 1] -= rounded(value_of(t, v)->bytes);
    }
    t->peak = t->excess = 0.0;
    double now = 0.0;
    for (int at = 0; at < t->turn_count; at++) {
        now += t->live[at];
        t->live[at] = now + rounded(t->plan->instrs[t->turns[at].instr].scratch_bytes);
        double above = t->live[at] - (double)t->limit;
        t->excess += above > 0.0 ? above : 0.0;
        t->peak = t->live[at] > t->peak ? t->live[at] : t->peak;
    }
}

void vvi_trial_run(vvi_trial *t)
{
    order(t);
    lifetimes(t);
    for (int at = 0; t->in_place && at < t->turn_count; at++)
        share(t, at);
    add_live(t);
    t->cost = 0.0;
    t->flops = 0;
    for (int i = 0; i < t->boundary; i++) {
        const vvi_instr *instr = &t->plan->instrs[i];
        if (!t->again[i])
            continue;
        double bytes = 0.0;
        for (int k = 0; k < instr->n_in + instr->n_out; k++) {
            int value = k < instr->n_in ? instr->in[k] : instr->out[k - instr->n_in];
            bytes += value < 0 ? 0.0 : (double)t->plan->values[value].bytes;
        }
        t->flops += instr->flops;
        t->cost += (double)instr->flops + VVI_FLOPS_PER_BYTE * bytes;
    }
}
