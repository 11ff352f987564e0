/* graph.c - a graph's life: creation, reset, leaves, scopes, randomness, errors. */
#include "graph/graph_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "graph/plan.h"

vv_status vv_graph_new(vv_graph **out, const vv_graph_opts *opts)
{
    static const vv_graph_opts defaults = VV_GRAPH_DEFAULTS;
    *out = NULL;
    vv_graph *g;
    VV_TRY(vv_alloc(&g, sizeof *g));
    g->opts = opts ? *opts : defaults;
    g->backend = g->opts.backend ? g->opts.backend : vv_backend_default();
    const char *eager = getenv("VV_EAGER");
    if (eager && eager[0] && strcmp(eager, "0") != 0)
        g->opts.eager = true;
    if (g->opts.eager)
        g->opts.precision = VV_PRECISION_FP32;
    else if (g->opts.precision == VV_PRECISION_AUTO)
        g->opts.precision = vv_cpu_has_bf16() ? VV_PRECISION_AMP_BF16 : VV_PRECISION_FP32;
    g->updates_on = true;
    g->slab_limit = SIZE_MAX;
    *out = g;
    return VV_OK;
}

static void drop_nodes(vv_graph *g)
{
    for (vv_node *node = g->first; node; node = node->next_made)
        vv_tensor_free(node->tensor);
    for (vvi_binding *binding = g->bindings; binding; binding = binding->next)
        vv_tensor_free(binding->tensor);
    for (int i = 0; i < g->update_count; i++)
        vv_tensor_free(g->updates[i].tensor);
    g->first = g->last = g->pending = NULL;
    g->bindings = NULL;
    g->update_count = 0;
    g->node_count = 0;
    g->mark = 0;
    g->backward_id = 0;
    g->leaf_map = NULL;
    g->leaf_capacity = g->leaf_count = 0;
}

void vv_graph_reset(vv_graph *g)
{
    if (!g)
        return;
    drop_nodes(g);
    vvi_arena_reset(&g->arena);
    g->status = VV_OK;
    g->error[0] = 0;
    g->scope[0] = 0;
    g->name_override = NULL;
    g->updates_on = true;
    g->random_count = 0;
    g->first_item = 0;
    g->stats.kept_bytes = 0;
}

void vv_graph_free(vv_graph *g)
{
    if (!g)
        return;
    drop_nodes(g);
    for (int i = 0; i < g->plan_count; i++)
        vvi_plan_free(g->plans[i]);
    vv_dealloc(g->plans);
    vv_dealloc(g->updates);
    vvi_graph_free_slab(g);
    vvi_trials_free(g);
    vvi_arena_fini(&g->arena);
    vv_dealloc(g);
}

vv_status vv_graph_status(const vv_graph *g)
{
    if (!g)
        return vv_fail(VV_EINVAL, "graph: no graph was given");
    if (g->status == VV_OK)
        return VV_OK;
    return vv_fail(g->status, "%s", g->error);
}

void vv_graph_set_rng(vv_graph *g, uint64_t seed, uint64_t step, int64_t first_item)
{
    g->seed = seed;
    g->step = step;
    g->first_item = first_item;
}

vv_node *vv_graph_fail(vv_graph *g, vv_status status)
{
    return vvi_node_fail(g, status, "%s", vv_error());
}

vv_rng vv_graph_rng(vv_graph *g)
{
    return vv_rng_at2(g->seed, "graph", g->step, (uint32_t)vvi_graph_next_random(g));
}

void vv_graph_set_updates(vv_graph *g, bool on)
{
    g->updates_on = on;
}

void vv_graph_set_dry(vv_graph *g, bool on)
{
    g->dry = on;
}

void vv_graph_set_memory(vv_graph *g, vv_recompute mode, size_t slab_limit)
{
    g->recompute = mode;
    g->slab_limit = slab_limit ? slab_limit : SIZE_MAX;
}

void vv_graph_push_scope(vv_graph *g, const char *name)
{
    size_t used = strlen(g->scope);
    if (used + 1 < sizeof g->scope)
        snprintf(g->scope + used, sizeof g->scope - used, "%s%s", used ? "/" : "", name);
}

void vv_graph_pop_scope(vv_graph *g)
{
    char *cut = strrchr(g->scope, '/');
    *(cut ? cut : g->scope) = 0;
}

void vv_graph_set_trace(vv_graph *g, vv_graph_trace_fn fn, void *ctx)
{
    g->trace = fn;
    g->trace_ctx = ctx;
}

void vv_graph_set_profile(vv_graph *g, bool on)
{
    g->opts.profile = on;
}

void vv_graph_get_stats(const vv_graph *g, vv_graph_stats *out)
{
    *out = g->stats;
}

/* ---- leaves ---- */

static uint32_t leaf_slot(vv_node **map, uint32_t capacity, const vv_tensor *tensor)
{
    uint64_t hash = (uint64_t)(uintptr_t)tensor * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t slot = (uint32_t)(hash >> 32) & (capacity - 1);
    while (map[slot] && map[slot]->tensor != tensor)
        slot = (slot + 1) & (capacity - 1);
    return slot;
}

