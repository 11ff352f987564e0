/* ref.c - backend `ref`: the table of reference kernels, and access to elements of any dtype. */
#include "backend/ref/ref.h"

double vvi_ref_get(const vv_buf *buf, int64_t i)
{
    switch (buf->dtype) {
    case VV_F32: return (double)((const float *)buf->data)[i];
    case VV_BF16: return (double)vv_bf16_to_f32(((const uint16_t *)buf->data)[i]);
    case VV_F64: return ((const double *)buf->data)[i];
    case VV_I32: return (double)((const int32_t *)buf->data)[i];
    case VV_I64: return (double)((const int64_t *)buf->data)[i];
    case VV_U8:
    case VV_BOOL: return (double)((const uint8_t *)buf->data)[i];
    default: return 0.0;
    }
}

void vvi_ref_set(const vv_buf *buf, int64_t i, double value)
{
    switch (buf->dtype) {
    case VV_F32: ((float *)buf->data)[i] = (float)value; break;
    case VV_BF16: ((uint16_t *)buf->data)[i] = vv_f32_to_bf16((float)value); break;
    case VV_F64: ((double *)buf->data)[i] = value; break;
    case VV_I32: ((int32_t *)buf->data)[i] = (int32_t)value; break;
    case VV_I64: ((int64_t *)buf->data)[i] = (int64_t)value; break;
    case VV_U8: ((uint8_t *)buf->data)[i] = (uint8_t)value; break;
    case VV_BOOL: ((uint8_t *)buf->data)[i] = value != 0.0; break;
    default: break;
    }
}

const vv_backend vvi_backend_ref = {
    .name = "ref",
    .kernels = {
        [VV_OP_FULL] = vvi_ref_full,
        [VV_OP_UNARY] = vvi_ref_unary,
        [VV_OP_UNARY_GRAD] = vvi_ref_unary_grad,
        [VV_OP_BINARY] = vvi_ref_binary,
        [VV_OP_WHERE] = vvi_ref_where,
        [VV_OP_CAST] = vvi_ref_cast,
        [VV_OP_REDUCE] = vvi_ref_reduce,
        [VV_OP_BROADCAST] = vvi_ref_broadcast,
        [VV_OP_ARGMAX] = vvi_ref_argmax,
        [VV_OP_TOPK] = vvi_ref_topk,
        [VV_OP_LARGEST] = vvi_ref_largest,
        [VV_OP_PERMUTE] = vvi_ref_permute,
        [VV_OP_SLICE] = vvi_ref_slice,
        [VV_OP_SLICE_GRAD] = vvi_ref_slice_grad,
        [VV_OP_CONCAT] = vvi_ref_concat,
        [VV_OP_PAD] = vvi_ref_pad,
        [VV_OP_GATHER] = vvi_ref_gather,
        [VV_OP_GATHER_GRAD] = vvi_ref_gather_grad,
        [VV_OP_ONE_HOT] = vvi_ref_one_hot,
        [VV_OP_MATMUL] = vvi_ref_matmul,
        [VV_OP_CONV2D] = vvi_ref_conv2d,
        [VV_OP_CONV2D_GRAD_DATA] = vvi_ref_conv2d_grad_data,
        [VV_OP_CONV2D_GRAD_WEIGHT] = vvi_ref_conv2d_grad_weight,
        [VV_OP_POOL] = vvi_ref_pool,
        [VV_OP_POOL_GRAD] = vvi_ref_pool_grad,
        [VV_OP_ADAPTIVE_POOL] = vvi_ref_adaptive_pool,
        [VV_OP_ADAPTIVE_POOL_GRAD] = vvi_ref_adaptive_pool_grad,
        [VV_OP_RESIZE] = vvi_ref_resize,
        [VV_OP_RESIZE_GRAD] = vvi_ref_resize_grad,
        [VV_OP_BATCH_NORM] = vvi_ref_batch_norm,
        [VV_OP_BATCH_NORM_GRAD] = vvi_ref_batch_norm_grad,
        [VV_OP_LAYER_NORM] = vvi_ref_layer_norm,
        [VV_OP_LAYER_NORM_GRAD] = vvi_ref_layer_norm_grad,
        [VV_OP_RMS_NORM] = vvi_ref_rms_norm,
        [VV_OP_RMS_NORM_GRAD] = vvi_ref_rms_norm_grad,
        [VV_OP_ROTARY] = vvi_ref_rotary,
        [VV_OP_CUMSUM] = vvi_ref_cumsum,
        [VV_OP_GROUP_NORM] = vvi_ref_group_norm,
        [VV_OP_GROUP_NORM_GRAD] = vvi_ref_group_norm_grad,
        [VV_OP_SOFTMAX] = vvi_ref_softmax,
        [VV_OP_SOFTMAX_GRAD] = vvi_ref_softmax_grad,
        [VV_OP_CROSS_ENTROPY] = vvi_ref_cross_entropy,
        [VV_OP_CROSS_ENTROPY_GRAD] = vvi_ref_cross_entropy_grad,
        [VV_OP_ATTENTION] = vvi_ref_attention,
        [VV_OP_ATTENTION_GRAD] = vvi_ref_attention_grad,
        [VV_OP_LINEAR_CROSS_ENTROPY] = vvi_ref_linear_cross_entropy,
        [VV_OP_LINEAR_CROSS_ENTROPY_GRAD] = vvi_ref_linear_cross_entropy_grad,
        [VV_OP_DROPOUT] = vvi_ref_dropout,
        [VV_OP_RANDOM] = vvi_ref_random,
        [VV_OP_ACCUMULATE] = vvi_ref_accumulate,
    },
    .next = NULL,
};
