/* pass_join_grads.c - sums of gradients that are mostly zeros, without the zeros.
 *
 *   slice_grad(a) + slice_grad(b) + slice_grad(c) -> CONCAT(a, b, c)
 *
 * if together they cover the axis without overlap: queries, keys and values of one product.
 *
 *   x + gather_grad(dy, index) -> GATHER_GRAD(dy, index, x)
 *
 * the table of tokens that is also the last layer's weight. */
#include "graph/plan.h"

#include <string.h>

enum { MOST = 8 };

/* ---- slices ---- */

/* Parts found below one sum, and the instructions that are not needed then. */
typedef struct pieces {
    int part[MOST], part_count;
    int inner[MOST], inner_count;
} pieces;

static bool is_sum(const vvi_instr *instr)
{
    return !instr->dead && instr->op == VV_OP_BINARY && instr->attr.binary.kind == VV_BINARY_ADD;
}

static bool same_shape(const vvi_plan *plan, int a, int b)
{
    const vvi_shape *x = &plan->values[a].shape, *y = &plan->values[b].shape;
    return x->dtype == y->dtype && x->ndim == y->ndim &&
           memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof x->shape[0]) == 0;
}

/* Adds what operand `value` of a sum is made of; false if it is anything else than slices'
   gradients read here alone. */
static bool collect(const vvi_plan *plan, int sum_value, int value, pieces *p)
{
    const int maker = vvi_plan_maker(plan, value);
    if (maker < 0 || vvi_plan_is_result(plan, value) || vvi_plan_uses(plan, value) != 1 ||
        !same_shape(plan, sum_value, value))
        return false;
    const vvi_instr *instr = &plan->instrs[maker];
    if (instr->op == VV_OP_SLICE_GRAD && instr->attr.slice.step == 1) {
        if (p->part_count == MOST)
            return false;
        p->part[p->part_count++] = maker;
        return true;
    }
    if (!is_sum(instr) || p->inner_count == MOST)
        return false;
    p->inner[p->inner_count++] = maker;
    return collect(plan, sum_value, instr->in[0], p) && collect(plan, sum_value, instr->in[1], p);
}

/* Puts the parts in order; false unless they cover their axis exactly. */
static bool cover(const vvi_plan *plan, int value, pieces *p)
{
    const int64_t axis = plan->instrs[p->part[0]].attr.slice.axis;
    int64_t at = 0;
    for (int k = 0; k < p->part_count; k++) {
        int next = k;
        while (next < p->part_count && plan->instrs[p->part[next]].attr.slice.start != at)
            next++;
        if (next == p->part_count || plan->instrs[p->part[next]].attr.slice.axis != axis)
            return false;
        const int found = p->part[next];
        p->part[next] = p->part[k];
        p->part[k] = found;
        at += plan->values[plan->instrs[found].in[0]].shape.shape[axis];
    }
    return at == plan->values[value].shape.shape[axis];
}

static vv_status join(vvi_plan *plan, int sum, const pieces *p)
{
    vvi_instr *instr = &plan->instrs[sum];
    int *operands = vvi_arena_alloc(&plan->arena, (size_t)(p->part_count + 1) * sizeof *operands);
    if (!operands)
        return VV_ENOMEM;
    for (int k = 0; k < p->part_count; k++) {
        operands[k] = plan->instrs[p->part[k]].in[0];
        plan->instrs[p->part[k]].dead = true;
    }
    operands[p->part_count] = instr->out[0];
    for (int k = 0; k < p->inner_count; k++)
        plan->instrs[p->inner[k]].dead = true;
    memset(&instr->attr, 0, sizeof instr->attr);
    instr->attr.axis.axis = plan->instrs[p->part[0]].attr.slice.axis;
    instr->op = VV_OP_CONCAT;
    instr->in = operands;
    instr->n_in = p->part_count;
    instr->out = operands + p->part_count;
    return VV_OK;
}

/* ---- gather ---- */

static vv_status add_rows(vvi_plan *plan, int sum, int gather, int base)
{
    vvi_instr *instr = &plan->instrs[sum];
    int *operands = vvi_arena_alloc(&plan->arena, 4 * sizeof *operands);
    if (!operands)
        return VV_ENOMEM;
    const vvi_instr *rows = &plan->instrs[gather];
    operands[0] = rows->in[0];
    operands[1] = rows->in[1];
    operands[2] = base;
    operands[3] = instr->out[0];
    instr->op = VV_OP_GATHER_GRAD;
    instr->attr = rows->attr;
    instr->in = operands;
    instr->n_in = 3;
    instr->out = operands + 3;
    plan->instrs[gather].dead = true;
    return VV_OK;
}

static vv_status join_gather(vvi_plan *plan, int sum)
{
    for (int k = 0; k < 2; k++) {
        const int value = plan->instrs[sum].in[k], base = plan->instrs[sum].in[1 - k];
        const int maker = vvi_plan_maker(plan, value);
        if (maker >= 0 && plan->instrs[maker].op == VV_OP_GATHER_GRAD &&
            plan->instrs[maker].n_in == 2 && !vvi_plan_is_result(plan, value) &&
            vvi_plan_uses(plan, value) == 1 && same_shape(plan, value, base) &&
            same_shape(plan, value, plan->instrs[sum].out[0]))
            return add_rows(plan, sum, maker, base);
    }
    return VV_OK;
}

vv_status vvi_pass_join_grads(vvi_plan *plan)
{
    for (int i = plan->instr_count - 1; i >= 0; i--) {
        pieces p = {.part_count = 0};
        if (!is_sum(&plan->instrs[i]))
            continue;
        const int value = plan->instrs[i].out[0];
        if (collect(plan, value, plan->instrs[i].in[0], &p) &&
            collect(plan, value, plan->instrs[i].in[1], &p) && cover(plan, value, &p))
            VV_TRY(join(plan, i, &p));
        else
            VV_TRY(join_gather(plan, i));
    }
    vvi_plan_compact(plan);
    return VV_OK;
}
