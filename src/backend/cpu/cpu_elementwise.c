/* cpu_elementwise.c - element-wise programs, run block by block so that registers stay in cache.
 *
 * A single UNARY, BINARY, ... is a program of one step. Full-shape f32 inputs are read where they
 * lie and f32 results are written where they belong; everything else passes through block-sized
 * buffers in scratch, shared by registers that do not live at the same time. */
#include "backend/cpu/broadcast.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/vec.h"

#include <vivace/memory.h>

#include <limits.h>
#include <string.h>

enum { BLOCK = 2048, BLOCKS_PER_CHUNK = 16, MAX_REGS = VV_FUSED_MAX_IO + VV_FUSED_MAX_STEPS };

typedef struct program {
    vv_fused fused;
    int n_buffers, slots;
    int buffer[MAX_REGS];   /* -1 = none: read in place */
    int last_use[MAX_REGS]; /* step; INT_MAX = stored at the end of the block */
    bool constant[VV_FUSED_MAX_IO]; /* same contents in every block */
    vvi_broadcast input[VV_FUSED_MAX_IO];
    int64_t block;
} program;

static void program_of_call(vv_fused *out, const vv_call *call)
{
    if (call->op == VV_OP_FUSED) {
        *out = *call->fused;
        return;
    }
    memset(out, 0, sizeof *out);
    out->n_in = call->n_in;
    out->n_steps = out->n_out = 1;
    out->steps[0].op = call->op;
    if (call->attr)
        out->steps[0].attr = *call->attr;
    out->steps[0].dtype = call->out[0].dtype;
    for (int i = 0; i < 3; i++)
        out->steps[0].src[i] = i < call->n_in ? i : 0;
    out->out[0] = call->n_in;
}

static int step_operands(const vv_fused_step *step)
{
    switch (step->op) {
    case VV_OP_UNARY_GRAD:
    case VV_OP_BINARY: return 2;
    case VV_OP_WHERE: return 3;
    default: return 1;
    }
}

/* Types whose every value an f32 register holds. */
static bool fits_register(vv_dtype dtype)
{
    return vvi_is_vec_float(dtype) || dtype == VV_BOOL || dtype == VV_U8;
}

static bool accepts_shapes(const vv_call *call)
{
    vvi_broadcast how;
    for (int i = 0; i < call->n_in; i++)
        if (!vvi_broadcast_make(&how, &call->in[i], &call->out[0]))
            return false;
    for (int i = 1; i < call->n_out; i++)
        if (call->out[i].count != call->out[0].count)
            return false;
    return true;
}

/* Arithmetic on bytes wraps around, which f32 registers do not. */
static bool wraps(vv_op op, vv_dtype dtype)
{
    return dtype == VV_U8 && op != VV_OP_CAST && op != VV_OP_WHERE;
}

static bool accepts(const vv_call *call)
{
    if (call->n_in < 1 || call->n_in > VV_FUSED_MAX_IO || call->n_out > VV_FUSED_MAX_IO)
        return false;
    for (int i = 0; i < call->n_in; i++)
        if (!fits_register(call->in[i].dtype))
            return false;
    for (int i = 0; i < call->n_out; i++)
        if (!fits_register(call->out[i].dtype))
            return false;
    if (call->op == VV_OP_FUSED) {
        const vv_fused *fused = call->fused;
        for (int i = 0; i < fused->n_steps; i++)
            if (!fits_register(fused->steps[i].dtype) ||
                wraps(fused->steps[i].op, fused->steps[i].dtype))
                return false;
    } else if (wraps(call->op, call->out[0].dtype)) {
        return false;
    }
    return accepts_shapes(call);
}

/* Integers go through a register only from or to a float or a byte, where nothing more is lost. */
static bool accepts_cast(const vv_call *call)
{
    const vv_dtype from = call->in[0].dtype, to = call->out[0].dtype;
    if (from == VV_F64 || to == VV_F64 || call->in[0].count != call->out[0].count)
        return false;
    return fits_register(from) || vvi_is_vec_float(to);
}

static void find_last_uses(program *p)
{
    const vv_fused *f = &p->fused;
    for (int r = 0; r < f->n_in + f->n_steps; r++)
        p->last_use[r] = -1;
    for (int s = 0; s < f->n_steps; s++)
        for (int k = 0; k < step_operands(&f->steps[s]); k++)
            p->last_use[f->steps[s].src[k]] = s;
    for (int k = 0; k < f->n_out; k++)
        p->last_use[f->out[k]] = INT_MAX;
}

/* Linear scan: a buffer is free again after the step that last reads it, and that very step may
   already write to it. Constant inputs keep theirs. */
static void assign_buffers(program *p, const vv_call *call)
{
    const vv_fused *f = &p->fused;
    bool busy[MAX_REGS] = {false};
    for (int r = 0; r < f->n_in; r++) {
        const bool direct = p->input[r].spread == VVI_SPREAD_FULL && call->in[r].dtype == VV_F32;
        p->buffer[r] = direct ? -1 : p->n_buffers++;
        if (!direct)
            busy[p->buffer[r]] = true;
    }
    for (int s = 0; s < f->n_steps; s++) {
        for (int k = 0; k < step_operands(&f->steps[s]); k++) {
            const int r = f->steps[s].src[k];
            const bool keep = r < f->n_in && p->constant[r];
            if (p->last_use[r] == s && !keep && p->buffer[r] >= 0)
                busy[p->buffer[r]] = false;
        }
        int b = 0;
        while (busy[b])
            b++;
        busy[b] = true;
        p->buffer[f->n_in + s] = b;
        if (b >= p->n_buffers)
            p->n_buffers = b + 1;
    }
}

