/* surgery.c - replacing layers of a living tree by policies.
 *
 * The tree's edges (parent, slot, child) are listed before the walk: a layer shared by several
 * parents is replaced once and put into all of its slots, and any failure puts every old layer
 * back. */
#include "nn/module.h"

#include <vivace/memory.h>
#include <vivace/optim.h>

typedef struct vvi_edge {
    vv_module *parent; /* kept */
    vv_module *child;  /* kept */
    int slot;
} vvi_edge;

typedef struct vvi_surgery {
    vv_module *root;
    const vv_policy *policies;
    int n_policies;
    int *matches; /* per policy, declined ones too */
    vvi_edge *edges;
    int edge_count, edge_capacity;
    const vv_module **done; /* children decided on, and their replacements */
    int done_count;
    int replaced;
} vvi_surgery;

static bool is_done(const vvi_surgery *s, const vv_module *module)
{
    for (int i = 0; i < s->done_count; i++)
        if (s->done[i] == module)
            return true;
    return false;
}

static vv_status mark_done(vvi_surgery *s, const vv_module *module)
{
    VV_TRY(vv_realloc_array(&s->done, (size_t)s->done_count + 1, sizeof *s->done));
    s->done[s->done_count++] = module;
    return VV_OK;
}

static vv_status list_slot(vvi_surgery *s, vv_module *parent, int i)
{
    if (s->edge_count == s->edge_capacity) {
        int capacity = s->edge_capacity ? 2 * s->edge_capacity : 64;

        VV_TRY(vv_realloc_array(&s->edges, (size_t)capacity, sizeof *s->edges));
        s->edge_capacity = capacity;
    }
    s->edges[s->edge_count++] =
        (vvi_edge){vv_module_keep(parent), vv_module_keep(parent->children.items[i].u.module), i};
    return VV_OK;
}

static vv_status list_edges(vvi_surgery *s, vv_module *parent)
{
    for (int i = 0; i < parent->children.count; i++) {
        bool met = false;
        vv_module *child = parent->children.items[i].u.module;

        for (int k = 0; k < s->edge_count && child->links > 1 && !met; k++)
            met = s->edges[k].child == child;
        VV_TRY(list_slot(s, parent, i));
        if (!met)
            VV_TRY(list_edges(s, child));
    }
    return VV_OK;
}

/* Puts `layer` into every slot that held `old` (or, when undoing, holds whatever came after it). */
static void rewire(const vvi_surgery *s, const vv_module *old, vv_module *layer)
{
    for (int i = 0; i < s->edge_count; i++) {
        const vvi_edge *edge = &s->edges[i];

        if (edge->child == old && edge->parent->children.items[edge->slot].u.module != layer)
            vv_module_free(vvi_module_put(edge->parent, edge->slot, vv_module_keep(layer)));
    }
}

static vv_status check_replacement(const vvi_surgery *s, const vv_module *old,
                                   const vv_module *layer)
{
    for (int i = 0; i < s->edge_count; i++)
        if (s->edges[i].child == old && vvi_module_contains(layer, s->edges[i].parent))
            return vv_fail(
                VV_EINVAL,
                "surgery: the replacement of a %s contains its parent (a %s); a policy may "
                "keep the old layer and its parts only",
                old->type->name, s->edges[i].parent->type->name);
    return VV_OK;
}

/* *out = the first replacement a policy gives, NULL if all decline. */
static vv_status ask_policies(vvi_surgery *s, const vv_module *parent, vv_module *layer,
                              vv_module **out)
{
    *out = NULL;
    for (int i = 0; i < s->n_policies && !*out; i++) {
        const vv_policy *policy = &s->policies[i];

        if (layer->type != policy->type ||
            (policy->not_inside && parent->type == policy->not_inside))
            continue;
        VV_TRY(policy->replace(policy->ctx, layer, s->matches[i]++, out));
    }
    return VV_OK;
}

static vv_status operate(vvi_surgery *s, vv_module *parent)
{
    for (int i = 0; i < parent->children.count; i++) {
        vv_module *layer = parent->children.items[i].u.module;
        vv_module *replacement = NULL;
        vv_status status = VV_OK;

        if (is_done(s, layer))
            continue;
        VV_TRY(mark_done(s, layer));
        VV_TRY(ask_policies(s, parent, layer, &replacement));
        if (!replacement) {
            VV_TRY(operate(s, layer));
            continue;
        }
        VV_GO(mark_done(s, replacement));
        VV_GO(check_replacement(s, layer, replacement));
        vv_module_set_training(replacement, layer->training);
        rewire(s, layer, replacement);
        s->replaced++;
    out:
        vv_module_free(replacement); /* the slots hold it now */
        VV_TRY(status);
    }
    return VV_OK;
}

static void undo(const vvi_surgery *s)
{
    for (int i = 0; i < s->edge_count; i++)
        rewire(s, s->edges[i].child, s->edges[i].child);
}

static void surgery_fini(vvi_surgery *s)
{
    for (int i = 0; i < s->edge_count; i++) {
        vv_module_free(s->edges[i].child);
        vv_module_free(s->edges[i].parent);
    }
    vv_dealloc(s->edges);
    vv_dealloc(s->done);
    vv_dealloc(s->matches);
}

vv_status vv_module_replace(vv_module *root, const vv_policy *policies, int n,
                            vv_optimizer *optimizer, int *count)
{
    vvi_surgery s = {.root = root, .policies = policies, .n_policies = n};
    vv_status status = VV_OK;

    if (count)
        *count = 0;
    if (n < 0 || (n > 0 && !policies))
        return vv_fail(VV_EINVAL, "surgery: %d policies given as NULL", n);
    for (int i = 0; i < n; i++)
        if (!policies[i].type || !policies[i].replace)
            return vv_fail(VV_EINVAL, "surgery: policy %d needs a type and a replace function", i);
    VV_GO(vv_alloc_array(&s.matches, (size_t)n, sizeof *s.matches));
    VV_GO(list_edges(&s, root));
    VV_GO(operate(&s, root));
    if (optimizer)
        VV_GO(vv_optimizer_sync(optimizer, root));
    if (count)
        *count = s.replaced;
out:
    if (status != VV_OK)
        undo(&s);
    surgery_fini(&s);
    return status;
}
