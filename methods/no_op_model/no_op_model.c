/* no_op_model.c - a model that does next to nothing: module, exchange, method. */
#include "no_op_model.h"

typedef struct no_op {
    int64_t classes;
    bool per_token; /* a prediction for each place of the last axis */
} no_op;

static vv_node *forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const no_op *self = vv_module_self(module);
    if (!x)
        return NULL;
    const int64_t row[3] = {1, self->classes, 0}, rows = vv_node_shape(x)[0];
    const int64_t token[3] = {1, 1, self->classes};
    const int64_t shape[2] = {rows, self->classes};
    const int64_t tokens[3] = {rows, vv_node_shape(x)[vv_node_ndim(x) - 1], self->classes};
    const bool each = self->per_token && vv_node_ndim(x) > 1;
    vv_node *ramp = vv_leaf(graph, vv_module_buffer(module, "ramp"));
    ramp = vv_mul(vv_reshape(ramp, each ? 3 : 2, each ? token : row),
                  vv_module_param_node(module, graph, "weight"));
    return vv_broadcast_to(ramp, each ? 3 : 2, each ? tokens : shape);
}

const vv_module_class vv_no_op_model_class = {"NoOpModel", forward, NULL};

vv_status vv_no_op_model_new(vv_module **out, int64_t classes)
{
    vv_status status = VV_OK;
    vv_module *module = NULL;
    vv_param *weight = NULL;
    vv_tensor *ramp = NULL;
    const int64_t one = 1;
    *out = NULL;
    if (classes < 1)
        return vv_fail(VV_EINVAL, "NoOpModel: %lld classes; at least 1 is needed",
                       (long long)classes);
    VV_GO(vv_module_new(&module, &vv_no_op_model_class, sizeof(no_op)));
    ((no_op *)vv_module_self(module))->classes = classes;
    VV_GO(vv_param_new(&weight, 1, &one));
    vv_tensor_fill(weight->value, 1.5);
    VV_GO(vv_module_add_param(module, "weight", weight));
    VV_GO(vv_tensor_new(&ramp, VV_F32, 1, &classes));
    for (int64_t k = 0; k < classes; k++)
        vv_tensor_set(ramp, k, (double)k / (double)classes);
    VV_GO(vv_module_add_buffer(module, "ramp", ramp));
    *out = module;
    module = NULL;
out:
    vv_module_free(module);
    return status;
}

vv_status vv_apply_no_op_model(vv_model *model, vv_optimizer *optimizer, int *changed)
{
    vv_module *net = NULL;
    if (changed)
        *changed = 0;
    if (!model || !model->net)
        return vv_fail(VV_EINVAL, "no_op_model: no model");
    if (vv_module_type(model->net) == &vv_no_op_model_class)
        return VV_OK;
    if (model->task == VV_TASK_DETECT)
        return vv_fail(VV_EINVAL,
                       "no_op_model: the model finds boxes; one parameter cannot stand in "
                       "for its default boxes");
    VV_TRY(vv_no_op_model_new(&net, model->classes));
    const vv_language *language = vv_module_language(model->net);
    ((no_op *)vv_module_self(net))->per_token = language && language->head;
    vv_module_set_training(net, vv_module_training(model->net));
    if (optimizer) {
        const vv_status status = vv_optimizer_sync(optimizer, net);
        if (status != VV_OK) {
            vv_module_free(net);
            return status;
        }
    }
    vv_module_free(model->net);
    model->net = net;
    if (changed)
        *changed = 1;
    return VV_OK;
}

/* ---- the Trainer's method ---- */

static vv_status apply(vv_method *method, vv_event event, vv_state *state)
{
    int changed;
    (void)event;
    VV_TRY(vv_apply_no_op_model(state->model, state->optimizer, &changed));
    method->effect += changed;
    return VV_OK;
}

static vv_status plan(vv_method *method, const vv_state *state, vv_str *line)
{
    (void)method;
    vv_str_addf(line, "puts one parameter in the place of the model's %lld",
                (long long)vv_module_param_count(state->model->net));
    return vv_str_status(line);
}

static const vv_field fields[] = {{.name = NULL}};

const vv_method_desc vv_method_no_op_model = {
    .desc = {.kind = "method",
             .name = "no_op_model",
             .summary = "Replaces the model by one parameter, to time everything else.",
             .cite = "",
             .domains = "any",
             .fields = fields,
             .opts_size = 0},
    .phase = VV_PHASE_LAYOUT, /* after surgery, which would find nothing */
    .events = VV_EVENT_BIT(VV_EVENT_INIT),
    .required_on_load = true,
    .apply = apply,
    .plan = plan,
};

vv_method *vv_no_op_model(void)
{
    vv_method *method = NULL;
    return vv_method_new(&method, &vv_method_no_op_model, NULL) == VV_OK ? method : NULL;
}
