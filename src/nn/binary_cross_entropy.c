/* binary_cross_entropy.c - a yes or no for each class, as a classifier's loss (Beyer et al., arXiv
 * 2006.07159; Wightman et al., arXiv 2110.00476). */
#include <vivace/model.h>

#include <math.h>
#include <string.h>

#include "graph/node.h"

/* Sum over classes of -t log s(x) - (1 - t) log(1 - s(x)); rows without a class have none. */
static vv_node *items(const vv_model *model, vv_node *output, vv_node *target)
{
    vv_node *dense = vv_model_dense_target(model, output, target);

    if (!dense)
        return NULL;
    if (model->z_loss != 0.0)
        return vvi_node_fail(vv_node_graph(output), VV_EINVAL,
                             "binary_cross_entropy has no logsumexp: z_loss works with "
                             "cross_entropy only");

    const int last = vv_node_ndim(output) - 1;
    vv_graph *graph = vv_node_graph(output);
    vv_node *x = vv_node_dtype(output) == VV_F32 ? output : vv_cast(output, VV_F32);
    vv_node *t = vv_node_dtype(dense) == VV_F32 ? dense : vv_cast(dense, VV_F32);
    vv_node *losses = vv_bce_with_logits(x, t, NULL);

    if (model->class_weights)
        losses = vv_mul(losses, vv_leaf(graph, model->class_weights));

    vv_node *some = vv_cast(vv_less(vv_scalar(graph, 0.0), vv_sum(t, &last, 1, false)), VV_F32);

    return vv_mul(vv_sum(losses, &last, 1, false), some);
}

const vv_loss_class vv_binary_cross_entropy_class = {.name = "binary_cross_entropy",
                                                     .items = items};

vv_status vv_model_set_loss(vv_model *model, const char *name)
{
    const bool binary = strcmp(name, vv_binary_cross_entropy_class.name) == 0;

    if (strcmp(name, "auto") == 0 || (model->loss && strcmp(name, model->loss->name) == 0))
        return VV_OK;
    if (!binary && strcmp(name, "cross_entropy") != 0)
        return vv_fail(VV_EINVAL,
                       "there is no loss \"%s\"; auto, cross_entropy and binary_cross_entropy are",
                       name);
    if (model->task != VV_TASK_CLASSIFY || model->loss)
        return vv_fail(VV_EINVAL, "the model %s has a loss of its own (%s); %s is for classifiers",
                       model->name ? model->name : "(unnamed)",
                       model->loss ? model->loss->name : "squared error", name);
    model->loss = binary ? &vv_binary_cross_entropy_class : NULL;
    return VV_OK;
}

typedef struct head {
    int64_t classes;
    const vv_tensor *bias; /* of the last Linear with as many outputs */
} head;

static bool find_head(void *ctx, const char *path, vv_module *module)
{
    head *h = ctx;

    (void)path;
    if (vv_module_type(module) == &vv_linear_class &&
        ((const vv_linear_layer *)vv_module_self(module))->out_features == h->classes) {
        const vv_param *bias = vv_module_param(module, "bias");

        h->bias = bias ? bias->value : NULL;
    }
    return true;
}

vv_status vv_model_loss_note(const vv_model *model, vv_str *out)
{
    head h = {model->classes, NULL};
    double mean = 0.0;

    if (model->loss != &vv_binary_cross_entropy_class || model->classes < 3)
        return VV_OK;
    vv_module_each(model->net, find_head, &h);
    for (int64_t i = 0; h.bias && i < h.bias->count; i++)
        mean += vv_tensor_get(h.bias, i) / (double)h.bias->count;

    const double wanted = -log((double)model->classes);

    if (h.bias && mean > wanted / 2.0)
        vv_str_addf(out, "binary_cross_entropy starts with every class at %.2g; the initializer "
                         "linear_log_constant_bias (or a model's head_bias of %.2f) starts it at "
                         "1 / classes",
                    1.0 / (1.0 + exp(-mean)), wanted);
    return vv_str_status(out);
}
