/* model.c - a model: net, loss, and the making of a described one. */
#include <vivace/model.h>

#include <math.h>
#include <string.h>

#include <vivace/memory.h>

#include "graph/node.h"

vv_status vv_classifier_new(vv_model **out, vv_module *net, int64_t classes)
{
    vv_model *model = NULL;
    vv_status status = VV_OK;

    *out = NULL;
    if (!net || classes < 1) {
        status = vv_fail(VV_EINVAL,
                         net ? "classifier: %lld classes; at least one is needed"
                             : "classifier: no net for %lld classes",
                         (long long)classes);
        goto out;
    }
    VV_GO(vv_alloc(&model, sizeof *model));
    model->net = net;
    model->task = VV_TASK_CLASSIFY;
    model->classes = classes;
    model->ignore_index = -100;
    model->name = vv_module_type(net)->name;
    *out = model;
    return VV_OK;
out:
    vv_module_free(net);
    return status;
}

vv_status vv_classifier_build(vv_model **out, vv_module *net, int64_t classes, uint64_t seed)
{
    vv_status status = net ? vv_module_init_default(net, seed) : VV_OK;

    *out = NULL;
    if (status != VV_OK) {
        vv_module_free(net);
        return status;
    }
    return vv_classifier_new(out, net, classes);
}

vv_status vv_segmenter_build(vv_model **out, vv_module *net, int64_t classes, uint64_t seed)
{
    VV_TRY(vv_classifier_build(out, net, classes, seed));
    (*out)->ignore_index = -1;
    (*out)->metrics = "miou,accuracy,cross_entropy";
    return VV_OK;
}

vv_status vv_regressor_new(vv_model **out, vv_module *net)
{
    vv_model *model = NULL;
    vv_status status = net ? vv_alloc(&model, sizeof *model)
                           : vv_fail(VV_EINVAL, "regressor: no net");

    *out = NULL;
    if (status != VV_OK) {
        vv_module_free(net);
        return status;
    }
    model->net = net;
    model->task = VV_TASK_REGRESS;
    model->ignore_index = -100;
    model->name = vv_module_type(net)->name;
    *out = model;
    return VV_OK;
}

void vv_model_free(vv_model *model)
{
    if (!model)
        return;
    vv_module_free(model->net);
    vv_tensor_free(model->class_weights);
    vv_dealloc(model->loss_opts);
    vv_dealloc(model);
}

vv_node *vv_model_loss(const vv_model *model, vv_node *output, vv_node *target)
{
    vv_node *weights = NULL;

    if (!output || !target)
        return NULL;
    if (model->loss)
        return model->loss->items(model, output, target);
    if (model->task == VV_TASK_DETECT)
        return vvi_node_fail(vv_node_graph(output), VV_EINVAL,
                             "the model %s finds boxes and has no loss for them",
                             model->name ? model->name : "(unnamed)");
    if (model->task == VV_TASK_REGRESS)
        return vv_squared_error(vv_model_numbers(output, target), vv_cast(target, VV_F32));
    if (model->class_weights)
        weights = vv_leaf(vv_node_graph(output), model->class_weights);
    const vv_entropy_opts opts = {.ignore_index = model->ignore_index, .z_loss = model->z_loss};
    return vv_cross_entropy_with(output, target, weights, &opts);
}

/* Dimensions without those of size 1 at the end. */
static int inner_dims(const vv_node *node)
{
    int ndim = vv_node_ndim(node);

    while (ndim > 1 && vv_node_shape(node)[ndim - 1] == 1)
        ndim--;
    return ndim;
}

