/* cpu.c - backend `cpu`: the kernel table. What it does not take falls to `ref`. */
#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"

#include "vvi_config.h"

static void describe(vv_str *out)
{
#if VVI_HAVE_DNNL
    vvi_onednn_describe(out);
    vv_str_add(out, ", ");
#endif
    vv_str_add(out, vv_cpu_has_bf16() ? "bf16 instructions" : "no bf16 instructions");
}

const vv_backend vvi_backend_cpu = {
    .name = "cpu",
    .kernels = {
        [VV_OP_FULL] = vvi_cpu_full,
        [VV_OP_UNARY] = vvi_cpu_unary,
        [VV_OP_UNARY_GRAD] = vvi_cpu_unary_grad,
        [VV_OP_BINARY] = vvi_cpu_binary,
        [VV_OP_WHERE] = vvi_cpu_where,
        [VV_OP_CAST] = vvi_cpu_cast,
        [VV_OP_REDUCE] = vvi_cpu_reduce,
        [VV_OP_BROADCAST] = vvi_cpu_broadcast,
        [VV_OP_ARGMAX] = vvi_cpu_argmax,
        [VV_OP_LARGEST] = vvi_cpu_largest,
        [VV_OP_PERMUTE] = vvi_cpu_permute,
        [VV_OP_SLICE] = vvi_cpu_slice,
        [VV_OP_SLICE_GRAD] = vvi_cpu_slice_grad,
        [VV_OP_CONCAT] = vvi_cpu_concat,
        [VV_OP_PAD] = vvi_cpu_pad,
        [VV_OP_GATHER] = vvi_cpu_gather,
        [VV_OP_GATHER_GRAD] = vvi_cpu_gather_grad,
        [VV_OP_ONE_HOT] = vvi_cpu_one_hot,
        [VV_OP_POOL] = vvi_cpu_pool,
        [VV_OP_POOL_GRAD] = vvi_cpu_pool_grad,
        [VV_OP_ADAPTIVE_POOL] = vvi_cpu_adaptive_pool,
        [VV_OP_ADAPTIVE_POOL_GRAD] = vvi_cpu_adaptive_pool_grad,
        [VV_OP_RESIZE] = vvi_cpu_resize,
        [VV_OP_RESIZE_GRAD] = vvi_cpu_resize_grad,
        [VV_OP_BATCH_NORM] = vvi_cpu_batch_norm,
        [VV_OP_BATCH_NORM_GRAD] = vvi_cpu_batch_norm_grad,
        [VV_OP_LAYER_NORM] = vvi_cpu_layer_norm,
        [VV_OP_LAYER_NORM_GRAD] = vvi_cpu_layer_norm_grad,
        [VV_OP_RMS_NORM] = vvi_cpu_rms_norm,
        [VV_OP_RMS_NORM_GRAD] = vvi_cpu_rms_norm_grad,
        [VV_OP_ROTARY] = vvi_cpu_rotary,
        [VV_OP_GROUP_NORM] = vvi_cpu_group_norm,
        [VV_OP_GROUP_NORM_GRAD] = vvi_cpu_group_norm_grad,
        [VV_OP_SOFTMAX] = vvi_cpu_softmax,
        [VV_OP_SOFTMAX_GRAD] = vvi_cpu_softmax_grad,
        [VV_OP_CROSS_ENTROPY] = vvi_cpu_cross_entropy,
        [VV_OP_CROSS_ENTROPY_GRAD] = vvi_cpu_cross_entropy_grad,
        [VV_OP_ATTENTION] = vvi_cpu_attention,
        [VV_OP_ATTENTION_GRAD] = vvi_cpu_attention_grad,
        [VV_OP_DROPOUT] = vvi_cpu_dropout,
        [VV_OP_RANDOM] = vvi_cpu_random,
        [VV_OP_ACCUMULATE] = vvi_cpu_accumulate,
        [VV_OP_FUSED] = vvi_cpu_fused,
#if VVI_HAVE_DNNL
        [VV_OP_MATMUL] = vvi_onednn_matmul,
        [VV_OP_LINEAR_CROSS_ENTROPY] = vvi_onednn_linear_cross_entropy,
        [VV_OP_LINEAR_CROSS_ENTROPY_GRAD] = vvi_onednn_linear_cross_entropy_grad,
        [VV_OP_CONV2D] = vvi_onednn_conv2d,
        [VV_OP_CONV2D_GRAD_DATA] = vvi_onednn_conv2d_grad_data,
        [VV_OP_CONV2D_GRAD_WEIGHT] = vvi_onednn_conv2d_grad_weight,
#endif
    },
    .next = &vvi_backend_ref,
    .describe = describe,
};
