/* onnx_graph.h - a step graph on its way to ONNX: which tensor holds which node's value. */
#ifndef VVI_ONNX_GRAPH_H
#define VVI_ONNX_GRAPH_H

#include <vivace/export.h>
#include <vivace/ext/inspect.h>

#include "onnx_build.h"

/* Images are [N,H,W,C] in the graph and [N,C,H,W] in ONNX. A value may have a name in either
   layout; the other one is made by a transpose when it is first wanted, so chains of convolutions
   and element-wise nodes need none. */
typedef struct vvi_value {
    vv_node *node;
    bool constant;           /* does not depend on the input */
    bool of_batch;           /* constant, and the same for each of the batch's rows */
    const char *name;        /* as the graph has it; NULL = not yet */
    const char *image;       /* [N,C,H,W]; NULL = not yet */
} vvi_value;

typedef struct vvi_exporter {
    vvi_onnx *onnx;
    vv_graph *graph;
    vv_module *net;
    vv_node *input;
    const vv_onnx_opts *opts;
    int64_t rows; /* N while building: sides that are a multiple of it are free */
    const char *row_count; /* N as an operand; NULL = not yet */
    vvi_value *values;
    int count, capacity;
    vv_str missing; /* ops that ONNX, or this exporter, cannot express */
} vvi_exporter;

vvi_value *vvi_value_of(const vvi_exporter *e, const vv_node *node);
const char *vvi_natural(vvi_exporter *e, const vv_node *node);
const char *vvi_image(vvi_exporter *e, const vv_node *node);
/* Whether the value is at hand as an image only. */
bool vvi_is_image(const vvi_exporter *e, const vv_node *node);
/* The operand of an image op: [N,C,H,W], or [C,1,1] of a vector of channels; NULL if it is
   neither. */
const char *vvi_beside_image(vvi_exporter *e, vv_node *node);
/* Adds a node with these operands, gives its result's name. */
const char *vvi_op1(vvi_exporter *e, const char *op, const char *x);
const char *vvi_op2(vvi_exporter *e, const char *op, const char *a, const char *b);
/* A constant of its own: one number, or a list of integers. */
const char *vvi_number(vvi_exporter *e, double value);
const char *vvi_integers(vvi_exporter *e, const int64_t *values, int count);
/* Data of a constant node, NULL after a failure. */
const vv_tensor *vvi_constant_value(vvi_exporter *e, vv_node *node);
/* What vv_export_onnx does where this build can. */
VV_MUST_USE vv_status vvi_export_onnx(vv_model *model, const vv_sample_spec *input,
                                      const char *path, const vv_onnx_opts *opts);
/* onnx_ops.c: adds what computes the node; false if it cannot be expressed. */
bool vvi_emit(vvi_exporter *e, vvi_value *value);
/* onnx_image.c */
bool vvi_emit_conv(vvi_exporter *e, vvi_value *value);
bool vvi_emit_conv_transpose(vvi_exporter *e, vvi_value *value);
bool vvi_emit_pool(vvi_exporter *e, vvi_value *value);
bool vvi_emit_adaptive_pool(vvi_exporter *e, vvi_value *value);
bool vvi_emit_resize(vvi_exporter *e, vvi_value *value);
bool vvi_emit_group_norm(vvi_exporter *e, vvi_value *value);
/* onnx_attention.c */
bool vvi_emit_attention(vvi_exporter *e, vvi_value *value);
/* onnx_sequence.c */
bool vvi_emit_rms_norm(vvi_exporter *e, vvi_value *value);
bool vvi_emit_rotary(vvi_exporter *e, vvi_value *value);
bool vvi_emit_cumsum(vvi_exporter *e, vvi_value *value);

#endif
