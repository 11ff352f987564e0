/* onnx_graph.c - walks a model's inference graph, operands first, and writes it as ONNX. */
#include "onnx_graph.h"

#include <string.h>

#include <vivace/memory.h>

vvi_value *vvi_value_of(const vvi_exporter *e, const vv_node *node)
{
    for (int i = e->count - 1; i >= 0; i--)
        if (e->values[i].node == node)
            return &e->values[i];
    return NULL;
}

/* ---- the order: operands before their users, what is not needed left out ---- */

/* Made for the batch: rows that are all alike, such as a class token before each row's patches. */
static bool is_of_batch(const vvi_exporter *e, const vv_node *node)
{
    const vv_op op = vv_node_op(node);
    if (vv_node_ndim(node) < 2 || vv_node_shape(node)[0] != e->rows)
        return false;
    bool any = op == VV_OP_BROADCAST || op == VV_OP_FULL;
    for (int i = 0; i < vv_node_operand_count(node); i++) {
        const vv_node *operand = vv_node_operand(node, i);
        any = any || (operand && vvi_value_of(e, operand)->of_batch);
    }
    return any;
}

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
    e->values[e->count++] = (vvi_value){
        .node = node, .constant = constant, .of_batch = constant && is_of_batch(e, node)};
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

const char *vvi_op1(vvi_exporter *e, const char *op, const char *x)
{
    const char *made = vvi_onnx_name(e->onnx);
    vvi_onnx_node(e->onnx, op, made);
    vvi_onnx_in(e->onnx, x);
    return made;
}

const char *vvi_op2(vvi_exporter *e, const char *op, const char *a, const char *b)
{
    const char *made = vvi_op1(e, op, a);
    vvi_onnx_in(e->onnx, b);
    return made;
}

/* One row, as often as the batch has rows. */
static const char *name_rows(vvi_exporter *e, vvi_value *v, const vv_tensor *value)
{
    const size_t row = value->bytes / (size_t)value->shape[0];
    int64_t one[VV_MAX_DIMS];
    const char *data = value->data;
    for (int64_t i = 1; i < value->shape[0]; i++)
        if (memcmp(data, data + (size_t)i * row, row) != 0) {
            vv_graph_fail(e->graph, vv_fail(VV_EUNSUPPORTED,
                                            "%s differs from row to row of a batch; an ONNX file "
                                            "holds for any number of rows",
                                            vv_node_name(v->node)));
            return NULL;
        }
    memcpy(one, value->shape, sizeof one);
    one[0] = 1;
    const char *first = vvi_onnx_name(e->onnx);
    vvi_onnx_constant(e->onnx, first, value->dtype, value->ndim, one, data, false);
    const char *rest = vvi_integers(e, value->shape + 1, value->ndim - 1);
    if (!e->row_count) {
        e->row_count = vvi_op1(e, "Shape", "input");
        vvi_onnx_int(e->onnx, "start", 0);
        vvi_onnx_int(e->onnx, "end", 1);
    }
    const char *sides = vvi_op2(e, "Concat", e->row_count, rest);
    vvi_onnx_int(e->onnx, "axis", 0);
    return v->name = vvi_op2(e, "Expand", first, sides);
}

/* Parameters keep their name; what is computed from constants alone is computed now. */
static const char *name_constant(vvi_exporter *e, vvi_value *v)
{
    const vv_tensor *value = vvi_constant_value(e, v->node);
    search s = {e, v->node, NULL};
    if (!value)
        return NULL;
    if (v->of_batch)
        return name_rows(e, v, value);
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

const char *vvi_beside_image(vvi_exporter *e, vv_node *node)
{
    const vvi_value *v = vvi_value_of(e, node);
    if (vv_node_ndim(node) == 4)
        return vvi_image(e, node);
    if (!v->constant || vv_node_ndim(node) > 1)
        return NULL;
    if (vv_node_count(node) == 1)
        return vvi_natural(e, node);
    const vv_tensor *value = vvi_constant_value(e, node);
    if (!value)
        return NULL;
    const int64_t shape[3] = {value->count, 1, 1};
    const char *made = vvi_onnx_name(e->onnx);
    vvi_onnx_constant(e->onnx, made, value->dtype, 3, shape, value->data, false);
    return made;
}

/* ---- the whole ---- */

static vv_status emit_all(vvi_exporter *e)
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
    VV_TRY(vv_graph_status(e->graph));
    return vvi_onnx_status(e->onnx);
}

/* ---- the two ends ---- */

/* A number for each channel, beside images in the layout of the file. */
static const char *channel_numbers(vvi_exporter *e, const float *values, int64_t channels)
{
    const int64_t shape[3] = {channels, 1, 1};
    const char *name = vvi_onnx_name(e->onnx);
    vvi_onnx_constant(e->onnx, name, VV_F32, e->opts->nchw ? 3 : 1, shape, values, true);
    return name;
}

