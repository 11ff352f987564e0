/* layers_misc.c - layers without parameters: pooling, activations, dropout, flatten, sequences. */
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

/* Module of a class whose `self` is a plain struct. */
static vv_status plain_new(vv_module **out, const vv_module_class *type, const void *self,
                           size_t self_bytes)
{
    VV_TRY(vv_module_new(out, type, self_bytes));
    memcpy(vv_module_self(*out), self, self_bytes);
    return VV_OK;
}

/* ---- pooling ---- */

static vv_node *max_pool_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)graph;
    return vv_max_pool2d(x, vv_module_self(module));
}

static vv_node *avg_pool_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)graph;
    return vv_avg_pool2d(x, vv_module_self(module));
}

const vv_module_class vv_max_pool_class = {"MaxPool2d", max_pool_forward, NULL};
const vv_module_class vv_avg_pool_class = {"AvgPool2d", avg_pool_forward, NULL};

static vv_status pool_new(vv_module **out, const vv_module_class *type, const vv_pool_opts *opts)
{
    vv_pool_opts pool;

    *out = NULL;
    if (!opts)
        return vv_fail(VV_EINVAL, "%s: options are NULL; a kernel size is needed", type->name);
    pool = *opts;
    for (int i = 0; i < 2; i++) {
        if (pool.stride[i] == 0)
            pool.stride[i] = pool.kernel[i];
        if (pool.kernel[i] < 1 || pool.stride[i] < 1)
            return vv_fail(VV_EINVAL, "%s: kernel %lld and stride %lld must be positive",
                           type->name, (long long)pool.kernel[i], (long long)pool.stride[i]);
        if (pool.pad[i] < 0 || 2 * pool.pad[i] > pool.kernel[i])
            return vv_fail(VV_EINVAL, "%s: pad %lld is outside [0, half of kernel %lld]",
                           type->name, (long long)pool.pad[i], (long long)pool.kernel[i]);
    }
    return plain_new(out, type, &pool, sizeof pool);
}

vv_status vv_max_pool_new(vv_module **out, const vv_pool_opts *opts)
{
    return pool_new(out, &vv_max_pool_class, opts);
}

vv_status vv_avg_pool_new(vv_module **out, const vv_pool_opts *opts)
{
    return pool_new(out, &vv_avg_pool_class, opts);
}

static vv_node *adaptive_avg_pool_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const int64_t *size = vv_module_self(module);

    (void)graph;
    return vv_adaptive_avg_pool2d(x, size[0], size[1]);
}

const vv_module_class vv_adaptive_avg_pool_class = {"AdaptiveAvgPool2d", adaptive_avg_pool_forward,
                                                    NULL};

vv_status vv_adaptive_avg_pool_new(vv_module **out, int64_t height, int64_t width)
{
    const int64_t size[2] = {height, width};

    *out = NULL;
    if (height < 1 || width < 1)
        return vv_fail(VV_EINVAL, "AdaptiveAvgPool2d: size %lldx%lld must be positive",
                       (long long)height, (long long)width);
    return plain_new(out, &vv_adaptive_avg_pool_class, size, sizeof size);
}

/* ---- activation, dropout ---- */

typedef struct vvi_activation {
    vv_activation kind;
    double slope;
} vvi_activation;

static vv_node *activation_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const vvi_activation *self = vv_module_self(module);

    (void)graph;
    switch (self->kind) {
    case VV_ACT_RELU:
        return vv_relu(x);
    case VV_ACT_LEAKY_RELU:
        return vv_leaky_relu(x, self->slope);
    case VV_ACT_GELU:
        return vv_gelu(x);
    case VV_ACT_GELU_TANH:
        return vv_gelu_tanh(x);
    case VV_ACT_SILU:
        return vv_silu(x);
    case VV_ACT_SIGMOID:
        return vv_sigmoid(x);
    case VV_ACT_TANH:
        return vv_tanh(x);
    case VV_ACT_HARDSWISH:
        return vv_hardswish(x);
    case VV_ACT_RELU2:
        return vv_square(vv_relu(x));
    }
    return NULL;
}

const vv_module_class vv_activation_class = {"Activation", activation_forward, NULL};

