/* run.c - vv_eval: finds or makes the plan, runs it, hands out values; and reading values. */
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

#include "graph/plan.h"

void vvi_graph_free_slab(vv_graph *g)
{
    vv_slab_free(g->slab, g->slab_bytes);
    g->slab = NULL;
    g->slab_bytes = 0;
}

static vv_status ensure_slab(vv_graph *g, size_t bytes)
{
    if (bytes <= g->slab_bytes)
        return VV_OK;
    vvi_graph_free_slab(g);
    VV_TRY(vv_slab_alloc(&g->slab, bytes));
    g->slab_bytes = bytes;
    return VV_OK;
}

/* ---- running ---- */

static void *address_of(const vv_graph *g, const vvi_plan *plan, int value, void *const *leaf_data,
                        vv_tensor *const *bound)
{
    int root = vvi_plan_root(plan, value);
    if (root < 0)
        return NULL;
    const vvi_value *v = &plan->values[root];
    switch (v->place) {
    case VVI_LEAF: return leaf_data[v->slot];
    case VVI_RESULT: {
        const vvi_result *result = &plan->results[v->slot];
        return result->bound ? bound[v->slot]->data : result->tensor->data;
    }
    case VVI_SLAB: return g->slab + v->offset;
    }
    return NULL;
}

static void note_peak(vv_graph *g, const vvi_plan *plan, const vvi_instr *instr)
{
    size_t peak = instr->scratch_bytes ? instr->scratch_offset + instr->scratch_bytes : 0;
    for (int k = 0; k < instr->n_in + instr->n_out; k++) {
        int root =
            vvi_plan_root(plan, k < instr->n_in ? instr->in[k] : instr->out[k - instr->n_in]);
        if (root < 0 || plan->values[root].place != VVI_SLAB)
            continue;
        size_t end = plan->values[root].offset + plan->values[root].bytes;
        peak = end > peak ? end : peak;
    }
    peak = (peak + 63) / 64 * 64;
    if (peak > g->stats.peak_bytes)
        g->stats.peak_bytes = peak;
}

/* The plan's own result tensors: reused unless somebody still holds them from the last run. */
static vv_status ready_results(vv_graph *g, vvi_plan *plan)
{
    g->stats.result_bytes = 0;
    for (int i = 0; i < plan->result_count; i++) {
        vvi_result *result = &plan->results[i];
        if (result->bound)
            continue;
        const vvi_shape *shape = &plan->values[result->value].shape;
        if (result->tensor && __atomic_load_n(&result->tensor->refs, __ATOMIC_ACQUIRE) > 1) {
            vv_tensor_free(result->tensor);
            result->tensor = NULL;
        }
        if (!result->tensor)
            VV_TRY(vv_tensor_new(&result->tensor, shape->dtype, shape->ndim, shape->shape));
        g->stats.result_bytes += result->tensor->bytes;
    }
    return VV_OK;
}

static void tell_trace(const vv_graph *g, const vvi_instr *instr, double start)
{
    const vv_graph_span span = {.name = instr->name, .op = vv_op_name(instr->op),
                                .kernel = instr->kernel->name, .backward = instr->backward,
                                .start = start, .seconds = vv_clock() - start,
                                .flops = instr->flops};
    g->trace(g->trace_ctx, &span);
}

