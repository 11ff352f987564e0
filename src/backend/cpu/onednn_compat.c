/* onednn_compat.c - the creation calls of oneDNN 2 and 3 behind one face. */
#include "backend/cpu/onednn_compat.h"

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t vvi_md_new(vvi_md *out, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                         const dnnl_dims_t strides)
{
    dnnl_memory_desc_t md = NULL;
    const dnnl_status_t status =
        strides ? dnnl_memory_desc_create_with_strides(&md, ndims, dims, type, strides)
                : dnnl_memory_desc_create_with_tag(&md, ndims, dims, type, dnnl_format_tag_any);
    *out = md;
    return status;
}

dnnl_status_t vvi_md_copy(vvi_md *out, vvi_md md)
{
    dnnl_memory_desc_t copy = NULL;
    const dnnl_status_t status = dnnl_memory_desc_clone(&copy, md);
    *out = copy;
    return status;
}

void vvi_md_free(vvi_md md)
{
    union {
        const_dnnl_memory_desc_t read;
        dnnl_memory_desc_t own;
    } u = {md};
    if (md)
        dnnl_memory_desc_destroy(u.own);
}

dnnl_status_t vvi_pd_conv_forward(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                  dnnl_primitive_attr_t attr, vvi_md src, vvi_md weights,
                                  vvi_md bias, vvi_md dst, const vvi_conv_geometry *g)
{
    return dnnl_convolution_forward_primitive_desc_create(
        out, engine, dnnl_forward_training, dnnl_convolution_direct, src, weights, bias, dst,
        g->stride, g->dilate, g->pad_before, g->pad_after, attr);
}

dnnl_status_t vvi_pd_conv_backward_data(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                        dnnl_primitive_attr_t attr, vvi_md src, vvi_md weights,
                                        vvi_md dst, const vvi_conv_geometry *g,
                                        dnnl_primitive_desc_t forward)
{
    return dnnl_convolution_backward_data_primitive_desc_create(
        out, engine, dnnl_convolution_direct, src, weights, dst, g->stride, g->dilate,
        g->pad_before, g->pad_after, forward, attr);
}

dnnl_status_t vvi_pd_conv_backward_weights(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                           dnnl_primitive_attr_t attr, vvi_md src, vvi_md weights,
                                           vvi_md dst, const vvi_conv_geometry *g,
                                           dnnl_primitive_desc_t forward)
{
    return dnnl_convolution_backward_weights_primitive_desc_create(
        out, engine, dnnl_convolution_direct, src, weights, NULL, dst, g->stride, g->dilate,
        g->pad_before, g->pad_after, forward, attr);
}

dnnl_status_t vvi_pd_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                            dnnl_primitive_attr_t attr, vvi_md src, vvi_md weights, vvi_md bias,
                            vvi_md dst)
{
    return dnnl_matmul_primitive_desc_create(out, engine, src, weights, bias, dst, attr);
}

dnnl_status_t vvi_post_ops_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

#else

#include <vivace/memory.h>

dnnl_status_t vvi_md_copy(vvi_md *out, vvi_md md)
{
    dnnl_memory_desc_t *copy;
    *out = NULL;
    if (vv_alloc(&copy, sizeof *copy) != VV_OK)
        return dnnl_out_of_memory;
    *copy = *md;
    *out = copy;
    return dnnl_success;
}

dnnl_status_t vvi_md_new(vvi_md *out, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                         const dnnl_dims_t strides)
{
    dnnl_memory_desc_t md;
    *out = NULL;
    const dnnl_status_t status =
        strides ? dnnl_memory_desc_init_by_strides(&md, ndims, dims, type, strides)
                : dnnl_memory_desc_init_by_tag(&md, ndims, dims, type, dnnl_format_tag_any);
    return status == dnnl_success ? vvi_md_copy(out, &md) : status;
}

void vvi_md_free(vvi_md md)
{
    union {
        const dnnl_memory_desc_t *read;
        dnnl_memory_desc_t *own;
    } u = {md};
    vv_dealloc(u.own);
}

dnnl_status_t vvi_pd_conv_forward(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                  dnnl_primitive_attr_t attr, vvi_md src, vvi_md weights,
                                  vvi_md bias, vvi_md dst, const vvi_conv_geometry *g)
{
    dnnl_convolution_desc_t desc;
    const dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_training, dnnl_convolution_direct, src, weights, bias, dst, g->stride,
        g->dilate, g->pad_before, g->pad_after);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &desc, attr, engine, NULL)
                                  : status;
}

dnnl_status_t vvi_pd_conv_backward_data(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                        dnnl_primitive_attr_t attr, vvi_md src, vvi_md weights,
                                        vvi_md dst, const vvi_conv_geometry *g,
                                        dnnl_primitive_desc_t forward)
{
    dnnl_convolution_desc_t desc;
    const dnnl_status_t status = dnnl_dilated_convolution_backward_data_desc_init(
        &desc, dnnl_convolution_direct, src, weights, dst, g->stride, g->dilate, g->pad_before,
        g->pad_after);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &desc, attr, engine, forward)
                                  : status;
}

dnnl_status_t vvi_pd_conv_backward_weights(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                           dnnl_primitive_attr_t attr, vvi_md src, vvi_md weights,
                                           vvi_md dst, const vvi_conv_geometry *g,
                                           dnnl_primitive_desc_t forward)
{
    dnnl_convolution_desc_t desc;
    const dnnl_status_t status = dnnl_dilated_convolution_backward_weights_desc_init(
        &desc, dnnl_convolution_direct, src, weights, NULL, dst, g->stride, g->dilate,
        g->pad_before, g->pad_after);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &desc, attr, engine, forward)
                                  : status;
}

dnnl_status_t vvi_pd_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                            dnnl_primitive_attr_t attr, vvi_md src, vvi_md weights, vvi_md bias,
                            vvi_md dst)
{
    dnnl_matmul_desc_t desc;
    const dnnl_status_t status = dnnl_matmul_desc_init(&desc, src, weights, bias, dst);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &desc, attr, engine, NULL)
                                  : status;
}

dnnl_status_t vvi_post_ops_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

#endif
