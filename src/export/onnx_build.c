/* onnx_build.c - the protobuf side of an ONNX model. The only user of protobuf-c. */
#include "onnx_build.h"

#include <stdio.h>
#include <string.h>

#include <vivace/memory.h>

#include "base/arena.h"
#include "base/file.h"
#include "export/onnx.pb-c.h"
#include "vvi_config.h"

enum { MOST_OPERANDS = 64, MOST_SETTINGS = 8, OPSET = 20, IR_VERSION = 9 };

typedef struct list {
    void **items;
    size_t count, capacity;
} list;

struct vvi_onnx {
    vvi_arena arena; /* everything but the lists */
    list nodes, constants, inputs, results;
    VviOnnxPb__NodeProto *node; /* the one that is being made */
    int64_t names;
    vv_status status;
};

vv_status vvi_onnx_new(vvi_onnx **out)
{
    return vv_alloc(out, sizeof **out);
}

void vvi_onnx_free(vvi_onnx *o)
{
    if (!o)
        return;
    vv_dealloc(o->nodes.items);
    vv_dealloc(o->constants.items);
    vv_dealloc(o->inputs.items);
    vv_dealloc(o->results.items);
    vvi_arena_fini(&o->arena);
    vv_dealloc(o);
}

vv_status vvi_onnx_status(const vvi_onnx *o)
{
    return o->status;
}

static void *take(vvi_onnx *o, size_t bytes)
{
    void *block = o->status == VV_OK ? vvi_arena_alloc(&o->arena, bytes) : NULL;
    if (!block && o->status == VV_OK)
        o->status = VV_ENOMEM;
    return block;
}

static void push(vvi_onnx *o, list *l, void *item)
{
    if (o->status == VV_OK && l->count == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 64;
        o->status = vv_realloc_array(&l->items, capacity, sizeof *l->items);
        if (o->status == VV_OK)
            l->capacity = capacity;
    }
    if (o->status == VV_OK)
        l->items[l->count++] = item;
}

const char *vvi_onnx_copy(vvi_onnx *o, const char *text)
{
    char *copy = take(o, strlen(text) + 1);
    if (copy)
        memcpy(copy, text, strlen(text) + 1);
    return copy;
}

const char *vvi_onnx_name(vvi_onnx *o)
{
    char text[32];
    snprintf(text, sizeof text, "t%lld", (long long)o->names++);
    return vvi_onnx_copy(o, text);
}

void vvi_onnx_node(vvi_onnx *o, const char *op, const char *result)
{
    VviOnnxPb__NodeProto *node = take(o, sizeof *node);
    char **in = take(o, MOST_OPERANDS * sizeof *in), **out = take(o, sizeof *out);
    VviOnnxPb__AttributeProto **settings = take(o, MOST_SETTINGS * sizeof *settings);
    char *name = take(o, strlen(op) + 1), *made = result ? take(o, strlen(result) + 1) : NULL;
    o->node = NULL;
    if (!node || !in || !out || !settings || !name || !made)
        return;
    memcpy(name, op, strlen(op) + 1);
    memcpy(made, result, strlen(result) + 1);
    vvi_onnx_pb__node_proto__init(node);
    node->op_type = name;
    node->input = in;
    node->output = out;
    out[0] = made;
    node->n_output = 1;
    node->attribute = settings;
    push(o, &o->nodes, node);
    o->node = o->status == VV_OK ? node : NULL;
}

void vvi_onnx_in(vvi_onnx *o, const char *name)
{
    char *copy = o->node && name ? take(o, strlen(name) + 1) : NULL;
    if (!copy)
        return;
    if (o->node->n_input == MOST_OPERANDS) {
        o->status = vv_fail(VV_EUNSUPPORTED, "ONNX: a node has more than %d operands",
                            MOST_OPERANDS);
        return;
    }
    memcpy(copy, name, strlen(name) + 1);
    o->node->input[o->node->n_input++] = copy;
}

static VviOnnxPb__AttributeProto *setting(vvi_onnx *o, const char *key)
{
    VviOnnxPb__AttributeProto *a = o->node ? take(o, sizeof *a) : NULL;
    char *name = a ? take(o, strlen(key) + 1) : NULL;
    if (!name || o->node->n_attribute == MOST_SETTINGS)
        return NULL;
    memcpy(name, key, strlen(key) + 1);
    vvi_onnx_pb__attribute_proto__init(a);
    a->name = name;
    a->has_type = 1;
    o->node->attribute[o->node->n_attribute++] = a;
    return a;
}

