/* inspect.c - reading a graph's nodes from outside. */
#include <vivace/ext/inspect.h>

#include <string.h>

#include "graph_impl.h"
#include "node.h"

vv_op vv_node_op(const vv_node *node)
{
    return node->op;
}

const vv_attr *vv_node_attr(const vv_node *node)
{
    return &node->attr;
}

int vv_node_operand_count(const vv_node *node)
{
    return node->n_in;
}

vv_node *vv_node_operand(const vv_node *node, int i)
{
    return i >= 0 && i < node->n_in ? node->in[i] : NULL;
}

const char *vv_node_name(const vv_node *node)
{
    return node->name ? node->name : vv_op_name(node->op);
}

static vv_buf buf_of(const vvi_shape *shape)
{
    vv_buf buf = {.dtype = shape->dtype, .ndim = shape->ndim, .count = 1};

    memcpy(buf.shape, shape->shape, sizeof buf.shape);
    for (int i = 0; i < shape->ndim; i++)
        buf.count *= shape->shape[i];
    return buf;
}

int64_t vv_node_flops(const vv_node *node)
{
    vv_buf in[8] = {{.count = 0}}, out[VVI_MAX_OUT] = {{.count = 0}};

    for (int i = 0; i < node->n_in && i < 8; i++)
        if (node->in[i])
            in[i] = buf_of(&node->in[i]->out[0]);
    for (int i = 0; i < node->n_out && i < VVI_MAX_OUT; i++)
        out[i] = buf_of(&node->out[i]);

    const vv_call call = {.op = node->op, .attr = &node->attr, .n_in = node->n_in,
                          .n_out = node->n_out, .in = in, .out = out};

    return node->n_in > 8 ? 0 : vvi_op_flops(&call);
}

void vv_graph_each_node(const vv_graph *graph, bool (*fn)(void *ctx, vv_node *node), void *ctx)
{
    for (vv_node *node = graph->first; node; node = node->next_made)
        if (!fn(ctx, node))
            return;
}
