/* onednn_compat.h - what differs between oneDNN 2 and 3: descriptors and the creation of
 * primitives.
 *
 * Version 2 has memory descriptors as structs and operation descriptors beside them; version 3 has
 * opaque memory descriptors and creates primitive descriptors directly. Everything else is alike in
 * both. */
#ifndef VVI_ONEDNN_COMPAT_H
#define VVI_ONEDNN_COMPAT_H

#include <dnnl.h>

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t vvi_md;
#else
typedef const dnnl_memory_desc_t *vvi_md;
#endif

/* strides NULL: the library chooses the layout ("any"). Freed by vvi_md_free. */
dnnl_status_t vvi_md_new(vvi_md *out, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                         const dnnl_dims_t strides);
dnnl_status_t vvi_md_copy(vvi_md *out, vvi_md md);
void vvi_md_free(vvi_md md);

typedef struct vvi_conv_geometry {
    dnnl_dims_t stride, dilate, pad_before, pad_after; /* dilate 0 = dense */
} vvi_conv_geometry;

dnnl_status_t vvi_pd_conv_forward(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                  dnnl_primitive_attr_t attr, vvi_md src, vvi_md weights,
                                  vvi_md bias, vvi_md dst, const vvi_conv_geometry *geometry);
dnnl_status_t vvi_pd_conv_backward_data(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                        dnnl_primitive_attr_t attr, vvi_md src, vvi_md weights,
                                        vvi_md dst, const vvi_conv_geometry *geometry,
                                        dnnl_primitive_desc_t forward);
dnnl_status_t vvi_pd_conv_backward_weights(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                           dnnl_primitive_attr_t attr, vvi_md src, vvi_md weights,
                                           vvi_md dst, const vvi_conv_geometry *geometry,
                                           dnnl_primitive_desc_t forward);
dnnl_status_t vvi_pd_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                            dnnl_primitive_attr_t attr, vvi_md src, vvi_md weights, vvi_md bias,
                            vvi_md dst);

/* Appends "add what the output holds". */
dnnl_status_t vvi_post_ops_sum(dnnl_post_ops_t ops);

#endif
