/* plan.c - from needed nodes to a plan: signature, cache, instructions, passes, kernels. */
#include "graph/plan.h"

#include <string.h>

#include <vivace/memory.h>
#include <vivace/training_time.h>

/* ---- building blocks, used by the passes too ---- */

static int64_t shape_count(const vvi_shape *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->ndim; i++)
        count *= shape->shape[i];
    return count;
}

int vvi_plan_value(vvi_plan *plan, const vvi_shape *shape)
{
    if (plan->value_count == plan->value_capacity) {
        int capacity = plan->value_capacity ? 2 * plan->value_capacity : 256;
        if (vv_realloc_array(&plan->values, (size_t)capacity, sizeof *plan->values) != VV_OK)
            return -1;
        plan->value_capacity = capacity;
    }
    vvi_value *value = &plan->values[plan->value_count];
    memset(value, 0, sizeof *value);
    value->shape = *shape;
    value->count = shape_count(shape);
    value->bytes = (size_t)value->count * vv_dtype_size(shape->dtype);
    value->place = VVI_SLAB;
    value->alias = -1;
    value->first = value->last = -1;
    return plan->value_count++;
}

vvi_instr *vvi_plan_insert(vvi_plan *plan, int at, vv_op op, int n_in, int n_out)
{
    if (plan->instr_count == plan->instr_capacity) {
        int capacity = plan->instr_capacity ? 2 * plan->instr_capacity : 256;
        if (vv_realloc_array(&plan->instrs, (size_t)capacity, sizeof *plan->instrs) != VV_OK)
            return NULL;
        plan->instr_capacity = capacity;
    }
    int *operands = vvi_arena_alloc(&plan->arena, (size_t)(n_in + n_out + 1) * sizeof *operands);
    if (!operands)
        return NULL;
    memmove(plan->instrs + at + 1, plan->instrs + at,
            (size_t)(plan->instr_count - at) * sizeof *plan->instrs);
    plan->instr_count++;
    vvi_instr *instr = &plan->instrs[at];
    memset(instr, 0, sizeof *instr);
    instr->backward = at + 1 < plan->instr_count && plan->instrs[at + 1].backward;
    instr->op = op;
    instr->n_in = n_in;
    instr->n_out = n_out;
    instr->in = operands;
    instr->out = operands + n_in;
    instr->name = vv_op_name(op);
    return instr;
}

int vvi_plan_root(const vvi_plan *plan, int value)
{
    while (value >= 0 && plan->values[value].alias >= 0)
        value = plan->values[value].alias;
    return value;
}

int vvi_plan_uses(const vvi_plan *plan, int value)
{
    int uses = 0, root = vvi_plan_root(plan, value);
    for (int i = 0; i < plan->instr_count; i++) {
        const vvi_instr *instr = &plan->instrs[i];
        for (int k = 0; k < instr->n_in && !instr->dead; k++)
            uses += instr->in[k] >= 0 && instr->op != VV_OP_RESHAPE &&
                    vvi_plan_root(plan, instr->in[k]) == root;
    }
    return uses;
}

int vvi_plan_maker(const vvi_plan *plan, int value)
{
    for (int i = 0; i < plan->instr_count; i++)
        for (int k = 0; k < plan->instrs[i].n_out && !plan->instrs[i].dead; k++)
            if (plan->instrs[i].out[k] == value)
                return i;
    return -1;
}

bool vvi_plan_is_result(const vvi_plan *plan, int value)
{
    int root = vvi_plan_root(plan, value);
    for (int i = 0; i < plan->result_count; i++)
        if (vvi_plan_root(plan, plan->results[i].value) == root)
            return true;
    return false;
}

void vvi_plan_compact(vvi_plan *plan)
{
    int kept = 0;
    for (int i = 0; i < plan->instr_count; i++)
        if (!plan->instrs[i].dead)
            plan->instrs[kept++] = plan->instrs[i];
    plan->instr_count = kept;
}