void vvi_onnx_int(vvi_onnx *o, const char *key, int64_t value)
{
    VviOnnxPb__AttributeProto *a = setting(o, key);
    if (!a)
        return;
    a->type = VVI_ONNX_PB__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a->has_i = 1;
    a->i = value;
}

void vvi_onnx_float(vvi_onnx *o, const char *key, double value)
{
    VviOnnxPb__AttributeProto *a = setting(o, key);
    if (!a)
        return;
    a->type = VVI_ONNX_PB__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    a->has_f = 1;
    a->f = (float)value;
}

void vvi_onnx_ints(vvi_onnx *o, const char *key, const int64_t *values, int count)
{
    VviOnnxPb__AttributeProto *a = setting(o, key);
    int64_t *copy = a ? take(o, (size_t)count * sizeof *copy) : NULL;
    if (!copy)
        return;
    memcpy(copy, values, (size_t)count * sizeof *copy);
    a->type = VVI_ONNX_PB__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    a->ints = copy;
    a->n_ints = (size_t)count;
}

void vvi_onnx_string(vvi_onnx *o, const char *key, const char *value)
{
    VviOnnxPb__AttributeProto *a = setting(o, key);
    const size_t length = strlen(value);
    uint8_t *copy = a ? take(o, length + 1) : NULL;
    if (!copy)
        return;
    memcpy(copy, value, length + 1);
    a->type = VVI_ONNX_PB__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    a->has_s = 1;
    a->s.data = copy;
    a->s.len = length;
}

/* -1: no such type there. */
static int32_t type_of(vv_dtype dtype)
{
    switch (dtype) {
    case VV_F32:
        return VVI_ONNX_PB__TENSOR_PROTO__DATA_TYPE__FLOAT;
    case VV_I32:
        return VVI_ONNX_PB__TENSOR_PROTO__DATA_TYPE__INT32;
    case VV_I64:
        return VVI_ONNX_PB__TENSOR_PROTO__DATA_TYPE__INT64;
    case VV_U8:
        return VVI_ONNX_PB__TENSOR_PROTO__DATA_TYPE__UINT8;
    case VV_BOOL:
        return VVI_ONNX_PB__TENSOR_PROTO__DATA_TYPE__BOOL;
    default:
        return -1;
    }
}

void vvi_onnx_constant(vvi_onnx *o, const char *name, vv_dtype dtype, int ndim,
                       const int64_t *shape, const void *data, bool copy)
{
    size_t bytes = vv_dtype_size(dtype);
    for (int i = 0; i < ndim; i++)
        bytes *= (size_t)shape[i];
    VviOnnxPb__TensorProto *t = take(o, sizeof *t);
    char *text = name ? take(o, strlen(name) + 1) : NULL;
    int64_t *dims = take(o, (size_t)(ndim + 1) * sizeof *dims);
    void *own = copy ? take(o, bytes + 1) : NULL;
    if (!t || !text || !dims || (copy && !own))
        return;
    if (type_of(dtype) < 0) {
        o->status = vv_fail(VV_EUNSUPPORTED, "ONNX: the constant %s has type %s", name,
                            vv_dtype_name(dtype));
        return;
    }
    memcpy(text, name, strlen(name) + 1);
    if (ndim)
        memcpy(dims, shape, (size_t)ndim * sizeof *dims);
    if (copy)
        memcpy(own, data, bytes);
    vvi_onnx_pb__tensor_proto__init(t);
    t->name = text;
    t->dims = dims;
    t->n_dims = (size_t)ndim;
    t->has_data_type = t->has_raw_data = 1;
    t->data_type = type_of(dtype);
    t->raw_data.len = bytes;
    /* protobuf-c's field is not const; packing reads it only. */
    const uint8_t *source = copy ? own : data;
    memcpy(&t->raw_data.data, &source, sizeof source);
    push(o, &o->constants, t);
}