vv_status vvi_plan_run(vv_graph *g, vvi_plan *plan, void *const *leaf_data, vv_tensor *const *bound)
{
    VV_TRY(ensure_slab(g, plan->slab_bytes));
    VV_TRY(ready_results(g, plan));
    for (int i = 0; i < plan->instr_count; i++) {
        vvi_instr *instr = &plan->instrs[i];
        for (int k = 0; k < instr->n_in + instr->n_out; k++)
            instr->bufs[k].data = address_of(
                g, plan, k < instr->n_in ? instr->in[k] : instr->out[k - instr->n_in], leaf_data,
                bound);
        vv_call call = {.op = instr->op, .attr = &instr->attr, .n_in = instr->n_in,
                        .n_out = instr->n_out, .in = instr->bufs, .out = instr->bufs + instr->n_in,
                        .fused = instr->fused, .state = instr->state,
                        .scratch = instr->scratch_bytes ? g->slab + instr->scratch_offset : NULL,
                        .seed = g->seed, .step = g->step, .first_item = g->first_item};
        note_peak(g, plan, instr);
        double start = g->opts.profile || g->trace ? vv_clock() : 0.0;
        vv_status status = instr->kernel->run(&call);
        if (status != VV_OK)
            return vv_fail_within(status, "%s", instr->name);
        if (g->opts.profile) {
            instr->seconds += vv_clock() - start;
            instr->calls++;
        }
        if (g->trace)
            tell_trace(g, instr, start);
    }
    g->stats.run_count++;
    g->stats.flops = plan->flops;
    g->stats.recompute_flops = plan->recompute_flops;
    g->last_plan = plan;
    return VV_OK;
}

/* ---- what an evaluation needs ---- */

bool vvi_node_is_source(const vv_node *node)
{
    return node->op == VV_OP_LEAF || (node->tensor && node->remake != node->graph->mark);
}

/* Marks what `node` needs that has no value yet. Operands precede their users in order of creation,
   so one backward sweep over the list would do; a stack keeps it to the nodes in question. */
static void mark_needed(vv_graph *g, vv_node **stack, int depth)
{
    while (depth > 0) {
        vv_node *node = stack[--depth];
        if (vvi_node_is_source(node))
            continue;
        /* only result 0 of a node is kept: for its further results it runs again */
        if (node->op == VV_OP_PICK && node->in[0]->tensor && node->in[0]->remake != g->mark) {
            node->in[0]->remake = node->in[0]->mark = g->mark;
            stack[depth++] = node->in[0];
            continue;
        }
        for (int i = 0; i < node->n_in; i++) {
            vv_node *in = node->in[i];
            if (in && in->mark != g->mark) {
                in->mark = g->mark;
                stack[depth++] = in;
            }
        }
    }
}

/* A result written over a leaf that the graph reads: what is computed again would read the new
   value. */
static bool writes_leaf(vv_graph *g)
{
    for (const vvi_binding *b = g->bindings; b && g->recompute != VV_RECOMPUTE_OFF; b = b->next)
        if (!b->done && vvi_graph_has_leaf(g, b->tensor))
            return true;
    return false;
}

/* Collects the request's nodes; outs without a value, each once. */
static vv_status collect(vv_graph *g, vv_node *const *nodes, int count, vvi_request *r)
{
    *r = (vvi_request){.g = g};
    size_t most = (size_t)count + (size_t)g->update_count;
    r->outs = vvi_arena_alloc(&g->arena, (most + 1) * sizeof(vv_node *));
    r->nodes = vvi_arena_alloc(&g->arena, ((size_t)g->node_count + 1) * sizeof(vv_node *));
    vv_node **stack =
        vvi_arena_alloc(&g->arena, 2 * ((size_t)g->node_count + 1) * sizeof(vv_node *));
    if (!r->outs || !r->nodes || !stack)
        return VV_ENOMEM;
    g->mark++;
    int depth = 0;
    for (int i = 0; i < count; i++) {
        vv_node *node = nodes[i];
        if (!node)
            return vv_fail(VV_EINVAL, "eval: node %d is NULL", i);
        if (node->graph != g)
            return vv_fail(VV_EINVAL, "eval: node %d belongs to another graph", i);
        bool open_binding = node->binding && !node->binding->done;
        if (node->mark == g->mark || (!open_binding && (node->op == VV_OP_LEAF || node->tensor)))
            continue;
        node->mark = g->mark;
        r->outs[r->out_count++] = node;
        stack[depth++] = node;
    }
    if (r->out_count == 0)
        return VV_OK;
    for (int i = 0; i < g->update_count; i++) {
        vv_node *node = g->updates[i].node;
        if (g->updates[i].done || node->mark == g->mark || node->op == VV_OP_LEAF || node->tensor)
            continue;
        node->mark = g->mark;
        r->outs[r->out_count++] = node;
        stack[depth++] = node;
    }
    r->recompute = writes_leaf(g) ? VV_RECOMPUTE_OFF : g->recompute;
    mark_needed(g, stack, depth);
    for (vv_node *node = g->first; node; node = node->next_made) {
        if (node->mark != g->mark)
            continue;
        node->index = r->node_count;
        r->nodes[r->node_count++] = node;
    }
    return VV_OK;
}