void vvi_plan_free(vvi_plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->instr_count; i++)
        if (!plan->instrs[i].again && plan->instrs[i].kernel && plan->instrs[i].kernel->release &&
            plan->instrs[i].state)
            plan->instrs[i].kernel->release(plan->instrs[i].state);
    for (int i = 0; i < plan->result_count; i++)
        vv_tensor_free(plan->results[i].tensor);
    vv_dealloc(plan->results);
    vv_dealloc(plan->instrs);
    vv_dealloc(plan->values);
    vv_dealloc(plan->signature);
    vvi_arena_fini(&plan->arena);
    vv_dealloc(plan);
}

/* ---- signature: everything that decides how a plan looks ---- */

typedef struct signature {
    vvi_arena *arena;
    unsigned char *bytes;
    size_t count, capacity;
    bool failed;
} signature;

static void put(signature *s, const void *data, size_t bytes)
{
    if (s->failed)
        return;
    if (s->count + bytes > s->capacity) {
        size_t capacity = 2 * (s->count + bytes) + 4096;
        unsigned char *grown = vvi_arena_alloc(s->arena, capacity);
        if (!grown) {
            s->failed = true;
            return;
        }
        if (s->count)
            memcpy(grown, s->bytes, s->count);
        s->bytes = grown;
        s->capacity = capacity;
    }
    memcpy(s->bytes + s->count, data, bytes);
    s->count += bytes;
}

static void put_int(signature *s, int64_t value)
{
    put(s, &value, sizeof value);
}

/* Where the backward part begins among the needed nodes. */
static int first_backward(const vvi_request *r)
{
    int i = 0;
    while (i < r->node_count && (!r->g->backward_id || r->nodes[i]->id < r->g->backward_id))
        i++;
    return i;
}

static vv_status write_signature(const vvi_request *r, signature *s)
{
    put_int(s, r->g->opts.precision);
    put_int(s, (r->g->opts.fuse ? 1 : 0) + (r->g->opts.in_place ? 2 : 0));
    put_int(s, r->g->opts.conv);
    put_int(s, r->recompute);
    put_int(s, r->recompute == VV_RECOMPUTE_AUTO ? (int64_t)r->g->slab_limit : 0);
    put_int(s, r->recompute == VV_RECOMPUTE_OFF ? 0 : first_backward(r));
    for (int i = 0; i < r->node_count; i++) {
        const vv_node *node = r->nodes[i];
        bool source = vvi_node_is_source(node);
        put_int(s, source ? -1 : (int64_t)node->op);
        for (int k = 0; k < (source ? 1 : node->n_out); k++) {
            const vvi_shape *shape = &node->out[k];
            put_int(s, shape->dtype * 16 + shape->ndim);
            put(s, shape->shape, (size_t)shape->ndim * sizeof(int64_t));
        }
        if (source)
            continue;
        put(s, &node->attr, sizeof node->attr);
        put_int(s, node->n_in * 16 + node->n_out);
        for (int k = 0; k < node->n_in; k++)
            put_int(s, node->in[k] ? node->in[k]->index : -1);
    }
    for (int i = 0; i < r->out_count; i++) {
        const vvi_binding *b = r->outs[i]->binding;
        put_int(s, r->outs[i]->index);
        put_int(s, b && !b->done ? 1 + b->how + 16 * b->tensor->dtype : 0);
    }
    return s->failed ? VV_ENOMEM : VV_OK;
}

static uint64_t hash_bytes(const unsigned char *bytes, size_t count)
{
    uint64_t h = UINT64_C(0x243f6a8885a308d3) ^ count;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof word);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    for (; i < count; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 32);
}

/* ---- from nodes to instructions ---- */

static bool build_source(vvi_plan *plan, const vv_node *node, int *value_of)
{
    int value = vvi_plan_value(plan, &node->out[0]);
    if (value < 0)
        return false;
    plan->values[value].place = VVI_LEAF;
    plan->values[value].slot = plan->leaf_count++;
    value_of[node->index * VVI_MAX_OUT] = value;
    return true;
}