vv_status vv_activation_new(vv_module **out, vv_activation kind, double slope)
{
    const vvi_activation self = {kind, slope};

    *out = NULL;
    if (kind < VV_ACT_RELU || kind > VV_ACT_RELU2)
        return vv_fail(VV_EINVAL, "Activation: there is no kind %d; see vv_activation in nn.h",
                       (int)kind);
    return plain_new(out, &vv_activation_class, &self, sizeof self);
}

static vv_node *dropout_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)graph;
    return vv_module_training(module) ? vv_dropout(x, *(const double *)vv_module_self(module)) : x;
}

const vv_module_class vv_dropout_class = {"Dropout", dropout_forward, NULL};

vv_status vv_dropout_new(vv_module **out, double p)
{
    *out = NULL;
    if (!(p >= 0.0 && p < 1.0))
        return vv_fail(VV_EINVAL, "Dropout: p %g is outside [0, 1)", p);
    return plain_new(out, &vv_dropout_class, &p, sizeof p);
}

static vv_node *drop_path_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    const double p = *(const double *)vv_module_self(module);
    const int ndim = vv_node_ndim(x);
    int64_t shape[VV_MAX_DIMS];

    if (!vv_module_training(module) || p == 0.0 || ndim == 0)
        return x;
    for (int i = 0; i < ndim; i++)
        shape[i] = i == 0 ? vv_node_shape(x)[0] : 1;

    vv_node *u = vv_random_uniform(graph, ndim, shape);
    vv_node *kept = vv_cast(vv_greater_equal(u, vv_scalar(graph, p)), VV_F32);

    return vv_mul(x, vv_cast(vv_affine(kept, 1.0 / (1.0 - p), 0.0), vv_node_dtype(x)));
}

const vv_module_class vv_drop_path_class = {"DropPath", drop_path_forward, NULL};

vv_status vv_drop_path_new(vv_module **out, double p)
{
    *out = NULL;
    if (!(p >= 0.0 && p < 1.0))
        return vv_fail(VV_EINVAL, "DropPath: p %g is outside [0, 1)", p);
    return plain_new(out, &vv_drop_path_class, &p, sizeof p);
}

/* ---- flatten, identity, sequential ---- */

static vv_node *flatten_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    int ndim = vv_node_ndim(x);
    int order[VV_MAX_DIMS] = {0, ndim - 1};
    int64_t shape[2] = {ndim ? vv_node_shape(x)[0] : 1, 1};
    int64_t positions = 1; /* per channel */

    (void)module;
    (void)graph;
    for (int i = 1; i < ndim; i++)
        shape[1] *= vv_node_shape(x)[i];
    for (int i = 1; i < ndim - 1; i++)
        positions *= vv_node_shape(x)[i];
    for (int i = 2; i < ndim; i++)
        order[i] = i - 1;
    if (positions > 1 && vv_node_shape(x)[ndim - 1] > 1)
        x = vv_permute(x, order);
    return ndim == 2 ? x : vv_reshape(x, 2, shape);
}

static vv_node *identity_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    (void)module;
    (void)graph;
    return x;
}

static vv_node *sequential_forward(vv_module *module, vv_graph *graph, vv_node *x)
{
    for (int i = 0; i < vv_module_child_count(module); i++)
        x = vv_module_forward(vv_module_child(module, i), graph, x);
    return x;
}

const vv_module_class vv_flatten_class = {"Flatten", flatten_forward, NULL};
const vv_module_class vv_identity_class = {"Identity", identity_forward, NULL};
const vv_module_class vv_sequential_class = {"Sequential", sequential_forward, NULL};

vv_status vv_flatten_new(vv_module **out)
{
    return vv_module_new(out, &vv_flatten_class, 0);
}

vv_status vv_identity_new(vv_module **out)
{
    return vv_module_new(out, &vv_identity_class, 0);
}

vv_status vv_sequential_new(vv_module **out)
{
    return vv_module_new(out, &vv_sequential_class, 0);
}

vv_status vv_sequential_push(vv_module *sequential, vv_status made, vv_module *child)
{
    char name[16];

    if (made != VV_OK || !sequential) {
        vv_module_free(child);
        return made != VV_OK ? made : vv_fail(VV_EINVAL, "sequential_push: the sequence is NULL");
    }
    snprintf(name, sizeof name, "%d", vv_module_child_count(sequential));
    return vv_module_add_child(sequential, name, child);
}