static void apply_updates(vv_graph *g)
{
    for (int i = 0; i < g->update_count && !g->dry; i++) {
        vvi_update *update = &g->updates[i];
        if (update->done || !update->node->tensor)
            continue;
        update->done = vv_tensor_copy(update->tensor, update->node->tensor) == VV_OK;
    }
}

static vv_status evaluate(vv_graph *g, vv_node *const *nodes, int count)
{
    vvi_request r;
    VV_TRY(collect(g, nodes, count, &r));
    if (r.out_count == 0)
        return VV_OK;
    vvi_plan *plan;
    VV_TRY(vvi_plan_get(&r, &plan));
    void **leaf_data = vvi_arena_alloc(&g->arena, ((size_t)plan->leaf_count + 1) * sizeof(void *));
    vv_tensor **bound =
        vvi_arena_alloc(&g->arena, ((size_t)r.out_count + 1) * sizeof(vv_tensor *));
    if (!leaf_data || !bound)
        return VV_ENOMEM;
    int leaves = 0;
    for (int i = 0; i < r.node_count; i++) {
        vv_node *node = r.nodes[i];
        if (vvi_node_is_source(node))
            leaf_data[leaves++] = node->tensor ? node->tensor->data : node->leaf_data;
    }
    for (int i = 0; i < r.out_count; i++)
        if (plan->results[i].bound)
            bound[i] = r.outs[i]->binding->tensor;
    VV_TRY(vvi_plan_run(g, plan, leaf_data, bound));
    for (int i = 0; i < r.out_count; i++) {
        vv_node *node = r.outs[i];
        if (!plan->results[i].bound) {
            node->tensor = vv_tensor_keep(plan->results[i].tensor);
            continue;
        }
        node->binding->done = true;
        /* an added-to or converted tensor is not this node's value */
        if (node->binding->how == VV_BIND_WRITE && node->op != VV_OP_LEAF && !node->tensor &&
            node->binding->tensor->dtype == node->out[0].dtype)
            node->tensor = vv_tensor_keep(node->binding->tensor);
    }
    apply_updates(g);
    return VV_OK;
}

/* ---- eager mode ---- */

static bool has_nan(const vv_tensor *t)
{
    for (int64_t i = 0; t && vv_dtype_is_float(t->dtype) && i < t->count; i++) {
        double value = vv_tensor_get(t, i);
        if (value != value)
            return true;
    }
    return false;
}

void vvi_graph_flush(vv_graph *g)
{
    vv_node *node = g->pending;
    if (!node || g->running)
        return;
    g->pending = NULL;
    g->running = true;
    vv_node *outs[VVI_MAX_OUT] = {node};
    int count = 1;
    for (vv_node *next = node->next_made; next && count < VVI_MAX_OUT; next = next->next_made)
        if (next->op == VV_OP_PICK && next->in[0] == node)
            outs[count++] = next;
    vv_status status = evaluate(g, outs, count);
    for (int i = 0; status == VV_OK && i < count; i++)
        if (has_nan(outs[i]->tensor))
            status =
                vv_fail(VV_ENUMERIC, "%s: result %d holds a NaN; it is the first node that does",
                        node->name, i);
    if (status != VV_OK)
        vvi_graph_set_error(g, status);
    g->running = false;
}