static bool build_node(vvi_plan *plan, const vv_node *node, int *value_of)
{
    int *mine = value_of + node->index * VVI_MAX_OUT;
    if (node->op == VV_OP_PICK) {
        mine[0] = value_of[node->in[0]->index * VVI_MAX_OUT + (int)node->attr.pick.index];
        return true;
    }
    vvi_instr *instr = vvi_plan_insert(plan, plan->instr_count, node->op, node->n_in, node->n_out);
    if (!instr)
        return false;
    instr->attr = node->attr;
    instr->backward = node->graph->backward_id && node->id >= node->graph->backward_id;
    instr->name = vvi_arena_text(&plan->arena, node->name);
    if (!instr->name)
        return false;
    for (int k = 0; k < node->n_in; k++)
        instr->in[k] = node->in[k] ? value_of[node->in[k]->index * VVI_MAX_OUT] : -1;
    for (int k = 0; k < node->n_out; k++) {
        mine[k] = vvi_plan_value(plan, &node->out[k]);
        if (mine[k] < 0)
            return false;
        instr->out[k] = mine[k];
    }
    if (node->op == VV_OP_RESHAPE)
        plan->values[mine[0]].alias = instr->in[0];
    return true;
}

/* A result must be a slab value of its own with the node's dtype; otherwise it is copied into
   one. */
static vv_status own_result(vvi_plan *plan, int i, const vvi_shape *want)
{
    int value = plan->results[i].value;
    int root = vvi_plan_root(plan, value);
    bool taken = plan->values[root].place != VVI_SLAB;
    for (int k = 0; k < i; k++)
        taken = taken || vvi_plan_root(plan, plan->results[k].value) == root;
    if (!taken && plan->values[value].shape.dtype == want->dtype)
        return VV_OK;
    int copy = vvi_plan_value(plan, want);
    vvi_instr *cast =
        copy < 0 ? NULL : vvi_plan_insert(plan, plan->instr_count, VV_OP_CAST, 1, 1);
    if (!cast)
        return VV_ENOMEM;
    cast->in[0] = value;
    cast->out[0] = copy;
    plan->results[i].value = copy;
    return VV_OK;
}

/* Where an instruction that reads `value` may come first; the end if nothing makes it. */
static int behind_maker(const vvi_plan *plan, int value)
{
    int root = vvi_plan_root(plan, value);
    for (int i = plan->instr_count - 1; i >= 0; i--)
        for (int k = 0; k < plan->instrs[i].n_out; k++)
            if (!plan->instrs[i].dead && plan->instrs[i].op != VV_OP_RESHAPE &&
                plan->instrs[i].out[k] == root)
                return i + 1;
    return plan->instr_count;
}

/* Adding to the caller's tensor: value -> ACCUMULATE -> bound value; at once, so that gradients do
   not wait for the end. */
static vv_status add_accumulate(vvi_plan *plan, int i, vv_dtype dtype)
{
    vvi_shape shape = plan->values[plan->results[i].value].shape;
    shape.dtype = dtype;
    int bound = vvi_plan_value(plan, &shape);
    vvi_instr *add =
        bound < 0 ? NULL
                  : vvi_plan_insert(plan, behind_maker(plan, plan->results[i].value),
                                    VV_OP_ACCUMULATE, 1, 1);
    if (!add)
        return VV_ENOMEM;
    add->in[0] = plan->results[i].value;
    add->out[0] = bound;
    plan->results[i].value = bound;
    return VV_OK;
}

static vv_status build_results(const vvi_request *r, vvi_plan *plan)
{
    for (int i = 0; i < r->out_count; i++) {
        const vv_node *node = r->outs[i];
        const vvi_binding *b = node->binding && !node->binding->done ? node->binding : NULL;
        vvi_shape want = node->out[0];
        plan->results[i].bound = b != NULL;
        if (b && b->how == VV_BIND_ADD) {
            VV_TRY(add_accumulate(plan, i, b->tensor->dtype));
            continue;
        }
        if (b)
            want.dtype = b->tensor->dtype;
        VV_TRY(own_result(plan, i, &want));
    }
    for (int i = 0; i < plan->result_count; i++) {
        vvi_value *root = &plan->values[vvi_plan_root(plan, plan->results[i].value)];
        root->place = VVI_RESULT;
        root->slot = i;
    }
    return VV_OK;
}

