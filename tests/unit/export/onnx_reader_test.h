/* onnx_reader_test.h - reads an ONNX file back and computes it, op by op as the public operator
 * descriptions say, so that a test does not trust the writer. */
#ifndef ONNX_READER_TEST_H
#define ONNX_READER_TEST_H

#include "vv_test.h"

#include <vivace/ops.h>

#include "export/onnx.pb-c.h"

typedef VviOnnxPb__NodeProto onnx_node;

typedef struct onnx_reader {
    VviOnnxPb__ModelProto *model;
    vv_graph *graph;
    const char *names[4096];
    vv_node *nodes[4096];
    int count, transposes;
} onnx_reader;

static inline void reader_open(onnx_reader *r, const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    size_t bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(bytes);
    assert_int_equal(fread(data, 1, bytes, file), bytes);
    fclose(file);
    *r = (onnx_reader){0};
    r->model = vvi_onnx_pb__model_proto__unpack(NULL, bytes, data);
    assert_non_null(r->model);
    free(data);
    vv_graph_opts opts = VV_GRAPH_DEFAULTS;
    assert_ok(vv_graph_new(&r->graph, &opts));
}

static inline void reader_close(onnx_reader *r)
{
    vvi_onnx_pb__model_proto__free_unpacked(r->model, NULL);
    vv_graph_free(r->graph);
}

static inline void reader_set(onnx_reader *r, const char *name, vv_node *node)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->names[i], name) == 0)
            fail_msg("%s is made twice", name);
    if (!node)
        fail_msg("%s: %s", name, vv_graph_status(r->graph) == VV_OK ? "no value" : vv_error());
    r->names[r->count] = name;
    r->nodes[r->count++] = node;
}

static inline vv_node *reader_get(const onnx_reader *r, const char *name)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->names[i], name) == 0)
            return r->nodes[i];
    fail_msg("%s is used before it is made", name);
    return NULL;
}

static inline const VviOnnxPb__AttributeProto *reader_attr(const onnx_node *n, const char *key)
{
    for (size_t i = 0; i < n->n_attribute; i++)
        if (strcmp(n->attribute[i]->name, key) == 0)
            return n->attribute[i];
    return NULL;
}

