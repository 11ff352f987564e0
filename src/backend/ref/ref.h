/* ref.h - the reference kernels: plain C, slow, obvious, complete. One array per op, ended by a row
 * whose run is NULL. */
#ifndef VVI_REF_H
#define VVI_REF_H

#include <vivace/ext/backend.h>

/* Element i of any dtype as a double, and back (rounded to the dtype). */
double vvi_ref_get(const vv_buf *buf, int64_t i);
void vvi_ref_set(const vv_buf *buf, int64_t i, double value);

/* ref_elementwise.c */
extern const vv_kernel vvi_ref_full[], vvi_ref_unary[], vvi_ref_unary_grad[], vvi_ref_binary[],
    vvi_ref_where[], vvi_ref_cast[], vvi_ref_dropout[], vvi_ref_random[], vvi_ref_accumulate[];
/* ref_reduce.c */
extern const vv_kernel vvi_ref_reduce[], vvi_ref_broadcast[], vvi_ref_argmax[], vvi_ref_topk[],
    vvi_ref_largest[];
/* ref_shape.c */
extern const vv_kernel vvi_ref_permute[], vvi_ref_slice[], vvi_ref_slice_grad[], vvi_ref_concat[],
    vvi_ref_pad[], vvi_ref_gather[], vvi_ref_gather_grad[], vvi_ref_one_hot[];
/* ref_matmul.c */
extern const vv_kernel vvi_ref_matmul[];
/* ref_conv.c */
extern const vv_kernel vvi_ref_conv2d[], vvi_ref_conv2d_grad_data[], vvi_ref_conv2d_grad_weight[];
/* ref_pool.c */
extern const vv_kernel vvi_ref_pool[], vvi_ref_pool_grad[], vvi_ref_adaptive_pool[],
    vvi_ref_adaptive_pool_grad[], vvi_ref_resize[], vvi_ref_resize_grad[];
/* ref_norm.c */
extern const vv_kernel vvi_ref_batch_norm[], vvi_ref_batch_norm_grad[], vvi_ref_layer_norm[],
    vvi_ref_layer_norm_grad[], vvi_ref_group_norm[], vvi_ref_group_norm_grad[];
extern const vv_kernel vvi_ref_rms_norm[], vvi_ref_rms_norm_grad[];
/* ref_linear_loss.c */
extern const vv_kernel vvi_ref_linear_cross_entropy[], vvi_ref_linear_cross_entropy_grad[];
/* ref_sequence.c */
extern const vv_kernel vvi_ref_rotary[], vvi_ref_cumsum[];
/* ref_loss.c */
extern const vv_kernel vvi_ref_softmax[], vvi_ref_softmax_grad[], vvi_ref_cross_entropy[],
    vvi_ref_cross_entropy_grad[];
/* ref_attention.c */
extern const vv_kernel vvi_ref_attention[], vvi_ref_attention_grad[];

extern const vv_backend vvi_backend_ref;

#endif