static bool grow_leaf_map(vv_graph *g)
{
    uint32_t capacity = g->leaf_capacity ? 2 * g->leaf_capacity : 256;
    vv_node **map = vvi_arena_alloc(&g->arena, capacity * sizeof(vv_node *));
    if (!map) {
        vvi_graph_set_error(g, VV_ENOMEM);
        return false;
    }
    for (uint32_t i = 0; i < g->leaf_capacity; i++)
        if (g->leaf_map[i])
            map[leaf_slot(map, capacity, g->leaf_map[i]->tensor)] = g->leaf_map[i];
    g->leaf_map = map;
    g->leaf_capacity = capacity;
    return true;
}

bool vvi_graph_has_leaf(vv_graph *g, const vv_tensor *tensor)
{
    return g->leaf_capacity && g->leaf_map[leaf_slot(g->leaf_map, g->leaf_capacity, tensor)];
}

vv_node *vv_leaf(vv_graph *g, vv_tensor *tensor)
{
    if (!g || g->status != VV_OK)
        return NULL;
    if (!tensor)
        return vvi_node_fail(g, VV_EINVAL, "leaf: no tensor was given");
    if (2 * (g->leaf_count + 1) > g->leaf_capacity && !grow_leaf_map(g))
        return NULL;
    uint32_t slot = leaf_slot(g->leaf_map, g->leaf_capacity, tensor);
    if (g->leaf_map[slot])
        return g->leaf_map[slot];
    vv_node *node =
        vvi_node_new(g, VV_OP_LEAF, NULL, tensor->dtype, tensor->ndim, tensor->shape, NULL, 0, 0);
    if (!node)
        return NULL;
    node->tensor = vv_tensor_keep(tensor);
    node->leaf_data = tensor->data;
    /* making the node may have run a pending one in eager mode, but not grown the map */
    g->leaf_map[slot] = node;
    g->leaf_count++;
    return node;
}

vv_node *vv_data(vv_graph *g, vv_dtype dtype, int ndim, const int64_t *shape, const void *data)
{
    vv_node *node = vvi_node_new(g, VV_OP_LEAF, NULL, dtype, ndim, shape, NULL, 0, 0);
    if (!node)
        return NULL;
    size_t bytes = (size_t)vv_node_count(node) * vv_dtype_size(dtype);
    node->leaf_data = vvi_arena_alloc(&g->arena, bytes);
    if (!node->leaf_data) {
        vvi_graph_set_error(g, VV_ENOMEM);
        return NULL;
    }
    if (bytes)
        memcpy(node->leaf_data, data, bytes);
    return node;
}

vv_node *vv_scalar(vv_graph *g, double value)
{
    float single = (float)value;
    return vv_data(g, VV_F32, 0, NULL, &single);
}

/* ---- outputs and updates ---- */

vv_status vv_bind_output(vv_node *node, vv_tensor *tensor, vv_bind how)
{
    if (!node)
        return vv_fail(VV_EINVAL, "bind_output: no node was given");
    if (!tensor)
        return vv_fail(VV_EINVAL, "bind_output: no tensor was given");
    const vvi_shape *shape = &node->out[0];
    bool same = shape->ndim == tensor->ndim &&
                memcmp(shape->shape, tensor->shape, (size_t)shape->ndim * sizeof(int64_t)) == 0;
    if (!same) {
        char a[128], b[128];
        return vv_fail(VV_ESHAPE, "bind_output: node has shape %s, tensor %s",
                       vv_shape_text(shape->ndim, shape->shape, a, sizeof a),
                       vv_shape_text(tensor->ndim, tensor->shape, b, sizeof b));
    }
    if (tensor->dtype != shape->dtype && tensor->dtype != VV_F32)
        return vv_fail(VV_ETYPE, "bind_output: node is %s, tensor %s", vv_dtype_name(shape->dtype),
                       vv_dtype_name(tensor->dtype));
    if (node->binding && !node->binding->done)
        return vv_fail(VV_ESTATE, "bind_output: the node is bound to a tensor already");
    vvi_binding *binding = vvi_arena_alloc(&node->graph->arena, sizeof *binding);
    if (!binding)
        return VV_ENOMEM;
    binding->tensor = vv_tensor_keep(tensor);
    binding->how = how;
    binding->next = node->graph->bindings;
    node->graph->bindings = binding;
    node->binding = binding;
    return VV_OK;
}

vv_status vv_update(vv_graph *g, vv_tensor *tensor, vv_node *node)
{
    if (!node)
        return vv_graph_status(g); /* the formula failed: its sentence is there */
    if (!g->updates_on)
        return VV_OK;
    if (vv_node_count(node) != tensor->count)
        return vv_fail(VV_ESHAPE, "update: node has %lld elements, tensor %lld",
                       (long long)vv_node_count(node), (long long)tensor->count);
    if (g->update_count == g->update_capacity) {
        int capacity = g->update_capacity ? 2 * g->update_capacity : 64;
        VV_TRY(vv_realloc_array(&g->updates, (size_t)capacity, sizeof *g->updates));
        g->update_capacity = capacity;
    }
    g->updates[g->update_count++] =
        (vvi_update){.tensor = vv_tensor_keep(tensor), .node = node, .done = false};
    return VV_OK;
}
