/* bench_op_cases.c - operands and formulas of the operations that `vivace bench op` measures. */
#include "bench_op.h"

#include <string.h>

/* ---- operands ---- */

static vv_status add(bench_case *c, vv_dtype dtype, bool wanted, int ndim, const int64_t *shape)
{
    vv_tensor *plain = NULL;
    vv_status status;
    VV_GO(vv_tensor_new(&plain, VV_F32, ndim, shape));
    vv_rng rng = vv_rng_at(1, "bench op", (uint64_t)c->count);
    for (int64_t i = 0; i < plain->count; i++)
        ((float *)plain->data)[i] = (float)vv_rng_uniform_in(&rng, -1.0, 1.0);
    VV_GO(vv_tensor_cast(&c->leaves[c->count], plain, dtype));
    c->wanted[c->count++] = wanted;
out:
    vv_tensor_free(plain);
    return status;
}

/* What goes through a net: in bf16 if that is asked for. */
static vv_status add_activation(bench_case *c, int ndim, const int64_t *shape)
{
    return add(c, c->o.precision ? VV_BF16 : VV_F32, true, ndim, shape);
}

static vv_status add_vector(bench_case *c, int64_t count)
{
    return add(c, VV_F32, true, 1, &count);
}

static vv_status add_index(bench_case *c, int ndim, const int64_t *shape, int64_t below)
{
    vv_tensor **out = &c->leaves[c->count++];
    VV_TRY(vv_tensor_new(out, VV_I32, ndim, shape));
    vv_rng rng = vv_rng_at(1, "bench op index", 0);
    for (int64_t i = 0; i < (*out)->count; i++)
        ((int32_t *)(*out)->data)[i] = (int32_t)vv_rng_below(&rng, below);
    return VV_OK;
}

static vv_status add_images(bench_case *c)
{
    const int64_t shape[4] = {c->o.batch, c->o.size, c->o.size, c->o.channels};
    return add_activation(c, 4, shape);
}

static vv_status add_rows(bench_case *c)
{
    const int64_t shape[2] = {c->o.rows, c->o.columns};
    return add_activation(c, 2, shape);
}

/* ---- kinds ---- */

static vv_status fill_conv(bench_case *c)
{
    const bench_op_opts *o = &c->o;
    const int64_t weight[4] = {o->out, o->channels / o->groups, o->kernel, o->kernel};
    if (o->channels % o->groups || o->out % o->groups)
        return vv_fail(VV_EINVAL, "bench op conv: %lld groups do not divide the channels",
                       (long long)o->groups);
    VV_TRY(add_images(c));
    return add_activation(c, 4, weight);
}

static vv_node *build_conv(const bench_case *c, vv_node *const *in)
{
    vv_conv_opts opts = VV_CONV_DEFAULTS;
    opts.stride[0] = opts.stride[1] = c->o.stride;
    opts.pad[0] = opts.pad[1] = c->o.kernel / 2;
    opts.groups = c->o.groups;
    return vv_conv2d(in[0], in[1], NULL, &opts);
}

static vv_status fill_matmul(bench_case *c)
{
    const int64_t a[2] = {c->o.rows, c->o.inner}, b[2] = {c->o.columns, c->o.inner};
    VV_TRY(add_activation(c, 2, a));
    return add_activation(c, 2, b);
}

static vv_node *build_matmul(const bench_case *c, vv_node *const *in)
{
    (void)c;
    return vv_linear(in[0], in[1], NULL);
}

static vv_status fill_attention(bench_case *c)
{
    const int64_t shape[4] = {c->o.batch, c->o.seq, c->o.heads, c->o.head_dim};
    for (int i = 0; i < 3; i++)
        VV_TRY(add_activation(c, 4, shape));
    return VV_OK;
}

static vv_node *build_attention(const bench_case *c, vv_node *const *in)
{
    vv_attention_opts opts = VV_ATTENTION_DEFAULTS;
    opts.causal = c->o.causal;
    return vv_attention(in[0], in[1], in[2], NULL, NULL, NULL, &opts);
}

static vv_status fill_image_norm(bench_case *c)
{
    VV_TRY(add_images(c));
    VV_TRY(add_vector(c, c->o.channels));
    return add_vector(c, c->o.channels);
}

static vv_status fill_row_norm(bench_case *c)
{
    VV_TRY(add_rows(c));
    VV_TRY(add_vector(c, c->o.columns));
    return add_vector(c, c->o.columns);
}

static vv_node *build_batch_norm(const bench_case *c, vv_node *const *in)
{
    (void)c;
    return vv_relu(vv_batch_norm(in[0], in[1], in[2], 1e-5, NULL, NULL));
}

static vv_node *build_group_norm(const bench_case *c, vv_node *const *in)
{
    return vv_group_norm(in[0], in[1], in[2], c->o.groups, 1e-5);
}

static vv_node *build_layer_norm(const bench_case *c, vv_node *const *in)
{
    (void)c;
    return vv_layer_norm(in[0], in[1], in[2], 1e-5);
}

static vv_status fill_rms_norm(bench_case *c)
{
    VV_TRY(add_rows(c));
    return add_vector(c, c->o.columns);
}

static vv_node *build_rms_norm(const bench_case *c, vv_node *const *in)
{
    (void)c;
    return vv_rms_norm(in[0], in[1], 1e-5);
}

