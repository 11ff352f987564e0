/* autodiff.c - adds the backward nodes of a scalar by walking the graph in reverse. */
#include "graph/graph_impl.h"

#include <string.h>

#include <vivace/memory.h>

typedef struct walk {
    vv_graph *g;
    uint32_t last;    /* id of the loss */
    bool *active;     /* by id: depends on something in wrt */
    vv_node **grads;  /* [id * VVI_MAX_OUT + result] */
    vv_node **nodes;  /* by id */
} walk;

static void mark_active(walk *w, vv_node *const *wrt, int count)
{
    for (int i = 0; i < count; i++)
        if (wrt[i] && wrt[i]->id <= w->last)
            w->active[wrt[i]->id] = true;
    for (uint32_t id = 0; id <= w->last; id++) {
        vv_node *node = w->nodes[id];
        for (int i = 0; i < node->n_in && !w->active[id]; i++)
            if (node->in[i] && w->active[node->in[i]->id])
                w->active[id] = true;
    }
}

static void flow(walk *w, vv_node *to, int result, vv_node *grad)
{
    if (!to || !grad || !w->active[to->id])
        return;
    vv_node **slot = &w->grads[(size_t)to->id * VVI_MAX_OUT + (size_t)result];
    *slot = *slot ? vv_add(*slot, grad) : grad;
}

static void backward_of(walk *w, vv_node *node)
{
    vv_node **dout = &w->grads[(size_t)node->id * VVI_MAX_OUT];
    bool any = false;
    for (int i = 0; i < node->n_out; i++)
        any = any || dout[i];
    if (!any || node->op == VV_OP_LEAF)
        return;
    w->g->name_override = node->name;
    if (node->op == VV_OP_PICK) {
        flow(w, node->in[0], (int)node->attr.pick.index, dout[0]);
        return;
    }
    vvi_grad_fn fn = vvi_op_grad(node->op);
    if (!fn || node->n_in == 0)
        return;
    enum { FEW = 8 };
    vv_node *few_din[FEW] = {0}, **din = few_din;
    bool few_need[FEW] = {0}, *need = few_need;
    if (node->n_in > FEW) {
        din = vvi_arena_alloc(&w->g->arena, (size_t)node->n_in * sizeof *din);
        need = vvi_arena_alloc(&w->g->arena, (size_t)node->n_in * sizeof *need);
        if (!din || !need) {
            vvi_graph_set_error(w->g, VV_ENOMEM);
            return;
        }
    }
    for (int i = 0; i < node->n_in; i++)
        need[i] = node->in[i] && w->active[node->in[i]->id];
    fn(node, dout, need, din);
    for (int i = 0; i < node->n_in; i++)
        if (need[i])
            flow(w, node->in[i], 0, din[i]);
}

vv_status vv_grad_from(vv_graph *g, vv_node *loss, vv_node *loss_grad, vv_node *const *wrt,
                       int count, vv_node **grads)
{
    for (int i = 0; i < count; i++)
        grads[i] = NULL;
    VV_TRY(vv_graph_status(g));
    if (!loss || !loss_grad)
        return vv_fail(VV_EINVAL, "grad: no loss was given");
    if (!g->backward_id)
        g->backward_id = g->node_count;
    walk w = {.g = g, .last = loss->id};
    size_t n = (size_t)loss->id + 1;
    w.active = vvi_arena_alloc(&g->arena, n * sizeof *w.active);
    w.grads = vvi_arena_alloc(&g->arena, n * VVI_MAX_OUT * sizeof *w.grads);
    w.nodes = vvi_arena_alloc(&g->arena, n * sizeof *w.nodes);
    if (!w.active || !w.grads || !w.nodes)
        return vvi_graph_set_error(g, VV_ENOMEM);
    for (vv_node *node = g->first; node && node->id <= loss->id; node = node->next_made)
        w.nodes[node->id] = node;
    mark_active(&w, wrt, count);
    w.grads[(size_t)loss->id * VVI_MAX_OUT] = loss_grad;
    for (uint32_t id = loss->id + 1; id-- > 0 && g->status == VV_OK;)
        if (w.active[id])
            backward_of(&w, w.nodes[id]);
    g->name_override = NULL;
    for (int i = 0; i < count && g->status == VV_OK; i++) {
        if (!wrt[i])
            continue;
        vv_node *found =
            wrt[i]->id <= loss->id ? w.grads[(size_t)wrt[i]->id * VVI_MAX_OUT] : NULL;
        const vvi_shape *s = &wrt[i]->out[0];
        grads[i] = found ? found : vv_zeros(g, s->dtype, s->ndim, s->shape);
    }
    return vv_graph_status(g);
}

vv_status vv_grad(vv_graph *g, vv_node *loss, vv_node *const *wrt, int count, vv_node **grads)
{
    for (int i = 0; i < count; i++)
        grads[i] = NULL;
    VV_TRY(vv_graph_status(g));
    if (!loss)
        return vv_fail(VV_EINVAL, "grad: no loss was given");
    if (vv_node_count(loss) != 1)
        return vv_fail(VV_ESHAPE, "grad: the loss must have one element, has %lld; sum it first",
                       (long long)vv_node_count(loss));
    vv_node *one = vv_full(g, loss->out[0].dtype, loss->out[0].ndim, loss->out[0].shape, 1.0);
    return vv_grad_from(g, loss, one, wrt, count, grads);
}
