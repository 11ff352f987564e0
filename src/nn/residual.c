/* residual.c - residual blocks, told apart into branch and shortcut for methods that treat the two
 * differently. */
#include "nn/module.h"

void vv_module_set_residual(vv_module *module, const vv_residual *residual)
{
    module->residual = residual;
}

const vv_residual *vv_module_residual(const vv_module *module)
{
    return module->residual;
}

vv_node *vv_residual_shortcut(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_module *layer = vv_module_child(module, module->residual->shortcut);

    return layer ? vv_module_forward(layer, graph, x) : x;
}

vv_node *vv_residual_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    vv_node *y = module->residual->branch(module, graph, x);

    y = vv_add(y, vv_residual_shortcut(module, graph, x));
    return module->residual->relu ? vv_relu(y) : y;
}