vv_node *vv_model_numbers(vv_node *output, vv_node *target)
{
    char have[96], want[96];

    if (!output || !target)
        return NULL;

    const int ndim = vv_node_ndim(target), inner = inner_dims(target);

    if (inner != inner_dims(output) ||
        memcmp(vv_node_shape(output), vv_node_shape(target), (size_t)inner * sizeof(int64_t)))
        return vvi_node_fail(
            vv_node_graph(output), VV_ESHAPE,
            "regression: target %s does not fit output %s; they need one shape, or [N] and [N,1]",
            vv_shape_text(ndim, vv_node_shape(target), want, sizeof want),
            vv_shape_text(vv_node_ndim(output), vv_node_shape(output), have, sizeof have));
    if (vv_node_dtype(output) != VV_F32)
        output = vv_cast(output, VV_F32);
    return vv_reshape(output, ndim, vv_node_shape(target));
}

vv_node *vv_model_dense_target(const vv_model *model, vv_node *output, vv_node *target)
{
    if (output && target && model->task != VV_TASK_CLASSIFY)
        return vvi_node_fail(vv_node_graph(output), VV_EINVAL,
                             "the model %s gives %s; only targets that are classes can be "
                             "smoothed or made soft", model->name ? model->name : "(unnamed)",
                             model->task == VV_TASK_DETECT ? "boxes" : "numbers");
    if (output && target && model->loss && model->loss->indices_only)
        return vvi_node_fail(vv_node_graph(output), VV_EINVAL,
                             "the loss %s takes class indices only; targets cannot be smoothed "
                             "or made soft", model->loss->name);
    if (!output || !target || vv_dtype_is_float(vv_node_dtype(target)))
        return output ? target : NULL;

    const int ndim = vv_node_ndim(output);
    const int64_t classes = ndim > 0 ? vv_node_shape(output)[ndim - 1] : model->classes;

    /* Indices outside the classes become rows of zeros; an ignore_index inside is moved outside. */
    if (model->ignore_index >= 0 && model->ignore_index < classes) {
        vv_graph *graph = vv_node_graph(target);
        const vv_dtype dtype = vv_node_dtype(target);
        vv_node *ignored = vv_full(graph, dtype, 0, NULL, (double)model->ignore_index);
        vv_node *outside = vv_full(graph, dtype, 0, NULL, -1.0);

        target = vv_where(vv_equal(target, ignored), outside, target);
    }
    return vv_one_hot(target, classes);
}

vv_status vv_model_check_target(const vv_model *model, const vv_tensor *target)
{
    if (model->loss && model->loss->check)
        return model->loss->check(model, target);
    if (model->task == VV_TASK_DETECT)
        return VV_OK;
    for (int64_t i = 0; model->task == VV_TASK_REGRESS && i < target->count; i++)
        if (!isfinite(vv_tensor_get(target, i)))
            return vv_fail(VV_EINVAL, "the target of row %lld is %g; check the data", (long long)i,
                           vv_tensor_get(target, i));
    if (model->task == VV_TASK_REGRESS || vv_dtype_is_float(target->dtype))
        return VV_OK;
    for (int64_t i = 0; i < target->count; i++) {
        const int64_t value = (int64_t)vv_tensor_get(target, i);

        if (value != model->ignore_index && (value < 0 || value >= model->classes))
            return vv_fail(VV_EINVAL,
                           "the target of row %lld is %lld, classes are 0..%lld (and %lld is "
                           "ignored); check the labels or the number of classes",
                           (long long)i, (long long)value, (long long)(model->classes - 1),
                           (long long)model->ignore_index);
    }
    return VV_OK;
}

int64_t vv_model_loss_items(const vv_model *model, const vv_tensor *target)
{
    int64_t items = 0;

    if (model->loss && model->loss->count)
        return model->loss->count(model, target);
    if (model->task == VV_TASK_DETECT)
        return target->ndim ? target->shape[0] : 1;
    if (model->task == VV_TASK_REGRESS)
        return target->count;
    if (!vv_dtype_is_float(target->dtype)) {
        for (int64_t i = 0; i < target->count; i++)
            items += (int64_t)vv_tensor_get(target, i) != model->ignore_index;
        return items;
    }

    const int64_t classes = target->ndim ? target->shape[target->ndim - 1] : 1;

    for (int64_t row = 0; row < target->count; row += classes) {
        bool any = false;

        for (int64_t k = 0; k < classes && !any; k++)
            any = vv_tensor_get(target, row + k) != 0.0;
        items += any;
    }
    return items;
}