static vv_status build(const vvi_request *r, vvi_plan *plan)
{
    vv_status status;
    int *value_of = NULL;
    VV_GO(vv_alloc_array(&value_of, (size_t)r->node_count * VVI_MAX_OUT + 1, sizeof *value_of));
    VV_GO(vv_alloc_array(&plan->results, (size_t)r->out_count + 1, sizeof *plan->results));
    for (int i = 0; i < r->node_count; i++) {
        const vv_node *node = r->nodes[i];
        bool fine = vvi_node_is_source(node) ? build_source(plan, node, value_of)
                                    : build_node(plan, node, value_of);
        if (!fine)
            VV_GO(VV_ENOMEM);
    }
    for (int i = 0; i < r->out_count; i++)
        plan->results[i].value = value_of[r->outs[i]->index * VVI_MAX_OUT];
    plan->result_count = r->out_count;
    if (r->g->opts.fuse) {
        VV_GO(vvi_pass_linear_loss(plan));
        VV_GO(vvi_pass_join_grads(plan));
    }
    if (r->g->opts.precision == VV_PRECISION_AMP_BF16 || r->g->opts.precision == VV_PRECISION_BF16)
        VV_GO(vvi_pass_precision(plan, r->g->opts.precision == VV_PRECISION_BF16));
    if (r->g->opts.fuse)
        VV_GO(vvi_pass_fuse_norm(plan));
    VV_GO(build_results(r, plan));
out:
    vv_dealloc(value_of);
    return status;
}

/* ---- kernels ---- */

static void fill_buf(const vvi_plan *plan, int value, vv_buf *buf)
{
    memset(buf, 0, sizeof *buf);
    if (value < 0)
        return;
    const vvi_value *v = &plan->values[value];
    buf->dtype = v->shape.dtype;
    buf->ndim = v->shape.ndim;
    memcpy(buf->shape, v->shape.shape, sizeof buf->shape);
    buf->count = v->count;
}

static vv_status choose_kernel(vv_graph *g, vvi_plan *plan, vvi_instr *instr)
{
    instr->bufs =
        vvi_arena_alloc(&plan->arena, (size_t)(instr->n_in + instr->n_out) * sizeof *instr->bufs);
    if (!instr->bufs)
        return VV_ENOMEM;
    for (int k = 0; k < instr->n_in; k++)
        fill_buf(plan, instr->in[k], &instr->bufs[k]);
    for (int k = 0; k < instr->n_out; k++)
        fill_buf(plan, instr->out[k], &instr->bufs[instr->n_in + k]);
    vv_call call = {.op = instr->op, .attr = &instr->attr, .n_in = instr->n_in,
                    .n_out = instr->n_out, .in = instr->bufs, .out = instr->bufs + instr->n_in,
                    .fused = instr->fused};
    instr->flops = vvi_op_flops(&call);
    plan->flops += instr->flops;
    vvi_chosen chosen;
    VV_TRY(vvi_choose_kernel(g, &call, &chosen));
    instr->kernel = chosen.kernel;
    instr->state = chosen.state;
    instr->scratch_bytes = chosen.scratch_bytes;
    if (chosen.kernel)
        return VV_OK;
    char shape[128];
    const vv_buf *first = instr->n_in ? &instr->bufs[0] : &instr->bufs[instr->n_in];
    return vv_fail(VV_EUNSUPPORTED, "%s: no kernel of backend %s does this with %s %s", instr->name,
                   vv_backend_name(g->backend), vv_dtype_name(first->dtype),
                   vv_shape_text(first->ndim, first->shape, shape, sizeof shape));
}

/* Instructions whose results nobody reads (after fusion some are left over). Readers come behind
   makers, so that one pass from the end sees them all. */
