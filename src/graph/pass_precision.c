/* pass_precision.c - autocast: convolutions and matmuls compute in bf16 (fp32 accumulation inside
 * the kernel), what lies between them is stored in bf16, everything sensitive stays fp32.
 *
 * Dtypes flow forward through the instruction list:
 *   compute ops    float operands are cast to bf16 (biases stay), the result becomes bf16;
 *                  weight gradients stay fp32;
 *   attention      its images of rank 4 likewise, its softmax inside and logsumexp stay fp32;
 *   linear losses  likewise; their logits, losses and weight gradients are fp32;
 *   followers      (element-wise, pooling, moving) bf16 if every float operand of full shape is;
 *   norms, rotary  take and give bf16 activations, statistics and parameters stay fp32;
 *   all others     (losses, softmax, reductions) get their operands cast back to fp32.
 *
 * Precision bf16 stores more: where fp32 and bf16 meet (a residual stream that began in fp32) the
 * result is bf16, and norms give bf16 whatever they are given. */
#include "graph/plan.h"

#include <string.h>

#include <vivace/memory.h>

typedef enum kind { COMPUTE, ATTENTION, HEAD, FOLLOW, NORM, FULL_PRECISION } kind;

static kind kind_of(vv_op op)
{
    switch (op) {
    case VV_OP_MATMUL:
    case VV_OP_CONV2D:
    case VV_OP_CONV2D_GRAD_DATA:
    case VV_OP_CONV2D_GRAD_WEIGHT: return COMPUTE;
    case VV_OP_ATTENTION:
    case VV_OP_ATTENTION_GRAD: return ATTENTION;
    case VV_OP_LINEAR_CROSS_ENTROPY:
    case VV_OP_LINEAR_CROSS_ENTROPY_GRAD: return HEAD;
    case VV_OP_RESHAPE:
    case VV_OP_UNARY:
    case VV_OP_UNARY_GRAD:
    case VV_OP_BINARY:
    case VV_OP_WHERE:
    case VV_OP_PERMUTE:
    case VV_OP_SLICE:
    case VV_OP_SLICE_GRAD:
    case VV_OP_CONCAT:
    case VV_OP_PAD:
    case VV_OP_POOL:
    case VV_OP_POOL_GRAD:
    case VV_OP_ADAPTIVE_POOL:
    case VV_OP_ADAPTIVE_POOL_GRAD:
    case VV_OP_RESIZE:
    case VV_OP_RESIZE_GRAD:
    case VV_OP_DROPOUT: return FOLLOW;
    case VV_OP_BATCH_NORM:
    case VV_OP_BATCH_NORM_GRAD:
    case VV_OP_LAYER_NORM:
    case VV_OP_LAYER_NORM_GRAD:
    case VV_OP_RMS_NORM:
    case VV_OP_RMS_NORM_GRAD:
    case VV_OP_ROTARY: /* its frequencies stay fp32 likewise */
    case VV_OP_GROUP_NORM:
    case VV_OP_GROUP_NORM_GRAD: return NORM;
    default: return FULL_PRECISION;
    }
}

typedef struct pass {
    vvi_plan *plan;
    int *as[2]; /* per value: its copy in f32 / bf16, 0 = none yet, else value + 1 */
    int as_capacity;
    bool all; /* precision bf16 */
} pass;

static void set_dtype(vvi_plan *plan, int value, vv_dtype dtype)
{
    vvi_value *v = &plan->values[value];
    v->shape.dtype = dtype;
    v->bytes = (size_t)v->count * vv_dtype_size(dtype);
}

static bool is_half_or_single(const vvi_plan *plan, int value)
{
    vv_dtype dtype = plan->values[value].shape.dtype;
    return dtype == VV_F32 || dtype == VV_BF16;
}

/* Makes operand k of instruction *at be of `dtype`, inserting a cast before it if needed (once per
   value). *at moves along with the instruction. */
static vv_status want(pass *p, int *at, int k, vv_dtype dtype)
{
    vvi_plan *plan = p->plan;
    int value = plan->instrs[*at].in[k];
    if (value < 0 || !is_half_or_single(plan, value) || plan->values[value].shape.dtype == dtype)
        return VV_OK;
    int which = dtype == VV_BF16;
    int copy = value < p->as_capacity ? p->as[which][value] - 1 : -1;
    if (copy < 0) {
        vvi_shape shape = plan->values[value].shape;
        shape.dtype = dtype;
        copy = vvi_plan_value(plan, &shape);
        vvi_instr *cast = copy < 0 ? NULL : vvi_plan_insert(plan, *at, VV_OP_CAST, 1, 1);
        if (!cast)
            return VV_ENOMEM;
        cast->in[0] = value;
        cast->out[0] = copy;
        ++*at;
        if (value < p->as_capacity)
            p->as[which][value] = copy + 1;
    }
    plan->instrs[*at].in[k] = copy;
    return VV_OK;
}

/* True if every float operand that has the result's size (or more) is bf16, and there is one. */
static bool operands_are_half(const vvi_plan *plan, const vvi_instr *instr)
{
    bool some = false;
    for (int k = 0; k < instr->n_in; k++) {
        int value = instr->in[k];
        if (value < 0 || !is_half_or_single(plan, value))
            continue;
        if (plan->values[value].shape.dtype == VV_F32)
            return false;
        some = true;
    }
    return some;
}

/* The same for precision bf16: one of those operands is enough. */
static bool some_operand_is_half(const vvi_plan *plan, const vvi_instr *instr)
{
    for (int k = 0; k < instr->n_in; k++) {
        int value = instr->in[k];
        if (value >= 0 && plan->values[value].shape.dtype == VV_BF16 &&
            (plan->values[value].count > 1 || plan->values[instr->out[0]].count == 1))
            return true;
    }
    return false;
}