static vv_status prepare(const vv_call *call, void **state, size_t *scratch_bytes)
{
    program *p;
    VV_TRY(vv_alloc(&p, sizeof *p));
    program_of_call(&p->fused, call);
    p->block = BLOCK;
    for (int i = 0; i < p->fused.n_in; i++) {
        vvi_broadcast *in = &p->input[i];
        if (!vvi_broadcast_make(in, &call->in[i], &call->out[0])) {
            vv_dealloc(p);
            return vv_fail(VV_EINTERNAL, "%s: operand %d does not broadcast to the result",
                           vv_op_name(call->op), i);
        }
        if (in->spread == VVI_SPREAD_SUFFIX && in->period <= BLOCK && p->block == BLOCK)
            p->block = BLOCK - BLOCK % in->period;
    }
    for (int i = 0; i < p->fused.n_in; i++) {
        const vvi_broadcast *in = &p->input[i];
        p->constant[i] = in->spread == VVI_SPREAD_SCALAR ||
                         (in->spread == VVI_SPREAD_SUFFIX && p->block % in->period == 0);
    }
    find_last_uses(p);
    assign_buffers(p, call);
    p->slots = vv_threads();
    *state = p;
    *scratch_bytes = (size_t)p->slots * (size_t)p->n_buffers * BLOCK * sizeof(float);
    return VV_OK;
}

typedef struct run_ctx {
    const vv_call *call;
    const program *p;
    bool direct[VV_FUSED_MAX_IO]; /* output written by its step */
} run_ctx;

/* A result may go straight to its place unless that is an input which a later step still reads. */
static void find_direct_outputs(run_ctx *ctx)
{
    const vv_fused *f = &ctx->p->fused;
    const vv_call *call = ctx->call;
    for (int k = 0; k < f->n_out; k++) {
        const int r = f->out[k];
        bool direct = call->out[k].dtype == VV_F32 && r >= f->n_in;
        for (int i = 0; i < f->n_in; i++)
            if (call->in[i].data == call->out[k].data && ctx->p->last_use[i] > r - f->n_in)
                direct = false;
        for (int j = 0; j < k; j++)
            if (f->out[j] == r)
                direct = false;
        ctx->direct[k] = direct;
    }
}

static void run_block(const run_ctx *ctx, float **regs, int64_t at, int64_t n)
{
    const vv_fused *f = &ctx->p->fused;
    const vv_call *call = ctx->call;
    for (int i = 0; i < f->n_in; i++) {
        if (ctx->p->buffer[i] < 0)
            regs[i] = (float *)call->in[i].data + at;
        else if (!ctx->p->constant[i])
            vvi_broadcast_load(&ctx->p->input[i], regs[i], &call->in[i], at, n);
    }
    for (int k = 0; k < f->n_out; k++)
        if (ctx->direct[k])
            regs[f->out[k]] = (float *)call->out[k].data + at;
    for (int s = 0; s < f->n_steps; s++) {
        const vv_fused_step *step = &f->steps[s];
        vvi_vec_step(step, regs[f->n_in + s], regs[step->src[0]], regs[step->src[1]],
                     regs[step->src[2]], n);
    }
    for (int k = 0; k < f->n_out; k++)
        if (!ctx->direct[k])
            vvi_vec_store(call->out[k].dtype, call->out[k].data, at, regs[f->out[k]], n);
}

static void run_chunk(void *arg, int64_t chunk, int slot)
{
    const run_ctx *ctx = arg;
    const program *p = ctx->p;
    const vv_call *call = ctx->call;
    float *regs[MAX_REGS] = {NULL};
    float *room = (float *)call->scratch + (int64_t)slot * p->n_buffers * BLOCK;
    for (int r = 0; r < p->fused.n_in + p->fused.n_steps; r++)
        if (p->buffer[r] >= 0)
            regs[r] = room + (int64_t)p->buffer[r] * BLOCK;
    const int64_t span = p->block * BLOCKS_PER_CHUNK;
    const int64_t begin = chunk * span, end = vvi_min64(begin + span, call->out[0].count);
    for (int i = 0; i < p->fused.n_in; i++)
        if (p->constant[i])
            vvi_broadcast_load(&p->input[i], regs[i], &call->in[i], begin,
                               vvi_min64(p->block, end - begin));
    for (int64_t at = begin; at < end; at += p->block)
        run_block(ctx, regs, at, vvi_min64(p->block, end - at));
}

static vv_status run(const vv_call *call)
{
    const program *p = call->state;
    run_ctx ctx = {.call = call, .p = p};
    find_direct_outputs(&ctx);
    vvi_cpu_for(vvi_chunks(call->out[0].count, p->block * BLOCKS_PER_CHUNK), p->slots, run_chunk,
                &ctx);
    return VV_OK;
}

#define ELEMENTWISE(accept, inputs)                                                                \
    {{"vector", accept, prepare, run, vv_dealloc, inputs}, {0}}

const vv_kernel vvi_cpu_unary[] = ELEMENTWISE(accepts, 1);
const vv_kernel vvi_cpu_unary_grad[] = ELEMENTWISE(accepts, 3);
const vv_kernel vvi_cpu_binary[] = ELEMENTWISE(accepts, 3);
const vv_kernel vvi_cpu_where[] = ELEMENTWISE(accepts, 7);
const vv_kernel vvi_cpu_cast[] = ELEMENTWISE(accepts_cast, 0);
const vv_kernel vvi_cpu_fused[] = ELEMENTWISE(accepts, (1u << VV_FUSED_MAX_IO) - 1);
