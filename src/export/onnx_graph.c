/* onnx_graph.c - walks a model's inference graph, operands first, and writes it as ONNX. */
#include "onnx_graph.h"

#include <string.h>

#include <vivace/export.h>
#include <vivace/memory.h>

vvi_value *vvi_value_of(const vvi_exporter *e, const vv_node *node)
{
    for (int i = e->count - 1; i >= 0; i--)
        if (e->values[i].node == node)
            return &e->values[i];
    return NULL;
}

/* ---- the order: operands before their users, what is not needed left out ---- */

static vv_status add_value(vvi_exporter *e, vv_node *node)
{
    if (e->count == e->capacity) {
        int capacity = e->capacity ? 2 * e->capacity : 256;
        VV_TRY(vv_realloc_array(&e->values, (size_t)capacity, sizeof *e->values));
        e->capacity = capacity;
    }
    bool constant = node != e->input && vv_node_op(node) != VV_OP_RANDOM;
    for (int i = 0; i < vv_node_operand_count(node); i++) {
        const vv_node *operand = vv_node_operand(node, i);
        constant = constant && (!operand || vvi_value_of(e, operand)->constant);
    }
    e->values[e->count++] = (vvi_value){.node = node, .constant = constant};
    return VV_OK;
}

/* A node goes on the stack, then its operands above it; it is listed when all of them are. */
static vv_status collect(vvi_exporter *e, vv_node *output)
{
    vv_node **stack = NULL;
    size_t depth = 0, capacity = 0;
    vv_status status = VV_OK;
    vv_node *next = output;
    for (;;) {
        if (next) {
            if (depth == capacity) {
                capacity = capacity ? 2 * capacity : 256;
                VV_GO(vv_realloc_array(&stack, capacity, sizeof *stack));
            }
            stack[depth++] = next;
        }
        if (depth == 0)
            break;
        vv_node *node = stack[depth - 1];
        next = NULL;
        for (int i = 0; i < vv_node_operand_count(node) && !next; i++) {
            vv_node *operand = vv_node_operand(node, i);
            if (operand && !vvi_value_of(e, operand))
                next = operand;
        }
        if (next)
            continue;
        if (!vvi_value_of(e, node))
            VV_GO(add_value(e, node));
        depth--;
    }
out:
    vv_dealloc(stack);
    return status;
}

/* ---- constants ---- */

typedef struct search {
    vvi_exporter *e;
    const vv_node *node;
    const char *name;
} search;

static bool match_name(void *ctx, const char *name, vv_tensor *tensor)
{
    search *s = ctx;
    if (vv_leaf(s->e->graph, tensor) == s->node)
        s->name = vvi_onnx_copy(s->e->onnx, name);
    return !s->name;
}

const vv_tensor *vvi_constant_value(vvi_exporter *e, vv_node *node)
{
    const vv_tensor *value = NULL;
    if (vv_node_value(node, &value) != VV_OK)
        return NULL; /* the graph keeps the failure */
    (void)e;
    return value;
}

/* Parameters keep their name; what is computed from constants alone is computed now. */
static const char *name_constant(vvi_exporter *e, vvi_value *v)
{
    const vv_tensor *value = vvi_constant_value(e, v->node);
    search s = {e, v->node, NULL};
    if (!value)
        return NULL;
    if (vv_node_op(v->node) == VV_OP_LEAF)
        vv_module_each_state(e->net, match_name, &s);
    v->name = s.name ? s.name : vvi_onnx_name(e->onnx);
    vvi_onnx_constant(e->onnx, v->name, value->dtype, value->ndim, value->shape, value->data,
                      false);
    return v->name;
}

const char *vvi_number(vvi_exporter *e, double value)
{
    const char *name = vvi_onnx_name(e->onnx);
    float number = (float)value;
    vvi_onnx_constant(e->onnx, name, VV_F32, 0, NULL, &number, true);
    return name;
}

const char *vvi_integers(vvi_exporter *e, const int64_t *values, int count)
{
    const char *name = vvi_onnx_name(e->onnx);
    const int64_t shape[1] = {count};
    vvi_onnx_constant(e->onnx, name, VV_I64, 1, shape, values, true);
    return name;
}

/* ---- layouts ---- */

static const char *transpose(vvi_exporter *e, const char *from, const int64_t *order)
{
    const char *name = vvi_onnx_name(e->onnx);
    vvi_onnx_node(e->onnx, "Transpose", name);
    vvi_onnx_in(e->onnx, from);
    vvi_onnx_ints(e->onnx, "perm", order, 4);
    return name;
}

const char *vvi_natural(vvi_exporter *e, const vv_node *node)
{
    static const int64_t channels_last[4] = {0, 2, 3, 1};
    vvi_value *v = vvi_value_of(e, node);
    if (v && !v->name && v->constant)
        return name_constant(e, v);
    if (v && !v->name && v->image)
        v->name = transpose(e, v->image, channels_last);
    return v ? v->name : NULL;
}