/* ---- the public face ---- */

vv_status vv_eval(vv_graph *g, vv_node *const *nodes, int count)
{
    VV_TRY(vv_graph_status(g));
    vvi_graph_flush(g);
    VV_TRY(vv_graph_status(g));
    return evaluate(g, nodes, count);
}

/* A read in the middle of a step: everything computed on the way stays, so that the rest of the
   step need not compute it again. */
static vv_status evaluate_keeping(vv_graph *g, vv_node *node)
{
    vvi_request r;
    VV_TRY(collect(g, &node, 1, &r));
    if (r.out_count == 0)
        return VV_OK;
    vv_node **all = vvi_arena_alloc(&g->arena, ((size_t)r.node_count + 1) * sizeof(vv_node *));
    if (!all)
        return VV_ENOMEM;
    int count = 0;
    for (int i = 0; i < r.node_count; i++)
        if (!r.nodes[i]->tensor && r.nodes[i]->op != VV_OP_LEAF)
            all[count++] = r.nodes[i];
    VV_TRY(evaluate(g, all, count));
    for (int i = 0; i < count; i++)
        if (all[i] != node && all[i]->tensor)
            g->stats.kept_bytes += (int64_t)all[i]->tensor->bytes;
    return VV_OK;
}

vv_status vv_node_value(vv_node *node, const vv_tensor **out)
{
    *out = NULL;
    if (!node)
        return vv_fail(VV_EINVAL, "value: no node was given");
    vv_graph *g = node->graph;
    VV_TRY(vv_graph_status(g));
    vvi_graph_flush(g);
    VV_TRY(vv_graph_status(g));
    if (node->op == VV_OP_LEAF && !node->tensor)
        VV_TRY(vv_tensor_from(&node->tensor, node->out[0].dtype, node->out[0].ndim,
                              node->out[0].shape, node->leaf_data));
    if (!node->tensor)
        VV_TRY(evaluate_keeping(g, node));
    if (!node->tensor) /* it was added to a tensor of the caller: compute it for itself */
        VV_TRY(evaluate(g, &node, 1));
    *out = node->tensor;
    return VV_OK;
}

vv_status vv_node_item(vv_node *node, double *out)
{
    *out = 0.0;
    const vv_tensor *value;
    VV_TRY(vv_node_value(node, &value));
    if (value->count != 1)
        return vv_fail(VV_ESHAPE, "item: the node has %lld elements, not one",
                       (long long)value->count);
    *out = vv_tensor_get(value, 0);
    return VV_OK;
}

vv_status vv_node_keep(vv_node *node, vv_tensor **out)
{
    *out = NULL;
    const vv_tensor *value;
    VV_TRY(vv_node_value(node, &value));
    if (node->op == VV_OP_LEAF)
        return vv_tensor_clone(out, value);
    *out = vv_tensor_keep(node->tensor);
    return VV_OK;
}

vv_status vv_graph_plan_cost(vv_graph *g, vv_node *const *nodes, int count, vv_plan_cost *out)
{
    *out = (vv_plan_cost){.updates = g->update_count};
    VV_TRY(vv_graph_status(g));
    vvi_request r;
    VV_TRY(collect(g, nodes, count, &r));
    if (r.out_count == 0)
        return VV_OK;
    vvi_plan *plan;
    VV_TRY(vvi_plan_get(&r, &plan));
    out->slab_bytes = plan->slab_bytes;
    out->whole_bytes = plan->whole_bytes;
    out->flops = plan->flops;
    out->recompute_flops = plan->recompute_flops;
    for (int i = 0; i < plan->result_count; i++)
        if (!plan->results[i].bound)
            out->result_bytes += plan->values[plan->results[i].value].bytes;
    return VV_OK;
}