/* (pixel / 255 - mean) / std = pixel * scale + shift */
static const char *pixels_to_input(vvi_exporter *e, const vv_sample_spec *spec, const char *pixels)
{
    const int64_t channels = spec->input_shape[2];
    float scale[4], shift[4];
    for (int64_t c = 0; c < channels && c < 4; c++) {
        const double std = e->opts->normalise ? (double)spec->std[c] : 1.0;
        const double mean = e->opts->normalise ? (double)spec->mean[c] : 0.0;
        scale[c] = (float)(1.0 / (255.0 * std));
        shift[c] = (float)(-mean / std);
    }
    const char *numbers = vvi_op1(e, "Cast", pixels);
    vvi_onnx_int(e->onnx, "to", 1);
    const char *scaled = vvi_op2(e, "Mul", numbers, channel_numbers(e, scale, channels));
    return vvi_op2(e, "Add", scaled, channel_numbers(e, shift, channels));
}

static void name_input(vvi_exporter *e, const vv_sample_spec *spec)
{
    vvi_value *in = vvi_value_of(e, e->input);
    const char *name = e->opts->pixels ? pixels_to_input(e, spec, "input") : "input";
    if (e->opts->nchw)
        in->image = name;
    else
        in->name = name;
}

/* The result's name is for others to rely on. */
static void name_output(vvi_exporter *e, const vv_node *output)
{
    const bool image = e->opts->nchw && vv_node_ndim(output) == 4;
    const char *last = image ? vvi_image(e, output) : vvi_natural(e, output);
    vvi_onnx_node(e->onnx, e->opts->softmax ? "Softmax" : "Identity", "output");
    vvi_onnx_in(e->onnx, last);
    if (e->opts->softmax)
        vvi_onnx_int(e->onnx, "axis", image ? 1 : -1);
}

static void tell_end(vvi_exporter *e, bool result, const vv_node *node)
{
    int64_t shape[VV_MAX_DIMS];
    const int ndim = vv_node_ndim(node);
    memcpy(shape, vv_node_shape(node), sizeof shape);
    if (ndim == 4 && e->opts->nchw) {
        shape[1] = vv_node_shape(node)[3];
        shape[2] = vv_node_shape(node)[1];
        shape[3] = vv_node_shape(node)[2];
    }
    if (ndim && shape[0] % e->rows == 0)
        shape[0] = -1;
    vvi_onnx_value(e->onnx, result, result ? "output" : "input",
                   !result && e->opts->pixels ? VV_U8 : vv_node_dtype(node), ndim, shape);
}

static vv_status check_opts(const vvi_exporter *e, const vv_sample_spec *spec, vv_task task)
{
    const vv_onnx_opts *o = e->opts;
    const bool image = spec->input_dtype == VV_U8 && spec->input_ndim == 3;
    if ((o->nchw || o->pixels) && !image)
        return vv_fail(VV_EINVAL, "%s is for models of images; this one's samples are %s with %d "
                       "axes", o->nchw ? "the layout nchw" : "taking pixels",
                       vv_dtype_name(spec->input_dtype), spec->input_ndim);
    for (int64_t c = 0; o->pixels && o->normalise && c < spec->input_shape[2]; c++)
        if (c >= 4 || !(spec->std[c] > 0.0f))
            return vv_fail(VV_EINVAL, "channel %lld: its mean and deviation are not known, so "
                           "images cannot be normalised", (long long)c);
    if (o->softmax && task != VV_TASK_CLASSIFY)
        return vv_fail(VV_EINVAL, "softmax is for models of classes; leave it out");
    return VV_OK;
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

static vv_status trace(vvi_exporter *e, const vv_sample_spec *spec, vv_task task,
                       vv_tensor **zeros, const char *path)
{
    VV_TRY(check_opts(e, spec, task));
    VV_TRY(input_leaf(e, spec, zeros));
    vv_node *output = vv_module_forward(e->net, e->graph, e->input);
    VV_TRY(vv_graph_status(e->graph));
    VV_TRY(collect(e, output));
    if (!vvi_value_of(e, e->input))
        return vv_fail(VV_EUNSUPPORTED, "the model's output does not depend on its input");
    name_input(e, spec);
    VV_TRY(emit_all(e));
    name_output(e, output);
    VV_TRY(vv_graph_status(e->graph));
    tell_end(e, false, e->input);
    tell_end(e, true, output);
    return path ? vvi_onnx_write(e->onnx, path) : vvi_onnx_status(e->onnx);
}

vv_status vvi_export_onnx(vv_model *model, const vv_sample_spec *input, const char *path,
                          const vv_onnx_opts *onnx_opts)
{
    vvi_exporter e = {.net = model->net, .opts = onnx_opts};
    vv_tensor *zeros = NULL;
    bool training = vv_module_training(model->net);
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    vv_status status;
    vv_module_set_training(model->net, false);
    VV_GO(vv_graph_new(&e.graph, &opts));
    VV_GO(vvi_onnx_new(&e.onnx));
    VV_GO(trace(&e, input, model->task, &zeros, path));
out:
    vv_module_set_training(model->net, training);
    vvi_onnx_free(e.onnx);
    vv_graph_free(e.graph);
    vv_tensor_free(zeros);
    vv_dealloc(e.values);
    vv_str_fini(&e.missing);
    return vv_fail_within(status, "%s", path ? path : "ONNX");
}
