/* node.c - making nodes, and the checks that ops share. */
#include "graph/graph_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

vv_node *vvi_node_fail(vv_graph *g, vv_status status, const char *format, ...)
{
    if (!g || g->status != VV_OK)
        return NULL;
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    vv_fail(status, "%s%s%s", g->scope, g->scope[0] ? ": " : "", text);
    vvi_graph_set_error(g, status);
    return NULL;
}

vv_status vvi_graph_set_error(vv_graph *g, vv_status status)
{
    if (g->status == VV_OK) {
        g->status = status;
        snprintf(g->error, sizeof g->error, "%s", vv_error());
    }
    return status;
}

int64_t vvi_graph_next_random(vv_graph *g)
{
    return g->random_count++;
}

static const char *node_name(vv_graph *g, vv_op op)
{
    if (g->name_override)
        return g->name_override;
    char text[300];
    snprintf(text, sizeof text, "%s%s%s", g->scope, g->scope[0] ? ": " : "", vv_op_name(op));
    return vvi_arena_text(&g->arena, text);
}

static void *take(vv_graph *g, size_t bytes)
{
    void *out = vvi_arena_alloc(&g->arena, bytes);
    if (!out)
        vvi_graph_set_error(g, VV_ENOMEM);
    return out;
}

static bool shape_is_sane(vv_graph *g, vv_op op, int ndim, const int64_t *shape)
{
    if (ndim < 0 || ndim > VV_MAX_DIMS) {
        vvi_node_fail(g, VV_ESHAPE, "%s: a result with %d dimensions; the most is %d",
                      vv_op_name(op), ndim, VV_MAX_DIMS);
        return false;
    }
    int64_t count = 1;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0 || __builtin_mul_overflow(count, shape[i], &count) ||
            count > INT64_MAX / 16) {
            char buf[128];
            vvi_node_fail(g, VV_ESHAPE, "%s: a result of shape %s is not possible", vv_op_name(op),
                          vv_shape_text(ndim, shape, buf, sizeof buf));
            return false;
        }
    }
    return true;
}

vv_node *vvi_node_new(vv_graph *g, vv_op op, const vv_attr *attr, vv_dtype dtype, int ndim,
                      const int64_t *shape, vv_node *const *in, int n_in, int required)
{
    if (!g || g->status != VV_OK)
        return NULL;
    for (int i = 0; i < required; i++)
        if (!in[i])
            return NULL;
    vvi_graph_flush(g);
    if (g->status != VV_OK || !shape_is_sane(g, op, ndim, shape))
        return NULL;
    vv_node *node = take(g, sizeof *node);
    if (!node)
        return NULL;
    if (n_in > 0) {
        node->in = take(g, (size_t)n_in * sizeof *node->in);
        if (!node->in)
            return NULL;
        memcpy(node->in, in, (size_t)n_in * sizeof *in);
    }
    node->graph = g;
    node->op = op;
    if (attr)
        node->attr = *attr;
    node->n_in = n_in;
    node->n_out = 1;
    node->out[0].dtype = dtype;
    node->out[0].ndim = ndim;
    if (ndim > 0)
        memcpy(node->out[0].shape, shape, (size_t)ndim * sizeof *shape);
    node->name = node_name(g, op);
    if (!node->name) {
        vvi_graph_set_error(g, VV_ENOMEM);
        return NULL;
    }
    node->id = g->node_count++;
    if (g->last)
        g->last->next_made = node;
    else
        g->first = node;
    g->last = node;
    if (g->opts.eager && !g->running && op != VV_OP_LEAF && op != VV_OP_PICK)
        g->pending = node;
    return node;
}

vv_node *vvi_node_add_out(vv_node *node, vv_dtype dtype, int ndim, const int64_t *shape)
{
    if (!node || node->n_out >= VVI_MAX_OUT)
        return NULL;
    vv_graph *g = node->graph;
    vvi_shape *out = &node->out[node->n_out];
    out->dtype = dtype;
    out->ndim = ndim;
    if (ndim > 0)
        memcpy(out->shape, shape, (size_t)ndim * sizeof *shape);
    node->n_out++;
    vv_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.pick.index = node->n_out - 1;
    vv_node *pending = g->pending; /* the node is not complete yet: do not run it */
    g->pending = NULL;
    vv_node *pick = vvi_node_new(g, VV_OP_PICK, &attr, dtype, ndim, shape, &node, 1, 1);
    g->pending = pending;
    return pick;
}

vv_node *vvi_node_pick(vv_node *node, int index)
{
    vv_node *next = node->next_made;
    while (next &&
           !(next->op == VV_OP_PICK && next->in[0] == node && next->attr.pick.index == index))
        next = next->next_made;
    return next;
}

bool vvi_need_float(const char *op, vv_node *x)
{
    if (!x)
        return false;
    if (vv_dtype_is_float(x->out[0].dtype))
        return true;
    vvi_node_fail(x->graph, VV_ETYPE, "%s: operand is %s, must be a float type", op,
                  vv_dtype_name(x->out[0].dtype));
    return false;
}

bool vvi_need_dims(const char *op, const char *what, vv_node *x, int ndim)
{
    if (!x)
        return false;
    if (x->out[0].ndim == ndim)
        return true;
    char buf[128];
    vvi_node_fail(x->graph, VV_ESHAPE, "%s: %s must have %d dimensions, has shape %s", op, what,
                  ndim, vv_shape_text(x->out[0].ndim, x->out[0].shape, buf, sizeof buf));
    return false;
}

int vvi_need_axis(const char *op, vv_node *x, int axis)
{
    if (!x)
        return -1;
    int ndim = x->out[0].ndim;
    int resolved = axis < 0 ? axis + ndim : axis;
    if (resolved >= 0 && resolved < ndim)
        return resolved;
    vvi_node_fail(x->graph, VV_ESHAPE, "%s: axis %d is outside an operand of %d dimensions", op,
                  axis, ndim);
    return -1;
}

bool vvi_broadcast_shape(int *ndim, int64_t *shape, const vv_node *a, const vv_node *b)
{
    const vvi_shape *x = &a->out[0], *y = &b->out[0];
    int n = x->ndim > y->ndim ? x->ndim : y->ndim;
    for (int i = 0; i < n; i++) {
        int ix = i - (n - x->ndim), iy = i - (n - y->ndim);
        int64_t dx = ix < 0 ? 1 : x->shape[ix], dy = iy < 0 ? 1 : y->shape[iy];
        if (dx != dy && dx != 1 && dy != 1)
            return false;
        shape[i] = dx == 1 ? dy : dx;
    }
    *ndim = n;
    return true;
}

vv_dtype vv_node_dtype(const vv_node *node)
{
    return node ? node->out[0].dtype : VV_F32;
}

int vv_node_ndim(const vv_node *node)
{
    return node ? node->out[0].ndim : 0;
}

const int64_t *vv_node_shape(const vv_node *node)
{
    return node ? node->out[0].shape : NULL;
}

int64_t vv_node_count(const vv_node *node)
{
    int64_t count = node ? 1 : 0;
    for (int i = 0; node && i < node->out[0].ndim; i++)
        count *= node->out[0].shape[i];
    return count;
}

vv_graph *vv_node_graph(const vv_node *node)
{
    return node ? node->graph : NULL;
}
