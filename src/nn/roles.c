/* roles.c - what modules tell about themselves besides their class: feed-forward blocks, language
 * models, position tables. */
#include "nn/module.h"

#include <vivace/memory.h>

#include "graph/node.h"

void vv_module_set_mlp(vv_module *module, const vv_mlp *mlp)
{
    module->mlp = mlp;
}

const vv_mlp *vv_module_mlp(const vv_module *module)
{
    return module->mlp;
}

void vv_module_set_language(vv_module *module, const vv_language *language)
{
    module->language = language;
}

const vv_language *vv_module_language(const vv_module *module)
{
    return module->language;
}

/* Positions first .. first + count as i32 [1,count]. */
static vv_node *positions(vv_graph *graph, int64_t first, int64_t count)
{
    const int64_t shape[2] = {1, count};
    int32_t *at = NULL;
    vv_status status = vv_alloc_array(&at, (size_t)count, sizeof *at);

    if (status != VV_OK)
        return vv_graph_fail(graph, status);
    for (int64_t i = 0; i < count; i++)
        at[i] = (int32_t)(first + i);

    vv_node *node = vv_data(graph, VV_I32, 2, shape, at);

    vv_dealloc(at);
    return node;
}

vv_node *vv_positions_add(vv_module *table, vv_graph *graph, vv_node *x)
{
    const vv_param *weight;

    if (!x || !table)
        return x;

    const bool is_table = table->type == &vv_embedding_class;

    if (is_table && ((const vv_embedding_layer *)table->self)->off)
        return x;

    const int64_t first = vv_module_past(table), count = vv_node_shape(x)[1];

    weight = is_table ? vv_module_param(table, "weight") : NULL;
    if (weight && first + count > weight->value->shape[0])
        return vvi_node_fail(graph, VV_ESHAPE,
                             "%lld tokens in a row, but the table of positions has %lld rows; cut "
                             "the rows, or make the model with a larger context",
                             (long long)(first + count), (long long)weight->value->shape[0]);
    return vv_add(x, vv_module_forward(table, graph, positions(graph, first, count)));
}
