/* cpu.h - backend `cpu`: vector kernels and oneDNN. One array per op, ended by a row whose run is
 * NULL. */
#ifndef VVI_CPU_H
#define VVI_CPU_H

#include <vivace/ext/backend.h>

extern const vv_backend vvi_backend_cpu;

/* cpu_elementwise.c */
extern const vv_kernel vvi_cpu_unary[], vvi_cpu_unary_grad[], vvi_cpu_binary[], vvi_cpu_where[],
    vvi_cpu_cast[], vvi_cpu_fused[];
/* cpu_random.c */
extern const vv_kernel vvi_cpu_dropout[], vvi_cpu_random[], vvi_cpu_full[], vvi_cpu_accumulate[];
/* cpu_reduce.c */
extern const vv_kernel vvi_cpu_reduce[], vvi_cpu_argmax[], vvi_cpu_largest[];
/* cpu_shape.c, cpu_permute.c, cpu_gather.c */
extern const vv_kernel vvi_cpu_slice[], vvi_cpu_slice_grad[], vvi_cpu_concat[], vvi_cpu_pad[],
    vvi_cpu_broadcast[], vvi_cpu_permute[], vvi_cpu_gather[], vvi_cpu_gather_grad[],
    vvi_cpu_one_hot[];
/* cpu_pool.c, cpu_resize.c */
extern const vv_kernel vvi_cpu_pool[], vvi_cpu_pool_grad[], vvi_cpu_adaptive_pool[],
    vvi_cpu_adaptive_pool_grad[], vvi_cpu_resize[], vvi_cpu_resize_grad[];
/* cpu_batch_norm.c, cpu_layer_norm.c, cpu_group_norm.c */
extern const vv_kernel vvi_cpu_batch_norm[], vvi_cpu_batch_norm_grad[], vvi_cpu_layer_norm[],
    vvi_cpu_layer_norm_grad[], vvi_cpu_rms_norm[], vvi_cpu_rms_norm_grad[],
    vvi_cpu_group_norm[], vvi_cpu_group_norm_grad[];
/* cpu_rotary.c */
extern const vv_kernel vvi_cpu_rotary[];
/* cpu_softmax.c */
extern const vv_kernel vvi_cpu_softmax[], vvi_cpu_softmax_grad[], vvi_cpu_cross_entropy[],
    vvi_cpu_cross_entropy_grad[];
/* cpu_attention.c, cpu_attention_grad.c */
extern const vv_kernel vvi_cpu_attention[], vvi_cpu_attention_grad[];
/* onednn_conv.c */
extern const vv_kernel vvi_onednn_conv2d[], vvi_onednn_conv2d_grad_data[],
    vvi_onednn_conv2d_grad_weight[];
/* onednn_linear_loss.c */
extern const vv_kernel vvi_onednn_linear_cross_entropy[], vvi_onednn_linear_cross_entropy_grad[];
/* onednn_matmul.c */
extern const vv_kernel vvi_onednn_matmul[];
/* onednn.c: version and instruction set */
void vvi_onednn_describe(vv_str *out);

#endif
