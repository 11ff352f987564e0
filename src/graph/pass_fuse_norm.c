/* pass_fuse_norm.c - batch norm takes over the residual addition and ReLU behind it, and its
 * gradient the ReLU's mask: one pass over memory instead of three.
 *
 *   y = relu(batch_norm(x) + r)      BATCH_NORM(x, gamma, beta, r), attr.norm.relu, .residual
 *   d = relu_grad(dy, y); dx = batch_norm_grad(d, x, ...)
 *                                    BATCH_NORM_GRAD(dy, x, ..., y) with d as result 3 if others
 * read it */
#include "graph/plan.h"

#include <string.h>

/* The only instruction that reads `value`, if exactly one operand in the plan does and it is no
   result; -1 otherwise. Reads through a reshape count as "other". */
static int only_user(const vvi_plan *plan, int value)
{
    int user = -1;
    if (vvi_plan_is_result(plan, value))
        return -1;
    for (int i = 0; i < plan->instr_count; i++) {
        const vvi_instr *instr = &plan->instrs[i];
        for (int k = 0; k < instr->n_in && !instr->dead; k++) {
            if (instr->in[k] < 0 || vvi_plan_root(plan, instr->in[k]) != value)
                continue;
            if (user >= 0 || instr->in[k] != value)
                return -1;
            user = i;
        }
    }
    return user;
}

static bool same_kind(const vvi_plan *plan, int a, int b)
{
    const vvi_shape *x = &plan->values[a].shape, *y = &plan->values[b].shape;
    return x->dtype == y->dtype && x->ndim == y->ndim &&
           memcmp(x->shape, y->shape, (size_t)x->ndim * sizeof x->shape[0]) == 0;
}

static bool is_relu(const vvi_instr *instr, vv_op op)
{
    return instr->op == op && instr->attr.unary.kind == VV_UNARY_RELU;
}

/* Merges instruction `user`, the only reader of the norm's result, into it: its result becomes the
   norm's. */
static void take_over(vvi_plan *plan, int norm, int user)
{
    plan->instrs[norm].out[0] = plan->instrs[user].out[0];
    plan->instrs[user].dead = true;
}

static vv_status add_operand(vvi_plan *plan, vvi_instr *instr, int at, int value)
{
    int n_in = instr->n_in > at ? instr->n_in : at + 1;
    int *operands = vvi_arena_alloc(&plan->arena, (size_t)(n_in + instr->n_out + 2) * sizeof(int));
    if (!operands)
        return VV_ENOMEM;
    for (int k = 0; k < n_in; k++)
        operands[k] = k < instr->n_in ? instr->in[k] : -1;
    memcpy(operands + n_in, instr->out, (size_t)instr->n_out * sizeof(int));
    operands[at] = value;
    instr->in = operands;
    instr->n_in = n_in;
    instr->out = operands + n_in; /* with room for one more result */
    return VV_OK;
}

static vv_status fuse_forward(vvi_plan *plan, int norm)
{
    int user = only_user(plan, plan->instrs[norm].out[0]);
    if (user < 0)
        return VV_OK;
    const vvi_instr *next = &plan->instrs[user];
    if (next->op == VV_OP_BINARY && next->attr.binary.kind == VV_BINARY_ADD) {
        int mine = plan->instrs[norm].out[0];
        int other = next->in[0] == mine ? next->in[1] : next->in[0];
        int root = vvi_plan_root(plan, other);
        bool ready = plan->values[root].place == VVI_LEAF || vvi_plan_maker(plan, root) < norm;
        if (!ready || !same_kind(plan, mine, other) || !same_kind(plan, mine, next->out[0]))
            return VV_OK;
        VV_TRY(add_operand(plan, &plan->instrs[norm], 3, other));
        plan->instrs[norm].attr.norm.residual = 1;
        take_over(plan, norm, user);
        user = only_user(plan, plan->instrs[norm].out[0]);
    }
    /* the ReLU's gradient reads y too, so more than one reader is usual: only the ReLU may read the
       value before it */
    if (user >= 0 && is_relu(&plan->instrs[user], VV_OP_UNARY) &&
        same_kind(plan, plan->instrs[norm].out[0], plan->instrs[user].out[0])) {
        plan->instrs[norm].attr.norm.relu = 1;
        take_over(plan, norm, user);
    }
    return VV_OK;
}

/* The norm gradient that reads `masked` as its dy and belongs to the norm that made y. */
static int norm_grad_of(const vvi_plan *plan, int masked, const vvi_instr *norm)
{
    for (int i = 0; i < plan->instr_count; i++) {
        const vvi_instr *instr = &plan->instrs[i];
        if (!instr->dead && instr->op == VV_OP_BATCH_NORM_GRAD && instr->in[0] == masked &&
            instr->in[1] == norm->in[0] && !instr->attr.norm.relu)
            return i;
    }
    return -1;
}

static vv_status fuse_backward(vvi_plan *plan, int mask)
{
    int masked = plan->instrs[mask].out[0];
    int dy = plan->instrs[mask].in[0], y = plan->instrs[mask].in[1];
    int norm = vvi_plan_maker(plan, y);
    if (norm < 0 || plan->instrs[norm].op != VV_OP_BATCH_NORM ||
        !plan->instrs[norm].attr.norm.relu || plan->instrs[norm].out[0] != y ||
        !same_kind(plan, masked, y) || !same_kind(plan, dy, y))
        return VV_OK;
    int grad = norm_grad_of(plan, masked, &plan->instrs[norm]);
    if (grad < 0)
        return VV_OK;
    bool others = vvi_plan_is_result(plan, masked) || only_user(plan, masked) != grad;
    VV_TRY(add_operand(plan, &plan->instrs[grad], 5, y));
    vvi_instr *fused = &plan->instrs[grad];
    fused->in[0] = dy;
    fused->attr.norm.relu = 1;
    if (others)
        fused->out[fused->n_out++] = masked;
    /* forward values are all there, so the gradient may run where the mask did: before any other
       reader of the masked gradient */
    plan->instrs[mask] = *fused;
    plan->instrs[grad].dead = true;
    return VV_OK;
}

vv_status vvi_pass_fuse_norm(vvi_plan *plan)
{
    for (int i = 0; i < plan->instr_count; i++)
        if (plan->instrs[i].op == VV_OP_BATCH_NORM)
            VV_TRY(fuse_forward(plan, i));
    for (int i = 0; i < plan->instr_count; i++)
        if (!plan->instrs[i].dead && is_relu(&plan->instrs[i], VV_OP_UNARY_GRAD))
            VV_TRY(fuse_backward(plan, i));
    vvi_plan_compact(plan);
    return VV_OK;
}
