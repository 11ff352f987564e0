/* op_table.c - what is known of each op: its name, its gradient, its cost. */
#include "graph/graph_impl.h"

const char *vv_op_name(vv_op op)
{
    static const char *const names[] = {
#define VV_OP_TEXT(name, text) text,
        VV_OP_LIST(VV_OP_TEXT)
#undef VV_OP_TEXT
    };
    return (unsigned)op < VV_OP_COUNT ? names[op] : "?";
}

/* Ops without an entry have no gradient: nothing flows to their operands. */
vvi_grad_fn vvi_op_grad(vv_op op)
{
    static const vvi_grad_fn grads[VV_OP_COUNT] = {
        [VV_OP_RESHAPE] = vvi_grad_reshape,
        [VV_OP_UNARY] = vvi_grad_unary,
        [VV_OP_BINARY] = vvi_grad_binary,
        [VV_OP_WHERE] = vvi_grad_where,
        [VV_OP_CAST] = vvi_grad_cast,
        [VV_OP_REDUCE] = vvi_grad_reduce,
        [VV_OP_BROADCAST] = vvi_grad_broadcast,
        [VV_OP_TOPK] = vvi_grad_topk,
        [VV_OP_PERMUTE] = vvi_grad_permute,
        [VV_OP_SLICE] = vvi_grad_slice,
        [VV_OP_SLICE_GRAD] = vvi_grad_slice_grad,
        [VV_OP_CONCAT] = vvi_grad_concat,
        [VV_OP_PAD] = vvi_grad_pad,
        [VV_OP_GATHER] = vvi_grad_gather,
        [VV_OP_MATMUL] = vvi_grad_matmul,
        [VV_OP_CONV2D] = vvi_grad_conv2d,
        [VV_OP_CONV2D_GRAD_DATA] = vvi_grad_conv2d_grad_data,
        [VV_OP_POOL] = vvi_grad_pool,
        [VV_OP_ADAPTIVE_POOL] = vvi_grad_adaptive_pool,
        [VV_OP_RESIZE] = vvi_grad_resize,
        [VV_OP_BATCH_NORM] = vvi_grad_batch_norm,
        [VV_OP_LAYER_NORM] = vvi_grad_layer_norm,
        [VV_OP_RMS_NORM] = vvi_grad_rms_norm,
        [VV_OP_GROUP_NORM] = vvi_grad_group_norm,
        [VV_OP_ROTARY] = vvi_grad_rotary,
        [VV_OP_CUMSUM] = vvi_grad_cumsum,
        [VV_OP_SOFTMAX] = vvi_grad_softmax,
        [VV_OP_CROSS_ENTROPY] = vvi_grad_cross_entropy,
        [VV_OP_ATTENTION] = vvi_grad_attention,
        [VV_OP_LINEAR_CROSS_ENTROPY] = vvi_grad_linear_cross_entropy,
        [VV_OP_DROPOUT] = vvi_grad_dropout,
    };
    return grads[op];
}

/* Two products forward; backward the weights are made again and four follow. */
static int64_t attention_flops(const vv_call *c)
{
    const vv_buf *q = &c->in[c->op == VV_OP_ATTENTION ? 0 : 1], *k = q + 1;
    const int64_t pairs = vvi_attention_pairs(c->attr, q->shape[1], k->shape[1]);
    const int64_t product = 2 * q->shape[0] * q->shape[2] * q->shape[3] * pairs;
    return (c->op == VV_OP_ATTENTION ? 2 : 5) * product;
}

/* Multiply-adds count 2; padding taps are counted, as is usual. Only convolutions, matmuls and
   attention. */
int64_t vvi_op_flops(const vv_call *c)
{
    const vv_buf *w;
    switch (c->op) {
    case VV_OP_MATMUL: {
        const vv_buf *a = &c->in[0];
        int64_t k = a->shape[a->ndim - (c->attr->matmul.trans_a ? 2 : 1)];
        return 2 * c->out[0].count * k;
    }
    case VV_OP_CONV2D: /* per output element: one filter */
        w = &c->in[1];
        return 2 * c->out[0].count * (w->shape[0] ? w->count / w->shape[0] : 0);
    case VV_OP_CONV2D_GRAD_DATA: /* same work as the convolution whose output dy is */
        w = &c->in[1];
        return 2 * c->in[0].count * (w->shape[0] ? w->count / w->shape[0] : 0);
    case VV_OP_CONV2D_GRAD_WEIGHT:
        w = &c->out[0];
        return 2 * c->in[1].count * (w->shape[0] ? w->count / w->shape[0] : 0);
    case VV_OP_ATTENTION:
    case VV_OP_ATTENTION_GRAD: return attention_flops(c);
    case VV_OP_LINEAR_CROSS_ENTROPY: /* one product */
        return 2 * c->in[2].count * c->in[1].count;
    case VV_OP_LINEAR_CROSS_ENTROPY_GRAD: /* the logits again, and up to two more */
        return 2 * c->in[3].count * c->in[2].count *
               (1 + (c->out[0].count > 0) + (c->n_out > 1 && c->out[1].count > 0));
    default: return 0;
    }
}
