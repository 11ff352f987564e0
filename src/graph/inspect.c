/* inspect.c - reading a graph's nodes from outside. */
#include <vivace/ext/inspect.h>

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
