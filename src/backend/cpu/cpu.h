/* cpu.h - backend `cpu`: vector kernels and oneDNN. One array per op, ended by a row whose run is NULL. */
#ifndef VVI_CPU_H
#define VVI_CPU_H

#include <vivace/ext/backend.h>

extern const vv_backend vvi_backend_cpu;

/* cpu_elementwise.c */
extern const vv_kernel vvi_cpu_unary[], vvi_cpu_unary_grad[], vvi_cpu_binary[], vvi_cpu_where[],
    vvi_cpu_cast[], vvi_cpu_fused[];
/* onednn_conv.c */
extern const vv_kernel vvi_onednn_conv2d[], vvi_onednn_conv2d_grad_data[],
    vvi_onednn_conv2d_grad_weight[];
/* onednn_matmul.c */
extern const vv_kernel vvi_onednn_matmul[];

#endif