/* Their kernels compute in fp32 registers and take operands of both kinds. */
static bool takes_both(vv_op op)
{
    return op == VV_OP_UNARY || op == VV_OP_UNARY_GRAD || op == VV_OP_BINARY || op == VV_OP_WHERE;
}

static vv_status cast_all(pass *p, int *at, vv_dtype dtype)
{
    for (int k = 0; k < p->plan->instrs[*at].n_in; k++)
        VV_TRY(want(p, at, k, dtype));
    return VV_OK;
}

/* Operands and results of rank 4 become bf16 together: q, k, v and y, and their gradients. */
static vv_status visit_attention(pass *p, int *at)
{
    vvi_plan *plan = p->plan;
    if (!is_half_or_single(plan, plan->instrs[*at].out[0]))
        return VV_OK;
    for (int k = 0; k < plan->instrs[*at].n_in; k++) {
        const int value = plan->instrs[*at].in[k];
        if (value >= 0 && plan->values[value].shape.ndim == 4)
            VV_TRY(want(p, at, k, VV_BF16));
    }
    const vvi_instr *instr = &plan->instrs[*at];
    for (int k = 0; k < instr->n_out; k++) {
        const int value = instr->out[k];
        if (value >= 0 && plan->values[value].shape.ndim == 4 && !vvi_plan_is_result(plan, value))
            set_dtype(plan, value, VV_BF16);
    }
    return VV_OK;
}

/* x and weight become bf16, and dx; logits, loss and the weights' gradients are fp32. */
static vv_status visit_head(pass *p, int *at)
{
    vvi_plan *plan = p->plan;
    const bool grad = plan->instrs[*at].op == VV_OP_LINEAR_CROSS_ENTROPY_GRAD;
    if (!is_half_or_single(plan, plan->instrs[*at].in[grad]))
        return VV_OK;
    if (grad)
        VV_TRY(want(p, at, 0, VV_F32));
    for (int k = grad; k < grad + 2; k++)
        VV_TRY(want(p, at, k, VV_BF16));
    const int dx = grad ? plan->instrs[*at].out[0] : -1;
    if (dx >= 0 && !vvi_plan_is_result(plan, dx))
        set_dtype(plan, dx, VV_BF16);
    return VV_OK;
}

static vv_status visit(pass *p, int *at)
{
    vvi_plan *plan = p->plan;
    vvi_instr *instr = &plan->instrs[*at];
    int main_out = instr->n_out ? instr->out[0] : -1;
    bool float_out = main_out >= 0 && is_half_or_single(plan, main_out);
    switch (kind_of(instr->op)) {
    case COMPUTE: {
        bool bias = instr->op != VV_OP_CONV2D_GRAD_WEIGHT && instr->n_in == 3;
        if (!float_out || plan->values[main_out].shape.dtype != VV_F32)
            return VV_OK;
        for (int k = 0; k < (bias ? 2 : plan->instrs[*at].n_in); k++)
            VV_TRY(want(p, at, k, VV_BF16));
        if (instr->op != VV_OP_CONV2D_GRAD_WEIGHT && !vvi_plan_is_result(plan, main_out))
            set_dtype(plan, main_out, VV_BF16);
        return VV_OK;
    }
    case ATTENTION: return visit_attention(p, at);
    case HEAD: return visit_head(p, at);
    case FOLLOW:
        if (operands_are_half(plan, instr)) {
            if (float_out)
                set_dtype(plan, main_out, VV_BF16);
            return VV_OK;
        }
        if (p->all && float_out && some_operand_is_half(plan, instr)) {
            if (!takes_both(instr->op))
                VV_TRY(cast_all(p, at, VV_BF16));
            set_dtype(plan, main_out, VV_BF16);
            return VV_OK;
        }
        return cast_all(p, at, VV_F32);
    case NORM: {
        /* operands: activations have the rank of the main result, parameters are vectors */
        bool half = p->all && is_half_or_single(plan, main_out);
        for (int k = 0; k < instr->n_in; k++)
            half = half || (instr->in[k] >= 0 &&
                            plan->values[instr->in[k]].shape.dtype == VV_BF16);
        if (!half)
            return VV_OK;
        int64_t full = plan->values[main_out].count;
        for (int k = 0; k < plan->instrs[*at].n_in; k++) {
            int value = plan->instrs[*at].in[k];
            if (value >= 0 && plan->values[value].count == full &&
                plan->values[value].shape.ndim == plan->values[main_out].shape.ndim)
                VV_TRY(want(p, at, k, VV_BF16));
        }
        set_dtype(plan, main_out, VV_BF16);
        return VV_OK;
    }
    case FULL_PRECISION:
        if (plan->instrs[*at].op == VV_OP_CAST)
            return VV_OK;
        return cast_all(p, at, VV_F32);
    }
    return VV_OK;
}

/* An explicit or implicit cast between equal dtypes is a plain copy: harmless, fused away. */
vv_status vvi_pass_precision(vvi_plan *plan, bool all)
{
    vv_status status;
    pass p = {.plan = plan, .as_capacity = plan->value_count, .all = all};
    VV_GO(vv_alloc_array(&p.as[0], (size_t)p.as_capacity + 1, sizeof(int)));
    VV_GO(vv_alloc_array(&p.as[1], (size_t)p.as_capacity + 1, sizeof(int)));
    for (int at = 0; at < plan->instr_count; at++)
        VV_GO(visit(&p, &at));
out:
    vv_dealloc(p.as[0]);
    vv_dealloc(p.as[1]);
    return status;
}
