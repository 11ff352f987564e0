/* pass_fuse_chains.c - element-wise neighbours of one shape become one FUSED instruction, which
 * runs block by block so that what passes between its steps stays in cache. */
#include "graph/plan.h"

#include <string.h>

#include <vivace/memory.h>

typedef struct fuser {
    vvi_plan *plan;
    int *group;  /* per instruction: index of its group's first member, -1 = none */
    int *maker;  /* per value (root): instruction that writes it, -1 */
    int *last_member; /* per group head */
} fuser;

static bool fusable_dtype(vv_dtype dtype)
{
    return dtype == VV_F32 || dtype == VV_BF16 || dtype == VV_BOOL;
}

static bool same_shape(const vvi_shape *a, const vvi_shape *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]) == 0;
}

/* Full shape, one element, or a suffix of the shape. */
static bool fits(const vvi_plan *plan, int value, const vvi_shape *full)
{
    const vvi_value *v = &plan->values[value];
    if (!fusable_dtype(v->shape.dtype))
        return false;
    if (v->count == 1)
        return true;
    int shift = full->ndim - v->shape.ndim;
    if (shift < 0)
        return false;
    return memcmp(full->shape + shift, v->shape.shape,
                  (size_t)v->shape.ndim * sizeof full->shape[0]) == 0;
}

static bool is_elementwise(vv_op op)
{
    return op == VV_OP_UNARY || op == VV_OP_UNARY_GRAD || op == VV_OP_BINARY || op == VV_OP_WHERE ||
           op == VV_OP_CAST;
}

static bool candidate(const vvi_plan *plan, const vvi_instr *instr)
{
    if (!is_elementwise(instr->op) || instr->n_out != 1)
        return false;
    const vvi_value *out = &plan->values[instr->out[0]];
    if (!fusable_dtype(out->shape.dtype) || out->count < 2)
        return false;
    for (int k = 0; k < instr->n_in; k++)
        if (instr->in[k] < 0 || !fits(plan, instr->in[k], &out->shape))
            return false;
    return true;
}

static int members(const fuser *f, int head)
{
    int count = 0;
    for (int i = head; i <= f->last_member[head]; i++)
        count += f->group[i] == head;
    return count;
}

/* How many different values a group (with instruction `extra` added, or -1) reads and writes
   out. */
static bool io_fits(const fuser *f, int head, int extra)
{
    const vvi_plan *plan = f->plan;
    int inputs[VV_FUSED_MAX_IO], n_in = 0, n_out = 0;
    int last = extra > f->last_member[head] ? extra : f->last_member[head];
    for (int i = head; i <= last; i++) {
        if (f->group[i] != head && i != extra)
            continue;
        const vvi_instr *instr = &plan->instrs[i];
        for (int k = 0; k < instr->n_in; k++) {
            int maker = f->maker[vvi_plan_root(plan, instr->in[k])];
            if (maker >= 0 && (f->group[maker] == head || maker == extra) &&
                plan->instrs[maker].out[0] == instr->in[k])
                continue;
            bool known = false;
            for (int j = 0; j < n_in; j++)
                known = known || inputs[j] == instr->in[k];
            if (!known) {
                if (n_in == VV_FUSED_MAX_IO)
                    return false;
                inputs[n_in++] = instr->in[k];
            }
        }
        n_out++; /* at most: inner results that nobody else reads are not stored */
    }
    return n_out <= VV_FUSED_MAX_IO;
}

/* Whether every reader of the group's results outside it comes after `at`, where it would now
   run. */
static bool readers_follow(const fuser *f, int head, int at)
{
    const vvi_plan *plan = f->plan;
    for (int j = head + 1; j < at; j++) {
        if (f->group[j] == head)
            continue;
        const vvi_instr *reader = &plan->instrs[j];
        for (int k = 0; k < reader->n_in; k++) {
            if (reader->in[k] < 0)
                continue;
            int maker = f->maker[vvi_plan_root(plan, reader->in[k])];
            if (maker >= 0 && f->group[maker] == head)
                return false;
        }
    }
    return true;
}

static void try_join(fuser *f, int i)
{
    vvi_plan *plan = f->plan;
    const vvi_instr *instr = &plan->instrs[i];
    const vvi_shape *shape = &plan->values[instr->out[0]].shape;
    for (int k = 0; k < instr->n_in; k++) {
        int maker = f->maker[vvi_plan_root(plan, instr->in[k])];
        if (maker < 0 || f->group[maker] < 0 || plan->instrs[maker].out[0] != instr->in[k])
            continue;
        int head = f->group[maker];
        if (!same_shape(shape, &plan->values[plan->instrs[head].out[0]].shape) ||
            members(f, head) + 1 > VV_FUSED_MAX_STEPS || !io_fits(f, head, i) ||
            !readers_follow(f, head, i))
            continue;
        f->group[i] = head;
        f->last_member[head] = i;
        return;
    }
}