static vv_status drop_dead(vvi_plan *plan)
{
    bool *read = NULL; /* by value: its memory is, by a result or an instruction that stays */
    VV_TRY(vv_alloc_array(&read, (size_t)plan->value_count + 1, sizeof *read));
    for (int i = 0; i < plan->result_count; i++)
        if (plan->results[i].value >= 0)
            read[vvi_plan_root(plan, plan->results[i].value)] = true;
    for (int i = plan->instr_count - 1; i >= 0; i--) {
        vvi_instr *instr = &plan->instrs[i];
        bool wanted = instr->op == VV_OP_ACCUMULATE;
        for (int k = 0; k < instr->n_out && !wanted; k++)
            wanted = instr->out[k] >= 0 && read[vvi_plan_root(plan, instr->out[k])];
        if (instr->op == VV_OP_RESHAPE || !wanted)
            instr->dead = true; /* aliases are resolved: nothing to run */
        for (int k = 0; k < instr->n_in && !instr->dead; k++)
            if (instr->in[k] >= 0)
                read[vvi_plan_root(plan, instr->in[k])] = true;
    }
    vv_dealloc(read);
    vvi_plan_compact(plan);
    return VV_OK;
}

static bool backend_fuses(const vv_backend *backend)
{
    for (; backend; backend = backend->next)
        if (backend->kernels[VV_OP_FUSED])
            return true;
    return false;
}

static vv_status make_plan(const vvi_request *r, vvi_plan *plan)
{
    VV_TRY(build(r, plan));
    VV_TRY(drop_dead(plan));
    if (r->g->opts.fuse && backend_fuses(r->g->backend))
        VV_TRY(vvi_pass_fuse_chains(plan));
    for (int i = 0; i < plan->instr_count; i++)
        VV_TRY(choose_kernel(r->g, plan, &plan->instrs[i]));
    return vvi_pass_recompute(plan, r->recompute, r->g->slab_limit, r->g->opts.in_place);
}

/* Structures that change all the time (a random depth, new sizes) must not fill the memory. While
   times are measured, all are kept: the plans hold them. */
static void forget_oldest(vv_graph *g)
{
    if (g->plan_count < VVI_MOST_PLANS || g->opts.profile)
        return;
    int oldest = 0;
    for (int i = 1; i < g->plan_count; i++)
        if (g->plans[i]->last_use < g->plans[oldest]->last_use)
            oldest = i;
    if (g->last_plan == g->plans[oldest])
        g->last_plan = NULL;
    vvi_plan_free(g->plans[oldest]);
    g->plans[oldest] = g->plans[--g->plan_count];
}

static vv_status remember(vv_graph *g, vvi_plan *plan)
{
    forget_oldest(g);
    if (g->plan_count == g->plan_capacity) {
        int capacity = g->plan_capacity ? 2 * g->plan_capacity : 16;
        VV_TRY(vv_realloc_array(&g->plans, (size_t)capacity, sizeof(vvi_plan *)));
        g->plan_capacity = capacity;
    }
    g->plans[g->plan_count++] = plan;
    g->stats.plan_count++;
    if (plan->slab_bytes > g->stats.planned_bytes)
        g->stats.planned_bytes = plan->slab_bytes;
    return VV_OK;
}

vv_status vvi_plan_get(const vvi_request *r, vvi_plan **out)
{
    *out = NULL;
    vv_graph *g = r->g;
    signature s = {.arena = &g->arena};
    VV_TRY(write_signature(r, &s));
    uint64_t hash = hash_bytes(s.bytes, s.count);
    for (int i = 0; i < g->plan_count; i++) {
        vvi_plan *plan = g->plans[i];
        if (plan->hash == hash && plan->signature_bytes == s.count &&
            memcmp(plan->signature, s.bytes, s.count) == 0) {
            plan->last_use = ++g->plan_clock;
            *out = plan;
            return VV_OK;
        }
    }
    vv_status status;
    vvi_plan *plan = NULL;
    const double start = vv_clock();
    VV_GO(vv_alloc(&plan, sizeof *plan));
    plan->hash = hash;
    VV_GO(vv_alloc(&plan->signature, s.count));
    memcpy(plan->signature, s.bytes, s.count);
    plan->signature_bytes = s.count;
    VV_GO(make_plan(r, plan));
    VV_GO(remember(g, plan));
    plan->last_use = ++g->plan_clock;
    g->stats.plan_seconds += vv_clock() - start;
    *out = plan;
    return VV_OK;
out:
    vvi_plan_free(plan);
    return status;
}
