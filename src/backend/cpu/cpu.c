/* cpu.c - backend `cpu`: the kernel table. What it does not take falls to `ref`. */
#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"

#include "vvi_config.h"

const vv_backend vvi_backend_cpu = {
    .name = "cpu",
    .kernels = {
        [VV_OP_UNARY] = vvi_cpu_unary,
        [VV_OP_UNARY_GRAD] = vvi_cpu_unary_grad,
        [VV_OP_BINARY] = vvi_cpu_binary,
        [VV_OP_WHERE] = vvi_cpu_where,
        [VV_OP_CAST] = vvi_cpu_cast,
        [VV_OP_FUSED] = vvi_cpu_fused,
#if VVI_HAVE_DNNL
        [VV_OP_MATMUL] = vvi_onednn_matmul,
        [VV_OP_CONV2D] = vvi_onednn_conv2d,
        [VV_OP_CONV2D_GRAD_DATA] = vvi_onednn_conv2d_grad_data,
        [VV_OP_CONV2D_GRAD_WEIGHT] = vvi_onednn_conv2d_grad_weight,
#endif
    },
    .next = &vvi_backend_ref,
};