static void set_side(vvi_onnx *o, VviOnnxPb__TensorShapeProto__Dimension *side, int64_t size)
{
    vvi_onnx_pb__tensor_shape_proto__dimension__init(side);
    side->has_dim_value = size >= 0;
    side->dim_value = size;
    char *free_name = size < 0 ? take(o, 2) : NULL;
    if (free_name)
        free_name[0] = 'N';
    if (free_name)
        side->dim_param = free_name;
}

void vvi_onnx_value(vvi_onnx *o, bool result, const char *name, vv_dtype dtype, int ndim,
                    const int64_t *shape)
{
    VviOnnxPb__ValueInfoProto *v = take(o, sizeof *v);
    VviOnnxPb__TypeProto *type = take(o, sizeof *type);
    VviOnnxPb__TypeProto__Tensor *tensor = take(o, sizeof *tensor);
    VviOnnxPb__TensorShapeProto *sides = take(o, sizeof *sides);
    VviOnnxPb__TensorShapeProto__Dimension *dims = take(o, (size_t)(ndim + 1) * sizeof *dims);
    VviOnnxPb__TensorShapeProto__Dimension **rows = take(o, (size_t)(ndim + 1) * sizeof *rows);
    char *text = take(o, strlen(name) + 1);
    if (!v || !type || !tensor || !sides || !dims || !rows || !text)
        return;
    memcpy(text, name, strlen(name) + 1);
    vvi_onnx_pb__value_info_proto__init(v);
    vvi_onnx_pb__type_proto__init(type);
    vvi_onnx_pb__type_proto__tensor__init(tensor);
    vvi_onnx_pb__tensor_shape_proto__init(sides);
    for (int i = 0; i < ndim; i++) {
        set_side(o, &dims[i], shape[i]);
        rows[i] = &dims[i];
    }
    sides->n_dim = (size_t)ndim;
    sides->dim = rows;
    tensor->has_elem_type = 1;
    tensor->elem_type = type_of(dtype);
    tensor->shape = sides;
    type->tensor_type = tensor;
    v->name = text;
    v->type = type;
    push(o, result ? &o->results : &o->inputs, v);
}

static vv_status pack(const VviOnnxPb__ModelProto *model, const char *path)
{
    size_t bytes = vvi_onnx_pb__model_proto__get_packed_size(model);
    uint8_t *buffer;
    if (bytes > INT32_MAX)
        return vv_fail(VV_EUNSUPPORTED,
                       "%s: an ONNX file holds at most 2 GiB, this model needs %zu bytes", path,
                       bytes);
    VV_TRY(vv_alloc(&buffer, bytes));
    vvi_onnx_pb__model_proto__pack(model, buffer);
    vv_status status = vvi_file_write_atomic(path, buffer, bytes);
    vv_dealloc(buffer);
    return status;
}

vv_status vvi_onnx_write(vvi_onnx *o, const char *path)
{
    VV_TRY(o->status);
    char name[] = "vivace", version[] = VVI_VERSION, domain[] = "";
    VviOnnxPb__ModelProto model = VVI_ONNX_PB__MODEL_PROTO__INIT;
    VviOnnxPb__GraphProto graph = VVI_ONNX_PB__GRAPH_PROTO__INIT;
    VviOnnxPb__OperatorSetIdProto set = VVI_ONNX_PB__OPERATOR_SET_ID_PROTO__INIT;
    VviOnnxPb__OperatorSetIdProto *sets[] = {&set};
    graph.name = name;
    graph.node = (VviOnnxPb__NodeProto **)(void *)o->nodes.items;
    graph.n_node = o->nodes.count;
    graph.initializer = (VviOnnxPb__TensorProto **)(void *)o->constants.items;
    graph.n_initializer = o->constants.count;
    graph.input = (VviOnnxPb__ValueInfoProto **)(void *)o->inputs.items;
    graph.n_input = o->inputs.count;
    graph.output = (VviOnnxPb__ValueInfoProto **)(void *)o->results.items;
    graph.n_output = o->results.count;
    set.domain = domain;
    set.has_version = 1;
    set.version = OPSET;
    model.has_ir_version = 1;
    model.ir_version = IR_VERSION;
    model.producer_name = name;
    model.producer_version = version;
    model.graph = &graph;
    model.opset_import = sets;
    model.n_opset_import = 1;
    return pack(&model, path);
}