static inline const int64_t *reader_ints(const onnx_node *n, const char *key, size_t count)
{
    const VviOnnxPb__AttributeProto *a = reader_attr(n, key);
    assert_non_null(a);
    assert_int_equal(a->type, VVI_ONNX_PB__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    assert_int_equal(a->n_ints, count);
    return a->ints;
}

static inline int64_t reader_int(const onnx_node *n, const char *key, int64_t otherwise)
{
    const VviOnnxPb__AttributeProto *a = reader_attr(n, key);
    assert_true(!a || a->has_i);
    return a ? a->i : otherwise;
}

/* [N,C,H,W] -> [N,H,W,C] and back: the graph's own ops want channels last. */
static inline vv_node *channels_last(vv_node *x)
{
    const int order[4] = {0, 2, 3, 1};
    return vv_permute(x, order);
}
static inline vv_node *channels_first(vv_node *x)
{
    const int order[4] = {0, 3, 1, 2};
    return vv_permute(x, order);
}

static inline vv_node *reader_window(const onnx_node *n, vv_node *x, vv_node *w, vv_node *bias)
{
    const int64_t *stride = reader_ints(n, "strides", 2), *pad = reader_ints(n, "pads", 4);
    const int64_t *kernel = reader_ints(n, "kernel_shape", 2);
    assert_true(pad[0] == pad[2] && pad[1] == pad[3]);
    if (w) {
        const int64_t *dilation = reader_ints(n, "dilations", 2);
        vv_conv_opts conv = {{stride[0], stride[1]}, {pad[0], pad[1]}, {dilation[0], dilation[1]},
                             reader_int(n, "group", 1), {0, 0}};
        assert_memory_equal(kernel, vv_node_shape(w) + 2, 2 * sizeof *kernel);
        return channels_first(vv_conv2d(channels_last(x), w, bias, &conv));
    }
    vv_pool_opts pool = {{kernel[0], kernel[1]}, {stride[0], stride[1]}, {pad[0], pad[1]},
                         reader_int(n, "ceil_mode", 0) != 0,
                         reader_int(n, "count_include_pad", 0) != 0};
    x = channels_last(x);
    return channels_first(strcmp(n->op_type, "MaxPool") == 0 ? vv_max_pool2d(x, &pool)
                                                             : vv_avg_pool2d(x, &pool));
}

static inline vv_node *reader_reshape(onnx_reader *r, const onnx_node *n, vv_node *x)
{
    const vv_tensor *shape;
    int64_t sides[VV_MAX_DIMS];
    assert_ok(vv_node_value(reader_get(r, n->input[1]), &shape));
    for (int64_t i = 0; i < shape->count; i++)
        sides[i] = (int64_t)vv_tensor_get(shape, i);
    return vv_reshape(x, (int)shape->count, sides);
}

/* Start, stop, axis and step (or 1), one number each. */
static inline vv_node *reader_slice(onnx_reader *r, const onnx_node *n, vv_node *x)
{
    int64_t at[4] = {0, 0, 0, 1};
    assert_true(n->n_input == 4 || n->n_input == 5);
    for (int i = 0; i < (int)n->n_input - 1; i++) {
        const vv_tensor *value;
        assert_ok(vv_node_value(reader_get(r, n->input[1 + i]), &value));
        at[i] = (int64_t)vv_tensor_get(value, 0);
    }
    return vv_slice(x, (int)at[2], at[0], at[1], at[3]);
}

static inline vv_node *reader_node(onnx_reader *r, const onnx_node *n)
{
    vv_node *x = reader_get(r, n->input[0]);
    vv_node *y = n->n_input > 1 ? reader_get(r, n->input[1]) : NULL;
    vv_node *z = n->n_input > 2 ? reader_get(r, n->input[2]) : NULL;
    const char *op = n->op_type;
    assert_int_equal(n->n_output, 1);
    if (strcmp(op, "Identity") == 0)
        return vv_affine(x, 1.0, 0.0);
    if (strcmp(op, "Relu") == 0)
        return vv_relu(x);
    if (strcmp(op, "Gelu") == 0) {
        const VviOnnxPb__AttributeProto *form = reader_attr(n, "approximate");
        assert_true(form && form->has_s);
        return form->s.len == 4 && memcmp(form->s.data, "tanh", 4) == 0 ? vv_gelu_tanh(x)
                                                                        : vv_gelu(x);
    }
    if (strcmp(op, "Tanh") == 0)
        return vv_tanh(x);
    if (strcmp(op, "Sqrt") == 0)
        return vv_sqrt(x);
    if (strcmp(op, "ReduceMean") == 0) {
        const vv_tensor *axes;
        assert_ok(vv_node_value(y, &axes));
        assert_int_equal(axes->count, 1);
        const int last = (int)vv_tensor_get(axes, 0);
        return vv_mean(x, &last, 1, reader_int(n, "keepdims", 1) != 0);
    }
    if (strcmp(op, "Concat") == 0) {
        vv_node *const both[2] = {x, y};
        assert_int_equal(n->n_input, 2);
        return vv_concat(both, 2, (int)reader_int(n, "axis", 0));
    }
    if (strcmp(op, "CumSum") == 0) {
        const vv_tensor *axis;
        assert_ok(vv_node_value(y, &axis));
        assert_int_equal((int)vv_tensor_get(axis, 0), vv_node_ndim(x) - 1);
        assert_int_equal(reader_int(n, "reverse", 0), 0);
        return vv_cumsum(x, reader_int(n, "exclusive", 0) != 0);
    }
    if (strcmp(op, "Sigmoid") == 0)
        return vv_sigmoid(x);
    if (strcmp(op, "Add") == 0)
        return vv_add(x, y);
    if (strcmp(op, "Sub") == 0)
        return vv_sub(x, y);
    if (strcmp(op, "Mul") == 0)
        return vv_mul(x, y);
    if (strcmp(op, "Div") == 0)
        return vv_div(x, y);
    if (strcmp(op, "Conv") == 0)
        return reader_window(n, x, y, z);
    if (strcmp(op, "MaxPool") == 0 || strcmp(op, "AveragePool") == 0)
        return reader_window(n, x, NULL, NULL);
    if (strcmp(op, "GlobalMaxPool") == 0 || strcmp(op, "GlobalAveragePool") == 0) {
        const int sides[2] = {2, 3};
        return op[6] == 'M' ? vv_max(x, sides, 2, true) : vv_mean(x, sides, 2, true);
    }
    if (strcmp(op, "Reshape") == 0)
        return reader_reshape(r, n, x);
    if (strcmp(op, "Transpose") == 0) {
        int order[VV_MAX_DIMS];
        const int64_t *perm = reader_ints(n, "perm", (size_t)vv_node_ndim(x));
        for (int i = 0; i < vv_node_ndim(x); i++)
            order[i] = (int)perm[i];
        r->transposes++;
        return vv_permute(x, order);
    }
    if (strcmp(op, "Gemm") == 0) {
        vv_node *made =
            vv_matmul(x, y, reader_int(n, "transA", 0) != 0, reader_int(n, "transB", 0) != 0);
        return z ? vv_add(made, z) : made;
    }
    if (strcmp(op, "LayerNormalization") == 0) {
        const VviOnnxPb__AttributeProto *eps = reader_attr(n, "epsilon");
        assert_true(eps && eps->has_f && reader_int(n, "axis", 0) == -1);
        return vv_layer_norm(x, y, z, (double)eps->f);
    }
    if (strcmp(op, "MatMul") == 0)
        return vv_matmul(x, y, false, false);
    if (strcmp(op, "Softmax") == 0 && reader_int(n, "axis", 0) == -1)
        return vv_softmax(x);
    if (strcmp(op, "Slice") == 0)
        return reader_slice(r, n, x);
    fail_msg("the reader does not know %s", op);
    return NULL;
}

/* The model's output for `input`; valid until reader_close. */
static inline const vv_tensor *reader_run(onnx_reader *r, vv_tensor *input)
{
    const VviOnnxPb__GraphProto *g = r->model->graph;
    const vv_tensor *value;
    assert_int_equal(g->n_input, 1);
    assert_int_equal(g->n_output, 1);
    for (size_t i = 0; i < g->n_initializer; i++) {
        const VviOnnxPb__TensorProto *t = g->initializer[i];
        vv_dtype dtype = t->data_type == VVI_ONNX_PB__TENSOR_PROTO__DATA_TYPE__FLOAT ? VV_F32
                                                                                    : VV_I64;
        reader_set(r, t->name,
                   vv_data(r->graph, dtype, (int)t->n_dims, t->dims, t->raw_data.data));
    }
    reader_set(r, g->input[0]->name, vv_leaf(r->graph, input));
    for (size_t i = 0; i < g->n_node; i++)
        reader_set(r, g->node[i]->output[0], reader_node(r, g->node[i]));
    assert_ok(vv_node_value(reader_get(r, g->output[0]->name), &value));
    return value;
}

#endif
