/* ext/inspect.h - for those who read a graph: exporters, drawers. */
#ifndef VIVACE_EXT_INSPECT_H
#define VIVACE_EXT_INSPECT_H

#include <vivace/ext/backend.h>

VV_BEGIN_DECLS

/* What a node is. Operands come before their users; an absent optional one is NULL. A PICK node
   stands for a further result of its operand. */
VV_API vv_op vv_node_op(const vv_node *node);
VV_API VV_BORROWED const vv_attr *vv_node_attr(const vv_node *node);
VV_API int vv_node_operand_count(const vv_node *node);
VV_API VV_BORROWED vv_node *vv_node_operand(const vv_node *node, int i);
/* Scope and op, as in errors and profiles. */
VV_API VV_BORROWED const char *vv_node_name(const vv_node *node);

/* Arithmetic of the node: multiply-adds count 2; convolutions, matrix products and attention. */
VV_API int64_t vv_node_flops(const vv_node *node);
/* Every node made since the last reset, in order; return false to stop. */
VV_API void vv_graph_each_node(const vv_graph *graph, bool (*fn)(void *ctx, vv_node *node),
                               void *ctx);

VV_END_DECLS

#endif
