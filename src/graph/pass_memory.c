/* pass_memory.c - lifetimes, in-place reuse, and a place in the slab for every value between
 * instructions. Memory is known before the step runs. */
#include "graph/plan.h"

#include <stdlib.h>

#include <vivace/memory.h>

enum { ALIGN = 64 };

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void lifetimes(vvi_plan *plan)
{
    for (int i = 0; i < plan->value_count; i++)
        plan->values[i].first = plan->values[i].last = -1;
    for (int i = 0; i < plan->instr_count; i++) {
        const vvi_instr *instr = &plan->instrs[i];
        for (int k = 0; k < instr->n_in + instr->n_out; k++) {
            int root = vvi_plan_root(plan, k < instr->n_in ? instr->in[k]
                                                           : instr->out[k - instr->n_in]);
            if (root < 0)
                continue;
            if (plan->values[root].first < 0)
                plan->values[root].first = i;
            plan->values[root].last = i;
        }
    }
}

/* Lets result 0 of an instruction take over the memory of an operand that dies there. */
static void share_operand(vvi_plan *plan, int i)
{
    vvi_instr *instr = &plan->instrs[i];
    int out = instr->n_out ? instr->out[0] : -1;
    if (out < 0 || !instr->kernel->in_place || plan->values[out].alias >= 0 ||
        plan->values[out].place != VVI_SLAB)
        return;
    for (int k = 0; k < instr->n_in && k < 32; k++) {
        int root = vvi_plan_root(plan, instr->in[k]);
        if (root < 0 || !(instr->kernel->in_place >> k & 1))
            continue;
        vvi_value *operand = &plan->values[root];
        bool same_place = false; /* the same memory as another operand, or a second result */
        for (int j = 0; j < instr->n_in; j++)
            same_place = same_place || (j != k && vvi_plan_root(plan, instr->in[j]) == root &&
                                        !(instr->kernel->in_place >> j & 1));
        if (operand->place != VVI_SLAB || operand->last != i || operand->first == i || same_place ||
            operand->bytes != plan->values[out].bytes ||
            plan->values[instr->in[k]].shape.dtype != plan->values[out].shape.dtype)
            continue;
        operand->last = plan->values[out].last;
        plan->values[out].alias = root;
        return;
    }
}

typedef struct block {
    size_t bytes, *offset;
    int first, last;
} block;

static int compare_blocks(const void *a, const void *b)
{
    const block *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->first - y->first;
}

/* Largest first, each at the lowest offset that no block alive at the same time covers. */
static size_t place_blocks(block *blocks, int count)
{
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        size_t at = 0;
        bool moved = true;
        while (moved) {
            moved = false;
            for (int k = 0; k < i; k++) {
                const block *other = &blocks[k];
                if (other->last < blocks[i].first || other->first > blocks[i].last)
                    continue;
                if (at < *other->offset + other->bytes && *other->offset < at + blocks[i].bytes) {
                    at = *other->offset + other->bytes;
                    moved = true;
                }
            }
        }
        *blocks[i].offset = at;
        if (at + blocks[i].bytes > total)
            total = at + blocks[i].bytes;
    }
    return total;
}

vv_status vvi_pass_memory(vvi_plan *plan, bool in_place)
{
    lifetimes(plan);
    for (int i = 0; in_place && i < plan->instr_count; i++)
        share_operand(plan, i);
    block *blocks;
    VV_TRY(vv_alloc_array(&blocks, (size_t)(plan->value_count + plan->instr_count) + 1,
                          sizeof *blocks));
    int count = 0;
    for (int i = 0; i < plan->value_count; i++) {
        vvi_value *v = &plan->values[i];
        if (v->place == VVI_SLAB && v->alias < 0 && v->first >= 0)
            blocks[count++] = (block){.bytes = rounded(v->bytes ? v->bytes : 1),
                                      .offset = &v->offset, .first = v->first, .last = v->last};
    }
    for (int i = 0; i < plan->instr_count; i++)
        if (plan->instrs[i].scratch_bytes)
            blocks[count++] = (block){.bytes = rounded(plan->instrs[i].scratch_bytes),
                                      .offset = &plan->instrs[i].scratch_offset,
                                      .first = i, .last = i};
    qsort(blocks, (size_t)count, sizeof *blocks, compare_blocks);
    plan->slab_bytes = place_blocks(blocks, count);
    vv_dealloc(blocks);
    return VV_OK;
}