vv_status vv_model_need_image(const char *name, const vv_sample_spec *input, int64_t min_side)
{
    if (!input || input->input_ndim != 3)
        return vv_fail(VV_EINVAL,
                       "%s: needs images [height,width,channels], the data have %d dimensions",
                       name, input ? input->input_ndim : 0);
    if (input->input_shape[0] < min_side || input->input_shape[1] < min_side)
        return vv_fail(VV_EINVAL, "%s: needs images of at least %lldx%lld, the data have %lldx%lld",
                       name, (long long)min_side, (long long)min_side,
                       (long long)input->input_shape[0], (long long)input->input_shape[1]);
    if (input->classes < 1)
        return vv_fail(VV_EINVAL, "%s: needs data with classes; these have none", name);
    return VV_OK;
}

vv_status vv_model_need_mask(const char *name, const vv_sample_spec *input, int64_t min_side)
{
    VV_TRY(vv_model_need_image(name, input, min_side));
    if (input->target_ndim != 2 || input->target_dtype != VV_I32 ||
        input->target_shape[0] != input->input_shape[0] ||
        input->target_shape[1] != input->input_shape[1])
        return vv_fail(VV_EINVAL,
                       "%s: needs images with a mask of classes of their size; these data have "
                       "targets of %d dimensions", name, input->target_ndim);
    return VV_OK;
}

vv_status vv_model_need_tokens(const char *name, const vv_sample_spec *input, int64_t context,
                               bool segments)
{
    const int ndim = input ? input->input_ndim : 0;
    const bool rows = ndim == 1 || (segments && ndim == 2 && input->input_shape[0] == 2);

    if (!rows || (input->input_dtype != VV_I32 && input->input_dtype != VV_I64))
        return vv_fail(VV_EINVAL,
                       "%s: needs rows of token ids, the data have samples of %s with %d "
                       "dimensions",
                       name, input ? vv_dtype_name(input->input_dtype) : "nothing", ndim);
    if (input->classes < 1)
        return vv_fail(VV_EINVAL,
                       "%s: needs data that say how many classes (of a language model: tokens) "
                       "there are; these do not", name);
    if (context && input->input_shape[ndim - 1] > context)
        return vv_fail(VV_EINVAL,
                       "%s: samples have %lld tokens, the table of positions has %lld rows; make "
                       "it larger (context) or the samples shorter",
                       name, (long long)input->input_shape[ndim - 1], (long long)context);
    return VV_OK;
}

vv_status vv_model_build(vv_model **out, const vv_model_desc *desc, const void *opts,
                         const vv_sample_spec *input, uint64_t seed)
{
    void *own = NULL;
    vv_model *model = NULL;
    vv_status status = VV_OK;
    bool filled = false;

    *out = NULL;
    if (!desc || !input)
        return vv_fail(VV_EINVAL, "model: no %s given",
                       desc ? "description of the data" : "descriptor");
    VV_GO(vv_alloc(&own, desc->desc.opts_size));
    VV_GO(opts ? vv_opts_copy(&desc->desc, own, opts) : vv_opts_init(&desc->desc, own));
    filled = true;
    VV_GO(vv_fail_within(vv_opts_check(&desc->desc, own), "model %s", desc->desc.name));
    VV_GO(vv_fail_within(desc->build(&model, own, input, seed), "model %s", desc->desc.name));
    model->name = desc->desc.name;
    *out = model;
out:
    if (filled)
        vv_opts_fini(&desc->desc, own);
    vv_dealloc(own);
    return status;
}