const char *vvi_image(vvi_exporter *e, const vv_node *node)
{
    static const int64_t channels_first[4] = {0, 3, 1, 2};
    vvi_value *v = vvi_value_of(e, node);
    if (v && !v->image) {
        const char *from = vvi_natural(e, node);
        v = vvi_value_of(e, node);
        v->image = from ? transpose(e, from, channels_first) : NULL;
    }
    return v ? v->image : NULL;
}

bool vvi_is_image(const vvi_exporter *e, const vv_node *node)
{
    const vvi_value *v = vvi_value_of(e, node);
    return v && !v->name && v->image;
}

/* ---- the whole ---- */

static vv_status emit_all(vvi_exporter *e, const vv_node *output)
{
    for (int i = 0; i < e->count; i++) {
        vvi_value *v = &e->values[i];
        if (v->constant || v->node == e->input || vvi_emit(e, v))
            continue;
        VV_TRY(vvi_onnx_status(e->onnx)); /* no memory is another reason */
        VV_TRY(vv_graph_status(e->graph));
        const char *op = vv_op_name(vv_node_op(v->node));
        if (!strstr(vv_str_text(&e->missing), op))
            vv_str_addf(&e->missing, "%s%s (%s)", e->missing.length ? ", " : "", op,
                        vv_node_name(v->node));
    }
    if (e->missing.length)
        return vv_fail(VV_EUNSUPPORTED, "the model cannot be written as ONNX: no form for %s",
                       vv_str_text(&e->missing));
    const char *last = vvi_natural(e, output);
    vvi_onnx_node(e->onnx, "Identity", "output"); /* the result's name is for others to rely on */
    vvi_onnx_in(e->onnx, last);
    VV_TRY(vv_graph_status(e->graph));
    return vvi_onnx_status(e->onnx);
}

static void name_ends(vvi_exporter *e, const vv_node *output)
{
    const vv_node *ends[2] = {e->input, output};
    for (int i = 0; i < 2; i++) {
        int64_t shape[VV_MAX_DIMS];
        int ndim = vv_node_ndim(ends[i]);
        memcpy(shape, vv_node_shape(ends[i]), sizeof shape);
        if (ndim && shape[0] % e->rows == 0)
            shape[0] = -1;
        vvi_onnx_value(e->onnx, i == 1, i ? "output" : "input", vv_node_dtype(ends[i]), ndim,
                       shape);
    }
}

/* A batch of this many rows is traced; no usual side of a tensor is a multiple of it. */
enum { ROWS = 97 };

static vv_status input_leaf(vvi_exporter *e, const vv_sample_spec *spec, vv_tensor **zeros)
{
    int64_t shape[VV_MAX_DIMS] = {ROWS};
    bool image = spec->input_dtype == VV_U8 && spec->input_ndim == 3;
    if (spec->input_ndim + 1 > VV_MAX_DIMS)
        return vv_fail(VV_ESHAPE, "samples have %d axes; at most %d", spec->input_ndim,
                       VV_MAX_DIMS - 1);
    memcpy(shape + 1, spec->input_shape, (size_t)spec->input_ndim * sizeof *shape);
    VV_TRY(vv_tensor_new(zeros, image ? VV_F32 : spec->input_dtype, spec->input_ndim + 1, shape));
    e->input = vv_leaf(e->graph, *zeros);
    e->rows = ROWS;
    return vv_graph_status(e->graph);
}

static vv_status trace(vvi_exporter *e, const vv_sample_spec *spec, vv_tensor **zeros,
                       const char *path)
{
    VV_TRY(input_leaf(e, spec, zeros));
    vv_node *output = vv_module_forward(e->net, e->graph, e->input);
    VV_TRY(vv_graph_status(e->graph));
    VV_TRY(collect(e, output));
    vvi_value *in = vvi_value_of(e, e->input);
    if (!in)
        return vv_fail(VV_EUNSUPPORTED, "the model's output does not depend on its input");
    in->name = "input";
    VV_TRY(emit_all(e, output));
    name_ends(e, output);
    return path ? vvi_onnx_write(e->onnx, path) : vvi_onnx_status(e->onnx);
}

vv_status vvi_export_onnx(vv_model *model, const vv_sample_spec *input, const char *path)
{
    vvi_exporter e = {.net = model->net};
    vv_tensor *zeros = NULL;
    bool training = vv_module_training(model->net);
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_status status;
    vv_module_set_training(model->net, false);
    VV_GO(vv_graph_new(&e.graph, &opts));
    VV_GO(vvi_onnx_new(&e.onnx));
    VV_GO(trace(&e, input, &zeros, path));
out:
    vv_module_set_training(model->net, training);
    vvi_onnx_free(e.onnx);
    vv_graph_free(e.graph);
    vv_tensor_free(zeros);
    vv_dealloc(e.values);
    vv_str_fini(&e.missing);
    return vv_fail_within(status, "%s", path ? path : "ONNX");
}