static vv_status fill_chain(bench_case *c)
{
    VV_TRY(add_rows(c));
    return add_rows(c);
}

/* A gated unit: three element-wise operations that one pass should do. */
static vv_node *build_chain(const bench_case *c, vv_node *const *in)
{
    (void)c;
    return vv_affine(vv_mul(vv_gelu_tanh(in[0]), in[1]), 0.5, 0.0);
}

static vv_pool_opts pool_of(const bench_case *c)
{
    vv_pool_opts opts;
    memset(&opts, 0, sizeof opts);
    opts.kernel[0] = opts.kernel[1] = c->o.kernel;
    opts.stride[0] = opts.stride[1] = c->o.stride;
    return opts;
}

static vv_node *build_max_pool(const bench_case *c, vv_node *const *in)
{
    const vv_pool_opts opts = pool_of(c);
    return vv_max_pool2d(in[0], &opts);
}

static vv_node *build_avg_pool(const bench_case *c, vv_node *const *in)
{
    const vv_pool_opts opts = pool_of(c);
    return vv_avg_pool2d(in[0], &opts);
}

static vv_node *build_resize(const bench_case *c, vv_node *const *in)
{
    return vv_resize(in[0], c->o.out, c->o.out, VV_RESIZE_BILINEAR);
}

static vv_status fill_embedding(bench_case *c)
{
    const int64_t table[2] = {c->o.vocabulary, c->o.columns};
    VV_TRY(add(c, VV_F32, true, 2, table));
    return add_index(c, 1, &c->o.rows, c->o.vocabulary);
}

static vv_node *build_embedding(const bench_case *c, vv_node *const *in)
{
    (void)c;
    return vv_embedding(in[1], in[0]);
}

static vv_status fill_cross_entropy(bench_case *c)
{
    const int64_t logits[2] = {c->o.rows, c->o.vocabulary};
    VV_TRY(add_activation(c, 2, logits));
    return add_index(c, 1, &c->o.rows, c->o.vocabulary);
}

static vv_node *build_cross_entropy(const bench_case *c, vv_node *const *in)
{
    (void)c;
    return vv_cross_entropy(in[0], in[1], NULL, -100);
}

static vv_status fill_linear_cross_entropy(bench_case *c)
{
    const int64_t x[2] = {c->o.rows, c->o.inner}, weight[2] = {c->o.vocabulary, c->o.inner};
    VV_TRY(add_activation(c, 2, x));
    VV_TRY(add_activation(c, 2, weight));
    return add_index(c, 1, &c->o.rows, c->o.vocabulary);
}

static vv_node *build_linear_cross_entropy(const bench_case *c, vv_node *const *in)
{
    (void)c;
    return vv_linear_cross_entropy(in[0], in[1], NULL, in[2], NULL);
}

const bench_kind bench_kinds[] = {
    {"conv", "batch, size, channels, out, kernel, stride, groups",
     {.batch = 8, .size = 16, .channels = 128, .out = 128, .kernel = 3, .stride = 1, .groups = 1},
     fill_conv, build_conv},
    {"matmul", "rows, inner, columns",
     {.rows = 1024, .inner = 384, .columns = 1536}, fill_matmul, build_matmul},
    {"attention", "batch, seq, heads, head_dim, causal",
     {.batch = 4, .seq = 256, .heads = 6, .head_dim = 64}, fill_attention, build_attention},
    {"batch_norm", "batch, size, channels (with ReLU)",
     {.batch = 64, .size = 32, .channels = 64}, fill_image_norm, build_batch_norm},
    {"group_norm", "batch, size, channels, groups",
     {.batch = 64, .size = 32, .channels = 64, .groups = 8}, fill_image_norm, build_group_norm},
    {"layer_norm", "rows, columns", {.rows = 2048, .columns = 768}, fill_row_norm,
     build_layer_norm},
    {"rms_norm", "rows, columns", {.rows = 2048, .columns = 768}, fill_rms_norm, build_rms_norm},
    {"chain", "rows, columns (gelu(a) * b / 2)", {.rows = 2048, .columns = 3072}, fill_chain,
     build_chain},
    {"max_pool", "batch, size, channels, kernel, stride",
     {.batch = 64, .size = 32, .channels = 64, .kernel = 2, .stride = 2}, add_images,
     build_max_pool},
    {"avg_pool", "batch, size, channels, kernel, stride",
     {.batch = 64, .size = 32, .channels = 64, .kernel = 2, .stride = 2}, add_images,
     build_avg_pool},
    {"resize", "batch, size, channels, out (its side)",
     {.batch = 16, .size = 64, .channels = 16, .out = 48}, add_images, build_resize},
    {"embedding", "rows, columns, vocabulary",
     {.rows = 2048, .columns = 384, .vocabulary = 8192}, fill_embedding, build_embedding},
    {"cross_entropy", "rows, vocabulary", {.rows = 512, .vocabulary = 8192}, fill_cross_entropy,
     build_cross_entropy},
    {"linear_cross_entropy", "rows, inner, vocabulary",
     {.rows = 256, .inner = 256, .vocabulary = 4096}, fill_linear_cross_entropy,
     build_linear_cross_entropy},
    {.name = NULL},
};
