/* onednn.h - a oneDNN primitive as a kernel's state: operands, conversions and reorders around
 * it. */
#ifndef VVI_ONEDNN_H
#define VVI_ONEDNN_H

#include "backend/cpu/onednn_compat.h"

#include <vivace/ext/backend.h>

enum { VVI_ONEDNN_MAX_ARGS = 4 };

/* One operand. `plain` is our layout, the primitive may want another. */
typedef struct vvi_onednn_arg {
    int id;     /* DNNL_ARG_... */
    int buf;    /* index in call->in, or in call->out for the result */
    vv_dtype dtype; /* of our buffer */
    bool convert;   /* bf16 buffer, f32 computation */
    int64_t count;
    vvi_md plain;
    dnnl_memory_t plain_memory, wanted_memory; /* the latter NULL if the layouts agree */
    dnnl_primitive_t reorder;
    size_t converted_at, wanted_at; /* in scratch */
} vvi_onednn_arg;

typedef struct vvi_onednn_node {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t forward, desc; /* forward: the hint a backward primitive needs */
    dnnl_primitive_t primitive;
    dnnl_memory_t scratchpad;
    vvi_onednn_arg args[VVI_ONEDNN_MAX_ARGS]; /* inputs, then the result */
    int n_args;
    size_t scratch_bytes, scratchpad_at;
    int threads; /* oneDNN splits work when a primitive is created */
} vvi_onednn_node;

/* A node without operands yet; freed by vvi_onednn_free. */
vv_status vvi_onednn_new(vvi_onednn_node **out);
void vvi_onednn_free(void *node);
/* Adds an operand in dense layout `strides`. compute: the type the primitive works on. */
vv_status vvi_onednn_add(vvi_onednn_node *node, int id, int buf, const vv_buf *operand, int ndims,
                         const dnnl_dims_t dims, const dnnl_dims_t strides, vv_dtype compute);
/* Makes the primitive; call once node->desc is made and all operands are added, the result last. */
vv_status vvi_onednn_finish(vvi_onednn_node *node);
/* Converts, reorders, executes, and brings the result back: `execute`, then `store`. Between the
   two an f32 result lies at `result`. */
vv_status vvi_onednn_run(vvi_onednn_node *node, const vv_call *call);
vv_status vvi_onednn_execute(vvi_onednn_node *node, const vv_call *call);
float *vvi_onednn_result(const vvi_onednn_node *node, const vv_call *call);
void vvi_onednn_store(const vvi_onednn_node *node, const vv_call *call);

/* The result is added to what the output holds; call before node->desc is made. */
vv_status vvi_onednn_accumulate(vvi_onednn_node *node);
/* Executes on given memory (one pointer per operand, all in their plain layout). */
vv_status vvi_onednn_execute_on(vvi_onednn_node *node, void *const *data, void *scratch);

dnnl_data_type_t vvi_onednn_type(vv_dtype dtype);
/* VV_OK, or the sentence for a failed call of the library. */
vv_status vvi_onednn_check(dnnl_status_t status, const char *what);
#define VVI_DNN(call, what) VV_TRY(vvi_onednn_check((call), (what)))

#endif