static bool read_outside(const fuser *f, int head, int value)
{
    const vvi_plan *plan = f->plan;
    if (vvi_plan_is_result(plan, value))
        return true;
    int root = vvi_plan_root(plan, value);
    for (int i = 0; i < plan->instr_count; i++) {
        if (f->group[i] == head)
            continue;
        for (int k = 0; k < plan->instrs[i].n_in; k++)
            if (plan->instrs[i].in[k] >= 0 && vvi_plan_root(plan, plan->instrs[i].in[k]) == root)
                return true;
    }
    return false;
}

static int input_register(vv_fused *program, int *inputs, int value)
{
    for (int j = 0; j < program->n_in; j++)
        if (inputs[j] == value)
            return j;
    inputs[program->n_in] = value;
    return program->n_in++;
}

/* Registers: first all inputs, then the steps' results; so inputs are collected before steps. */
static vv_status emit(fuser *f, int head)
{
    vvi_plan *plan = f->plan;
    int last = f->last_member[head];
    vv_fused *program = vvi_arena_alloc(&plan->arena, sizeof *program);
    int inputs[VV_FUSED_MAX_IO], outputs[VV_FUSED_MAX_STEPS], n_out = 0;
    int *step_of = NULL;
    if (!program)
        return VV_ENOMEM;
    VV_TRY(vv_alloc_array(&step_of, (size_t)(last - head) + 1, sizeof *step_of));
    for (int i = head, step = 0; i <= last; i++) {
        if (f->group[i] != head)
            continue;
        step_of[i - head] = step++;
        const vvi_instr *instr = &plan->instrs[i];
        for (int k = 0; k < instr->n_in; k++) {
            int maker = f->maker[vvi_plan_root(plan, instr->in[k])];
            if (maker < 0 || f->group[maker] != head || plan->instrs[maker].out[0] != instr->in[k])
                input_register(program, inputs, instr->in[k]);
        }
    }
    for (int i = head; i <= last; i++) {
        if (f->group[i] != head)
            continue;
        const vvi_instr *instr = &plan->instrs[i];
        vv_fused_step *step = &program->steps[program->n_steps++];
        step->op = instr->op;
        step->attr = instr->attr;
        step->dtype = plan->values[instr->out[0]].shape.dtype;
        for (int k = 0; k < instr->n_in && k < 3; k++) {
            int maker = f->maker[vvi_plan_root(plan, instr->in[k])];
            bool inner = maker >= 0 && f->group[maker] == head &&
                         plan->instrs[maker].out[0] == instr->in[k];
            step->src[k] = inner ? program->n_in + step_of[maker - head]
                                 : input_register(program, inputs, instr->in[k]);
        }
        if (read_outside(f, head, instr->out[0]) && program->n_out < VV_FUSED_MAX_IO) {
            program->out[program->n_out++] = program->n_in + step_of[i - head];
            outputs[n_out++] = instr->out[0];
        }
    }
    vv_dealloc(step_of);
    int *operands =
        vvi_arena_alloc(&plan->arena, (size_t)(program->n_in + n_out + 1) * sizeof *operands);
    if (!operands)
        return VV_ENOMEM;
    memcpy(operands, inputs, (size_t)program->n_in * sizeof *operands);
    memcpy(operands + program->n_in, outputs, (size_t)n_out * sizeof *operands);
    vvi_instr *fused = &plan->instrs[last];
    fused->op = VV_OP_FUSED;
    memset(&fused->attr, 0, sizeof fused->attr);
    fused->fused = program;
    fused->n_in = program->n_in;
    fused->n_out = n_out;
    fused->in = operands;
    fused->out = operands + program->n_in;
    for (int i = head; i < last; i++)
        if (f->group[i] == head)
            plan->instrs[i].dead = true;
    return VV_OK;
}

vv_status vvi_pass_fuse_chains(vvi_plan *plan)
{
    vv_status status;
    fuser f = {.plan = plan};
    size_t n = (size_t)plan->instr_count + 1;
    VV_GO(vv_alloc_array(&f.group, n, sizeof *f.group));
    VV_GO(vv_alloc_array(&f.last_member, n, sizeof *f.last_member));
    VV_GO(vv_alloc_array(&f.maker, (size_t)plan->value_count + 1, sizeof *f.maker));
    for (int v = 0; v < plan->value_count; v++)
        f.maker[v] = -1;
    for (int i = 0; i < plan->instr_count; i++) {
        f.group[i] = -1;
        for (int k = 0; k < plan->instrs[i].n_out; k++)
            if (plan->instrs[i].out[k] >= 0)
                f.maker[vvi_plan_root(plan, plan->instrs[i].out[k])] = i;
    }
    for (int i = 0; i < plan->instr_count; i++) {
        if (!candidate(plan, &plan->instrs[i]))
            continue;
        try_join(&f, i);
        if (f.group[i] < 0) {
            f.group[i] = i;
            f.last_member[i] = i;
        }
    }
    for (int i = 0; i < plan->instr_count; i++)
        if (f.group[i] == i && f.last_member[i] > i)
            VV_GO(emit(&f, i));
    vvi_plan_compact(plan);
out:
    vv_dealloc(f.group);
    vv_dealloc(f.last_member);
    vv_dealloc(f.maker);
    return status;
}
